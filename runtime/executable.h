// Executable: a loaded program: checks the tensors of a call, places its buffers and runs its launches.
#pragma once

#include <atomic>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "codegen/program.h"
#include "ir/reference/interpreter.h"
#include "runtime/boundary.h"
#include "runtime/memory_plan.h"
#include "runtime/session.h"

namespace tilewright {

// Where the code of a kernel came from.
enum class KernelOrigin : uint8_t { Compiled, Memory, Disk, Interpreted };

// A kernel of the program, ready to be called.
struct LoadedKernel {
  std::shared_ptr<const LoadedCode> code;  // null: the tile interpreter runs the kernel
  void* entry = nullptr;                   // a KernelFunction, or what the target's launch takes
  int64_t scratch_bytes = 0;               // a worker or a block
  int32_t threads_per_block = 0;
  int64_t shared_bytes = 0;
  KernelOrigin origin = KernelOrigin::Interpreted;
  std::string key;  // hex
  double compile_seconds = 0;
  int64_t code_bytes = 0;
};

// What became of a graph on its way here, for the report.
struct CompileRecord {
  std::string mode;  // "sync", "eager"
  std::string precision;
  bool check = false;  // every run is compared with the reference, kernel by kernel if `lowered` is there
  std::shared_ptr<const LoweredGraph> lowered;
  std::string profile;  // empty: off; else a trace file, or "-" for the report alone
  bool graph_cache_hit = false;
  std::string graph_key;
  double plan_seconds = 0, emit_seconds = 0, compile_seconds = 0, load_seconds = 0, total_seconds = 0;
  std::vector<std::pair<std::string, std::string>> dumps;  // stage, text
};

// An output that was asked for.
struct AskedTensor {
  Block block;
  bool on_device = false;
  DType dtype = DType::F32;
  std::vector<int64_t> sizes;
};

// Where outputs lie that are asked for: on the device if an input lies there, or as said.
enum class AskedPlace : int32_t { WithInputs = 0, Host = 1, Device = 2 };

struct RunRequest {
  std::span<const TensorView* const> inputs;  // null: a bound frozen input
  std::span<const TensorView* const> given;   // one an output; null: asked for
  std::span<AskedTensor> asked;               // one an output; filled where nothing was given
  const Bindings* symbols = nullptr;
  std::span<const int64_t> donated;
  void* stream = nullptr;  // devices: everything is ordered on it
  AskedPlace asked_place = AskedPlace::WithInputs;
};

// The program under one binding of the symbols.
struct BoundPlan;
// The memory of one run, kept for the next.
struct RunFrame;
class Profile;

// Immutable but for the tensors bound to frozen inputs; running is reentrant.
class Executable {
 public:
  static Result<std::shared_ptr<Executable>> create(std::shared_ptr<Session> session, Graph graph,
                                                    Program program, std::vector<LoadedKernel> kernels,
                                                    CompileRecord record);
  ~Executable();

  const Graph& graph() const { return graph_; }
  const Program& program() const { return program_; }
  Session& session() const { return *session_; }

  Status run(const RunRequest& request);
  // Sizes of all outputs for these inputs; data is not looked at.
  Result<std::vector<std::vector<int64_t>>> output_sizes(std::span<const TensorView* const> inputs,
                                                         const Bindings& given);
  // Binds a frozen input; `owner` keeps the tensor's memory alive.
  Status bind_frozen(int input, const TensorView& tensor, std::shared_ptr<const void> owner);

  std::string report_json();
  Result<std::string> dump(std::string_view stage) const;

 private:
  struct Frozen {
    std::vector<int64_t> sizes, strides;
    TensorView view;
    std::shared_ptr<const void> owner;
    Block uploaded;  // of a host tensor that a program of the device reads
  };
  struct Totals {
    std::atomic<int64_t> runs{0}, run_nanoseconds{0}, input_copies{0}, output_copies{0};
    std::atomic<int64_t> input_copy_bytes{0}, bytes_fresh{0}, bytes_recycled{0}, arena_bytes{0};
    std::atomic<int64_t> kernel_launches{0}, reference_launches{0}, other_launches{0}, host_builtins{0};
  };

