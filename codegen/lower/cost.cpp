// Counts the element operations of a tile program.
#include "codegen/lower/cost.h"

#include <algorithm>

namespace tilewright {

namespace {

double op_cost(const tile::Instruction& instruction) {
  switch (instruction.opcode) {
    case tile::Opcode::Elementwise: break;
    case tile::Opcode::RngBits: return 40;
    case tile::Opcode::Reduce:
    case tile::Opcode::Scan:
    case tile::Opcode::Load:
    case tile::Opcode::Store: return 1;
    default: return 0;
  }
  const OpInfo& info = op_info(instruction.op);
  return info.accuracy == Accuracy::Exact || info.accuracy == Accuracy::Rounded ? 1 : 15;
}

double block_work(const tile::Kernel& kernel, const tile::Block& block) {
  double work = 0;
  for (const tile::Instruction& instruction : block.body) {
    switch (instruction.opcode) {
      case tile::Opcode::For: {
        double from = static_cast<double>(instruction.from.hint(kernel.symbols));
        double to = static_cast<double>(instruction.to.hint(kernel.symbols));
        double step = std::max(1.0, static_cast<double>(instruction.step.hint(kernel.symbols)));
        work += std::max(1.0, (to - from + step - 1) / step) * block_work(kernel, instruction.blocks[0]);
        break;
      }
      case tile::Opcode::If: work += block_work(kernel, instruction.blocks[0]); break;
      case tile::Opcode::Dot: {
        double product = 2.0 * static_cast<double>(kernel.type(instruction.operands[2]).elements());
        for (int64_t axis : instruction.dot.lhs_contract) {
          product *= static_cast<double>(kernel.type(instruction.operands[0]).shape[axis]);
        }
        work += product;
        break;
      }
      default: {
        ValueId value = instruction.operands.empty() ? ValueId{} : instruction.operands[0];
        if (!value.is_valid() && !instruction.results.empty()) value = instruction.results[0];
        if (value.is_valid())
          work += op_cost(instruction) * static_cast<double>(kernel.type(value).elements());
        break;
      }
    }
  }
  return work;
}

int64_t clamp_count(double count) { return static_cast<int64_t>(std::min(count, 9e18)); }

}  // namespace

KernelWork estimate_work(const tile::Kernel& kernel) {
  double instances = 1, bytes = 0;
  for (const Dim& size : kernel.grid)
    instances *= std::max(1.0, static_cast<double>(size.hint(kernel.symbols)));
  for (const tile::Param& param : kernel.params) {
    double elements = 1;
    for (const Dim& size : param.dims)
      elements *= static_cast<double>(std::max<int64_t>(0, size.hint(kernel.symbols)));
    bytes += elements * static_cast<double>(dtype_bytes(param.dtype));
  }
  return {clamp_count(instances * block_work(kernel, kernel.body)), clamp_count(bytes)};
}

}  // namespace tilewright
