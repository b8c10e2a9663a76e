// Positions of sliding windows in one dim, for reduce_window, select_and_scatter_add and convolution.
#pragma once

#include "ir/reference/strided.h"

namespace tilewright::reference {

struct WindowSpec {
  int64_t window = 1, stride = 1, pad_lo = 0, base_dilation = 1, dilation = 1;
};

// The input position under tap `tap` of window `output`, or -1 in padding and between dilated elements.
inline int64_t window_position(const WindowSpec& spec, int64_t size, int64_t output, int64_t tap) {
  int64_t position = output * spec.stride + tap * spec.dilation - spec.pad_lo;
  if (position < 0 || position % spec.base_dilation != 0) return -1;
  position /= spec.base_dilation;
  return position < size ? position : -1;
}

// The entry of an ints attribute that may be empty.
inline int64_t entry_or(const Ints& entries, size_t index, int64_t fallback) {
  return entries.empty() ? fallback : entries[index];
}

}  // namespace tilewright::reference
