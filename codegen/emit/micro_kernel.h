// The register-blocked core of matrix products: a block of sums stays in registers over the whole depth.
#pragma once

#include "codegen/emit/emit_context.h"
#include "ir/attribute.h"

namespace tilewright {

// c[rows, vectors * lanes] += a[rows, depth] * b[depth, vectors * lanes]; strides in elements of `dtype`.
// b and c have contiguous rows; a stride of 0 in b_depth means that it is given at run time.
struct MicroKernel {
  DType dtype = DType::F32;
  int64_t rows = 1;
  int64_t vectors = 1;
  unsigned lanes = 1;
  int64_t a_row = 1, a_depth = 1;
  int64_t b_depth = 0;
  int64_t c_row = 0;
  bool is_fresh = false;  // c is written, not read
};

// Emits the kernel once a module and calls it.
void call_micro_kernel(EmitContext& context, const MicroKernel& kernel, llvm::Value* a, llvm::Value* b,
                       llvm::Value* c, llvm::Value* depth, llvm::Value* b_depth);

// Rows and vectors of the block for a product of this size; `micro` is [rows, columns] as a tile program
// gives it.
struct RegisterBlock {
  int64_t rows;
  int64_t vectors;
  unsigned lanes;
};
RegisterBlock choose_register_block(const TargetLimits& limits, DType dtype, int64_t rows, int64_t columns,
                                    const Ints& micro);

}  // namespace tilewright
