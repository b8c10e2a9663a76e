// Checks of accesses and of what each opcode demands of its operands, axes and results.
#include <algorithm>

#include "base/text.h"
#include "codegen/tile/verifier.h"

namespace tilewright::tile {

namespace {

std::vector<int64_t> without_axes(const std::vector<int64_t>& shape, const Ints& axes) {
  std::vector<int64_t> kept;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) == axes.end()) kept.push_back(shape[i]);
  }
  return kept;
}

}  // namespace

// ---- accesses

void Verifier::check_index(const Instruction& instruction, const DimIndex& index,
                           const std::vector<int64_t>& shape) {
  check_dim(instruction, index.base, "index");
  std::set<int> axes;
  for (const AxisTerm& term : index.terms) {
    if (term.axis < 0 || term.axis >= static_cast<int>(shape.size())) {
      error(instruction, cat("index mentions ax", term.axis, " of a tile of rank ", shape.size()));
    } else if (!axes.insert(term.axis).second) {
      error(instruction, cat("index mentions ax", term.axis, " twice"));
    }
  }
  if (!index.tile.is_valid() || !check_use(instruction, index.tile)) return;
  const TileType& type = kernel_.type(index.tile);
  bool fits = type.shape.size() == shape.size() && (type.dtype == DType::I32 || type.dtype == DType::I64);
  for (size_t axis = 0; fits && axis < shape.size(); ++axis) {
    fits = type.shape[axis] == 1 || type.shape[axis] == shape[axis];
  }
  if (!fits) {
    error(instruction, cat("index tile ", names_.of(index.tile), " is ", type.to_string(),
                           ", expected i32 or i64 of sizes [", join(shape, ","), "] or 1"));
  }
}

bool Verifier::check_access(const Instruction& instruction, const std::vector<int64_t>& shape) {
  const Access& access = instruction.access;
  if (access.param < 0 || access.param >= static_cast<int>(kernel_.params.size())) {
    error(instruction, cat("param ", access.param, " of ", kernel_.params.size()));
    return false;
  }
  size_t rank = kernel_.params[static_cast<size_t>(access.param)].dims.size();
  if (access.index.size() != rank) {
    error(instruction,
          cat(access.index.size(), " indices into ", names_.of_param(access.param), " of rank ", rank));
    return false;
  }
  for (const DimIndex& index : access.index) check_index(instruction, index, shape);
  return true;
}

void Verifier::check_store(const Instruction& instruction) {
  if (!expect_operands(instruction, 1)) return;
  const TileType& type = kernel_.type(instruction.operands[0]);
  if (!check_access(instruction, type.shape)) return;
  const Param& param = kernel_.params[static_cast<size_t>(instruction.access.param)];
  if (param.dtype != type.dtype) {
    error(instruction, cat("value ", names_.of(instruction.operands[0]), " is ", dtype_name(type.dtype),
                           ", expected ", dtype_name(param.dtype)));
  }
  if (param.mode == AccessMode::Read) error(instruction, "the param is only read, expected out or inout");
  bool combines = instruction.store != StoreKind::Set;
  if (combines && param.mode != AccessMode::ReadWrite) {
    error(instruction,
          cat(store_kind_name(instruction.store), " reads what is there, expected an inout param"));
  }
  if (combines && is_float8(param.dtype)) error(instruction, "f8 elements cannot be combined");
}

void Verifier::check_load_scalar(const Instruction& instruction) {
  if (!expect_operands(instruction, 0) || !check_access(instruction, {})) return;
  const Param& param = kernel_.params[static_cast<size_t>(instruction.access.param)];
  if (!is_integer(param.dtype))
    error(instruction, cat("elements are ", dtype_name(param.dtype), ", expected integers"));
  if (param.mode == AccessMode::Write) error(instruction, "the param is only written, expected in or inout");
}

