// Runs any tile program element by element on the scalar evaluator: the oracle between graphs and emitted
// code.
#pragma once

#include <span>

#include "codegen/tile/tile.h"

namespace tilewright::tile {

// `buffers`: one data pointer a param (then the error word when the kernel reports); `scalars`: one value a
// symbol. Runs instances [first, last) of the flattened grid.
Status interpret(const Kernel& kernel, std::span<void* const> buffers, std::span<const int64_t> scalars,
                 int64_t first, int64_t last);
// Number of instances under these scalars.
Result<int64_t> grid_size(const Kernel& kernel, std::span<const int64_t> scalars);

}  // namespace tilewright::tile
