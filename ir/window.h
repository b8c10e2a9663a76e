// Size arithmetic of windows, dilation and padding over symbolic dims, shared by inference, gradients and
// expansions.
#pragma once

#include <span>

#include "ir/dim.h"

namespace tilewright {

// Range of a dim over the symbols of a graph.
Interval dim_range(const Dim& dim, std::span<const Symbol> symbols);

// max(dim, 0), without the max where the ranges prove it.
Dim at_least_zero(const Dim& dim, std::span<const Symbol> symbols);

// Size after dilation-1 elements are put between neighbours: (n-1)*dilation + 1, or 0 when n is 0.
Dim dilated_size(const Dim& n, int64_t dilation, std::span<const Symbol> symbols);

// Number of windows of `window` taps, `dilation` apart, that fit into `padded` when moved by `stride`; never
// negative.
Dim window_count(const Dim& padded, const Dim& window, int64_t dilation, int64_t stride,
                 std::span<const Symbol> symbols);

// One spatial dim of a window op or a convolution.
struct WindowDim {
  Dim window = 1;
  int64_t stride = 1;
  Dim pad_lo = 0;
  Dim pad_hi = 0;
  int64_t base_dilation = 1;
  int64_t window_dilation = 1;
};

// Output size over an input of size n.
Dim window_output(const Dim& n, const WindowDim& dim, std::span<const Symbol> symbols);

}  // namespace tilewright
