// Lazy evaluation: loops over the points of a tile, and the value of a tile at a point.
#include <algorithm>
#include <bit>

#include "base/text.h"
#include "codegen/emit/loops.h"
#include "codegen/emit/partial_memory.h"
#include "codegen/emit/tile_emitter.h"

namespace tilewright {

using tile::Instruction;
using tile::Opcode;

int TileEmitter::last_axis(const std::vector<int64_t>& shape) {
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] > 1) return static_cast<int>(i);
  }
  return -1;
}

llvm::Value* TileEmitter::lane_iota(unsigned lanes) {
  std::vector<llvm::Constant*> values;
  for (unsigned i = 0; i < lanes; ++i) values.push_back(b_.getInt64(i));
  return llvm::ConstantVector::get(values);
}

llvm::Value* TileEmitter::splat(Value* value, unsigned lanes) {
  if (lanes == 0 || value->getType()->isVectorTy()) return value;
  return b_.CreateVectorSplat(lanes, value);
}

unsigned TileEmitter::lane_count(int64_t size) {
  return static_cast<unsigned>(std::min<int64_t>(
      kLanes, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(size, 1))))));
}

void TileEmitter::for_points(const std::vector<int64_t>& shape, int vector_axis, const Limits& limits,
                             const Reads& reads, const PointBody& body) {
  Point origin;
  origin.axis.assign(shape.size(), i64(0));
  for_points_at(origin, shape, vector_axis, limits, reads, body);
}

void TileEmitter::for_points_at(const Point& origin, const std::vector<int64_t>& shape, int vector_axis,
                                const Limits& limits, const Reads& reads, const PointBody& body) {
  for_groups_at(origin, shape, vector_axis, limits, reads, 1,
                [&](const std::vector<Point>& group) { body(group[0]); });
}

void TileEmitter::for_groups_at(const Point& origin, const std::vector<int64_t>& shape, int vector_axis,
                                const Limits& limits, const Reads& reads, int unroll, const GroupBody& body) {
  Point point = origin;
  if (vector_axis >= 0 && shape[vector_axis] == 1) vector_axis = -1;
  std::vector<int> outer;
  for (int axis = 0; axis < static_cast<int>(shape.size()); ++axis) {
    if (axis != vector_axis && (shape[axis] > 1 || limits.count(axis))) outer.push_back(axis);
  }
  std::function<void(size_t)> nest = [&](size_t level) {
    if (level == outer.size()) {
      if (vector_axis >= 0) {
        point.vector_axis = vector_axis;
        lane_loop(shape, limits, reads, point, unroll, body);
      } else {
        run_point(reads, point, [&](const Point& at) { body({at}); });
      }
      return;
    }
    int axis = outer[level];
    auto limit = limits.find(axis);
    for_loop(i64(0), limit == limits.end() ? i64(shape[axis]) : limit->second.end, i64(1), [&](Value* index) {
      if (limit != limits.end()) index_limits_[index] = limit->second.expression;
      point.axis[axis] = index;
      nest(level + 1);
    });
  };
  nest(0);
}

void TileEmitter::run_point(const Reads& reads, const Point& point, const PointBody& body) {
  auto run = [&](bool inside) {
    Point at = point;
    at.inside = inside;
    memo_.clear();
    body(at);
    memo_.clear();
  };
  memo_.clear();
  Value* inside = point.lanes ? all_inside(reads, point) : nullptr;
  if (point.lanes && inside) {
    branch(inside, [&] { run(true); }, [&] { run(false); });
  } else {
    run(point.lanes != 0 && !point.mask);
  }
}

void TileEmitter::branch(Value* condition, const std::function<void()>& yes,
                         const std::function<void()>& no) {
  emit_branch(b_, condition, yes, no);
}

