// Chooses for each operand between reading it where it lies and packing it, then walks over the blocks.
#include "codegen/emit/product.h"

#include <algorithm>
#include <optional>

#include "codegen/emit/elementwise.h"
#include "codegen/emit/loops.h"
#include "codegen/emit/micro_kernel.h"
#include "codegen/emit/packing.h"

namespace tilewright {
namespace {

using llvm::Value;

std::optional<int64_t> constant_of(Value* value) {
  auto* constant = llvm::dyn_cast<llvm::ConstantInt>(value);
  if (!constant) return std::nullopt;
  return constant->getSExtValue();
}

class ProductEmitter {
 public:
  ProductEmitter(EmitContext& context, const Product& product, const std::function<Value*(int64_t)>& allocate)
      : context_(context), b_(context.builder), product_(product), allocate_(allocate) {
    block_ =
        choose_register_block(context.limits, product.dtype, product.rows, product.columns, product.micro);
    block_columns_ = block_.vectors * block_.lanes;
    element_ = register_type(context, product.dtype, 0);
  }

  void emit() {
    bool pack_lhs = !reads_lhs_in_place(), pack_rhs = !reads_rhs_in_place();
    Value *lhs = product_.lhs.data, *rhs = product_.rhs.data;
    if (pack_lhs) lhs = pack(product_.lhs, product_.rows, block_.rows);
    if (pack_rhs) rhs = pack(product_.rhs, product_.columns, block_columns_);
    Value* columns = rounded_up(product_.rhs.rows, block_columns_);
    // Blocks of full width first, then the vectors that are left.
    int64_t whole_columns = product_.columns / block_columns_ * block_columns_;
    int64_t rest = (product_.columns - whole_columns + block_.lanes - 1) / block_.lanes;
    auto walk_rows = [&](const std::function<void(Value*, int64_t)>& body) {
      int64_t whole_rows = product_.rows / block_.rows * block_.rows;
      Value* end = minimum(rounded_up(product_.lhs.rows, block_.rows), whole_rows);
      if (whole_rows > 0)
        emit_loop(b_, i64(0), end, i64(block_.rows), [&](Value* row) { body(row, block_.rows); });
      if (product_.rows == whole_rows) return;
      emit_branch(b_, b_.CreateICmpSGT(product_.lhs.rows, i64(whole_rows)),
                  [&] { body(i64(whole_rows), product_.rows - whole_rows); });
    };
    walk_rows([&](Value* row, int64_t rows) {
      auto multiply = [&](Value* column, int64_t vectors) {
        call_block(row, rows, column, vectors, pack_lhs ? lhs : nullptr, pack_rhs ? rhs : nullptr);
      };
      if (whole_columns > 0) {
        emit_loop(b_, i64(0), minimum(columns, whole_columns), i64(block_columns_),
                  [&](Value* column) { multiply(column, block_.vectors); });
      }
      if (rest == 0) return;
      emit_branch(b_, b_.CreateICmpSGT(product_.rhs.rows, i64(whole_columns)),
                  [&] { multiply(i64(whole_columns), rest); });
    });
  }

 private:
  Value* i64(int64_t value) { return b_.getInt64(static_cast<uint64_t>(value)); }
  Value* minimum(Value* a, int64_t limit) {
    if (auto known = constant_of(a)) return i64(std::min(*known, limit));
    return b_.CreateSelect(b_.CreateICmpSLT(a, i64(limit)), a, i64(limit));
  }
  Value* rounded_up(Value* a, int64_t step) {
    if (auto known = constant_of(a)) return i64((*known + step - 1) / step * step);
    return b_.CreateMul(b_.CreateSDiv(b_.CreateAdd(a, i64(step - 1)), i64(step)), i64(step));
  }
  Value* element_at(Value* base, Value* offset) { return b_.CreateInBoundsGEP(element_, base, {offset}); }

  bool has_all_rows(const MatrixView& view, int64_t rows) {
    return view.is_padded || constant_of(view.rows) == rows;
  }

