// Size arithmetic of windows: dilation, padding and window counts that stay exact over symbolic dims.
#include "ir/window.h"

namespace tilewright {

Interval dim_range(const Dim& dim, std::span<const Symbol> symbols) {
  if (dim.is_constant()) return {dim.constant(), dim.constant()};
  return dim.range(std::vector<Symbol>(symbols.begin(), symbols.end()));
}

Dim at_least_zero(const Dim& dim, std::span<const Symbol> symbols) {
  Interval range = dim_range(dim, symbols);
  if (range.min >= 0) return dim;
  if (range.max <= 0 && dim.is_valid()) return Dim(0);
  return Dim::max(dim, Dim(0));
}

Dim dilated_size(const Dim& n, int64_t dilation, std::span<const Symbol> symbols) {
  if (dilation == 1) return n;
  return at_least_zero(n * Dim(dilation) - Dim(dilation - 1), symbols);
}

Dim window_count(const Dim& padded, const Dim& window, int64_t dilation, int64_t stride,
                 std::span<const Symbol> symbols) {
  Dim room = padded - dilated_size(window, dilation, symbols);
  Dim count = Dim::floor_div(room, Dim(stride)) + Dim(1);
  // A shortage of at most one stride already rounds down to zero windows.
  if (dim_range(room, symbols).min >= -stride) return count;
  return at_least_zero(count, symbols);
}

Dim window_output(const Dim& n, const WindowDim& dim, std::span<const Symbol> symbols) {
  Dim padded = dilated_size(n, dim.base_dilation, symbols) + dim.pad_lo + dim.pad_hi;
  return window_count(padded, dim.window, dim.window_dilation, dim.stride, symbols);
}

}  // namespace tilewright
