// Max, average and adaptive average pooling with their gradients.
#include <algorithm>
#include <limits>

#include "ir/expansions/windows.h"

namespace tilewright {
using namespace expansions;
namespace {

// The identity of max.
ValueId lowest(Builder& b, DType dtype) {
  if (is_float(dtype)) return b.constant(-std::numeric_limits<double>::infinity(), dtype);
  if (is_unsigned_integer(dtype)) return b.integer(0, dtype);
  return b.integer(std::numeric_limits<int64_t>::min() >> (64 - 8 * dtype_bytes(dtype)), dtype);
}

ValueId reduce_windows(Builder& b, ValueId x, const char* kind, const Windows& windows) {
  Ints strides = windows.of(&WindowAxis::stride), dilation = windows.of(&WindowAxis::dilation);
  Ints kernel = windows.of(&WindowAxis::kernel);
  return b.emit(Op::ReduceWindow, {x},
                {{"kind", std::string(kind)},
                 {"window", Ints{1, 1, kernel[0], kernel[1]}},
                 {"strides", Ints{1, 1, strides[0], strides[1]}},
                 {"dilation", Ints{1, 1, dilation[0], dilation[1]}},
                 {"pad_lo", Ints{0, 0, windows.axes[0].pad, windows.axes[1].pad}},
                 {"pad_hi", Ints{0, 0, windows.axes[0].hi, windows.axes[1].hi}}});
}

// The input position that offset `step` of each window reads, i64 [out].
ValueId position(Builder& b, const WindowAxis& axis, int64_t step) {
  Shape shape{axis.out};
  ValueId start = b.multiply(b.iota(shape, 0, DType::I64), b.integer(axis.stride, DType::I64, shape));
  return b.add(start, b.integer(step * axis.dilation - axis.pad, DType::I64, shape));
}

// Whether that position lies in the input.
ValueId inside(Builder& b, const WindowAxis& axis, ValueId at, ValueId size) {
  Shape shape{axis.out};
  return b.emit(Op::And, {b.compare(at, b.integer(0, DType::I64, shape), "GE"),
                          b.compare(at, splat(b, size, shape), "LT")});
}

bool touches_padding(const Windows& windows) {
  for (const WindowAxis& axis : windows.axes) {
    if (axis.pad != 0 || axis.hi != 0) return true;
  }
  return false;
}

// Flat h*w index of the first maximum of each window, looking at one offset after the other.
ValueId first_maximum(Expansion& e, const Windows& windows, ValueId x, const Shape& shape) {
  Builder& b = e.b;
  bool padding = touches_padding(windows);
  const WindowAxis &h = windows.axes[0], &w = windows.axes[1];
  if (Status small = check_cells(e, {h.kernel, w.kernel}); !small.is_ok()) {
    b.fail(std::move(small));
    return {};
  }
  ValueId best, index, found;
  for (int64_t i = 0; i < h.kernel; ++i) {
    for (int64_t j = 0; j < w.kernel; ++j) {
      ValueId value = window_element(b, x, windows, i, j);
      ValueId row = position(b, h, i), column = position(b, w, j);
      Shape plane{h.out, w.out};
      ValueId width = axis_size(b, e.operands[0], 3, DType::I64);
      ValueId at = b.add(b.multiply(b.broadcast(row, plane, {0}), splat(b, width, plane)),
                         b.broadcast(column, plane, {1}));
      at = b.broadcast(at, shape, {2, 3});
      ValueId valid;
      if (padding) {
        ValueId height = axis_size(b, e.operands[0], 2, DType::I64);
        ValueId both = b.emit(Op::And, {b.broadcast(inside(b, h, row, height), plane, {0}),
                                        b.broadcast(inside(b, w, column, width), plane, {1})});
        valid = b.broadcast(both, shape, {2, 3});
      }
      if (!best.is_valid()) {
        best = value, index = at, found = valid;
        continue;
      }
      ValueId better = b.compare(value, best, "GT");
      if (is_float(dtype_of(e, 0))) {
        ValueId new_nan = b.emit(Op::And, {is_nan(b, value), b.compare(best, best, "EQ")});
        better = b.emit(Op::Or, {better, new_nan});
      }
      if (padding) {
        better = b.emit(Op::And, {valid, b.emit(Op::Or, {better, b.emit(Op::Not, {found})})});
        found = b.emit(Op::Or, {found, valid});
      }
      best = b.select(better, value, best);
      index = b.select(better, at, index);
    }
  }
  // Dilation may step over a whole small input: such a window has no maximum.
  if (padding && std::max(h.dilation, w.dilation) > 1)
    index = b.select(found, index, b.integer(-1, DType::I64, shape));
  return index;
}

}  // namespace

Status expand_max_pool2d(Expansion& e) {
  Builder& b = e.b;
  TW_RETURN_IF_ERROR(check_rank(e, 0, 4));
  TW_ASSIGN_OR_RETURN(Ints kernel, pair(e, "kernel"));
  Shape x = shape_of(e, 0);
  bool ceil_mode = e.attributes.get_bool("ceil_mode");
  TW_ASSIGN_OR_RETURN(Windows windows, read_windows(e, kernel, x[2], x[3], true, true, ceil_mode));
  for (const WindowAxis& axis : windows.axes) {
    if (2 * axis.pad > axis.kernel)
      return fail(e, "pad ", axis.pad, " is more than half of kernel ", axis.kernel);
  }
  Shape shape{x[0], x[1], windows.axes[0].out, windows.axes[1].out};
  if (shape[2].is_constant(0) || shape[3].is_constant(0)) {
    e.results = {b.constant(0, dtype_of(e, 0), shape), b.integer(0, DType::I64, shape)};
    return Status::ok();
  }
  ValueId identity = lowest(b, dtype_of(e, 0));
  ValueId wide = padded(b, e.operands[0], windows, identity);
  e.results = {reduce_windows(b, e.operands[0], "max", windows), first_maximum(e, windows, wide, shape)};
  return Status::ok();
}

Status expand_max_pool2d_grad(Expansion& e) {
  Builder& b = e.b;
  TW_RETURN_IF_ERROR(check_rank(e, 0, 4));
  TW_RETURN_IF_ERROR(check_same_shape(e, 1, 0));
  TW_ASSIGN_OR_RETURN(Shape x, four_dims(e, "size"));
  Shape g = shape_of(e, 0);
  Shape flat{g[0], g[1], g[2] * g[3]};
  ValueId zeros = b.constant(0, dtype_of(e, 0), {x[0], x[1], x[2] * x[3]});
  ValueId dx =
      b.emit(Op::ScatterElements, {zeros, b.reshape(e.operands[1], flat), b.reshape(e.operands[0], flat)},
             {{"dim", int64_t{2}}, {"kind", std::string("add")}});
  e.results = {b.reshape(dx, x)};
  return Status::ok();
}

namespace {

// How many cells of each window count, as [out] in the work type; an invalid id when it is always the kernel.
ValueId counted_cells(Builder& b, const WindowAxis& axis, ValueId size, bool include_pad, DType work) {
  bool overhangs = axis.hi > (include_pad ? axis.pad : 0);
  if (!overhangs && (include_pad || axis.pad == 0)) return {};
  Shape shape{axis.out};
  ValueId start = position(b, axis, 0);
  ValueId end = b.add(start, b.integer(axis.kernel, DType::I64, shape));
  ValueId limit = splat(b, size, shape);
  if (include_pad) limit = b.add(limit, b.integer(axis.pad, DType::I64, shape));
  end = b.minimum(end, limit);
  if (!include_pad) start = b.maximum(start, b.integer(0, DType::I64, shape));
  return b.convert(b.subtract(end, start), work);
}

// x / divisors; `sizes` are h and w as 0-d values.
ValueId divide_windows(Expansion& e, ValueId x, const Windows& windows, ValueId height, ValueId width) {
  Builder& b = e.b;
  if (!b.status().is_ok()) return {};
  Shape shape = b.shape(x);
  DType work = b.dtype(x);
  int64_t divisor = e.attributes.get_int("divisor");
  if (divisor != 0) return b.divide(x, b.constant(static_cast<double>(divisor), work, shape));
  bool include = e.attributes.get_bool("count_include_pad");
  const WindowAxis &h = windows.axes[0], &w = windows.axes[1];
  ValueId rows = counted_cells(b, h, height, include, work),
          columns = counted_cells(b, w, width, include, work);
  double fixed = static_cast<double>((rows.is_valid() ? 1 : h.kernel) * (columns.is_valid() ? 1 : w.kernel));
  ValueId count = b.constant(fixed, work, shape);
  if (rows.is_valid()) count = b.multiply(count, b.broadcast(rows, shape, {2}));
  if (columns.is_valid()) count = b.multiply(count, b.broadcast(columns, shape, {3}));
  return b.divide(x, count);
}

Status check_pads(const Expansion& e, const Windows& windows) {
  for (const WindowAxis& axis : windows.axes) {
    if (2 * axis.pad > axis.kernel)
      return fail(e, "pad ", axis.pad, " is more than half of kernel ", axis.kernel);
  }
  if (e.attributes.get_int("divisor") < 0)
    return fail(e, "divisor is ", e.attributes.get_int("divisor"), ", expected 0 or more");
  return Status::ok();
}

}  // namespace

Status expand_avg_pool2d(Expansion& e) {
  Builder& b = e.b;
  TW_RETURN_IF_ERROR(check_rank(e, 0, 4));
  TW_ASSIGN_OR_RETURN(Ints kernel, pair(e, "kernel"));
  Shape x = shape_of(e, 0);
  TW_ASSIGN_OR_RETURN(Windows windows,
                      read_windows(e, kernel, x[2], x[3], true, false, e.attributes.get_bool("ceil_mode")));
  TW_RETURN_IF_ERROR(check_pads(e, windows));
  Shape shape{x[0], x[1], windows.axes[0].out, windows.axes[1].out};
  DType dtype = dtype_of(e, 0);
  if (shape[2].is_constant(0) || shape[3].is_constant(0)) {
    e.results = {b.constant(0, dtype, shape)};
    return Status::ok();
  }
  ValueId sum = reduce_windows(b, widened(e, 0), "sum", windows);
  ValueId height = axis_size(b, e.operands[0], 2, DType::I64),
          width = axis_size(b, e.operands[0], 3, DType::I64);
  e.results = {b.convert(divide_windows(e, sum, windows, height, width), dtype)};
  return Status::ok();
}

namespace {
// A dim of `size` as a 0-d value, although no operand has it.
Result<ValueId> size_value(Expansion& e, const Dim& dim) {
  if (dim.is_constant()) return e.b.integer(dim.constant(), DType::I64);
  return axis_size(e.b, e.b.constant(0, DType::Bool, {dim}), 0, DType::I64);
}
}  // namespace

Status expand_avg_pool2d_grad(Expansion& e) {
  Builder& b = e.b;
  TW_RETURN_IF_ERROR(check_rank(e, 0, 4));
  TW_ASSIGN_OR_RETURN(Ints kernel, pair(e, "kernel"));
  TW_ASSIGN_OR_RETURN(Shape x, four_dims(e, "size"));
  TW_ASSIGN_OR_RETURN(Windows windows,
                      read_windows(e, kernel, x[2], x[3], true, false, e.attributes.get_bool("ceil_mode")));
  TW_RETURN_IF_ERROR(check_pads(e, windows));
  const WindowAxis &h = windows.axes[0], &w = windows.axes[1];
  TW_RETURN_IF_ERROR(check_shape(e, 0, {x[0], x[1], h.out, w.out}));
  if (h.out.is_constant(0) || w.out.is_constant(0)) {
    e.results = {b.constant(0, dtype_of(e, 0), x)};
    return Status::ok();
  }
  TW_ASSIGN_OR_RETURN(ValueId height, size_value(e, x[2]));
  TW_ASSIGN_OR_RETURN(ValueId width, size_value(e, x[3]));
  ValueId share = divide_windows(e, widened(e, 0), windows, height, width);
  // Each padded input cell sums the windows that cover it.
  ValueId spread = b.emit(Op::ReduceWindow, {share},
                          {{"kind", std::string("sum")},
                           {"window", Ints{1, 1, h.kernel, w.kernel}},
                           {"base_dilation", Ints{1, 1, h.stride, w.stride}},
                           {"pad_lo", Ints{0, 0, h.kernel - 1, w.kernel - 1}},
                           {"pad_hi", Ints{0, 0, h.kernel - 1, w.kernel - 1}}});
  e.results = {b.convert(unpadded(b, spread, windows), dtype_of(e, 0))};
  return Status::ok();
}

namespace {

// Averages along one axis: window i covers floor(i n / m) to ceil((i + 1) n / m).
ValueId adaptive_mean(Builder& b, ValueId x, int64_t axis, int64_t n, int64_t m) {
  if (!b.status().is_ok() || n == m) return x;
  int64_t longest = 0;
  for (int64_t i = 0; i < m; ++i) longest = std::max(longest, ((i + 1) * n + m - 1) / m - i * n / m);
  Ints at, counts;
  std::vector<ValueId> parts;
  for (int64_t i = 0; i < m; ++i) {
    int64_t start = i * n / m, end = ((i + 1) * n + m - 1) / m;
    for (int64_t k = 0; k < longest; ++k) at.push_back(std::min(start + k, n - 1));
    counts.push_back(end - start);
  }
  ValueId index = b.reshape(integers(b, at), {Dim(m), Dim(longest)});
  ValueId cells = take(b, x, index, axis, "promise");
  if (!b.status().is_ok()) return {};
  Shape shape = b.shape(cells);
  ValueId length = b.broadcast(integers(b, counts), shape, {axis});
  ValueId mine = b.compare(b.iota(shape, axis + 1, DType::I64), length, "LT");
  ValueId sum = b.reduce_sum(b.select(mine, cells, b.zeros_like(cells)), {axis + 1});
  if (!b.status().is_ok()) return {};
  return b.divide(sum, b.broadcast(b.convert(integers(b, counts), b.dtype(x)), Shape(b.shape(sum)), {axis}));
}

}  // namespace

Status expand_adaptive_avg_pool2d(Expansion& e) {
  Builder& b = e.b;
  TW_RETURN_IF_ERROR(check_rank(e, 0, 4));
  TW_ASSIGN_OR_RETURN(Ints size, pair(e, "size"));
  Shape x = shape_of(e, 0);
  TW_ASSIGN_OR_RETURN(int64_t h, known(e, x[2], "h"));
  TW_ASSIGN_OR_RETURN(int64_t w, known(e, x[3], "w"));
  for (int64_t i = 0; i < 2; ++i) {
    int64_t out = size[static_cast<size_t>(i)], in = i == 0 ? h : w;
    if (out < 0 || (in == 0 && out > 0)) return fail(e, "size ", out, " of an axis of ", in);
  }
  DType dtype = dtype_of(e, 0);
  if (size[0] == 0 || size[1] == 0) {
    e.results = {b.constant(0, dtype, {x[0], x[1], size[0], size[1]})};
    return Status::ok();
  }
  if (h % size[0] == 0 && w % size[1] == 0) {
    Ints window{h / size[0], w / size[1]};
    e.results = {b.emit(Op::AvgPool2d, {e.operands[0]}, {{"kernel", window}})};
    return Status::ok();
  }
  for (int64_t entries : {h, w, size[0], size[1]})
    TW_RETURN_IF_ERROR(check_most(e, "a size that does not divide evenly", entries, kMostEntries));
  ValueId y = adaptive_mean(b, adaptive_mean(b, widened(e, 0), 2, h, size[0]), 3, w, size[1]);
  e.results = {b.convert(y, dtype)};
  return Status::ok();
}

}  // namespace tilewright
