// Layer, RMS, group and batch normalization with their gradients, in f32 (f64 for f64), rounded once.
#include "ir/expansions/pieces.h"

namespace tilewright {
using namespace expansions;
namespace {

// Mean over `axes`, and 1/sqrt(var + eps) by a second pass over the centred values.
struct Statistics {
  ValueId mean, var, rstd, normal;  // normal: (x - mean) rstd
};
Statistics statistics(Builder& b, ValueId x, const Ints& axes, double eps) {
  if (!b.status().is_ok()) return {};
  Shape shape = b.shape(x);
  Statistics s;
  s.mean = mean_over(b, x, axes);
  ValueId centred = b.subtract(x, b.broadcast_reduced(s.mean, shape, axes));
  s.var = mean_over(b, b.multiply(centred, centred), axes);
  s.rstd = b.emit(Op::Rsqrt, {b.shift(s.var, eps)});
  s.normal = b.multiply(centred, b.broadcast_reduced(s.rstd, shape, axes));
  return s;
}

// (gw - mean(gw) - normal mean(gw normal)) rstd
ValueId input_gradient(Builder& b, ValueId gw, ValueId normal, ValueId rstd, const Ints& axes) {
  if (!b.status().is_ok()) return {};
  Shape shape = b.shape(gw);
  ValueId along = b.multiply(normal, spread_mean(b, b.multiply(gw, normal), axes));
  ValueId centred = b.subtract(b.subtract(gw, spread_mean(b, gw, axes)), along);
  return b.multiply(centred, b.broadcast_reduced(rstd, shape, axes));
}

// The axes must be the last ones, in any order.
Result<Ints> trailing_axes(const Expansion& e, int operand) {
  const Ints& axes = e.attributes.get_ints("axes");
  int rank = static_cast<int>(shape_of(e, operand).size());
  TW_RETURN_IF_ERROR(check_axes(e, "axes", axes, rank));
  for (int64_t axis : axes) {
    if (axis < rank - static_cast<int>(axes.size())) {
      return fail(e, "axis ", axis, " is not among the last ", axes.size(), " of rank ", rank);
    }
  }
  Ints sorted;
  for (int64_t axis = rank - static_cast<int64_t>(axes.size()); axis < rank; ++axis) sorted.push_back(axis);
  return sorted;
}

// A parameter over `axes` repeated to the shape of x, in the work type.
ValueId spread_parameter(Expansion& e, int operand, const Shape& shape, const Ints& axes) {
  return e.b.broadcast(widened(e, operand), shape, axes);
}

Status check_parameter(const Expansion& e, int operand, const Shape& expected) {
  return e.has(operand) ? check_shape(e, operand, expected) : Status::ok();
}

}  // namespace

Status expand_layer_norm(Expansion& e) {
  Builder& b = e.b;
  TW_ASSIGN_OR_RETURN(Ints axes, trailing_axes(e, 0));
  Shape shape = shape_of(e, 0), inner = pick(shape, axes);
  TW_RETURN_IF_ERROR(check_parameter(e, 1, inner));
  TW_RETURN_IF_ERROR(check_parameter(e, 2, inner));
  Statistics s = statistics(b, widened(e, 0), axes, e.attributes.get_float("eps"));
  ValueId y = s.normal;
  if (e.has(1)) y = b.multiply(y, spread_parameter(e, 1, shape, axes));
  if (e.has(2)) y = b.add(y, spread_parameter(e, 2, shape, axes));
  e.results = {b.convert(y, dtype_of(e, 0)), s.mean, s.rstd};
  return Status::ok();
}

Status expand_layer_norm_grad(Expansion& e) {
  Builder& b = e.b;
  TW_ASSIGN_OR_RETURN(Ints axes, trailing_axes(e, 1));
  Shape shape = shape_of(e, 1);
  Ints outer = other_axes(static_cast<int>(shape.size()), axes);
  TW_RETURN_IF_ERROR(check_same_shape(e, 0, 1));
  TW_RETURN_IF_ERROR(check_shape(e, 2, pick(shape, outer)));
  TW_RETURN_IF_ERROR(check_shape(e, 3, pick(shape, outer)));
  TW_RETURN_IF_ERROR(check_parameter(e, 4, pick(shape, axes)));
  DType dtype = dtype_of(e, 1), work = work_type(dtype);
  ValueId g = widened(e, 0), x = widened(e, 1);
  ValueId mean = b.convert(e.operands[2], work), rstd = b.convert(e.operands[3], work);
  ValueId centred = b.subtract(x, b.broadcast_reduced(mean, shape, axes));
  ValueId normal = b.multiply(centred, b.broadcast_reduced(rstd, shape, axes));
  ValueId gw = e.has(4) ? b.multiply(g, spread_parameter(e, 4, shape, axes)) : g;
  ValueId dx = input_gradient(b, gw, normal, rstd, axes);
  ValueId dw = b.reduce_sum(b.multiply(g, normal), outer), db = b.reduce_sum(g, outer);
  e.results = {b.convert(dx, dtype), b.convert(dw, dtype), b.convert(db, dtype)};
  return Status::ok();
}

Status expand_rms_norm(Expansion& e) {
  Builder& b = e.b;
  TW_ASSIGN_OR_RETURN(Ints axes, trailing_axes(e, 0));
  Shape shape = shape_of(e, 0);
  TW_RETURN_IF_ERROR(check_parameter(e, 1, pick(shape, axes)));
  DType dtype = dtype_of(e, 0), work = work_type(dtype);
  ValueId x = widened(e, 0);
  ValueId rstd =
      b.emit(Op::Rsqrt, {b.shift(mean_over(b, b.multiply(x, x), axes), e.attributes.get_float("eps"))});
  ValueId y = b.multiply(x, b.broadcast_reduced(rstd, shape, axes));
  if (e.has(1)) {
    if (e.attributes.get_bool("cast_first")) y = b.convert(b.convert(y, dtype), work);
    y = b.multiply(y, spread_parameter(e, 1, shape, axes));
  }
  e.results = {b.convert(y, dtype), rstd};
  return Status::ok();
}

Status expand_rms_norm_grad(Expansion& e) {
  Builder& b = e.b;
  TW_ASSIGN_OR_RETURN(Ints axes, trailing_axes(e, 1));
  Shape shape = shape_of(e, 1);
  Ints outer = other_axes(static_cast<int>(shape.size()), axes);
  TW_RETURN_IF_ERROR(check_same_shape(e, 0, 1));
  TW_RETURN_IF_ERROR(check_shape(e, 2, pick(shape, outer)));
  TW_RETURN_IF_ERROR(check_parameter(e, 3, pick(shape, axes)));
  DType dtype = dtype_of(e, 1);
  ValueId g = widened(e, 0), x = widened(e, 1);
  ValueId rstd = b.broadcast_reduced(b.convert(e.operands[2], work_type(dtype)), shape, axes);
  ValueId normal = b.multiply(x, rstd);
  ValueId gw = e.has(3) ? b.multiply(g, spread_parameter(e, 3, shape, axes)) : g;
  ValueId along = b.multiply(normal, spread_mean(b, b.multiply(gw, normal), axes));
  ValueId dx = b.multiply(b.subtract(gw, along), rstd);
  ValueId dw = b.reduce_sum(b.multiply(g, normal), outer);
  e.results = {b.convert(dx, dtype), b.convert(dw, dtype)};
  return Status::ok();
}

namespace {

// [n, c, ..] seen as [n, groups, rest].
Result<Shape> grouped_shape(const Expansion& e, int operand) {
  const Shape& shape = shape_of(e, operand);
  int64_t groups = e.attributes.get_int("groups");
  if (shape.size() < 2)
    return fail(e, operand_name(e, operand), " has rank ", shape.size(), ", expected 2 or more");
  if (groups < 1) return fail(e, "groups is ", groups, ", expected 1 or more");
  if (!shape[1].is_multiple_of(groups)) {
    return fail(e, "groups ", groups, " does not divide the ", shape[1].to_string(), " channels");
  }
  Dim rest = Dim::floor_div(shape[1], Dim(groups));
  for (size_t i = 2; i < shape.size(); ++i) rest = rest * shape[i];
  return Shape{shape[0], Dim(groups), rest};
}

}  // namespace

Status expand_group_norm(Expansion& e) {
  Builder& b = e.b;
  TW_ASSIGN_OR_RETURN(Shape grouped, grouped_shape(e, 0));
  Shape shape = shape_of(e, 0);
  TW_RETURN_IF_ERROR(check_parameter(e, 1, {shape[1]}));
  TW_RETURN_IF_ERROR(check_parameter(e, 2, {shape[1]}));
  Statistics s = statistics(b, b.reshape(widened(e, 0), grouped), {2}, e.attributes.get_float("eps"));
  ValueId y = b.reshape(s.normal, shape);
  if (e.has(1)) y = b.multiply(y, spread_parameter(e, 1, shape, {1}));
  if (e.has(2)) y = b.add(y, spread_parameter(e, 2, shape, {1}));
  e.results = {b.convert(y, dtype_of(e, 0)), s.mean, s.rstd};
  return Status::ok();
}

Status expand_group_norm_grad(Expansion& e) {
  Builder& b = e.b;
  TW_ASSIGN_OR_RETURN(Shape grouped, grouped_shape(e, 1));
  Shape shape = shape_of(e, 1);
  TW_RETURN_IF_ERROR(check_same_shape(e, 0, 1));
  TW_RETURN_IF_ERROR(check_shape(e, 2, {grouped[0], grouped[1]}));
  TW_RETURN_IF_ERROR(check_shape(e, 3, {grouped[0], grouped[1]}));
  TW_RETURN_IF_ERROR(check_parameter(e, 4, {shape[1]}));
  DType dtype = dtype_of(e, 1), work = work_type(dtype);
  ValueId g = widened(e, 0), x = b.reshape(widened(e, 1), grouped);
  ValueId mean = b.convert(e.operands[2], work), rstd = b.convert(e.operands[3], work);
  ValueId centred = b.subtract(x, b.broadcast_reduced(mean, grouped, {2}));
  ValueId normal = b.multiply(centred, b.broadcast_reduced(rstd, grouped, {2}));
  ValueId gw = e.has(4) ? b.multiply(g, spread_parameter(e, 4, shape, {1})) : g;
  ValueId dx = b.reshape(input_gradient(b, b.reshape(gw, grouped), normal, rstd, {2}), shape);
  Ints others = other_axes(static_cast<int>(shape.size()), {1});
  ValueId dw = b.reduce_sum(b.multiply(g, b.reshape(normal, shape)), others), db = b.reduce_sum(g, others);
  e.results = {b.convert(dx, dtype), b.convert(dw, dtype), b.convert(db, dtype)};
  return Status::ok();
}

namespace {
Result<int64_t> feature_axis(const Expansion& e, int operand) {
  int64_t axis = e.attributes.get_int("feature_dim");
  TW_RETURN_IF_ERROR(check_axis(e, "feature_dim", axis, static_cast<int>(shape_of(e, operand).size())));
  return axis;
}
}  // namespace

Status expand_batch_norm_train(Expansion& e) {
  Builder& b = e.b;
  TW_ASSIGN_OR_RETURN(int64_t axis, feature_axis(e, 0));
  Shape shape = shape_of(e, 0);
  Shape features{shape[static_cast<size_t>(axis)]};
  for (int operand = 1; operand <= 4; ++operand) TW_RETURN_IF_ERROR(check_parameter(e, operand, features));
  DType dtype = dtype_of(e, 0), work = work_type(dtype), running = dtype_of(e, 3);
  Ints axes = other_axes(static_cast<int>(shape.size()), {axis});
  ValueId x = widened(e, 0);
  Statistics s = statistics(b, x, axes, e.attributes.get_float("eps"));
  ValueId y = s.normal;
  if (e.has(1)) y = b.multiply(y, spread_parameter(e, 1, shape, {axis}));
  if (e.has(2)) y = b.add(y, spread_parameter(e, 2, shape, {axis}));
  // The running variance takes the unbiased estimate.
  ValueId count = element_count(b, x, axes, work);
  ValueId unbiased = b.multiply(s.var, splat_like(b, b.divide(count, b.shift(count, -1)), s.var));
  double momentum = e.attributes.get_float("momentum");
  auto blend = [&](int old, ValueId fresh) {
    ValueId kept = b.scale(b.convert(e.operands[static_cast<size_t>(old)], work), 1 - momentum);
    return b.convert(b.add(kept, b.scale(fresh, momentum)), running);
  };
  e.results = {b.convert(y, dtype), s.mean, s.rstd, blend(3, s.mean), blend(4, unbiased)};
  return Status::ok();
}

Status expand_batch_norm_infer(Expansion& e) {
  Builder& b = e.b;
  TW_ASSIGN_OR_RETURN(int64_t axis, feature_axis(e, 0));
  Shape shape = shape_of(e, 0);
  Shape features{shape[static_cast<size_t>(axis)]};
  for (int operand = 1; operand <= 4; ++operand) TW_RETURN_IF_ERROR(check_parameter(e, operand, features));
  DType dtype = dtype_of(e, 0), work = work_type(dtype);
  ValueId mean = b.convert(e.operands[3], work), var = b.convert(e.operands[4], work);
  ValueId rstd = b.emit(Op::Rsqrt, {b.shift(var, e.attributes.get_float("eps"))});
  ValueId y = b.multiply(b.subtract(widened(e, 0), b.broadcast(mean, shape, {axis})),
                         b.broadcast(rstd, shape, {axis}));
  if (e.has(1)) y = b.multiply(y, spread_parameter(e, 1, shape, {axis}));
  if (e.has(2)) y = b.add(y, spread_parameter(e, 2, shape, {axis}));
  e.results = {b.convert(y, dtype)};
  return Status::ok();
}

Status expand_batch_norm_grad(Expansion& e) {
  Builder& b = e.b;
  TW_ASSIGN_OR_RETURN(int64_t axis, feature_axis(e, 1));
  Shape shape = shape_of(e, 1);
  Shape features{shape[static_cast<size_t>(axis)]};
  TW_RETURN_IF_ERROR(check_same_shape(e, 0, 1));
  for (int operand = 2; operand <= 4; ++operand) TW_RETURN_IF_ERROR(check_parameter(e, operand, features));
  DType dtype = dtype_of(e, 1), work = work_type(dtype);
  Ints axes = other_axes(static_cast<int>(shape.size()), {axis});
  ValueId g = widened(e, 0), x = widened(e, 1);
  ValueId mean = b.convert(e.operands[3], work), rstd = b.convert(e.operands[4], work);
  ValueId centred = b.subtract(x, b.broadcast(mean, shape, {axis}));
  ValueId normal = b.multiply(centred, b.broadcast(rstd, shape, {axis}));
  ValueId gw = e.has(2) ? b.multiply(g, spread_parameter(e, 2, shape, {axis})) : g;
  ValueId dx = input_gradient(b, gw, normal, rstd, axes);
  ValueId dw = b.reduce_sum(b.multiply(g, normal), axes), db = b.reduce_sum(g, axes);
  e.results = {b.convert(dx, dtype), b.convert(dw, dtype), b.convert(db, dtype)};
  return Status::ok();
}

}  // namespace tilewright
