// Reductions by a block: in each thread, then by shuffles, then through shared memory.  Who folds what
// follows from shapes alone.
#include <algorithm>
#include <bit>

#include "codegen/emit/block_emitter.h"

namespace tilewright {

using tile::Combine;

namespace {

int64_t power_at_least(int64_t value) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(value, 1))));
}
int64_t power_at_most(int64_t value) {
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(value, 1))));
}

bool has(const Ints& list, int axis) { return std::find(list.begin(), list.end(), axis) != list.end(); }

int64_t product(const std::vector<int64_t>& shape) {
  int64_t all = 1;
  for (int64_t size : shape) all *= size;
  return all;
}

constexpr int64_t kMostLanes = 8;
constexpr int64_t kThreadsOfRow = 8;  // at least, so that a row is read in whole lines

}  // namespace

// ---- partial values
// ----------------------------------------------------------------------------------------------------------

bool BlockEmitter::is_known_to_all(const std::vector<int64_t>& shape, const Ints& reduced,
                                   int vector_axis) const {
  if (vector_axis >= 0 && !has(reduced, vector_axis)) return false;
  int64_t rows = 1, steps = 1;
  for (int axis = 0; axis < static_cast<int>(shape.size()); ++axis) {
    (has(reduced, axis) ? steps : rows) *= shape[static_cast<size_t>(axis)];
  }
  return rows == 1 && steps / kMostLanes >= threads_;
}

ScratchTile BlockEmitter::new_fold_tile(ValueId result, bool known_to_all) {
  if (!known_to_all) return new_scratch(type(result));
  ScratchTile tile;
  tile.data = entry_alloca(storage_type(context_, type(result).dtype, 0));
  tile.strides.assign(type(result).shape.size(), 0);
  return tile;
}

void BlockEmitter::start_folds(std::vector<Fold>& folds, unsigned lanes) {
  for (Fold& fold : folds) {
    const tile::Instruction& reduce = *fold.instruction;
    const bool custom = reduce.combine == Combine::Custom;
    for (size_t i = 0; i < reduce.operands.size(); ++i) {
      const DType dtype = type(reduce.operands[i]).dtype;
      llvm::Type* cell = register_type(context_, dtype, lanes);
      if (fold.cells.size() <= i) fold.cells.push_back(entry_alloca(cell));
      b_.CreateStore(
          custom ? llvm::Constant::getNullValue(cell) : splat(identity(reduce.combine, dtype), lanes),
          fold.cells[i]);
    }
    if (!custom) continue;
    llvm::Type* flag =
        lanes ? static_cast<llvm::Type*>(llvm::FixedVectorType::get(b_.getInt1Ty(), lanes)) : b_.getInt1Ty();
    if (!fold.filled) fold.filled = entry_alloca(flag);
    b_.CreateStore(llvm::Constant::getNullValue(flag), fold.filled);
  }
}

void BlockEmitter::accumulate(Fold& fold, std::vector<Value*> values) {
  std::vector<Value*> old;
  for (size_t i = 0; i < values.size(); ++i) {
    llvm::Type* cell = fold.cells[i]->getAllocatedType();
    auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(cell);
    values[i] = splat(values[i], vector ? vector->getNumElements() : 0);
    old.push_back(b_.CreateLoad(cell, fold.cells[i]));
  }
  std::vector<Value*> joined = combine(*fold.instruction, old, values);
  if (fold.filled) {
    llvm::Type* flag = fold.filled->getAllocatedType();
    Value* was = b_.CreateLoad(flag, fold.filled);
    for (size_t i = 0; i < values.size(); ++i) joined[i] = b_.CreateSelect(was, joined[i], values[i]);
    b_.CreateStore(llvm::Constant::getAllOnesValue(flag), fold.filled);
  }
  for (size_t i = 0; i < values.size(); ++i) b_.CreateStore(joined[i], fold.cells[i]);
}

