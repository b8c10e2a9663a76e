// Dispatch of elementwise ops over dtypes, with the rounding of narrow floats at op boundaries.
#include "codegen/emit/elementwise.h"

#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>

#include "codegen/emit/float_formats.h"
#include "codegen/emit/functions.h"
#include "codegen/emit/integers.h"

namespace tilewright {
namespace {

using llvm::Value;

llvm::Type* with_lanes(llvm::Type* lane, unsigned lanes) {
  return lanes == 0 ? lane : llvm::FixedVectorType::get(lane, lanes);
}

unsigned lanes_of(llvm::Type* type) {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
  return vector ? vector->getNumElements() : 0;
}

bool is_floating(DType dtype) { return is_float(dtype) || is_float8(dtype); }

// Ops whose result, computed in f32, is a value of the narrow type already.
bool keeps_narrow(Op op) {
  switch (op) {
    case Op::Abs:
    case Op::Negate:
    case Op::Sign:
    case Op::Floor:
    case Op::Ceil:
    case Op::Trunc:
    case Op::RoundNearestEven:
    case Op::RoundNearestAfz:
    case Op::Remainder:
    case Op::Maximum:
    case Op::Minimum:
    case Op::Select:
    case Op::Clamp:
    case Op::Convert: return true;
    default: return false;
  }
}

Value* round_afz(const LaneMath& m, Value* x) {
  return m.builder().CreateUnaryIntrinsic(llvm::Intrinsic::round, x);
}

Value* sign_of(const LaneMath& m, Value* x) {
  Value* negative = m.select(m.less(x, 0.0), m.number(-1), x);
  return m.select(m.greater(x, 0.0), m.number(1), negative);
}

Value* float_unary(const LaneMath& m, Op op, Value* x) {
  auto& b = m.builder();
  switch (op) {
    case Op::Abs: return m.abs(x);
    case Op::Negate: return m.neg(x);
    case Op::Sign: return sign_of(m, x);
    case Op::Exponential: return emit_exponential(m, x);
    case Op::ExponentialMinusOne: return emit_exponential_minus_one(m, x);
    case Op::Log: return emit_log(m, x);
    case Op::LogPlusOne: return emit_log_plus_one(m, x);
    case Op::Sqrt: return m.sqrt(x);
    case Op::Rsqrt: return emit_rsqrt(m, x);
    case Op::Sine: return emit_sine(m, x);
    case Op::Cosine: return emit_cosine(m, x);
    case Op::Tan: return emit_tan(m, x);
    case Op::Tanh: return emit_tanh(m, x);
    case Op::Logistic: return emit_logistic(m, x);
    case Op::Erf: return emit_erf(m, x);
    case Op::ErfInv: return emit_erf_inv(m, x);
    case Op::Lgamma: return emit_lgamma(m, x);
    case Op::Digamma: return emit_digamma(m, x);
    case Op::Cbrt: return emit_cbrt(m, x);
    case Op::Floor: return b.CreateUnaryIntrinsic(llvm::Intrinsic::floor, x);
    case Op::Ceil: return b.CreateUnaryIntrinsic(llvm::Intrinsic::ceil, x);
    case Op::Trunc: return b.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, x);
    case Op::RoundNearestEven: return m.rint(x);
    case Op::RoundNearestAfz: return round_afz(m, x);
    case Op::IsFinite: return m.less(m.abs(x), m.infinity());
    default: return nullptr;
  }
}

// NaN if either is, +0 above -0.  One instruction of AVX-512 knows the order of zeros; NaN comes from a sum.
Value* extreme(const LaneMath& m, bool is_maximum, Value* x, Value* y) {
  auto& b = m.builder();
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
  unsigned bits = vector && m.is_single() ? vector->getNumElements() * 32 : 0;
  if (!m.context().has_avx512() || (bits != 128 && bits != 256 && bits != 512)) {
    return b.CreateBinaryIntrinsic(is_maximum ? llvm::Intrinsic::maximum : llvm::Intrinsic::minimum, x, y);
  }
  llvm::Intrinsic::ID range = bits == 512   ? llvm::Intrinsic::x86_avx512_mask_range_ps_512
                              : bits == 256 ? llvm::Intrinsic::x86_avx512_mask_range_ps_256
                                            : llvm::Intrinsic::x86_avx512_mask_range_ps_128;
  unsigned lanes = vector->getNumElements();
  Value* all = llvm::Constant::getAllOnesValue(b.getIntNTy(std::max(lanes, 8u)));
  std::vector<Value*> arguments{x, y, b.getInt32(is_maximum ? 5 : 4), x, all};
  if (bits == 512) arguments.push_back(b.getInt32(4));  // current rounding: says that exceptions are silent
  Value* ordered = b.CreateIntrinsic(range, {}, arguments);
  return m.select(b.CreateFCmpUNO(x, y), m.add(x, y), ordered);
}

Value* float_binary(const LaneMath& m, Op op, Value* x, Value* y) {
  switch (op) {
    case Op::Add: return m.add(x, y);
    case Op::Subtract: return m.sub(x, y);
    case Op::Multiply: return m.mul(x, y);
    case Op::Divide: return m.div(x, y);
    case Op::Remainder: return emit_float_remainder(m, x, y);
    case Op::Power: return emit_power(m, x, y);
    case Op::Atan2: return emit_atan2(m, x, y);
    case Op::Maximum: return extreme(m, true, x, y);
    case Op::Minimum: return extreme(m, false, x, y);
    default: return nullptr;
  }
}

Value* integer_unary(EmitContext& context, Op op, Value* x, bool is_signed) {
  auto& b = context.builder;
  Value* zero = llvm::Constant::getNullValue(x->getType());
  switch (op) {
    case Op::Abs: return is_signed ? b.CreateSelect(b.CreateICmpSLT(x, zero), b.CreateNeg(x), x) : x;
    case Op::Negate: return b.CreateNeg(x);
    case Op::Sign: {
      Value* positive = b.CreateZExt(b.CreateICmpNE(x, zero), x->getType());
      if (!is_signed) return positive;
      return b.CreateSelect(b.CreateICmpSLT(x, zero), llvm::Constant::getAllOnesValue(x->getType()),
                            positive);
    }
    case Op::Not: return b.CreateNot(x);
    case Op::Popcnt: return b.CreateUnaryIntrinsic(llvm::Intrinsic::ctpop, x);
    case Op::CountLeadingZeros:
      return b.CreateIntrinsic(llvm::Intrinsic::ctlz, {x->getType()}, {x, b.getFalse()});
    case Op::Floor:
    case Op::Ceil:
    case Op::Trunc:
    case Op::RoundNearestEven:
    case Op::RoundNearestAfz: return x;
    default: return nullptr;
  }
}

Value* integer_binary(EmitContext& context, Op op, Value* x, Value* y, bool is_signed) {
  auto& b = context.builder;
  switch (op) {
    case Op::Add: return b.CreateAdd(x, y);
    case Op::Subtract: return b.CreateSub(x, y);
    case Op::Multiply: return b.CreateMul(x, y);
    case Op::Divide: return emit_integer_divide(context, x, y, is_signed);
    case Op::Remainder: return emit_integer_remainder(context, x, y, is_signed);
    case Op::Power: return emit_integer_power(context, x, y, is_signed);
    case Op::Maximum:
      return b.CreateBinaryIntrinsic(is_signed ? llvm::Intrinsic::smax : llvm::Intrinsic::umax, x, y);
    case Op::Minimum:
      return b.CreateBinaryIntrinsic(is_signed ? llvm::Intrinsic::smin : llvm::Intrinsic::umin, x, y);
    case Op::And: return b.CreateAnd(x, y);
    case Op::Or: return b.CreateOr(x, y);
    case Op::Xor: return b.CreateXor(x, y);
    case Op::ShiftLeft: return emit_shift(context, Shift::Left, x, y);
    case Op::ShiftRightArithmetic: return emit_shift(context, Shift::RightArithmetic, x, y);
    case Op::ShiftRightLogical: return emit_shift(context, Shift::RightLogical, x, y);
    default: return nullptr;
  }
}

Value* bool_binary(EmitContext& context, Op op, Value* x, Value* y) {
  auto& b = context.builder;
  switch (op) {
    case Op::Add:
    case Op::Maximum:
    case Op::Or: return b.CreateOr(x, y);
    case Op::Multiply:
    case Op::Minimum:
    case Op::And: return b.CreateAnd(x, y);
    case Op::Xor: return b.CreateXor(x, y);
    default: return nullptr;
  }
}

// Bits as integers whose signed order is the IEEE total order.
Value* total_order_key(const LaneMath& m, Value* x) {
  auto& b = m.builder();
  Value* bits = m.to_bits(x);
  int width = m.is_single() ? 32 : 64;
  Value* mask = b.CreateLShr(b.CreateAShr(bits, m.integer(width - 1)), m.integer(1));
  return b.CreateXor(bits, mask);
}

llvm::CmpInst::Predicate integer_predicate(std::string_view direction, bool is_signed) {
  using P = llvm::CmpInst::Predicate;
  if (direction == "EQ") return P::ICMP_EQ;
  if (direction == "NE") return P::ICMP_NE;
  if (direction == "GE") return is_signed ? P::ICMP_SGE : P::ICMP_UGE;
  if (direction == "GT") return is_signed ? P::ICMP_SGT : P::ICMP_UGT;
  if (direction == "LE") return is_signed ? P::ICMP_SLE : P::ICMP_ULE;
  return is_signed ? P::ICMP_SLT : P::ICMP_ULT;
}

llvm::CmpInst::Predicate float_predicate(std::string_view direction) {
  using P = llvm::CmpInst::Predicate;
  if (direction == "EQ") return P::FCMP_OEQ;
  if (direction == "NE") return P::FCMP_UNE;
  if (direction == "GE") return P::FCMP_OGE;
  if (direction == "GT") return P::FCMP_OGT;
  return direction == "LE" ? P::FCMP_OLE : P::FCMP_OLT;
}

Value* emit_compare(EmitContext& context, const AttributeReader& attributes, Value* x, Value* y,
                    DType dtype) {
  auto& b = context.builder;
  const std::string& direction = attributes.get_string("direction");
  std::string order = attributes.has("order") ? attributes.get_string("order") : std::string();
  if (is_floating(dtype)) {
    if (order != "TOTALORDER") return b.CreateFCmp(float_predicate(direction), x, y);
    LaneMath m(context, x->getType());
    return b.CreateICmp(integer_predicate(direction, true), total_order_key(m, x), total_order_key(m, y));
  }
  bool is_signed = is_signed_integer(dtype);
  if (order == "SIGNED") is_signed = dtype != DType::Bool;
  if (order == "UNSIGNED") is_signed = false;
  return b.CreateICmp(integer_predicate(direction, is_signed), x, y);
}

Value* float_to_narrow(EmitContext& context, Value* x, DType from, DType to, bool saturate) {
  if (is_narrow_float(from) || from == DType::F32) {
    return widen_narrow_float(context, to, narrow_float(context, to, x, saturate));
  }
  Value* wide = from == DType::F64 ? x : emit_integer_to_sticky_double(context, x, is_signed_integer(from));
  Value* odd = double_to_odd_float(context, wide);
  return widen_narrow_float(context, to, narrow_float(context, to, odd, saturate));
}

}  // namespace

