// Storage and arithmetic types of elements: what a dtype is in memory, what it is computed in, and dispatch
// over dtypes.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/status.h"
#include "base/text.h"
#include "ir/types.h"

namespace tilewright::reference {

struct Boolean {
  uint8_t bits;
};
struct F16 {
  uint16_t bits;
};
struct BF16 {
  uint16_t bits;
};
struct F8E4M3FN {
  uint8_t bits;
};
struct F8E5M2 {
  uint8_t bits;
};

inline float f16_to_f32(uint16_t half) {
  uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  uint32_t exponent = (half >> 10) & 31u, mantissa = half & 1023u;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0) {
    float value = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -value : value;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

inline uint16_t f32_to_f16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint32_t sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // 65520 and above round to inf
  if (magnitude < 0x38800000u) {
    // Adding 0.5 puts the bits of a subnormal half at the end of the mantissa, rounded by the addition.
    float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - (112u << 23)) >> 13));
}

inline float bf16_to_f32(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

inline uint16_t f32_to_bf16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// Layout of an f8 format; codes above `max_code` are `overflow` and other special values.
struct Float8Format {
  int exponent_bits, mantissa_bits;
  uint8_t max_code, overflow_code, nan_code;
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
};
inline constexpr Float8Format kE4M3FN{4, 3, 0x7e, 0x7f, 0x7f};
inline constexpr Float8Format kE5M2{5, 2, 0x7b, 0x7c, 0x7e};

float f8_to_f32(const Float8Format& format, uint8_t bits);
uint8_t f32_to_f8(const Float8Format& format, float value, bool saturate);

// The nearest f32 toward zero with its last bit set when inexact: rounding it again to a narrower type rounds
// once.
inline float round_to_odd(double value) {
  float nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || std::isnan(value)) return nearest;
  uint32_t bits = std::bit_cast<uint32_t>(nearest);
  if (std::fabs(static_cast<double>(nearest)) > std::fabs(value)) --bits;
  return std::bit_cast<float>(bits | 1u);
}

// Compute is the type of arithmetic; store rounds to nearest even from it.
template <class T>
struct Element {
  using Compute = T;
  static T load(T value) { return value; }
  static T store(T value) { return value; }
};
template <>
struct Element<Boolean> {
  using Compute = bool;
  static bool load(Boolean value) { return value.bits != 0; }
  static Boolean store(bool value) { return {static_cast<uint8_t>(value)}; }
};
template <>
struct Element<F16> {
  using Compute = float;
  static float load(F16 value) { return f16_to_f32(value.bits); }
  static F16 store(float value) { return {f32_to_f16(value)}; }
};
template <>
struct Element<BF16> {
  using Compute = float;
  static float load(BF16 value) { return bf16_to_f32(value.bits); }
  static BF16 store(float value) { return {f32_to_bf16(value)}; }
};
template <>
struct Element<F8E4M3FN> {
  using Compute = float;
  static float load(F8E4M3FN value) { return f8_to_f32(kE4M3FN, value.bits); }
  static F8E4M3FN store(float value) { return {f32_to_f8(kE4M3FN, value, false)}; }
};
template <>
struct Element<F8E5M2> {
  using Compute = float;
  static float load(F8E5M2 value) { return f8_to_f32(kE5M2, value.bits); }
  static F8E5M2 store(float value) { return {f32_to_f8(kE5M2, value, false)}; }
};

template <class T>
using ComputeType = typename Element<T>::Compute;
template <class T>
inline constexpr bool kIsFloat = std::is_floating_point_v<ComputeType<T>>;
template <class T>
inline constexpr bool kIsNarrow = kIsFloat<T> && !std::is_floating_point_v<T>;

// A double rounded once to T (a float type of any width).
template <class T>
T round_once(double value) {
  if constexpr (std::is_same_v<T, double>) {
    return value;
  } else if constexpr (std::is_same_v<T, float>) {
    return static_cast<float>(value);
  } else {
    return Element<T>::store(round_to_odd(value));
  }
}

constexpr uint32_t dtype_bit(DType dtype) { return 1u << static_cast<int>(dtype); }
inline constexpr uint32_t kBool = dtype_bit(DType::Bool);
inline constexpr uint32_t kSigned =
    dtype_bit(DType::I8) | dtype_bit(DType::I16) | dtype_bit(DType::I32) | dtype_bit(DType::I64);
inline constexpr uint32_t kInt =
    kSigned | dtype_bit(DType::U8) | dtype_bit(DType::U16) | dtype_bit(DType::U32) | dtype_bit(DType::U64);
inline constexpr uint32_t kFloat =
    dtype_bit(DType::F16) | dtype_bit(DType::BF16) | dtype_bit(DType::F32) | dtype_bit(DType::F64);
inline constexpr uint32_t kFloat8 = dtype_bit(DType::F8E4M3FN) | dtype_bit(DType::F8E5M2);
inline constexpr uint32_t kNumber = kInt | kFloat;
inline constexpr uint32_t kArith = kBool | kNumber;
inline constexpr uint32_t kLogical = kBool | kInt;
inline constexpr uint32_t kDot = kNumber | kFloat8;
inline constexpr uint32_t kAny = kArith | kFloat8;
inline constexpr uint32_t kIndex = dtype_bit(DType::I32) | dtype_bit(DType::I64);

template <class T>
struct Tag {
  using type = T;
};

// Calls `function(Tag<storage type>)` for a dtype of the mask; `function` returns a Status.
template <uint32_t kMask, class Function>
Status visit(DType dtype, Function&& function) {
#define TW_VISIT(enumerator, storage)                                                           \
  case DType::enumerator:                                                                       \
    if constexpr ((kMask & dtype_bit(DType::enumerator)) != 0) return function(Tag<storage>{}); \
    break;
  switch (dtype) {
    TW_VISIT(Bool, Boolean)
    TW_VISIT(I8, int8_t)
    TW_VISIT(I16, int16_t)
    TW_VISIT(I32, int32_t)
    TW_VISIT(I64, int64_t)
    TW_VISIT(U8, uint8_t)
    TW_VISIT(U16, uint16_t)
    TW_VISIT(U32, uint32_t)
    TW_VISIT(U64, uint64_t)
    TW_VISIT(F16, F16)
    TW_VISIT(BF16, BF16)
    TW_VISIT(F32, float)
    TW_VISIT(F64, double)
    TW_VISIT(F8E4M3FN, F8E4M3FN)
    TW_VISIT(F8E5M2, F8E5M2)
  }
#undef TW_VISIT
  return Status::internal(cat("reference kernel has no case for dtype ", dtype_name(dtype)));
}

// Calls `function(Tag<unsigned integer>)` of the dtype's width: for ops that only move elements.
template <class Function>
Status visit_width(DType dtype, Function&& function) {
  switch (dtype_bytes(dtype)) {
    case 1: return function(Tag<uint8_t>{});
    case 2: return function(Tag<uint16_t>{});
    case 4: return function(Tag<uint32_t>{});
    default: return function(Tag<uint64_t>{});
  }
}

}  // namespace tilewright::reference
