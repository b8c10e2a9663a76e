// Dot: register blocks over tiles in scratch memory.
#include <algorithm>

#include "base/text.h"
#include "codegen/emit/tile_emitter.h"

namespace tilewright {

using tile::Instruction;

// The tile in scratch in the accumulator's type: narrow operands are widened while they are copied.
ScratchTile TileEmitter::widened(ValueId value, DType dtype) {
  auto known = scratch_tiles_.find(value.index);
  if (known != scratch_tiles_.end() && type(value).dtype == dtype) return known->second;
  ScratchTile tile = new_scratch(tile::TileType{dtype, type(value).shape});
  const std::vector<int64_t>& shape = type(value).shape;
  DType from = type(value).dtype;
  for_points(shape, last_axis(shape), {}, Reads{{value}, {}}, [&](const Point& point) {
    Value* element = eval(value, point);
    if (from != dtype) element = emit_convert(context_, element, from, dtype);
    write_scratch_as(tile, dtype, point, element);
  });
  return tile;
}

void TileEmitter::emit_dot(const Instruction& instruction) {
  ValueId acc_value = instruction.operands[2];
  DType dtype = type(acc_value).dtype;
  ScratchTile acc;
  auto known = scratch_tiles_.find(acc_value.index);
  bool alone = sinks_[acc_value.index].size() == 1;
  if (known != scratch_tiles_.end() && alone) {
    acc = known->second;  // nobody else reads the old sums: add in place
  } else {
    acc = new_scratch(type(acc_value));
    fill_tiles({acc_value}, {acc});
  }
  ScratchTile a = widened(instruction.operands[0], dtype), b = widened(instruction.operands[1], dtype);
  scratch_tiles_[instruction.results[0].index] = acc;
  const tile::DotDims plain{{1}, {0}, {}, {}};
  const std::vector<int64_t>&left = type(instruction.operands[0]).shape,
        &right = type(instruction.operands[1]).shape;
  bool floating = dtype == DType::F32 || dtype == DType::F64;
  if (!(instruction.dot == plain) || left.size() != 2 || right.size() != 2 || !floating) {
    emit_plain_dot(instruction, a, b, acc);
    return;
  }
  int64_t rows = left[0], depth = left[1], columns = right[1];
  int64_t width = context_.limits.vector_bytes / dtype_bytes(dtype);
  unsigned lanes = static_cast<unsigned>(std::max<int64_t>(1, width));
  while (lanes > 1 && static_cast<int64_t>(lanes / 2) >= columns) lanes /= 2;
  if (columns <= 16 && columns % lanes != 0) {  // short rows are not padded
    emit_plain_dot(instruction, a, b, acc);
    return;
  }
  int64_t registers = context_.limits.vector_registers;
  int64_t vectors = 2, block_rows = registers >= 32 ? 14 : registers >= 16 && lanes > 1 ? 6 : 4;
  if (instruction.micro.size() == 2) {
    block_rows = instruction.micro[0];
    vectors = std::max<int64_t>(1, instruction.micro[1] / lanes);
  }
  int64_t all_vectors = (columns + lanes - 1) / lanes;
  auto row_blocks = [&](Value* column, int64_t count) {
    int64_t whole = rows / block_rows * block_rows;
    if (whole > 0) {
      for_loop(i64(0), i64(whole), i64(block_rows), [&](Value* row) {
        emit_block_product(a, b, acc, dtype, depth, row, block_rows, column, count, lanes);
      });
    }
    if (rows > whole)
      emit_block_product(a, b, acc, dtype, depth, i64(whole), rows - whole, column, count, lanes);
  };
  int64_t whole = all_vectors / vectors * vectors;
  if (whole > 0) {
    for_loop(i64(0), i64(whole * lanes), i64(vectors * lanes),
             [&](Value* column) { row_blocks(column, vectors); });
  }
  if (all_vectors > whole) row_blocks(i64(whole * lanes), all_vectors - whole);
}

void TileEmitter::emit_block_product(const ScratchTile& a, const ScratchTile& b, const ScratchTile& acc,
                                     DType dtype, int64_t depth, Value* row, int64_t rows, Value* column,
                                     int64_t vectors, unsigned lanes) {
  llvm::Type* element = register_type(context_, dtype, 0);
  llvm::Type* vector =
      lanes > 1 ? static_cast<llvm::Type*>(llvm::FixedVectorType::get(element, lanes)) : element;
  auto align = llvm::Align(static_cast<uint64_t>(dtype_bytes(dtype)));
  int scope = static_cast<int>(kernel_.params.size());
  auto acc_pointer = [&](int64_t r, int64_t v) {
    Value* offset = b_.CreateAdd(b_.CreateMul(b_.CreateAdd(row, i64(r)), i64(acc.strides[0])),
                                 b_.CreateAdd(column, i64(v * lanes)));
    return b_.CreateGEP(element, acc.data, offset);
  };
  // Sums are carried as phis, so that they stay in registers whatever passes run.
  std::vector<Value*> sums;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t v = 0; v < vectors; ++v)
      sums.push_back(b_.CreateAlignedLoad(vector, acc_pointer(r, v), align));
  }
  llvm::BasicBlock* before = b_.GetInsertBlock();
  auto* loop = llvm::BasicBlock::Create(b_.getContext(), "depth", function_);
  auto* after = llvm::BasicBlock::Create(b_.getContext(), "sums", function_);
  b_.CreateBr(loop);
  b_.SetInsertPoint(loop);
  llvm::PHINode* k = b_.CreatePHI(b_.getInt64Ty(), 2);
  k->addIncoming(i64(0), before);
  std::vector<llvm::PHINode*> carried;
  for (Value* sum : sums) {
    carried.push_back(b_.CreatePHI(vector, 2));
    carried.back()->addIncoming(sum, before);
  }
  std::vector<Value*> columns_of_b;
  Value* b_row = b_.CreateAdd(b_.CreateMul(k, i64(b.strides[0])), column);
  for (int64_t v = 0; v < vectors; ++v) {
    llvm::LoadInst* load = b_.CreateAlignedLoad(
        vector, b_.CreateGEP(element, b.data, b_.CreateAdd(b_row, i64(v * lanes))), align);
    tag_param(load, scope);
    columns_of_b.push_back(load);
  }
  std::vector<Value*> next;
  for (int64_t r = 0; r < rows; ++r) {
    Value* offset = b_.CreateAdd(b_.CreateMul(b_.CreateAdd(row, i64(r)), i64(a.strides[0])),
                                 b_.CreateMul(k, i64(a.strides[1])));
    Value* scalar = b_.CreateAlignedLoad(element, b_.CreateGEP(element, a.data, offset), align);
    Value* repeated = lanes > 1 ? b_.CreateVectorSplat(lanes, scalar) : scalar;
    for (int64_t v = 0; v < vectors; ++v) {
      Value* sum = carried[static_cast<size_t>(r * vectors + v)];
      if (context_.limits.has_fma) {
        next.push_back(b_.CreateIntrinsic(llvm::Intrinsic::fma, {vector}, {repeated, columns_of_b[v], sum}));
      } else {
        next.push_back(b_.CreateFAdd(b_.CreateFMul(repeated, columns_of_b[v]), sum));
      }
    }
  }
  Value* k_next = b_.CreateAdd(k, i64(1));
  k->addIncoming(k_next, loop);
  for (size_t i = 0; i < next.size(); ++i) carried[i]->addIncoming(next[i], loop);
  b_.CreateCondBr(b_.CreateICmpSLT(k_next, i64(depth)), loop, after);
  b_.SetInsertPoint(after);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t v = 0; v < vectors; ++v) {
      b_.CreateAlignedStore(next[static_cast<size_t>(r * vectors + v)], acc_pointer(r, v), align);
    }
  }
}