void Verifier::check_report(const Instruction& instruction) {
  if (!kernel_.reports) error(instruction, "the kernel does not report");
  if (instruction.site < 0) error(instruction, cat("site ", instruction.site));
  if (!expect_operands(instruction, 2)) return;
  const TileType &pred = kernel_.type(instruction.operands[0]),
                 &value = kernel_.type(instruction.operands[1]);
  if (pred.dtype != DType::Bool)
    error(instruction, cat("predicate is ", pred.to_string(), ", expected bool"));
  if (value.dtype != DType::I64) error(instruction, cat("value is ", value.to_string(), ", expected i64"));
  if (pred.shape != value.shape)
    error(instruction, cat(pred.to_string(), " and ", value.to_string(), " differ"));
}

// ---- shapes

bool Verifier::check_axes(const Instruction& instruction, const Ints& axes, size_t rank, bool ascending) {
  std::set<int64_t> seen;
  int64_t previous = -1;
  for (int64_t axis : axes) {
    if (axis < 0 || axis >= static_cast<int64_t>(rank)) {
      error(instruction, cat("axis ", axis, " out of range for rank ", rank));
      return false;
    }
    if (!seen.insert(axis).second) {
      error(instruction, cat("axis ", axis, " appears twice"));
      return false;
    }
    if (ascending && axis < previous) {
      error(instruction, cat("axes [", join(axes, ","), "] are not ascending"));
      return false;
    }
    previous = axis;
  }
  return true;
}

Verifier::TileTypes Verifier::rearranged_types(const Instruction& instruction) {
  if (!expect_operands(instruction, 1)) return std::nullopt;
  if (instruction.results.size() != 1 || instruction.results[0].index >= kernel_.values.size()) {
    error(instruction, cat(instruction.results.size(), " results, expected 1"));
    return std::nullopt;
  }
  const TileType &from = kernel_.type(instruction.operands[0]), &to = kernel_.type(instruction.results[0]);
  const Ints& axes = instruction.axes;
  TileType expected{from.dtype, to.shape};
  if (instruction.opcode == Opcode::Reshape) {
    if (from.elements() != to.elements()) {
      error(instruction, cat(from.to_string(), " has another number of elements than ", to.to_string()));
    }
    return std::vector<TileType>{expected};
  }
  size_t rank = instruction.opcode == Opcode::Broadcast ? to.shape.size() : from.shape.size();
  if (axes.size() != from.shape.size()) {
    error(instruction, cat(axes.size(), " axes for an operand of rank ", from.shape.size()));
    return std::nullopt;
  }
  if (!check_axes(instruction, axes, rank, instruction.opcode == Opcode::Broadcast)) return std::nullopt;
  for (size_t i = 0; i < axes.size(); ++i) {
    size_t axis = static_cast<size_t>(axes[i]);
    if (instruction.opcode == Opcode::Broadcast && from.shape[i] != 1 && from.shape[i] != to.shape[axis]) {
      error(instruction, cat("operand axis ", i, " of size ", from.shape[i], " cannot become axis ", axis,
                             " of size ", to.shape[axis]));
    }
  }
  if (instruction.opcode == Opcode::Transpose) {
    expected.shape.clear();
    for (int64_t axis : axes) expected.shape.push_back(from.shape[static_cast<size_t>(axis)]);
  }
  return std::vector<TileType>{expected};
}

bool Verifier::check_combine(const Instruction& instruction) {
  size_t count = combined_count(instruction);
  if (is_custom(instruction)) {
    const std::vector<ValueId>& params = instruction.blocks[0].params;
    if (params.size() != 2 * count) {
      error(instruction, cat("its block takes ", params.size(), " values, expected ", count, " left and ",
                             count, " right"));
      return false;
    }
    for (size_t i = 0; i < params.size(); ++i) {
      TileType expected{kernel_.type(instruction.operands[i % count]).dtype, {}};
      if (params[i].index >= kernel_.values.size() || kernel_.type(params[i]) == expected) continue;
      error(instruction, cat("block param ", names_.of(params[i]), " is ",
                             kernel_.type(params[i]).to_string(), ", expected ", expected.to_string()));
    }
    return true;
  }
  for (ValueId operand : instruction.operands) {
    DType dtype = kernel_.type(operand).dtype;
    bool bits = instruction.combine == Combine::And || instruction.combine == Combine::Or ||
                instruction.combine == Combine::Xor;
    if (bits ? dtype == DType::Bool || is_integer(dtype) : !is_float8(dtype)) continue;
    error(instruction, cat("cannot combine ", dtype_name(dtype)));
    return false;
  }
  return true;
}