llvm::Type* register_type(EmitContext& context, DType dtype, unsigned lanes) {
  auto& b = context.builder;
  if (dtype == DType::Bool) return with_lanes(b.getInt1Ty(), lanes);
  if (dtype == DType::F64) return with_lanes(b.getDoubleTy(), lanes);
  if (is_floating(dtype)) return with_lanes(b.getFloatTy(), lanes);
  return with_lanes(b.getIntNTy(static_cast<unsigned>(dtype_bytes(dtype)) * 8), lanes);
}

llvm::Type* storage_type(EmitContext& context, DType dtype, unsigned lanes) {
  if (dtype == DType::F32 || dtype == DType::F64) return register_type(context, dtype, lanes);
  return with_lanes(context.builder.getIntNTy(static_cast<unsigned>(dtype_bytes(dtype)) * 8), lanes);
}

llvm::Value* to_register(EmitContext& context, DType dtype, llvm::Value* stored) {
  if (dtype == DType::Bool) {
    return context.builder.CreateICmpNE(stored, llvm::Constant::getNullValue(stored->getType()));
  }
  return is_narrow_float(dtype) ? widen_narrow_float(context, dtype, stored) : stored;
}

llvm::Value* to_storage(EmitContext& context, DType dtype, llvm::Value* value) {
  if (dtype == DType::Bool) {
    return context.builder.CreateZExt(value, storage_type(context, dtype, lanes_of(value->getType())));
  }
  if (!is_narrow_float(dtype)) return value;
  // Only strict code keeps every intermediate a value of the narrow type.
  return context.precision == EmitPrecision::Strict ? narrow_exact(context, dtype, value)
                                                    : narrow_float(context, dtype, value);
}