// Groups of full vectors without checks as long as they are inside everything, else one vector with masks.
void TileEmitter::lane_loop(const std::vector<int64_t>& shape, const Limits& limits, const Reads& reads,
                            Point point, int unroll, const GroupBody& body) {
  int axis = point.vector_axis;
  int64_t size = shape[axis];
  unsigned lanes = lane_count(size);
  point.lanes = lanes;
  int64_t step = static_cast<int64_t>(lanes) * unroll;
  auto limit = limits.find(axis);
  Value* extent = limit == limits.end() ? i64(size) : limit->second.end;
  auto with_limit = [&](Value* index) {
    if (limit != limits.end()) index_limits_[index] = limit->second.expression;
    return index;
  };
  memo_.clear();
  Value* start = with_limit(b_.CreateFreeze(i64(0)));
  point.axis[axis] = start;
  SafeRange range = safe_range(reads, point, extent);
  auto run_fast = [&](Value* first) {
    std::vector<Point> group;
    for (int u = 0; u < unroll; ++u) {
      Point at = point;
      at.inside = true;
      at.axis[axis] = with_limit(u == 0 ? first : b_.CreateAdd(first, i64(static_cast<int64_t>(lanes) * u)));
      group.push_back(std::move(at));
    }
    memo_.clear();
    body(group);
    memo_.clear();
  };
  bool whole = limit == limits.end() && size % step == 0;
  if (whole && !range.begin && !range.end) {
    for_loop(i64(0), extent, i64(step), run_fast);
    return;
  }
  auto run_careful = [&](Value* first) {
    Point at = point;
    at.axis[axis] = with_limit(first);
    bool is_full = limit == limits.end() && size % lanes == 0;
    at.inside = is_full && !range.begin && !range.end;
    if (!is_full) at.mask = mask_of_first(context_, lanes, b_.CreateSub(extent, first));
    memo_.clear();
    body({at});
    memo_.clear();
  };
  // The last first lane of a group that fits.
  Value* end = range.end ? b_.CreateSelect(b_.CreateICmpSLT(range.end, extent), range.end, extent) : extent;
  Value* last = b_.CreateSub(end, i64(step));
  auto block = [&](const char* name) { return llvm::BasicBlock::Create(b_.getContext(), name, function_); };
  llvm::BasicBlock *before = b_.GetInsertBlock(), *head = block("head"), *enter = block("enter"),
                   *fast = block("fast");
  llvm::BasicBlock *rest = block("rest"), *careful = block("careful"), *after = block("after");
  b_.CreateBr(head);
  b_.SetInsertPoint(head);
  llvm::PHINode* first = b_.CreatePHI(b_.getInt64Ty(), 2);
  first->addIncoming(i64(0), before);
  Value* fits = b_.CreateICmpSLE(first, last);
  if (range.begin) fits = b_.CreateAnd(fits, b_.CreateICmpSGE(first, range.begin));
  b_.CreateCondBr(fits, enter, rest);
  b_.SetInsertPoint(enter);
  b_.CreateBr(fast);
  b_.SetInsertPoint(fast);
  llvm::PHINode* at = b_.CreatePHI(b_.getInt64Ty(), 2);
  at->addIncoming(first, enter);
  run_fast(at);
  Value* next = b_.CreateNSWAdd(at, i64(step));
  at->addIncoming(next, b_.GetInsertBlock());
  llvm::BasicBlock* fast_end = b_.GetInsertBlock();
  b_.CreateCondBr(b_.CreateICmpSLE(next, last), fast, rest);
  b_.SetInsertPoint(rest);
  llvm::PHINode* left = b_.CreatePHI(b_.getInt64Ty(), 2);
  left->addIncoming(first, head);
  left->addIncoming(next, fast_end);
  b_.CreateCondBr(b_.CreateICmpSLT(left, extent), careful, after);
  b_.SetInsertPoint(careful);
  run_careful(left);
  Value* next_first = b_.CreateNSWAdd(left, i64(lanes));
  first->addIncoming(next_first, b_.GetInsertBlock());
  b_.CreateBr(head);
  b_.SetInsertPoint(after);
}

