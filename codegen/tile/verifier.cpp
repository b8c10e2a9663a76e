// Checks tile programs.  Invariants:
//
// kernel    symbols, grid ids, loop variables and loaded scalars have distinct names where they meet; param
// dims
//           and the grid mention declared symbols only
// values    defined once, before use, in a block that encloses the use; sizes are at least 1
// accesses  one index a buffer dim, over symbols in scope and axes of the tile; loads read and stores write
//           params that allow it; two instances store no element twice
// ops       operands, results, axes, limits and blocks are what the opcode says; elementwise ops obey the op
// table blocks    For, If and custom combines end in one Yield of the right types; a combine is closed and
// scalar
#include <algorithm>
#include <cmath>
#include <set>

#include "base/text.h"
#include "codegen/tile/names.h"
#include "codegen/tile/tile.h"
#include "codegen/tile/verifier.h"
#include "ir/inference.h"
#include "ir/reference/scalar.h"

namespace tilewright::tile {

namespace {

constexpr size_t kMaxErrors = 20;
constexpr size_t kMaxRank = 16;
constexpr int64_t kMaxElements = int64_t{1} << 26;
constexpr int kMaxDepth = 64;

bool is_reserved(const std::string& name) {
  auto numbered = [&](std::string_view prefix) {
    return name.size() > prefix.size() && name.starts_with(prefix) &&
           std::all_of(name.begin() + static_cast<std::ptrdiff_t>(prefix.size()), name.end(),
                       [](char c) { return c >= '0' && c <= '9'; });
  };
  return numbered("p") || numbered("ax");
}

}  // namespace

void Verifier::error(const std::string& message) {
  if (errors_.size() < kMaxErrors) errors_.push_back(message);
}

void Verifier::error(const Instruction& instruction, const std::string& message) {
  std::string where = opcode_text(instruction);
  if (!instruction.results.empty()) where += " " + names_.of(instruction.results[0]);
  if (instruction.opcode == Opcode::Store) where += " to " + names_.of_param(instruction.access.param);
  error(cat(where, ": ", message));
}

Status Verifier::run() {
  check_header();
  check_block(kernel_.body, nullptr, 0);
  for (size_t i = 0; i < kernel_.values.size(); ++i) check_type(ValueId{static_cast<uint32_t>(i)});
  if (errors_.empty()) return Status::ok();
  return Status::invalid(cat("tile program @", kernel_.name, ": ", join(errors_, "\n")));
}

// ---- header

void Verifier::check_header() {
  for (const Symbol& symbol : kernel_.symbols) {
    if (symbol.name.empty()) error("a symbol has no name");
    if (is_reserved(symbol.name))
      error(cat("symbol ", symbol.name, " has the name of a grid id or tile axis"));
    if (!scope_.insert(symbol.name).second) error(cat("symbol ", symbol.name, " is declared twice"));
    if (symbol.min > symbol.max) error(cat("symbol ", symbol.name, " has an empty range"));
  }
  for (size_t i = 0; i < kernel_.params.size(); ++i) {
    const Param& param = kernel_.params[i];
    std::string name = names_.of_param(static_cast<int>(i));
    for (const Dim& dim : param.dims) check_dim(dim, cat("dim of ", name));
    for (const Dim& stride : param.strides) check_dim(stride, cat("stride of ", name));
    if (!param.strides.empty() && param.strides.size() != param.dims.size()) {
      error(cat("param ", name, " has ", param.strides.size(), " strides for rank ", param.dims.size()));
    }
  }
  for (const Dim& dim : kernel_.grid) check_dim(dim, "grid size");
  for (size_t axis = 0; axis < kernel_.grid.size(); ++axis)
    scope_.insert(grid_symbol(static_cast<int>(axis)));
}

void Verifier::check_dim(const Dim& dim, const std::string& what) {
  std::string fault = dim_fault(dim);
  if (!fault.empty()) error(cat(what, ": ", fault));
}

std::string Verifier::dim_fault(const Dim& dim) const {
  if (!dim.is_valid()) return "the expression overflows 64 bits or divides by zero";
  if (dim.is_constant()) return {};
  std::vector<std::string> names;
  dim.collect_symbols(names);
  for (const std::string& name : names) {
    if (scope_.count(name)) continue;
    bool grid = name.size() > 1 && name[0] == 'p' && is_reserved(name);
    return cat("symbol ", name, " of ", dim.to_string(), " is unknown here",
               grid ? cat(", the grid has ", kernel_.grid.size(), " dims") : std::string());
  }
  return {};
}

void Verifier::check_dim(const Instruction& instruction, const Dim& dim, const char* what) {
  std::string fault = dim_fault(dim);
  if (!fault.empty()) error(instruction, cat(what, ": ", fault));
}

void Verifier::check_type(ValueId id) {
  const TileType& type = kernel_.type(id);
  if (type.shape.size() > kMaxRank) {
    error(cat(names_.of(id), ": rank ", type.shape.size(), ", expected at most ", kMaxRank));
  }
  int64_t elements = 1;
  for (int64_t size : type.shape) {
    if (size < 1) {
      error(cat(names_.of(id), ": ", type.to_string(), " has a size below 1"));
      return;
    }
    if (__builtin_mul_overflow(elements, size, &elements) || elements > kMaxElements) {
      error(cat(names_.of(id), ": ", type.to_string(), " has too many elements, expected at most ",
                kMaxElements));
      return;
    }
  }
}

// ---- values and blocks

void Verifier::define(const Instruction& instruction, ValueId id) {
  if (id.index >= kernel_.values.size()) {
    error(instruction, "a result or block param is no value of the kernel");
    return;
  }
  if (!ever_defined_.insert(id.index).second) error(instruction, cat(names_.of(id), " is defined twice"));
  visible_.insert(id.index);
}

bool Verifier::check_use(const Instruction& instruction, ValueId id) {
  if (id.index < kernel_.values.size() && visible_.count(id.index)) return true;
  error(instruction, cat("operand ", names_.of(id), " is not defined before, in this block or around it"));
  return false;
}

void Verifier::check_block(const Block& block, const Instruction* parent, int depth) {
  if (depth > kMaxDepth) {
    error("blocks are nested too deeply");
    return;
  }
  std::set<uint32_t> outer_visible = visible_;
  std::set<std::string, std::less<>> outer_scope = scope_;
  if (parent != nullptr && is_custom(*parent)) visible_.clear();  // a combine is closed
  if (parent != nullptr && parent->opcode == Opcode::For) scope_.insert(parent->symbol);
  if (parent != nullptr) {
    for (ValueId param : block.params) define(*parent, param);
  }
  for (size_t i = 0; i < block.body.size(); ++i) {
    const Instruction& instruction = block.body[i];
    bool last = i + 1 == block.body.size();
    if (instruction.opcode == Opcode::Yield) {
      if (parent == nullptr) error(instruction, "outside of any block");
      if (!last) error(instruction, "not the last of its block");
      if (parent != nullptr) check_yield(instruction, *parent);
      continue;
    }
    if (parent != nullptr && is_custom(*parent)) check_in_combine(instruction);
    check_instruction(instruction, depth);
  }
  bool yields = !block.body.empty() && block.body.back().opcode == Opcode::Yield;
  if (parent != nullptr && !yields) error(*parent, "its block does not end with yield");
  visible_ = std::move(outer_visible);
  scope_ = std::move(outer_scope);
}

void Verifier::check_yield(const Instruction& yield, const Instruction& parent) {
  std::vector<TileType> expected;
  for (size_t i = 0; i < parent.operands.size(); ++i) {
    if (parent.operands[i].index >= kernel_.values.size()) return;
    if (!is_custom(parent)) {
      expected.push_back(kernel_.type(parent.operands[i]));
    } else if (i < combined_count(parent)) {
      expected.push_back({kernel_.type(parent.operands[i]).dtype, {}});
    }
  }
  check_values(yield, yield.operands, expected, "value");
}

// `values` are visible and have those types.
bool Verifier::check_values(const Instruction& instruction, const std::vector<ValueId>& values,
                            const std::vector<TileType>& expected, const char* what) {
  if (values.size() != expected.size()) {
    error(instruction, cat(values.size(), " ", what, "s, expected ", expected.size()));
    return false;
  }
  bool good = true;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!check_use(instruction, values[i])) {
      good = false;
    } else if (!(kernel_.type(values[i]) == expected[i])) {
      error(instruction, cat(what, " ", names_.of(values[i]), " is ", kernel_.type(values[i]).to_string(),
                             ", expected ", expected[i].to_string()));
      good = false;
    }
  }
  return good;
}

