// Levels of roots, what is kept, and how far loops go.
#include "codegen/emit/tile_plan.h"

#include <algorithm>
#include <functional>

namespace tilewright {

using tile::Instruction;
using tile::Opcode;

namespace {

constexpr int kKeepWeight = 6;   // cheaper values are computed again at each use
constexpr int kSmallWeight = 2;  // of values that are evaluated at many times their own points
constexpr int64_t kManyTimes = 8;
constexpr int kMaxWeight = 1000;
constexpr size_t kMaxRoots = 64;  // of a loop nest

int op_weight(Op op) {
  switch (op) {
    case Op::Exponential:
    case Op::ExponentialMinusOne:
    case Op::Log:
    case Op::LogPlusOne:
    case Op::Sine:
    case Op::Cosine:
    case Op::Tan:
    case Op::Tanh:
    case Op::Logistic:
    case Op::Erf:
    case Op::ErfInv:
    case Op::Lgamma:
    case Op::Digamma:
    case Op::Cbrt:
    case Op::Power:
    case Op::Atan2:
    case Op::Remainder: return 20;
    case Op::Divide:
    case Op::Sqrt:
    case Op::Rsqrt: return 5;
    default: return 1;
  }
}

int own_weight(const Instruction& instruction) {
  switch (instruction.opcode) {
    case Opcode::Elementwise: return op_weight(instruction.op);
    case Opcode::RngBits: return 40;
    case Opcode::Load:
      return std::any_of(instruction.access.index.begin(), instruction.access.index.end(),
                         [](const tile::DimIndex& index) { return index.tile.is_valid(); })
                 ? 8
                 : 1;
    case Opcode::Const:
    case Opcode::Index:
    case Opcode::Broadcast:
    case Opcode::Transpose:
    case Opcode::Reshape: return 0;
    default: return 1;
  }
}

std::vector<int64_t> without_ones(const std::vector<int64_t>& shape) {
  std::vector<int64_t> kept;
  for (int64_t size : shape) {
    if (size != 1) kept.push_back(size);
  }
  return kept;
}

bool has_index_tile(const tile::Access& access) {
  return std::any_of(access.index.begin(), access.index.end(),
                     [](const tile::DimIndex& index) { return index.tile.is_valid(); });
}

bool has_blocks_of_its_own(const Instruction& instruction) {
  return instruction.opcode == Opcode::For || instruction.opcode == Opcode::If;
}

}  // namespace

struct TilePlan::Draft {
  TileRoot root;
  std::vector<int64_t> shape;
  Ints reduced;
  Limits limits;
  int level = 0;
};

std::vector<ValueId> TilePlan::read_values(const Instruction& instruction) {
  std::vector<ValueId> values = instruction.operands;
  for (const tile::DimIndex& index : instruction.access.index) {
    if (index.tile.is_valid()) values.push_back(index.tile);
  }
  return values;
}

bool TilePlan::is_lazy(const Instruction& instruction) const {
  switch (instruction.opcode) {
    case Opcode::Elementwise:
    case Opcode::Const:
    case Opcode::Index:
    case Opcode::Broadcast:
    case Opcode::Transpose:
    case Opcode::RngBits: return true;
    case Opcode::Load: return kernel_.params[instruction.access.param].mode == tile::AccessMode::Read;
    case Opcode::Reshape:
      return without_ones(kernel_.type(instruction.operands[0]).shape) ==
             without_ones(kernel_.type(instruction.results[0]).shape);
    default: return false;
  }
}

// Steps of their own: what is no loop over independent points, or has an order.
bool TilePlan::is_alone(const Instruction& instruction) const {
  if (instruction.opcode == Opcode::Store) {
    return instruction.store != tile::StoreKind::Set || has_index_tile(instruction.access);
  }
  return instruction.opcode != Opcode::Reduce || instruction.combine == tile::Combine::Custom;
}

void TilePlan::add_range(const Instruction& loop) {
  Symbol range{loop.symbol, INT64_MIN, INT64_MAX, {}};
  range.min = loop.from.range(ranges_).min;
  Interval end = loop.to.range(ranges_);
  if (end.max != INT64_MAX) range.max = end.max - 1;
  if (loop.from.is_constant() && loop.step.is_constant() && end.min == end.max && loop.step.constant() > 0) {
    int64_t trips = (end.max - loop.from.constant() + loop.step.constant() - 1) / loop.step.constant();
    range.max = loop.from.constant() + (std::max<int64_t>(trips, 1) - 1) * loop.step.constant();
  }
  ranges_.push_back(std::move(range));
}

TilePlan::TilePlan(const tile::Kernel& kernel, bool is_cpu) : kernel_(kernel), is_cpu_(is_cpu) {
  size_t values = kernel.values.size();
  definition_.assign(values, nullptr);
  kept_.assign(values, false);
  weight_.assign(values, 0);
  depth_.assign(values, 0);
  readers_.assign(values, 0);
  needs_.assign(values, {});
  ranges_ = kernel.symbols;
  for (size_t i = 0; i < kernel.grid.size(); ++i) {
    Symbol id{tile::grid_symbol(static_cast<int>(i)), 0, INT64_MAX, {}};
    Interval range = kernel.grid[i].range(kernel.symbols);
    if (range.max != INT64_MAX) id.max = std::max<int64_t>(range.max - 1, 0);
    ranges_.push_back(std::move(id));
  }
  collect(kernel.body, 0);
  do {
    steps_.clear();
    plan_block(kernel.body);
  } while (mark_kept());
  find_needs();
  steps_.clear();
  plan_block(kernel.body);
}

void TilePlan::collect(const tile::Block& block, int depth) {
  for (ValueId param : block.params) depth_[param.index] = depth;
  for (const Instruction& instruction : block.body) {
    int weight = own_weight(instruction);
    for (ValueId operand : read_values(instruction)) {
      ++readers_[operand.index];
      const Instruction* source = definition_[operand.index];
      if (source && is_lazy(*source)) weight = std::min(kMaxWeight, weight + weight_[operand.index]);
    }
    for (ValueId result : instruction.results) {
      definition_[result.index] = &instruction;
      depth_[result.index] = depth;
      weight_[result.index] = weight;
    }
    if (instruction.opcode == Opcode::Load && !is_lazy(instruction))
      kept_[instruction.results[0].index] = true;
    if (instruction.opcode == Opcode::For) add_range(instruction);
    if (instruction.opcode == Opcode::LoadScalar) {
      ranges_.push_back(Symbol{instruction.symbol, INT64_MIN, INT64_MAX, {}});
    }
    for (const tile::Block& inner : instruction.blocks) {
      collect(inner, depth + (has_blocks_of_its_own(instruction) ? 1 : 0));
    }
    if (is_cpu_ && instruction.opcode == Opcode::For) find_accumulators(instruction);
  }
}

// What a loop yields for a carry that nothing else reads is computed in the carry's place, together with
// other values of its shape.
void TilePlan::find_accumulators(const Instruction& loop) {
  const tile::Block& block = loop.blocks[0];
  if (block.body.empty() || block.body.back().opcode != Opcode::Yield) return;
  for (size_t i = 0; i < block.params.size(); ++i) {
    ValueId next = block.body.back().operands[i], carry = block.params[i];
    const Instruction* source = definition_[next.index];
    bool is_own =
        source && source->opcode == Opcode::Elementwise && depth_[next.index] == depth_[carry.index];
    if (!is_own || readers_[next.index] != 1 || readers_[carry.index] != 1) continue;
    const std::vector<ValueId>& operands = source->operands;
    bool reads_carry = std::find(operands.begin(), operands.end(), carry) != operands.end();
    if (!reads_carry || kernel_.type(carry) != kernel_.type(next)) continue;
    kept_[next.index] = true;
    carry_of_[next.index] = carry;
  }
}

// ---- steps
// -----------------------------------------------------------------------------------------------------------------

// Values in scratch that the value is computed from, and whether each is read at the very point.
void TilePlan::visit(ValueId value, bool same_point, const std::vector<int64_t>& shape,
                     const std::function<void(ValueId, bool)>& found,
                     std::set<std::pair<uint32_t, bool>>& seen) const {
  if (!seen.insert({value.index, same_point}).second) return;
  const Instruction* source = definition_[value.index];
  if (!source || !is_lazy(*source) || kept_[value.index]) {
    found(value, same_point);
    return;
  }
  bool moves = source->opcode != Opcode::Elementwise;
  for (ValueId operand : read_values(*source)) {
    visit(operand, same_point && !moves && kernel_.type(operand).shape == shape, shape, found, seen);
  }
}

// One level after what it reads from scratch, or the same level where that is made at the same points.
void TilePlan::find_level(std::vector<Draft>& drafts, size_t index) {
  Draft& draft = drafts[index];
  auto after = [&](ValueId value, bool same_point) {
    for (size_t i = 0; i < index; ++i) {
      const std::vector<ValueId>& made = drafts[i].root.instruction->results;
      if (std::find(made.begin(), made.end(), value) == made.end()) continue;
      bool joins = same_point && drafts[i].root.is_kept && drafts[i].shape == draft.shape &&
                   drafts[i].limits == draft.limits;
      draft.level = std::max(draft.level, drafts[i].level + (joins ? 0 : 1));
    }
  };
  std::set<std::pair<uint32_t, bool>> seen;
  auto look = [&](ValueId value) { visit(value, true, draft.shape, after, seen); };
  const Instruction& instruction = *draft.root.instruction;
  if (!draft.root.is_kept) {
    look(draft.root.value);
    return;
  }
  // A kept value is computed from what its definition reads.
  bool moves = instruction.opcode != Opcode::Elementwise;
  for (ValueId operand : read_values(instruction)) {
    visit(operand, !moves && kernel_.type(operand).shape == draft.shape, draft.shape, after, seen);
  }
}

void TilePlan::flush(std::vector<Draft>& drafts, std::vector<TileStep>& out) {
  int last_store_level = 0;
  for (size_t i = 0; i < drafts.size(); ++i) {
    drafts[i].limits = limits_of(drafts[i]);
    find_level(drafts, i);
    // Order in memory: loads of a buffer that is written too, and stores, one after the other.
    const Instruction& instruction = *drafts[i].root.instruction;
    bool is_store = !drafts[i].root.is_kept && instruction.opcode == Opcode::Store;
    if (is_store) last_store_level = std::max(last_store_level, drafts[i].level);
  }
  // All stores come last and together: memory that an output shares with an input is still whole until then.
  for (Draft& draft : drafts) {
    if (!draft.root.is_kept && draft.root.instruction->opcode == Opcode::Store)
      draft.level = last_store_level;
  }
  std::stable_sort(drafts.begin(), drafts.end(), [](const Draft& a, const Draft& b) {
    auto is_store = [](const Draft& draft) {
      return !draft.root.is_kept && draft.root.instruction->opcode == Opcode::Store;
    };
    return a.level != b.level ? a.level < b.level : is_store(a) < is_store(b);
  });
  std::vector<int> levels;
  size_t first = out.size();
  for (Draft& draft : drafts) {
    bool is_store = !draft.root.is_kept && draft.root.instruction->opcode == Opcode::Store;
    size_t home = out.size();
    for (size_t i = first; i < out.size(); ++i) {
      TileStep& step = out[i];
      if (levels[i - first] != draft.level || step.shape != draft.shape || step.roots.size() >= kMaxRoots)
        continue;
      if (is_store && step.limits != draft.limits && !step.roots.empty() &&
          step.roots[0].instruction->opcode == Opcode::Store && !step.roots[0].is_kept) {
        step.limits.clear();  // stores of one shape stay together
        home = i;
        break;
      }
      if (step.limits != draft.limits) continue;
      if (!step.reduced.empty() && !draft.reduced.empty() && step.reduced != draft.reduced) continue;
      home = i;
      break;
    }
    if (home == out.size()) {
      out.push_back(TileStep{nullptr, {}, draft.shape, {}, draft.limits});
      levels.push_back(draft.level);
    }
    TileStep& step = out[home];
    if (step.reduced.empty()) step.reduced = draft.reduced;
    step.roots.push_back(draft.root);
  }
  drafts.clear();
}

void TilePlan::plan_block(const tile::Block& block) {
  std::vector<TileStep>& out = steps_[&block];
  std::vector<Draft> drafts;
  std::set<int> stored, loaded;  // params of the roots so far
  auto finish = [&] {
    flush(drafts, out);
    stored.clear();
    loaded.clear();
  };
  for (const Instruction& instruction : block.body) {
    if (instruction.opcode == Opcode::Yield) break;
    bool kept = instruction.results.size() == 1 && kept_[instruction.results[0].index];
    int param = instruction.access.param;
    if (is_lazy(instruction) || (instruction.opcode == Opcode::Load && kept)) {
      if (!kept) continue;
      if (instruction.opcode == Opcode::Load) {
        if (stored.count(param)) finish();
        loaded.insert(param);
      }
      ValueId value = instruction.results[0];
      drafts.push_back({{&instruction, value, true}, kernel_.type(value).shape, {}, {}, 0});
      continue;
    }
    if (is_alone(instruction)) {
      finish();
      out.push_back(TileStep{&instruction, {}, {}, {}, {}});
      if (has_blocks_of_its_own(instruction)) {
        for (const tile::Block& inner : instruction.blocks) plan_block(inner);
      }
      continue;
    }
    if (instruction.opcode == Opcode::Store) {
      if (loaded.count(param) || stored.count(param)) finish();
      stored.insert(param);
    }
    Draft draft{{&instruction, instruction.operands[0], false},
                kernel_.type(instruction.operands[0]).shape,
                {},
                {},
                0};
    if (instruction.opcode == Opcode::Reduce) {
      draft.reduced = instruction.axes;
      std::sort(draft.reduced.begin(), draft.reduced.end());
    }
    drafts.push_back(std::move(draft));
  }
  finish();
}

// ---- what is kept
// -----------------------------------------------------------------------------------------------------------

namespace {

// A step, a dot or another instruction that evaluates values.
struct Sink {
  int depth = 0;
  int64_t points = 0;  // of its loops; 0: not said
};

}  // namespace

// Operands of a dot in a deeper loop that would be written to scratch, or packed, again and again.
bool TilePlan::is_laid_out_by_dot(const Instruction& dot, size_t operand) const {
  ValueId value = dot.operands[operand];
  const Instruction* source = definition_[value.index];
  if (!is_cpu_ || operand > 1 || !source || !is_lazy(*source)) return false;
  if (source->opcode != Opcode::Load) return true;
  // In scratch the last axis is contiguous: worth it where that is what the columns want.
  const Ints& contract = operand == 0 ? dot.dot.lhs_contract : dot.dot.rhs_contract;
  int64_t last = static_cast<int64_t>(kernel_.type(value).shape.size()) - 1;
  return operand == 1 && std::find(contract.begin(), contract.end(), last) == contract.end();
}

// Values that more than one step evaluates, or a deeper loop, or a loop over many more points, and that cost
// something.  Answers whether there are new ones.
bool TilePlan::mark_kept() {
  std::vector<std::set<int>> sinks(kernel_.values.size());  // what evaluates a value
  std::vector<int> laid_out(kernel_.values.size(), -1);  // depth of the deepest dot that wants it in scratch
  std::vector<Sink> all;
  std::map<const Instruction*, int> sink_of;  // of roots and instructions on their own
  std::function<void(const tile::Block&, int)> number = [&](const tile::Block& block, int depth) {
    for (const TileStep& step : steps_.at(&block)) {
      int sink = static_cast<int>(all.size());
      all.push_back({depth, step.instruction ? 0 : tile::TileType{DType::F32, step.shape}.elements()});
      if (step.instruction) {
        sink_of[step.instruction] = sink;
        if (has_blocks_of_its_own(*step.instruction)) number(step.instruction->blocks[0], depth + 1);
      }
      for (const TileRoot& root : step.roots) sink_of[root.instruction] = sink;
    }
    for (const Instruction& instruction : block.body) {
      if (instruction.opcode == Opcode::Dot) {
        for (size_t i = 0; i < instruction.operands.size(); ++i) {
          int& deepest = laid_out[instruction.operands[i].index];
          if (is_laid_out_by_dot(instruction, i)) deepest = std::max(deepest, depth);
        }
      }
      if (instruction.opcode != Opcode::Yield) continue;
      sink_of[&instruction] = static_cast<int>(all.size());
      all.push_back({depth, 0});
    }
  };
  number(kernel_.body, 0);
  // Much cheaper on its own than at each point of a reader.
  auto is_small = [&](ValueId value, int sink) {
    return is_cpu_ && weight_[value.index] >= kSmallWeight &&
           definition_[value.index]->opcode == Opcode::Elementwise &&
           all[static_cast<size_t>(sink)].points >= kManyTimes * kernel_.type(value).elements();
  };
  auto wants_place = [&](ValueId value) {
    const std::set<int>& readers = sinks[value.index];
    if (laid_out[value.index] > depth_[value.index]) return true;
    bool deeper = std::any_of(readers.begin(), readers.end(), [&](int sink) {
      return all[static_cast<size_t>(sink)].depth > depth_[value.index];
    });
    if ((readers.size() > 1 || deeper) && weight_[value.index] > kKeepWeight) return true;
    return std::any_of(readers.begin(), readers.end(), [&](int sink) { return is_small(value, sink); });
  };
  bool changed = false;
  std::function<void(const tile::Block&)> mark = [&](const tile::Block& block) {
    for (size_t i = block.body.size(); i-- > 0;) {
      const Instruction& instruction = block.body[i];
      if (has_blocks_of_its_own(instruction)) mark(instruction.blocks[0]);
      std::set<int> readers;
      auto own = sink_of.find(&instruction);
      if (is_lazy(instruction) && !kept_[instruction.results[0].index]) {
        ValueId value = instruction.results[0];
        if (wants_place(value)) {
          kept_[value.index] = true;
          changed = true;
          readers = {static_cast<int>(all.size())};
          all.push_back({depth_[value.index], kernel_.type(value).elements()});
        } else {
          readers = sinks[value.index];
        }
      } else if (own != sink_of.end()) {
        readers = {own->second};
      }
      for (ValueId operand : read_values(instruction))
        sinks[operand.index].insert(readers.begin(), readers.end());
    }
  };
  mark(kernel_.body);
  return changed;
}

// ---- limits
// -----------------------------------------------------------------------------------------------------------------

std::map<int, Dim> TilePlan::access_limits(const tile::Access& access, const std::vector<int64_t>& shape,
                                           bool& is_simple) const {
  Limits limits;
  is_simple = true;
  if (access.in_bounds) return limits;
  const tile::Param& param = kernel_.params[access.param];
  for (size_t d = 0; d < access.index.size(); ++d) {
    const tile::DimIndex& index = access.index[d];
    if (index.tile.is_valid()) {
      is_simple = false;
      continue;
    }
    Dim low = index.base, high = index.base;
    for (const tile::AxisTerm& term : index.terms) {
      Dim reach(term.coefficient * (shape[term.axis] - 1));
      (term.coefficient < 0 ? low : high) = (term.coefficient < 0 ? low : high) + reach;
    }
    bool above = low.range(ranges_).min >= 0;
    if (above && (param.dims[d] - high).range(ranges_).min >= 1) continue;
    if (!above || index.terms.size() != 1 || index.terms[0].coefficient != 1 ||
        limits.count(index.terms[0].axis)) {
      is_simple = false;
      continue;
    }
    int axis = index.terms[0].axis;
    limits[axis] = Dim::min(Dim(shape[axis]), param.dims[d] - index.base);
  }
  return limits;
}

TilePlan::Limits TilePlan::limits_of(const Draft& draft) const {
  const Instruction& instruction = *draft.root.instruction;
  if (draft.root.is_kept) return needs_[instruction.results[0].index];
  if (instruction.opcode == Opcode::Store) {
    bool is_simple = true;
    return access_limits(instruction.access, draft.shape, is_simple);
  }
  Limits limits;
  for (size_t i = 0; i < instruction.limits.size(); ++i) {
    int axis = static_cast<int>(instruction.axes[i]);
    if (!instruction.limits[i].is_constant(draft.shape[axis])) {
      limits[axis] = Dim::min(Dim(draft.shape[axis]), instruction.limits[i]);
    }
  }
  return limits;
}

// A kept value that steps of its block alone read, at its own points and all with the same limits, need not
// be computed beyond those.
void TilePlan::find_needs() {
  std::vector<std::set<const TileStep*>> readers(kernel_.values.size());
  std::vector<bool> read_whole(kernel_.values.size(), false);
  for (const auto& [block, steps] : steps_) {
    for (const TileStep& step : steps) {
      auto found = [&](ValueId value, bool same_point) {
        if (same_point && !step.roots.empty()) {
          readers[value.index].insert(&step);
        } else {
          read_whole[value.index] = true;
        }
      };
      std::set<std::pair<uint32_t, bool>> seen;
      if (step.instruction) {
        for (ValueId value : read_values(*step.instruction)) visit(value, false, {}, found, seen);
        continue;
      }
      for (const TileRoot& root : step.roots) {
        if (!root.is_kept) {
          visit(root.value, true, step.shape, found, seen);
          continue;
        }
        bool moves = root.instruction->opcode != Opcode::Elementwise;
        for (ValueId operand : read_values(*root.instruction)) {
          visit(operand, !moves && kernel_.type(operand).shape == step.shape, step.shape, found, seen);
        }
      }
    }
    for (const Instruction& instruction : block->body) {
      if (instruction.opcode != Opcode::Yield) continue;
      std::set<std::pair<uint32_t, bool>> seen;
      for (ValueId value : instruction.operands) {
        visit(value, false, {}, [&](ValueId each, bool) { read_whole[each.index] = true; }, seen);
      }
    }
  }
  for (size_t value = 0; value < needs_.size(); ++value) {
    if (!kept_[value] || read_whole[value] || readers[value].empty()) continue;
    const Limits& first = (*readers[value].begin())->limits;
    bool agree = std::all_of(readers[value].begin(), readers[value].end(),
                             [&](const TileStep* step) { return step->limits == first; });
    if (agree) needs_[value] = first;
  }
}

}  // namespace tilewright
