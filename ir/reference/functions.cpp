// Functions that the C library lacks (f8 codes, inverse error function, digamma) and the ones that need care.
#include "ir/reference/functions.h"

#include <math.h>

namespace tilewright::reference {

float f8_to_f32(const Float8Format& format, uint8_t bits) {
  int mantissa = bits & ((1 << format.mantissa_bits) - 1);
  int exponent = (bits & 0x7f) >> format.mantissa_bits;
  float magnitude;
  if ((bits & 0x7f) > format.max_code) {
    bool is_inf = format.overflow_code != format.nan_code && (bits & 0x7f) == format.overflow_code;
    magnitude = is_inf ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    magnitude = std::ldexp(static_cast<float>(mantissa), 1 - format.bias() - format.mantissa_bits);
  } else {
    magnitude = std::ldexp(static_cast<float>(mantissa | (1 << format.mantissa_bits)),
                           exponent - format.bias() - format.mantissa_bits);
  }
  return (bits & 0x80) ? -magnitude : magnitude;
}

uint8_t f32_to_f8(const Float8Format& format, float value, bool saturate) {
  uint8_t sign = std::signbit(value) ? 0x80 : 0;
  if (std::isnan(value)) return sign | format.nan_code;
  uint8_t overflow = saturate ? format.max_code : format.overflow_code;
  if (std::isinf(value)) return sign | overflow;
  double magnitude = std::fabs(static_cast<double>(value));
  if (magnitude == 0) return sign;
  int smallest_exponent = 1 - format.bias();
  int exponent = std::max(std::ilogb(magnitude), smallest_exponent);
  int one = 1 << format.mantissa_bits;
  int significand = static_cast<int>(std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent)));
  // A significand below `one` is subnormal; one that rounded up to 2 * one carries into the exponent by
  // itself.
  int code = (exponent - smallest_exponent) * one + significand;
  return sign | (code > format.max_code ? overflow : static_cast<uint8_t>(code));
}

double reduce_precision(double value, int exponent_bits, int mantissa_bits) {
  if (!std::isfinite(value) || value == 0) return value;
  // A format wider than f64 changes nothing.
  int bits = std::min(mantissa_bits, 52);
  int bias = (1 << (std::clamp(exponent_bits, 1, 11) - 1)) - 1;
  int exponent = std::max(std::ilogb(value), 1 - bias);
  double scaled = std::nearbyint(std::ldexp(value, bits - exponent));
  double rounded = std::ldexp(scaled, exponent - bits);
  double limit = std::ldexp(2 - std::ldexp(1.0, -bits), bias);
  if (std::fabs(rounded) > limit) return std::copysign(std::numeric_limits<double>::infinity(), value);
  return rounded;
}

namespace {

// Giles' single precision approximation, then Halley steps on erf, or on erfc where erf is near 1.
template <class C>
C erf_inv_in(C x) {
  C magnitude = std::fabs(x);
  if (!(magnitude <= 1)) return std::numeric_limits<C>::quiet_NaN();
  if (magnitude == 1) return std::copysign(std::numeric_limits<C>::infinity(), x);
  if (magnitude == 0) return x;
  C w = -std::log((1 - magnitude) * (1 + magnitude));
  C guess;
  if (w < 5) {
    w -= C(2.5);
    static constexpr double kCenter[] = {2.81022636e-08,  3.43273939e-07, -3.5233877e-06,
                                         -4.39150654e-06, 0.00021858087,  -0.00125372503,
                                         -0.00417768164,  0.246640727,    1.50140941};
    guess = C(kCenter[0]);
    for (int i = 1; i < 9; ++i) guess = C(kCenter[i]) + guess * w;
  } else {
    w = std::sqrt(w) - 3;
    static constexpr double kTail[] = {-0.000200214257, 0.000100950558, 0.00134934322,
                                       -0.00367342844,  0.00573950773,  -0.0076224613,
                                       0.00943887047,   1.00167406,     2.83297682};
    guess = C(kTail[0]);
    for (int i = 1; i < 9; ++i) guess = C(kTail[i]) + guess * w;
  }
  C y = guess * magnitude;
  const C two_over_sqrt_pi = C(1.128379167095512573896158903121545172L);
  for (int step = 0; step < 20; ++step) {
    C error = magnitude < C(0.5) ? std::erf(y) - magnitude : (1 - magnitude) - std::erfc(y);
    C ratio = error / (two_over_sqrt_pi * std::exp(-y * y));
    y -= ratio / (1 + y * ratio);
    if (std::fabs(ratio) <= std::numeric_limits<C>::epsilon() * y) break;
  }
  return std::copysign(y, x);
}

template <class C>
C digamma_in(C x) {
  const C pi = C(3.141592653589793238462643383279502884L);
  if (x <= 0) {
    if (x == std::floor(x)) return std::numeric_limits<C>::quiet_NaN();  // poles, and -inf
    C fraction = x - std::nearbyint(x);
    return digamma_in(1 - x) - pi / std::tan(pi * fraction);
  }
  if (std::isinf(x)) return x;
  C shifted = 0;
  for (; x < 20; x += 1) shifted -= 1 / x;
  // Bernoulli numbers B(2k) / 2k of the asymptotic series.
  static constexpr long double kSeries[] = {1.0L / 12,   -1.0L / 120,     1.0L / 252,
                                            -1.0L / 240, 1.0L / 132,      -691.0L / 32760,
                                            1.0L / 12,   -3617.0L / 8160, 43867.0L / 14364};
  C square = 1 / (x * x), power = square, sum = 0;
  for (long double term : kSeries) {
    sum += C(term) * power;
    power *= square;
  }
  return shifted + std::log(x) - C(0.5) / x - sum;
}

}  // namespace

double erf_inv(double x) { return erf_inv_in(x); }
long double erf_inv(long double x) { return erf_inv_in(x); }
double digamma(double x) { return digamma_in(x); }
long double digamma(long double x) { return digamma_in(x); }

// The reentrant forms leave the C library's global sign alone.
double log_gamma(double x) {
  int sign = 0;
  return ::lgamma_r(x, &sign);
}
long double log_gamma(long double x) {
  int sign = 0;
  return ::lgammal_r(x, &sign);
}

}  // namespace tilewright::reference
