// Losses: cross entropy (also fused with its projection) and elementwise losses with a reduction.
#include "ir/expansions/pieces.h"

namespace tilewright {
using namespace expansions;
namespace {

// The classification that forward and backward share.
struct Targets {
  Dim n, c;
  DType work;
  double smoothing = 0;
  ValueId valid;   // bool [n]
  ValueId safe;    // target with ignored rows at 0
  ValueId weight;  // weight of each row's class, 0 when ignored; invalid without weights
  ValueId total;   // 0-d sum of the weights of kept rows
};

Targets read_targets(Expansion& e, const Dim& n, const Dim& c, int target, int weight, DType work) {
  Builder& b = e.b;
  Targets t{n, c, work, 0, {}, {}, {}, {}};
  DType index = dtype_of(e, target);
  ValueId raw = e.operands[static_cast<size_t>(target)];
  t.valid = b.compare(raw, b.integer(e.attributes.get_int("ignore_index"), index, {n}), "NE");
  t.safe = b.select(t.valid, raw, b.integer(0, index, {n}));
  if (weight >= 0 && e.has(weight)) {
    ValueId each = b.convert(take(b, e.operands[static_cast<size_t>(weight)], t.safe, 0, "error"), work);
    t.weight = b.select(t.valid, each, b.zeros_like(each));
  }
  t.total = b.reduce_sum(t.weight.is_valid() ? t.weight : b.convert(t.valid, work), {0});
  return t;
}

Result<double> smoothing_of(const Expansion& e) {
  double smoothing = e.attributes.get_float("label_smoothing");
  if (smoothing >= 0 && smoothing <= 1) return smoothing;
  return fail(e, "label_smoothing is ", smoothing, ", expected 0 to 1");
}

ValueId reduce_loss(Expansion& e, ValueId each, ValueId divisor) {
  const std::string& reduction = e.attributes.get_string("reduction");
  if (reduction == "none") return each;
  ValueId sum = e.b.reduce_sum(each, {0});
  return reduction == "sum" ? sum : e.b.divide(sum, divisor);
}

// {loss, lse} of logits already in the work type.  Distances to the maximum keep the digits that lse would
// lose.
std::vector<ValueId> entropy(Expansion& e, const Targets& t, ValueId logits, ValueId class_weights) {
  Builder& b = e.b;
  Shape shape{t.n, t.c};
  ValueId max = b.reduce_max(logits, {1});
  // An infinite maximum is not subtracted: exp then gives 0 or inf by itself.
  ValueId pivot = b.select(b.emit(Op::IsFinite, {max}), max, b.zeros_like(max));
  ValueId shifted = b.subtract(logits, b.broadcast(pivot, shape, {0}));
  ValueId log_sum = b.log(b.reduce_sum(b.exponential(shifted), {1}));
  ValueId column = b.reshape(t.safe, {t.n, Dim(1)});
  ValueId picked = b.reshape(
      b.emit(Op::GatherElements, {shifted, column}, {{"dim", int64_t{1}}, {"oob", std::string("error")}}),
      {t.n});
  ValueId loss = b.subtract(log_sum, picked);
  if (t.weight.is_valid()) loss = b.multiply(loss, t.weight);
  if (t.smoothing > 0) {
    ValueId all = b.subtract(b.broadcast(log_sum, shape, {0}), shifted);
    if (class_weights.is_valid()) all = b.multiply(all, b.broadcast(class_weights, shape, {1}));
    ValueId smooth = b.reduce_sum(all, {1});
    ValueId factor = b.divide(b.constant(t.smoothing, t.work), axis_size(b, logits, 1, t.work));
    loss = b.add(b.scale(loss, 1 - t.smoothing), b.multiply(smooth, splat_like(b, factor, smooth)));
  }
  loss = b.select(t.valid, loss, b.zeros_like(loss));
  return {reduce_loss(e, loss, t.total), b.add(log_sum, pivot)};
}

// The cotangent of each row: g itself, or g over the total weight.
ValueId row_cotangent(Expansion& e, const Targets& t) {
  Builder& b = e.b;
  ValueId g = b.convert(e.operands[0], t.work);
  const std::string& reduction = e.attributes.get_string("reduction");
  if (reduction == "mean") g = b.divide(g, t.total);
  return reduction == "none" ? g : splat(b, g, {t.n});
}

Status check_cotangent(const Expansion& e, const Dim& n) {
  bool none = e.attributes.get_string("reduction") == "none";
  return check_shape(e, 0, none ? Shape{n} : Shape{});
}

// d loss / d logits, in the work type.
ValueId entropy_gradient(Expansion& e, const Targets& t, ValueId logits, ValueId lse, ValueId class_weights) {
  Builder& b = e.b;
  Shape shape{t.n, t.c};
  ValueId p = b.exponential(b.subtract(logits, b.broadcast(b.convert(lse, t.work), shape, {0})));
  if (!b.status().is_ok()) return {};
  DType index = b.dtype(t.safe);
  // Taken from a list of the classes, so that a target out of range is the error that it is in the forward.
  ValueId target = t.weight.is_valid() ? t.safe : take(b, b.iota({t.c}, 0, index), t.safe, 0, "error");
  ValueId hit = b.convert(b.compare(b.iota(shape, 1, index), b.broadcast(target, shape, {0}), "EQ"), t.work);
  ValueId d;
  if (t.smoothing == 0) {
    d = b.subtract(p, hit);
    if (t.weight.is_valid()) d = b.multiply(d, b.broadcast(t.weight, shape, {0}));
  } else {
    d = b.scale(b.subtract(p, hit), 1 - t.smoothing);
    if (t.weight.is_valid()) d = b.multiply(d, b.broadcast(t.weight, shape, {0}));
    ValueId count = axis_size(b, logits, 1, t.work);
    ValueId part = b.divide(b.constant(t.smoothing, t.work), count);
    ValueId spread;
    if (class_weights.is_valid()) {
      ValueId sum = splat(b, b.reduce_sum(class_weights, {0}), shape);
      spread = b.subtract(b.multiply(p, sum), b.broadcast(class_weights, shape, {1}));
    } else {
      spread = b.subtract(b.multiply(p, splat(b, count, shape)), b.constant_like(1, p));
    }
    d = b.add(d, b.multiply(spread, splat(b, part, shape)));
  }
  d = b.multiply(d, b.broadcast(row_cotangent(e, t), shape, {0}));
  return b.select(b.broadcast(t.valid, shape, {0}), d, b.zeros_like(d));
}

}  // namespace

Status expand_cross_entropy(Expansion& e) {
  TW_RETURN_IF_ERROR(check_rank(e, 0, 2));
  Dim n = shape_of(e, 0)[0], c = shape_of(e, 0)[1];
  TW_RETURN_IF_ERROR(check_shape(e, 1, {n}));
  if (e.has(2)) TW_RETURN_IF_ERROR(check_shape(e, 2, {c}));
  TW_ASSIGN_OR_RETURN(double smoothing, smoothing_of(e));
  Targets t = read_targets(e, n, c, 1, 2, work_type(dtype_of(e, 0)));
  t.smoothing = smoothing;
  e.results = entropy(e, t, widened(e, 0), e.has(2) ? widened(e, 2) : ValueId{});
  return Status::ok();
}

Status expand_cross_entropy_grad(Expansion& e) {
  TW_RETURN_IF_ERROR(check_rank(e, 1, 2));
  Dim n = shape_of(e, 1)[0], c = shape_of(e, 1)[1];
  TW_RETURN_IF_ERROR(check_cotangent(e, n));
  TW_RETURN_IF_ERROR(check_shape(e, 2, {n}));
  if (e.has(3)) TW_RETURN_IF_ERROR(check_shape(e, 3, {c}));
  TW_RETURN_IF_ERROR(check_shape(e, 4, {n}));
  TW_ASSIGN_OR_RETURN(double smoothing, smoothing_of(e));
  DType dtype = dtype_of(e, 1);
  Targets t = read_targets(e, n, c, 2, 3, work_type(dtype));
  t.smoothing = smoothing;
  ValueId d = entropy_gradient(e, t, widened(e, 1), e.operands[4], e.has(3) ? widened(e, 3) : ValueId{});
  e.results = {e.b.convert(d, dtype)};
  return Status::ok();
}

namespace {
// x [n, d] times w [c, d] transposed, in the work type.
ValueId project(Builder& b, ValueId x, ValueId w, DType work) {
  return b.emit(Op::DotGeneral, {x, w},
                {{"lhs_contract", Ints{1}}, {"rhs_contract", Ints{1}}, {"out_type", work}});
}

// x at operand `first`, then w and target.
Status check_projection(const Expansion& e, int first) {
  TW_RETURN_IF_ERROR(check_rank(e, first, 2));
  TW_RETURN_IF_ERROR(check_rank(e, first + 1, 2));
  const Shape& x = shape_of(e, first);
  TW_RETURN_IF_ERROR(check_shape(e, first + 1, {shape_of(e, first + 1)[0], x[1]}));
  return check_shape(e, first + 2, {x[0]});
}
}  // namespace

Status expand_linear_cross_entropy(Expansion& e) {
  TW_RETURN_IF_ERROR(check_projection(e, 0));
  DType work = work_type(dtype_of(e, 0));
  Targets t = read_targets(e, shape_of(e, 0)[0], shape_of(e, 1)[0], 2, -1, work);
  e.results = entropy(e, t, project(e.b, e.operands[0], e.operands[1], work), {});
  return Status::ok();
}

Status expand_linear_cross_entropy_grad(Expansion& e) {
  Builder& b = e.b;
  TW_RETURN_IF_ERROR(check_projection(e, 1));
  Dim n = shape_of(e, 1)[0], c = shape_of(e, 2)[0];
  TW_RETURN_IF_ERROR(check_cotangent(e, n));
  TW_RETURN_IF_ERROR(check_shape(e, 4, {n}));
  DType dtype = dtype_of(e, 1), work = work_type(dtype);
  Targets t = read_targets(e, n, c, 3, -1, work);
  ValueId d = entropy_gradient(e, t, project(b, e.operands[1], e.operands[2], work), e.operands[4], {});
  ValueId dx =
      b.emit(Op::DotGeneral, {d, widened(e, 2)}, {{"lhs_contract", Ints{1}}, {"rhs_contract", Ints{0}}});
  ValueId dw =
      b.emit(Op::DotGeneral, {d, widened(e, 1)}, {{"lhs_contract", Ints{0}}, {"rhs_contract", Ints{0}}});
  e.results = {b.convert(dx, dtype), b.convert(dw, dtype)};
  return Status::ok();
}

namespace {

// Sum, mean, mean over the first dim, or nothing; then rounds to the dtype of x.
Status finish_loss(Expansion& e, ValueId each) {
  Builder& b = e.b;
  const std::string& reduction = e.attributes.get_string("reduction");
  if (!b.status().is_ok()) return Status::ok();
  Ints all = other_axes(b.rank(each), {});
  if (reduction == "batchmean" && all.empty())
    return fail(e, "x has rank 0, expected a batch dim for batchmean");
  ValueId loss = each;
  if (reduction != "none") loss = b.reduce_sum(each, all);
  DType work = b.dtype(each);
  if (reduction == "mean") loss = b.divide(loss, element_count(b, each, all, work));
  if (reduction == "batchmean") loss = b.divide(loss, axis_size(b, each, 0, work));
  e.results = {b.convert(loss, dtype_of(e, 0))};
  return Status::ok();
}

}  // namespace

Status expand_bce_with_logits(Expansion& e) {
  Builder& b = e.b;
  for (int operand = 1; operand <= 3; ++operand) {
    if (e.has(operand)) TW_RETURN_IF_ERROR(check_same_shape(e, operand, 0));
  }
  ValueId x = widened(e, 0), t = widened(e, 1);
  ValueId tail = b.emit(Op::LogPlusOne, {b.exponential(b.negate(b.emit(Op::Abs, {x})))});
  ValueId softplus = b.add(b.maximum(b.negate(x), b.zeros_like(x)), tail);
  if (e.has(3)) softplus = b.multiply(b.shift(b.multiply(b.shift(widened(e, 3), -1), t), 1), softplus);
  ValueId loss = b.add(b.multiply(b.subtract(b.constant_like(1, t), t), x), softplus);
  if (e.has(2)) loss = b.multiply(loss, widened(e, 2));
  return finish_loss(e, loss);
}

Status expand_mse_loss(Expansion& e) {
  TW_RETURN_IF_ERROR(check_same_shape(e, 1, 0));
  ValueId d = e.b.subtract(widened(e, 0), widened(e, 1));
  return finish_loss(e, e.b.multiply(d, d));
}

Status expand_smooth_l1_loss(Expansion& e) {
  Builder& b = e.b;
  TW_RETURN_IF_ERROR(check_same_shape(e, 1, 0));
  double beta = e.attributes.get_float("beta");
  if (!(beta >= 0)) return fail(e, "beta is ", beta, ", expected 0 or more");
  ValueId d = b.emit(Op::Abs, {b.subtract(widened(e, 0), widened(e, 1))});
  if (beta == 0) return finish_loss(e, d);
  ValueId curve = b.divide(b.scale(b.multiply(d, d), 0.5), b.constant_like(beta, d));
  ValueId line = b.shift(d, -0.5 * beta);
  return finish_loss(e, b.select(b.compare(d, b.constant_like(beta, d), "LT"), curve, line));
}

Status expand_kl_div(Expansion& e) {
  Builder& b = e.b;
  TW_RETURN_IF_ERROR(check_same_shape(e, 1, 0));
  ValueId x = widened(e, 0), t = widened(e, 1);
  if (e.attributes.get_bool("log_target"))
    return finish_loss(e, b.multiply(b.exponential(t), b.subtract(t, x)));
  // Where the target is 0 both logarithms are replaced, so that neither value nor gradient turns into NaN.
  ValueId zero = b.zeros_like(t), absent = b.compare(t, zero, "EQ");
  ValueId log_target = b.log(b.select(absent, b.constant_like(1, t), t));
  ValueId gap = b.subtract(log_target, b.select(absent, zero, x));
  return finish_loss(e, b.multiply(t, gap));
}

}  // namespace tilewright