// Any dimension numbers and types, an element at a time.
void TileEmitter::emit_plain_dot(const Instruction& instruction, const ScratchTile& a, const ScratchTile& b,
                                 const ScratchTile& acc) {
  const tile::DotDims& dims = instruction.dot;
  const std::vector<int64_t>&left = type(instruction.operands[0]).shape,
        &right = type(instruction.operands[1]).shape;
  const std::vector<int64_t>& out = type(instruction.results[0]).shape;
  DType dtype = type(instruction.results[0]).dtype;
  auto contains = [](const Ints& list, size_t axis) {
    return std::find(list.begin(), list.end(), static_cast<int64_t>(axis)) != list.end();
  };
  std::vector<int64_t> walk;
  for (int64_t axis : dims.lhs_contract) walk.push_back(left[axis]);
  ValueId result = instruction.results[0];
  auto pointer = [&](const ScratchTile& tile, const std::vector<Value*>& index) {
    Value* offset = i64(0);
    for (size_t i = 0; i < index.size(); ++i)
      offset = b_.CreateAdd(offset, b_.CreateMul(index[i], i64(tile.strides[i])));
    return element_pointer(tile.data, dtype, offset);
  };
  for_points(out, -1, {}, {}, [&](const Point& at) {
    std::vector<Value*> l(left.size()), r(right.size());
    size_t position = 0;
    for (size_t i = 0; i < dims.lhs_batch.size(); ++i) {
      l[dims.lhs_batch[i]] = r[dims.rhs_batch[i]] = at.axis[position++];
    }
    for (size_t i = 0; i < left.size(); ++i) {
      if (!contains(dims.lhs_batch, i) && !contains(dims.lhs_contract, i)) l[i] = at.axis[position++];
    }
    for (size_t i = 0; i < right.size(); ++i) {
      if (!contains(dims.rhs_batch, i) && !contains(dims.rhs_contract, i)) r[i] = at.axis[position++];
    }
    Point start;
    start.axis.assign(walk.size(), i64(0));
    for_points_at(start, walk, -1, {}, {}, [&](const Point& step) {
      for (size_t i = 0; i < walk.size(); ++i)
        l[dims.lhs_contract[i]] = r[dims.rhs_contract[i]] = step.axis[i];
      llvm::Type* stored = storage_type(context_, dtype, 0);
      Value* x = to_register(context_, dtype, b_.CreateLoad(stored, pointer(a, l)));
      Value* y = to_register(context_, dtype, b_.CreateLoad(stored, pointer(b, r)));
      Value* sum = read_scratch(acc, result, at);
      Value* product = emit_binary(context_, Op::Multiply, x, y, dtype);
      write_scratch(acc, result, at, emit_binary(context_, Op::Add, sum, product, dtype));
    });
  });
}

}  // namespace tilewright
