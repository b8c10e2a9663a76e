// Sine, cosine and tangent with reduction of any finite angle, and atan2.
#include <llvm/IR/Constants.h>
#include <llvm/IR/GlobalVariable.h>

#include "base/text.h"
#include "codegen/emit/functions.h"
#include "codegen/emit/math_coefficients.h"

namespace tilewright {
namespace {

using llvm::Value;
using Pair = LaneMath::Pair;

// x = quadrant pi/2 + r + r_lo, |r| <= pi/4; the quadrant is an integer of the width of the lanes.
struct Angle {
  Value* r;
  Value* r_lo;
  Value* quadrant;
};

// pi/2 in parts of 33 bits, whose products with |n| < 2^20 are exact.
constexpr double kPart1 = 0x1.921fb544p+0, kPart2 = 0x1.0b4611a6p-34, kPart3 = 0x1.3198a2ep-69;
constexpr double kPart4 = 0x1.b839a252049c1p-104;
constexpr double kPart2AndMore = 0x1.0b4611a626331p-34;
constexpr double kLargestFast = 0x1p20;
constexpr double kHalfPiHigh = 0x1.921fb54442d18p+0, kHalfPiLow = 0x1.1a62633145c07p-54;
constexpr double kTwoOverPi = 0.63661977236758134308;

// Double lanes, |x| <= 2^20; `exact` keeps the low part that double results need.
Angle reduce_fast(const LaneMath& m, Value* x, bool exact) {
  LaneMath::Rounded n = m.round_product(x, kTwoOverPi);
  Value* first = m.fma(n.number, -kPart1, x);
  if (!exact) return {m.fma(n.number, -kPart2AndMore, first), m.number(0), n.integer};
  auto subtract = [&](Value* a, Value* b, Value*& lost) {
    Value* difference = m.sub(a, b);
    lost = m.sub(m.sub(a, difference), b);
    return difference;
  };
  Value *lost2, *lost3;
  Value* second = subtract(first, m.mul(n.number, m.number(kPart2)), lost2);
  Value* third = subtract(second, m.mul(n.number, m.number(kPart3)), lost3);
  Value* low = m.fma(n.number, -kPart4, m.add(lost2, lost3));
  Pair r = m.fast_two_sum(third, low);
  return {r.hi, r.lo, n.integer};
}

llvm::GlobalVariable* two_over_pi_bits(llvm::Module& module) {
  if (auto* table = module.getGlobalVariable("tw.two_over_pi", true)) return table;
  // 64 zero bits, then the bits of 2/pi.
  static const uint64_t words[] = {
      0x0000000000000000, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561,
      0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41,
      0x3991d639835339f4, 0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7,
      0x4f463f669e5fea2d, 0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab,
      0xf0cfbc209af4361d};
  llvm::Constant* data = llvm::ConstantDataArray::get(module.getContext(), llvm::ArrayRef<uint64_t>(words));
  return new llvm::GlobalVariable(module, data->getType(), true, llvm::GlobalValue::InternalLinkage, data,
                                  "tw.two_over_pi");
}

// Payne and Hanek: one double of 2^-10 <= |x|, as {r, r_lo, quadrant}.  Only the bits of 2/pi that matter for
// the fraction are multiplied; inf and NaN give NaN.
Value* reduce_any(EmitContext& context, Value* x) {
  auto& b = context.builder;
  LaneMath m(context, b.getDoubleTy());
  llvm::Type* wide = b.getInt128Ty();
  Value* bits = m.to_bits(x);
  Value* exponent = b.CreateAnd(b.CreateLShr(bits, 52), b.getInt64(0x7ff));
  Value* is_finite = b.CreateICmpNE(exponent, b.getInt64(0x7ff));
  Value* mantissa =
      b.CreateOr(b.CreateAnd(bits, b.getInt64((int64_t{1} << 52) - 1)), b.getInt64(int64_t{1} << 52));
  // x = mantissa 2^(exponent - 1075); the window starts at the bit of weight 2^1 of x 2/pi / 4 mantissas.
  Value* position =
      b.CreateSub(b.CreateSelect(is_finite, exponent, b.getInt64(1075)), b.getInt64(1075 + 2 - 64));
  Value* word = b.CreateLShr(position, 6);
  Value* shift = b.CreateAnd(position, b.getInt64(63));
  Value* words[4];
  for (int i = 0; i < 4; ++i) {
    Value* address = b.CreateInBoundsGEP(b.getInt64Ty(), two_over_pi_bits(context.module),
                                         {b.CreateAdd(word, b.getInt64(i))});
    words[i] = b.CreateLoad(b.getInt64Ty(), address);
  }
  auto window = [&](int i) {
    return b.CreateIntrinsic(llvm::Intrinsic::fshl, {b.getInt64Ty()}, {words[i], words[i + 1], shift});
  };
  auto widen = [&](Value* v) { return b.CreateZExt(v, wide); };
  Value* high = b.CreateShl(widen(b.CreateMul(mantissa, window(0))), 64);
  Value* middle = b.CreateMul(widen(mantissa), widen(window(1)));
  Value* low = b.CreateLShr(b.CreateMul(widen(mantissa), widen(window(2))), 64);
  Value* fraction = b.CreateAdd(b.CreateAdd(high, middle), low);  // x 2/pi mod 4, over 2^128
  Value* quadrant = b.CreateTrunc(b.CreateLShr(fraction, 126), b.getInt64Ty());
  Value* rest = b.CreateShl(fraction, 2);
  Value* is_upper = b.CreateICmpSLT(rest, llvm::ConstantInt::get(wide, 0));
  quadrant = b.CreateAdd(quadrant, b.CreateZExt(is_upper, b.getInt64Ty()));
  Value* magnitude =
      b.CreateOr(b.CreateSelect(is_upper, b.CreateNeg(rest), rest), llvm::ConstantInt::get(wide, 1));
  Value* zeros = b.CreateIntrinsic(llvm::Intrinsic::ctlz, {wide}, {magnitude, b.getTrue()});
  Value* normal = b.CreateShl(magnitude, zeros);
  Value* top =
      b.CreateAnd(b.CreateTrunc(b.CreateLShr(normal, 64), b.getInt64Ty()), b.getInt64(~int64_t{0x7ff}));
  Value* next = b.CreateTrunc(b.CreateLShr(normal, 11), b.getInt64Ty());  // the 64 bits below those 53
  // top 2^-64 + next 2^-117, times 2^-zeros
  Value* scale = m.power_of_two(b.CreateSub(b.getInt64(-64), b.CreateTrunc(zeros, b.getInt64Ty())));
  Value* hi = m.mul(b.CreateUIToFP(top, m.type()), scale);
  Value* lo = m.mul(m.mul(b.CreateUIToFP(next, m.type()), scale), m.number(0x1p-53));
  Pair r = m.multiply({hi, lo}, {m.number(kHalfPiHigh), m.number(kHalfPiLow)});
  // The angle's own sign and that of the remainder; the quadrant counts down for negative angles.
  Value* is_negative = b.CreateICmpSLT(bits, b.getInt64(0));
  Value* flips = b.CreateXor(is_negative, is_upper);
  Value* result = llvm::PoisonValue::get(llvm::StructType::get(m.type(), m.type(), b.getInt64Ty()));
  result = b.CreateInsertValue(result, m.select(is_finite, m.select(flips, m.neg(r.hi), r.hi), m.nan()), 0);
  result = b.CreateInsertValue(result, m.select(flips, m.neg(r.lo), r.lo), 1);
  return b.CreateInsertValue(result, b.CreateSelect(is_negative, b.CreateNeg(quadrant), quadrant), 2);
}

Angle call_reduce_any(const LaneMath& m, Value* x) {
  auto& b = m.builder();
  llvm::Type* result = llvm::StructType::get(b.getDoubleTy(), b.getDoubleTy(), b.getInt64Ty());
  Value* arguments[] = {x};
  Value* parts =
      call_outlined(m.context(), "tw.reduce_angle", result, arguments,
                    [](EmitContext& inner, std::span<Value* const> a) { return reduce_any(inner, a[0]); });
  return {b.CreateExtractValue(parts, 0), b.CreateExtractValue(parts, 1), b.CreateExtractValue(parts, 2)};
}

// Every lane through the slow reduction, one at a time.
Angle reduce_lanes(const LaneMath& m, Value* x, llvm::Function* function) {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(m.type());
  if (!vector) return call_reduce_any(m, x);
  auto& b = m.builder();
  llvm::BasicBlock* before = b.GetInsertBlock();
  auto* loop = llvm::BasicBlock::Create(b.getContext(), "lane", function);
  auto* done = llvm::BasicBlock::Create(b.getContext(), "lanes.done", function);
  b.CreateBr(loop);
  b.SetInsertPoint(loop);
  auto phi = [&](llvm::Type* type, Value* start) {
    llvm::PHINode* node = b.CreatePHI(type, 2);
    node->addIncoming(start, before);
    return node;
  };
  llvm::PHINode* lane = phi(b.getInt64Ty(), b.getInt64(0));
  llvm::PHINode* r = phi(m.type(), m.number(0));
  llvm::PHINode* r_lo = phi(m.type(), m.number(0));
  llvm::PHINode* quadrant = phi(m.bits_type(), m.integer(0));
  Angle one = call_reduce_any(m, b.CreateExtractElement(x, lane));
  Angle next{b.CreateInsertElement(r, one.r, lane), b.CreateInsertElement(r_lo, one.r_lo, lane),
             b.CreateInsertElement(quadrant, one.quadrant, lane)};
  Value* next_lane = b.CreateAdd(lane, b.getInt64(1));
  llvm::BasicBlock* end = b.GetInsertBlock();
  lane->addIncoming(next_lane, end);
  r->addIncoming(next.r, end);
  r_lo->addIncoming(next.r_lo, end);
  quadrant->addIncoming(next.quadrant, end);
  b.CreateCondBr(b.CreateICmpULT(next_lane, b.getInt64(vector->getNumElements())), loop, done);
  b.SetInsertPoint(done);
  return next;
}

// Any double lanes: the fast reduction, and where a lane is large, the slow one for that lane.
Angle reduce(const LaneMath& m, Value* x, bool exact) {
  auto& b = m.builder();
  llvm::Function* function = b.GetInsertBlock()->getParent();
  Value* is_large = m.greater(m.abs(x), kLargestFast);
  Angle fast = reduce_fast(m, x, exact);
  Value* any = m.type()->isVectorTy() ? b.CreateOrReduce(is_large) : is_large;
  llvm::BasicBlock* before = b.GetInsertBlock();
  auto* slow_block = llvm::BasicBlock::Create(b.getContext(), "large", function);
  auto* join = llvm::BasicBlock::Create(b.getContext(), "reduced", function);
  b.CreateCondBr(any, slow_block, join);
  b.SetInsertPoint(slow_block);
  Angle slow = reduce_lanes(m, m.select(is_large, x, m.number(kLargestFast)), function);
  slow = {m.select(is_large, slow.r, fast.r), m.select(is_large, slow.r_lo, fast.r_lo),
          m.select(is_large, slow.quadrant, fast.quadrant)};
  llvm::BasicBlock* slow_end = b.GetInsertBlock();
  b.CreateBr(join);
  b.SetInsertPoint(join);
  auto merge = [&](Value* from_fast, Value* from_slow) {
    llvm::PHINode* phi = b.CreatePHI(from_fast->getType(), 2);
    phi->addIncoming(from_fast, before);
    phi->addIncoming(from_slow, slow_end);
    return phi;
  };
  return {merge(fast.r, slow.r), merge(fast.r_lo, slow.r_lo), merge(fast.quadrant, slow.quadrant)};
}

// f32 lanes are reduced in double and go on in f32.
Angle reduce_lanes_of(const LaneMath& m, Value* x) {
  if (!m.is_single()) return reduce(m, x, true);
  auto& b = m.builder();
  LaneMath wide = m.widened();
  Angle angle = reduce(wide, b.CreateFPExt(x, wide.type()), false);
  Value* r = b.CreateFPTrunc(angle.r, m.type());
  Value* r_lo = b.CreateFPTrunc(wide.sub(angle.r, b.CreateFPExt(r, wide.type())), m.type());
  return {r, r_lo, b.CreateTrunc(angle.quadrant, m.bits_type())};
}

Pair sine_of(const LaneMath& m, const Angle& a) {
  Value* z = m.mul(a.r, a.r);
  Value* rest = m.is_single() ? m.polynomial(z, kSinRestF32) : m.polynomial(z, kSinRestF64);
  Value* low = m.mul(a.r_lo, m.fma(z, -0.5, m.number(1)));
  return m.fast_two_sum(a.r, m.fma(m.mul(a.r, z), rest, low));
}

Pair cosine_of(const LaneMath& m, const Angle& a) {
  Value* z = m.mul(a.r, a.r);
  Value* rest = m.is_single() ? m.polynomial(z, kCosRestF32) : m.polynomial(z, kCosRestF64);
  Value* half = m.mul(z, m.number(0.5));
  Value* main = m.sub(m.number(1), half);
  Value* lost = m.sub(m.sub(m.number(1), main), half);
  Value* low = m.fma(m.mul(z, z), rest, m.sub(lost, m.mul(a.r, a.r_lo)));
  return m.fast_two_sum(main, low);
}

Value* sine_body(const LaneMath& m, Value* x, int turn) {
  auto& b = m.builder();
  Angle a = reduce_lanes_of(m, x);
  Value* quadrant = b.CreateAdd(a.quadrant, m.integer(turn));
  Value* is_odd = b.CreateICmpNE(b.CreateAnd(quadrant, m.integer(1)), m.integer(0));
  Value* value = m.select(is_odd, cosine_of(m, a).hi, sine_of(m, a).hi);
  Value* sign = b.CreateShl(b.CreateAnd(quadrant, m.integer(2)), m.integer(m.is_single() ? 30 : 62));
  value = m.from_bits(b.CreateXor(m.to_bits(value), sign));
  return turn == 0 ? m.select(m.less(m.abs(x), 0x1p-60), x, value) : value;
}

Value* atan2_body(const LaneMath& m, Value* y, Value* x) {
  auto& b = m.builder();
  Value *ay = m.abs(y), *ax = m.abs(x);
  Value* is_flat = b.CreateFCmpOLE(ay, ax);
  Value* small = m.select(is_flat, ay, ax);
  Value* large = m.select(is_flat, ax, ay);
  Value* same = m.select(m.equal(large, 0.0), m.number(0), m.number(1));
  Value* t = m.select(m.equal(small, large), same, m.div(small, large));
  Value* z = m.mul(t, t);
  Value* rest = m.is_single() ? m.polynomial(z, kAtanRestF32) : m.polynomial(z, kAtanRestF64);
  Value* angle = m.fma(m.mul(t, z), rest, t);
  // 0 + a, pi/2 - a, pi - a, pi/2 + a
  Value* is_left = b.CreateICmpSLT(m.to_bits(x), m.integer(0));
  double high = m.is_single() ? 1.57079637050628662109375 : kHalfPiHigh;
  double low = m.is_single() ? -4.37113900018624283e-8 : kHalfPiLow;
  auto base = [&](double half_pi) {
    Value* flat = m.select(is_left, m.number(2 * half_pi), m.number(0));
    return m.select(is_flat, flat, m.number(half_pi));
  };
  Value* is_added = b.CreateXor(is_left, is_flat);
  Value* signed_angle = m.select(is_added, angle, m.neg(angle));
  Value* result = m.add(base(high), m.add(base(low), signed_angle));
  return m.copysign(result, y);
}

Value* outlined_unary(const LaneMath& m, const char* name, Value* x,
                      const std::function<Value*(const LaneMath&, Value*)>& body) {
  Value* arguments[] = {x};
  return call_outlined(
      m.context(), cat("tw.", name, ".", lane_type_name(m.type())), m.type(), arguments,
      [&](EmitContext& inner, std::span<Value* const> a) { return body(LaneMath(inner, m.type()), a[0]); });
}

}  // namespace

Value* emit_sine(const LaneMath& m, Value* x) {
  return outlined_unary(m, "sine", x, [](const LaneMath& inner, Value* a) { return sine_body(inner, a, 0); });
}

Value* emit_cosine(const LaneMath& m, Value* x) {
  return outlined_unary(m, "cosine", x,
                        [](const LaneMath& inner, Value* a) { return sine_body(inner, a, 1); });
}

Value* emit_tan_body(const LaneMath& m, Value* x) {
  auto& b = m.builder();
  Angle a = reduce(m, x, true);
  Pair s = sine_of(m, a), c = cosine_of(m, a);
  Value* is_odd = b.CreateICmpNE(b.CreateAnd(a.quadrant, m.integer(1)), m.integer(0));
  Pair numerator{m.select(is_odd, m.neg(c.hi), s.hi), m.select(is_odd, m.neg(c.lo), s.lo)};
  Pair denominator{m.select(is_odd, s.hi, c.hi), m.select(is_odd, s.lo, c.lo)};
  return m.select(m.less(m.abs(x), 0x1p-60), x, m.quotient(numerator, denominator));
}

Value* emit_tan(const LaneMath& m, Value* x) {
  return outlined_unary(m, "tan", x, [](const LaneMath& inner, Value* a) {
    return inner.is_single() ? in_double(inner, emit_tan_body, a) : emit_tan_body(inner, a);
  });
}

Value* emit_atan2(const LaneMath& m, Value* y, Value* x) {
  Value* arguments[] = {y, x};
  return call_outlined(m.context(), cat("tw.atan2.", lane_type_name(m.type())), m.type(), arguments,
                       [&](EmitContext& inner, std::span<Value* const> a) {
                         return atan2_body(LaneMath(inner, m.type()), a[0], a[1]);
                       });
}

}  // namespace tilewright
