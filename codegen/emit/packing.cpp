// Panels by vector copies or by transposes in registers; one function a shape of packing.
#include "codegen/emit/packing.h"

#include <algorithm>

#include "base/text.h"
#include "codegen/emit/elementwise.h"
#include "codegen/emit/lane_math.h"
#include "codegen/emit/loops.h"
#include "codegen/emit/partial_memory.h"

namespace tilewright {
namespace {

using llvm::Value;
using Contiguous = PackShape::Contiguous;

class Packer {
 public:
  Packer(EmitContext& context, const PackShape& shape, std::span<Value* const> arguments)
      : context_(context),
        b_(context.builder),
        shape_(shape),
        source_(arguments[0]),
        row_stride_(arguments[1]),
        depth_stride_(arguments[2]),
        rows_(arguments[3]),
        depth_(arguments[4]),
        target_(arguments[5]) {
    int64_t widest = std::max<int64_t>(4, context.limits.vector_bytes / dtype_bytes(shape.to));
    lanes_ = static_cast<unsigned>(std::min<int64_t>(widest, 16));
    stored_ = storage_type(context_, shape_.from, 0);
    element_ = register_type(context_, shape_.to, 0);
  }

  void emit() {
    switch (shape_.contiguous) {
      case Contiguous::Rows: emit_copies(); break;
      case Contiguous::Depth: emit_transposes(); break;
      case Contiguous::Neither: emit_elements(); break;
    }
  }

 private:
  Value* i64(int64_t value) { return b_.getInt64(static_cast<uint64_t>(value)); }

  Value* source_at(Value* row, Value* step) {
    Value* offset = b_.CreateAdd(b_.CreateMul(row, row_stride_), b_.CreateMul(step, depth_stride_));
    return b_.CreateInBoundsGEP(stored_, source_, {offset});
  }
  // Element `column` of a panel's step.
  Value* target_at(Value* panel, Value* step, Value* column) {
    Value* offset =
        b_.CreateAdd(b_.CreateMul(panel, i64(shape_.panel_elements)), b_.CreateMul(step, i64(shape_.width)));
    return b_.CreateInBoundsGEP(element_, target_, {b_.CreateAdd(offset, column)});
  }
  Value* converted(Value* stored) {
    return emit_convert(context_, to_register(context_, shape_.from, stored), shape_.from, shape_.to);
  }
  void store(Value* value, Value* address) {
    b_.CreateAlignedStore(value, address, llvm::Align(static_cast<uint64_t>(dtype_bytes(shape_.to))));
  }
  Value* load_vector(unsigned lanes, Value* address) {
    llvm::Type* type = llvm::FixedVectorType::get(stored_, lanes);
    auto align = llvm::Align(static_cast<uint64_t>(dtype_bytes(shape_.from)));
    return converted(b_.CreateAlignedLoad(type, address, align));
  }
  Value* load_first(unsigned lanes, Value* address, Value* count) {
    llvm::Type* type = llvm::FixedVectorType::get(stored_, lanes);
    return converted(load_partial(context_, type, address, mask_of_first(context_, lanes, count)));
  }
  Value* panels() { return b_.CreateSDiv(b_.CreateAdd(rows_, i64(shape_.width - 1)), i64(shape_.width)); }
  void for_panels(const std::function<void(Value*)>& body) { emit_loop(b_, i64(0), panels(), i64(1), body); }

  // Rows lie next to each other: a step of a panel is a run of memory.  Some steps of all panels at a time,
  // so that the source is read in long runs.
  void emit_copies() {
    constexpr int64_t kSteps = 8;
    emit_loop(b_, i64(0), depth_, i64(kSteps), [&](Value* first) {
      Value* end = b_.CreateAdd(first, i64(kSteps));
      end = b_.CreateSelect(b_.CreateICmpSLT(end, depth_), end, depth_);
      for_panels([&](Value* panel) {
        Value* row = b_.CreateMul(panel, i64(shape_.width));
        Value* left = b_.CreateSub(rows_, row);
        Value* is_full = b_.CreateICmpSGE(left, i64(shape_.width));
        emit_branch(
            b_, is_full, [&] { copy_steps(panel, row, first, end, nullptr); },
            [&] { copy_steps(panel, row, first, end, left); });
      });
    });
  }

  void copy_steps(Value* panel, Value* row, Value* first, Value* end, Value* left) {
    emit_loop(b_, first, end, i64(1), [&](Value* step) {
      for (int64_t column = 0; column < shape_.width; column += lanes_) {
        int64_t rest = shape_.width - column;
        Value* address = source_at(b_.CreateAdd(row, i64(column)), step);
        Value* value;
        if (!left && rest >= lanes_) {
          value = load_vector(lanes_, address);
        } else {
          Value* count = left ? b_.CreateSub(left, i64(column)) : i64(rest);
          value = load_first(lanes_, address, count);
        }
        // A partial vector runs into the next step, which is written later.
        store(value, target_at(panel, step, i64(column)));
      }
    });
  }

