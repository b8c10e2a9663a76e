// Optimizer steps: computed in f32 (f64 for f64) and rounded once a result.
#include <cmath>

#include "ir/expansions/pieces.h"

namespace tilewright {
using namespace expansions;
namespace {

// A 0-d f32 operand such as lr or step, in the work type.
Result<ValueId> scalar(Expansion& e, int operand, DType work) {
  TW_RETURN_IF_ERROR(check_shape(e, operand, {}));
  return e.b.convert(e.operands[static_cast<size_t>(operand)], work);
}

Status check_alike(const Expansion& e, int count) {
  for (int operand = 1; operand < count; ++operand) {
    if (e.has(operand)) TW_RETURN_IF_ERROR(check_same_shape(e, operand, 0));
  }
  return Status::ok();
}

// a x + (1 - a) y
ValueId blend(Builder& b, double a, ValueId x, ValueId y) { return b.add(b.scale(x, a), b.scale(y, 1 - a)); }

// p (1 - lr decay)
ValueId decayed(Builder& b, ValueId p, ValueId lr, double decay) {
  if (decay == 0) return p;
  ValueId factor = b.subtract(b.constant_like(1, lr), b.scale(lr, decay));
  return b.multiply(p, splat_like(b, factor, p));
}

// 1 - beta^step as -expm1(step log(beta)), which keeps its digits for beta near 1.
ValueId bias_correction(Builder& b, double beta, ValueId step) {
  // Subtracted from 0: the correction of beta = 1 is +0, as in 1 - beta^step.
  ValueId grown = b.emit(Op::ExponentialMinusOne, {b.scale(step, std::log(beta))});
  return b.subtract(b.zeros_like(grown), grown);
}

Status adam_step(Expansion& e, bool decoupled) {
  Builder& b = e.b;
  enum { P, G, M, V, Vmax, Step, Lr };
  TW_RETURN_IF_ERROR(check_alike(e, Vmax + 1));
  DType dtype = dtype_of(e, P), work = work_type(dtype);
  double beta1 = e.attributes.get_float("beta1"), beta2 = e.attributes.get_float("beta2");
  double decay = e.attributes.get_float("weight_decay");
  TW_ASSIGN_OR_RETURN(ValueId step, scalar(e, Step, work));
  TW_ASSIGN_OR_RETURN(ValueId lr, scalar(e, Lr, work));
  ValueId p = widened(e, P), g = widened(e, G);
  if (e.attributes.get_bool("maximize")) g = b.negate(g);
  if (decoupled) {
    p = decayed(b, p, lr, decay);
  } else if (decay != 0) {
    g = b.add(g, b.scale(p, decay));
  }
  ValueId m = blend(b, beta1, widened(e, M), g), v = blend(b, beta2, widened(e, V), b.multiply(g, g));
  ValueId largest = e.has(Vmax) ? b.maximum(widened(e, Vmax), v) : v;
  ValueId root = b.emit(Op::Sqrt, {bias_correction(b, beta2, step)});
  ValueId denominator = b.divide(b.emit(Op::Sqrt, {largest}), splat_like(b, root, largest));
  denominator = b.shift(denominator, e.attributes.get_float("eps"));
  ValueId rate = b.divide(lr, bias_correction(b, beta1, step));
  p = b.subtract(p, b.multiply(splat_like(b, rate, m), b.divide(m, denominator)));
  e.results = {b.convert(p, dtype), b.convert(m, dtype), b.convert(v, dtype), b.convert(largest, dtype)};
  return Status::ok();
}

}  // namespace

Status expand_adam(Expansion& e) { return adam_step(e, false); }
Status expand_adamw(Expansion& e) { return adam_step(e, true); }

Status expand_sgd_momentum(Expansion& e) {
  Builder& b = e.b;
  TW_RETURN_IF_ERROR(check_alike(e, 3));
  DType dtype = dtype_of(e, 0), work = work_type(dtype);
  TW_ASSIGN_OR_RETURN(ValueId lr, scalar(e, 3, work));
  double momentum = e.attributes.get_float("momentum"), decay = e.attributes.get_float("weight_decay");
  ValueId p = widened(e, 0), g = widened(e, 1);
  if (e.attributes.get_bool("maximize")) g = b.negate(g);
  if (decay != 0) g = b.add(g, b.scale(p, decay));
  ValueId buf = b.add(b.scale(widened(e, 2), momentum), b.scale(g, 1 - e.attributes.get_float("dampening")));
  ValueId update = e.attributes.get_bool("nesterov") ? b.add(g, b.scale(buf, momentum)) : buf;
  p = b.subtract(p, b.multiply(splat_like(b, lr, update), update));
  e.results = {b.convert(p, dtype), b.convert(buf, dtype)};
  return Status::ok();
}

Status expand_lion(Expansion& e) {
  Builder& b = e.b;
  TW_RETURN_IF_ERROR(check_alike(e, 3));
  DType dtype = dtype_of(e, 0), work = work_type(dtype);
  TW_ASSIGN_OR_RETURN(ValueId lr, scalar(e, 3, work));
  double decay = e.attributes.get_float("weight_decay");
  ValueId p = widened(e, 0), g = widened(e, 1), m = widened(e, 2);
  ValueId update = b.emit(Op::Sign, {blend(b, e.attributes.get_float("beta1"), m, g)});
  if (decay != 0) update = b.add(update, b.scale(p, decay));
  p = b.subtract(p, b.multiply(splat_like(b, lr, p), update));
  e.results = {b.convert(p, dtype), b.convert(blend(b, e.attributes.get_float("beta2"), m, g), dtype)};
  return Status::ok();
}

namespace {

// Matrices are kept in one type, their products and sums are made in its work type.
struct Iteration {
  Builder& b;
  DType type, work;