void Verifier::check_in_combine(const Instruction& instruction) {
  switch (instruction.opcode) {
    case Opcode::Elementwise:
    case Opcode::Const: return;
    default: error(instruction, "not allowed in a custom combine, only elementwise ops and constants are");
  }
}

size_t Verifier::combined_count(const Instruction& instruction) {
  return instruction.opcode == Opcode::Scan ? instruction.operands.size() / 2 : instruction.operands.size();
}

bool Verifier::is_custom(const Instruction& instruction) {
  return instruction.combine == Combine::Custom &&
         (instruction.opcode == Opcode::Reduce || instruction.opcode == Opcode::Scan);
}

// ---- instructions

void Verifier::check_instruction(const Instruction& instruction, int depth) {
  bool operands_good = true;
  for (ValueId operand : instruction.operands) operands_good &= check_use(instruction, operand);
  size_t blocks =
      instruction.opcode == Opcode::For || instruction.opcode == Opcode::If || is_custom(instruction);
  if (instruction.blocks.size() != blocks) {
    error(instruction, cat(instruction.blocks.size(), " blocks, expected ", blocks));
    operands_good = false;
  }
  if (operands_good) {
    TileTypes types = result_types(instruction);
    if (types) check_results(instruction, *types);
  }
  if (instruction.opcode == Opcode::For || instruction.opcode == Opcode::LoadScalar)
    check_symbol(instruction);
  for (const Block& block : instruction.blocks) check_block(block, &instruction, depth + 1);
  for (ValueId result : instruction.results) define(instruction, result);
  if (instruction.opcode == Opcode::LoadScalar) scope_.insert(instruction.symbol);
}