  // A row's steps lie next to each other: blocks of lanes x lanes are transposed in registers.
  void emit_transposes() {
    for_panels([&](Value* panel) {
      Value* row = b_.CreateMul(panel, i64(shape_.width));
      // From the right: vectors of a narrow last block run into the next step's first elements.
      int64_t blocks = (shape_.width + lanes_ - 1) / lanes_;
      for (int64_t column = (blocks - 1) * lanes_; column >= 0; column -= lanes_) {
        int64_t count = std::min<int64_t>(lanes_, shape_.width - column);
        Value* first_row = b_.CreateAdd(row, i64(column));
        Value* left = b_.CreateSub(rows_, first_row);
        Value* all_rows = b_.CreateICmpSGE(left, i64(count));
        Value* whole =
            b_.CreateSelect(all_rows, b_.CreateAnd(depth_, i64(-static_cast<int64_t>(lanes_))), i64(0));
        emit_loop(b_, i64(0), whole, i64(lanes_), [&](Value* step) {
          std::vector<Value*> vectors;
          for (int64_t r = 0; r < count; ++r) {
            vectors.push_back(load_vector(lanes_, source_at(b_.CreateAdd(first_row, i64(r)), step)));
          }
          store_transposed(std::move(vectors), panel, step, column);
        });
        emit_loop(b_, whole, depth_, i64(lanes_), [&](Value* step) {
          std::vector<Value*> vectors;
          Value* steps_left = b_.CreateSub(depth_, step);
          for (int64_t r = 0; r < count; ++r) {
            // Rows beyond the end are read nowhere: no lane of theirs is set.
            Value* exists = b_.CreateICmpSLT(i64(r), left);
            Value* address =
                source_at(b_.CreateSelect(exists, b_.CreateAdd(first_row, i64(r)), i64(0)), step);
            vectors.push_back(load_first(lanes_, address, b_.CreateSelect(exists, steps_left, i64(0))));
          }
          store_transposed(std::move(vectors), panel, step, column);
        });
      }
    });
  }

  void store_transposed(std::vector<Value*> vectors, Value* panel, Value* step, int64_t column) {
    llvm::Type* type = llvm::FixedVectorType::get(element_, lanes_);
    vectors.resize(lanes_, llvm::Constant::getNullValue(type));
    vectors = emit_transpose(context_, std::move(vectors));
    for (unsigned i = 0; i < lanes_; ++i) {
      store(vectors[i], target_at(panel, b_.CreateAdd(step, i64(i)), i64(column)));
    }
  }

  void emit_elements() {
    for_panels([&](Value* panel) {
      Value* row = b_.CreateMul(panel, i64(shape_.width));
      emit_loop(b_, i64(0), depth_, i64(1), [&](Value* step) {
        emit_loop(b_, i64(0), i64(shape_.width), i64(1), [&](Value* column) {
          Value* at = b_.CreateAdd(row, column);
          Value* exists = b_.CreateICmpSLT(at, rows_);
          Value* address = source_at(b_.CreateSelect(exists, at, i64(0)), step);
          auto align = llvm::Align(static_cast<uint64_t>(dtype_bytes(shape_.from)));
          Value* value = converted(b_.CreateAlignedLoad(stored_, address, align));
          value = b_.CreateSelect(exists, value, llvm::Constant::getNullValue(value->getType()));
          store(value, target_at(panel, step, column));
        });
      });
    });
  }

  EmitContext& context_;
  llvm::IRBuilder<>& b_;
  const PackShape& shape_;
  Value *source_, *row_stride_, *depth_stride_, *rows_, *depth_, *target_;
  unsigned lanes_;
  llvm::Type *stored_, *element_;
};

}  // namespace

std::vector<llvm::Value*> emit_transpose(EmitContext& context, std::vector<llvm::Value*> rows) {
  int lanes = static_cast<int>(rows.size());
  // Stage by stage, blocks of `size` swap across the diagonal.
  for (int size = 1; size < lanes; size *= 2) {
    std::vector<int> low, high;
    for (int column = 0; column < lanes; ++column) {
      bool is_upper = (column & size) != 0;
      low.push_back(is_upper ? lanes + column - size : column);
      high.push_back(is_upper ? lanes + column : column + size);
    }
    for (int row = 0; row < lanes; ++row) {
      if (row & size) continue;
      llvm::Value *a = rows[static_cast<size_t>(row)], *b = rows[static_cast<size_t>(row + size)];
      rows[static_cast<size_t>(row)] = context.builder.CreateShuffleVector(a, b, low);
      rows[static_cast<size_t>(row + size)] = context.builder.CreateShuffleVector(a, b, high);
    }
  }
  return rows;
}

void call_pack(EmitContext& context, const PackShape& shape, llvm::Value* source, llvm::Value* row_stride,
               llvm::Value* depth_stride, llvm::Value* rows, llvm::Value* depth, llvm::Value* target) {
  static constexpr const char* kNames[] = {"rows", "depth", "elements"};
  llvm::Value* arguments[] = {source, row_stride, depth_stride, rows, depth, target};
  call_outlined(context,
                cat("tw.pack.", kNames[static_cast<int>(shape.contiguous)], ".", dtype_name(shape.from), ".",
                    dtype_name(shape.to), ".", shape.width, ".", shape.panel_elements),
                context.builder.getVoidTy(), arguments,
                [&](EmitContext& inner, std::span<llvm::Value* const> a) -> llvm::Value* {
                  Packer(inner, shape, a).emit();
                  return nullptr;
                });
}

}  // namespace tilewright
