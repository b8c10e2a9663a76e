// LaneMath on generic LLVM IR: no call, no intrinsic of one chip.
#include "codegen/emit/lane_math.h"

#include <llvm/IR/Intrinsics.h>

#include <limits>

#include "base/text.h"

namespace tilewright {

using llvm::Value;

LaneMath::LaneMath(EmitContext& context, llvm::Type* type) : context_(context), type_(type) {
  llvm::Type* lane = is_single() ? builder().getInt32Ty() : builder().getInt64Ty();
  bits_type_ = type->getWithNewType(lane);
}

LaneMath LaneMath::widened() const {
  return LaneMath(context_, type_->getWithNewType(builder().getDoubleTy()));
}

Value* LaneMath::number(double value) const { return llvm::ConstantFP::get(type_, value); }
Value* LaneMath::integer(int64_t value) const { return llvm::ConstantInt::getSigned(bits_type_, value); }
Value* LaneMath::infinity() const { return llvm::ConstantFP::getInfinity(type_); }
Value* LaneMath::nan() const { return llvm::ConstantFP::getNaN(type_); }

Value* LaneMath::abs(Value* a) const { return builder().CreateUnaryIntrinsic(llvm::Intrinsic::fabs, a); }
Value* LaneMath::sqrt(Value* a) const { return builder().CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, a); }
Value* LaneMath::rint(Value* a) const {
  return builder().CreateUnaryIntrinsic(llvm::Intrinsic::roundeven, a);
}
Value* LaneMath::copysign(Value* magnitude, Value* sign) const {
  return builder().CreateBinaryIntrinsic(llvm::Intrinsic::copysign, magnitude, sign);
}

Value* LaneMath::fma(Value* a, Value* b, Value* c) const {
  if (has_fma()) return builder().CreateIntrinsic(llvm::Intrinsic::fma, {type_}, {a, b, c});
  return add(mul(a, b), c);
}

Value* LaneMath::clamp(Value* a, double low, double high) const {
  if (!context_.is_cpu()) {  // one instruction each there
    Value* below = builder().CreateBinaryIntrinsic(llvm::Intrinsic::minimum, a, number(high));
    return builder().CreateBinaryIntrinsic(llvm::Intrinsic::maximum, below, number(low));
  }
  Value* below = select(less(number(high), a), number(high), a);
  return select(greater(number(low), below), number(low), below);
}

Value* LaneMath::polynomial(Value* x, std::span<const double> coefficients) const {
  Value* sum = number(coefficients.back());
  for (size_t i = coefficients.size() - 1; i-- > 0;) sum = fma(sum, x, number(coefficients[i]));
  return sum;
}

LaneMath::Pair LaneMath::fast_two_sum(Value* a, Value* b) const {
  Value* sum = add(a, b);
  return {sum, sub(b, sub(sum, a))};
}

LaneMath::Pair LaneMath::two_sum(Value* a, Value* b) const {
  Value* sum = add(a, b);
  Value* part = sub(sum, a);
  return {sum, add(sub(a, sub(sum, part)), sub(b, part))};
}

LaneMath::Pair LaneMath::two_product(Value* a, Value* b) const {
  Value* product = mul(a, b);
  if (has_fma()) return {product, fma(a, b, neg(product))};
  // Dekker: halves of the mantissa multiply exactly.
  Value* splitter = number(is_single() ? 4097.0 : 134217729.0);
  auto split = [&](Value* x) {
    Value* scaled = mul(x, splitter);
    Value* high = sub(scaled, sub(scaled, x));
    return Pair{high, sub(x, high)};
  };
  Pair x = split(a), y = split(b);
  Value* error = sub(mul(x.hi, y.hi), product);
  error = add(error, mul(x.hi, y.lo));
  error = add(error, mul(x.lo, y.hi));
  return {product, add(error, mul(x.lo, y.lo))};
}

LaneMath::Pair LaneMath::add(Pair a, Pair b) const {
  Pair sum = two_sum(a.hi, b.hi);
  return fast_two_sum(sum.hi, add(sum.lo, add(a.lo, b.lo)));
}

LaneMath::Pair LaneMath::multiply(Pair a, Pair b) const {
  Pair product = two_product(a.hi, b.hi);
  Value* cross = fma(a.hi, b.lo, mul(a.lo, b.hi));
  return fast_two_sum(product.hi, add(product.lo, cross));
}