BlockEmitter::Partial BlockEmitter::read_partial(const Fold& fold) {
  Partial partial;
  for (llvm::AllocaInst* cell : fold.cells) partial.push_back(b_.CreateLoad(cell->getAllocatedType(), cell));
  if (fold.filled) partial.push_back(b_.CreateLoad(fold.filled->getAllocatedType(), fold.filled));
  return partial;
}

BlockEmitter::Partial BlockEmitter::join(const Fold& fold, const Partial& left, const Partial& right) {
  if (!fold.filled) return combine(*fold.instruction, left, right);
  Value *has_left = left.back(), *has_right = right.back();
  Partial joined = combine(*fold.instruction, Partial(left.begin(), left.end() - 1),
                           Partial(right.begin(), right.end() - 1));
  for (size_t i = 0; i < joined.size(); ++i) {
    joined[i] = b_.CreateSelect(has_right, b_.CreateSelect(has_left, joined[i], right[i]), left[i]);
  }
  joined.push_back(b_.CreateOr(has_left, has_right));
  return joined;
}

BlockEmitter::Partial BlockEmitter::fold_lanes_of(const Fold& fold, const Partial& partial, unsigned lanes) {
  Partial rest = partial;
  for (unsigned count = lanes; count > 1; count /= 2) {
    std::vector<int> low, high;
    for (unsigned i = 0; i < count / 2; ++i) {
      low.push_back(static_cast<int>(i));
      high.push_back(static_cast<int>(count / 2 + i));
    }
    Partial left, right;
    for (Value* value : rest) {
      left.push_back(b_.CreateShuffleVector(value, low));
      right.push_back(b_.CreateShuffleVector(value, high));
    }
    rest = join(fold, left, right);
  }
  if (lanes == 0) return rest;
  for (Value*& value : rest) value = b_.CreateExtractElement(value, uint64_t{0});
  return rest;
}

BlockEmitter::PartialArea BlockEmitter::new_area(const Partial& like, int64_t slots) {
  PartialArea area;
  for (Value* value : like) {
    llvm::Type* stored = value->getType();
    area.types.push_back(stored);
    if (stored->getScalarType()->isIntegerTy(1)) stored = stored->getWithNewType(b_.getInt8Ty());
    area.stored.push_back(stored);
    int64_t bytes =
        static_cast<int64_t>(context_.module.getDataLayout().getTypeAllocSize(stored).getFixedValue());
    area.data.push_back(new_scratch_bytes(bytes * slots));
  }
  return area;
}

void BlockEmitter::write_area(const PartialArea& area, Value* slot, const Partial& partial) {
  for (size_t i = 0; i < partial.size(); ++i) {
    Value* value = partial[i];
    if (area.types[i] != area.stored[i]) value = b_.CreateZExt(value, area.stored[i]);
    b_.CreateStore(value, b_.CreateGEP(area.stored[i], area.data[i], slot));
  }
}

BlockEmitter::Partial BlockEmitter::read_area(const PartialArea& area, Value* slot) {
  Partial partial;
  for (size_t i = 0; i < area.data.size(); ++i) {
    Value* value = b_.CreateLoad(area.stored[i], b_.CreateGEP(area.stored[i], area.data[i], slot));
    if (area.types[i] != area.stored[i]) {
      value = b_.CreateICmpNE(value, llvm::Constant::getNullValue(area.stored[i]));
    }
    partial.push_back(value);
  }
  return partial;
}

void BlockEmitter::write_results(const Fold& fold, const Point& point, const Ints& reduced,
                                 const Partial& partial) {
  Point target;
  target.is_whole = point.is_whole;
  target.lanes = point.lanes;
  for (int axis = 0; axis < static_cast<int>(point.axis.size()); ++axis) {
    if (has(reduced, axis)) continue;
    if (axis == point.vector_axis) target.vector_axis = static_cast<int>(target.axis.size());
    target.axis.push_back(point.axis[static_cast<size_t>(axis)]);
  }
  if (target.vector_axis < 0) target.lanes = 0;
  for (size_t i = 0; i < fold.results.size(); ++i) {
    write_scratch(fold.results[i], fold.instruction->results[i], target, partial[i]);
  }
}