void Verifier::check_symbol(const Instruction& instruction) {
  const std::string& symbol = instruction.symbol;
  if (symbol.empty()) error(instruction, "it names no symbol");
  if (is_reserved(symbol))
    error(instruction, cat("symbol ", symbol, " has the name of a grid id or tile axis"));
  if (scope_.count(symbol)) error(instruction, cat("symbol ", symbol, " has a meaning here already"));
}

void Verifier::check_results(const Instruction& instruction, const std::vector<TileType>& expected) {
  if (instruction.results.size() != expected.size()) {
    error(instruction, cat(instruction.results.size(), " results, expected ", expected.size()));
    return;
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    ValueId result = instruction.results[i];
    if (result.index >= kernel_.values.size() || kernel_.type(result) == expected[i]) continue;
    error(instruction, cat("result ", names_.of(result), " is ", kernel_.type(result).to_string(),
                           ", expected ", expected[i].to_string()));
  }
}

bool Verifier::expect_operands(const Instruction& instruction, size_t count) {
  if (instruction.operands.size() == count) return true;
  error(instruction, cat(instruction.operands.size(), " operands, expected ", count));
  return false;
}

// What the results must be; nothing after an error.
Verifier::TileTypes Verifier::result_types(const Instruction& instruction) {
  switch (instruction.opcode) {
    case Opcode::Elementwise: return elementwise_types(instruction);
    case Opcode::Const:
    case Opcode::Index:
    case Opcode::Load: return source_types(instruction);
    case Opcode::Store: check_store(instruction); return std::vector<TileType>{};
    case Opcode::LoadScalar: check_load_scalar(instruction); return std::vector<TileType>{};
    case Opcode::Broadcast:
    case Opcode::Transpose:
    case Opcode::Reshape: return rearranged_types(instruction);
    case Opcode::Reduce: return reduce_types(instruction);
    case Opcode::Scan: return scan_types(instruction);
    case Opcode::Dot: return dot_types(instruction);
    case Opcode::RngBits: return rng_types(instruction);
    case Opcode::For:
    case Opcode::If: return carry_types(instruction);
    case Opcode::Yield: return std::vector<TileType>{};
    case Opcode::Report: check_report(instruction); return std::vector<TileType>{};
  }
  error(instruction, "unknown opcode");
  return std::nullopt;
}

