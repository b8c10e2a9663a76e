// From tile programs to LLVM modules: the only step that makes LLVM IR.
#pragma once

#include <string>

#include "base/emitted_module.h"
#include "base/target_limits.h"
#include "codegen/tile/tile.h"

namespace tilewright {

struct EmitOptions {
  bool fused_precision = false;  // intermediate rounding of narrow floats may be skipped
  bool fast_precision = false;   // 4-ulp functions
};

struct EmittedKernel {
  EmittedModule module;
  std::string entry;          // symbol of a KernelFunction
  int64_t scratch_bytes = 0;  // a worker's, aligned to 64 bytes
};

// One function that runs instances [first, last) of the kernel's flattened grid.
Result<EmittedKernel> emit_kernel(const tile::Kernel& kernel, const TargetLimits& limits,
                                  const EmitOptions& options);

}  // namespace tilewright
