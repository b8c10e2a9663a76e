// Unary functions as composites: inverse and hyperbolic functions, powers and logarithms to other bases,
// tests.
#include <cmath>
#include <limits>
#include <numbers>

#include "base/function_ref.h"
#include "ir/expansions/pieces.h"

namespace tilewright {
using namespace expansions;
namespace {

// y = f(x) in the work type, rounded once.
Status unary(Expansion& e, FunctionRef<ValueId(Builder&, ValueId)> f) {
  DType dtype = dtype_of(e, 0);
  e.results = {e.b.convert(f(e.b, widened(e, 0)), dtype)};
  return Status::ok();
}

// (1 - x)(1 + x): 1 - x^2 without cancellation.
ValueId one_minus_square(Builder& b, ValueId x) {
  ValueId one = b.constant_like(1, x);
  return b.multiply(b.subtract(one, x), b.add(one, x));
}

ValueId with_sign_of(Builder& b, ValueId x, ValueId magnitude) {
  return b.multiply(b.emit(Op::Sign, {x}), magnitude);
}

// Beyond this, e^-x no longer counts beside e^x.
constexpr double kLargeExponent = 22;
// Beyond this, sqrt(x^2 +- 1) is x.
constexpr double kLargeRoot = 0x1p28;

// e^x / 2 for large x as (e^(x/2) / 2) e^(x/2), which overflows only where the result does.
ValueId half_exponential(Builder& b, ValueId x) {
  ValueId t = b.exponential(b.scale(x, 0.5));
  return b.multiply(b.scale(t, 0.5), t);
}

}  // namespace

Status expand_asin(Expansion& e) {
  return unary(e, [](Builder& b, ValueId x) {
    return b.emit(Op::Atan2, {x, b.emit(Op::Sqrt, {one_minus_square(b, x)})});
  });
}

Status expand_acos(Expansion& e) {
  return unary(e, [](Builder& b, ValueId x) {
    return b.emit(Op::Atan2, {b.emit(Op::Sqrt, {one_minus_square(b, x)}), x});
  });
}

Status expand_atan(Expansion& e) {
  return unary(e, [](Builder& b, ValueId x) { return b.emit(Op::Atan2, {x, b.constant_like(1, x)}); });
}

Status expand_sinh(Expansion& e) {
  return unary(e, [](Builder& b, ValueId x) {
    ValueId a = b.emit(Op::Abs, {x});
    ValueId m = b.emit(Op::ExponentialMinusOne, {a});
    ValueId small = b.scale(b.add(m, b.divide(m, b.shift(m, 1))), 0.5);
    ValueId large = b.compare(a, b.constant_like(kLargeExponent, a), "GT");
    return with_sign_of(b, x, b.select(large, half_exponential(b, a), small));
  });
}

Status expand_cosh(Expansion& e) {
  return unary(e, [](Builder& b, ValueId x) {
    ValueId a = b.emit(Op::Abs, {x});
    ValueId t = b.exponential(a);
    ValueId small = b.scale(b.add(t, b.divide(b.constant_like(1, t), t)), 0.5);
    ValueId large = b.compare(a, b.constant_like(kLargeExponent, a), "GT");
    return b.select(large, half_exponential(b, a), small);
  });
}

Status expand_asinh(Expansion& e) {
  return unary(e, [](Builder& b, ValueId x) {
    ValueId a = b.emit(Op::Abs, {x}), square = b.multiply(a, a);
    ValueId root = b.emit(Op::Sqrt, {b.shift(square, 1)});
    // sqrt(a^2 + 1) - 1 = a^2 / (1 + sqrt(a^2 + 1))
    ValueId small = b.emit(Op::LogPlusOne, {b.add(a, b.divide(square, b.shift(root, 1)))});
    ValueId large = b.shift(b.log(a), std::numbers::ln2);
    return with_sign_of(b, x, b.select(b.compare(a, b.constant_like(kLargeRoot, a), "GT"), large, small));
  });
}

Status expand_acosh(Expansion& e) {
  return unary(e, [](Builder& b, ValueId x) {
    ValueId t = b.shift(x, -1);
    ValueId root = b.emit(Op::Sqrt, {b.multiply(t, b.shift(t, 2))});
    ValueId small = b.emit(Op::LogPlusOne, {b.add(t, root)});
    ValueId large = b.shift(b.log(x), std::numbers::ln2);
    ValueId y = b.select(b.compare(x, b.constant_like(kLargeRoot, x), "GT"), large, small);
    ValueId outside = b.compare(x, b.constant_like(1, x), "LT");
    return b.select(outside, b.constant_like(std::numeric_limits<double>::quiet_NaN(), x), y);
  });
}

Status expand_atanh(Expansion& e) {
  return unary(e, [](Builder& b, ValueId x) {
    ValueId a = b.emit(Op::Abs, {x});
    ValueId ratio = b.divide(b.add(a, a), b.subtract(b.constant_like(1, a), a));
    return with_sign_of(b, x, b.scale(b.emit(Op::LogPlusOne, {ratio}), 0.5));
  });
}

Status expand_exp2(Expansion& e) {
  return unary(e, [](Builder& b, ValueId x) { return b.emit(Op::Power, {b.constant_like(2, x), x}); });
}

Status expand_log2(Expansion& e) {
  return unary(e, [](Builder& b, ValueId x) { return b.scale(b.log(x), std::numbers::log2e); });
}

Status expand_log10(Expansion& e) {
  return unary(e, [](Builder& b, ValueId x) { return b.scale(b.log(x), std::numbers::log10e); });
}

Status expand_square(Expansion& e) {
  e.results = {e.b.multiply(e.operands[0], e.operands[0])};
  return Status::ok();
}

Status expand_reciprocal(Expansion& e) {
  e.results = {e.b.divide(e.b.constant_like(1, e.operands[0]), e.operands[0])};
  return Status::ok();
}

Status expand_isnan(Expansion& e) {
  e.results = {is_nan(e.b, e.operands[0])};
  return Status::ok();
}

Status expand_isinf(Expansion& e) {
  ValueId magnitude = e.b.emit(Op::Abs, {e.operands[0]});
  e.results = {
      e.b.compare(magnitude, e.b.constant_like(std::numeric_limits<double>::infinity(), magnitude), "EQ")};
  return Status::ok();
}

Status expand_logit(Expansion& e) {
  bool clamps = e.attributes.has("eps");
  double eps = clamps ? e.attributes.get_float("eps") : 0;
  return unary(e, [&](Builder& b, ValueId x) {
    if (clamps) {
      DType dtype = b.dtype(x);
      x = b.emit(Op::Clamp, {b.constant(eps, dtype), x, b.constant(1 - eps, dtype)});
    }
    ValueId rest = b.subtract(b.constant_like(1, x), x);
    // Around 1/2 the ratio is near 1: log1p(|2x - 1| / min(x, 1 - x)) keeps the digits there, with the sign
    // of 2x - 1. Both parts of that quotient are exact, and log1p damps the error of the division.
    ValueId centred = b.shift(b.add(x, x), -1);
    ValueId middle = b.compare(b.emit(Op::Abs, {centred}), b.constant_like(0.5, x), "LT");
    ValueId low = b.compare(x, b.constant_like(0.5, x), "LT");
    ValueId top = b.select(middle, b.select(low, b.negate(centred), centred), b.zeros_like(x));
    ValueId bottom = b.select(middle, b.select(low, x, rest), b.constant_like(1, x));
    ValueId near = b.emit(Op::LogPlusOne, {b.divide(top, bottom)});
    return b.select(middle, b.select(low, b.negate(near), near), b.log(b.divide(x, rest)));
  });
}

}  // namespace tilewright
