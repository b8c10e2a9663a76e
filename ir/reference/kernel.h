// Reference kernels: what every op means, as plain loops over strided tensors; the eager mode and the oracle.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <span>

#include "ir/inference.h"

namespace tilewright {

// A borrowed strided tensor.  Strides are in elements and may be zero or negative.
struct TensorRef {
  DType dtype = DType::F32;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  void* data = nullptr;

  int rank() const { return static_cast<int>(sizes.size()); }
  int64_t elements() const;
  int64_t bytes() const { return elements() * dtype_bytes(dtype); }
  bool is_dense() const;  // row-major without gaps (dims of size 1 do not count)
  static std::vector<int64_t> dense_strides(const std::vector<int64_t>& sizes);
};

// The first error that kernels met while running (index out of range, failed assert); read when the run ends.
class StickyError {
 public:
  void set(Status status);
  Status get() const;
  bool is_set() const { return set_.load(std::memory_order_acquire); }

 private:
  std::atomic<bool> set_{false};
  mutable std::mutex mutex_;
  Status status_;
};

// Runs a region on tensors: inputs given, outputs allocated by the caller with the region's output types.
using RegionRunner = std::function<Status(const Graph& region, std::span<const TensorRef> inputs,
                                          std::span<TensorRef> outputs)>;
// Runs a registered custom call.
using CustomCallRunner =
    std::function<Status(const std::string& target, const AttributeMap& attributes,
                         std::span<const TensorRef> inputs, std::span<TensorRef> outputs)>;

struct KernelCall {
  Op op;
  AttributeReader attributes;
  const Bindings& bindings;
  std::span<const TensorRef* const> inputs;  // null for absent operands
  std::span<TensorRef> outputs;              // sizes already inferred and memory allocated; dense
  std::span<const RegionRef> regions;
  StickyError& error;
  const RegionRunner& run_region;
  const CustomCallRunner& run_custom_call;

  const TensorRef& in(int index) const { return *inputs[index]; }
  bool has(int index) const { return index < static_cast<int>(inputs.size()) && inputs[index]; }
  TensorRef& out(int index = 0) const { return outputs[index]; }
  // A dims attribute with the symbols bound.
  Result<std::vector<int64_t>> sizes(std::string_view name) const;
};

using ReferenceKernel = Status (*)(KernelCall&);

#define OP(name, ...) Status reference_##name(KernelCall& call);
#define COMPOSITE OP
#include "ir/ops.def"
#undef OP
#undef COMPOSITE

ReferenceKernel reference_kernel(Op op);

}  // namespace tilewright