// The point of an operand, given the point of the instruction's result.
Point TileEmitter::operand_point(const Instruction& instruction, ValueId operand, const Point& point) const {
  const std::vector<int64_t>& shape = type(operand).shape;
  Point out;
  out.lanes = point.lanes;
  out.mask = point.mask;
  out.inside = point.inside;
  out.is_whole = point.is_whole;
  out.axis.assign(shape.size(), b_.getInt64(0));
  auto take = [&](size_t axis, size_t from) {
    if (shape[axis] == 1) return;
    out.axis[axis] = point.axis[from];
    if (static_cast<int>(from) == point.vector_axis) out.vector_axis = static_cast<int>(axis);
  };
  switch (instruction.opcode) {
    case Opcode::Broadcast:
      for (size_t i = 0; i < shape.size(); ++i) take(i, static_cast<size_t>(instruction.axes[i]));
      break;
    case Opcode::Transpose:
      for (size_t i = 0; i < instruction.axes.size(); ++i) take(static_cast<size_t>(instruction.axes[i]), i);
      break;
    case Opcode::Reshape: {
      const std::vector<int64_t>& result = type(instruction.results[0]).shape;
      size_t from = 0;
      for (size_t i = 0; i < shape.size(); ++i) {
        if (shape[i] == 1) continue;
        while (result[from] == 1) ++from;
        take(i, from++);
      }
      break;
    }
    default: {
      // Operands of one shape; an index tile may repeat along axes of size 1.
      for (size_t i = 0; i < shape.size() && i < point.axis.size(); ++i) take(i, i);
      break;
    }
  }
  if (out.vector_axis < 0) {
    out.lanes = 0;
    out.mask = nullptr;
  }
  return out;
}

llvm::Value* TileEmitter::new_scratch_bytes(int64_t bytes) {
  Value* data =
      b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), scratch_, static_cast<uint64_t>(scratch_bytes_));
  scratch_bytes_ += (bytes + 127) / 64 * 64;
  return data;
}

ScratchTile TileEmitter::new_scratch(const tile::TileType& tile_type) {
  ScratchTile tile;
  // Rows are padded to whole vectors, so that a row's vectors stay inside it.
  std::vector<int64_t> shape = tile_type.shape;
  if (int axis = last_axis(shape); axis >= 0) {
    int64_t& row = shape[axis];
    row = row > kLanes ? (row + kLanes - 1) / kLanes * kLanes
                       : static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(row)));
  }
  tile.strides = dense_strides(shape);
  int64_t elements = 1;
  for (int64_t size : shape) elements *= size;
  tile.data = new_scratch_bytes((elements + kLanes) * dtype_bytes(tile_type.dtype));
  tile.is_padded = true;
  return tile;
}

void TileEmitter::fill_tiles(const std::vector<ValueId>& values, const std::vector<ScratchTile>& targets) {
  std::vector<bool> done(values.size(), false);
  for (size_t i = 0; i < values.size(); ++i) {
    if (done[i]) continue;
    std::vector<size_t> together;
    Reads reads;
    for (size_t k = i; k < values.size(); ++k) {
      if (done[k] || type(values[k]).shape != type(values[i]).shape) continue;
      done[k] = true;
      together.push_back(k);
      reads.values.push_back(values[k]);
    }
    const std::vector<int64_t>& shape = type(values[i]).shape;
    for_points(shape, last_axis(shape), {}, reads, [&](const Point& point) {
      std::vector<Value*> computed;
      for (size_t k : together) computed.push_back(eval(values[k], point));
      for (size_t n = 0; n < together.size(); ++n)
        write_scratch(targets[together[n]], values[together[n]], point, computed[n]);
    });
  }
}

llvm::Value* TileEmitter::eval(ValueId value, const Point& point) {
  auto bound = bound_.find(value.index);
  if (bound != bound_.end()) return bound->second;
  // A point along axes of size 1 is the same point.
  const std::vector<int64_t>& shape = type(value).shape;
  Point at = point;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] != 1) continue;
    at.axis[i] = i64(0);
    if (at.vector_axis == static_cast<int>(i)) at.vector_axis = -1;
  }
  if (at.vector_axis < 0) {
    at.lanes = 0;
    at.mask = nullptr;
  }
  std::vector<const void*> key{reinterpret_cast<const void*>(static_cast<uintptr_t>(value.index) + 1),
                               reinterpret_cast<const void*>(static_cast<intptr_t>(at.vector_axis))};
  key.insert(key.end(), at.axis.begin(), at.axis.end());
  auto known = memo_.find(key);
  if (known != memo_.end()) return known->second;
  Value* fresh = eval_fresh(value, at);
  memo_[key] = fresh;
  return fresh;
}

llvm::Value* TileEmitter::read_scratch(const ScratchTile& tile, ValueId value, const Point& point) {
  return read_scratch_as(tile, type(value).dtype, point);
}

