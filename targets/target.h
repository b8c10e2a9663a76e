// Target: the interface to one chip: detect, compile, load, allocate, copy, launch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/builtin_call.h"
#include "base/emitted_module.h"
#include "base/status.h"
#include "base/target_limits.h"

namespace tilewright {

// A kernel of a host-callable target: runs instances [first, last) of the flattened grid.
// `buffers` are data pointers in parameter order, `scalars` symbolic sizes and strides, `scratch` belongs to
// one worker.
using KernelFunction = void (*)(void* const* buffers, const int64_t* scalars, int64_t first, int64_t last,
                                void* scratch);

struct TargetInfo {
  std::string family;          // row of targets.def
  std::string name;            // spelling that selects this very target again
  std::string description;     // for people: brand and features
  std::string isa;             // architecture and sorted features; tuning is not part of it
  std::string cache_identity;  // everything of the target that a compiled object depends on
  std::string host_reason;     // why code cannot run on this machine; empty: it can
  int32_t dlpack_device = 1;   // DLPack's number for its memory
  int32_t device_index = 0;
  bool checks_allocations = false;  // to the byte: memory is not to be rounded up or kept
  TargetLimits limits;

  bool is_host_callable() const { return limits.kind == TargetKind::Cpu; }
  bool is_runnable() const { return host_reason.empty(); }
};

// How hard code generation works. Speed of the code is the same for Less and Default; None is a first-call
// tier.
enum class CodegenEffort : int32_t { None, Less, Default, Aggressive };

// IR passes before code generation: emitted code is vectorised already, so that none are needed by default.
enum class IrPasses : int32_t { None, Lean };

struct CompileOptions {
  CodegenEffort effort = CodegenEffort::Less;
  IrPasses ir_passes = IrPasses::None;
  std::string* asm_text = nullptr;   // receives assembly, if set (compiles twice)
  std::string* llvm_text = nullptr;  // receives LLVM IR as given to code generation, if set
  std::string key_text() const;      // what of the options a compiled object depends on
};

// Loaded code: callable as long as one handle exists, then its memory is returned. Thread-safe.
class LoadedCode {
 public:
  virtual ~LoadedCode() = default;
  // Entry point asked for at load; null if it was not.
  virtual void* symbol(std::string_view name) const = 0;
  virtual size_t code_bytes() const = 0;
};

enum class CopyKind : int32_t { HostToDevice, DeviceToHost, DeviceToDevice };

// Arguments of one launch on a device; host-callable targets are called through KernelFunction instead.
// A kernel for blocks of threads takes one array of 8-byte slots: the buffers (data pointers of the params,
// then the error word's if the kernel reports), the scalars, the grid, the global scratch.  Its blocks walk
// the grid in steps of the number of blocks.
struct LaunchRequest {
  void* entry = nullptr;
  std::string_view name;  // of the kernel, for messages
  std::span<void* const> buffers;
  std::span<const int64_t> scalars;
  int64_t grid = 0;
  int64_t blocks = 0;  // 0: one an instance
  int32_t threads_per_block = 0;
  int64_t shared_bytes = 0;
  void* scratch = nullptr;  // global memory, scratch bytes of the kernel times blocks
  void* stream = nullptr;
};

// Every function is thread-safe, fails with a status and never aborts or throws.
class Target {
 public:
  virtual ~Target() = default;
  const TargetInfo& info() const { return info_; }

  // Turns a module into bytes that load() takes, on any machine with the same isa. Takes the module apart.
  virtual Result<std::string> compile(EmittedModule module, const CompileOptions& options) const = 0;
  // Runs code that builds modules, so that fatal errors of the compiler library become a status.
  virtual Status guard(const std::function<Status()>& body) const { return body(); }
  // Makes bytes callable; fails if one of `symbols` is not there.
  virtual Result<std::shared_ptr<const LoadedCode>> load(std::string_view bytes,
                                                         std::span<const std::string> symbols) const = 0;

  // Targets that load many kernels faster as one: joins what compile() made; entry `entry` of object i
  // becomes names[i].  The result depends on the objects, the names and link_identity() alone.
  virtual bool links() const { return false; }
  virtual std::string link_identity() const { return {}; }
  virtual Result<std::string> link(std::span<const std::string_view>, std::string_view,
                                   std::span<const std::string>) const {
    return Status::unimplemented("link: " + info_.name + " loads kernels one by one");
  }

  virtual Result<void*> allocate(size_t bytes, size_t alignment) const = 0;
  virtual void free(void* memory) const = 0;
  // Ordered on the stream; from and to the host: the host's memory is free, or filled, on return.
  virtual Status copy(void* to, const void* from, size_t bytes, CopyKind kind, void* stream) const = 0;
  virtual Status launch(const LaunchRequest& request) const = 0;
  // Waits for the stream and reports what went wrong on it.
  virtual Status synchronize(void* stream) const = 0;
  // Runs a row of codegen/builtins.def, as make_builtin_call() describes it; done when it returns on
  // host-callable targets.
  virtual Status run_builtin(const BuiltinCall& call, ParallelFor) const {
    return Status::unimplemented("no builtin " + call.name + " for " + info_.name);
  }

 protected:
  explicit Target(TargetInfo info) : info_(std::move(info)) {}
  TargetInfo info_;
};

// Makes the target that a spelling names: `native`, `x86-64-v3`, `znver3,-avx2` (also `znver3-avx2`),
// `nvptx:sm_90a`, `null`. An empty spelling means native.
Result<std::shared_ptr<Target>> create_target(std::string_view spelling);

// One thing that this build can serve, for `tilewright targets` and error messages.
struct TargetListing {
  std::string spelling;
  std::string family;
  std::string summary;
  std::string host_reason;  // empty: runs on this machine
};
std::vector<TargetListing> list_targets();

}  // namespace tilewright
