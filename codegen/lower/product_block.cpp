// Blocks for cores with caches, and for blocks of threads that keep sums in registers and operands in shared
// memory.
#include "codegen/lower/product_block.h"

#include <algorithm>

namespace tilewright {

ProductBlock product_block(const TargetLimits& limits, DType operands, DType sums) {
  if (limits.shared_bytes_per_block == 0) return {192, 256, 256, 48, 64, 12, 32, 8, 16};
  ProductBlock block;
  const bool by_tensor_unit = limits.has_bf16_dot && (operands == DType::BF16 || operands == DType::F16) &&
                              (sums == DType::F32 || is_narrow_float(sums));
  if (by_tensor_unit) {
    block.rows = 128, block.columns = 256;
    block.min_rows = 64, block.min_columns = 64;
  } else {
    block.rows = block.columns = dtype_bytes(sums) > 4 ? 64 : 128;
    block.min_rows = block.min_columns = 32;
  }
  block.row_multiple = block.column_multiple = block.depth_multiple = 16;
  // A row of a staged operand is a cache line.
  block.depth = std::clamp<int64_t>(limits.cache_line_bytes / dtype_bytes(operands), 16, 64);
  block.wanted_instances = std::max<int64_t>(1, limits.multiprocessors * 7 / 8);
  return block;
}

}  // namespace tilewright
