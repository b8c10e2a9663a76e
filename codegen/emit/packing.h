// Copies of matrix operands into the order in which the register-blocked core reads them.
#pragma once

#include "codegen/emit/emit_context.h"
#include "ir/types.h"

namespace tilewright {

// source[row * row_stride + step * depth_stride], rows x depth elements of dtype `from` in memory, becomes
// target[row / width][step][row % width] of dtype `to`, panels `panel_elements` apart.  Rows beyond `rows`
// are zeros up to the end of the last panel.
struct PackShape {
  DType from = DType::F32;
  DType to = DType::F32;
  int64_t width = 1;
  int64_t panel_elements = 0;
  enum class Contiguous : uint8_t { Rows, Depth, Neither } contiguous = Contiguous::Neither;

  // Whole vectors are written: room for some steps and elements more than asked for.
  static int64_t panel_size(int64_t width, int64_t depth) { return width * ((depth + 15) / 16 * 16) + 16; }
};
void call_pack(EmitContext& context, const PackShape& shape, llvm::Value* source, llvm::Value* row_stride,
               llvm::Value* depth_stride, llvm::Value* rows, llvm::Value* depth, llvm::Value* target);

// Rows that emit_transpose takes at a time, for elements of this size: as many as fill 16 bytes.
int64_t transpose_group(int64_t element_bytes);
// Piece i of the result holds lane i of each row.
std::vector<llvm::Value*> emit_transpose(EmitContext& context, const std::vector<llvm::Value*>& rows);

}  // namespace tilewright
