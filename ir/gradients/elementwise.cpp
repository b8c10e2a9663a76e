// Gradients of elementwise ops.
#include <cmath>

#include "ir/gradients/rules.h"

namespace tilewright {

using namespace gradients;

namespace {

constexpr double kSqrtPi = 1.7724538509055160273;
constexpr double kPi = 3.14159265358979323846;

// 1 - y*y
ValueId one_minus_square(Builder& b, ValueId y) {
  return b.subtract(b.constant_like(1, y), b.multiply(y, y));
}

ValueId square(Builder& b, ValueId x) { return b.multiply(x, x); }

// Psi'(x): ten steps of the recurrence, then the asymptotic series; reflected below 1/2.
ValueId trigamma(Builder& b, ValueId x) {
  ValueId one = b.constant_like(1, x);
  ValueId reflected = b.compare(x, b.constant_like(0.5, x), "LT");
  ValueId z = b.select(reflected, b.subtract(one, x), x);
  ValueId sum = b.zeros_like(x);
  for (int k = 0; k < 10; ++k) sum = b.add(sum, b.divide(one, square(b, b.shift(z, k))));
  ValueId inverse = b.divide(one, b.shift(z, 10));
  ValueId inverse2 = square(b, inverse);
  const double series[] = {7.0 / 6, -691.0 / 2730, 5.0 / 66, -1.0 / 30, 1.0 / 42, -1.0 / 30, 1.0 / 6};
  ValueId tail = b.zeros_like(x);
  for (double coefficient : series) tail = b.shift(b.multiply(tail, inverse2), coefficient);
  // 1/w + 1/(2w^2) + (1/w^3)(1/6 - ..)
  tail = b.multiply(b.multiply(inverse2, inverse), tail);
  sum = b.add(sum, b.add(b.add(inverse, b.scale(inverse2, 0.5)), tail));
  // pi^2/sin^2(pi x), from the distance to the nearest integer.
  ValueId fraction = b.subtract(x, b.emit(Op::RoundNearestEven, {x}));
  ValueId sine = b.emit(Op::Sine, {b.scale(fraction, kPi)});
  ValueId mirror = b.divide(b.constant_like(kPi * kPi, x), square(b, sine));
  return b.select(reflected, b.subtract(mirror, sum), sum);
}

// The series needs more than 16 bits.
ValueId wide_trigamma(Builder& b, ValueId x) {
  DType dtype = b.dtype(x);
  return b.convert(trigamma(b, b.convert(x, accumulation_type(dtype))), dtype);
}

}  // namespace

// x operand, y result, c cotangent.
#define UNARY(name, ...)                                                             \
  Status gradient_##name(Gradient& g) {                                              \
    [[maybe_unused]] Builder& b = g.b;                                               \
    [[maybe_unused]] ValueId x = g.operands[0], y = g.results[0], c = g.cotangent(); \
    g.gradients[0] = __VA_ARGS__;                                                    \
    return Status::ok();                                                             \
  }

UNARY(convert, b.convert(c, b.dtype(x)))
UNARY(reduce_precision, c)
UNARY(abs, b.multiply(c, b.emit(Op::Sign, {x})))
UNARY(negate, b.negate(c))
UNARY(exponential, b.multiply(c, y))
UNARY(exponential_minus_one, b.multiply(c, b.shift(y, 1)))
UNARY(log, b.divide(c, x))
UNARY(log_plus_one, b.divide(c, b.shift(x, 1)))
UNARY(sqrt, b.divide(b.scale(c, 0.5), y))
UNARY(rsqrt, b.multiply(b.scale(c, -0.5), b.multiply(y, square(b, y))))
UNARY(sine, b.multiply(c, b.emit(Op::Cosine, {x})))
UNARY(cosine, b.negate(b.multiply(c, b.emit(Op::Sine, {x}))))
UNARY(tan, b.multiply(c, b.shift(square(b, y), 1)))
UNARY(tanh, b.multiply(c, one_minus_square(b, y)))
UNARY(logistic, b.multiply(c, b.multiply(y, b.subtract(b.constant_like(1, y), y))))
UNARY(erf, b.multiply(b.scale(c, 2 / kSqrtPi), b.exponential(b.negate(square(b, x)))))
UNARY(erf_inv, b.multiply(b.scale(c, kSqrtPi / 2), b.exponential(square(b, y))))
UNARY(lgamma, b.multiply(c, b.emit(Op::Digamma, {x})))
UNARY(digamma, b.multiply(c, wide_trigamma(b, x)))
UNARY(cbrt, b.divide(c, b.scale(square(b, y), 3)))

// ---- composites of one operand ----

UNARY(relu, keep_unless(b, b.compare(y, b.zeros_like(y), "LE"), c))
UNARY(gelu, b.emit(Op::GeluGrad, {c, x}, pick_attributes(g, {"approximate"})))
UNARY(silu, b.emit(Op::SiluGrad, {c, x}))
UNARY(asin, b.multiply(c, b.emit(Op::Rsqrt, {one_minus_square(b, x)})))
UNARY(acos, b.negate(b.multiply(c, b.emit(Op::Rsqrt, {one_minus_square(b, x)}))))
UNARY(atan, b.divide(c, b.shift(square(b, x), 1)))
UNARY(sinh, b.multiply(c, b.emit(Op::Cosh, {x})))
UNARY(cosh, b.multiply(c, b.emit(Op::Sinh, {x})))
UNARY(asinh, b.multiply(c, b.emit(Op::Rsqrt, {b.shift(square(b, x), 1)})))
UNARY(acosh, b.divide(c, b.multiply(b.emit(Op::Sqrt, {b.shift(x, -1)}), b.emit(Op::Sqrt, {b.shift(x, 1)}))))
UNARY(atanh, b.divide(c, one_minus_square(b, x)))
UNARY(exp2, b.multiply(c, b.scale(y, std::log(2.0))))
UNARY(log2, b.divide(c, b.scale(x, std::log(2.0))))
UNARY(log10, b.divide(c, b.scale(x, std::log(10.0))))

