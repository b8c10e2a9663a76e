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
  std::string entry;          // symbol of a KernelFunction, or of what a block of threads runs
  int64_t scratch_bytes = 0;  // a worker's, aligned to 64 bytes; of blocks of threads: global memory of one
  int32_t threads_per_block = 0;  // 0: host-callable
  int64_t shared_bytes = 0;       // dynamic shared memory of a block
};

// Host-callable: one function that runs instances [first, last) of the kernel's flattened grid.  For blocks
// of threads: an entry with one argument, an array of 8-byte slots: data pointers of the params, the error
// word's if the kernel reports, scalars, size of the grid, global scratch.  Block b of n runs the instances
// b, b + n, ..
Result<EmittedKernel> emit_kernel(const tile::Kernel& kernel, const TargetLimits& limits,
                                  const EmitOptions& options);

}  // namespace tilewright
