// The tile interpreter: prepares a kernel once, then runs its instances one after the other.
#include "codegen/tile/interpreter.h"

#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "codegen/tile/machine.h"
#include "codegen/tile/names.h"

namespace tilewright::tile {

void Machine::add_slots(const Block& block) {
  for (const Instruction& instruction : block.body) {
    if (!instruction.symbol.empty()) {
      slot_table_.try_emplace(instruction.symbol, static_cast<int>(slot_table_.size()));
    }
    for (const Block& inner : instruction.blocks) add_slots(inner);
  }
}

Status Machine::bind_scalars(std::span<const int64_t> scalars) {
  if (scalars.size() != kernel_.symbols.size()) {
    return Status::invalid(
        cat("kernel has ", kernel_.symbols.size(), " symbols, but ", scalars.size(), " values were given"));
  }
  for (const Symbol& symbol : kernel_.symbols) {
    slot_table_.try_emplace(symbol.name, static_cast<int>(slot_table_.size()));
  }
  for (size_t axis = 0; axis < kernel_.grid.size(); ++axis) {
    slot_table_.try_emplace(grid_symbol(static_cast<int>(axis)), static_cast<int>(slot_table_.size()));
  }
  add_slots(kernel_.body);
  slots_.assign(slot_table_.size(), 0);
  for (size_t i = 0; i < scalars.size(); ++i) {
    slots_[slot_table_.find(kernel_.symbols[i].name)->second] = scalars[i];
  }
  for (const Dim& dim : kernel_.grid) {
    TW_ASSIGN_OR_RETURN(CompiledDim compiled, CompiledDim::compile(dim, slot_table_));
    TW_ASSIGN_OR_RETURN(int64_t size, evaluate(compiled));
    grid_.push_back(std::max<int64_t>(0, size));
  }
  return Status::ok();
}

Status Machine::bind_params(std::span<void* const> buffers) {
  size_t expected = kernel_.params.size() + kernel_.reports;
  if (buffers.size() != expected) {
    return Status::invalid(cat("kernel takes ", expected, " buffers, but ", buffers.size(), " were given"));
  }
  for (size_t i = 0; i < kernel_.params.size(); ++i) {
    const Param& param = kernel_.params[i];
    BoundParam bound;
    bound.data = static_cast<std::byte*>(buffers[i]);
    bound.width = dtype_bytes(param.dtype);
    auto evaluate_all = [&](const std::vector<Dim>& dims, std::vector<int64_t>& values) {
      for (const Dim& dim : dims) {
        TW_ASSIGN_OR_RETURN(CompiledDim compiled, CompiledDim::compile(dim, slot_table_));
        TW_ASSIGN_OR_RETURN(int64_t value, evaluate(compiled));
        values.push_back(value);
      }
      return Status::ok();
    };
    TW_RETURN_IF_ERROR(evaluate_all(param.dims, bound.extents));
    TW_RETURN_IF_ERROR(evaluate_all(param.strides, bound.strides));
    if (param.strides.empty()) {
      bound.strides.assign(bound.extents.size(), 1);
      for (size_t dim = bound.extents.size(); dim-- > 1;) {
        bound.strides[dim - 1] = bound.strides[dim] * bound.extents[dim];
      }
    }
    if (bound.strides.size() != bound.extents.size()) {
      return Status::invalid(
          cat("param ", i, " has ", bound.strides.size(), " strides for rank ", bound.extents.size()));
    }
    params_.push_back(std::move(bound));
  }
  if (kernel_.reports) error_word_ = static_cast<int64_t*>(buffers.back());
  return Status::ok();
}

void Machine::allocate_tiles() {
  constexpr int64_t kAlignment = 8;
  int64_t total = 0;
  auto padded = [](int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; };
  for (const TileValue& value : kernel_.values) {
    total += padded(value.type.elements() * dtype_bytes(value.type.dtype));
  }
  storage_.reset(new std::byte[static_cast<size_t>(total)]());
  int64_t offset = 0;
  for (const TileValue& value : kernel_.values) {
    TileData tile;
    tile.dtype = value.type.dtype;
    tile.width = dtype_bytes(value.type.dtype);
    tile.elements = value.type.elements();
    tile.shape = &value.type.shape;
    tile.data = storage_.get() + offset;
    offset += padded(tile.elements * tile.width);
    tiles_.push_back(tile);
  }
}

Status Machine::prepare_access(const Instruction& instruction, Step& step) {
  size_t rank = 0;
  if (instruction.opcode == Opcode::Store) rank = tile(instruction.operands[0]).shape->size();
  if (instruction.opcode == Opcode::Load || instruction.opcode == Opcode::Index) {
    rank = tile(instruction.results[0]).shape->size();
  }
  for (const DimIndex& index : instruction.access.index) {
    TW_ASSIGN_OR_RETURN(CompiledDim base, CompiledDim::compile(index.base, slot_table_));
    step.bases.push_back(std::move(base));
    std::vector<int64_t> coefficients(rank, 0), strides;
    for (const AxisTerm& term : index.terms) {
      if (term.axis < 0 || term.axis >= static_cast<int>(rank)) {
        return fail(instruction, cat("tile axis ", term.axis, " out of range for rank ", rank));
      }
      coefficients[term.axis] += term.coefficient;
    }
    if (index.tile.is_valid()) {
      const std::vector<int64_t>& shape = *tile(index.tile).shape;
      if (shape.size() != rank) return fail(instruction, "index tile of another rank");
      strides.assign(rank, 0);
      int64_t stride = 1;
      for (size_t axis = rank; axis-- > 0;) {
        if (shape[axis] != 1) strides[axis] = stride;
        stride *= shape[axis];
      }
    }
    step.coefficients.push_back(std::move(coefficients));
    step.tile_strides.push_back(std::move(strides));
  }
  return Status::ok();
}

Result<Step> Machine::prepare_step(const Instruction& instruction) {
  Step step;
  step.instruction = &instruction;
  TW_RETURN_IF_ERROR(prepare_access(instruction, step));
  for (const Dim& limit : instruction.limits) {
    TW_ASSIGN_OR_RETURN(CompiledDim compiled, CompiledDim::compile(limit, slot_table_));
    step.limits.push_back(std::move(compiled));
  }
  TW_ASSIGN_OR_RETURN(step.from, CompiledDim::compile(instruction.from, slot_table_));
  TW_ASSIGN_OR_RETURN(step.to, CompiledDim::compile(instruction.to, slot_table_));
  TW_ASSIGN_OR_RETURN(step.step, CompiledDim::compile(instruction.step, slot_table_));
  TW_ASSIGN_OR_RETURN(step.condition, CompiledDim::compile(instruction.condition, slot_table_));
  if (!instruction.symbol.empty()) step.slot = slot_table_.find(instruction.symbol)->second;
  for (const Block& block : instruction.blocks) {
    TW_ASSIGN_OR_RETURN(std::vector<Step> steps, prepare_block(block));
    step.blocks.push_back(std::move(steps));
  }
  return step;
}

Result<std::vector<Step>> Machine::prepare_block(const Block& block) {
  std::vector<Step> steps;
  steps.reserve(block.body.size());
  for (const Instruction& instruction : block.body) {
    TW_ASSIGN_OR_RETURN(Step step, prepare_step(instruction));
    steps.push_back(std::move(step));
  }
  return steps;
}

Status Machine::prepare(std::span<void* const> buffers, std::span<const int64_t> scalars) {
  TW_RETURN_IF_ERROR(bind_scalars(scalars));
  TW_RETURN_IF_ERROR(bind_params(buffers));
  allocate_tiles();
  TW_ASSIGN_OR_RETURN(body_, prepare_block(kernel_.body));
  return Status::ok();
}

Result<int64_t> Machine::evaluate(const CompiledDim& dim) const {
  int64_t value = 0;
  if (!dim.evaluate(slots_.data(), value)) {
    return Status::invalid(cat("dim expression ", dim.to_string(), " overflows or divides by zero"));
  }
  return value;
}

Status Machine::fail(const Instruction& instruction, const std::string& what) const {
  return Status::internal(cat("tile program @", kernel_.name, ": ", opcode_text(instruction), " in instance ",
                              instance_, ": ", what));
}

Status Machine::run(int64_t first, int64_t last) {
  for (instance_ = first; instance_ < last; ++instance_) {
    int64_t rest = instance_;
    for (size_t axis = grid_.size(); axis-- > 0;) {
      if (grid_[axis] == 0) return Status::invalid("the grid has no instances");
      slots_[slot_table_.find(grid_symbol(static_cast<int>(axis)))->second] = rest % grid_[axis];
      rest /= grid_[axis];
    }
    if (rest != 0) return Status::invalid(cat("instance ", instance_, " is outside of the grid"));
    TW_RETURN_IF_ERROR(run_block(body_));
  }
  return Status::ok();
}

Status Machine::run_block(const std::vector<Step>& steps) {
  for (const Step& step : steps) TW_RETURN_IF_ERROR(run_step(step));
  return Status::ok();
}

Status Machine::run_step(const Step& step) {
  const Instruction& instruction = *step.instruction;
  switch (instruction.opcode) {
    case Opcode::Elementwise: return run_elementwise(instruction);
    case Opcode::Const: run_const(instruction); return Status::ok();
    case Opcode::Index: return run_index(step);
    case Opcode::Load: return run_load(step);
    case Opcode::Store: return run_store(step);
    case Opcode::LoadScalar: return run_load_scalar(step);
    case Opcode::Broadcast:
    case Opcode::Transpose:
    case Opcode::Reshape: run_rearrange(instruction); return Status::ok();
    case Opcode::Reduce: return run_reduce(step);
    case Opcode::Scan: return run_scan(step);
    case Opcode::Dot: return run_dot(instruction);
    case Opcode::RngBits: run_rng_bits(instruction); return Status::ok();
    case Opcode::For: return run_for(step);
    case Opcode::If: return run_if(step);
    case Opcode::Yield: return Status::ok();  // read by whoever runs the block
    case Opcode::Report: return run_report(step);
  }
  return fail(instruction, "unknown opcode");
}

// As if all were read before any is written.
void Machine::copy_values(const std::vector<ValueId>& from, const std::vector<ValueId>& to) {
  size_t offset = 0;
  copy_buffer_.clear();
  for (ValueId id : from) {
    const TileData& source = tile(id);
    copy_buffer_.insert(copy_buffer_.end(), source.data, source.data + source.elements * source.width);
  }
  for (ValueId id : to) {
    const TileData& target = tile(id);
    size_t bytes = static_cast<size_t>(target.elements * target.width);
    std::memcpy(target.data, copy_buffer_.data() + offset, bytes);
    offset += bytes;
  }
}

Status Machine::run_for(const Step& step) {
  const Instruction& loop = *step.instruction;
  TW_ASSIGN_OR_RETURN(int64_t from, evaluate(step.from));
  TW_ASSIGN_OR_RETURN(int64_t to, evaluate(step.to));
  TW_ASSIGN_OR_RETURN(int64_t stride, evaluate(step.step));
  if (stride <= 0) return fail(loop, cat("step ", stride, ", expected a positive one"));
  const Block& block = loop.blocks[0];
  const std::vector<ValueId>* carried = &loop.operands;
  for (int64_t at = from; at < to; at += stride) {
    copy_values(*carried, block.params);
    slots_[step.slot] = at;
    TW_RETURN_IF_ERROR(run_block(step.blocks[0]));
    if (!block.body.empty()) carried = &block.body.back().operands;
  }
  copy_values(*carried, loop.results);
  return Status::ok();
}

Status Machine::run_if(const Step& step) {
  const Instruction& branch = *step.instruction;
  TW_ASSIGN_OR_RETURN(int64_t condition, evaluate(step.condition));
  if (condition <= 0) {
    copy_values(branch.operands, branch.results);
    return Status::ok();
  }
  const Block& block = branch.blocks[0];
  if (block.body.empty()) return fail(branch, "the block does not yield");
  copy_values(branch.operands, block.params);
  TW_RETURN_IF_ERROR(run_block(step.blocks[0]));
  copy_values(block.body.back().operands, branch.results);
  return Status::ok();
}

Status interpret(const Kernel& kernel, std::span<void* const> buffers, std::span<const int64_t> scalars,
                 int64_t first, int64_t last) {
  Machine machine(kernel);
  TW_RETURN_IF_ERROR(machine.prepare(buffers, scalars));
  return machine.run(first, last);
}

Result<int64_t> grid_size(const Kernel& kernel, std::span<const int64_t> scalars) {
  if (scalars.size() != kernel.symbols.size()) {
    return Status::invalid(
        cat("kernel has ", kernel.symbols.size(), " symbols, but ", scalars.size(), " values were given"));
  }
  Bindings bindings;
  for (size_t i = 0; i < scalars.size(); ++i) bindings[kernel.symbols[i].name] = scalars[i];
  int64_t count = 1;
  for (const Dim& dim : kernel.grid) {
    TW_ASSIGN_OR_RETURN(int64_t size, dim.evaluate(bindings));
    if (__builtin_mul_overflow(count, std::max<int64_t>(0, size), &count)) {
      return Status::invalid(cat("grid of kernel @", kernel.name, " overflows 64 bits"));
    }
  }
  return count;
}

}  // namespace tilewright::tile
