// The default of `accumulate_type`: a fact of the op table that reference kernels and lowering share.
#pragma once

#include "ir/inference.h"

namespace tilewright {

// accumulate_type if given, else the wider of what the operand and the result accumulate in: asking for a
// wide result of narrow operands does not wrap or round on the way.
inline DType accumulate_type_of(const AttributeReader& attributes, DType operand, DType result) {
  DType a = accumulation_type(operand), b = accumulation_type(result);
  return attributes.get_dtype("accumulate_type", dtype_bytes(b) > dtype_bytes(a) ? b : a);
}

}  // namespace tilewright
