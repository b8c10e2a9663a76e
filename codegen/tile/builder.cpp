// KernelBuilder: appends tile instructions and computes the types of their results.
#include <algorithm>

#include "base/text.h"
#include "codegen/tile/tile.h"
#include "ir/reference/scalar.h"

namespace tilewright::tile {

int64_t TileType::elements() const {
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  return count;
}

std::string TileType::to_string() const { return cat(dtype_name(dtype), " tile[", join(shape, ","), "]"); }

DType elementwise_dtype(Op op, const AttributeMap& attributes, const std::vector<DType>& operands) {
  switch (op) {
    case Op::Compare:
    case Op::IsFinite: return DType::Bool;
    case Op::Convert:
    case Op::BitcastConvert: return AttributeReader(op, attributes).get_dtype("dtype", DType::F32);
    case Op::Select:
    case Op::Clamp: return operands.size() > 1 ? operands[1] : DType::F32;
    default: return operands.empty() ? DType::F32 : operands[0];
  }
}

KernelBuilder::KernelBuilder(std::string name) { kernel_.name = std::move(name); }

int KernelBuilder::add_param(Param param) {
  kernel_.params.push_back(std::move(param));
  return static_cast<int>(kernel_.params.size()) - 1;
}

ValueId KernelBuilder::add_value(TileType type) {
  kernel_.values.push_back(TileValue{std::move(type), {}});
  return ValueId{static_cast<uint32_t>(kernel_.values.size() - 1)};
}

void KernelBuilder::append(Instruction instruction) {
  Block& block = open_.empty() ? kernel_.body : open_.back().blocks[0];
  block.body.push_back(std::move(instruction));
}

ValueId KernelBuilder::elementwise(Op op, std::vector<ValueId> operands, AttributeMap attributes) {
  std::vector<DType> dtypes;
  for (ValueId operand : operands) dtypes.push_back(type(operand).dtype);
  // Tile operands of one instruction agree in shape: repeat single-element axes where they differ.
  std::vector<int64_t> shape;
  for (ValueId operand : operands) {
    const std::vector<int64_t>& other = type(operand).shape;
    if (other.size() > shape.size()) shape.resize(other.size(), 1);
    for (size_t i = 0; i < other.size(); ++i) shape[i] = std::max(shape[i], other[i]);
  }
  Ints axes;
  for (size_t i = 0; i < shape.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  for (ValueId& operand : operands) {
    if (type(operand).shape == shape) continue;
    if (type(operand).shape.size() == shape.size()) {
      operand = broadcast(operand, shape, axes);
    } else {
      operand = broadcast(operand, shape, Ints(axes.end() - type(operand).shape.size(), axes.end()));
    }
  }
  Instruction instruction;
  instruction.opcode = Opcode::Elementwise;
  instruction.op = op;
  DType dtype = elementwise_dtype(op, attributes, dtypes);
  instruction.operands = std::move(operands);
  instruction.attributes = std::move(attributes);
  ValueId result = add_value({dtype, shape});
  instruction.results = {result};
  append(std::move(instruction));
  return result;
}

ValueId KernelBuilder::constant(double value, TileType tile_type) {
  Instruction instruction;
  instruction.opcode = Opcode::Const;
  bool floating = is_float(tile_type.dtype) || is_float8(tile_type.dtype);
  if (floating) {
    instruction.literal.f = round_to(tile_type.dtype, value);
  } else {
    instruction.literal.i = convert_scalar(Scalar::of_float(DType::F64, value), tile_type.dtype).i;
  }
  ValueId result = add_value(std::move(tile_type));
  instruction.results = {result};
  append(std::move(instruction));
  return result;
}

ValueId KernelBuilder::integer(int64_t value, TileType tile_type) {
  if (is_float(tile_type.dtype) || is_float8(tile_type.dtype))
    return constant(static_cast<double>(value), tile_type);
  Instruction instruction;
  instruction.opcode = Opcode::Const;
  instruction.literal.i = Scalar::of_integer(tile_type.dtype, value).i;
  ValueId result = add_value(std::move(tile_type));
  instruction.results = {result};
  append(std::move(instruction));
  return result;
}

ValueId KernelBuilder::index(DimIndex value, TileType tile_type) {
  Instruction instruction;
  instruction.opcode = Opcode::Index;
  instruction.access.index = {std::move(value)};
  ValueId result = add_value(std::move(tile_type));
  instruction.results = {result};
  append(std::move(instruction));
  return result;
}

ValueId KernelBuilder::load(Access access, TileType tile_type, Literal outside, Stage stage) {
  Instruction instruction;
  instruction.opcode = Opcode::Load;
  instruction.access = std::move(access);
  instruction.literal = outside;
  instruction.stage = stage;
  ValueId result = add_value(std::move(tile_type));
  instruction.results = {result};
  append(std::move(instruction));
  return result;
}

void KernelBuilder::store(ValueId value, Access access, StoreKind kind, bool streaming) {
  Instruction instruction;
  instruction.opcode = Opcode::Store;
  instruction.operands = {value};
  instruction.access = std::move(access);
  instruction.store = kind;
  instruction.streaming = streaming;
  append(std::move(instruction));
}

Dim KernelBuilder::load_scalar(Access access) {
  Instruction instruction;
  instruction.opcode = Opcode::LoadScalar;
  instruction.access = std::move(access);
  instruction.symbol = cat("s", next_symbol_++);
  Dim symbol = Dim::symbol(instruction.symbol);
  append(std::move(instruction));
  return symbol;
}

ValueId KernelBuilder::broadcast(ValueId value, std::vector<int64_t> shape, Ints axes) {
  if (type(value).shape == shape) return value;
  Instruction instruction;
  instruction.opcode = Opcode::Broadcast;
  instruction.operands = {value};
  instruction.axes = std::move(axes);
  ValueId result = add_value({type(value).dtype, std::move(shape)});
  instruction.results = {result};
  append(std::move(instruction));
  return result;
}

ValueId KernelBuilder::transpose(ValueId value, Ints perm) {
  Instruction instruction;
  instruction.opcode = Opcode::Transpose;
  instruction.operands = {value};
  TileType result_type{type(value).dtype, {}};
  for (int64_t axis : perm) result_type.shape.push_back(type(value).shape[axis]);
  instruction.axes = std::move(perm);
  ValueId result = add_value(std::move(result_type));
  instruction.results = {result};
  append(std::move(instruction));
  return result;
}

ValueId KernelBuilder::reshape(ValueId value, std::vector<int64_t> shape) {
  if (type(value).shape == shape) return value;
  Instruction instruction;
  instruction.opcode = Opcode::Reshape;
  instruction.operands = {value};
  ValueId result = add_value({type(value).dtype, std::move(shape)});
  instruction.results = {result};
  append(std::move(instruction));
  return result;
}

static std::vector<int64_t> without_axes(const std::vector<int64_t>& shape, const Ints& axes) {
  std::vector<int64_t> kept;
  for (int64_t i = 0; i < static_cast<int64_t>(shape.size()); ++i) {
    if (std::find(axes.begin(), axes.end(), i) == axes.end()) kept.push_back(shape[i]);
  }
  return kept;
}

ValueId KernelBuilder::reduce(Combine combine, ValueId value, Ints axes, std::vector<Dim> limits) {
  if (axes.empty()) return value;
  Instruction instruction;
  instruction.opcode = Opcode::Reduce;
  instruction.operands = {value};
  instruction.combine = combine;
  ValueId result = add_value({type(value).dtype, without_axes(type(value).shape, axes)});
  instruction.axes = std::move(axes);
  instruction.limits = std::move(limits);
  instruction.results = {result};
  append(std::move(instruction));
  return result;
}

std::vector<ValueId> KernelBuilder::scan(Combine combine, std::vector<ValueId> values,
                                         std::vector<ValueId> carries, int64_t axis, bool reverse,
                                         bool exclusive, std::vector<Dim> limits) {
  Instruction instruction;
  instruction.opcode = Opcode::Scan;
  instruction.combine = combine;
  instruction.axes = {axis};
  instruction.reverse = reverse;
  instruction.exclusive = exclusive;
  instruction.limits = std::move(limits);
  for (ValueId value : values) instruction.results.push_back(add_value(type(value)));
  for (ValueId carry : carries) instruction.results.push_back(add_value(type(carry)));
  instruction.operands = std::move(values);
  instruction.operands.insert(instruction.operands.end(), carries.begin(), carries.end());
  std::vector<ValueId> results = instruction.results;
  append(std::move(instruction));
  return results;
}

ValueId KernelBuilder::dot(ValueId a, ValueId b, ValueId acc, DotDims dims) {
  Instruction instruction;
  instruction.opcode = Opcode::Dot;
  instruction.operands = {a, b, acc};
  instruction.dot = std::move(dims);
  ValueId result = add_value(type(acc));
  instruction.results = {result};
  append(std::move(instruction));
  return result;
}

ValueId KernelBuilder::rng_bits(ValueId state, ValueId index) {
  Instruction instruction;
  instruction.opcode = Opcode::RngBits;
  instruction.operands = {state, index};
  ValueId result = add_value({DType::U32, type(index).shape});
  instruction.results = {result};
  append(std::move(instruction));
  return result;
}

void KernelBuilder::report(ValueId pred, ValueId value, int site) {
  kernel_.reports = true;
  Instruction instruction;
  instruction.opcode = Opcode::Report;
  instruction.operands = {pred, value};
  instruction.site = site;
  append(std::move(instruction));
}

ValueId KernelBuilder::convert(ValueId value, DType dtype) {
  if (type(value).dtype == dtype) return value;
  return elementwise(Op::Convert, {value}, {{"dtype", dtype}});
}

ValueId KernelBuilder::compare(ValueId a, ValueId b, const char* direction) {
  return elementwise(Op::Compare, {a, b}, {{"direction", std::string(direction)}});
}

Dim KernelBuilder::begin_for(Dim from, Dim to, Dim step, std::vector<ValueId> carries) {
  Instruction loop;
  loop.opcode = Opcode::For;
  loop.symbol = cat("j", next_symbol_++);
  loop.from = std::move(from);
  loop.to = std::move(to);
  loop.step = std::move(step);
  loop.blocks.emplace_back();
  for (ValueId carry : carries) loop.blocks[0].params.push_back(add_value(type(carry)));
  loop.operands = std::move(carries);
  Dim symbol = Dim::symbol(loop.symbol);
  open_.push_back(std::move(loop));
  return symbol;
}

void KernelBuilder::begin_if(Dim condition, std::vector<ValueId> carries) {
  Instruction branch;
  branch.opcode = Opcode::If;
  branch.condition = std::move(condition);
  branch.blocks.emplace_back();
  for (ValueId carry : carries) branch.blocks[0].params.push_back(add_value(type(carry)));
  branch.operands = std::move(carries);
  open_.push_back(std::move(branch));
}

void KernelBuilder::begin_custom(Opcode opcode, std::vector<ValueId> operands, Ints axes, bool reverse,
                                 bool exclusive, std::vector<Dim> limits) {
  Instruction instruction;
  instruction.opcode = opcode;
  instruction.combine = Combine::Custom;
  instruction.reverse = reverse;
  instruction.exclusive = exclusive;
  instruction.axes = std::move(axes);
  instruction.limits = std::move(limits);
  instruction.blocks.emplace_back();
  size_t count = opcode == Opcode::Scan ? operands.size() / 2 : operands.size();
  for (int side = 0; side < 2; ++side) {
    for (size_t i = 0; i < count; ++i) {
      instruction.blocks[0].params.push_back(add_value({type(operands[i]).dtype, {}}));
    }
  }
  instruction.operands = std::move(operands);
  open_.push_back(std::move(instruction));
}

std::vector<ValueId> KernelBuilder::end_block(std::vector<ValueId> yields) {
  Instruction yield;
  yield.opcode = Opcode::Yield;
  yield.operands = std::move(yields);
  append(std::move(yield));
  Instruction done = std::move(open_.back());
  open_.pop_back();
  for (ValueId operand : done.operands) done.results.push_back(add_value(type(operand)));
  std::vector<ValueId> results = done.results;
  append(std::move(done));
  return results;
}

std::vector<ValueId> KernelBuilder::end_custom(std::vector<ValueId> yields) {
  Instruction yield;
  yield.opcode = Opcode::Yield;
  yield.operands = std::move(yields);
  append(std::move(yield));
  Instruction done = std::move(open_.back());
  open_.pop_back();
  for (ValueId operand : done.operands) {
    TileType result = type(operand);
    if (done.opcode == Opcode::Reduce) result.shape = without_axes(result.shape, done.axes);
    done.results.push_back(add_value(std::move(result)));
  }
  std::vector<ValueId> results = done.results;
  append(std::move(done));
  return results;
}

static void collect_block_symbols(const Block& block, std::vector<std::string>& names) {
  for (const Instruction& instruction : block.body) {
    for (const DimIndex& index : instruction.access.index) index.base.collect_symbols(names);
    for (const Dim& limit : instruction.limits) limit.collect_symbols(names);
    instruction.from.collect_symbols(names);
    instruction.to.collect_symbols(names);
    instruction.step.collect_symbols(names);
    instruction.condition.collect_symbols(names);
    for (const Block& inner : instruction.blocks) collect_block_symbols(inner, names);
  }
}

void collect_symbols(const Kernel& kernel, std::vector<std::string>& names) {
  for (const Param& param : kernel.params) {
    for (const Dim& dim : param.dims) dim.collect_symbols(names);
    for (const Dim& stride : param.strides) stride.collect_symbols(names);
  }
  for (const Dim& dim : kernel.grid) dim.collect_symbols(names);
  collect_block_symbols(kernel.body, names);
}

}  // namespace tilewright::tile
