// Matrix products over tiles: blocks, packing and the register-blocked core.
#pragma once

#include <functional>

#include "codegen/emit/emit_context.h"
#include "ir/attribute.h"

namespace tilewright {

// One operand: rows of lhs or columns of rhs, by steps of the depth.  Strides in elements.
struct MatrixView {
  DType dtype = DType::F32;  // as stored
  llvm::Value* data = nullptr;
  llvm::Value* row = nullptr;
  llvm::Value* depth = nullptr;
  llvm::Value* rows = nullptr;  // that exist; at most the product's
  bool is_padded = false;       // rows up to the product's, and whole vectors of them, may be read
};

// sums[row * sums_row + column] += sum over depth of lhs[row] * rhs[column]; rows of the sums are padded to
// whole vectors of 64 bytes.
struct Product {
  DType dtype = DType::F32;  // of the sums
  int64_t rows = 1, columns = 1, depth = 1;
  Ints micro;
  MatrixView lhs, rhs;
  llvm::Value* steps = nullptr;  // of the depth that exist
  llvm::Value* sums = nullptr;
  int64_t sums_row = 1;
  bool is_fresh = false;  // the sums hold nothing yet: as if they were zeros
};

// `allocate(bytes)` gives scratch memory that lives until the product is done.
void emit_product(EmitContext& context, const Product& product,
                  const std::function<llvm::Value*(int64_t)>& allocate);

}  // namespace tilewright