// ---- loops
// ------------------------------------------------------------------------------------------------------------------

void BlockEmitter::emit_folds(const std::vector<int64_t>& shape, const Ints& reduced, int vector_axis,
                              const Limits& limits, const Reads& reads, int unroll, std::vector<Fold>& folds,
                              const GroupBody& visit) {
  by_version(choose_lanes(shape, vector_axis, limits, reads, product(shape)), [&](unsigned lanes) {
    for (Fold& fold : folds) {
      fold.cells.clear();
      fold.filled = nullptr;
    }
    if (vector_axis < 0 || has(reduced, vector_axis)) {
      emit_row_folds(shape, reduced, vector_axis, lanes, limits, unroll, folds, visit);
    } else {
      emit_column_folds(shape, reduced, vector_axis, lanes, limits, unroll, folds, visit);
    }
  });
}

BlockEmitter::SplitAxes BlockEmitter::split_axes(const std::vector<int64_t>& shape, const Ints& reduced,
                                                 const Limits& limits) {
  SplitAxes split{shape, {}, shape, {}};
  for (int axis = 0; axis < static_cast<int>(shape.size()); ++axis) {
    const bool is_reduced = has(reduced, axis);
    (is_reduced ? split.kept : split.walked)[static_cast<size_t>(axis)] = 1;
    auto limit = limits.find(axis);
    if (limit != limits.end()) (is_reduced ? split.walked_limits : split.kept_limits)[axis] = limit->second;
  }
  return split;
}

void BlockEmitter::walk_share(const Share& share, const Point& outer, const std::vector<int64_t>& walked,
                              const Limits& limits, int unroll, const GroupBody& visit) {
  auto point_of = [&](Value* step) {
    Point point = outer;
    place(step, walked, walk_order(walked, share.vector_axis), share.lanes, share.vector_axis, point);
    return point;
  };
  if (share.steps % share.sharers == 0 && limits.empty()) {
    for_steps(b_.getInt32(0), share.steps, share.sharers, unroll, [&](const std::vector<Value*>& firsts) {
      std::vector<Point> points;
      for (Value* first : firsts) points.push_back(point_of(b_.CreateAdd(first, share.first)));
      visit(points);
    });
    return;
  }
  for_loop(share.first, b_.getInt32(static_cast<uint32_t>(share.steps)),
           b_.getInt32(static_cast<uint32_t>(share.sharers)), [&](Value* step) {
             memo_.clear();
             Point point = point_of(step);
             Value* inside = within(point, limits);
             if (inside) {
               if_then(inside, [&] { visit({point}); });
             } else {
               visit({point});
             }
             memo_.clear();
           });
}

