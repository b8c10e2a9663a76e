// Dot by fused multiply-adds: operands in shared memory, a block of sums in each thread's registers.
#include <algorithm>

#include "codegen/emit/block_emitter.h"
#include "codegen/emit/loops.h"

namespace tilewright {

using tile::Instruction;

namespace {

bool contains(const Ints& list, size_t axis) {
  return std::find(list.begin(), list.end(), static_cast<int64_t>(axis)) != list.end();
}

Ints free_axes(size_t rank, const Ints& batch, const Ints& contract) {
  Ints out;
  for (size_t i = 0; i < rank; ++i) {
    if (!contains(batch, i) && !contains(contract, i)) out.push_back(static_cast<int64_t>(i));
  }
  return out;
}

// Position in a list of axes of the last one that is longer than 1; -1: none.
int last_long(const Ints& axes, const std::vector<int64_t>& shape) {
  for (size_t i = axes.size(); i-- > 0;) {
    if (shape[static_cast<size_t>(axes[i])] > 1) return static_cast<int>(i);
  }
  return -1;
}

constexpr int64_t kBlock = 4;  // rows and columns of the sums of a thread

}  // namespace

ScratchTile BlockEmitter::staged_operand(ValueId value) {
  auto known = scratch_tiles_.find(value.index);
  if (known != scratch_tiles_.end()) return known->second;
  ScratchTile tile = new_scratch(type(value));
  fill_tiles({value}, {tile});
  return tile;
}

void BlockEmitter::emit_dot(const Instruction& instruction) {
  if (emit_tensor_dot(instruction)) return;
  const ValueId acc_value = instruction.operands[2], result = instruction.results[0];
  const DType dtype = type(acc_value).dtype;
  ScratchTile acc;
  auto known = scratch_tiles_.find(acc_value.index);
  const bool is_shared = known != scratch_tiles_.end() && !llvm::isa<llvm::AllocaInst>(known->second.data);
  if (is_shared && plan_.reader_count(acc_value) == 1) {
    acc = known->second;  // nobody else reads the old sums: add in place
  } else {
    acc = new_scratch(type(acc_value));
    fill_tiles({acc_value}, {acc});
  }
  const ScratchTile lhs = staged_operand(instruction.operands[0]),
                    rhs = staged_operand(instruction.operands[1]);
  scratch_tiles_[result.index] = acc;
  synchronize({lhs.data, rhs.data, acc.data}, {acc.data});
  const std::vector<int64_t>&left = type(instruction.operands[0]).shape,
        &right = type(instruction.operands[1]).shape, &shape = type(acc_value).shape;
  const tile::DotDims& dims = instruction.dot;
  const Ints lhs_free = free_axes(left.size(), dims.lhs_batch, dims.lhs_contract),
             rhs_free = free_axes(right.size(), dims.rhs_batch, dims.rhs_contract);
  const size_t batches = dims.lhs_batch.size();
  const int row_free = last_long(lhs_free, left), column_free = last_long(rhs_free, right);
  const int row_axis = row_free < 0 ? -1 : static_cast<int>(batches) + row_free;
  const int column_axis = column_free < 0 ? -1 : static_cast<int>(batches + lhs_free.size()) + column_free;
  // Blocks of sums that divide the tile and leave work for all threads.
  std::vector<int64_t> blocks = shape;
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  auto cut = [&](int axis) {
    int64_t block = 1;
    while (axis >= 0 && block < kBlock && blocks[static_cast<size_t>(axis)] % 2 == 0 &&
           count / 2 >= threads_) {
      blocks[static_cast<size_t>(axis)] /= 2;
      count /= 2;
      block *= 2;
    }
    return block;
  };
  const int64_t columns = cut(column_axis), rows = cut(row_axis);
  const DType sum_type = is_narrow_float(dtype) ? DType::F32 : dtype;
  for_own(count, [&](Value* number) {
    Point at;
    at.axis.assign(shape.size(), i64(0));
    place(number, blocks, walk_order(blocks, column_axis), 0, -1, at);
    auto scale = [&](int axis, int64_t block) {
      if (axis >= 0 && block > 1)
        at.axis[static_cast<size_t>(axis)] = b_.CreateMul(at.axis[static_cast<size_t>(axis)], i64(block));
    };
    scale(row_axis, rows);
    scale(column_axis, columns);
    // Operand points without their contracted axes.
    Point a, b;
    a.axis.assign(left.size(), i64(0));
    b.axis.assign(right.size(), i64(0));
    for (size_t i = 0; i < batches; ++i) {
      a.axis[static_cast<size_t>(dims.lhs_batch[i])] = at.axis[i];
      b.axis[static_cast<size_t>(dims.rhs_batch[i])] = at.axis[i];
    }
    for (size_t i = 0; i < lhs_free.size(); ++i)
      a.axis[static_cast<size_t>(lhs_free[i])] = at.axis[batches + i];
    for (size_t i = 0; i < rhs_free.size(); ++i) {
      b.axis[static_cast<size_t>(rhs_free[i])] = at.axis[batches + lhs_free.size() + i];
    }
    auto moved = [&](Point point, int axis, int64_t by) {
      if (axis >= 0 && by > 0)
        point.axis[static_cast<size_t>(axis)] = b_.CreateAdd(point.axis[static_cast<size_t>(axis)], i64(by));
      return point;
    };
    auto sum_point = [&](int64_t row, int64_t column) {
      return moved(moved(at, row_axis, row), column_axis, column);
    };
    LoopValues sums;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) sums.push_back(read_scratch(acc, result, sum_point(r, c)));
    }
    const int a_row = row_free < 0 ? -1 : static_cast<int>(lhs_free[static_cast<size_t>(row_free)]),
              b_column = column_free < 0 ? -1 : static_cast<int>(rhs_free[static_cast<size_t>(column_free)]);
    std::function<LoopValues(size_t, const LoopValues&)> contract = [&](size_t pair,
                                                                        const LoopValues& carried) {
      if (pair < dims.lhs_contract.size()) {
        const size_t la = static_cast<size_t>(dims.lhs_contract[pair]),
                     ra = static_cast<size_t>(dims.rhs_contract[pair]);
        return emit_carried_loop(b_, i64(0), i64(left[la]), i64(1), carried,
                                 [&](Value* index, const LoopValues& inner) {
                                   a.axis[la] = index;
                                   b.axis[ra] = index;
                                   return contract(pair + 1, inner);
                                 });
      }
      std::vector<Value*> from_a, from_b;
      auto load = [&](const ScratchTile& tile, ValueId value, const Point& point) {
        return emit_convert(context_, read_scratch(tile, value, point), type(value).dtype, sum_type);
      };
      for (int64_t r = 0; r < rows; ++r)
        from_a.push_back(load(lhs, instruction.operands[0], moved(a, a_row, r)));
      for (int64_t c = 0; c < columns; ++c)
        from_b.push_back(load(rhs, instruction.operands[1], moved(b, b_column, c)));
      LoopValues next;
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < columns; ++c) {
          Value *x = from_a[static_cast<size_t>(r)], *y = from_b[static_cast<size_t>(c)],
                *sum = carried[static_cast<size_t>(r * columns + c)];
          if (x->getType()->isFloatingPointTy()) {
            next.push_back(b_.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {x, y, sum}));
          } else if (sum_type == DType::Bool) {
            next.push_back(b_.CreateOr(sum, b_.CreateAnd(x, y)));
          } else {
            next.push_back(b_.CreateAdd(sum, b_.CreateMul(x, y)));
          }
        }
      }
      return next;
    };
    sums = contract(0, sums);
    size_t next = 0;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        write_scratch(acc, result, sum_point(r, c), emit_convert(context_, sums[next++], sum_type, dtype));
      }
    }
  });
}

}  // namespace tilewright
