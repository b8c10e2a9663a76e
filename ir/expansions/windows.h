// Geometry of 2-d windows shared by pooling, convolution and im2col.
#pragma once

#include <array>

#include "ir/expansions/pieces.h"

namespace tilewright::expansions {

// One spatial axis: input size, window, and the number of windows.
struct WindowAxis {
  Dim in, out;
  int64_t kernel = 1, stride = 1, dilation = 1, pad = 0;
  int64_t hi = 0;  // padding at the end: `pad`, or with ceil mode what the last window needs

  int64_t reach() const { return dilation * (kernel - 1) + 1; }
  // One past the last padded input position that a window touches.
  Dim covered() const { return (out - Dim(1)) * Dim(stride) + Dim(reach()); }
};

struct Windows {
  std::array<WindowAxis, 2> axes;

  Ints of(int64_t WindowAxis::* field) const { return {axes[0].*field, axes[1].*field}; }
};

// Reads kernel-like attributes; missing strides are 1, or the kernel's when `stride_is_kernel`.
Result<Windows> read_windows(const Expansion& e, const Ints& kernel, const Dim& h, const Dim& w,
                             bool stride_is_kernel, bool has_dilation, bool ceil_mode);
// Whether a window is small enough to be written out element by element.
Status check_cells(const Expansion& e, const Ints& kernel);
// The two entries of an attribute.
Result<Ints> pair(const Expansion& e, std::string_view name);
// size as four dims.
Result<Shape> four_dims(const Expansion& e, std::string_view name);

// x [n, c, h, w] padded by `value` so that every window lies inside.
ValueId padded(Builder& b, ValueId x, const Windows& windows, ValueId value);
// The elements at offset (i, j) of each window of a padded x: [n, c, out, out].
ValueId window_element(Builder& b, ValueId padded, const Windows& windows, int64_t i, int64_t j);
// Brings a covered plane [.., covered + .., ..] back to the input: cuts the padding, zeros beyond what
// windows touch.
ValueId unpadded(Builder& b, ValueId x, const Windows& windows);

}  // namespace tilewright::expansions