Value* LaneMath::quotient(Pair a, Pair b) const {
  Value* inverse = div(number(1), b.hi);
  Value* first = mul(a.hi, inverse);
  Pair product = two_product(first, b.hi);
  Value* rest = sub(sub(a.hi, product.hi), product.lo);
  rest = add(rest, fma(neg(first), b.lo, a.lo));
  return fma(rest, inverse, first);
}

LaneMath::Rounded LaneMath::round_biased(Value* biased) const {
  Value* bits = builder().CreateSub(to_bits(biased), to_bits(number(magic())));
  return {sub(biased, number(magic())), bits};
}

Value* LaneMath::to_number(Value* integer) const {
  Value* bits = builder().CreateAdd(integer, to_bits(number(magic())));
  return sub(from_bits(bits), number(magic()));
}

Value* LaneMath::power_of_two(Value* n) const {
  Value* biased = builder().CreateAdd(n, integer(exponent_bias()));
  return from_bits(builder().CreateShl(biased, integer(mantissa_bits())));
}

Value* LaneMath::scale(Value* a, Value* n) const {
  if (context_.is_cpu() && context_.limits.has_masks) {  // one instruction there
    Value* narrow = builder().CreateTrunc(n, type_->getWithNewType(builder().getInt32Ty()));
    return builder().CreateIntrinsic(llvm::Intrinsic::ldexp, {type_, narrow->getType()}, {a, narrow});
  }
  Value* half = builder().CreateAShr(n, integer(1));
  Value* rest = builder().CreateSub(n, half);
  return mul(mul(a, power_of_two(half)), power_of_two(rest));
}

Value* LaneMath::scale_near_one(Value* a, Value* n) const {
  if (context_.is_cpu()) return scale(a, n);
  // By a power that is a normal number whatever n is, and one that brings the rest.
  const int64_t half = exponent_bias() / 2 + 1;
  const double rest = is_single() ? 0x1p64 : 0x1p512;
  Value* is_small = builder().CreateICmpSLT(n, integer(0));
  Value* base = builder().CreateSelect(is_small, integer((exponent_bias() + half) << mantissa_bits()),
                                       integer((exponent_bias() - half) << mantissa_bits()));
  Value* power = from_bits(builder().CreateAdd(builder().CreateShl(n, integer(mantissa_bits())), base));
  return mul(mul(a, power), select(is_small, number(1 / rest), number(rest)));
}

std::string lane_type_name(llvm::Type* type) {
  llvm::Type* lane = type->getScalarType();
  std::string name = lane->isIntegerTy() ? cat('i', lane->getIntegerBitWidth())
                                         : cat('f', static_cast<int>(lane->getScalarSizeInBits()));
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
  return vector ? cat('v', vector->getNumElements(), name) : name;
}

Value* call_outlined(EmitContext& context, const std::string& name, llvm::Type* result,
                     std::span<Value* const> arguments,
                     const std::function<Value*(EmitContext&, std::span<Value* const>)>& body) {
  llvm::Function* function = context.module.getFunction(name);
  if (!function) {
    std::vector<llvm::Type*> types;
    for (Value* argument : arguments) types.push_back(argument->getType());
    function = llvm::Function::Create(llvm::FunctionType::get(result, types, false),
                                      llvm::Function::InternalLinkage, name, context.module);
    function->setCallingConv(llvm::CallingConv::Fast);
    function->addFnAttr(llvm::Attribute::NoInline);
    llvm::IRBuilder<> builder(llvm::BasicBlock::Create(context.llvm(), "entry", function));
    EmitContext inner{context.module, builder, context.limits, context.precision};
    std::vector<Value*> parameters;
    for (llvm::Argument& argument : function->args()) parameters.push_back(&argument);
    Value* value = body(inner, parameters);
    if (value) {
      builder.CreateRet(value);
    } else {
      builder.CreateRetVoid();
    }
  }
  std::vector<Value*> values(arguments.begin(), arguments.end());
  llvm::CallInst* call = context.builder.CreateCall(function, values);
  call->setCallingConv(llvm::CallingConv::Fast);
  return call;
}

}  // namespace tilewright
