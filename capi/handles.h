// What is behind the handles of the C API, and the conversions that every source file here needs.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "base/flags.h"
#include "base/float_environment.h"
#include "base/text.h"
#include "capi/include/tilewright/tilewright.h"
#include "ir/graph.h"
#include "runtime/compile.h"
#include "runtime/executable.h"
#include "runtime/session.h"

struct tw_status {
  tilewright::Status status;
  std::string text;
  std::unique_ptr<tw_status> cause;
};

struct tw_text {
  std::string text;
};

struct tw_options {
  tilewright::Flags flags;
};

// Shared handles count references; the count starts at the caller's one.
struct Counted {
  std::atomic<int64_t> references{1};
};

struct tw_session : Counted {
  std::shared_ptr<tilewright::Session> session;
};

struct tw_constant : Counted {
  tilewright::ConstantRef constant;
};

struct tw_graph : Counted {
  tilewright::Graph graph;
  // Expressions behind symbolic tw_dim handles; interned, so that inspection does not grow the table without
  // end.
  mutable std::mutex dims_mutex;
  mutable std::vector<tilewright::Dim> dims;
};

namespace tilewright::capi {
// The arguments of one run as the runtime takes them.
struct RunArguments {
  std::vector<TensorView> views;  // inputs, then given outputs
  std::vector<const TensorView*> inputs, given;
  Bindings symbols;
  tw_run_options options;
};
}  // namespace tilewright::capi

struct tw_executable : Counted {
  std::shared_ptr<tilewright::Executable> executable;
  // Kept between runs, so that a run allocates nothing; a second one at the same time has its own.
  std::atomic<tilewright::capi::RunArguments*> spare{nullptr};
  ~tw_executable() { delete spare.load(); }
};

struct tw_compile_job : Counted {
  std::shared_ptr<tilewright::CompileJob> job;
};

namespace tilewright::capi {

tw_status* to_c(Status status);
Status take_status(tw_status* status);  // releases the handle

inline tw_text* make_text(std::string text) { return new tw_text{std::move(text)}; }

// Runs the body of an API function, which gets its name for messages: no exception leaves, errno is kept.
template <class Body>
tw_status* guarded(const char* call, Body&& body) noexcept {
  const int saved = errno;
  const DefaultFloatEnvironment environment;  // texts are read, and constants folded, as on any other host
  tw_status* result = nullptr;
  try {
    result = to_c(body(call));
  } catch (const std::bad_alloc&) {
    static tw_status* const out_of_memory =
        new tw_status{Status::exhausted("out of memory"), "out of memory", nullptr};
    result = out_of_memory;
  } catch (const std::exception& error) {
    result = new (std::nothrow) tw_status{Status::internal(error.what()), error.what(), nullptr};
  } catch (...) {
    result =
        new (std::nothrow) tw_status{Status::internal("unknown exception"), "unknown exception", nullptr};
  }
  errno = saved;
  return result;
}

template <class Handle>
Handle* retain(Handle* handle) {
  if (handle) handle->references.fetch_add(1, std::memory_order_relaxed);
  return handle;
}
template <class Handle>
void release(Handle* handle) {
  const int saved = errno;
  if (handle && handle->references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete handle;
  errno = saved;
}

// Leaves the body of `guarded` with InvalidArgument when a pointer is null.
#define TW_REQUIRE(pointer)                                                                                  \
  do {                                                                                                       \
    if (!(pointer)) return ::tilewright::Status::invalid(::tilewright::cat(call, ": " #pointer " is null")); \
  } while (false)

// A list of `count` elements may be null only when it is empty.
Status check_list(const char* function, const char* name, const void* data, int64_t count);

// Copies what the caller's version of a struct has; the rest stays zero.
template <class Struct>
Status read_struct(const char* function, const char* name, const Struct* from, Struct* to) {
  std::memset(static_cast<void*>(to), 0, sizeof *to);
  if (!from) return Status::ok();
  if (from->struct_size < static_cast<int64_t>(2 * sizeof(int64_t)))
    return Status::invalid(
        cat(function, ": ", name, " has struct_size ", from->struct_size, ", expected sizeof(", name, ")"));
  std::memcpy(static_cast<void*>(to), from,
              std::min<size_t>(static_cast<size_t>(from->struct_size), sizeof *to));
  return Status::ok();
}
// Element `index` of an array whose elements are struct_size of the first one apart.
template <class Struct>
Status read_element(const char* function, const char* name, const Struct* first, int64_t index, Struct* to) {
  const char* at = reinterpret_cast<const char*>(first) + index * first->struct_size;
  return read_struct(function, name, reinterpret_cast<const Struct*>(at), to);
}
// The extension of a kind in a chain, or null; any other kind is an error.
Status find_extension(const char* function, const tw_extension* chain, int32_t kind,
                      const tw_extension** found);

// Dims and values of a graph.
Result<Dim> to_dim(const tw_graph& graph, tw_dim dim);
Result<Shape> to_shape(const tw_graph& graph, const tw_dim* dims, int64_t rank);
tw_dim from_dim(const tw_graph& graph, const Dim& dim);
Result<ValueId> to_value(const tw_graph& graph, tw_value value);
Result<DType> to_dtype(const char* function, int32_t dtype);
Result<AttributeMap> to_attributes(const tw_graph& graph, const tw_attribute* attributes, int64_t count);

// Tensors.
Result<DType> from_dlpack_type(DLDataType type);
DLDataType to_dlpack_type(DType dtype);
// A view of a tensor of the host, or of the target's device; shape and strides stay borrowed.
Result<TensorView> read_view(const DLTensor& tensor, const TargetInfo* target);
// The same with `what` before the text of an error.
Result<TensorView> to_view(const std::string& what, const DLTensor& tensor,
                           const TargetInfo* target = nullptr);
// A tensor that owns a block.
DLManagedTensorVersioned* to_managed(AskedTensor tensor, const TargetInfo& target);
// Shares the memory of a managed tensor: its deleter is called when the last reference goes.
std::shared_ptr<const void> take_managed(DLManagedTensorVersioned* tensor);
Status check_managed(const char* function, const DLManagedTensorVersioned* tensor);

}  // namespace tilewright::capi
