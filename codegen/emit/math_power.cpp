// Power, cube root and the remainder of floats.
#include "base/text.h"
#include "codegen/emit/functions.h"
#include "codegen/emit/math_coefficients.h"

namespace tilewright {
namespace {

using llvm::Value;
using Pair = LaneMath::Pair;

// log of positive finite x to about 2^-66, relative.
Pair log_as_pair(const LaneMath& m, Value* x) {
  constexpr double kLog2High = 6.93147180369123816490e-01, kLog2Low = 1.90821492927058770002e-10;
  LogParts parts = split_for_log(m, x);
  Value* f = m.sub(parts.mantissa, m.number(1));
  Pair denominator = m.fast_two_sum(m.number(2), f);
  Value* s_hi = m.div(f, denominator.hi);
  Pair product = m.two_product(s_hi, denominator.hi);
  Value* rest = m.sub(m.sub(f, product.hi), product.lo);
  rest = m.sub(rest, m.mul(s_hi, denominator.lo));
  Pair s{s_hi, m.div(rest, denominator.hi)};
  Pair z = m.multiply(s, s);
  Pair cube = m.multiply(z, s);
  Pair term = m.multiply(cube, {m.number(2.0 / 3), m.number(3.700743415417188e-17)});
  Value* tail = m.mul(m.mul(cube.hi, z.hi), m.polynomial(z.hi, kLogRest5F64));
  Pair log_mantissa = m.add(Pair{m.add(s.hi, s.hi), m.add(s.lo, s.lo)}, Pair{term.hi, m.add(term.lo, tail)});
  Pair log_power{m.mul(parts.exponent, m.number(kLog2High)), m.mul(parts.exponent, m.number(kLog2Low))};
  return m.add(log_power, log_mantissa);
}

// |x|^y for positive finite x and any y.
Value* power_of_positive(const LaneMath& m, Value* x, Value* y, bool exact) {
  // Beyond this only the direction matters.
  y = m.clamp(y, -1e20, 1e20);
  if (!exact) return emit_exponential(m, m.mul(y, emit_log_core(m, x)));
  Pair product = m.multiply(log_as_pair(m, x), {y, m.number(0)});
  Value* is_moderate = m.less(m.abs(product.hi), 1000.0);
  return emit_exp_of_pair(m, {product.hi, m.select(is_moderate, product.lo, m.number(0))});
}

// Signs, zeros, infinities and NaN around the positive case, as IEEE 754 pow.
Value* power_body(const LaneMath& m, Value* x, Value* y, bool exact) {
  auto& b = m.builder();
  Value *ax = m.abs(x), *ay = m.abs(y), *inf = m.infinity(), *zero = m.number(0), *one = m.number(1);
  Value* is_zero = m.equal(ax, zero);
  Value* is_limit = b.CreateOr(is_zero, m.equal(ax, inf));
  Value* result = power_of_positive(m, m.select(is_limit, one, ax), y, exact);
  Value* is_up = m.greater(y, zero);
  result = m.select(is_limit, m.select(b.CreateXor(is_zero, is_up), inf, zero), result);
  Value* grows = b.CreateXor(b.CreateNot(m.greater(ax, one)), is_up);
  result = m.select(m.equal(ay, inf), m.select(m.equal(ax, one), one, m.select(grows, inf, zero)), result);
  // A negative base: the sign of odd exponents, NaN for fractions.
  Value* is_integer = m.equal(m.rint(y), y);
  Value* half = m.mul(y, m.number(0.5));
  Value* is_odd = b.CreateAnd(is_integer, b.CreateFCmpONE(m.rint(half), half));
  Value* is_negative = b.CreateICmpSLT(m.to_bits(x), m.integer(0));
  result = m.select(b.CreateAnd(is_negative, is_odd), m.neg(result), result);
  Value* is_undefined = b.CreateAnd(b.CreateAnd(is_negative, b.CreateNot(is_limit)), b.CreateNot(is_integer));
  result = m.select(is_undefined, m.nan(), result);
  result = m.select(b.CreateFCmpUNO(x, y), m.nan(), result);
  return m.select(b.CreateOr(m.equal(y, zero), m.equal(x, one)), one, result);
}

Value* power_any(const LaneMath& m, Value* x, Value* y) {
  if (!m.is_single()) return power_body(m, x, y, true);
  LaneMath wide = m.widened();
  auto& b = m.builder();
  Value* result = power_body(wide, b.CreateFPExt(x, wide.type()), b.CreateFPExt(y, wide.type()), false);
  return b.CreateFPTrunc(result, m.type());
}

// Double lanes: a polynomial start, one step of Halley, and for double results one of Newton on the exact
// residual.
Value* cbrt_body(const LaneMath& m, Value* x, bool exact) {
  auto& b = m.builder();
  Value* magnitude = m.abs(x);
  Value* is_small = m.less(magnitude, 0x1p-1022);
  Value* scaled = m.select(is_small, m.mul(magnitude, m.number(0x1p54)), magnitude);
  Value* bits = m.to_bits(scaled);
  Value* exponent = b.CreateSub(b.CreateLShr(bits, m.integer(52)), m.integer(1023));
  LaneMath::Rounded third = m.round_product(m.to_number(exponent), 1.0 / 3);
  Value* rest = b.CreateSub(exponent, b.CreateAdd(third.integer, b.CreateShl(third.integer, m.integer(1))));
  Value* fraction = b.CreateAnd(bits, m.integer((int64_t{1} << 52) - 1));
  Value* a = m.from_bits(
      b.CreateOr(fraction, b.CreateShl(b.CreateAdd(rest, m.integer(1023)), m.integer(52))));  // in [1/2, 4)
  Value* y = m.polynomial(a, kCbrtStartF64);
  Value* cube = m.mul(m.mul(y, y), y);
  y = m.mul(y, m.div(m.fma(a, 2.0, cube), m.fma(cube, 2.0, a)));
  if (exact) {
    Pair square = m.two_product(y, y);
    Pair exact_cube = m.multiply(square, {y, m.number(0)});
    Value* residual = m.add(m.sub(exact_cube.hi, a), exact_cube.lo);
    y = m.sub(y, m.div(residual, m.mul(m.number(3), square.hi)));
  }
  Value* power = b.CreateSub(third.integer, m.select(is_small, m.integer(18), m.integer(0)));
  Value* result = m.copysign(m.mul(y, m.power_of_two(power)), x);
  Value* is_regular = b.CreateAnd(m.greater(magnitude, 0.0), m.less(magnitude, m.infinity()));
  return m.select(is_regular, result, x);
}

// Exact on chips without a library: the divisor is doubled as far as it goes into x, and taken off on the way
// back.
Value* remainder_by_halving(const LaneMath& m, Value* x, Value* y) {
  auto& b = m.builder();
  LaneMath wide = m.is_single() ? m.widened() : m;
  auto widen = [&](Value* v) { return m.is_single() ? b.CreateFPExt(v, wide.type()) : v; };
  Value *wx = widen(m.abs(x)), *wy = widen(m.abs(y));
  Value* is_regular = b.CreateAnd(wide.less(wx, wide.infinity()), wide.greater(wy, 0.0));
  Value* has_work = b.CreateAnd(is_regular, b.CreateFCmpOLE(wy, wx));
  Value* start = wide.select(has_work, wx, wide.number(0));
  Value* divisor = wide.select(has_work, wy, wide.number(1));
  auto any = [&](Value* lanes) { return lanes->getType()->isVectorTy() ? b.CreateOrReduce(lanes) : lanes; };
  llvm::Function* function = b.GetInsertBlock()->getParent();
  auto block = [&](const char* name) { return llvm::BasicBlock::Create(b.getContext(), name, function); };
  llvm::BasicBlock *entry = b.GetInsertBlock(), *grow = block("grow"), *shrink = block("shrink"),
                   *done = block("done");
  b.CreateBr(grow);
  b.SetInsertPoint(grow);
  llvm::PHINode* grown = b.CreatePHI(wide.type(), 2);
  grown->addIncoming(divisor, entry);
  Value* doubled = wide.add(grown, grown);
  Value* fits = b.CreateFCmpOLE(doubled, start);
  Value* next_grown = wide.select(fits, doubled, grown);
  grown->addIncoming(next_grown, grow);
  b.CreateCondBr(any(fits), grow, shrink);
  b.SetInsertPoint(shrink);
  llvm::PHINode* rest = b.CreatePHI(wide.type(), 2);
  llvm::PHINode* step = b.CreatePHI(wide.type(), 2);
  rest->addIncoming(start, grow);
  step->addIncoming(next_grown, grow);
  Value* next_rest = wide.select(b.CreateFCmpOLE(step, rest), wide.sub(rest, step), rest);
  Value* is_larger = b.CreateFCmpOGT(step, divisor);
  rest->addIncoming(next_rest, shrink);
  step->addIncoming(wide.select(is_larger, wide.mul(step, wide.number(0.5)), step), shrink);
  b.CreateCondBr(any(is_larger), shrink, done);
  b.SetInsertPoint(done);
  Value* found = m.copysign(m.is_single() ? b.CreateFPTrunc(next_rest, m.type()) : next_rest, x);
  // A dividend below the divisor is its own remainder; the rest, and NaN, is NaN.
  Value* is_small = b.CreateAnd(is_regular, b.CreateFCmpOLT(wx, wy));
  return m.select(has_work, found, m.select(is_small, x, m.nan()));
}

// The library's fmod a lane, where the quotient is too large for one subtraction.
Value* remainder_body(const LaneMath& m, Value* x, Value* y) {
  auto& b = m.builder();
  if (!m.is_single() && !m.has_fma()) return b.CreateFRem(x, y);
  LaneMath wide = m.is_single() ? m.widened() : m;
  auto widen = [&](Value* v) { return m.is_single() ? b.CreateFPExt(v, wide.type()) : v; };
  Value *wx = widen(m.abs(x)), *wy = widen(m.abs(y));
  Value* quotient = wide.div(wx, wy);
  double limit = m.is_single() ? 0x1p28 : 0x1p51;
  // Finite, and the product of quotient and divisor exact: NaN and infinities take the other way.
  Value* is_simple = b.CreateAnd(wide.less(quotient, limit), wide.less(wy, wide.infinity()));
  if (!m.is_single()) is_simple = b.CreateAnd(is_simple, wide.greater(wy, 0x1p-900));
  Value* all = m.type()->isVectorTy() ? b.CreateAndReduce(is_simple) : is_simple;
  llvm::Function* function = b.GetInsertBlock()->getParent();
  auto* fast = llvm::BasicBlock::Create(b.getContext(), "fast", function);
  auto* slow = llvm::BasicBlock::Create(b.getContext(), "slow", function);
  auto* join = llvm::BasicBlock::Create(b.getContext(), "join", function);
  b.CreateCondBr(all, fast, slow);
  b.SetInsertPoint(fast);
  Value* whole = b.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, quotient);
  Value* rest = wide.fma(wide.neg(whole), wy, wx);
  // The rounded quotient may be one too large or, after the correction, equal to the divisor.
  rest = wide.select(wide.less(rest, 0.0), wide.add(rest, wy), rest);
  rest = wide.select(b.CreateFCmpOGE(rest, wy), wide.sub(rest, wy), rest);
  Value* narrow = m.copysign(m.is_single() ? b.CreateFPTrunc(rest, m.type()) : rest, x);
  llvm::BasicBlock* fast_end = b.GetInsertBlock();
  b.CreateBr(join);
  b.SetInsertPoint(slow);
  Value* called = m.context().is_cpu() ? b.CreateFRem(x, y) : remainder_by_halving(m, x, y);
  llvm::BasicBlock* slow_end = b.GetInsertBlock();
  b.CreateBr(join);
  b.SetInsertPoint(join);
  llvm::PHINode* phi = b.CreatePHI(m.type(), 2);
  phi->addIncoming(narrow, fast_end);
  phi->addIncoming(called, slow_end);
  return phi;
}

using BinaryBody = Value* (*)(const LaneMath&, Value*, Value*);

Value* outlined_binary(const LaneMath& m, const char* name, Value* x, Value* y, BinaryBody body) {
  Value* arguments[] = {x, y};
  return call_outlined(m.context(), cat("tw.", name, ".", lane_type_name(m.type())), m.type(), arguments,
                       [&](EmitContext& inner, std::span<Value* const> a) {
                         return body(LaneMath(inner, m.type()), a[0], a[1]);
                       });
}

}  // namespace

Value* emit_power(const LaneMath& m, Value* base, Value* exponent) {
  return outlined_binary(m, "power", base, exponent, power_any);
}

Value* emit_float_remainder(const LaneMath& m, Value* x, Value* y) {
  return outlined_binary(m, "remainder", x, y, remainder_body);
}

Value* emit_cbrt(const LaneMath& m, Value* x) {
  Value* arguments[] = {x};
  return call_outlined(m.context(), cat("tw.cbrt.", lane_type_name(m.type())), m.type(), arguments,
                       [&](EmitContext& inner, std::span<Value* const> a) {
                         LaneMath im(inner, m.type());
                         if (!im.is_single()) return cbrt_body(im, a[0], true);
                         return in_double(
                             im, [](const LaneMath& w, Value* v) { return cbrt_body(w, v, false); }, a[0]);
                       });
}

}  // namespace tilewright
