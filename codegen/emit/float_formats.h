// Conversions between f32 lanes and the storage bits of narrow floats.
#pragma once

#include "codegen/emit/emit_context.h"
#include "ir/types.h"

namespace tilewright {

// Bits (i16 or i8 lanes) of a narrow float to f32 lanes; exact.
llvm::Value* widen_narrow_float(EmitContext& context, DType dtype, llvm::Value* bits);
// f32 lanes to bits, to nearest even, once.  `saturate` is for f8.
llvm::Value* narrow_float(EmitContext& context, DType dtype, llvm::Value* value, bool saturate = false);
// f32 lanes that hold a value of the narrow type already: to bits without rounding.
llvm::Value* narrow_exact(EmitContext& context, DType dtype, llvm::Value* value);
// f32 lanes rounded to a narrow type, as f32.
llvm::Value* round_to_narrow(EmitContext& context, DType dtype, llvm::Value* value);
// Double lanes to the f32 from which rounding to any narrower type rounds once (round to odd).
llvm::Value* double_to_odd_float(EmitContext& context, llvm::Value* value);
// Rounds float or double lanes to the given format, as the op reduce_precision.
llvm::Value* reduce_precision(EmitContext& context, llvm::Value* value, int64_t exponent_bits,
                              int64_t mantissa_bits);

}  // namespace tilewright