llvm::Value* emit_convert(EmitContext& context, llvm::Value* x, DType from, DType to, bool saturate) {
  auto& b = context.builder;
  if (from == to) return x;
  llvm::Type* type = register_type(context, to, lanes_of(x->getType()));
  if (to == DType::Bool) {
    if (!is_floating(from)) return b.CreateICmpNE(x, llvm::Constant::getNullValue(x->getType()));
    return b.CreateFCmpUNE(x, llvm::Constant::getNullValue(x->getType()));
  }
  if (is_narrow_float(to)) {
    if (from == DType::Bool) return b.CreateUIToFP(x, type);
    if (from == DType::BF16 && to == DType::F16) saturate = false;
    return float_to_narrow(context, x, from, to, saturate);
  }
  if (is_floating(to)) {
    if (is_floating(from)) return b.CreateFPCast(x, type);
    return is_signed_integer(from) ? b.CreateSIToFP(x, type) : b.CreateUIToFP(x, type);
  }
  if (is_floating(from)) return emit_float_to_integer(context, x, type, is_signed_integer(to));
  return is_signed_integer(from) ? b.CreateSExtOrTrunc(x, type) : b.CreateZExtOrTrunc(x, type);
}

llvm::Value* emit_binary(EmitContext& context, Op op, llvm::Value* x, llvm::Value* y, DType dtype) {
  if (dtype == DType::Bool) return bool_binary(context, op, x, y);
  if (!is_floating(dtype)) return integer_binary(context, op, x, y, is_signed_integer(dtype));
  llvm::Value* result = float_binary(LaneMath(context, x->getType()), op, x, y);
  bool rounds = is_narrow_float(dtype) && !keeps_narrow(op) && context.precision == EmitPrecision::Strict;
  return result && rounds ? round_to_narrow(context, dtype, result) : result;
}