  ValueId round(ValueId x) { return b.convert(x, type); }
  ValueId widen(ValueId x) { return b.convert(x, work); }
  ValueId product(ValueId x, ValueId y, bool transposed = false) {
    AttributeMap attributes{{"lhs_contract", Ints{1}}, {"rhs_contract", Ints{transposed ? 1 : 0}}};
    if (work != type) attributes["out_type"] = work;
    return b.emit(Op::DotGeneral, {x, y}, std::move(attributes));
  }
};

// Brings the singular values of x [r, c], r <= c, near 1.
ValueId newton_schulz(Builder& b, ValueId x, int64_t steps, DType type) {
  constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;
  Iteration in{b, type, work_type(type)};
  x = in.widen(in.round(x));
  ValueId norm = b.emit(Op::Sqrt, {b.reduce_sum(b.multiply(x, x), {0, 1})});
  x = in.round(b.divide(x, splat_like(b, b.shift(norm, 1e-7), x)));
  for (int64_t i = 0; i < steps; ++i) {
    ValueId square = in.round(in.product(x, x, true));
    ValueId mix = b.add(b.scale(in.widen(square), kB), b.scale(in.product(square, square), kC));
    x = in.round(b.add(b.scale(in.widen(x), kA), in.product(in.round(mix), x)));
  }
  return x;
}

}  // namespace

Status expand_muon(Expansion& e) {
  Builder& b = e.b;
  TW_RETURN_IF_ERROR(check_rank(e, 0, 2));
  TW_RETURN_IF_ERROR(check_most(e, "steps", e.attributes.get_int("steps"), 256));
  TW_RETURN_IF_ERROR(check_alike(e, 3));
  DType dtype = dtype_of(e, 0), work = work_type(dtype);
  TW_ASSIGN_OR_RETURN(ValueId lr, scalar(e, 3, work));
  TW_ASSIGN_OR_RETURN(int64_t rows, known(e, shape_of(e, 0)[0], "the number of rows"));
  TW_ASSIGN_OR_RETURN(int64_t columns, known(e, shape_of(e, 0)[1], "the number of columns"));
  DType type = e.attributes.get_dtype("iteration_type", DType::BF16);
  if (!is_float(type)) return fail(e, "iteration_type is ", dtype_name(type), ", expected a float type");
  double momentum = e.attributes.get_float("momentum");
  ValueId p = widened(e, 0), g = widened(e, 1);
  ValueId buf = blend(b, momentum, widened(e, 2), g);
  ValueId x = e.attributes.get_bool("nesterov") ? blend(b, momentum, buf, g) : buf;
  bool tall = rows > columns;
  if (tall) x = b.transpose(x, {1, 0});
  x = b.convert(newton_schulz(b, x, e.attributes.get_int("steps"), type), work);
  if (tall)
    x = b.scale(b.transpose(x, {1, 0}),
                std::sqrt(static_cast<double>(rows) / static_cast<double>(std::max<int64_t>(columns, 1))));
  p = decayed(b, p, lr, e.attributes.get_float("weight_decay"));
  p = b.subtract(p, b.multiply(splat_like(b, lr, x), x));
  e.results = {b.convert(p, dtype), b.convert(buf, dtype)};
  return Status::ok();
}

Status expand_global_norm_clip(Expansion& e) {
  Builder& b = e.b;
  int count = static_cast<int>(e.operands.size()) - 1;
  DType dtype = count > 0 ? dtype_of(e, 0) : DType::F32, work = work_type(dtype);
  TW_ASSIGN_OR_RETURN(ValueId max_norm, scalar(e, count, work));
  ValueId total = b.constant(0, work);
  for (int i = 0; i < count; ++i) {
    ValueId x = widened(e, i);
    total =
        b.add(total, b.reduce_sum(b.multiply(x, x), other_axes(static_cast<int>(shape_of(e, i).size()), {})));
  }
  ValueId norm = b.emit(Op::Sqrt, {total});
  ValueId factor = b.divide(max_norm, b.shift(norm, e.attributes.get_float("eps")));
  factor = b.minimum(factor, b.constant_like(1, factor));
  for (int i = 0; i < count; ++i) {
    ValueId x = widened(e, i);
    e.results.push_back(b.convert(b.multiply(x, splat_like(b, factor, x)), dtype));
  }
  e.results.push_back(b.convert(norm, DType::F32));
  return Status::ok();
}

}  // namespace tilewright
