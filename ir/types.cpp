// Names, sizes and classes of element types.
#include "ir/types.h"

#include "base/text.h"

namespace tilewright {

const char* dtype_name(DType dtype) {
  switch (dtype) {
#define TW_CASE(enumerator, name, id, bytes) \
  case DType::enumerator: return name;
    TW_DTYPES(TW_CASE)
#undef TW_CASE
  }
  return "invalid";
}

int64_t dtype_bytes(DType dtype) {
  switch (dtype) {
#define TW_CASE(enumerator, name, id, bytes) \
  case DType::enumerator: return bytes;
    TW_DTYPES(TW_CASE)
#undef TW_CASE
  }
  return 1;
}

std::optional<DType> parse_dtype(std::string_view name) {
#define TW_CASE(enumerator, text, id, bytes) \
  if (name == text) return DType::enumerator;
  TW_DTYPES(TW_CASE)
#undef TW_CASE
  return std::nullopt;
}

namespace {
constexpr uint32_t bit(DType dtype) { return 1u << static_cast<int>(dtype); }
constexpr uint32_t kSigned = bit(DType::I8) | bit(DType::I16) | bit(DType::I32) | bit(DType::I64);
constexpr uint32_t kUnsigned = bit(DType::U8) | bit(DType::U16) | bit(DType::U32) | bit(DType::U64);
constexpr uint32_t kBool = bit(DType::Bool), kInt = kSigned | kUnsigned;
constexpr uint32_t kFloat = bit(DType::F16) | bit(DType::BF16) | bit(DType::F32) | bit(DType::F64);
constexpr uint32_t kFloat8 = bit(DType::F8E4M3FN) | bit(DType::F8E5M2);
bool in(DType dtype, uint32_t mask) { return (mask & bit(dtype)) != 0; }
}  // namespace

std::vector<DType> TypeClass::members() const {
  std::vector<DType> found;
  for (int id = 0; id < kDTypeCount; ++id) {
    if (contains(static_cast<DType>(id))) found.push_back(static_cast<DType>(id));
  }
  return found;
}

std::optional<TypeClass> parse_type_class(std::string_view name) {
  if (name == "Bool") return TypeClass{kBool};
  if (name == "Int") return TypeClass{kInt};
  if (name == "Float") return TypeClass{kFloat};
  if (name == "Number") return TypeClass{kInt | kFloat};
  if (name == "Arith") return TypeClass{kBool | kInt | kFloat};
  if (name == "Logical") return TypeClass{kBool | kInt};
  if (name == "Index") return TypeClass{bit(DType::I32) | bit(DType::I64)};
  if (name == "Dot") return TypeClass{kInt | kFloat | kFloat8};
  if (name == "Any") return TypeClass{kBool | kInt | kFloat | kFloat8};
  if (std::optional<DType> dtype = parse_dtype(name)) return TypeClass{bit(*dtype)};
  return std::nullopt;
}

bool is_float(DType dtype) { return in(dtype, kFloat); }
bool is_float8(DType dtype) { return in(dtype, kFloat8); }
bool is_integer(DType dtype) { return in(dtype, kInt); }
bool is_signed_integer(DType dtype) { return in(dtype, kSigned); }
bool is_unsigned_integer(DType dtype) { return in(dtype, kUnsigned); }
bool is_narrow_float(DType dtype) { return in(dtype, kFloat8 | bit(DType::F16) | bit(DType::BF16)); }
DType accumulation_type(DType dtype) { return is_narrow_float(dtype) ? DType::F32 : dtype; }

bool is_static(const Shape& shape) {
  for (const Dim& dim : shape) {
    if (!dim.is_constant()) return false;
  }
  return true;
}

std::vector<int64_t> static_sizes(const Shape& shape) {
  std::vector<int64_t> sizes;
  sizes.reserve(shape.size());
  for (const Dim& dim : shape) sizes.push_back(dim.constant());
  return sizes;
}

Shape to_shape(const std::vector<int64_t>& sizes) { return Shape(sizes.begin(), sizes.end()); }

std::string shape_to_string(const Shape& shape) {
  return cat("[", join(shape, ",", [](const Dim& dim) { return dim.to_string(); }), "]");
}

bool TensorType::is_static() const { return tilewright::is_static(shape); }

Dim TensorType::elements() const {
  Dim product(1);
  for (const Dim& dim : shape) product = product * dim;
  return product;
}

std::string TensorType::to_string() const { return cat(dtype_name(dtype), shape_to_string(shape)); }

}  // namespace tilewright
