// Integer arithmetic with the total semantics of the op table: nothing traps, nothing is undefined.
#pragma once

#include "codegen/emit/emit_context.h"

namespace tilewright {

llvm::Value* emit_integer_divide(EmitContext& context, llvm::Value* a, llvm::Value* b, bool is_signed);
llvm::Value* emit_integer_remainder(EmitContext& context, llvm::Value* a, llvm::Value* b, bool is_signed);
llvm::Value* emit_integer_power(EmitContext& context, llvm::Value* base, llvm::Value* exponent,
                                bool is_signed);
enum class Shift : uint8_t { Left, RightArithmetic, RightLogical };
llvm::Value* emit_shift(EmitContext& context, Shift shift, llvm::Value* x, llvm::Value* amount);
// Truncates, saturates, NaN gives 0.
llvm::Value* emit_float_to_integer(EmitContext& context, llvm::Value* x, llvm::Type* type, bool is_signed);
// An integer as a double that rounds to any narrow float as the integer itself would.
llvm::Value* emit_integer_to_sticky_double(EmitContext& context, llvm::Value* x, bool is_signed);

}  // namespace tilewright