  Executable(std::shared_ptr<Session> session, Graph graph, Program program,
             std::vector<LoadedKernel> kernels, CompileRecord record);

  // `before`: dense copies of the inputs to check every kernel with, or null.
  Status run_once(const RunRequest& request, const std::vector<OwnedTensor>* before);
  Status run_checked(const RunRequest& request);
  Status check_counts(const RunRequest& request) const;
  // Puts bound frozen tensors where an input is null; `held` keeps them alive.
  Status resolve_inputs(std::span<const TensorView* const> inputs, std::vector<const TensorView*>* resolved,
                        std::vector<std::shared_ptr<const Frozen>>* held);
  Result<std::shared_ptr<const BoundPlan>> find_plan(std::span<const TensorView* const> inputs,
                                                     const Bindings& given, std::vector<int64_t>& symbols);
  Result<std::shared_ptr<const BoundPlan>> make_plan(std::vector<int64_t> symbols) const;
  Status run_bound(const RunRequest& request, std::span<const TensorView* const> inputs,
                   const BoundPlan& plan, RunFrame& frame, const std::vector<OwnedTensor>* before);
  Status place_inputs(std::span<const TensorView* const> inputs, const BoundPlan& plan, RunFrame& frame);
  Status place_outputs(const RunRequest& request, std::span<const TensorView* const> inputs,
                       const BoundPlan& plan, RunFrame& frame);
  // The same on the session's device; what lies elsewhere is copied (device_run.cpp).
  Status run_on_device(const RunRequest& request, std::span<const TensorView* const> inputs,
                       const BoundPlan& plan, RunFrame& frame, const std::vector<OwnedTensor>* before);
  // compare_kernels over host copies of what the device holds.
  Status check_device_kernels(const BoundPlan& plan, const RunFrame& frame,
                              const std::vector<OwnedTensor>& before);
  Status place_device_inputs(std::span<const TensorView* const> inputs, const BoundPlan& plan,
                             RunFrame& frame);
  Status place_device_outputs(const RunRequest& request, std::span<const TensorView* const> inputs,
                              const BoundPlan& plan, RunFrame& frame);
  // A program of the host over tensors of which some lie on the device.
  Status run_with_device_tensors(const RunRequest& request);
  bool runs_on_device() const;
  bool wants_device(const RunRequest& request) const;
  Status upload_frozen(Frozen& frozen) const;
  // Finds the input whose memory a given output is: an alias pair or a donated input.
  Status pair_outputs(const RunRequest& request, std::span<const TensorView* const> inputs,
                      RunFrame& frame) const;
  Status check_overlaps(const RunRequest& request, std::span<const TensorView* const> inputs,
                        RunFrame& frame) const;
  // True when the output may be written while the input is still there.
  bool may_write_over(size_t output, int input) const;
  Result<Block> allocate(int64_t bytes);
  std::unique_ptr<RunFrame> take_frame();
  void give_frame(std::unique_ptr<RunFrame> frame);

  const std::shared_ptr<Session> session_;
  const Graph graph_;
  const Program program_;
  const std::vector<LoadedKernel> kernels_;
  const CompileRecord record_;
  const Boundary boundary_;
  const Lifetimes lifetimes_;
  std::vector<BufferId> input_buffers_, output_buffers_;
  std::vector<bool> alias_in_place_;  // one an output: may_write_over its alias input
  std::unique_ptr<std::atomic<int64_t>[]> copied_input_bytes_;  // one an input
  std::unique_ptr<Profile> profile_;
  Totals totals_;

  mutable ForkMutex mutex_;  // guards what follows
  std::list<std::shared_ptr<const BoundPlan>> plans_;
  std::vector<std::shared_ptr<const Frozen>> frozen_;
  std::vector<std::unique_ptr<RunFrame>> frames_;
  mutable std::map<std::pair<size_t, int>, bool> donated_in_place_;  // by output and input
};

}  // namespace tilewright
