// The total order of elements as unsigned keys: -inf < .. < inf < NaN, -0 equal to +0, all NaNs equal.
#pragma once

#include <cstdint>

#include "base/builtin_call.h"

namespace tilewright::builtins {

template <class Bits>
inline constexpr Bits kTop = Bits(Bits(1) << (8 * sizeof(Bits) - 1));

// An order on elements stored as `Bits`, which is also the type of their keys.
template <class Bits_>
struct UnsignedOrder {
  using Bits = Bits_;
  static Bits key(Bits bits) { return bits; }
};

template <class Bits_>
struct SignedOrder {
  using Bits = Bits_;
  static Bits key(Bits bits) { return Bits(bits ^ kTop<Bits>); }
};

// kLargest: the bits of the largest value that is not NaN.
template <class Bits_, Bits_ kLargest>
struct FloatOrder {
  using Bits = Bits_;
  static Bits key(Bits bits) {
    Bits magnitude = Bits(bits & ~kTop<Bits>);
    if (magnitude > kLargest) return Bits(~Bits(0));
    if (magnitude == 0) bits = 0;
    return Bits(bits & kTop<Bits> ? ~bits : bits | kTop<Bits>);
  }
};

// Calls body(Order{}) for the order of a dtype.
template <class Body>
decltype(auto) visit_order(ElementCode dtype, Body&& body) {
  switch (dtype) {
    case ElementCode::Bool:
    case ElementCode::U8: return body(UnsignedOrder<uint8_t>{});
    case ElementCode::U16: return body(UnsignedOrder<uint16_t>{});
    case ElementCode::U32: return body(UnsignedOrder<uint32_t>{});
    case ElementCode::U64: return body(UnsignedOrder<uint64_t>{});
    case ElementCode::I8: return body(SignedOrder<uint8_t>{});
    case ElementCode::I16: return body(SignedOrder<uint16_t>{});
    case ElementCode::I32: return body(SignedOrder<uint32_t>{});
    case ElementCode::I64: return body(SignedOrder<uint64_t>{});
    case ElementCode::F16: return body(FloatOrder<uint16_t, 0x7C00>{});
    case ElementCode::BF16: return body(FloatOrder<uint16_t, 0x7F80>{});
    case ElementCode::F32: return body(FloatOrder<uint32_t, 0x7F800000>{});
    case ElementCode::F64: return body(FloatOrder<uint64_t, 0x7FF0000000000000>{});
    case ElementCode::F8E4M3FN: return body(FloatOrder<uint8_t, 0x7E>{});
    case ElementCode::F8E5M2: return body(FloatOrder<uint8_t, 0x7C>{});
  }
  return body(UnsignedOrder<uint8_t>{});
}

inline int64_t element_bytes(ElementCode dtype) {
  return visit_order(dtype, []<class Order>(Order) { return int64_t{sizeof(typename Order::Bits)}; });
}

// Calls body(Bits{}) with the unsigned type as wide as an element.
template <class Body>
decltype(auto) visit_bits(ElementCode dtype, Body&& body) {
  switch (element_bytes(dtype)) {
    case 1: return body(uint8_t{});
    case 2: return body(uint16_t{});
    case 4: return body(uint32_t{});
    default: return body(uint64_t{});
  }
}

}  // namespace tilewright::builtins
