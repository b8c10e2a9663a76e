// What each elementwise op computes, on values of its arithmetic type: the one place where scalar semantics
// are written.
#pragma once

#include <algorithm>

#include "ir/reference/element.h"

namespace tilewright::reference {

// Functions of f32 are evaluated in double and of f64 in long double, then rounded once.
template <class C>
using Wide = std::conditional_t<std::is_same_v<C, float>, double, long double>;

double erf_inv(double x);
long double erf_inv(long double x);
double digamma(double x);
long double digamma(long double x);
double log_gamma(double x);
long double log_gamma(long double x);

template <class C>
inline constexpr bool kIsBool = std::is_same_v<C, bool>;
template <class C>
inline constexpr bool kIsInteger = std::is_integral_v<C> && !kIsBool<C>;
template <class C>
inline constexpr bool kIsReal = std::is_floating_point_v<C>;

template <class C>
inline constexpr int kBits = static_cast<int>(sizeof(C)) * 8;
template <class C>
using Unsigned = std::make_unsigned_t<C>;

// Integer arithmetic wraps: 64 unsigned bits, then the low ones.
template <class C>
uint64_t wide_bits(C value) {
  return static_cast<uint64_t>(value);
}

// FUNCTION bodies use `x` (and `y`, `z`); C is bool, an integer, float or double.
#define TW_FUNCTION1(Name)    \
  struct Name {               \
    template <class C>        \
    static auto apply(C x) {  \
      return compute(x);      \
    }                         \
    template <class C>        \
    static auto compute(C x); \
  };                          \
  template <class C>          \
  auto Name::compute(C x)
#define TW_FUNCTION2(Name)         \
  struct Name {                    \
    template <class C>             \
    static auto apply(C x, C y) {  \
      return compute(x, y);        \
    }                              \
    template <class C>             \
    static auto compute(C x, C y); \
  };                               \
  template <class C>               \
  auto Name::compute(C x, C y)

TW_FUNCTION1(Abs) {
  if constexpr (kIsReal<C>)
    return std::fabs(x);
  else
    return x < C(0) ? static_cast<C>(0 - wide_bits(x)) : x;
}
TW_FUNCTION1(Negate) {
  if constexpr (kIsReal<C>)
    return -x;
  else
    return static_cast<C>(0 - wide_bits(x));
}
TW_FUNCTION1(Sign) {
  // Comparisons are false for NaN and zeros, which are returned as they are.
  return x > C(0) ? C(1) : x < C(0) ? static_cast<C>(-1) : x;
}
TW_FUNCTION1(Not) {
  if constexpr (kIsBool<C>)
    return !x;
  else
    return static_cast<C>(~x);
}
TW_FUNCTION1(Exponential) { return static_cast<C>(std::exp(Wide<C>(x))); }
TW_FUNCTION1(ExponentialMinusOne) { return static_cast<C>(std::expm1(Wide<C>(x))); }
TW_FUNCTION1(Log) { return static_cast<C>(std::log(Wide<C>(x))); }
TW_FUNCTION1(LogPlusOne) { return static_cast<C>(std::log1p(Wide<C>(x))); }
TW_FUNCTION1(Sqrt) { return std::sqrt(x); }
TW_FUNCTION1(Rsqrt) { return static_cast<C>(1 / std::sqrt(Wide<C>(x))); }
TW_FUNCTION1(Sine) { return static_cast<C>(std::sin(Wide<C>(x))); }
TW_FUNCTION1(Cosine) { return static_cast<C>(std::cos(Wide<C>(x))); }
TW_FUNCTION1(Tan) { return static_cast<C>(std::tan(Wide<C>(x))); }
TW_FUNCTION1(Tanh) { return static_cast<C>(std::tanh(Wide<C>(x))); }
TW_FUNCTION1(Logistic) { return static_cast<C>(1 / (1 + std::exp(-Wide<C>(x)))); }
TW_FUNCTION1(Erf) { return static_cast<C>(std::erf(Wide<C>(x))); }
TW_FUNCTION1(ErfInv) { return static_cast<C>(erf_inv(Wide<C>(x))); }
TW_FUNCTION1(Lgamma) { return static_cast<C>(log_gamma(Wide<C>(x))); }
TW_FUNCTION1(Digamma) { return static_cast<C>(digamma(Wide<C>(x))); }
TW_FUNCTION1(Cbrt) { return static_cast<C>(std::cbrt(Wide<C>(x))); }
TW_FUNCTION1(Floor) {
  if constexpr (kIsReal<C>)
    return std::floor(x);
  else
    return x;
}
TW_FUNCTION1(Ceil) {
  if constexpr (kIsReal<C>)
    return std::ceil(x);
  else
    return x;
}
TW_FUNCTION1(Trunc) {
  if constexpr (kIsReal<C>)
    return std::trunc(x);
  else
    return x;
}
TW_FUNCTION1(RoundNearestEven) {
  if constexpr (kIsReal<C>)
    return std::nearbyint(x);
  else
    return x;
}
TW_FUNCTION1(RoundNearestAfz) {
  if constexpr (kIsReal<C>)
    return std::round(x);
  else
    return x;
}
TW_FUNCTION1(IsFinite) { return static_cast<bool>(std::isfinite(x)); }
TW_FUNCTION1(Popcnt) { return static_cast<C>(std::popcount(static_cast<Unsigned<C>>(x))); }
TW_FUNCTION1(CountLeadingZeros) { return static_cast<C>(std::countl_zero(static_cast<Unsigned<C>>(x))); }

TW_FUNCTION2(Add) {
  if constexpr (kIsBool<C>)
    return x || y;
  else if constexpr (kIsReal<C>)
    return x + y;
  else
    return static_cast<C>(wide_bits(x) + wide_bits(y));
}
TW_FUNCTION2(Subtract) {
  if constexpr (kIsReal<C>)
    return x - y;
  else
    return static_cast<C>(wide_bits(x) - wide_bits(y));
}
TW_FUNCTION2(Multiply) {
  if constexpr (kIsBool<C>)
    return x && y;
  else if constexpr (kIsReal<C>)
    return x * y;
  else
    return static_cast<C>(wide_bits(x) * wide_bits(y));
}
TW_FUNCTION2(Divide) {
  if constexpr (kIsReal<C>) {
    return x / y;
  } else {
    if (y == 0) return static_cast<C>(-1);
    if constexpr (std::is_signed_v<C>) {
      if (y == -1) return static_cast<C>(0 - wide_bits(x));
    }
    return static_cast<C>(x / y);
  }
}
TW_FUNCTION2(Remainder) {
  if constexpr (kIsReal<C>) {
    return std::fmod(x, y);
  } else {
    if (y == 0) return x;
    if constexpr (std::is_signed_v<C>) {
      if (y == -1) return C(0);
    }
    return static_cast<C>(x % y);
  }
}

template <class C>
C integer_power(C base, C exponent) {
  if (exponent < C(0)) {
    if (base == C(1)) return C(1);
    if (base == static_cast<C>(-1)) return (exponent & 1) ? static_cast<C>(-1) : C(1);
    return C(0);
  }
  uint64_t result = 1, square = wide_bits(base);
  for (uint64_t rest = wide_bits(exponent); rest != 0; rest >>= 1) {
    if (rest & 1) result *= square;
    square *= square;
  }
  return static_cast<C>(result);
}

TW_FUNCTION2(Power) {
  if constexpr (kIsReal<C>)
    return static_cast<C>(std::pow(Wide<C>(x), Wide<C>(y)));
  else
    return integer_power(x, y);
}
TW_FUNCTION2(Atan2) { return static_cast<C>(std::atan2(Wide<C>(x), Wide<C>(y))); }
TW_FUNCTION2(Maximum) {
  if constexpr (kIsReal<C>) {
    if (x != x) return x;
    if (y != y) return y;
    if (x == y) return std::signbit(x) ? y : x;  // +0 above -0
  }
  return x > y ? x : y;
}
TW_FUNCTION2(Minimum) {
  if constexpr (kIsReal<C>) {
    if (x != x) return x;
    if (y != y) return y;
    if (x == y) return std::signbit(x) ? x : y;
  }
  return x < y ? x : y;
}
TW_FUNCTION2(And) { return static_cast<C>(x & y); }
TW_FUNCTION2(Or) { return static_cast<C>(x | y); }
TW_FUNCTION2(Xor) { return static_cast<C>(x ^ y); }

// An amount outside [0, width), seen as unsigned, shifts everything out.
TW_FUNCTION2(ShiftLeft) {
  auto amount = static_cast<Unsigned<C>>(y);
  return amount >= kBits<C> ? C(0) : static_cast<C>(wide_bits(x) << amount);
}
TW_FUNCTION2(ShiftRightLogical) {
  auto amount = static_cast<Unsigned<C>>(y);
  return amount >= kBits<C> ? C(0) : static_cast<C>(static_cast<Unsigned<C>>(x) >> amount);
}
TW_FUNCTION2(ShiftRightArithmetic) {
  auto amount = static_cast<Unsigned<C>>(y);
  auto value = static_cast<std::make_signed_t<C>>(x);
  return static_cast<C>(value >> (amount >= kBits<C> ? kBits<C> - 1 : static_cast<int>(amount)));
}

#undef TW_FUNCTION1
#undef TW_FUNCTION2

struct Clamp {
  template <class C>
  static C apply(C lo, C x, C hi) {
    return Minimum::apply(Maximum::apply(x, lo), hi);
  }
};

enum class Direction : uint8_t { EQ, NE, GE, GT, LE, LT };

// The IEEE total order of floats as integers: -NaN < -inf < .. < -0 < +0 < .. < inf < NaN.
inline int32_t total_order_key(float value) {
  int32_t bits = std::bit_cast<int32_t>(value);
  return bits < 0 ? static_cast<int32_t>(0x7fffffff ^ bits) : bits;
}
inline int64_t total_order_key(double value) {
  int64_t bits = std::bit_cast<int64_t>(value);
  return bits < 0 ? (INT64_MAX ^ bits) : bits;
}

template <class C>
bool compare_values(Direction direction, C x, C y) {
  switch (direction) {
    case Direction::EQ: return x == y;
    case Direction::NE: return x != y;
    case Direction::GE: return x >= y;
    case Direction::GT: return x > y;
    case Direction::LE: return x <= y;
    case Direction::LT: return x < y;
  }
  return false;
}

// Rounds to nearest even to the IEEE-like format and back, keeping its subnormals.
double reduce_precision(double value, int exponent_bits, int mantissa_bits);

// Float to integer: truncates, saturates, NaN gives 0.
template <class To>
To float_to_integer(double value) {
  constexpr double kLimit = std::is_signed_v<To> ? -static_cast<double>(std::numeric_limits<To>::min())
                                                 : 2.0 * static_cast<double>(uint64_t{1} << (kBits<To> - 1));
  if (value != value) return To(0);
  if (value >= kLimit) return std::numeric_limits<To>::max();
  if (value <= static_cast<double>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
  return static_cast<To>(value);
}

// An integer as a double that rounds to any narrow float as the integer itself would: low bits become one
// sticky bit.
template <class From>
double integer_with_sticky_bit(From value) {
  bool negative = value < From(0);
  uint64_t magnitude = negative ? 0 - wide_bits(value) : wide_bits(value);
  constexpr int kDropped = 16;
  if (magnitude >> 48) {
    uint64_t sticky = (magnitude & ((1u << kDropped) - 1)) != 0;
    magnitude = ((magnitude >> kDropped) | sticky) << kDropped;
  }
  double exact = static_cast<double>(magnitude);
  return negative ? -exact : exact;
}

template <class To, class From>
To convert_element(From stored, bool saturate) {
  auto value = Element<From>::load(stored);
  using V = decltype(value);
  if constexpr (std::is_same_v<To, From>) {
    return stored;
  } else if constexpr (std::is_same_v<To, Boolean>) {
    return {static_cast<uint8_t>(value != V(0))};
  } else if constexpr (std::is_integral_v<To>) {
    if constexpr (kIsReal<V>)
      return float_to_integer<To>(static_cast<double>(value));
    else
      return static_cast<To>(value);
  } else if constexpr (std::is_floating_point_v<To>) {
    return static_cast<To>(value);
  } else {
    float odd;
    if constexpr (kIsReal<V>)
      odd = round_to_odd(static_cast<double>(value));
    else
      odd = round_to_odd(integer_with_sticky_bit(value));
    if constexpr (std::is_same_v<To, F8E4M3FN>)
      return {f32_to_f8(kE4M3FN, odd, saturate)};
    else if constexpr (std::is_same_v<To, F8E5M2>)
      return {f32_to_f8(kE5M2, odd, saturate)};
    else
      return Element<To>::store(odd);
  }
}

// Every op that is one function of its operands, with the dtypes it takes: name, struct, dtypes.
#define TW_UNARY_FUNCTIONS(X)                           \
  X(abs, Abs, kNumber)                                  \
  X(negate, Negate, kNumber)                            \
  X(sign, Sign, kNumber)                                \
  X(not, Not, kLogical)                                 \
  X(exponential, Exponential, kFloat)                   \
  X(exponential_minus_one, ExponentialMinusOne, kFloat) \
  X(log, Log, kFloat)                                   \
  X(log_plus_one, LogPlusOne, kFloat)                   \
  X(sqrt, Sqrt, kFloat)                                 \
  X(rsqrt, Rsqrt, kFloat)                               \
  X(sine, Sine, kFloat)                                 \
  X(cosine, Cosine, kFloat)                             \
  X(tan, Tan, kFloat)                                   \
  X(tanh, Tanh, kFloat)                                 \
  X(logistic, Logistic, kFloat)                         \
  X(erf, Erf, kFloat)                                   \
  X(erf_inv, ErfInv, kFloat)                            \
  X(lgamma, Lgamma, kFloat)                             \
  X(digamma, Digamma, kFloat)                           \
  X(floor, Floor, kNumber)                              \
  X(ceil, Ceil, kNumber)                                \
  X(trunc, Trunc, kNumber)                              \
  X(round_nearest_even, RoundNearestEven, kNumber)      \
  X(round_nearest_afz, RoundNearestAfz, kNumber)        \
  X(is_finite, IsFinite, kFloat)                        \
  X(popcnt, Popcnt, kInt)                               \
  X(count_leading_zeros, CountLeadingZeros, kInt)       \
  X(cbrt, Cbrt, kFloat)

#define TW_BINARY_FUNCTIONS(X)                          \
  X(add, Add, kArith)                                   \
  X(subtract, Subtract, kNumber)                        \
  X(multiply, Multiply, kArith)                         \
  X(divide, Divide, kNumber)                            \
  X(remainder, Remainder, kNumber)                      \
  X(power, Power, kNumber)                              \
  X(atan2, Atan2, kFloat)                               \
  X(maximum, Maximum, kArith)                           \
  X(minimum, Minimum, kArith)                           \
  X(and, And, kLogical)                                 \
  X(or, Or, kLogical)                                   \
  X(xor, Xor, kLogical)                                 \
  X(shift_left, ShiftLeft, kInt)                        \
  X(shift_right_arithmetic, ShiftRightArithmetic, kInt) \
  X(shift_right_logical, ShiftRightLogical, kInt)

}  // namespace tilewright::reference
