// Launcher: runs the launches of a bound program over the pointers of a frame.
#pragma once

#include <span>

#include "runtime/bound_plan.h"
#include "runtime/executable.h"
#include "runtime/run_frame.h"

namespace tilewright {

class Launcher {
 public:
  Launcher(Session& session, const Program& program, std::span<const LoadedKernel> kernels,
           const BoundPlan& plan, RunFrame& frame)
      : session_(session), program_(program), kernels_(kernels), plan_(plan), frame_(frame) {}

  Status run_all();

 private:
  Status run(const BoundLaunch& launch);
  Status run_kernel(const BoundLaunch& launch);
  Status run_builtin(const BoundLaunch& launch);
  Status run_reference(const BoundLaunch& launch);
  Status run_copy(const BoundLaunch& launch);
  Status run_loop(const BoundLaunch& launch);
  TensorRef tensor(const BoundLaunch& launch, size_t position) const;
  void* address(const BoundLaunch& launch, size_t position) const {
    return static_cast<char*>(frame_.pointers[launch.buffers[position]]) + launch.offsets[position];
  }
  Status take_error();

  Session& session_;
  const Program& program_;
  const std::span<const LoadedKernel> kernels_;
  const BoundPlan& plan_;
  RunFrame& frame_;
};

}  // namespace tilewright