Verifier::TileTypes Verifier::elementwise_types(const Instruction& instruction) {
  const OpInfo& info = op_info(instruction.op);
  bool bitcast = instruction.op == Op::BitcastConvert;
  if ((info.kind != OpKind::Elementwise || info.composite) && !bitcast) {
    error(instruction, "not an elementwise primitive of the op table");
    return std::nullopt;
  }
  std::vector<TensorType> types;
  for (ValueId operand : instruction.operands) {
    const TileType& type = kernel_.type(operand);
    if (type.shape != kernel_.type(instruction.operands[0]).shape) {
      error(instruction, cat("operand ", names_.of(operand), " is ", type.to_string(),
                             ", expected the shape of ", names_.of(instruction.operands[0])));
      return std::nullopt;
    }
    types.push_back({type.dtype, to_shape(type.shape)});
  }
  std::vector<const TensorType*> operands;
  for (const TensorType& type : types) operands.push_back(&type);
  Result<Types> inferred =
      infer_types(NodeView{instruction.op, operands, instruction.attributes, {}, kernel_.symbols});
  if (!inferred.is_ok()) {
    error(instruction, inferred.status().message());
    return std::nullopt;
  }
  std::vector<TileType> results;
  for (const TensorType& type : *inferred) results.push_back({type.dtype, static_sizes(type.shape)});
  if (bitcast && results[0].shape.size() != types[0].shape.size()) {
    error(instruction, "changes the width of elements");
    return std::nullopt;
  }
  return results;
}

void Verifier::check_literal(const Instruction& instruction, DType dtype) {
  const Literal& literal = instruction.literal;
  if (is_float(dtype) || is_float8(dtype)) {
    bool exact = std::isnan(literal.f) || round_to(dtype, literal.f) == literal.f;
    if (!exact) error(instruction, cat("literal ", literal.f, " is no ", dtype_name(dtype)));
  } else if (Scalar::of_integer(dtype, literal.i).i != literal.i) {
    error(instruction, cat("literal ", literal.i, " is no ", dtype_name(dtype)));
  }
}

Verifier::TileTypes Verifier::source_types(const Instruction& instruction) {
  if (!expect_operands(instruction, 0)) return std::nullopt;
  if (instruction.results.size() != 1 || instruction.results[0].index >= kernel_.values.size()) {
    error(instruction, cat(instruction.results.size(), " results, expected 1"));
    return std::nullopt;
  }
  TileType type = kernel_.type(instruction.results[0]);
  if (instruction.opcode != Opcode::Index) check_literal(instruction, type.dtype);
  if (instruction.opcode == Opcode::Index) {
    if (!is_integer(type.dtype))
      error(instruction, cat("result is ", type.to_string(), ", expected integers"));
    if (instruction.access.index.size() != 1) {
      error(instruction, cat(instruction.access.index.size(), " expressions, expected 1"));
    } else {
      if (instruction.access.index[0].tile.is_valid()) error(instruction, "mentions an index tile");
      check_index(instruction, instruction.access.index[0], type.shape);
    }
  }
  if (instruction.opcode == Opcode::Load && check_access(instruction, type.shape)) {
    const Param& param = kernel_.params[static_cast<size_t>(instruction.access.param)];
    if (param.mode == AccessMode::Write) {
      error(instruction,
            cat(names_.of_param(instruction.access.param), " is only written, expected in or inout"));
    }
    if (instruction.depth < 1) error(instruction, cat("depth ", instruction.depth, ", expected at least 1"));
    type.dtype = param.dtype;
  }
  return std::vector<TileType>{type};
}

Status verify(const Kernel& kernel) { return Verifier(kernel).run(); }

}  // namespace tilewright::tile
