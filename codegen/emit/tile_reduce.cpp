// Reductions and scans.
#include <algorithm>
#include <bit>
#include <limits>

#include "base/text.h"
#include "codegen/emit/tile_emitter.h"

namespace tilewright {

using tile::Combine;
using tile::Instruction;

namespace {

Op op_of(Combine combine) {
  switch (combine) {
    case Combine::Product: return Op::Multiply;
    case Combine::Max: return Op::Maximum;
    case Combine::Min: return Op::Minimum;
    case Combine::And: return Op::And;
    case Combine::Or: return Op::Or;
    case Combine::Xor: return Op::Xor;
    default: return Op::Add;
  }
}

tile::Literal identity_of(Combine combine, DType dtype) {
  const bool floating = is_float(dtype);
  const int bits = static_cast<int>(dtype_bytes(dtype)) * 8;
  const bool is_signed = is_signed_integer(dtype);
  const int64_t least = is_signed ? static_cast<int64_t>(~uint64_t{0} << (bits - 1)) : 0;
  const int64_t largest =
      is_signed ? ~least : static_cast<int64_t>(bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  switch (combine) {
    case Combine::Product: return floating ? tile::Literal{1, 0} : tile::Literal{0, 1};
    case Combine::Max: return floating ? tile::Literal{-kInfinity, 0} : tile::Literal{0, least};
    case Combine::Min:
      return floating ? tile::Literal{kInfinity, 0} : tile::Literal{0, dtype == DType::Bool ? 1 : largest};
    case Combine::And: return tile::Literal{0, dtype == DType::Bool ? 1 : -1};
    default: return tile::Literal{0, 0};
  }
}

}  // namespace

std::vector<llvm::Value*> TileEmitter::combine(const Instruction& instruction,
                                               const std::vector<Value*>& left,
                                               const std::vector<Value*>& right) {
  if (instruction.combine != Combine::Custom) {
    return {emit_binary(context_, op_of(instruction.combine), left[0], right[0],
                        type(instruction.operands[0]).dtype)};
  }
  const tile::Block& block = instruction.blocks[0];
  std::map<std::vector<const void*>, Value*> outer = std::move(memo_);
  memo_.clear();
  for (size_t i = 0; i < left.size(); ++i) {
    bound_[block.params[i].index] = left[i];
    bound_[block.params[left.size() + i].index] = right[i];
  }
  std::vector<Value*> results;
  Point here;
  for (ValueId value : block.body.back().operands) results.push_back(eval(value, here));
  for (ValueId param : block.params) bound_.erase(param.index);
  memo_ = std::move(outer);
  unsigned lanes = 0;
  if (auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(left[0]->getType()))
    lanes = vector->getNumElements();
  for (Value*& result : results) result = splat(result, lanes);
  return results;
}

std::vector<llvm::Value*> TileEmitter::fold_lanes(const Instruction& instruction, std::vector<Value*> lanes,
                                                  unsigned count) {
  while (count > 1) {
    unsigned half = count / 2;
    std::vector<int> low(half), high(half);
    for (unsigned i = 0; i < half; ++i) {
      low[i] = static_cast<int>(i);
      high[i] = static_cast<int>(half + i);
    }
    std::vector<Value*> left, right;
    for (Value* value : lanes) {
      left.push_back(b_.CreateShuffleVector(value, low));
      right.push_back(b_.CreateShuffleVector(value, high));
    }
    lanes = combine(instruction, left, right);
    count = half;
  }
  for (Value*& value : lanes) value = b_.CreateExtractElement(value, uint64_t{0});
  return lanes;
}

llvm::Value* TileEmitter::identity(Combine combine, DType dtype) {
  return literal(identity_of(combine, dtype), dtype);
}

TileEmitter::Limits TileEmitter::axis_limits(const Instruction& instruction) {
  Limits limits;
  for (size_t i = 0; i < instruction.limits.size(); ++i) {
    int axis = static_cast<int>(instruction.axes[i]);
    int64_t size = type(instruction.operands[0]).shape[axis];
    if (instruction.limits[i].is_constant(size)) continue;
    // Never beyond the tile, never below nothing.
    limits[axis] = {dim(Dim::max(Dim::min(instruction.limits[i], Dim(size)), Dim(0))),
                    Dim::min(Dim(size), instruction.limits[i])};
  }
  return limits;
}

void TileEmitter::emit_reduce(const Instruction& instruction) {
  const std::vector<int64_t>& shape = type(instruction.operands[0]).shape;
  size_t width = instruction.operands.size();
  auto reduced = [&](int axis) {
    return std::find(instruction.axes.begin(), instruction.axes.end(), axis) != instruction.axes.end();
  };
  Limits limits = axis_limits(instruction);
  std::vector<ScratchTile> results;
  for (ValueId result : instruction.results) results.push_back(new_scratch(type(result)));
  Reads reads{instruction.operands, {}};
  int vector_axis = last_axis(shape);
  bool across_lanes = vector_axis >= 0 && reduced(vector_axis);
  unsigned lanes = vector_axis < 0 ? 0 : lane_count(shape[vector_axis]);
  // Shape of the kept points, and of the walk over what is reduced at one of them.
  std::vector<int64_t> kept = shape, walked = shape;
  Limits walked_limits;
  for (int axis = 0; axis < static_cast<int>(shape.size()); ++axis) {
    (reduced(axis) ? kept : walked)[axis] = 1;
    auto limit = limits.find(axis);
    if (limit != limits.end()) walked_limits[axis] = limit->second;
  }
  std::vector<llvm::AllocaInst*> cells;
  std::vector<DType> dtypes;
  for (size_t i = 0; i < width; ++i) {
    dtypes.push_back(type(instruction.operands[i]).dtype);
    cells.push_back(entry_alloca(register_type(context_, dtypes[i], lanes)));
  }
  bool custom = instruction.combine == Combine::Custom;
  // Custom combines have no identity: a lane holds nothing until its first element arrives.
  llvm::Type* flag =
      lanes ? static_cast<llvm::Type*>(llvm::FixedVectorType::get(b_.getInt1Ty(), lanes)) : b_.getInt1Ty();
  llvm::AllocaInst* filled = custom ? entry_alloca(flag) : nullptr;
  auto start = [&] {
    for (size_t i = 0; i < width; ++i) {
      Value* identity;
      if (custom) {
        identity = llvm::Constant::getNullValue(cells[i]->getAllocatedType());
      } else {
        identity = splat(this->identity(instruction.combine, dtypes[i]), lanes);
      }
      b_.CreateStore(identity, cells[i]);
    }
    if (custom) b_.CreateStore(llvm::Constant::getNullValue(filled->getAllocatedType()), filled);
  };
  auto accumulate = [&](const Point& point) {
    std::vector<Value*> old, fresh;
    for (size_t i = 0; i < width; ++i) {
      fresh.push_back(splat(eval(instruction.operands[i], point), lanes));
      old.push_back(b_.CreateLoad(cells[i]->getAllocatedType(), cells[i]));
    }
    std::vector<Value*> joined = combine(instruction, old, fresh);
    Value* take = point.mask;
    if (custom) {
      Value* was = b_.CreateLoad(filled->getAllocatedType(), filled);
      for (size_t i = 0; i < width; ++i) joined[i] = b_.CreateSelect(was, joined[i], fresh[i]);
      Value* now = take ? b_.CreateOr(was, take) : llvm::Constant::getAllOnesValue(was->getType());
      b_.CreateStore(now, filled);
    }
    for (size_t i = 0; i < width; ++i) {
      if (take) joined[i] = b_.CreateSelect(take, joined[i], old[i]);
      b_.CreateStore(joined[i], cells[i]);
    }
  };
  auto finish = [&](const Point& point) {
    std::vector<Value*> values;
    for (llvm::AllocaInst* cell : cells) values.push_back(b_.CreateLoad(cell->getAllocatedType(), cell));
    if (across_lanes && lanes) {
      values =
          custom ? fold_filled(instruction, values, b_.CreateLoad(filled->getAllocatedType(), filled), lanes)
                 : fold_lanes(instruction, values, lanes);
    }
    Point target;
    target.inside = true;
    target.mask = across_lanes ? nullptr : point.mask;
    target.lanes = across_lanes ? 0 : point.lanes;
    for (int axis = 0; axis < static_cast<int>(shape.size()); ++axis) {
      if (reduced(axis)) continue;
      if (axis == point.vector_axis && !across_lanes)
        target.vector_axis = static_cast<int>(target.axis.size());
      target.axis.push_back(point.axis[axis]);
    }
    if (target.vector_axis < 0) target.lanes = 0;
    for (size_t i = 0; i < width; ++i) write_scratch(results[i], instruction.results[i], target, values[i]);
  };
  if (across_lanes || vector_axis < 0) {
    for_points(kept, -1, {}, {}, [&](const Point& outer) {
      start();
      for_points_at(outer, walked, across_lanes ? vector_axis : -1, walked_limits, reads, accumulate);
      finish(outer);
    });
  } else {
    // Lanes are kept: each block of lanes walks down the reduced axes.
    for_points(kept, vector_axis, {}, {}, [&](const Point& outer) {
      start();
      for_points_at(outer, walked, -1, walked_limits, reads, accumulate);
      finish(outer);
    });
  }
  for (size_t i = 0; i < width; ++i) scratch_tiles_[instruction.results[i].index] = results[i];
}

std::vector<llvm::Value*> TileEmitter::fold_filled(const Instruction& instruction, std::vector<Value*> lanes,
                                                   Value* filled, unsigned count) {
  // As fold_lanes, but lanes that never saw an element take no part.
  while (count > 1) {
    unsigned half = count / 2;
    std::vector<int> low(half), high(half);
    for (unsigned i = 0; i < half; ++i) {
      low[i] = static_cast<int>(i);
      high[i] = static_cast<int>(half + i);
    }
    std::vector<Value*> left, right;
    for (Value* value : lanes) {
      left.push_back(b_.CreateShuffleVector(value, low));
      right.push_back(b_.CreateShuffleVector(value, high));
    }
    Value *has_left = b_.CreateShuffleVector(filled, low), *has_right = b_.CreateShuffleVector(filled, high);
    std::vector<Value*> joined = combine(instruction, left, right);
    for (size_t i = 0; i < lanes.size(); ++i) {
      lanes[i] = b_.CreateSelect(has_right, b_.CreateSelect(has_left, joined[i], right[i]), left[i]);
    }
    filled = b_.CreateOr(has_left, has_right);
    count = half;
  }
  for (Value*& value : lanes) value = b_.CreateExtractElement(value, uint64_t{0});
  return lanes;
}

void TileEmitter::emit_scan(const Instruction& instruction) {
  size_t width = instruction.operands.size() / 2;
  const std::vector<int64_t>& shape = type(instruction.operands[0]).shape;
  int axis = static_cast<int>(instruction.axes[0]);
  std::vector<ScratchTile> results;
  for (ValueId result : instruction.results) results.push_back(new_scratch(type(result)));
  std::vector<int64_t> kept = shape, walked(shape.size(), 1);
  kept[axis] = 1;
  walked[axis] = shape[axis];
  int vector_axis = last_axis(kept);
  unsigned lanes = vector_axis < 0 ? 0 : lane_count(shape[vector_axis]);
  std::vector<llvm::AllocaInst*> cells;
  for (size_t i = 0; i < width; ++i)
    cells.push_back(entry_alloca(register_type(context_, type(instruction.operands[i]).dtype, lanes)));
  Reads reads{
      {instruction.operands.begin(), instruction.operands.begin() + static_cast<std::ptrdiff_t>(width)}, {}};
  Limits limits = axis_limits(instruction);
  auto carry_point = [&](const Point& point) {
    Point out = point;
    out.axis.erase(out.axis.begin() + axis);
    if (out.vector_axis > axis) --out.vector_axis;
    return out;
  };
  for_points(kept, vector_axis, {}, {}, [&](const Point& outer) {
    for (size_t i = 0; i < width; ++i) {
      Value* carry = eval(instruction.operands[width + i], carry_point(outer));
      b_.CreateStore(splat(carry, lanes), cells[i]);
    }
    for_points_at(outer, walked, -1, limits, reads, [&](const Point& point) {
      std::vector<Value*> old, fresh;
      for (size_t i = 0; i < width; ++i) {
        fresh.push_back(splat(eval(instruction.operands[i], point), lanes));
        old.push_back(b_.CreateLoad(cells[i]->getAllocatedType(), cells[i]));
      }
      std::vector<Value*> joined = combine(instruction, old, fresh);
      for (size_t i = 0; i < width; ++i) {
        write_scratch(results[i], instruction.results[i], point, instruction.exclusive ? old[i] : joined[i]);
        b_.CreateStore(joined[i], cells[i]);
      }
    });
    for (size_t i = 0; i < width; ++i) {
      Value* last = b_.CreateLoad(cells[i]->getAllocatedType(), cells[i]);
      write_scratch(results[width + i], instruction.results[width + i], carry_point(outer), last);
    }
  });
  for (size_t i = 0; i < instruction.results.size(); ++i)
    scratch_tiles_[instruction.results[i].index] = results[i];
}

}  // namespace tilewright
