// Element types, classes of element types, and the type of a tensor.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/dim.h"

namespace tilewright {

// DTYPE(Enumerator, name, id, bytes): ids are permanent, the C ABI uses them.
#define TW_DTYPES(DTYPE)             \
  DTYPE(Bool, "bool", 0, 1)          \
  DTYPE(I8, "i8", 1, 1)              \
  DTYPE(I16, "i16", 2, 2)            \
  DTYPE(I32, "i32", 3, 4)            \
  DTYPE(I64, "i64", 4, 8)            \
  DTYPE(U8, "u8", 5, 1)              \
  DTYPE(U16, "u16", 6, 2)            \
  DTYPE(U32, "u32", 7, 4)            \
  DTYPE(U64, "u64", 8, 8)            \
  DTYPE(F16, "f16", 9, 2)            \
  DTYPE(BF16, "bf16", 10, 2)         \
  DTYPE(F32, "f32", 11, 4)           \
  DTYPE(F64, "f64", 12, 8)           \
  DTYPE(F8E4M3FN, "f8e4m3fn", 13, 1) \
  DTYPE(F8E5M2, "f8e5m2", 14, 1)

enum class DType : uint8_t {
#define TW_ENUM(enumerator, name, id, bytes) enumerator = id,
  TW_DTYPES(TW_ENUM)
#undef TW_ENUM
};
inline constexpr int kDTypeCount = 15;

const char* dtype_name(DType dtype);
int64_t dtype_bytes(DType dtype);
std::optional<DType> parse_dtype(std::string_view name);

// A set of element types.
struct TypeClass {
  uint32_t mask = 0;
  bool contains(DType dtype) const { return (mask >> static_cast<int>(dtype)) & 1u; }
  std::vector<DType> members() const;
};
// Bool Int Float Number Arith Logical Index Dot Any, or the name of one dtype.
std::optional<TypeClass> parse_type_class(std::string_view name);

bool is_float(DType dtype);    // f16 bf16 f32 f64
bool is_float8(DType dtype);   // the two f8 types
bool is_integer(DType dtype);  // the eight integers
bool is_signed_integer(DType dtype);
bool is_unsigned_integer(DType dtype);
bool is_narrow_float(DType dtype);  // f16, bf16 and the f8 types: computed in f32

// The type in which sums over `dtype` are accumulated by default: f16, bf16, f8 -> f32, others themselves.
DType accumulation_type(DType dtype);

using Shape = std::vector<Dim>;

// Dtype and logical shape of a tensor; dims may be symbolic.
struct TensorType {
  DType dtype = DType::F32;
  Shape shape;

  int rank() const { return static_cast<int>(shape.size()); }
  bool is_static() const;
  // Product of the dims (1 for 0-d).
  Dim elements() const;
  std::string to_string() const;  // "f32[N,784]"
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

std::string shape_to_string(const Shape& shape);  // "[N,784]"
bool is_static(const Shape& shape);
// Sizes of a shape without symbols.
std::vector<int64_t> static_sizes(const Shape& shape);
Shape to_shape(const std::vector<int64_t>& sizes);

}  // namespace tilewright