// Neighbouring threads share a row.
void BlockEmitter::emit_row_folds(const std::vector<int64_t>& shape, const Ints& reduced, int vector_axis,
                                  unsigned lanes, const Limits& limits, int unroll, std::vector<Fold>& folds,
                                  const GroupBody& visit) {
  const auto [kept, kept_limits, walked, walked_limits] = split_axes(shape, reduced, limits);
  const int64_t rows = product(kept), steps = product(walked) / std::max(1u, lanes);
  const int64_t group = std::min({std::max(threads_ / power_at_least(rows), kThreadsOfRow),
                                  power_at_least(steps), static_cast<int64_t>(threads_)});
  const int64_t together = threads_ / group;  // rows
  Value* in_group = b_.CreateAnd(thread_, b_.getInt32(static_cast<uint32_t>(group - 1)));
  Value* own_row = b_.CreateUDiv(thread_, b_.getInt32(static_cast<uint32_t>(group)));
  auto run = [&](Value* first_row) {
    memo_.clear();
    Value* row = b_.CreateAdd(first_row, own_row);
    Point outer;
    outer.axis.assign(shape.size(), i64(0));
    place(row, kept, walk_order(kept, -1), 0, -1, outer);
    Value* active = within(outer, kept_limits);
    if (rows % together != 0) {
      Value* exists = b_.CreateICmpSLT(row, b_.getInt32(static_cast<uint32_t>(rows)));
      active = active ? b_.CreateAnd(active, exists) : exists;
    }
    start_folds(folds, lanes);
    auto walk = [&] {
      walk_share({in_group, group, steps, vector_axis, lanes}, outer, walked, walked_limits, unroll, visit);
    };
    if (active) {
      if_then(active, walk);
    } else {
      walk();
    }
    std::vector<Partial> partials;
    for (Fold& fold : folds) {
      Partial partial = fold_lanes_of(fold, read_partial(fold), lanes);
      for (int64_t reach = 1; reach < std::min<int64_t>(group, 32); reach *= 2) {
        Partial other;
        for (Value* value : partial) other.push_back(ops_.shuffle_xor(value, static_cast<uint32_t>(reach)));
        if (!fold.filled) {
          partial = join(fold, partial, other);
          continue;
        }
        Value* bit = b_.CreateAnd(thread_, b_.getInt32(static_cast<uint32_t>(reach)));
        Value* is_left = b_.CreateICmpEQ(bit, b_.getInt32(0));
        Partial left, right;
        for (size_t i = 0; i < partial.size(); ++i) {
          left.push_back(b_.CreateSelect(is_left, partial[i], other[i]));
          right.push_back(b_.CreateSelect(is_left, other[i], partial[i]));
        }
        partial = join(fold, left, right);
      }
      partials.push_back(std::move(partial));
    }
    Value* leads = b_.CreateICmpEQ(in_group, b_.getInt32(0));
    if (active) leads = b_.CreateAnd(leads, active);
    std::vector<PartialArea> areas;
    const int64_t warps = group / 32;
    if (group > 32) {
      Value* warp = b_.CreateZExt(b_.CreateLShr(thread_, 5), b_.getInt64Ty());
      Value* first_lane = b_.CreateICmpEQ(b_.CreateAnd(thread_, b_.getInt32(31)), b_.getInt32(0));
      for (const Partial& partial : partials) areas.push_back(new_area(partial, threads_ / 32));
      if_then(first_lane, [&] {
        for (size_t i = 0; i < partials.size(); ++i) write_area(areas[i], warp, partials[i]);
      });
      ops_.barrier();
    }
    auto finish = [&] {
      for (size_t f = 0; f < folds.size(); ++f) {
        Partial total = partials[f];
        if (group > 32) {
          Value* first_thread = b_.CreateSub(thread_, in_group);
          Value* first = b_.CreateZExt(b_.CreateLShr(first_thread, 5), b_.getInt64Ty());
          std::vector<Partial> parts;
          for (int64_t w = 0; w < warps; ++w)
            parts.push_back(read_area(areas[f], b_.CreateAdd(first, i64(w))));
          for (; parts.size() > 1;) {
            std::vector<Partial> half;
            for (size_t i = 0; i < parts.size(); i += 2)
              half.push_back(join(folds[f], parts[i], parts[i + 1]));
            parts = std::move(half);
          }
          total = parts[0];
        }
        write_results(folds[f], outer, reduced, total);
      }
    };
    if (is_known_to_all(shape, reduced, vector_axis)) {
      finish();
    } else {
      if_then(leads, finish);
    }
    if (group > 32 && rows > together) ops_.barrier();
    memo_.clear();
  };
  if (rows <= together) {
    run(b_.getInt32(0));
  } else {
    for_loop(b_.getInt32(0), b_.getInt32(static_cast<uint32_t>(rows)),
             b_.getInt32(static_cast<uint32_t>(together)), run);
  }
}

