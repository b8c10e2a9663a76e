// Work of a kernel at the symbols' hints: what decides whether a launch is worth more than one thread, and
// reports.
#pragma once

#include "codegen/tile/tile.h"

namespace tilewright {

struct KernelWork {
  int64_t flops = 0;  // element operations; two an element and step of a dot; a function counts as several
  int64_t bytes = 0;  // of all buffers, each once
};
KernelWork estimate_work(const tile::Kernel& kernel);

}  // namespace tilewright