llvm::Value* TileEmitter::read_scratch_as(const ScratchTile& tile, DType dtype, const Point& point) {
  Value* offset = i64(0);
  for (size_t i = 0; i < point.axis.size(); ++i) {
    offset = b_.CreateAdd(offset, b_.CreateMul(point.axis[i], i64(tile.strides[i])));
  }
  Address at;
  at.offset = offset;
  at.unit = point.vector_axis >= 0 ? tile.strides[point.vector_axis] : 0;
  at.is_aligned = point.is_whole;
  if (at.unit > 1) {
    at.lane_offsets = b_.CreateAdd(splat(offset, point.lanes),
                                   b_.CreateMul(lane_iota(point.lanes), splat(i64(at.unit), point.lanes)));
  }
  Point whole = point;
  if (tile.is_padded && at.unit <= 1) whole.mask = nullptr;  // lanes beyond a row's end hold something
  return load_from(tile.data, dtype, static_cast<int>(kernel_.params.size()), at, whole, {}, true);
}

void TileEmitter::write_scratch(const ScratchTile& tile, ValueId value, const Point& point, Value* data) {
  write_scratch_as(tile, type(value).dtype, point, data);
}

void TileEmitter::write_scratch_as(const ScratchTile& tile, DType dtype, const Point& point, Value* data) {
  Value* offset = i64(0);
  for (size_t i = 0; i < point.axis.size(); ++i) {
    offset = b_.CreateAdd(offset, b_.CreateMul(point.axis[i], i64(tile.strides[i])));
  }
  data = splat(data, point.lanes);
  Value* stored = to_storage(context_, dtype, data);
  int scope = static_cast<int>(kernel_.params.size());
  if (point.lanes == 0 || tile.strides[point.vector_axis] == 1) {
    Value* pointer = element_pointer(tile.data, dtype, offset);
    auto align = llvm::Align(static_cast<uint64_t>(dtype_bytes(dtype)));
    if (point.mask && !tile.is_padded) {
      store_partial(context_, stored, pointer, point.mask);
    } else {
      tag_param(b_.CreateAlignedStore(stored, pointer, align), scope);
    }
    return;
  }
  for (unsigned lane = 0; lane < point.lanes; ++lane) {
    Value* pointer =
        element_pointer(tile.data, dtype, b_.CreateAdd(offset, i64(lane * tile.strides[point.vector_axis])));
    auto store = [&] {
      tag_param(b_.CreateAlignedStore(b_.CreateExtractElement(stored, lane), pointer, llvm::Align(1)), scope);
    };
    if (point.mask) {
      if_then(b_.CreateExtractElement(point.mask, lane), store);
    } else {
      store();
    }
  }
}

llvm::Value* TileEmitter::eval_fresh(ValueId value, const Point& point) {
  auto tile = scratch_tiles_.find(value.index);
  if (tile != scratch_tiles_.end()) return read_scratch(tile->second, value, point);
  const Instruction* source = plan_.definition(value);
  if (!source) {
    fail(Status::internal("a tile value is read before it has a place"));
    return llvm::UndefValue::get(register_type(context_, type(value).dtype, point.lanes));
  }
  switch (source->opcode) {
    case Opcode::Elementwise: return eval_elementwise(*source, point);
    case Opcode::Const: return literal(source->literal, type(value).dtype);
    case Opcode::Index: {
      Value* index = eval_index(source->access.index[0], point);
      DType dtype = type(value).dtype;
      return dtype == DType::I64 ? index : emit_convert(context_, index, DType::I64, dtype);
    }
    case Opcode::Load: return eval_load(*source, point);
    case Opcode::Broadcast:
    case Opcode::Transpose:
    case Opcode::Reshape:
      return eval(source->operands[0], operand_point(*source, source->operands[0], point));
    case Opcode::RngBits: return eval_rng(*source, point);
    default: break;
  }
  fail(Status::internal("a tile value is read before it was computed"));
  return llvm::UndefValue::get(register_type(context_, type(value).dtype, point.lanes));
}

