// Logarithms and the reciprocal square root.
#include "codegen/emit/functions.h"
#include "codegen/emit/math_coefficients.h"

namespace tilewright {

using llvm::Value;

namespace {

constexpr double kLog2HighF32 = 6.9313812256e-01, kLog2LowF32 = 9.0580006145e-06;
constexpr double kLog2HighF64 = 6.93147180369123816490e-01, kLog2LowF64 = 1.90821492927058770002e-10;

// exponent log 2 + log(1 + f) + extra, in an order that loses nothing.
Value* log_sum(const LaneMath& m, Value* exponent, Value* f, Value* extra) {
  double high = m.is_single() ? kLog2HighF32 : kLog2HighF64;
  double low = m.is_single() ? kLog2LowF32 : kLog2LowF64;
  Value* s = m.div(f, m.add(f, m.number(2)));
  Value* z = m.mul(s, s);
  Value* rest = m.is_single() ? m.polynomial(z, kLogRestF32) : m.polynomial(z, kLogRestF64);
  Value* half_square = m.mul(m.number(0.5), m.mul(f, f));
  Value* small = m.fma(exponent, low, extra ? extra : m.number(0));
  small = m.fma(s, m.fma(z, rest, half_square), small);
  Value* tail = m.sub(m.sub(half_square, small), f);
  return m.sub(m.mul(exponent, m.number(high)), tail);
}

// -inf at 0, NaN below, inf at inf.
Value* with_log_limits(const LaneMath& m, Value* result, Value* x) {
  result = m.select(m.equal(x, m.infinity()), x, result);
  result = m.select(m.equal(x, 0.0), m.neg(m.infinity()), result);
  return m.select(m.builder().CreateFCmpULT(x, m.number(0)), m.nan(), result);
}

}  // namespace

LogParts split_for_log(const LaneMath& m, Value* x) {
  auto& builder = m.builder();
  // Subnormals are brought into the normal range.
  int shift = m.is_single() ? 25 : 54;
  Value* is_small = m.less(x, m.is_single() ? 0x1p-126 : 0x1p-1022);
  Value* scaled = m.select(is_small, m.mul(x, m.number(m.is_single() ? 0x1p25 : 0x1p54)), x);
  // Adding the distance from sqrt(1/2) to 1 makes the exponent round at sqrt(2).
  Value* root_half = m.to_bits(m.number(0.70710678118654752440));
  Value* one = m.to_bits(m.number(1));
  Value* bits = builder.CreateAdd(m.to_bits(scaled), builder.CreateSub(one, root_half));
  Value* exponent = builder.CreateLShr(bits, m.integer(m.mantissa_bits()));
  exponent = builder.CreateSub(
      exponent, m.select(is_small, m.integer(m.exponent_bias() + shift), m.integer(m.exponent_bias())));
  Value* fraction = builder.CreateAnd(bits, m.integer((int64_t{1} << m.mantissa_bits()) - 1));
  return {m.to_number(exponent), m.from_bits(builder.CreateAdd(fraction, root_half))};
}

Value* emit_log_core(const LaneMath& m, Value* x) {
  LogParts parts = split_for_log(m, x);
  return log_sum(m, parts.exponent, m.sub(parts.mantissa, m.number(1)), nullptr);
}

Value* emit_log(const LaneMath& m, Value* x) { return with_log_limits(m, emit_log_core(m, x), x); }

Value* emit_log_plus_one(const LaneMath& m, Value* x) {
  Value* one = m.number(1);
  LaneMath::Pair sum = m.two_sum(one, x);
  LogParts parts = split_for_log(m, sum.hi);
  Value* is_near_one = m.equal(parts.exponent, 0.0);
  Value* f = m.select(is_near_one, x, m.sub(parts.mantissa, one));
  Value* lost = m.select(is_near_one, m.number(0), m.div(sum.lo, sum.hi));
  Value* result = log_sum(m, parts.exponent, f, lost);
  result = with_log_limits(m, result, sum.hi);
  return m.select(m.less(m.abs(x), 0x1p-60), x, result);
}

// 1/sqrt(x) with one correction step: y + y ((1 - s y) - (x - s^2) y^2 / 2), s = sqrt(x), y = 1/s.
Value* emit_rsqrt(const LaneMath& m, Value* x) {
  if (m.is_single() && !m.has_fma()) {
    auto quotient = [](const LaneMath& wide, Value* w) { return wide.div(wide.number(1), wide.sqrt(w)); };
    return in_double(m, quotient, x);
  }
  // Residuals of tiny x would underflow, those of huge x overflow.
  double small = m.is_single() ? 0x1p-80 : 0x1p-900;
  double factor = m.is_single() ? 0x1p64 : 0x1p256;
  double root = m.is_single() ? 0x1p32 : 0x1p128;
  Value* is_small = m.less(x, small);
  Value* is_huge = m.greater(x, 1 / small);
  Value* up = m.select(is_small, m.number(factor), m.select(is_huge, m.number(1 / factor), m.number(1)));
  Value* up_root = m.select(is_small, m.number(root), m.select(is_huge, m.number(1 / root), m.number(1)));
  Value* scaled = m.mul(x, up);
  Value* s = m.sqrt(scaled);
  Value* y = m.div(m.number(1), s);
  LaneMath::Pair square = m.two_product(s, s);
  LaneMath::Pair product = m.two_product(s, y);
  Value* residual = m.sub(m.sub(scaled, square.hi), square.lo);
  Value* error = m.sub(m.sub(m.number(1), product.hi), product.lo);
  Value* correction = m.mul(y, m.sub(error, m.mul(m.mul(residual, m.number(0.5)), m.mul(y, y))));
  Value* better = m.add(y, correction);
  y = m.select(m.is_nan(correction), y, better);  // 0, inf, negative and NaN
  return m.mul(y, up_root);
}

}  // namespace tilewright
