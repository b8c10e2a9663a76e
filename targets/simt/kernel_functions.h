// The functions that simulated kernels call for what a chip has instructions for.
#pragma once

#include <span>

#include "targets/cpu/exports.h"

namespace tilewright::simt {

std::span<const HostExport> kernel_functions();

}  // namespace tilewright::simt
