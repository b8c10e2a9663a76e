// How the operands of a product lie in shared memory, and how its sums are spread over the threads of a
// block. Knows no LLVM.
#pragma once

#include <cstdint>

#include "ir/types.h"

namespace tilewright {

// Who multiplies: warps on 16x8 blocks of sums, or each thread on sums of its own.
enum class ProductUnit : uint8_t { Warps, Threads };

// The sums [rows, columns] of a product.  Warps: a grid of warps, each with blocks of 16 x 8 sums.  Threads:
// a grid of threads, each with groups of neighbours: element r of a side is (r / group * threads + thread) *
// group + r % group.
struct SumLayout {
  ProductUnit unit = ProductUnit::Threads;
  int64_t rows = 1, columns = 1;            // of the tile
  int64_t grid_rows = 1, grid_columns = 1;  // of warps or threads; their product is at most the block's
  int64_t each_rows = 1, each_columns = 1;  // sums of one warp or thread
  int64_t row_group = 1, column_group = 1;  // Threads: neighbours

  friend bool operator==(const SumLayout&, const SumLayout&) = default;
  int64_t padded_rows() const { return grid_rows * each_rows; }
  int64_t padded_columns() const { return grid_columns * each_columns; }
  // Registers of a thread for sums.
  int64_t registers() const { return each_rows * each_columns / (unit == ProductUnit::Warps ? 32 : 1); }
};
SumLayout warp_layout(int64_t rows, int64_t columns, int64_t warps);
SumLayout thread_layout(int64_t rows, int64_t columns, int64_t threads, int64_t most_group);

// One operand of a product as [rows, columns] in shared memory, columns next to each other in chunks of 16
// bytes. Chunk c of row r lies at place c ^ phase(r), so that a warp's accesses spread over all banks.
struct StagedTile {
  static constexpr int64_t kChunkBytes = 16;

  DType dtype = DType::F32;
  bool depth_is_contiguous = true;  // columns run along the depth, rows along the free axis; or the reverse
  int64_t rows = 1, columns = 1;    // padded
  int phase_shift = 0;              // phase(r) = (r >> shift) & mask
  int64_t phase_mask = 0;

  friend bool operator==(const StagedTile&, const StagedTile&) = default;
  int64_t chunk_elements() const { return kChunkBytes / dtype_bytes(dtype); }
  int64_t chunks() const { return columns / chunk_elements(); }  // of a row
  int64_t pitch_bytes() const { return chunks() * kChunkBytes; }
  int64_t bytes() const { return rows * pitch_bytes(); }
};
// `group`: rows that one thread reads one after the other.
StagedTile staged_tile(DType dtype, bool depth_is_contiguous, int64_t free, int64_t depth, int64_t group);

}  // namespace tilewright