// Neighbouring threads have neighbouring columns; several rows of threads share the walk.
void BlockEmitter::emit_column_folds(const std::vector<int64_t>& shape, const Ints& reduced, int vector_axis,
                                     unsigned lanes, const Limits& limits, int unroll,
                                     std::vector<Fold>& folds, const GroupBody& visit) {
  const auto [kept, kept_limits, walked, walked_limits] = split_axes(shape, reduced, limits);
  const int64_t columns = product(kept) / std::max(1u, lanes), steps = product(walked);
  const int64_t together = std::min<int64_t>(power_at_least(columns), threads_);
  const int64_t sharers = std::min<int64_t>(threads_ / together, power_at_most(steps));
  Value* own_column = b_.CreateAnd(thread_, b_.getInt32(static_cast<uint32_t>(together - 1)));
  Value* share = b_.CreateUDiv(thread_, b_.getInt32(static_cast<uint32_t>(together)));
  auto run = [&](Value* first_column) {
    memo_.clear();
    Value* column = b_.CreateAdd(first_column, own_column);
    Point outer;
    outer.axis.assign(shape.size(), i64(0));
    place(column, kept, walk_order(kept, vector_axis), lanes, vector_axis, outer);
    Value* active = within(outer, kept_limits);
    auto also = [&](Value* condition) { active = active ? b_.CreateAnd(active, condition) : condition; };
    if (columns % together != 0) also(b_.CreateICmpSLT(column, b_.getInt32(static_cast<uint32_t>(columns))));
    Value* owns = active;
    if (together * sharers < threads_) {
      Value* takes_part = b_.CreateICmpSLT(share, b_.getInt32(static_cast<uint32_t>(sharers)));
      also(takes_part);
    }
    start_folds(folds, lanes);
    auto walk = [&] {
      walk_share({share, sharers, steps, -1, 0}, outer, walked, walked_limits, unroll, visit);
    };
    if (active) {
      if_then(active, walk);
    } else {
      walk();
    }
    std::vector<Partial> partials;
    for (Fold& fold : folds) partials.push_back(read_partial(fold));
    Value* leads = owns;
    std::vector<PartialArea> areas;
    if (sharers > 1) {
      for (const Partial& partial : partials) areas.push_back(new_area(partial, threads_));
      Value* slot = b_.CreateZExt(thread_, b_.getInt64Ty());
      for (size_t i = 0; i < partials.size(); ++i) write_area(areas[i], slot, partials[i]);
      ops_.barrier();
    }
    if (together < threads_) {
      Value* is_first = b_.CreateICmpEQ(share, b_.getInt32(0));
      leads = leads ? b_.CreateAnd(leads, is_first) : is_first;
    }
    auto finish = [&] {
      for (size_t f = 0; f < folds.size(); ++f) {
        std::vector<Partial> parts{partials[f]};
        for (int64_t s = 1; s < sharers; ++s) {
          Value* slot = b_.CreateZExt(
              b_.CreateAdd(own_column, b_.getInt32(static_cast<uint32_t>(s * together))), b_.getInt64Ty());
          parts.push_back(read_area(areas[f], slot));
        }
        for (; parts.size() > 1;) {
          std::vector<Partial> half;
          for (size_t i = 0; i + 1 < parts.size(); i += 2)
            half.push_back(join(folds[f], parts[i], parts[i + 1]));
          if (parts.size() % 2 != 0) half.push_back(parts.back());
          parts = std::move(half);
        }
        write_results(folds[f], outer, reduced, parts[0]);
      }
    };
    if (leads) {
      if_then(leads, finish);
    } else {
      finish();
    }
    if (sharers > 1 && columns > together) ops_.barrier();
    memo_.clear();
  };
  if (columns <= together) {
    run(b_.getInt32(0));
  } else {
    for_loop(b_.getInt32(0), b_.getInt32(static_cast<uint32_t>(columns)),
             b_.getInt32(static_cast<uint32_t>(together)), run);
  }
}

}  // namespace tilewright
