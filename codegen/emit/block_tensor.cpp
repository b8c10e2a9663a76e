// Products by a whole block: which dots and loops are such.
#include "codegen/emit/block_product.h"

namespace tilewright {

using tile::Instruction;
using tile::Opcode;

namespace {

bool yields(const tile::Block& block, const Instruction& instruction) {
  const Instruction& last = block.body.back();
  return last.opcode == Opcode::Yield && last.operands.size() == 1 &&
         last.operands[0] == instruction.results[0];
}

}  // namespace

bool BlockEmitter::emit_tensor_dot(const Instruction& dot) {
  BlockProduct product(*this, dot);
  if (!product.plan(nullptr)) return false;
  scratch_tiles_[dot.results[0].index] = product.emit();
  return true;
}

// Nothing but one dot inside, whose sums are what the loops carry.
bool BlockEmitter::emit_tensor_loop(const Instruction& loop) {
  const Instruction* inner = &loop;
  ValueId carried;
  while (inner->opcode == Opcode::For) {
    const tile::Block& block = inner->blocks[0];
    const std::vector<TileStep>& steps = plan_.steps(block);
    if (inner->results.size() != 1 || steps.size() != 1 || !steps[0].instruction) return false;
    if (carried.is_valid() && inner->operands[0] != carried) return false;
    carried = block.params[0];
    if (!yields(block, *steps[0].instruction)) return false;
    if (steps[0].instruction->opcode == Opcode::Dot) {
      const Instruction& dot = *steps[0].instruction;
      if (dot.operands[2] != carried || reads_moved(dot.operands[0], {carried.index}, true) ||
          reads_moved(dot.operands[1], {carried.index}, true)) {
        return false;
      }
      BlockProduct product(*this, dot);
      if (!product.plan(inner)) return false;
      scratch_tiles_[loop.results[0].index] = product.emit_loops(loop);
      return true;
    }
    inner = steps[0].instruction;
  }
  return false;
}

}  // namespace tilewright
