// Gradients of windows: sums go back as sums over a dilated cotangent, extremes to the element that won.
#include <algorithm>
#include <cmath>

#include "ir/gradients/rules.h"

namespace tilewright {

using namespace gradients;

namespace {

// The attributes of a window op, one entry a dim.
struct Windows {
  Ints window, strides, dilation, base, lo, hi;
  size_t rank() const { return window.size(); }
};

Ints or_filled(const Ints& values, size_t count, int64_t fallback) {
  return values.empty() ? Ints(count, fallback) : values;
}

Windows read_windows(const Gradient& g) {
  const Ints& window = g.attributes.get_ints("window");
  size_t rank = window.size();
  return {window,
          or_filled(g.attributes.get_ints("strides"), rank, 1),
          or_filled(g.attributes.get_ints("dilation"), rank, 1),
          or_filled(g.attributes.get_ints("base_dilation"), rank, 1),
          or_filled(g.attributes.get_ints("pad_lo"), rank, 0),
          or_filled(g.attributes.get_ints("pad_hi"), rank, 0)};
}

Status sum_windows(Gradient& g, const Windows& w) {
  Builder& b = g.b;
  Ints lo, hi;
  Shape full = shape_of(g, 0), out = b.shape(g.cotangent());
  for (size_t i = 0; i < w.rank(); ++i) {
    int64_t reach = (w.window[i] - 1) * w.dilation[i];
    lo.push_back(reach - w.lo[i]);
    Dim got = dilated_size(out[i], w.strides[i], b.graph().symbols);
    Dim exact = (full[i] - Dim(1)) * Dim(w.base[i]) + Dim(reach + 1 - lo[i]) - got;
    hi.push_back(exact.is_constant() ? exact.constant() : reach);
  }
  ValueId dx = b.emit(Op::ReduceWindow, {g.cotangent()},
                      {{"kind", std::string("sum")},
                       {"window", w.window},
                       {"strides", w.base},
                       {"dilation", w.dilation},
                       {"base_dilation", w.strides},
                       {"pad_lo", lo},
                       {"pad_hi", hi}});
  // With symbolic sizes the result reaches as far as the windows do.
  for (size_t i = 0; i < w.rank(); ++i) dx = resize(b, dx, static_cast<int64_t>(i), full[i]);
  g.gradients[0] = dx;
  return Status::ok();
}

ValueId dilate(Builder& b, ValueId x, const Ints& steps, double value) {
  Ints interior;
  for (int64_t step : steps) interior.push_back(step - 1);
  Shape zero(steps.size(), Dim(0));
  return b.pad(x, b.constant(value, b.dtype(x)), zero, zero, interior);
}

Status extreme_windows(Gradient& g, const Windows& w) {
  Builder& b = g.b;
  const std::string& kind = g.attributes.get_string("kind");
  Shape full = shape_of(g, 0);
  bool dilated = std::any_of(w.base.begin(), w.base.end(), [](int64_t step) { return step != 1; });
  ValueId x = g.operands[0];
  if (dilated) x = dilate(b, x, w.base, kind == "max" ? -INFINITY : INFINITY);
  AttributeMap attributes = pick_attributes(g, {"window", "strides", "dilation", "pad_lo", "pad_hi"});
  attributes["kind"] = kind;
  ValueId dx = b.emit(Op::SelectAndScatterAdd, {x, g.cotangent()}, attributes);
  if (dilated) {
    Shape limit;
    for (size_t i = 0; i < w.rank(); ++i) {
      limit.push_back(full[i] * Dim(w.base[i]));
      dx = resize(b, dx, static_cast<int64_t>(i), limit.back());
    }
    dx = b.slice(dx, Shape(w.rank(), Dim(0)), limit, w.base);
  }
  g.gradients[0] = dx;
  return Status::ok();
}

// For every window and tap, in a last dim: the flat index into x, and whether it lies inside.
struct Taps {
  ValueId index, inside;
};

Taps window_taps(Builder& b, const Windows& w, const Shape& x, const Shape& out) {
  Shape shape = out;
  int64_t taps = 1;
  for (int64_t size : w.window) taps *= size;
  shape.push_back(Dim(taps));
  auto last = static_cast<int64_t>(out.size());
  ValueId tap = b.iota(shape, last, DType::I64);
  Taps result{b.integer(0, DType::I64, shape), b.integer(1, DType::Bool, shape)};
  int64_t inner = taps;
  auto whole = [&](int64_t value) { return b.integer(value, DType::I64, shape); };
  for (size_t i = 0; i < w.rank(); ++i) {
    inner /= w.window[i];
    ValueId k = b.emit(Op::Remainder, {b.divide(tap, whole(inner)), whole(w.window[i])});
    ValueId start = b.multiply(b.iota(shape, static_cast<int64_t>(i), DType::I64), whole(w.strides[i]));
    ValueId at = b.add(b.subtract(start, whole(w.lo[i])), b.multiply(k, whole(w.dilation[i])));
    // The size as a value, so that it may be symbolic.
    ValueId size = b.emit(Op::DimSize, {b.integer(0, DType::Bool, {x[i]})}, {{"dim", int64_t{0}}});
    size = b.broadcast(size, shape, {});
    ValueId fits = b.emit(Op::And, {b.compare(at, whole(0), "GE"), b.compare(at, size, "LT")});
    result.inside = b.emit(Op::And, {result.inside, fits});
    result.index = b.add(b.multiply(result.index, size), at);
  }
  result.index = keep_where(b, result.inside, result.index);
  return result;
}

// values[index] of a flat array.
ValueId take_flat(Builder& b, ValueId values, ValueId index) {
  return b.emit(Op::Gather, {values, index},
                {{"offset_dims", Ints{}},
                 {"collapsed", Ints{0}},
                 {"start_index_map", Ints{0}},
                 {"index_vector_dim", static_cast<int64_t>(b.rank(index))},
                 {"slice_sizes", Shape{Dim(1)}},
                 {"oob", std::string("drop")}});
}

}  // namespace

Status gradient_reduce_window(Gradient& g) {
  Windows w = read_windows(g);
  return g.attributes.get_string("kind") == "sum" ? sum_windows(g, w) : extreme_windows(g, w);
}

// Each element of source receives what arrived where it was added.
Status gradient_select_and_scatter_add(Gradient& g) {
  if (!g.wants(1)) return Status::ok();
  Builder& b = g.b;
  Shape full = shape_of(g, 0), out = shape_of(g, 1);
  if (full.empty()) {
    g.gradients[1] = g.cotangent();
    return Status::ok();
  }
  bool largest = g.attributes.get_string("kind") == "max";
  Taps taps = window_taps(b, read_windows(g), full, out);
  Shape flat{b.type(g.operands[0]).elements()};
  ValueId x = take_flat(b, b.reshape(g.operands[0], flat), taps.index);
  x = b.select(taps.inside, x, b.constant_like(largest ? -INFINITY : INFINITY, x));
  auto last = static_cast<int64_t>(out.size());
  ValueId winner = b.emit(largest ? Op::Argmax : Op::Argmin, {x}, {{"dim", last}, {"keepdims", true}});
  auto of_winner = [&](ValueId value) {
    return b.reshape(b.emit(Op::GatherElements, {value, winner}, {{"dim", last}}), out);
  };
  ValueId index = of_winner(taps.index), inside = of_winner(taps.inside);
  g.gradients[1] = keep_where(b, inside, take_flat(b, b.reshape(g.cotangent(), flat), index));
  return Status::ok();
}

}  // namespace tilewright
