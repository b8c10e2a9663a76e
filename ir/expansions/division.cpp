// Floor division and modulo with the sign of the divisor.
#include "ir/expansions/pieces.h"

namespace tilewright {
using namespace expansions;
namespace {

// Where the remainder is not 0 and its sign differs from the divisor's.
ValueId needs_step(Builder& b, ValueId remainder, ValueId divisor) {
  ValueId zero = b.zeros_like(remainder);
  ValueId differs = b.compare(b.compare(remainder, zero, "LT"), b.compare(divisor, zero, "LT"), "NE");
  return b.emit(Op::And, {b.compare(remainder, zero, "NE"), differs});
}

ValueId integer_quotient(Builder& b, ValueId x, ValueId y) {
  ValueId quotient = b.divide(x, y);
  if (is_unsigned_integer(b.dtype(x))) return quotient;
  ValueId step = needs_step(b, b.emit(Op::Remainder, {x, y}), y);
  ValueId divisible = b.compare(y, b.zeros_like(y), "NE");
  step = b.convert(b.emit(Op::And, {step, divisible}), b.dtype(x));
  return b.subtract(quotient, step);
}

// (x - fmod(x, y)) / y is whole up to rounding; rounding it down could miss by one, so it is rounded to
// nearest.
ValueId float_quotient(Builder& b, ValueId x, ValueId y) {
  ValueId zero = b.zeros_like(x), plain = b.divide(x, y);
  ValueId remainder = b.emit(Op::Remainder, {x, y});
  ValueId quotient = b.divide(b.subtract(x, remainder), y);
  quotient = b.select(needs_step(b, remainder, y), b.shift(quotient, -1), quotient);
  ValueId down = b.emit(Op::Floor, {quotient});
  ValueId low = b.compare(b.subtract(quotient, down), b.constant_like(0.5, x), "GT");
  down = b.select(low, b.shift(down, 1), down);
  // A zero quotient has the sign of x / y.
  down = b.select(b.compare(quotient, zero, "EQ"), b.multiply(zero, plain), down);
  return b.select(b.compare(y, zero, "EQ"), plain, down);
}

}  // namespace

Status expand_floor_divide(Expansion& e) {
  TW_RETURN_IF_ERROR(check_same_shape(e, 1, 0));
  DType dtype = dtype_of(e, 0);
  if (!is_float(dtype)) {
    e.results = {integer_quotient(e.b, e.operands[0], e.operands[1])};
    return Status::ok();
  }
  ValueId x = widened(e, 0), y = widened(e, 1);
  e.results = {e.b.convert(float_quotient(e.b, x, y), dtype)};
  return Status::ok();
}

Status expand_modulo(Expansion& e) {
  TW_RETURN_IF_ERROR(check_same_shape(e, 1, 0));
  Builder& b = e.b;
  DType dtype = dtype_of(e, 0);
  ValueId x = is_float(dtype) ? widened(e, 0) : e.operands[0];
  ValueId y = is_float(dtype) ? widened(e, 1) : e.operands[1];
  ValueId remainder = b.emit(Op::Remainder, {x, y});
  if (is_unsigned_integer(dtype)) {
    e.results = {remainder};
    return Status::ok();
  }
  ValueId moved = b.select(needs_step(b, remainder, y), b.add(remainder, y), remainder);
  e.results = {b.convert(moved, dtype)};
  return Status::ok();
}

}  // namespace tilewright
