// Elementwise ops on lanes: what each row of the op table is in LLVM IR.
#pragma once

#include <span>

#include "codegen/emit/emit_context.h"
#include "ir/inference.h"

namespace tilewright {

// Lanes in registers: bool is i1, narrow floats are f32 that hold a value of the narrow type, other dtypes
// are themselves.  `lanes` 0 is a scalar.
llvm::Type* register_type(EmitContext& context, DType dtype, unsigned lanes);
// Lanes in memory: bool and f8 are i8, f16 and bf16 are i16.
llvm::Type* storage_type(EmitContext& context, DType dtype, unsigned lanes);
llvm::Value* to_register(EmitContext& context, DType dtype, llvm::Value* stored);
llvm::Value* to_storage(EmitContext& context, DType dtype, llvm::Value* value);

// The op on operands in register form; `in` is the dtype of the (last) operand, `out` of the result.
// Null when the op is not elementwise.
llvm::Value* emit_elementwise(EmitContext& context, Op op, const AttributeReader& attributes,
                              std::span<llvm::Value* const> operands, DType in, DType out);
// One elementwise op without attributes on two operands of one dtype: add, multiply, maximum and the like.
llvm::Value* emit_binary(EmitContext& context, Op op, llvm::Value* a, llvm::Value* b, DType dtype);
llvm::Value* emit_convert(EmitContext& context, llvm::Value* x, DType from, DType to, bool saturate = false);

}  // namespace tilewright
