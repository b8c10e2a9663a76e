// Loads and stores of some lanes of a vector, on chips with and without masks.
#pragma once

#include "codegen/emit/emit_context.h"

namespace tilewright {

// Lanes whose mask bit is off get `otherwise` (null: zeros); their memory is not touched.
llvm::Value* load_partial(EmitContext& context, llvm::Type* vector, llvm::Value* pointer, llvm::Value* mask,
                          llvm::Value* otherwise = nullptr);
void store_partial(EmitContext& context, llvm::Value* value, llvm::Value* pointer, llvm::Value* mask);
// The first `count` (i64) lanes.
llvm::Value* mask_of_first(EmitContext& context, unsigned lanes, llvm::Value* count);

}  // namespace tilewright
