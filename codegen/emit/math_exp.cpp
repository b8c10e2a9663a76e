// Exponential, exponential minus one, logistic and tanh.
#include <llvm/IR/IntrinsicsNVPTX.h>

#include "codegen/emit/functions.h"
#include "codegen/emit/math_coefficients.h"

namespace tilewright {
namespace {

using llvm::Value;

// x = n log 2 + r + r_lo, |r| <= log(2)/2; `rest` is e^r - 1 - r.
struct ReducedExp {
  Value* n;
  Value* r;
  Value* rest;
};

// The high part of log 2 has so few bits that its product with n is exact.
ReducedExp reduce_exp(const LaneMath& m, Value* x, Value* tail, bool with_low_part) {
  double high = m.is_single() ? 0.693359375 : 6.93147180369123816490e-01;
  double low = m.is_single() ? -2.12194440e-4 : 1.90821492927058770002e-10;
  LaneMath::Rounded n = m.round_product(x, 1.4426950408889634);
  Value* first = m.fma(n.number, -high, x);
  Value* correction = m.fma(n.number, -low, tail ? tail : m.number(0));
  Value* r = tail || with_low_part ? m.add(first, correction) : m.fma(n.number, -low, first);
  Value* rest_of_r = with_low_part ? m.add(m.sub(first, r), correction) : nullptr;
  Value* polynomial = m.is_single() ? m.polynomial(r, kExpRestF32) : m.polynomial(r, kExpRestF64);
  Value* square = m.mul(r, r);
  Value* rest = rest_of_r ? m.fma(square, polynomial, rest_of_r) : m.mul(square, polynomial);
  return {n.integer, r, rest};
}

// f32 lanes by the chip's own 2^x, good to two units of the last place; `never_above_zero`: x.
Value* exp_by_chip(const LaneMath& m, Value* x, bool never_above_zero) {
  auto& b = m.builder();
  constexpr double kLog2E = 1.44269502162933349609375, kLog2ERest = 1.925963033500011079e-8;
  if (never_above_zero) {
    x = b.CreateBinaryIntrinsic(llvm::Intrinsic::maximum, x, m.number(-104));
  } else {
    x = m.clamp(x, -104, 89);
  }
  LaneMath::Rounded n = m.round_product(x, kLog2E);
  Value* fraction = m.fma(x, kLog2E, m.neg(n.number));
  fraction = m.fma(x, kLog2ERest, fraction);
  Value* power = b.CreateUnaryIntrinsic(llvm::Intrinsic::exp2, fraction);
  if (!never_above_zero) return m.scale_near_one(power, n.integer);
  Value* part = m.power_of_two(b.CreateAdd(n.integer, m.integer(64)));
  return m.mul(m.mul(power, part), m.number(0x1p-64));
}

// Off by two units of the last place, logistic by three to four: measured over their whole ranges.
bool has_chip_exp(const LaneMath& m) {
  return m.is_single() && m.context().is_ptx() && m.context().precision == EmitPrecision::Fast;
}

// 1 / x, x in [1, 2], to a unit or two of the last place.
Value* near_inverse(const LaneMath& m, Value* x) {
  auto& b = m.builder();
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
  if (!vector) return b.CreateIntrinsic(llvm::Intrinsic::nvvm_rcp_approx_ftz_f, {x});
  Value* result = llvm::PoisonValue::get(x->getType());
  for (unsigned lane = 0; lane < vector->getNumElements(); ++lane) {
    Value* each = near_inverse(m, b.CreateExtractElement(x, uint64_t{lane}));
    result = b.CreateInsertElement(result, each, uint64_t{lane});
  }
  return result;
}

// e^-|x| / (1 + e^-|x|) or 1 / (1 + e^-|x|), the quotient corrected once.
Value* logistic_by_chip(const LaneMath& m, Value* x) {
  Value* power = exp_by_chip(m, m.neg(m.abs(x)), true);
  Value* top = m.select(m.less(x, 0.0), power, m.number(1));
  Value* bottom = m.add(m.number(1), power);
  Value* inverse = near_inverse(m, bottom);
  Value* first = m.mul(top, inverse);
  Value* rest = m.fma(m.neg(first), bottom, top);
  return m.fma(rest, inverse, first);
}

Value* exp_of(const LaneMath& m, Value* x, Value* tail, bool with_low_part) {
  if (has_chip_exp(m) && !tail && !with_low_part) return exp_by_chip(m, x, false);
  // Beyond these the result is 0 or inf.
  x = m.is_single() ? m.clamp(x, -104, 89) : m.clamp(x, -746, 710);
  ReducedExp e = reduce_exp(m, x, tail, with_low_part);
  if (m.is_single() && !with_low_part) return m.scale_near_one(m.add(m.number(1), m.add(e.r, e.rest)), e.n);
  LaneMath::Pair one_plus_r = m.fast_two_sum(m.number(1), e.r);
  return m.scale_near_one(m.add(one_plus_r.hi, m.add(one_plus_r.lo, e.rest)), e.n);
}

// e^x - 1 for x within the clamped range; loses the last bit of subnormal x.
LaneMath::Pair expm1_of(const LaneMath& m, Value* x) {
  x = m.is_single() ? m.clamp(x, -20, 89) : m.clamp(x, -40, 710);
  ReducedExp e = reduce_exp(m, x, nullptr, true);
  // Half of everything, so that 2^n does not overflow: 2^(n-1) (1 + r + rest) - 1/2.
  Value* power = m.power_of_two(m.builder().CreateSub(e.n, m.integer(1)));
  Value* base = m.sub(power, m.number(0.5));
  Value* base_lo = m.sub(m.sub(power, base), m.number(0.5));
  LaneMath::Pair sum = m.fast_two_sum(base, m.mul(power, e.r));
  Value* low = m.fma(power, e.rest, m.add(sum.lo, base_lo));
  return {m.add(sum.hi, sum.hi), m.add(low, low)};
}

}  // namespace

Value* emit_exponential(const LaneMath& m, Value* x) { return exp_of(m, x, nullptr, !m.has_fma()); }

Value* emit_exp_of_pair(const LaneMath& m, LaneMath::Pair x) { return exp_of(m, x.hi, x.lo, true); }

Value* emit_exponential_minus_one(const LaneMath& m, Value* x) {
  LaneMath::Pair result = expm1_of(m, x);
  return m.select(m.less(m.abs(x), 0x1p-60), x, m.add(result.hi, result.lo));
}

// e^-|x| / (1 + e^-|x|) for negative x: no overflow, and subnormal results are kept.
Value* emit_logistic(const LaneMath& m, Value* x) {
  if (has_chip_exp(m)) return logistic_by_chip(m, x);
  Value* power = exp_of(m, m.neg(m.abs(x)), nullptr, true);
  Value* numerator = m.select(m.less(x, 0.0), power, m.number(1));
  return m.quotient({numerator, m.number(0)}, m.fast_two_sum(m.number(1), power));
}

// (e^2|x| - 1) / (e^2|x| + 1)
Value* emit_tanh(const LaneMath& m, Value* x) {
  Value* magnitude = m.abs(x);
  Value* limit = m.number(m.is_single() ? 10 : 20);
  Value* bounded = m.select(m.greater(magnitude, limit), limit, magnitude);
  LaneMath::Pair e = expm1_of(m, m.add(bounded, bounded));
  LaneMath::Pair numerator = m.fast_two_sum(e.hi, e.lo);
  LaneMath::Pair denominator = m.fast_two_sum(m.number(2), numerator.hi);
  denominator.lo = m.add(denominator.lo, numerator.lo);
  Value* result = m.quotient(numerator, denominator);
  result = m.select(m.less(magnitude, 0x1p-60), magnitude, result);
  return m.copysign(result, x);
}

}  // namespace tilewright