#undef UNARY

// ---- two and three operands ----

Status gradient_add(Gradient& g) {
  g.gradients = {g.cotangent(), g.cotangent()};
  return Status::ok();
}

Status gradient_subtract(Gradient& g) {
  g.gradients[0] = g.cotangent();
  if (g.wants(1)) g.gradients[1] = g.b.negate(g.cotangent());
  return Status::ok();
}

Status gradient_multiply(Gradient& g) {
  if (g.wants(0)) g.gradients[0] = g.b.multiply(g.cotangent(), g.operands[1]);
  bool square = g.wants(0) && g.operands[0] == g.operands[1];
  if (g.wants(1)) g.gradients[1] = square ? g.gradients[0] : g.b.multiply(g.cotangent(), g.operands[0]);
  return Status::ok();
}

Status gradient_divide(Gradient& g) {
  Builder& b = g.b;
  ValueId quotient = b.divide(g.cotangent(), g.operands[1]);
  if (g.wants(0)) g.gradients[0] = quotient;
  if (g.wants(1)) g.gradients[1] = b.negate(b.multiply(quotient, g.results[0]));
  return Status::ok();
}

Status gradient_remainder(Gradient& g) {
  Builder& b = g.b;
  g.gradients[0] = g.cotangent();
  if (g.wants(1)) {
    ValueId whole = b.emit(Op::Trunc, {b.divide(g.operands[0], g.operands[1])});
    g.gradients[1] = b.negate(b.multiply(g.cotangent(), whole));
  }
  return Status::ok();
}

Status gradient_power(Gradient& g) {
  Builder& b = g.b;
  ValueId base = g.operands[0], exponent = g.operands[1], c = g.cotangent();
  ValueId zero = b.zeros_like(base);
  if (g.wants(0)) {
    ValueId slope = b.multiply(exponent, b.emit(Op::Power, {base, b.shift(exponent, -1)}));
    slope = keep_unless(b, b.compare(exponent, zero, "EQ"), slope);
    g.gradients[0] = b.multiply(c, slope);
  }
  if (g.wants(1)) {
    ValueId flat = b.emit(Op::And, {b.compare(base, zero, "EQ"), b.compare(exponent, zero, "GE")});
    ValueId slope = keep_unless(b, flat, b.multiply(g.results[0], b.log(base)));
    g.gradients[1] = b.multiply(c, slope);
  }
  return Status::ok();
}

Status gradient_atan2(Gradient& g) {
  Builder& b = g.b;
  ValueId y = g.operands[0], x = g.operands[1];
  ValueId scaled = b.divide(g.cotangent(), b.add(square(b, x), square(b, y)));
  if (g.wants(0)) g.gradients[0] = b.multiply(scaled, x);
  if (g.wants(1)) g.gradients[1] = b.negate(b.multiply(scaled, y));
  return Status::ok();
}

// The winner takes all; equal operands share.
static Status gradient_extreme(Gradient& g, const char* loses) {
  Builder& b = g.b;
  ValueId c = g.cotangent();
  ValueId tie = b.compare(g.operands[0], g.operands[1], "EQ");
  ValueId shared = b.select(tie, b.scale(c, 0.5), c);
  for (int i : {0, 1}) {
    if (g.wants(i))
      g.gradients[i] = keep_unless(b, b.compare(g.operands[i], g.operands[1 - i], loses), shared);
  }
  return Status::ok();
}

Status gradient_maximum(Gradient& g) { return gradient_extreme(g, "LT"); }
Status gradient_minimum(Gradient& g) { return gradient_extreme(g, "GT"); }

Status gradient_select(Gradient& g) {
  if (g.wants(1)) g.gradients[1] = keep_where(g.b, g.operands[0], g.cotangent());
  if (g.wants(2)) g.gradients[2] = keep_unless(g.b, g.operands[0], g.cotangent());
  return Status::ok();
}

Status gradient_clamp(Gradient& g) {
  Builder& b = g.b;
  Shape shape = shape_of(g, 1);
  ValueId lo = b.broadcast_to(g.operands[0], shape), x = g.operands[1],
          hi = b.broadcast_to(g.operands[2], shape);
  ValueId c = g.cotangent();
  if (g.wants(1)) {
    ValueId inside = b.emit(Op::And, {b.compare(x, lo, "GE"), b.compare(x, hi, "LE")});
    g.gradients[1] = keep_where(b, inside, c);
  }
  if (g.wants(0)) {
    ValueId low = b.emit(Op::And, {b.compare(x, lo, "LT"), b.compare(lo, hi, "LT")});
    ValueId part = keep_where(b, low, c);
    g.gradients[0] = b.rank(g.operands[0]) == 0 ? sum_all(b, part) : part;
  }
  if (g.wants(2)) {
    ValueId high = b.emit(Op::Or, {b.compare(x, hi, "GT"), b.compare(lo, hi, "GE")});
    ValueId part = keep_where(b, high, c);
    g.gradients[2] = b.rank(g.operands[2]) == 0 ? sum_all(b, part) : part;
  }
  return Status::ok();
}

Status gradient_swiglu(Gradient& g) {
  g.gradients = g.b.emit_all(Op::SwigluGrad, {g.cotangent(), g.operands[0], g.operands[1]});
  return Status::ok();
}

}  // namespace tilewright
