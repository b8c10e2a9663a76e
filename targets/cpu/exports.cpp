// The table of host functions, and the ones that no library gives in a form that fits.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1  // exp10, roundeven, lgamma_r
#endif
#include "targets/cpu/exports.h"

#include <math.h>
#include <string.h>

#include <bit>
#include <cstdint>
#include <limits>

namespace tilewright {
namespace {

template <class Function>
void* address_of(Function* function) {
  return reinterpret_cast<void*>(function);
}

double lgamma_without_signgam(double x) {
  int sign;
  return ::lgamma_r(x, &sign);
}
float lgammaf_without_signgam(float x) {
  int sign;
  return ::lgammaf_r(x, &sign);
}

template <class Int>
Int divide(Int a, Int b) {
  return a / b;
}
template <class Int>
Int modulo(Int a, Int b) {
  return a % b;
}
__int128 multiply(__int128 a, __int128 b) {
  return static_cast<__int128>(static_cast<unsigned __int128>(a) * static_cast<unsigned __int128>(b));
}

#if defined(__x86_64__)
float f16_to_f32(_Float16 x) { return static_cast<float>(x); }
_Float16 f32_to_f16(float x) { return static_cast<_Float16>(x); }
_Float16 f64_to_f16(double x) { return static_cast<_Float16>(x); }

_Float16 f32_to_bf16(float x) {
  uint32_t bits = std::bit_cast<uint32_t>(x);
  uint16_t high = static_cast<uint16_t>(bits >> 16);
  if (x != x) return std::bit_cast<_Float16>(static_cast<uint16_t>(high | 0x40));  // keep it a NaN
  bits += 0x7fff + (high & 1);                                                     // to nearest, ties to even
  return std::bit_cast<_Float16>(static_cast<uint16_t>(bits >> 16));
}

// Rounds once: to f32 with the lost bits kept in the lowest one (round to odd), then to bf16.
_Float16 f64_to_bf16(double x) {
  float f = static_cast<float>(x);
  if (static_cast<double>(f) != x && x == x && !isinf(f)) {
    if (fabs(static_cast<double>(f)) > fabs(x)) f = nextafterf(f, 0.0f);
    f = std::bit_cast<float>(std::bit_cast<uint32_t>(f) | 1u);
  }
  return f32_to_bf16(f);
}
#endif

}  // namespace

std::span<const HostExport> host_exports() {
  static const HostExport table[] = {
#define EXPORT(symbol, address) {symbol, address},
#include "targets/cpu/exports.def"
#undef EXPORT
  };
  return table;
}

bool is_host_export(std::string_view symbol) {
  for (const HostExport& entry : host_exports()) {
    if (entry.symbol == symbol) return true;
  }
  return false;
}

}  // namespace tilewright
