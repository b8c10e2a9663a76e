// Scalar semantics: the one evaluator of elementwise ops, shared by the constant folder, the graph reference
// kernels and the tile interpreter.
#pragma once

#include <cstdint>

#include "ir/inference.h"

namespace tilewright {

// One element of any dtype: floats (all widths) as double already rounded to the dtype, integers and bool as
// 64 bits (sign- or zero-extended by dtype).
struct Scalar {
  DType dtype = DType::F32;
  double f = 0;
  int64_t i = 0;

  static Scalar of_float(DType dtype,
                         double value);  // rounds to the dtype (via f32 for 16-bit types: see scalar.cpp)
  static Scalar of_integer(DType dtype, int64_t value);  // wraps to the dtype
  bool is_true() const { return i != 0; }
};

Scalar load_scalar(DType dtype, const void* address);
void store_scalar(const Scalar& value, void* address);

// Rounds to nearest even to the type and widens back; integers must not be passed.
double round_to(DType dtype, double value);
uint16_t f32_to_bf16_bits(float value);
float bf16_bits_to_f32(uint16_t bits);
uint16_t f32_to_f16_bits(float value);
float f16_bits_to_f32(uint16_t bits);
uint8_t f32_to_f8_bits(DType dtype, float value, bool saturate);
float f8_bits_to_f32(DType dtype, uint8_t bits);

Scalar convert_scalar(const Scalar& value, DType dtype, bool saturate = false);

// Any op of kind Elementwise that is not a composite (ids 8-53, convert, reduce_precision).
Scalar evaluate_elementwise(Op op, const AttributeReader& attributes, const Scalar* operands, int count);

// The combine step of reductions and scans: sum, product, maximum, minimum, and, or, xor in `dtype`
// arithmetic.
Scalar combine(Op op, const Scalar& a, const Scalar& b);
Scalar reduction_identity(Op op, DType dtype);

}  // namespace tilewright
