// How large a block of a matrix product one instance should take, from what the chip has.
#pragma once

#include "base/target_limits.h"
#include "ir/types.h"

namespace tilewright {

struct ProductBlock {
  int64_t rows = 1, columns = 1;          // of the result
  int64_t depth = 1;                      // contracted elements a step
  int64_t min_rows = 1, min_columns = 1;  // blocks shrink so far to make enough instances
  int64_t row_multiple = 1, column_multiple = 1, depth_multiple = 1;
  int64_t wanted_instances = 1;  // whatever the number of threads
};
ProductBlock product_block(const TargetLimits& limits, DType operands, DType sums);

}  // namespace tilewright
