// Reading of attributes that several reference kernels share.
#include "ir/reference/attributes.h"

namespace tilewright::reference {

namespace {

DType with_signedness(DType dtype, bool is_signed) {
  switch (dtype) {
    case DType::I8:
    case DType::U8: return is_signed ? DType::I8 : DType::U8;
    case DType::I16:
    case DType::U16: return is_signed ? DType::I16 : DType::U16;
    case DType::I32:
    case DType::U32: return is_signed ? DType::I32 : DType::U32;
    case DType::I64:
    case DType::U64: return is_signed ? DType::I64 : DType::U64;
    default: return dtype;
  }
}

Direction parse_direction(const std::string& word) {
  if (word == "NE") return Direction::NE;
  if (word == "GE") return Direction::GE;
  if (word == "GT") return Direction::GT;
  if (word == "LE") return Direction::LE;
  if (word == "LT") return Direction::LT;
  return Direction::EQ;
}

}  // namespace

CompareSpec read_compare(const AttributeReader& attributes, DType dtype) {
  CompareSpec spec{parse_direction(attributes.get_string("direction")), false, dtype};
  if (!attributes.has("order")) return spec;
  const std::string& order = attributes.get_string("order");
  spec.total_order = order == "TOTALORDER";
  if (order == "SIGNED") spec.dtype = with_signedness(dtype, true);
  if (order == "UNSIGNED") spec.dtype = with_signedness(dtype, false);
  return spec;
}

}  // namespace tilewright::reference
