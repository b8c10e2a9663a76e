// Steps: the loop nests in which stores, kept values and reductions of one shape are evaluated together.
#include <algorithm>

#include "codegen/emit/packing.h"
#include "codegen/emit/partial_memory.h"
#include "codegen/emit/tile_emitter.h"

namespace tilewright {

using tile::Combine;
using tile::Instruction;
using tile::Opcode;

// What one step's loops work on.
struct TileEmitter::StepState {
  const TileStep& step;
  int vector_axis;
  int unroll;
  std::vector<ScratchTile> tiles;                     // by root: of kept values and of sums
  std::vector<std::vector<llvm::AllocaInst*>> cells;  // by root: running sums, one a point of a group
  std::vector<bool> is_sum;
  bool is_streaming = false;
};

TileEmitter::Limits TileEmitter::limit_values(const std::map<int, Dim>& limits,
                                              const std::vector<int64_t>& shape) {
  Limits out;
  for (const auto& [axis, limit] : limits) {
    out[axis] = {dim(Dim::max(Dim::min(limit, Dim(shape[axis])), Dim(0))), limit};
  }
  return out;
}

// ---- choices
// ---------------------------------------------------------------------------------------------------------------

void TileEmitter::visit_loads(ValueId value, const Point& probe,
                              const std::function<void(const Instruction&, const Point&)>& found,
                              std::set<std::vector<const void*>>& seen) {
  const Instruction* source = plan_.definition(value);
  bool is_load = source && source->opcode == Opcode::Load;
  if (!source || (!plan_.is_lazy(*source) && !is_load) || scratch_tiles_.count(value.index)) return;
  std::vector<const void*> key{reinterpret_cast<const void*>(static_cast<uintptr_t>(value.index) + 1)};
  key.insert(key.end(), probe.axis.begin(), probe.axis.end());
  if (!seen.insert(std::move(key)).second) return;
  if (is_load) found(*source, probe);
  for (ValueId operand : TilePlan::read_values(*source)) {
    if (source->opcode == Opcode::RngBits && operand == source->operands[0]) continue;
    visit_loads(operand, operand_point(*source, operand, probe), found, seen);
  }
}

// The axis along which most accesses are contiguous; the last one if that says nothing.
int TileEmitter::choose_vector_axis(const TileStep& step) {
  int last = last_axis(step.shape);
  if (last < 0) return last;
  // Each axis of the step has a number of its own, so that it is recognised at the loads.
  Point probe;
  for (size_t i = 0; i < step.shape.size(); ++i) probe.axis.push_back(i64(1000 + static_cast<int64_t>(i)));
  std::vector<int> score(step.shape.size(), 0);
  auto rate = [&](const tile::Access& access, const Point& at, int worth) {
    const ParamInfo& param = params_[access.param];
    std::map<int64_t, bool> contiguous;  // by number of the step's axis
    for (size_t d = 0; d < access.index.size(); ++d) {
      auto* stride = llvm::dyn_cast<llvm::ConstantInt>(param.strides[d]);
      for (const tile::AxisTerm& term : access.index[d].terms) {
        int64_t number = llvm::cast<llvm::ConstantInt>(at.axis[term.axis])->getSExtValue();
        bool is_unit = stride && stride->getSExtValue() * term.coefficient == 1;
        auto known = contiguous.find(number);
        contiguous[number] = is_unit && (known == contiguous.end());
      }
    }
    for (const auto& [number, is_unit] : contiguous) {
      if (number < 1000) continue;
      size_t axis = static_cast<size_t>(number - 1000);
      score[axis] += is_unit ? worth : -worth;
    }
  };
  std::set<std::vector<const void*>> seen;
  for (const TileRoot& root : step.roots) {
    visit_loads(
        root.value, probe, [&](const Instruction& load, const Point& at) { rate(load.access, at, 2); }, seen);
    if (!root.is_kept && root.instruction->opcode == Opcode::Store) rate(root.instruction->access, probe, 3);
  }
  score[static_cast<size_t>(last)] += 1;
  int best = last;
  for (int axis = 0; axis < static_cast<int>(step.shape.size()); ++axis) {
    if (step.shape[axis] > 1 && score[axis] > score[best]) best = axis;
  }
  return best;
}

// Points in flight: enough to hide latency, few where each is long.  Depends on the program alone: the order
// of sums does.
int TileEmitter::choose_unroll(const TileStep& step, int vector_axis) const {
  if (vector_axis < 0) return 1;
  int weight = 0;
  for (const TileRoot& root : step.roots) weight += plan_.weight(root.value) + 1;
  int unroll = weight <= 10 ? 4 : weight <= 32 ? 2 : 1;
  int64_t vectors = (step.shape[vector_axis] + kLanes - 1) / kLanes;
  while (unroll > 1 && vectors % unroll != 0) unroll /= 2;
  return unroll;
}

// ---- loads that run across the vector axis
// ---------------------------------------------------------------------------------

void TileEmitter::stage_transposed_loads(const TileStep& step, int vector_axis) {
  if (vector_axis < 0 || step.shape[vector_axis] < 8) return;
  Point probe;
  for (size_t i = 0; i < step.shape.size(); ++i) probe.axis.push_back(i64(1000 + static_cast<int64_t>(i)));
  std::vector<std::pair<const Instruction*, std::pair<int, int>>> staged;
  auto look = [&](const Instruction& load, const Point& at) {
    const ParamInfo& param = params_[load.access.param];
    const std::vector<int64_t>& shape = type(load.results[0]).shape;
    if (!plan_.is_lazy(load)) return;
    int across = -1, contiguous = -1;
    for (size_t d = 0; d < load.access.index.size(); ++d) {
      const tile::DimIndex& index = load.access.index[d];
      if (index.tile.is_valid()) return;
      auto* stride = llvm::dyn_cast<llvm::ConstantInt>(param.strides[d]);
      for (const tile::AxisTerm& term : index.terms) {
        bool is_vector = at.axis[term.axis] == probe.axis[vector_axis];
        bool is_unit = stride && stride->getSExtValue() * term.coefficient == 1 && index.terms.size() == 1;
        if (is_vector && is_unit) return;  // contiguous already
        if (is_vector) across = term.axis;
        if (is_unit) contiguous = term.axis;
      }
    }
    if (across < 0 || contiguous < 0 || across == contiguous || shape[contiguous] < 8) return;
    staged.push_back({&load, {across, contiguous}});
  };
  std::set<std::vector<const void*>> seen;
  for (const TileRoot& root : step.roots) visit_loads(root.value, probe, look, seen);
  for (const auto& [load, axes] : staged) {
    if (!scratch_tiles_.count(load->results[0].index)) emit_transposed_load(*load, axes.first, axes.second);
  }
}

// Some rows by a vector of columns turn in registers on their way to scratch.
void TileEmitter::emit_transposed_load(const Instruction& load, int vector_axis, int contiguous_axis) {
  ValueId value = load.results[0];
  const std::vector<int64_t>& shape = type(value).shape;
  const DType dtype = type(value).dtype;
  const int64_t rows = shape[vector_axis], columns = shape[contiguous_axis],
                group = transpose_group(dtype_bytes(dtype));
  ScratchTile tile;
  auto padded = [](int64_t size) { return (size + kLanes - 1) / kLanes * kLanes; };
  tile.strides.assign(shape.size(), 0);
  tile.strides[vector_axis] = 1;
  tile.strides[contiguous_axis] = padded(rows);
  int64_t elements = padded(rows) * padded(columns);
  std::vector<int64_t> outer = shape;
  outer[vector_axis] = outer[contiguous_axis] = 1;
  for (int axis = static_cast<int>(shape.size()) - 1; axis >= 0; --axis) {
    if (axis == vector_axis || axis == contiguous_axis) continue;
    tile.strides[axis] = elements;
    elements *= shape[axis];
  }
  tile.is_padded = true;
  tile.data = new_scratch_bytes(elements * dtype_bytes(dtype));
  llvm::Type* stored = storage_type(context_, dtype, 0);
  for_points(outer, -1, {}, {}, [&](const Point& base) {
    for_loop(i64(0), i64(rows), i64(group), [&](Value* row) {
      for_loop(i64(0), i64(columns), i64(kLanes), [&](Value* column) {
        Point corner = base;
        corner.vector_axis = contiguous_axis;
        corner.lanes = kLanes;
        corner.axis[contiguous_axis] = column;
        auto run = [&](bool is_inside) {
          std::vector<Value*> vectors;
          for (int64_t i = 0; i < group; ++i) {
            Point at = corner;
            memo_.clear();
            Value* index = b_.CreateAdd(row, i64(i));
            if (rows % group != 0) {  // rows beyond the tile repeat its last
              index = b_.CreateSelect(b_.CreateICmpSLT(index, i64(rows)), index, i64(rows - 1));
            }
            at.axis[vector_axis] = index;
            at.inside = is_inside;
            vectors.push_back(to_storage(context_, dtype, splat(eval_load(load, at), kLanes)));
          }
          std::vector<Value*> pieces = emit_transpose(context_, vectors);
          Value* offset = row;
          for (size_t axis = 0; axis < shape.size(); ++axis) {
            if (static_cast<int>(axis) == vector_axis) continue;
            Value* index = static_cast<int>(axis) == contiguous_axis ? column : base.axis[axis];
            offset = b_.CreateAdd(offset, b_.CreateMul(index, i64(tile.strides[axis])));
          }
          for (unsigned i = 0; i < kLanes; ++i) {
            Value* to = b_.CreateInBoundsGEP(stored, tile.data,
                                             {b_.CreateAdd(offset, i64(i * tile.strides[contiguous_axis]))});
            llvm::StoreInst* written =
                b_.CreateAlignedStore(pieces[i], to, llvm::Align(static_cast<uint64_t>(dtype_bytes(dtype))));
            tag_param(written, static_cast<int>(kernel_.params.size()));
          }
          memo_.clear();
        };
        // The block is inside when its first and last rows and columns are.
        memo_.clear();
        Value* is_inside = nullptr;
        Point low = corner, high = corner;
        low.axis[vector_axis] = row;
        high.axis[vector_axis] = b_.CreateAdd(row, i64(group - 1));
        add_access_inside(load.access, shape, low, is_inside);
        add_access_inside(load.access, shape, high, is_inside);
        bool is_whole = rows % group == 0 && columns % kLanes == 0;
        if (is_whole && !is_inside) {
          run(true);
          return;
        }
        if (!is_whole) {
          Value* rows_fit = b_.CreateICmpSLE(row, i64(rows - group));
          Value* columns_fit = b_.CreateICmpSLE(column, i64(columns - kLanes));
          Value* is_full = b_.CreateAnd(rows_fit, columns_fit);
          is_inside = is_inside ? b_.CreateAnd(is_inside, is_full) : is_full;
        }
        branch(
            is_inside, [&] { run(true); },
            [&] {
              corner.mask = mask_of_first(context_, kLanes, b_.CreateSub(i64(columns), column));
              run(false);
            });
      });
    });
  });
  scratch_tiles_[value.index] = tile;
}

// ---- loops
// -----------------------------------------------------------------------------------------------------------------

void TileEmitter::emit_step(const TileStep& step) {
  int vector_axis = choose_vector_axis(step);
  stage_transposed_loads(step, vector_axis);
  StepState state{step, vector_axis, choose_unroll(step, vector_axis), {}, {}, {}, false};
  Reads reads;
  for (const TileRoot& root : step.roots) {
    bool is_sum = !root.is_kept && root.instruction->opcode == Opcode::Reduce;
    bool is_store = !root.is_kept && root.instruction->opcode == Opcode::Store;
    state.is_sum.push_back(is_sum);
    reads.values.push_back(root.value);
    if (is_store) reads.stores.push_back(root.instruction);
    ValueId carry = root.is_kept ? plan_.carry_of(root.value) : ValueId{};
    state.tiles.push_back(is_store           ? ScratchTile{}
                          : carry.is_valid() ? scratch_tiles_.at(carry.index)
                                             : new_scratch(type(root.instruction->results[0])));
    state.cells.emplace_back();
    if (!is_sum) continue;
    unsigned lanes = vector_axis < 0 ? 0 : lane_count(step.shape[vector_axis]);
    for (int u = 0; u < state.unroll; ++u) {
      state.cells.back().push_back(entry_alloca(register_type(context_, type(root.value).dtype, lanes)));
    }
  }
  in_step_ = true;
  Limits limits = limit_values(step.limits, step.shape);
  Value* can_stream = streaming_condition(step, vector_axis);
  if (can_stream) {
    branch(
        can_stream,
        [&] {
          state.is_streaming = true;
          emit_loops(state, limits, reads);
        },
        [&] {
          state.is_streaming = false;
          emit_loops(state, limits, reads);
        });
  } else {
    emit_loops(state, limits, reads);
  }
  in_step_ = false;
  fetched_.merge(fetched_now_);
  fetched_now_.clear();
  for (size_t i = 0; i < step.roots.size(); ++i) {
    if (state.tiles[i].data) scratch_tiles_[step.roots[i].instruction->results[0].index] = state.tiles[i];
  }
}

void TileEmitter::emit_loops(StepState& state, const Limits& limits, const Reads& reads) {
  const TileStep& step = state.step;
  if (step.reduced.empty()) {
    Point origin;
    origin.axis.assign(step.shape.size(), i64(0));
    origin.is_streaming = state.is_streaming;
    for_groups_at(origin, step.shape, state.vector_axis, limits, reads, state.unroll,
                  [&](const std::vector<Point>& group) { run_roots(state, group); });
    return;
  }
  bool is_row = state.vector_axis < 0 ||
                std::find(step.reduced.begin(), step.reduced.end(), state.vector_axis) != step.reduced.end();
  if (is_row) {
    emit_row_sums(state, limits, reads);
  } else {
    emit_column_sums(state, limits, reads);
  }
}

// Every root at every point of the group: first all values, then what is written.
void TileEmitter::run_roots(StepState& state, const std::vector<Point>& group) {
  for (size_t u = 0; u < group.size(); ++u) {
    const Point& point = group[u];
    std::vector<Value*> values;
    for (const TileRoot& root : state.step.roots) values.push_back(eval(root.value, point));
    for (size_t i = 0; i < values.size(); ++i) {
      const TileRoot& root = state.step.roots[i];
      if (root.is_kept) {
        write_scratch(state.tiles[i], root.value, point, values[i]);
      } else if (state.is_sum[i]) {
        llvm::AllocaInst* cell = state.cells[i][u];
        Value* old = b_.CreateLoad(cell->getAllocatedType(), cell);
        Value* joined = combine(*root.instruction, {old}, {splat(values[i], point.lanes)})[0];
        if (point.mask) joined = b_.CreateSelect(point.mask, joined, old);
        b_.CreateStore(joined, cell);
      }
    }
    for (size_t i = 0; i < values.size(); ++i) {
      const TileRoot& root = state.step.roots[i];
      if (!root.is_kept && !state.is_sum[i]) emit_store(*root.instruction, point, values[i]);
    }
  }
}

void TileEmitter::start_sums(StepState& state) {
  for (size_t i = 0; i < state.cells.size(); ++i) {
    for (llvm::AllocaInst* cell : state.cells[i]) {
      const Instruction& reduce = *state.step.roots[i].instruction;
      DType dtype = type(reduce.operands[0]).dtype;
      auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(cell->getAllocatedType());
      b_.CreateStore(splat(identity(reduce.combine, dtype), vector ? vector->getNumElements() : 0), cell);
    }
  }
}

// The sums of the group's points go to their tiles; across lanes they are folded first, in a fixed tree.
void TileEmitter::finish_sums(StepState& state, const std::vector<Point>& group) {
  const TileStep& step = state.step;
  auto is_reduced = [&](int axis) {
    return std::find(step.reduced.begin(), step.reduced.end(), axis) != step.reduced.end();
  };
  bool is_row = state.vector_axis < 0 || is_reduced(state.vector_axis);
  for (size_t i = 0; i < step.roots.size(); ++i) {
    if (!state.is_sum[i]) continue;
    const Instruction& reduce = *step.roots[i].instruction;
    std::vector<Value*> sums;
    for (llvm::AllocaInst* cell : state.cells[i])
      sums.push_back(b_.CreateLoad(cell->getAllocatedType(), cell));
    if (is_row) {
      while (sums.size() > 1) {
        std::vector<Value*> half;
        for (size_t k = 0; k < sums.size() / 2; ++k) {
          half.push_back(combine(reduce, {sums[k]}, {sums[k + sums.size() / 2]})[0]);
        }
        sums = half;
      }
      if (auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(sums[0]->getType())) {
        sums = fold_lanes(reduce, sums, vector->getNumElements());
      }
    }
    for (size_t u = 0; u < (is_row ? 1 : group.size()); ++u) {
      Point target;
      target.inside = true;
      target.lanes = is_row ? 0 : group[u].lanes;
      target.mask = is_row ? nullptr : group[u].mask;
      for (int axis = 0; axis < static_cast<int>(step.shape.size()); ++axis) {
        if (is_reduced(axis)) continue;
        if (axis == state.vector_axis && !is_row) target.vector_axis = static_cast<int>(target.axis.size());
        target.axis.push_back(group[u].axis[axis]);
      }
      if (target.vector_axis < 0) target.lanes = 0;
      write_scratch(state.tiles[i], reduce.results[0], target, sums[u]);
    }
  }
}

// Lanes run along a reduced axis.
void TileEmitter::emit_row_sums(StepState& state, const Limits& limits, const Reads& reads) {
  const TileStep& step = state.step;
  std::vector<int64_t> kept = step.shape, walked = step.shape;
  Limits kept_limits, walked_limits;
  for (int axis = 0; axis < static_cast<int>(step.shape.size()); ++axis) {
    bool is_reduced = std::find(step.reduced.begin(), step.reduced.end(), axis) != step.reduced.end();
    (is_reduced ? kept : walked)[axis] = 1;
    auto limit = limits.find(axis);
    if (limit != limits.end()) (is_reduced ? walked_limits : kept_limits)[axis] = limit->second;
  }
  for_points(kept, -1, kept_limits, {}, [&](const Point& outer) {
    start_sums(state);
    Point start = outer;
    start.is_streaming = state.is_streaming;
    for_groups_at(start, walked, state.vector_axis, walked_limits, reads, state.unroll,
                  [&](const std::vector<Point>& group) { run_roots(state, group); });
    finish_sums(state, {outer});
  });
}

// Lanes are kept: each group of lanes walks down the reduced axes.
void TileEmitter::emit_column_sums(StepState& state, const Limits& limits, const Reads& reads) {
  const TileStep& step = state.step;
  std::vector<int64_t> kept = step.shape, walked = step.shape;
  Limits kept_limits, walked_limits;
  for (int axis = 0; axis < static_cast<int>(step.shape.size()); ++axis) {
    bool is_reduced = std::find(step.reduced.begin(), step.reduced.end(), axis) != step.reduced.end();
    (is_reduced ? kept : walked)[axis] = 1;
    auto limit = limits.find(axis);
    if (limit != limits.end()) (is_reduced ? walked_limits : kept_limits)[axis] = limit->second;
  }
  Point origin;
  origin.axis.assign(step.shape.size(), i64(0));
  origin.is_streaming = state.is_streaming;
  for_groups_at(origin, kept, state.vector_axis, kept_limits, {}, state.unroll,
                [&](const std::vector<Point>& group) {
                  start_sums(state);
                  for_points_at(group[0], walked, -1, walked_limits, {}, [&](const Point& walk) {
                    std::vector<Point> points = group;
                    for (Point& point : points) {
                      for (int axis : step.reduced) point.axis[axis] = walk.axis[axis];
                    }
                    auto run = [&](bool is_inside) {
                      for (Point& point : points) point.inside = is_inside;
                      memo_.clear();
                      run_roots(state, points);
                      memo_.clear();
                    };
                    memo_.clear();
                    Value* is_inside = nullptr;
                    for (const Point& point : points) {
                      Value* each = all_inside(reads, point);
                      if (each) is_inside = is_inside ? b_.CreateAnd(is_inside, each) : each;
                    }
                    if (points[0].mask || !is_inside) {
                      run(!is_inside && !points[0].mask);
                    } else {
                      branch(is_inside, [&] { run(true); }, [&] { run(false); });
                    }
                  });
                  finish_sums(state, group);
                });
}

}  // namespace tilewright