llvm::Value* TileEmitter::eval_elementwise(const Instruction& instruction, const Point& point) {
  std::vector<Value*> operands;
  unsigned lanes = 0;
  for (ValueId operand : instruction.operands) {
    operands.push_back(eval(operand, operand_point(instruction, operand, point)));
    if (auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(operands.back()->getType()))
      lanes = vector->getNumElements();
  }
  for (Value*& operand : operands) operand = splat(operand, lanes);
  DType in = type(instruction.operands.back()).dtype, out = type(instruction.results[0]).dtype;
  if (instruction.op == Op::BitcastConvert) {
    Value* stored = to_storage(context_, in, operands[0]);
    return to_register(context_, out, b_.CreateBitCast(stored, storage_type(context_, out, lanes)));
  }
  Value* result = emit_elementwise(
      context_, instruction.op, AttributeReader(instruction.op, instruction.attributes), operands, in, out);
  if (!result) {
    fail(Status::unimplemented(
        cat("kernel @", kernel_.name, ": ", op_name(instruction.op), " has no emitter")));
    return llvm::UndefValue::get(register_type(context_, out, lanes));
  }
  return result;
}

llvm::Value* TileEmitter::eval_index(const tile::DimIndex& index, const Point& point) {
  Value* sum = dim(index.base);
  int64_t lane_step = 0;
  for (const tile::AxisTerm& term : index.terms) {
    Value* part = point.axis[term.axis];
    if (term.coefficient != 1) part = b_.CreateMul(part, i64(term.coefficient));
    sum = b_.CreateAdd(sum, part);
    if (term.axis == point.vector_axis) lane_step += term.coefficient;
  }
  if (lane_step == 0) return sum;
  Value* lanes = lane_iota(point.lanes);
  if (lane_step != 1) lanes = b_.CreateMul(lanes, splat(i64(lane_step), point.lanes));
  return b_.CreateAdd(splat(sum, point.lanes), lanes);
}

llvm::Value* TileEmitter::eval_rng(const Instruction& instruction, const Point& point) {
  Value* index = eval(instruction.operands[1], operand_point(instruction, instruction.operands[1], point));
  unsigned lanes = index->getType()->isVectorTy()
                       ? llvm::cast<llvm::FixedVectorType>(index->getType())->getNumElements()
                       : 0;
  Point state_point;
  state_point.axis = {i64(0)};
  Value* key = eval(instruction.operands[0], state_point);
  state_point.axis = {i64(1)};
  Value* start = eval(instruction.operands[0], state_point);
  auto constant = [&](uint64_t value) { return splat(b_.getInt64(value), lanes); };
  // Words of the counter and the key live in the low halves of 64-bit lanes.
  Value* low_mask = constant(0xFFFFFFFFu);
  Value* counter = b_.CreateAdd(splat(start, lanes), b_.CreateLShr(index, constant(2)));
  Value* words[4] = {b_.CreateAnd(counter, low_mask), b_.CreateLShr(counter, constant(32)), constant(0),
                     constant(0)};
  Value* k0 = b_.CreateAnd(splat(key, lanes), low_mask);
  Value* k1 = b_.CreateLShr(splat(key, lanes), constant(32));
  for (int round = 0; round < 10; ++round) {
    Value* first = b_.CreateMul(words[0], constant(0xD2511F53u));
    Value* second = b_.CreateMul(words[2], constant(0xCD9E8D57u));
    Value* next0 = b_.CreateXor(b_.CreateXor(b_.CreateLShr(second, constant(32)), words[1]), k0);
    Value* next2 = b_.CreateXor(b_.CreateXor(b_.CreateLShr(first, constant(32)), words[3]), k1);
    words[1] = b_.CreateAnd(second, low_mask);
    words[3] = b_.CreateAnd(first, low_mask);
    words[0] = next0;
    words[2] = next2;
    k0 = b_.CreateAnd(b_.CreateAdd(k0, constant(0x9E3779B9u)), low_mask);
    k1 = b_.CreateAnd(b_.CreateAdd(k1, constant(0xBB67AE85u)), low_mask);
  }
  Value* which = b_.CreateAnd(index, constant(3));
  Value* picked = words[3];
  for (int word = 2; word >= 0; --word) {
    picked =
        b_.CreateSelect(b_.CreateICmpEQ(which, constant(static_cast<uint64_t>(word))), words[word], picked);
  }
  llvm::Type* narrow = b_.getInt32Ty();
  return b_.CreateTrunc(picked, lanes ? llvm::FixedVectorType::get(narrow, lanes) : narrow);
}

}  // namespace tilewright
