// Shapes of warps' and threads' shares, and phases of rows.
#include "codegen/emit/block_layout.h"

#include <algorithm>
#include <bit>

namespace tilewright {

namespace {

constexpr int64_t kPhases = 8;  // chunks across all banks

int64_t ceil_to(int64_t value, int64_t step) { return (value + step - 1) / step * step; }
int64_t ceil_div(int64_t value, int64_t step) { return (value + step - 1) / step; }

}  // namespace

SumLayout warp_layout(int64_t rows, int64_t columns, int64_t warps) {
  SumLayout best;
  int64_t best_cost = INT64_MAX;
  for (int64_t down = 1; down <= warps; ++down) {
    if (warps % down != 0) continue;
    SumLayout layout;
    layout.unit = ProductUnit::Warps;
    layout.rows = rows, layout.columns = columns;
    // Blocks of 16 columns: two 16x8 blocks share a load of the right operand.
    layout.each_rows = ceil_to(ceil_div(rows, down), 16);
    layout.each_columns = ceil_to(ceil_div(columns, warps / down), 16);
    layout.grid_rows = ceil_div(rows, layout.each_rows);
    layout.grid_columns = ceil_div(columns, layout.each_columns);
    // What the busiest warp multiplies, then what it reads for that.
    int64_t cost = layout.each_rows * layout.each_columns * 1024 + layout.each_rows + layout.each_columns;
    if (cost >= best_cost) continue;
    best_cost = cost;
    best = layout;
  }
  return best;
}

SumLayout thread_layout(int64_t rows, int64_t columns, int64_t threads, int64_t most_group) {
  SumLayout layout;
  layout.rows = rows, layout.columns = columns;
  auto pow2 = [](int64_t value) {
    return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(value, 1))));
  };
  // As square a grid as the tile allows, at least 8 wide where there are columns for it.
  int64_t across = 1;
  while (across < threads && across * 4 < columns &&
         (across < 8 || across * across * rows < threads * columns)) {
    across *= 2;
  }
  while (across < threads && across < columns && threads / across > pow2(rows)) across *= 2;
  auto share = [&](int64_t size, int64_t parts, int64_t& each, int64_t& group) {
    each = ceil_div(size, parts);
    group = std::min(most_group, pow2(each));
    each = ceil_to(each, group);
  };
  layout.grid_columns = across;
  layout.grid_rows = std::min(threads / across, pow2(rows));
  share(rows, layout.grid_rows, layout.each_rows, layout.row_group);
  share(columns, layout.grid_columns, layout.each_columns, layout.column_group);
  return layout;
}

StagedTile staged_tile(DType dtype, bool depth_is_contiguous, int64_t free, int64_t depth, int64_t group) {
  StagedTile tile;
  tile.dtype = dtype;
  tile.depth_is_contiguous = depth_is_contiguous;
  tile.rows = depth_is_contiguous ? free : depth;
  int64_t chunks = ceil_div(depth_is_contiguous ? depth : free, tile.chunk_elements());
  chunks = chunks < kPhases ? static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(chunks)))
                            : ceil_to(chunks, kPhases);
  tile.columns = chunks * tile.chunk_elements();
  const int64_t phases = std::min(chunks, kPhases);
  const int64_t step = std::max(kPhases / phases, depth_is_contiguous ? group : int64_t{1});
  tile.phase_mask = phases - 1;
  tile.phase_shift = std::countr_zero(static_cast<uint64_t>(step));
  return tile;
}

}  // namespace tilewright