Verifier::TileTypes Verifier::reduce_types(const Instruction& instruction) {
  const Ints& axes = instruction.axes;
  if (instruction.operands.empty()) {
    error(instruction, "no operands");
    return std::nullopt;
  }
  const std::vector<int64_t>& shape = kernel_.type(instruction.operands[0]).shape;
  if (axes.empty()) error(instruction, "no axes");
  if (!check_axes(instruction, axes, shape.size(), true)) return std::nullopt;
  if (!instruction.limits.empty() && instruction.limits.size() != axes.size()) {
    error(instruction, cat(instruction.limits.size(), " limits for ", axes.size(), " axes"));
  }
  for (const Dim& limit : instruction.limits) check_dim(instruction, limit, "limit");
  std::vector<TileType> results;
  for (ValueId operand : instruction.operands) {
    const TileType& type = kernel_.type(operand);
    if (type.shape != shape) {
      error(instruction, cat("operand ", names_.of(operand), " is ", type.to_string(),
                             ", expected the shape of ", names_.of(instruction.operands[0])));
      return std::nullopt;
    }
    results.push_back({type.dtype, without_axes(shape, axes)});
  }
  if (!check_combine(instruction)) return std::nullopt;
  return results;
}

Verifier::TileTypes Verifier::scan_types(const Instruction& instruction) {
  size_t count = combined_count(instruction);
  if (instruction.operands.empty() || instruction.operands.size() % 2 != 0) {
    error(instruction, cat(instruction.operands.size(), " operands, expected as many values as carries"));
    return std::nullopt;
  }
  if (instruction.axes.size() != 1) {
    error(instruction, cat(instruction.axes.size(), " axes, expected 1"));
    return std::nullopt;
  }
  const std::vector<int64_t>& shape = kernel_.type(instruction.operands[0]).shape;
  if (!check_axes(instruction, instruction.axes, shape.size(), true)) return std::nullopt;
  if (instruction.limits.size() > 1) error(instruction, cat(instruction.limits.size(), " limits for 1 axis"));
  for (const Dim& limit : instruction.limits) check_dim(instruction, limit, "limit");
  std::vector<TileType> results;
  for (size_t i = 0; i < instruction.operands.size(); ++i) {
    DType dtype = kernel_.type(instruction.operands[i % count]).dtype;
    results.push_back({dtype, i < count ? shape : without_axes(shape, instruction.axes)});
  }
  if (!check_values(instruction, instruction.operands, results, "operand")) return std::nullopt;
  if (!check_combine(instruction)) return std::nullopt;
  return results;
}

