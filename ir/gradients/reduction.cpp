// Gradients of reductions and scans along a dim.
#include <algorithm>
#include <cmath>

#include "ir/gradients/rules.h"

namespace tilewright {

using namespace gradients;

namespace {

// A reduced value put back over the shape of the operand.
ValueId spread(Gradient& g, ValueId reduced) {
  Shape full = shape_of(g, 0);
  const Ints& dims = g.attributes.get_ints("dims");
  Shape kept;
  for (int64_t dim : other_dims(static_cast<int>(full.size()), dims)) kept.push_back(full[dim]);
  return g.b.broadcast_reduced(g.b.reshape(reduced, kept), full, dims);
}

// The operand with the reduced dims as one last dim, and the way back.
struct Rows {
  ValueId value;
  Ints perm;
  Shape permuted;
};

Rows to_rows(Builder& b, ValueId x, const Ints& dims) {
  Shape shape = b.shape(x), kept;
  Rows rows{x, other_dims(static_cast<int>(shape.size()), dims), {}};
  Dim reduced(1);
  for (int64_t dim : rows.perm) kept.push_back(shape[dim]);
  for (int64_t dim : dims) {
    rows.perm.push_back(dim);
    reduced = reduced * shape[dim];
  }
  for (int64_t dim : rows.perm) rows.permuted.push_back(shape[dim]);
  kept.push_back(reduced);
  rows.value = b.reshape(b.transpose(x, rows.perm), kept);
  return rows;
}

ValueId from_rows(Builder& b, const Rows& rows, ValueId value) {
  return b.transpose(b.reshape(value, rows.permuted), inverse_permutation(rows.perm));
}

ValueId running_product(Builder& b, ValueId x, int64_t dim, bool reverse, bool exclusive) {
  return b.emit(Op::CumulativeProduct, {x}, {{"dim", dim}, {"reverse", reverse}, {"exclusive", exclusive}});
}

ValueId recurrence(Builder& b, ValueId decay, ValueId x, int64_t dim, bool reverse) {
  return b.emit(Op::LinearRecurrence, {decay, x}, {{"dim", dim}, {"reverse", reverse}});
}

}  // namespace

Status gradient_reduce_sum(Gradient& g) {
  g.gradients[0] = spread(g, g.b.convert(g.cotangent(), dtype_of(g, 0)));
  return Status::ok();
}

// The product of all others, from both sides, so that zeros need no division.
Status gradient_reduce_product(Gradient& g) {
  Builder& b = g.b;
  DType dtype = dtype_of(g, 0), wide = accumulation_type(dtype);
  const Ints& dims = g.attributes.get_ints("dims");
  if (dims.empty()) {
    g.gradients[0] = b.convert(g.cotangent(), dtype);
    return Status::ok();
  }
  Rows rows = to_rows(b, b.convert(g.operands[0], wide), dims);
  int64_t last = b.rank(rows.value) - 1;
  ValueId before = running_product(b, rows.value, last, false, true);
  ValueId after = running_product(b, rows.value, last, true, true);
  ValueId others = from_rows(b, rows, b.multiply(before, after));
  ValueId c = spread(g, b.convert(g.cotangent(), wide));
  g.gradients[0] = b.convert(b.multiply(c, others), dtype);
  return Status::ok();
}

// Equal elements share; counts are exact in the accumulation type.
static Status gradient_reduce_extreme(Gradient& g) {
  Builder& b = g.b;
  DType dtype = dtype_of(g, 0), wide = accumulation_type(dtype);
  ValueId hit = b.compare(g.operands[0], spread(g, g.results[0]), "EQ");
  ValueId count = b.emit(Op::ReduceSum, {b.convert(hit, wide)}, pick_attributes(g, {"dims", "keepdims"}));
  // At least one, so that no hit (a NaN) divides by zero.
  count = b.maximum(count, b.constant_like(1, count));
  ValueId share = b.convert(b.divide(b.convert(g.cotangent(), wide), count), dtype);
  g.gradients[0] = keep_where(b, hit, spread(g, share));
  return Status::ok();
}

Status gradient_reduce_max(Gradient& g) { return gradient_reduce_extreme(g); }
Status gradient_reduce_min(Gradient& g) { return gradient_reduce_extreme(g); }

Status gradient_logsumexp(Gradient& g) {
  Builder& b = g.b;
  DType dtype = dtype_of(g, 0), wide = accumulation_type(dtype);
  ValueId x = b.convert(g.operands[0], wide), y = g.results[0];
  // A 16-bit result is too coarse an exponent.
  if (wide != dtype) y = b.emit(Op::Logsumexp, {x}, pick_attributes(g, {"dims", "keepdims"}));
  y = spread(g, y);
  ValueId empty = b.compare(y, b.constant_like(-INFINITY, y), "EQ");
  ValueId weight = keep_unless(b, empty, b.exponential(b.subtract(x, y)));
  g.gradients[0] = b.convert(b.multiply(spread(g, b.convert(g.cotangent(), wide)), weight), dtype);
  return Status::ok();
}

// ---- along a dim ----

Status gradient_cumulative_sum(Gradient& g) {
  bool reverse = g.attributes.get_bool("reverse");
  g.gradients[0] = g.b.emit(Op::CumulativeSum, {g.cotangent()},
                            {{"dim", g.attributes.get_int("dim")},
                             {"reverse", !reverse},
                             {"exclusive", g.attributes.get_bool("exclusive")}});
  return Status::ok();
}

// With L the product of what lies before: dx_k = L_k S_k, where S_k = sum of c_i times the products from k+1
// to i, a recurrence from the other end.
Status gradient_cumulative_product(Gradient& g) {
  Builder& b = g.b;
  DType dtype = dtype_of(g, 0), wide = accumulation_type(dtype);
  int64_t dim = g.attributes.get_int("dim");
  bool reverse = g.attributes.get_bool("reverse");
  int64_t toward_start = reverse ? 1 : -1;
  ValueId x = b.convert(g.operands[0], wide), c = b.convert(g.cotangent(), wide);
  ValueId before = running_product(b, x, dim, reverse, true);
  ValueId sum;
  if (g.attributes.get_bool("exclusive")) {
    sum = shift_along(b, recurrence(b, x, c, dim, !reverse), dim, toward_start);
  } else {
    sum = recurrence(b, shift_along(b, x, dim, toward_start), c, dim, !reverse);
  }
  g.gradients[0] = b.convert(b.multiply(before, sum), dtype);
  return Status::ok();
}

static Status gradient_cumulative_extreme(Gradient& g) {
  Builder& b = g.b;
  if (!g.cotangents[0].is_valid()) return Status::ok();
  g.gradients[0] = b.emit(Op::ScatterElements, {b.zeros_like(g.operands[0]), g.results[1], g.cotangent()},
                          {{"dim", g.attributes.get_int("dim")}, {"kind", std::string("add")}});
  return Status::ok();
}

Status gradient_cumulative_max(Gradient& g) { return gradient_cumulative_extreme(g); }
Status gradient_cumulative_min(Gradient& g) { return gradient_cumulative_extreme(g); }

// dx_k = exp(x_k - y_k) R_k with R_k = c_k + exp(y_k - y_(k+1)) R_(k+1), all exponents at most 0.
Status gradient_cumulative_logsumexp(Gradient& g) {
  Builder& b = g.b;
  DType dtype = dtype_of(g, 0), wide = accumulation_type(dtype);
  int64_t dim = g.attributes.get_int("dim");
  bool reverse = g.attributes.get_bool("reverse");
  ValueId x = b.convert(g.operands[0], wide), y = g.results[0];
  if (wide != dtype) y = b.emit(Op::CumulativeLogsumexp, {x}, pick_attributes(g, {"dim", "reverse"}));
  ValueId empty = b.compare(y, b.constant_like(-INFINITY, y), "EQ");
  ValueId next = shift_along(b, y, dim, reverse ? 1 : -1);
  ValueId decay = keep_unless(b, empty, b.exponential(b.minimum(b.subtract(y, next), b.zeros_like(y))));
  ValueId sum = recurrence(b, decay, b.convert(g.cotangent(), wide), dim, !reverse);
  ValueId weight = keep_unless(b, empty, b.exponential(b.subtract(x, y)));
  g.gradients[0] = b.convert(b.multiply(weight, sum), dtype);
  return Status::ok();
}

// The states before each step: h0 (or 0), then all but the last of h.
static ValueId previous_states(Gradient& g, int64_t dim, bool reverse) {
  Builder& b = g.b;
  ValueId h = g.results[0];
  bool has_start = g.operands.size() > 2 && g.operands[2].is_valid();
  if (!has_start) return shift_along(b, h, dim, reverse ? -1 : 1);
  Shape one = b.shape(h), full = b.shape(h), start(full.size(), Dim(0));
  one[dim] = Dim(1);
  ValueId first = b.reshape(g.operands[2], one);
  ValueId all = b.concatenate(reverse ? std::vector<ValueId>{h, first} : std::vector<ValueId>{first, h}, dim);
  if (reverse) start[dim] = Dim(1);
  full[dim] = full[dim] + start[dim];
  return b.slice(all, start, full);
}

Status gradient_linear_recurrence(Gradient& g) {
  Builder& b = g.b;
  int64_t dim = g.attributes.get_int("dim");
  bool reverse = g.attributes.get_bool("reverse");
  ValueId decay = g.operands[0];
  ValueId lambda = recurrence(b, shift_along(b, decay, dim, reverse ? 1 : -1), g.cotangent(), dim, !reverse);
  if (g.wants(0)) g.gradients[0] = b.multiply(lambda, previous_states(g, dim, reverse));
  if (g.wants(1)) g.gradients[1] = lambda;
  if (g.wants(2)) {
    // The first step alone: everything else is cut away, and an empty dim gives zero.
    ValueId reached = b.multiply(decay, lambda);
    Shape shape = b.shape(reached), lo(shape.size(), Dim(0)), hi = lo;
    (reverse ? lo : hi)[dim] = Dim(1) - shape[dim];
    ValueId first = b.pad(reached, b.constant(0, b.dtype(reached)), lo, hi);
    g.gradients[2] = b.reshape(first, shape_of(g, 2));
  }
  return Status::ok();
}

}  // namespace tilewright
