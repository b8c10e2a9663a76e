// LaneMath: arithmetic on floats of one type (float, double or vectors of them) for the emitted functions.
#pragma once

#include <functional>
#include <span>

#include "codegen/emit/emit_context.h"

namespace tilewright {

class LaneMath {
 public:
  using Value = llvm::Value;
  // An unevaluated sum: `lo` is below half a unit of the last place of `hi`.
  struct Pair {
    Value* hi;
    Value* lo;
  };

  LaneMath(EmitContext& context, llvm::Type* type);

  EmitContext& context() const { return context_; }
  llvm::IRBuilder<>& builder() const { return context_.builder; }
  llvm::Type* type() const { return type_; }
  llvm::Type* bits_type() const { return bits_type_; }
  bool is_single() const { return type_->getScalarType()->isFloatTy(); }
  bool has_fma() const { return context_.limits.has_fma; }
  int mantissa_bits() const { return is_single() ? 23 : 52; }
  int64_t exponent_bias() const { return is_single() ? 127 : 1023; }
  // The same lanes in double.
  LaneMath widened() const;

  Value* number(double value) const;
  Value* integer(int64_t value) const;
  Value* infinity() const;
  Value* nan() const;

  Value* add(Value* a, Value* b) const { return builder().CreateFAdd(a, b); }
  Value* sub(Value* a, Value* b) const { return builder().CreateFSub(a, b); }
  Value* mul(Value* a, Value* b) const { return builder().CreateFMul(a, b); }
  Value* div(Value* a, Value* b) const { return builder().CreateFDiv(a, b); }
  Value* neg(Value* a) const { return builder().CreateFNeg(a); }
  Value* abs(Value* a) const;
  Value* sqrt(Value* a) const;
  Value* rint(Value* a) const;
  Value* copysign(Value* magnitude, Value* sign) const;
  // a * b + c, rounded once where the chip can, else twice.
  Value* fma(Value* a, Value* b, Value* c) const;
  Value* fma(Value* a, double b, Value* c) const { return fma(a, number(b), c); }

  Value* less(Value* a, Value* b) const { return builder().CreateFCmpOLT(a, b); }
  Value* less(Value* a, double b) const { return less(a, number(b)); }
  Value* greater(Value* a, Value* b) const { return builder().CreateFCmpOGT(a, b); }
  Value* greater(Value* a, double b) const { return greater(a, number(b)); }
  Value* equal(Value* a, Value* b) const { return builder().CreateFCmpOEQ(a, b); }
  Value* equal(Value* a, double b) const { return equal(a, number(b)); }
  Value* is_nan(Value* a) const { return builder().CreateFCmpUNO(a, a); }
  Value* select(Value* condition, Value* a, Value* b) const {
    return builder().CreateSelect(condition, a, b);
  }
  // Into [low, high]; NaN stays NaN.
  Value* clamp(Value* a, double low, double high) const;

  Value* to_bits(Value* a) const { return builder().CreateBitCast(a, bits_type_); }
  Value* from_bits(Value* a) const { return builder().CreateBitCast(a, type_); }
  // coefficients[0] + x * (coefficients[1] + ..)
  Value* polynomial(Value* x, std::span<const double> coefficients) const;

  // |a| >= |b| or a = 0
  Pair fast_two_sum(Value* a, Value* b) const;
  Pair two_sum(Value* a, Value* b) const;
  Pair two_product(Value* a, Value* b) const;
  Pair add(Pair a, Pair b) const;
  Pair multiply(Pair a, Pair b) const;
  // a / b to about the last bit, rounded.
  Value* quotient(Pair a, Pair b) const;

  // Nearest integer of a, |a| < 2^22 (f32) or 2^51 (f64), as a number and as an integer of the float's width.
  struct Rounded {
    Value* number;
    Value* integer;
  };
  Rounded round(Value* a) const { return round_biased(add(a, number(magic()))); }
  // Nearest integer of a * b.
  Rounded round_product(Value* a, double b) const { return round_biased(fma(a, b, number(magic()))); }
  // A small integer (of the float's width) as a number.
  Value* to_number(Value* integer) const;
  // 2^n for n in the range of normal numbers.
  Value* power_of_two(Value* n) const;
  // a * 2^n for any n in [-2 * bias, 2 * bias], with one rounding when the result is subnormal.
  Value* scale(Value* a, Value* n) const;
  // The same for a in [1/2, 2], or NaN.
  Value* scale_near_one(Value* a, Value* n) const;

 private:
  double magic() const { return is_single() ? 0x1.8p23 : 0x1.8p52; }
  Rounded round_biased(Value* biased) const;

  EmitContext& context_;
  llvm::Type* type_;
  llvm::Type* bits_type_;
};

// Calls the internal function `name` of the module, made by `body` (arguments to result) on first use:
// functions that are long, branch or are rarely used are emitted once a module.
llvm::Value* call_outlined(
    EmitContext& context, const std::string& name, llvm::Type* result,
    std::span<llvm::Value* const> arguments,
    const std::function<llvm::Value*(EmitContext&, std::span<llvm::Value* const>)>& body);

// "f32", "v16f64", "v16i8": for names of outlined functions.
std::string lane_type_name(llvm::Type* type);

}  // namespace tilewright
