// Sizes of tiles that follow the sizes of what they cut.
#pragma once

#include <algorithm>

#include "ir/dim.h"

namespace tilewright {

inline int64_t hint_of(const Dim& size, const std::vector<Symbol>& symbols) {
  return std::max<int64_t>(1, size.hint(symbols));
}

// At most `block`: the size itself when it is known, else the power of two that its hint wants.
inline int64_t clip_tile(const Dim& size, int64_t hint, int64_t block) {
  if (size.is_constant()) return std::max<int64_t>(1, std::min(size.constant(), block));
  int64_t tile = 1;
  while (tile < hint && tile < block) tile *= 2;
  return std::min(tile, block);
}

// Blocks of equal size rather than full ones and a short rest.
inline int64_t even_block(const Dim& size, int64_t block, int64_t multiple) {
  if (!size.is_constant() || size.constant() <= block) return block;
  int64_t count = (size.constant() + block - 1) / block;
  int64_t each = (size.constant() + count - 1) / count;
  return std::min(block, (each + multiple - 1) / multiple * multiple);
}

// One tile holds all.
inline bool covers(const Dim& size, int64_t tile) { return size.is_constant() && size.constant() <= tile; }

}  // namespace tilewright
