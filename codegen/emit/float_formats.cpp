// bf16, f16 and f8 by integer code: exact, subnormals kept, NaN stays NaN, the same bits on every chip.
#include "codegen/emit/float_formats.h"

#include <algorithm>
#include <cmath>

#include "codegen/emit/lane_math.h"

namespace tilewright {
namespace {

using llvm::Value;

// An IEEE-like format below f32; codes above `max_code` are inf and NaN.
struct NarrowFormat {
  int exponent_bits, mantissa_bits;
  int max_code, overflow_code, nan_code;
  int bits() const { return 1 + exponent_bits + mantissa_bits; }
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
};
constexpr NarrowFormat kF16{5, 10, 0x7bff, 0x7c00, 0x7e00};
constexpr NarrowFormat kE4M3FN{4, 3, 0x7e, 0x7f, 0x7f};
constexpr NarrowFormat kE5M2{5, 2, 0x7b, 0x7c, 0x7e};

NarrowFormat format_of(DType dtype) {
  if (dtype == DType::F8E4M3FN) return kE4M3FN;
  return dtype == DType::F8E5M2 ? kE5M2 : kF16;
}

bool uses_f16_instructions(const EmitContext& context, DType dtype) {
  return dtype == DType::F16 && (context.limits.has_f16_convert || !context.is_cpu());
}

Value* widen_by_integers(const LaneMath& m, const NarrowFormat& format, Value* bits) {
  auto& b = m.builder();
  Value* wide = b.CreateZExt(bits, m.bits_type());
  int sign_bit = format.bits() - 1;
  Value* sign = b.CreateShl(b.CreateLShr(wide, m.integer(sign_bit)), m.integer(31));
  Value* code = b.CreateAnd(wide, m.integer((1 << sign_bit) - 1));
  // The multiplication moves the exponent and makes subnormals right.
  Value* moved = m.from_bits(b.CreateShl(code, m.integer(23 - format.mantissa_bits)));
  Value* magnitude = m.to_bits(m.mul(moved, m.number(std::ldexp(1.0, 127 - format.bias()))));
  Value* is_special = b.CreateICmpUGT(code, m.integer(format.max_code));
  Value* special = format.overflow_code == format.nan_code ? m.integer(0x7fc00000)
                                                           : b.CreateOr(magnitude, m.integer(0x7f800000));
  return m.from_bits(b.CreateOr(b.CreateSelect(is_special, special, magnitude), sign));
}

Value* narrow_by_integers(const LaneMath& m, const NarrowFormat& format, Value* value, bool saturate) {
  auto& b = m.builder();
  Value* bits = m.to_bits(value);
  Value* magnitude = b.CreateAnd(bits, m.integer(0x7fffffff));
  int shift = 23 - format.mantissa_bits;
  Value* lowest = b.CreateAnd(b.CreateLShr(magnitude, m.integer(shift)), m.integer(1));
  Value* rounded = b.CreateAdd(b.CreateAdd(magnitude, m.integer((1 << (shift - 1)) - 1)), lowest);
  int64_t rebias = static_cast<int64_t>(127 - format.bias()) << format.mantissa_bits;
  Value* normal = b.CreateSub(b.CreateLShr(rounded, m.integer(shift)), m.integer(rebias));
  // Subnormals: an addition whose last bit has their weight rounds them.
  Value* magic = m.number(std::ldexp(1.0, 23 + 1 - format.bias() - format.mantissa_bits));
  Value* subnormal = b.CreateSub(m.to_bits(m.add(m.from_bits(magnitude), magic)), m.to_bits(magic));
  Value* is_subnormal =
      b.CreateICmpULT(magnitude, m.integer(static_cast<int64_t>(127 - format.bias() + 1) << 23));
  Value* code = b.CreateSelect(is_subnormal, subnormal, normal);
  Value* overflow = m.integer(saturate ? format.max_code : format.overflow_code);
  code = b.CreateSelect(b.CreateICmpSGT(code, m.integer(format.max_code)), overflow, code);
  Value* is_nan = b.CreateICmpUGT(magnitude, m.integer(0x7f800000));
  code = b.CreateSelect(is_nan, m.integer(format.nan_code), code);
  Value* sign = b.CreateShl(b.CreateLShr(bits, m.integer(31)), m.integer(format.bits() - 1));
  llvm::Type* storage = m.type()->getWithNewType(b.getIntNTy(format.bits()));
  return b.CreateTrunc(b.CreateOr(code, sign), storage);
}

// The f32 bits rounded to bf16, in the upper half; the lower half is not cleared.
Value* bf16_rounded_bits(const LaneMath& m, Value* value) {
  auto& b = m.builder();
  Value* bits = m.to_bits(value);
  Value* lowest = b.CreateAnd(b.CreateLShr(bits, m.integer(16)), m.integer(1));
  Value* rounded = b.CreateAdd(b.CreateAdd(bits, m.integer(0x7fff)), lowest);
  return b.CreateSelect(m.is_nan(value), b.CreateOr(bits, m.integer(0x400000)), rounded);
}

}  // namespace

Value* widen_narrow_float(EmitContext& context, DType dtype, Value* bits) {
  auto& b = context.builder;
  LaneMath m(context, bits->getType()->getWithNewType(b.getFloatTy()));
  if (dtype == DType::BF16 && context.is_ptx()) {  // so that ops on the narrow type itself are found
    return b.CreateFPExt(b.CreateBitCast(bits, bits->getType()->getWithNewType(b.getBFloatTy())), m.type());
  }
  if (dtype == DType::BF16) {
    return m.from_bits(b.CreateShl(b.CreateZExt(bits, m.bits_type()), m.integer(16)));
  }
  if (uses_f16_instructions(context, dtype)) {
    return b.CreateFPExt(b.CreateBitCast(bits, bits->getType()->getWithNewType(b.getHalfTy())), m.type());
  }
  return widen_by_integers(m, format_of(dtype), bits);
}

Value* narrow_float(EmitContext& context, DType dtype, Value* value, bool saturate) {
  auto& b = context.builder;
  LaneMath m(context, value->getType());
  llvm::Type* i16 = value->getType()->getWithNewType(b.getInt16Ty());
  if (dtype == DType::BF16 && context.is_ptx()) {
    return b.CreateBitCast(b.CreateFPTrunc(value, value->getType()->getWithNewType(b.getBFloatTy())), i16);
  }
  if (dtype == DType::BF16)
    return b.CreateTrunc(b.CreateLShr(bf16_rounded_bits(m, value), m.integer(16)), i16);
  if (uses_f16_instructions(context, dtype)) {
    return b.CreateBitCast(b.CreateFPTrunc(value, value->getType()->getWithNewType(b.getHalfTy())), i16);
  }
  return narrow_by_integers(m, format_of(dtype), value, saturate);
}

Value* narrow_exact(EmitContext& context, DType dtype, Value* value) {
  if (dtype != DType::BF16 || context.is_ptx()) return narrow_float(context, dtype, value);
  auto& b = context.builder;
  LaneMath m(context, value->getType());
  return b.CreateTrunc(b.CreateLShr(m.to_bits(value), m.integer(16)),
                       value->getType()->getWithNewType(b.getInt16Ty()));
}

Value* round_to_narrow(EmitContext& context, DType dtype, Value* value) {
  LaneMath m(context, value->getType());
  if (dtype == DType::BF16 && !context.is_ptx()) {
    return m.from_bits(context.builder.CreateAnd(bf16_rounded_bits(m, value), m.integer(0xffff0000)));
  }
  return widen_narrow_float(context, dtype, narrow_float(context, dtype, value));
}

Value* double_to_odd_float(EmitContext& context, Value* value) {
  auto& b = context.builder;
  LaneMath wide(context, value->getType());
  LaneMath m(context, value->getType()->getWithNewType(b.getFloatTy()));
  Value* nearest = b.CreateFPTrunc(value, m.type());
  Value* back = b.CreateFPExt(nearest, wide.type());
  Value* is_exact = b.CreateFCmpUEQ(back, value);
  Value* bits = m.to_bits(nearest);
  Value* is_beyond = wide.greater(wide.abs(back), wide.abs(value));
  bits = b.CreateSub(bits, b.CreateZExt(is_beyond, m.bits_type()));
  return m.select(is_exact, nearest, m.from_bits(b.CreateOr(bits, m.integer(1))));
}

Value* reduce_precision(EmitContext& context, Value* value, int64_t exponent_bits, int64_t mantissa_bits) {
  auto& b = context.builder;
  LaneMath m(context, value->getType());
  int64_t own_exponent_bits = m.is_single() ? 8 : 11;
  if (exponent_bits > own_exponent_bits && m.is_single()) {
    LaneMath wide = m.widened();
    Value* result =
        reduce_precision(context, b.CreateFPExt(value, wide.type()), exponent_bits, mantissa_bits);
    return b.CreateFPTrunc(result, m.type());
  }
  int64_t exponent = std::clamp<int64_t>(exponent_bits, 1, own_exponent_bits);
  int64_t kept = std::min<int64_t>(mantissa_bits, m.mantissa_bits());
  int64_t bias = (int64_t{1} << (exponent - 1)) - 1;
  int64_t shift = m.mantissa_bits() - kept;
  Value* magnitude = m.abs(value);
  Value* rounded = magnitude;
  if (shift > 0) {
    Value* bits = m.to_bits(magnitude);
    Value* lowest = b.CreateAnd(b.CreateLShr(bits, m.integer(shift)), m.integer(1));
    if (kept == 0) {  // the leading bit, which is not stored
      lowest = b.CreateZExt(b.CreateICmpUGE(bits, m.integer(int64_t{1} << shift)), m.bits_type());
    }
    bits = b.CreateAdd(b.CreateAdd(bits, m.integer((int64_t{1} << (shift - 1)) - 1)), lowest);
    rounded = m.from_bits(b.CreateAnd(bits, m.integer(-(int64_t{1} << shift))));
  }
  if (exponent < own_exponent_bits) {
    double smallest = std::ldexp(1.0, static_cast<int>(1 - bias));
    Value* magic = m.number(std::ldexp(1.0, static_cast<int>(m.mantissa_bits() + 1 - bias - kept)));
    Value* subnormal = m.sub(m.add(magnitude, magic), magic);
    rounded = m.select(m.less(magnitude, smallest), subnormal, rounded);
  }
  double limit = std::ldexp(2 - std::ldexp(1.0, static_cast<int>(-kept)), static_cast<int>(bias));
  rounded = m.select(m.greater(rounded, limit), m.infinity(), rounded);
  Value* is_finite = m.less(magnitude, m.infinity());
  return m.select(is_finite, m.copysign(rounded, value), value);
}

}  // namespace tilewright