Verifier::TileTypes Verifier::dot_types(const Instruction& instruction) {
  if (!expect_operands(instruction, 3)) return std::nullopt;
  const TileType &a = kernel_.type(instruction.operands[0]), &b = kernel_.type(instruction.operands[1]);
  const TileType& acc = kernel_.type(instruction.operands[2]);
  const DotDims& dot = instruction.dot;
  auto joined = [](Ints batch, const Ints& contract) {
    batch.insert(batch.end(), contract.begin(), contract.end());
    return batch;
  };
  Ints bound_a = joined(dot.lhs_batch, dot.lhs_contract), bound_b = joined(dot.rhs_batch, dot.rhs_contract);
  if (dot.lhs_batch.size() != dot.rhs_batch.size() || dot.lhs_contract.size() != dot.rhs_contract.size()) {
    error(instruction, "lhs and rhs differ in the number of batch or contracted axes");
    return std::nullopt;
  }
  if (!check_axes(instruction, bound_a, a.shape.size(), false)) return std::nullopt;
  if (!check_axes(instruction, bound_b, b.shape.size(), false)) return std::nullopt;
  for (size_t i = 0; i < bound_a.size(); ++i) {
    int64_t left = a.shape[static_cast<size_t>(bound_a[i])], right = b.shape[static_cast<size_t>(bound_b[i])];
    if (left != right) {
      error(instruction,
            cat("axis ", bound_a[i], " of size ", left, " meets axis ", bound_b[i], " of size ", right));
    }
  }
  if (a.dtype != b.dtype) error(instruction, cat("of ", dtype_name(a.dtype), " and ", dtype_name(b.dtype)));
  bool floats = is_float(a.dtype) || is_float8(a.dtype);
  if (floats ? !is_float(acc.dtype) : !is_integer(acc.dtype) || !is_integer(a.dtype)) {
    error(instruction, cat("accumulates ", dtype_name(a.dtype), " in ", dtype_name(acc.dtype)));
  }
  bool micro = instruction.micro.empty() ||
               (instruction.micro.size() == 2 && instruction.micro[0] > 0 && instruction.micro[1] > 0);
  if (!micro)
    error(instruction, cat("micro=[", join(instruction.micro, ","), "], expected two positive sizes"));
  TileType expected{acc.dtype, {}};
  for (int64_t axis : dot.lhs_batch) expected.shape.push_back(a.shape[static_cast<size_t>(axis)]);
  for (int64_t size : without_axes(a.shape, bound_a)) expected.shape.push_back(size);
  for (int64_t size : without_axes(b.shape, bound_b)) expected.shape.push_back(size);
  if (!(acc == expected)) {
    error(instruction, cat("accumulator is ", acc.to_string(), ", expected ", expected.to_string()));
  }
  return std::vector<TileType>{expected};
}

Verifier::TileTypes Verifier::rng_types(const Instruction& instruction) {
  if (!expect_operands(instruction, 2)) return std::nullopt;
  const TileType &state = kernel_.type(instruction.operands[0]),
                 &index = kernel_.type(instruction.operands[1]);
  if (!(state == TileType{DType::U64, {2}})) {
    error(instruction, cat("state is ", state.to_string(), ", expected u64 tile[2]"));
  }
  if (index.dtype != DType::I64) error(instruction, cat("index is ", index.to_string(), ", expected i64"));
  return std::vector<TileType>{{DType::U32, index.shape}};
}

Verifier::TileTypes Verifier::carry_types(const Instruction& instruction) {
  if (instruction.opcode == Opcode::For) {
    check_dim(instruction, instruction.from, "start");
    check_dim(instruction, instruction.to, "end");
    check_dim(instruction, instruction.step, "step");
    if (instruction.step.is_constant() && instruction.step.constant() < 1) {
      error(instruction, cat("step ", instruction.step.constant(), ", expected at least 1"));
    }
  } else {
    check_dim(instruction, instruction.condition, "condition");
  }
  std::vector<TileType> types;
  const std::vector<ValueId>& params = instruction.blocks[0].params;
  if (params.size() != instruction.operands.size()) {
    error(instruction,
          cat("its block takes ", params.size(), " values, expected ", instruction.operands.size()));
    return std::nullopt;
  }
  for (size_t i = 0; i < params.size(); ++i) {
    const TileType& type = kernel_.type(instruction.operands[i]);
    types.push_back(type);
    if (params[i].index >= kernel_.values.size() || kernel_.type(params[i]) == type) continue;
    error(instruction, cat("block param ", names_.of(params[i]), " is ", kernel_.type(params[i]).to_string(),
                           ", expected ", type.to_string()));
  }
  return types;
}

}  // namespace tilewright::tile
