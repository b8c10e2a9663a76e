// Upsampling (nearest, bilinear, bicubic) as separable taps along each axis, and its transpose.
#include <algorithm>
#include <cmath>

#include "ir/expansions/windows.h"

namespace tilewright {
using namespace expansions;
namespace {

// Output i of an axis is the sum over taps of weight[tap][i] x[index[tap][i]].
struct Taps {
  std::vector<Ints> index;
  std::vector<Floats> weight;  // empty for nearest
};

Taps nearest_taps(int64_t n, int64_t m, bool exact) {
  Ints index;
  for (int64_t i = 0; i < m; ++i) {
    // floor(i n / m), or floor((i + 1/2) n / m): in integers, so that no scale is rounded
    int64_t at = exact ? (2 * i + 1) * n / (2 * m) : i * n / m;
    index.push_back(std::min(at, n - 1));
  }
  return {{index}, {}};
}

// The source position of output i as whole and fraction.
void source(int64_t i, int64_t n, int64_t m, bool align_corners, int64_t& whole, long double& fraction) {
  int64_t numerator, denominator;
  if (align_corners) {
    numerator = m > 1 ? i * (n - 1) : 0, denominator = std::max<int64_t>(m - 1, 1);
  } else {
    numerator = (2 * i + 1) * n - m, denominator = 2 * m;
  }
  whole = numerator >= 0 ? numerator / denominator : -((denominator - 1 - numerator) / denominator);
  fraction =
      static_cast<long double>(numerator - whole * denominator) / static_cast<long double>(denominator);
}

Taps linear_taps(int64_t n, int64_t m, bool align_corners) {
  Taps taps{std::vector<Ints>(2), std::vector<Floats>(2)};
  for (int64_t i = 0; i < m; ++i) {
    int64_t whole;
    long double fraction;
    source(i, n, m, align_corners, whole, fraction);
    if (whole < 0) whole = 0, fraction = 0;
    taps.index[0].push_back(std::min(whole, n - 1));
    taps.index[1].push_back(std::min(whole + 1, n - 1));
    taps.weight[0].push_back(static_cast<double>(1 - fraction));
    taps.weight[1].push_back(static_cast<double>(fraction));
  }
  return taps;
}

// The cubic convolution kernel with a = -0.75 at distance x.
double cubic(long double x) {
  constexpr long double a = -0.75;
  if (x <= 1) return static_cast<double>(((a + 2) * x - (a + 3)) * x * x + 1);
  return static_cast<double>(((a * x - 5 * a) * x + 8 * a) * x - 4 * a);
}

Taps cubic_taps(int64_t n, int64_t m, bool align_corners) {
  Taps taps{std::vector<Ints>(4), std::vector<Floats>(4)};
  for (int64_t i = 0; i < m; ++i) {
    int64_t whole;
    long double fraction;
    source(i, n, m, align_corners, whole, fraction);
    long double distance[4] = {fraction + 1, fraction, 1 - fraction, 2 - fraction};
    for (int64_t k = 0; k < 4; ++k) {
      taps.index[static_cast<size_t>(k)].push_back(std::clamp<int64_t>(whole + k - 1, 0, n - 1));
      taps.weight[static_cast<size_t>(k)].push_back(cubic(distance[k]));
    }
  }
  return taps;
}

Taps taps_of(const Expansion& e, int64_t n, int64_t m) {
  const std::string& mode = e.attributes.get_string("mode");
  bool align = e.attributes.get_bool("align_corners");
  if (mode == "bilinear") return linear_taps(n, m, align);
  if (mode == "bicubic") return cubic_taps(n, m, align);
  return nearest_taps(n, m, mode == "nearest_exact");
}

ValueId weighted(Builder& b, ValueId x, const Floats& weights, int64_t axis) {
  if (!b.status().is_ok()) return {};
  return b.multiply(x, b.broadcast(floats(b, weights, b.dtype(x)), Shape(b.shape(x)), {axis}));
}

ValueId resize_axis(Builder& b, ValueId x, int64_t axis, const Taps& taps) {
  ValueId sum;
  for (size_t k = 0; k < taps.index.size(); ++k) {
    ValueId part = take(b, x, integers(b, taps.index[k]), axis, "promise");
    if (!taps.weight.empty()) part = weighted(b, part, taps.weight[k], axis);
    sum = sum.is_valid() ? b.add(sum, part) : part;
  }
  return sum;
}

// Adds each output's share back to its sources, tap after tap.
ValueId spread_axis(Builder& b, ValueId g, int64_t axis, const Taps& taps, const Dim& n) {
  std::vector<ValueId> parts;
  Ints index;
  for (size_t k = 0; k < taps.index.size(); ++k) {
    parts.push_back(taps.weight.empty() ? g : weighted(b, g, taps.weight[k], axis));
    index.insert(index.end(), taps.index[k].begin(), taps.index[k].end());
  }
  ValueId updates = parts.size() == 1 ? parts[0] : b.concatenate(parts, axis);
  if (!b.status().is_ok()) return {};
  Shape shape = b.shape(g);
  shape[static_cast<size_t>(axis)] = n;
  return put_add(b, b.constant(0, b.dtype(g), shape), integers(b, index), updates, axis);
}

Status check_size(const Expansion& e, int64_t in, int64_t out) {
  if (out < 0) return fail(e, "size holds ", out, ", expected 0 or more");
  if (in == 0 && out > 0) return fail(e, "size holds ", out, " for an empty axis");
  TW_RETURN_IF_ERROR(check_most(e, "an entry of size", out, kMostEntries));
  return check_most(e, "the size of a spatial dim", in, int64_t{1} << 38);
}

}  // namespace

Status expand_upsample(Expansion& e) {
  TW_RETURN_IF_ERROR(check_rank(e, 0, 4));
  TW_ASSIGN_OR_RETURN(Ints size, pair(e, "size"));
  Shape x = shape_of(e, 0);
  ValueId y = e.attributes.get_string("mode").starts_with("nearest") ? e.operands[0] : widened(e, 0);
  for (int64_t axis = 2; axis < 4; ++axis) {
    TW_ASSIGN_OR_RETURN(int64_t n, known(e, x[static_cast<size_t>(axis)], axis == 2 ? "h" : "w"));
    int64_t m = size[static_cast<size_t>(axis - 2)];
    TW_RETURN_IF_ERROR(check_size(e, n, m));
    y = resize_axis(e.b, y, axis, taps_of(e, n, m));
  }
  e.results = {e.b.convert(y, dtype_of(e, 0))};
  return Status::ok();
}

Status expand_upsample_grad(Expansion& e) {
  TW_RETURN_IF_ERROR(check_rank(e, 0, 4));
  TW_ASSIGN_OR_RETURN(Shape x, four_dims(e, "size"));
  Shape g = shape_of(e, 0);
  TW_RETURN_IF_ERROR(check_shape(e, 0, {x[0], x[1], g[2], g[3]}));
  ValueId dx = widened(e, 0);
  for (int64_t axis = 3; axis >= 2; --axis) {
    size_t at = static_cast<size_t>(axis);
    TW_ASSIGN_OR_RETURN(int64_t n, known(e, x[at], axis == 2 ? "h" : "w"));
    TW_ASSIGN_OR_RETURN(int64_t m, known(e, g[at], axis == 2 ? "the height of g" : "the width of g"));
    TW_RETURN_IF_ERROR(check_size(e, n, m));
    dx = spread_axis(e.b, dx, axis, taps_of(e, n, m), x[at]);
  }
  e.results = {e.b.convert(dx, dtype_of(e, 0))};
  return Status::ok();
}

}  // namespace tilewright
