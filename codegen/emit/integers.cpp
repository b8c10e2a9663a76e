// Division, powers, shifts and conversions of integer lanes.
#include "codegen/emit/integers.h"

#include <cmath>

#include "base/text.h"
#include "codegen/emit/lane_math.h"

namespace tilewright {
namespace {

using llvm::Value;

Value* constant(llvm::Type* type, int64_t value) { return llvm::ConstantInt::getSigned(type, value); }
unsigned width(Value* x) { return x->getType()->getScalarSizeInBits(); }

// The quotient of divisors that are neither 0 nor -1 with the smallest dividend.  Up to 32 bits a double
// division is exact enough, and vectors have no integer division.
Value* divide_regular(EmitContext& context, Value* a, Value* b, bool is_signed) {
  auto& builder = context.builder;
  if (!a->getType()->isVectorTy() || width(a) > 32) {
    return is_signed ? builder.CreateSDiv(a, b) : builder.CreateUDiv(a, b);
  }
  llvm::Type* wide = a->getType()->getWithNewType(builder.getDoubleTy());
  if (is_signed) {
    Value* quotient = builder.CreateFDiv(builder.CreateSIToFP(a, wide), builder.CreateSIToFP(b, wide));
    llvm::Type* i32 = a->getType()->getWithNewType(builder.getInt32Ty());
    return builder.CreateTrunc(builder.CreateFPToSI(quotient, i32), a->getType());
  }
  Value* quotient = builder.CreateFDiv(builder.CreateUIToFP(a, wide), builder.CreateUIToFP(b, wide));
  return builder.CreateFPToUI(quotient, a->getType());
}

struct SafeDivisor {
  Value* divisor;  // 1 where division is not regular
  Value* is_zero;
  Value* is_minus_one;  // null for unsigned
};

SafeDivisor make_safe(EmitContext& context, Value* b, bool is_signed) {
  auto& builder = context.builder;
  Value* one = constant(b->getType(), 1);
  SafeDivisor out{b, builder.CreateICmpEQ(b, constant(b->getType(), 0)), nullptr};
  out.divisor = builder.CreateSelect(out.is_zero, one, b);
  if (is_signed) {
    out.is_minus_one = builder.CreateICmpEQ(b, constant(b->getType(), -1));
    out.divisor = builder.CreateSelect(out.is_minus_one, one, out.divisor);
  }
  return out;
}

// result *= square where the exponent's bit is set, as often as it has bits.
Value* power_loop(EmitContext& context, Value* base, Value* exponent) {
  auto& b = context.builder;
  llvm::Type* type = base->getType();
  llvm::BasicBlock* before = b.GetInsertBlock();
  llvm::Function* function = before->getParent();
  auto* loop = llvm::BasicBlock::Create(b.getContext(), "bit", function);
  auto* done = llvm::BasicBlock::Create(b.getContext(), "done", function);
  b.CreateBr(loop);
  b.SetInsertPoint(loop);
  auto phi = [&](Value* start) {
    llvm::PHINode* node = b.CreatePHI(start->getType(), 2);
    node->addIncoming(start, before);
    return node;
  };
  llvm::PHINode *square = phi(base), *rest = phi(exponent), *result = phi(constant(type, 1));
  llvm::PHINode* count = phi(b.getInt32(0));
  Value* is_set = b.CreateICmpNE(b.CreateAnd(rest, constant(type, 1)), constant(type, 0));
  Value* next = b.CreateSelect(is_set, b.CreateMul(result, square), result);
  square->addIncoming(b.CreateMul(square, square), loop);
  rest->addIncoming(b.CreateLShr(rest, constant(type, 1)), loop);
  result->addIncoming(next, loop);
  Value* next_count = b.CreateAdd(count, b.getInt32(1));
  count->addIncoming(next_count, loop);
  b.CreateCondBr(b.CreateICmpULT(next_count, b.getInt32(width(base))), loop, done);
  b.SetInsertPoint(done);
  return next;
}

Value* power_body(EmitContext& context, Value* base, Value* exponent, bool is_signed) {
  auto& b = context.builder;
  llvm::Type* type = base->getType();
  Value* power = power_loop(context, base, exponent);
  if (!is_signed) return power;
  Value *zero = constant(type, 0), *one = constant(type, 1), *minus_one = constant(type, -1);
  Value* is_odd = b.CreateICmpNE(b.CreateAnd(exponent, one), zero);
  Value* inverse = b.CreateSelect(b.CreateICmpEQ(base, one), one, zero);
  Value* sign = b.CreateSelect(is_odd, minus_one, one);
  inverse = b.CreateSelect(b.CreateICmpEQ(base, minus_one), sign, inverse);
  return b.CreateSelect(b.CreateICmpSLT(exponent, zero), inverse, power);
}

}  // namespace

Value* emit_integer_divide(EmitContext& context, Value* a, Value* b, bool is_signed) {
  auto& builder = context.builder;
  SafeDivisor safe = make_safe(context, b, is_signed);
  Value* result = divide_regular(context, a, safe.divisor, is_signed);
  if (is_signed) result = builder.CreateSelect(safe.is_minus_one, builder.CreateNeg(a), result);
  return builder.CreateSelect(safe.is_zero, constant(a->getType(), -1), result);
}

Value* emit_integer_remainder(EmitContext& context, Value* a, Value* b, bool is_signed) {
  auto& builder = context.builder;
  SafeDivisor safe = make_safe(context, b, is_signed);
  Value* quotient = divide_regular(context, a, safe.divisor, is_signed);
  Value* result = builder.CreateSub(a, builder.CreateMul(quotient, safe.divisor));
  return builder.CreateSelect(safe.is_zero, a, result);
}

Value* emit_integer_power(EmitContext& context, Value* base, Value* exponent, bool is_signed) {
  Value* arguments[] = {base, exponent};
  return call_outlined(context, cat("tw.power.", is_signed ? "s." : "u.", lane_type_name(base->getType())),
                       base->getType(), arguments, [&](EmitContext& inner, std::span<Value* const> a) {
                         return power_body(inner, a[0], a[1], is_signed);
                       });
}

Value* emit_shift(EmitContext& context, Shift shift, Value* x, Value* amount) {
  auto& b = context.builder;
  Value* is_inside = b.CreateICmpULT(amount, constant(x->getType(), width(x)));
  Value* last = constant(x->getType(), shift == Shift::RightArithmetic ? width(x) - 1 : 0);
  Value* safe = b.CreateSelect(is_inside, amount, last);
  // LLVM takes shift and select for an instruction that saturates, but passes it the low half of 64-bit
  // amounts.
  if (!context.is_cpu() && shift != Shift::RightArithmetic)
    safe = b.CreateAnd(amount, constant(x->getType(), width(x) - 1));
  if (shift == Shift::RightArithmetic) return b.CreateAShr(x, safe);
  Value* shifted = shift == Shift::Left ? b.CreateShl(x, safe) : b.CreateLShr(x, safe);
  return b.CreateSelect(is_inside, shifted, constant(x->getType(), 0));
}

Value* emit_float_to_integer(EmitContext& context, Value* x, llvm::Type* type, bool is_signed) {
  auto& b = context.builder;
  LaneMath m(context, x->getType());
  unsigned bits = type->getScalarSizeInBits();
  Value* is_number = b.CreateFCmpORD(x, x);
  double low = is_signed ? -std::ldexp(1.0, static_cast<int>(bits) - 1) : 0.0;
  double limit = std::ldexp(1.0, static_cast<int>(bits) - (is_signed ? 1 : 0));
  if (bits < 32) {  // the limits are floats: clamp, then convert through i32
    Value* safe = m.select(is_number, x, m.number(0));
    Value* i32 = b.CreateFPToSI(m.clamp(safe, low, limit - 1), type->getWithNewType(b.getInt32Ty()));
    return b.CreateTrunc(i32, type);
  }
  Value* is_high = b.CreateFCmpOGE(x, m.number(limit));
  Value* is_low = b.CreateFCmpOLT(x, m.number(low));
  Value* is_inside = b.CreateAnd(is_number, b.CreateNot(b.CreateOr(is_high, is_low)));
  Value* safe = m.select(is_inside, x, m.number(0));
  Value* result = is_signed ? b.CreateFPToSI(safe, type) : b.CreateFPToUI(safe, type);
  llvm::APInt high_bits = is_signed ? llvm::APInt::getSignedMaxValue(bits) : llvm::APInt::getMaxValue(bits);
  llvm::APInt low_bits = is_signed ? llvm::APInt::getSignedMinValue(bits) : llvm::APInt::getMinValue(bits);
  result = b.CreateSelect(is_high, llvm::ConstantInt::get(type, high_bits), result);
  return b.CreateSelect(is_low, llvm::ConstantInt::get(type, low_bits), result);
}

Value* emit_integer_to_sticky_double(EmitContext& context, Value* x, bool is_signed) {
  auto& b = context.builder;
  llvm::Type* wide = x->getType()->getWithNewType(b.getDoubleTy());
  if (width(x) < 64) return is_signed ? b.CreateSIToFP(x, wide) : b.CreateUIToFP(x, wide);
  // The low 16 bits of magnitudes above 2^48 become one sticky bit.
  llvm::Type* type = x->getType();
  Value* is_negative = b.CreateICmpSLT(x, constant(type, 0));
  Value* magnitude = is_signed ? b.CreateSelect(is_negative, b.CreateNeg(x), x) : x;
  Value* low = b.CreateAnd(magnitude, constant(type, 0xffff));
  Value* sticky =
      b.CreateSelect(b.CreateICmpNE(low, constant(type, 0)), constant(type, 0x10000), constant(type, 0));
  Value* cut = b.CreateOr(b.CreateAnd(magnitude, constant(type, ~int64_t{0xffff})), sticky);
  Value* is_large = b.CreateICmpNE(b.CreateLShr(magnitude, constant(type, 48)), constant(type, 0));
  Value* exact = b.CreateUIToFP(b.CreateSelect(is_large, cut, magnitude), wide);
  return is_signed ? b.CreateSelect(is_negative, b.CreateFNeg(exact), exact) : exact;
}

}  // namespace tilewright