llvm::Value* emit_elementwise(EmitContext& context, Op op, const AttributeReader& attributes,
                              std::span<llvm::Value* const> operands, DType in, DType out) {
  switch (op) {
    case Op::Convert: return emit_convert(context, operands[0], in, out, attributes.get_bool("saturate"));
    case Op::Compare: return emit_compare(context, attributes, operands[0], operands[1], in);
    case Op::Select: return context.builder.CreateSelect(operands[0], operands[1], operands[2]);
    case Op::Clamp:
      return emit_binary(context, Op::Minimum,
                         emit_binary(context, Op::Maximum, operands[1], operands[0], in), operands[2], in);
    case Op::ReducePrecision: {
      llvm::Value* reduced = reduce_precision(context, operands[0], attributes.get_int("exponent_bits"),
                                              attributes.get_int("mantissa_bits"));
      return is_narrow_float(in) ? round_to_narrow(context, in, reduced) : reduced;
    }
    default: break;
  }
  if (operands.size() == 2) return emit_binary(context, op, operands[0], operands[1], in);
  if (operands.size() != 1) return nullptr;
  if (in == DType::Bool) return op == Op::Not ? context.builder.CreateNot(operands[0]) : nullptr;
  if (!is_floating(in)) return integer_unary(context, op, operands[0], is_signed_integer(in));
  llvm::Value* result = float_unary(LaneMath(context, operands[0]->getType()), op, operands[0]);
  bool rounds = is_narrow_float(out) && !keeps_narrow(op) && context.precision == EmitPrecision::Strict;
  return result && rounds ? round_to_narrow(context, out, result) : result;
}

}  // namespace tilewright