  // Broadcasts of single elements take any constant strides; packing pays when each is used often and rows
  // are far apart.
  bool reads_lhs_in_place() {
    const MatrixView& lhs = product_.lhs;
    if (lhs.dtype != product_.dtype || !has_all_rows(lhs, product_.rows)) return false;
    if (!constant_of(lhs.row) || !constant_of(lhs.depth)) return false;
    if (lhs.is_padded) return true;
    return product_.columns <= 2 * block_columns_ || product_.rows <= block_.rows || product_.depth <= 64;
  }

  bool reads_rhs_in_place() {
    const MatrixView& rhs = product_.rhs;
    if (rhs.dtype != product_.dtype || constant_of(rhs.row) != 1) return false;
    if (!rhs.is_padded && (!has_all_rows(rhs, product_.columns) || product_.columns % block_.lanes != 0))
      return false;
    if (rhs.is_padded) return true;
    return product_.rows <= 2 * block_.rows;
  }

  Value* pack(const MatrixView& view, int64_t rows, int64_t width) {
    PackShape shape;
    shape.from = view.dtype;
    shape.to = product_.dtype;
    shape.width = width;
    shape.panel_elements = PackShape::panel_size(width, product_.depth);
    if (constant_of(view.row) == 1) {
      shape.contiguous = PackShape::Contiguous::Rows;
    } else if (constant_of(view.depth) == 1) {
      shape.contiguous = PackShape::Contiguous::Depth;
    }
    int64_t panels = (rows + width - 1) / width;
    Value* target = allocate_((panels * shape.panel_elements + 16) * dtype_bytes(product_.dtype));
    call_pack(context_, shape, view.data, view.row, view.depth, view.rows, product_.steps, target);
    return target;
  }

  // `lhs` and `rhs` are the packed operands, or null.
  void call_block(Value* row, int64_t rows, Value* column, int64_t vectors, Value* lhs, Value* rhs) {
    MicroKernel kernel;
    kernel.dtype = product_.dtype;
    kernel.rows = rows;
    kernel.vectors = vectors;
    kernel.lanes = block_.lanes;
    kernel.c_row = product_.sums_row;
    kernel.is_fresh = product_.is_fresh;
    Value *a, *b, *b_depth = i64(0);
    if (lhs) {
      kernel.a_row = 1;
      kernel.a_depth = block_.rows;
      int64_t panel = PackShape::panel_size(block_.rows, product_.depth);
      a = element_at(lhs, b_.CreateMul(b_.CreateSDiv(row, i64(block_.rows)), i64(panel)));
    } else {
      kernel.a_row = *constant_of(product_.lhs.row);
      kernel.a_depth = *constant_of(product_.lhs.depth);
      a = element_at(product_.lhs.data, b_.CreateMul(row, product_.lhs.row));
    }
    if (rhs) {
      kernel.b_depth = block_columns_;
      int64_t panel = PackShape::panel_size(block_columns_, product_.depth);
      b = element_at(rhs, b_.CreateMul(b_.CreateSDiv(column, i64(block_columns_)), i64(panel)));
    } else {
      kernel.b_depth = constant_of(product_.rhs.depth).value_or(0);
      b_depth = product_.rhs.depth;
      b = element_at(product_.rhs.data, column);
    }
    Value* offset = b_.CreateAdd(b_.CreateMul(row, i64(product_.sums_row)), column);
    call_micro_kernel(context_, kernel, a, b, element_at(product_.sums, offset), product_.steps, b_depth);
  }

  EmitContext& context_;
  llvm::IRBuilder<>& b_;
  const Product& product_;
  const std::function<Value*(int64_t)>& allocate_;
  RegisterBlock block_;
  int64_t block_columns_;
  llvm::Type* element_;
};

}  // namespace

void emit_product(EmitContext& context, const Product& product,
                  const std::function<llvm::Value*(int64_t)>& allocate) {
  ProductEmitter(context, product, allocate).emit();
}

}  // namespace tilewright
