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
           const BoundPlan& plan, RunFrame& frame, Device* device)
      : session_(session),
        program_(program),
        kernels_(kernels),
        plan_(plan),
        frame_(frame),
        device_(device) {}

  Status run_all();
  // Reads the error word of the device's kernels; waits for them.
  Status take_device_error();

 private:
  Status run(const BoundLaunch& launch);
  Status run_unmeasured(const BoundLaunch& launch);
  Status run_kernel(const BoundLaunch& launch);
  Status run_builtin(const BoundLaunch& launch, std::span<const TensorRef> tensors);
  Status run_reference(const BoundLaunch& launch, std::span<const TensorRef> tensors);
  Status run_copy(const BoundLaunch& launch);
  Status run_loop(const BoundLaunch& launch);
  // On a device (device_launch.cpp).
  Status launch_on_device(const BoundLaunch& launch, const LoadedKernel& loaded);
  Status interpret_device_kernel(const BoundLaunch& launch);
  Status run_node_on_host(const BoundLaunch& launch);
  Status copy_on_device(const BoundLaunch& launch);
  std::vector<TensorRef> tensors(const BoundLaunch& launch) const;
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
  Device* const device_;  // where the buffers lie; null: on the host
};

}  // namespace tilewright
