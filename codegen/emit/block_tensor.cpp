// Products by a whole block: which dots and loops are such.
#include <algorithm>

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
  auto carried = carried_products_.find(&dot);
  if (carried != carried_products_.end()) {
    CarriedProduct& own = *carried->second;
    for (const CarriedProduct::Link& link : own.links) {
      if (link.dot == &dot) own.sums = link.product->add(link.before, own.sums);
    }
    return true;
  }
  BlockProduct product(*this, dot);
  if (!product.plan(nullptr)) return false;
  scratch_tiles_[dot.results[0].index] = product.emit();
  return true;
}

// Through values that nobody else reads.
ValueId BlockEmitter::added_to(ValueId value, ValueId carry) const {
  if (plan_.reader_count(value) != 1) return {};
  if (value == carry) return value;
  const Instruction* source = plan_.definition(value);
  if (!source) return {};
  if (source->opcode == Opcode::Dot) return value;
  if (source->opcode != Opcode::Elementwise || plan_.is_kept(value)) return {};
  for (ValueId operand : source->operands) {
    if (ValueId found = added_to(operand, carry); found.is_valid()) return found;
  }
  return {};
}

std::vector<BlockEmitter::CarriedProduct> BlockEmitter::find_carried_products(const Instruction& loop) {
  constexpr int64_t kMostRegisters = 128;  // of a thread, for all sums that are carried
  std::vector<CarriedProduct> found;
  const tile::Block& block = loop.blocks[0];
  if (block.body.empty() || block.body.back().opcode != Opcode::Yield) return found;
  auto is_step = [&](const Instruction* dot) {
    const std::vector<TileStep>& steps = plan_.steps(block);
    return std::any_of(steps.begin(), steps.end(),
                       [&](const TileStep& step) { return step.instruction == dot; });
  };
  int64_t registers = 0;
  for (size_t i = 0; i < loop.results.size(); ++i) {
    CarriedProduct chain;
    chain.index = i;
    const ValueId carry = block.params[i];
    ValueId value = block.body.back().operands[i];
    while (value.is_valid() && value != carry) {
      const Instruction* dot = plan_.definition(value);
      if (!dot || dot->opcode != Opcode::Dot || plan_.reader_count(value) != 1 || !is_step(dot)) break;
      value = added_to(dot->operands[2], carry);
      chain.links.insert(chain.links.begin(), {dot, value, std::make_shared<BlockProduct>(*this, *dot)});
    }
    if (chain.links.empty() || value != carry) continue;
    const BlockProduct* before = nullptr;
    bool fits = std::all_of(chain.links.begin(), chain.links.end(), [&](const CarriedProduct::Link& link) {
      const bool has_room = link.product->plan(nullptr, before);
      before = link.product.get();
      return has_room && link.product->has_sums_of(*chain.links[0].product);
    });
    if (!fits) continue;
    registers += chain.links[0].product->register_count();
    if (registers > kMostRegisters) break;
    found.push_back(std::move(chain));
  }
  return found;
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
