// What runs and launches on a device share.
#pragma once

#include "runtime/executable.h"

namespace tilewright {

// Blocks that a launch of `grid` instances gets.
int64_t device_blocks(const TargetLimits& limits, const LoadedKernel& kernel, int64_t grid);

}  // namespace tilewright
