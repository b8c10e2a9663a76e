// Which tile values are computed where they are used, and which are kept in scratch memory.
#include <algorithm>

#include "codegen/emit/tile_emitter.h"

namespace tilewright {

using tile::Instruction;
using tile::Opcode;

namespace {

constexpr int kKeepWeight = 6;  // cheaper values are computed again at each use
constexpr int kMaxWeight = 1000;

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

std::vector<int64_t> without_ones(const std::vector<int64_t>& shape) {
  std::vector<int64_t> kept;
  for (int64_t size : shape) {
    if (size != 1) kept.push_back(size);
  }
  return kept;
}

}  // namespace

std::vector<ValueId> TileEmitter::read_values(const Instruction& instruction) {
  std::vector<ValueId> values = instruction.operands;
  for (const tile::DimIndex& index : instruction.access.index) {
    if (index.tile.is_valid()) values.push_back(index.tile);
  }
  return values;
}

bool TileEmitter::is_lazy(const Instruction& instruction) const {
  switch (instruction.opcode) {
    case Opcode::Elementwise:
    case Opcode::Const:
    case Opcode::Index:
    case Opcode::Broadcast:
    case Opcode::Transpose:
    case Opcode::RngBits: return true;
    case Opcode::Load: return kernel_.params[instruction.access.param].mode == tile::AccessMode::Read;
    case Opcode::Reshape:
      return without_ones(type(instruction.operands[0]).shape) ==
             without_ones(type(instruction.results[0]).shape);
    default: return false;
  }
}

void TileEmitter::collect_definitions(const tile::Block& block, int depth) {
  for (ValueId param : block.params) depth_[param.index] = depth;
  for (const Instruction& instruction : block.body) {
    int weight = 1;
    if (instruction.opcode == Opcode::Elementwise) weight = op_weight(instruction.op);
    if (instruction.opcode == Opcode::RngBits) weight = 40;
    if (instruction.opcode == Opcode::Const || instruction.opcode == Opcode::Index) weight = 0;
    for (ValueId operand : read_values(instruction)) {
      const Instruction* source = definition_[operand.index];
      if (source && is_lazy(*source)) weight = std::min(kMaxWeight, weight + weight_[operand.index]);
    }
    for (ValueId result : instruction.results) {
      definition_[result.index] = &instruction;
      depth_[result.index] = depth;
      weight_[result.index] = weight;
    }
    bool loops = instruction.opcode == Opcode::For || instruction.opcode == Opcode::If;
    for (const tile::Block& inner : instruction.blocks) collect_definitions(inner, depth + (loops ? 1 : 0));
  }
}

std::vector<const Instruction*> TileEmitter::store_run(const tile::Block& block, size_t first,
                                                       const TileEmitter& emitter) {
  auto simple = [](const Instruction& store) {
    if (store.store != tile::StoreKind::Set) return false;
    return std::none_of(store.access.index.begin(), store.access.index.end(),
                        [](const tile::DimIndex& index) { return index.tile.is_valid(); });
  };
  std::vector<const Instruction*> run{&block.body[first]};
  if (!simple(block.body[first])) return run;
  const std::vector<int64_t>& shape = emitter.type(block.body[first].operands[0]).shape;
  for (size_t i = first + 1; i < block.body.size(); ++i) {
    const Instruction& next = block.body[i];
    if (next.opcode == Opcode::Store) {
      if (!simple(next) || emitter.type(next.operands[0]).shape != shape) break;
      run.push_back(&next);
      continue;
    }
    if (!emitter.is_lazy(next) || emitter.materialised_[next.results[0].index]) break;
  }
  return run;
}

void TileEmitter::find_sinks(const tile::Block& block, int depth) {
  std::set<const Instruction*> in_run;  // stores whose run was numbered by an earlier (later visited) store
  std::map<const Instruction*, int> run_sink;
  for (size_t i = 0; i < block.body.size(); ++i) {
    if (block.body[i].opcode != Opcode::Store || run_sink.count(&block.body[i])) continue;
    int sink = static_cast<int>(sink_depth_.size());
    sink_depth_.push_back(depth);
    for (const Instruction* store : store_run(block, i, *this)) run_sink[store] = sink;
  }
  for (size_t i = block.body.size(); i-- > 0;) {
    const Instruction& instruction = block.body[i];
    bool loops = instruction.opcode == Opcode::For || instruction.opcode == Opcode::If;
    if (loops) {
      for (const tile::Block& inner : instruction.blocks) find_sinks(inner, depth + 1);
    }
    std::set<int> readers;
    if (is_lazy(instruction)) {
      uint32_t value = instruction.results[0].index;
      bool deeper = std::any_of(sinks_[value].begin(), sinks_[value].end(),
                                [&](int sink) { return sink_depth_[sink] > depth_[value]; });
      bool keep = (sinks_[value].size() > 1 || deeper) && weight_[value] > kKeepWeight;
      if (keep) {
        materialised_[value] = true;
        readers = {static_cast<int>(sink_depth_.size())};
        sink_depth_.push_back(depth);
      } else {
        readers = sinks_[value];
      }
    } else if (run_sink.count(&instruction)) {
      readers = {run_sink[&instruction]};
    } else {
      readers = {static_cast<int>(sink_depth_.size())};
      sink_depth_.push_back(depth);
    }
    for (ValueId operand : read_values(instruction))
      sinks_[operand.index].insert(readers.begin(), readers.end());
  }
}

void TileEmitter::analyse() {
  size_t values = kernel_.values.size();
  definition_.assign(values, nullptr);
  materialised_.assign(values, false);
  weight_.assign(values, 0);
  depth_.assign(values, 0);
  sinks_.assign(values, {});
  collect_definitions(kernel_.body, 0);
  find_sinks(kernel_.body, 0);
}

}  // namespace tilewright
