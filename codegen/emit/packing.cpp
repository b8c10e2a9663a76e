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

  // A row's steps lie next to each other: a few rows by whole vectors of steps are transposed in registers.
  // What reaches over an end is copied to a full block first.
  void emit_transposes() {
    const int64_t group = transpose_group(dtype_bytes(shape_.to));
    Value* buffer = b_.CreateAlloca(llvm::ArrayType::get(stored_, static_cast<uint64_t>(group) * lanes_));
    int64_t groups = (shape_.width + group - 1) / group;
    for_panels([&](Value* panel) {
      Value* row = b_.CreateMul(panel, i64(shape_.width));
      emit_loop(b_, i64(0), i64(groups), i64(1), [&](Value* index) {
        // From the right: a last group that is not full runs into the next step's first elements.
        Value* column = b_.CreateMul(b_.CreateSub(i64(groups - 1), index), i64(group));
        Value* first_row = b_.CreateAdd(row, column);
        Value* left = b_.CreateSub(rows_, first_row);
        Value* is_whole = b_.CreateICmpSGE(left, i64(group));
        emit_loop(b_, i64(0), depth_, i64(lanes_), [&](Value* step) {
          Value* fits = b_.CreateAnd(is_whole, b_.CreateICmpSGE(b_.CreateSub(depth_, step), i64(lanes_)));
          Value* target = target_at(panel, step, column);
          emit_branch(
              b_, fits, [&] { transpose_rows(group, source_at(first_row, step), row_stride_, target); },
              [&] {
                fill_block(group, buffer, first_row, left, step);
                transpose_rows(group, buffer, i64(lanes_), target);
              });
        });
      });
    });
  }

  // Rows and steps that do not exist become zeros.
  void fill_block(int64_t group, Value* buffer, Value* first_row, Value* left, Value* step) {
    llvm::Type* vector = llvm::FixedVectorType::get(stored_, lanes_);
    Value* steps_left = b_.CreateSub(depth_, step);
    emit_loop(b_, i64(0), i64(group), i64(1), [&](Value* r) {
      Value* exists = b_.CreateICmpSLT(r, left);
      Value* address = source_at(b_.CreateSelect(exists, b_.CreateAdd(first_row, r), i64(0)), step);
      Value* mask = mask_of_first(context_, lanes_, b_.CreateSelect(exists, steps_left, i64(0)));
      Value* values = load_partial(context_, vector, address, mask);
      Value* to = b_.CreateInBoundsGEP(stored_, buffer, {b_.CreateMul(r, i64(lanes_))});
      b_.CreateAlignedStore(values, to, llvm::Align(static_cast<uint64_t>(dtype_bytes(shape_.from))));
    });
  }

  void transpose_rows(int64_t group, Value* source, Value* stride, Value* target) {
    std::vector<Value*> vectors;
    for (int64_t r = 0; r < group; ++r) {
      vectors.push_back(
          load_vector(lanes_, b_.CreateInBoundsGEP(stored_, source, {b_.CreateMul(stride, i64(r))})));
    }
    std::vector<Value*> pieces = emit_transpose(context_, vectors);
    for (unsigned i = 0; i < lanes_; ++i) {
      store(pieces[i], b_.CreateInBoundsGEP(element_, target, {i64(i * shape_.width)}));
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

int64_t transpose_group(int64_t element_bytes) { return element_bytes == 8 ? 2 : 4; }

std::vector<llvm::Value*> emit_transpose(EmitContext& context, const std::vector<llvm::Value*>& rows) {
  auto& b = context.builder;
  const int lanes = static_cast<int>(llvm::cast<llvm::FixedVectorType>(rows[0]->getType())->getNumElements());
  const int group = static_cast<int>(rows.size());
  // Inside each run of `group` lanes: `pattern` picks from the first vector, from group on from the second.
  auto shuffle = [&](llvm::Value* x, llvm::Value* y, std::vector<int> pattern) {
    std::vector<int> mask;
    for (int base = 0; base < lanes; base += group) {
      for (int at : pattern) mask.push_back(at < group ? base + at : lanes + base + at - group);
    }
    return b.CreateShuffleVector(x, y, mask);
  };
  std::vector<llvm::Value*> turned;
  if (group == 2) {
    turned = {shuffle(rows[0], rows[1], {0, 2}), shuffle(rows[0], rows[1], {1, 3})};
  } else {
    llvm::Value *low_ab = shuffle(rows[0], rows[1], {0, 4, 1, 5}),
                *high_ab = shuffle(rows[0], rows[1], {2, 6, 3, 7});
    llvm::Value *low_cd = shuffle(rows[2], rows[3], {0, 4, 1, 5}),
                *high_cd = shuffle(rows[2], rows[3], {2, 6, 3, 7});
    turned = {shuffle(low_ab, low_cd, {0, 1, 4, 5}), shuffle(low_ab, low_cd, {2, 3, 6, 7}),
              shuffle(high_ab, high_cd, {0, 1, 4, 5}), shuffle(high_ab, high_cd, {2, 3, 6, 7})};
  }
  std::vector<llvm::Value*> pieces;
  for (int lane = 0; lane < lanes; ++lane) {
    std::vector<int> mask;
    for (int i = 0; i < group; ++i) mask.push_back(lane / group * group + i);
    pieces.push_back(b.CreateShuffleVector(turned[static_cast<size_t>(lane % group)], mask));
  }
  return pieces;
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
