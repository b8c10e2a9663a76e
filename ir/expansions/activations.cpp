// Activation functions and their gradients.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "ir/expansions/pieces.h"

namespace tilewright {
using namespace expansions;
namespace {

ValueId positive(Builder& b, ValueId x) { return b.compare(x, b.zeros_like(x), "GT"); }

Status finish(Expansion& e, ValueId value) {
  e.results = {e.b.convert(value, dtype_of(e, 0))};
  return Status::ok();
}

// max(z, 0) + log1p(exp(-|z|))
ValueId softplus_of(Builder& b, ValueId z) {
  ValueId tail = b.emit(Op::LogPlusOne, {b.exponential(b.negate(b.emit(Op::Abs, {z})))});
  return b.add(b.maximum(z, b.zeros_like(z)), tail);
}

ValueId silu_of(Builder& b, ValueId x) { return b.multiply(x, b.emit(Op::Logistic, {x})); }

// x cut to [-limit, limit], where slopes have reached 0 or 1: infinities times 0 would give NaN.
ValueId cut(Builder& b, ValueId x, double limit) {
  DType dtype = b.dtype(x);
  return b.emit(Op::Clamp, {b.constant(-limit, dtype), x, b.constant(limit, dtype)});
}

// s (1 + x (1 - s)) with s = logistic(x)
ValueId silu_slope(Builder& b, ValueId x) {
  x = cut(b, x, 800);
  ValueId s = b.emit(Op::Logistic, {x});
  ValueId rest = b.subtract(b.constant_like(1, s), s);
  return b.multiply(s, b.shift(b.multiply(x, rest), 1));
}

constexpr double kTanhScale = 0.7978845608028654;  // sqrt(2 / pi)
constexpr double kTanhCubic = 0.044715;

ValueId gelu_tanh_argument(Builder& b, ValueId x, ValueId square) {
  // k (x + c x^3) = k x (1 + c x^2)
  return b.scale(b.multiply(x, b.shift(b.scale(square, kTanhCubic), 1)), kTanhScale);
}

// The normal distribution function at x.
ValueId normal_cdf(Builder& b, ValueId x) {
  return b.scale(b.shift(b.emit(Op::Erf, {b.scale(x, 1 / std::numbers::sqrt2)}), 1), 0.5);
}

// scale x above 0, scale alpha expm1(input_scale x) elsewhere; the untaken branch sees 0, so that gradients
// stay finite.
ValueId elu_of(Builder& b, ValueId x, double alpha, double scale, double input_scale) {
  ValueId above = positive(b, x);
  ValueId below = b.select(above, b.zeros_like(x), x);
  ValueId curve = b.emit(Op::ExponentialMinusOne, {input_scale == 1 ? below : b.scale(below, input_scale)});
  return b.select(above, scale == 1 ? x : b.scale(x, scale), b.scale(curve, scale * alpha));
}

}  // namespace

Status expand_relu(Expansion& e) {
  e.results = {e.b.maximum(e.operands[0], e.b.zeros_like(e.operands[0]))};
  return Status::ok();
}

Status expand_leaky_relu(Expansion& e) {
  ValueId x = widened(e, 0);
  return finish(e, e.b.select(positive(e.b, x), x, e.b.scale(x, e.attributes.get_float("slope"))));
}

Status expand_elu(Expansion& e) {
  return finish(e, elu_of(e.b, widened(e, 0), e.attributes.get_float("alpha"),
                          e.attributes.get_float("scale"), e.attributes.get_float("input_scale")));
}

Status expand_selu(Expansion& e) {
  return finish(e, elu_of(e.b, widened(e, 0), 1.6732632423543772, 1.0507009873554805, 1));
}

Status expand_softplus(Expansion& e) {
  double beta = e.attributes.get_float("beta");
  if (beta == 0) return fail(e, "beta is 0, expected another number");
  Builder& b = e.b;
  ValueId x = widened(e, 0), z = beta == 1 ? x : b.scale(x, beta);
  ValueId linear = b.compare(z, b.constant_like(e.attributes.get_float("threshold"), z), "GT");
  ValueId curve = softplus_of(b, z);
  if (beta != 1) curve = b.divide(curve, b.constant_like(beta, curve));
  return finish(e, b.select(linear, x, curve));
}

Status expand_gelu(Expansion& e) {
  Builder& b = e.b;
  ValueId x = widened(e, 0);
  if (e.attributes.get_string("approximate") == "none") return finish(e, b.multiply(x, normal_cdf(b, x)));
  // 1/2 (1 + tanh(u)) = logistic(2u), which keeps its digits where tanh(u) is near -1
  ValueId u = gelu_tanh_argument(b, x, b.multiply(x, x));
  return finish(e, b.multiply(x, b.emit(Op::Logistic, {b.add(u, u)})));
}

Status expand_gelu_grad(Expansion& e) {
  TW_RETURN_IF_ERROR(check_same_shape(e, 1, 0));
  Builder& b = e.b;
  ValueId g = widened(e, 0), x = cut(b, widened(e, 1), 40), square = b.multiply(x, x);
  if (e.attributes.get_string("approximate") == "none") {
    ValueId density =
        b.scale(b.exponential(b.scale(square, -0.5)), 0.5 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
    return finish(e, b.multiply(g, b.add(normal_cdf(b, x), b.multiply(x, density))));
  }
  // with s = logistic(2u): s + 2 x s (1 - s) u', u' = k (1 + 3 c x^2)
  ValueId u = gelu_tanh_argument(b, x, square);
  ValueId s = b.emit(Op::Logistic, {b.add(u, u)});
  ValueId inner = b.scale(b.shift(b.scale(square, 3 * kTanhCubic), 1), 2 * kTanhScale);
  ValueId rest = b.subtract(b.constant_like(1, s), s);
  ValueId bend = b.multiply(b.multiply(x, inner), b.multiply(s, rest));
  return finish(e, b.multiply(g, b.add(s, bend)));
}

Status expand_silu(Expansion& e) { return finish(e, silu_of(e.b, widened(e, 0))); }

Status expand_silu_grad(Expansion& e) {
  TW_RETURN_IF_ERROR(check_same_shape(e, 1, 0));
  ValueId x = widened(e, 1);
  return finish(e, e.b.multiply(widened(e, 0), silu_slope(e.b, x)));
}

Status expand_mish(Expansion& e) {
  ValueId x = widened(e, 0);
  return finish(e, e.b.multiply(x, e.b.emit(Op::Tanh, {softplus_of(e.b, x)})));
}

namespace {
// A bound as a 0-d value; for integers it must be whole and is brought into the range of the type.
Result<ValueId> bound(Expansion& e, const char* name) {
  DType dtype = dtype_of(e, 0);
  double value = e.attributes.get_float(name);
  if (is_float(dtype)) return e.b.constant(value, dtype);
  if (std::isnan(value) || (std::isfinite(value) && value != std::floor(value))) {
    return fail(e, name, " is ", value, ", expected a whole number for ", dtype_name(dtype));
  }
  int bits = static_cast<int>(dtype_bytes(dtype)) * 8;
  bool is_signed = is_signed_integer(dtype);
  double low = is_signed ? -std::ldexp(1, bits - 1) : 0, high = std::ldexp(1, is_signed ? bits - 1 : bits);
  if (value >= high) {
    uint64_t largest = ~uint64_t{0} >> (64 - bits + (is_signed ? 1 : 0));
    return e.b.integer(static_cast<int64_t>(largest), dtype);
  }
  if (value >= 0x1p63) return e.b.integer(static_cast<int64_t>(static_cast<uint64_t>(value)), dtype);
  return e.b.integer(static_cast<int64_t>(std::max(value, low)), dtype);
}
}  // namespace

Status expand_hardtanh(Expansion& e) {
  TW_ASSIGN_OR_RETURN(ValueId lo, bound(e, "lo"));
  TW_ASSIGN_OR_RETURN(ValueId hi, bound(e, "hi"));
  e.results = {e.b.emit(Op::Clamp, {lo, e.operands[0], hi})};
  return Status::ok();
}

namespace {
// clamp(x + 3, 0, 6)
ValueId ramp(Builder& b, ValueId x) {
  DType dtype = b.dtype(x);
  return b.emit(Op::Clamp, {b.constant(0, dtype), b.shift(x, 3), b.constant(6, dtype)});
}
}  // namespace

// The ramp is divided before the product, which would overflow.
Status expand_hardswish(Expansion& e) {
  ValueId x = widened(e, 0), r = ramp(e.b, x);
  return finish(e, e.b.multiply(x, e.b.divide(r, e.b.constant_like(6, r))));
}

Status expand_hardsigmoid(Expansion& e) {
  ValueId r = ramp(e.b, widened(e, 0));
  return finish(e, e.b.divide(r, e.b.constant_like(6, r)));
}

Status expand_swiglu(Expansion& e) {
  TW_RETURN_IF_ERROR(check_same_shape(e, 1, 0));
  return finish(e, e.b.multiply(silu_of(e.b, widened(e, 0)), widened(e, 1)));
}

Status expand_swiglu_grad(Expansion& e) {
  TW_RETURN_IF_ERROR(check_same_shape(e, 1, 0));
  TW_RETURN_IF_ERROR(check_same_shape(e, 2, 0));
  Builder& b = e.b;
  DType dtype = dtype_of(e, 0);
  ValueId g = widened(e, 0), gate = widened(e, 1), up = widened(e, 2);
  ValueId dgate = b.multiply(b.multiply(g, up), silu_slope(b, gate));
  ValueId dup = b.multiply(g, silu_of(b, gate));
  e.results = {b.convert(dgate, dtype), b.convert(dup, dtype)};
  return Status::ok();
}

}  // namespace tilewright
