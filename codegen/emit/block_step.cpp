// Steps: stores, kept values and reductions of one shape, evaluated together by the threads of a block.
#include "codegen/emit/block_emitter.h"

namespace tilewright {

using tile::Instruction;
using tile::Opcode;

// Enough loads at once to hide their latency, few where each point is long.
int BlockEmitter::points_in_flight(const TileStep& step) const {
  int weight = 0;
  for (const TileRoot& root : step.roots) weight += plan_.weight(root.value) + 1;
  return weight <= 12 ? 4 : weight <= 40 ? 2 : 1;
}

void BlockEmitter::emit_step(const TileStep& step) {
  const int vector_axis = choose_vector_axis(step);
  Reads reads;
  Resources read, written;
  std::vector<ScratchTile> kept(step.roots.size());
  std::vector<Fold> folds;
  std::vector<int> fold_of(step.roots.size(), -1);
  for (size_t i = 0; i < step.roots.size(); ++i) {
    const TileRoot& root = step.roots[i];
    const Instruction& instruction = *root.instruction;
    reads.values.push_back(root.value);
    if (root.is_kept) {
      add_definition_reads(instruction, read);
      kept[i] = new_scratch(type(root.value));
      written.insert(kept[i].data);
      continue;
    }
    add_reads(root.value, read);
    if (instruction.opcode == Opcode::Store) {
      reads.stores.push_back(&instruction);
      add_param(instruction.access.param, written);
      continue;
    }
    fold_of[i] = static_cast<int>(folds.size());
    Fold fold;
    fold.instruction = &instruction;
    const bool known_to_all = is_known_to_all(step.shape, step.reduced, vector_axis);
    fold.results = {new_fold_tile(instruction.results[0], known_to_all)};
    if (!known_to_all) written.insert(fold.results[0].data);
    folds.push_back(std::move(fold));
  }
  synchronize(read, written);
  Limits limits = limit_values(step.limits, step.shape);
  // Every root at the points of a group: first all values, then what is written.
  auto visit = [&](const std::vector<Point>& group) {
    std::vector<std::vector<Value*>> values(group.size());
    for (size_t u = 0; u < group.size(); ++u) {
      for (const TileRoot& root : step.roots) values[u].push_back(eval(root.value, group[u]));
    }
    for (size_t u = 0; u < group.size(); ++u) {
      for (size_t i = 0; i < step.roots.size(); ++i) {
        if (step.roots[i].is_kept) write_scratch(kept[i], step.roots[i].value, group[u], values[u][i]);
        if (fold_of[i] >= 0) accumulate(folds[static_cast<size_t>(fold_of[i])], {values[u][i]});
      }
      for (size_t i = 0; i < step.roots.size(); ++i) {
        const TileRoot& root = step.roots[i];
        if (!root.is_kept && fold_of[i] < 0) emit_store(*root.instruction, group[u], values[u][i]);
      }
    }
  };
  const int unroll = points_in_flight(step);
  if (folds.empty()) {
    Point origin;
    origin.axis.assign(step.shape.size(), i64(0));
    for_groups_at(origin, step.shape, vector_axis, limits, reads, unroll, visit);
  } else {
    emit_folds(step.shape, step.reduced, vector_axis, limits, reads, unroll, folds, visit);
  }
  for (size_t i = 0; i < step.roots.size(); ++i) {
    const uint32_t result =
        step.roots[i].is_kept || fold_of[i] >= 0 ? step.roots[i].instruction->results[0].index : 0;
    if (step.roots[i].is_kept) scratch_tiles_[result] = kept[i];
    if (fold_of[i] >= 0) scratch_tiles_[result] = folds[static_cast<size_t>(fold_of[i])].results[0];
  }
}

void BlockEmitter::emit_reduce(const Instruction& instruction) {
  const std::vector<int64_t>& shape = type(instruction.operands[0]).shape;
  Reads reads{instruction.operands, {}};
  Resources read, written;
  for (ValueId operand : instruction.operands) add_reads(operand, read);
  std::vector<Fold> folds(1);
  folds[0].instruction = &instruction;
  for (ValueId result : instruction.results) {
    const bool known_to_all = is_known_to_all(shape, instruction.axes, last_axis(shape));
    folds[0].results.push_back(new_fold_tile(result, known_to_all));
    if (!known_to_all) written.insert(folds[0].results.back().data);
  }
  synchronize(read, written);
  emit_folds(shape, instruction.axes, last_axis(shape), axis_limits(instruction), reads, 1, folds,
             [&](const std::vector<Point>& group) {
               std::vector<Value*> values;
               for (ValueId operand : instruction.operands) values.push_back(eval(operand, group[0]));
               accumulate(folds[0], values);
             });
  for (size_t i = 0; i < instruction.results.size(); ++i) {
    scratch_tiles_[instruction.results[i].index] = folds[0].results[i];
  }
}

}  // namespace tilewright
