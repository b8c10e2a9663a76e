// Lowering of values to tiles: memo, loads, stores, loops, elementwise and movement ops.
#include "codegen/lower/tile_lowering.h"

#include <algorithm>

#include "base/text.h"
#include "ir/inference.h"

namespace tilewright {

using tile::TileType;

Ints TileLowering::all_axes() const {
  Ints axes;
  for (size_t i = 0; i < axes_.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  return axes;
}

bool TileLowering::varies_in_loops(const IndexMap& map) const {
  for (const Segment& segment : map.segments) {
    for (const auto& [axis, coefficient] : segment.expr.terms) {
      if (axes_[axis].kind == AxisKind::Looped) return true;
    }
  }
  return false;
}

std::vector<int64_t> TileLowering::tile_shape(const IndexMap& map) const {
  std::vector<int64_t> shape = ones();
  for (const Segment& segment : map.segments) {
    for (const auto& [axis, coefficient] : segment.expr.terms) shape[axis] = axes_[axis].tile;
  }
  return shape;
}

tile::DimIndex TileLowering::dim_index(const IndexExpr& expr) const {
  tile::DimIndex index;
  index.base = expr.base;
  for (const auto& [axis, coefficient] : expr.terms) {
    index.base = index.base + axes_[axis].base * Dim(coefficient);
    if (axes_[axis].tile > 1) index.terms.push_back({axis, coefficient});
  }
  return index;
}

ValueId TileLowering::index_tile(const IndexExpr& expr) {
  std::vector<int64_t> shape = ones();
  for (const auto& [axis, coefficient] : expr.terms) shape[axis] = axes_[axis].tile;
  return kernel_.index(dim_index(expr), TileType{DType::I64, std::move(shape)});
}

ValueId TileLowering::integer_tile(const Dim& value) {
  return kernel_.index(tile::DimIndex{value, {}, {}}, TileType{DType::I64, ones()});
}

tile::Access TileLowering::access(BufferId buffer, const TensorType& type, const IndexMap& map,
                                  tile::AccessMode mode) {
  Shape dims;
  for (const Segment& segment : map.segments) {
    Dim product(1);
    for (int dim = segment.first; dim < segment.first + segment.count; ++dim)
      product = product * type.shape[dim];
    dims.push_back(product);
  }
  std::string key = cat(buffer.index, ":", shape_to_string(dims));
  auto [found, fresh] = params_.try_emplace(key, 0);
  if (fresh) {
    tile::Param param;
    param.name = cat("b", kernel_.kernel().params.size());
    param.dtype = type.dtype;
    param.dims = std::move(dims);
    param.mode = mode;
    found->second = kernel_.add_param(std::move(param));
    buffers_.push_back(buffer);
  } else if (kernel_.kernel().params[found->second].mode != mode) {
    kernel_.kernel().params[found->second].mode = tile::AccessMode::ReadWrite;
  }
  tile::Access out;
  out.param = found->second;
  for (const Segment& segment : map.segments) out.index.push_back(dim_index(segment.expr));
  return out;
}

void TileLowering::open_loops(const std::vector<int>& axes, std::vector<ValueId> carries) {
  for (int axis : axes) {
    Axis& looped = axes_[axis];
    looped.base = kernel_.begin_for(Dim(0), looped.size, Dim(looped.tile), std::move(carries));
    looped.open = true;
    carries = kernel_.loop_carries();
  }
  open_axes_.push_back(axes);
  scopes_.emplace_back();
}

std::vector<ValueId> TileLowering::close_loops(std::vector<ValueId> yields) {
  for (size_t i = open_axes_.back().size(); i-- > 0;) {
    yields = kernel_.end_block(std::move(yields));
    axes_[open_axes_.back()[i]].open = false;
  }
  open_axes_.pop_back();
  scopes_.pop_back();
  return yields;
}

std::string TileLowering::memo_key(ValueId value, const IndexMap& map) {
  return cat(value.index, "@", map.to_string());
}

ValueId TileLowering::lower(ValueId value, const IndexMap& map) {
  if (!status_.is_ok()) return {};
  std::string key = memo_key(value, map);
  for (size_t i = scopes_.size(); i-- > 0;) {
    auto found = scopes_[i].find(key);
    if (found != scopes_[i].end()) return found->second;
  }
  ValueId lowered = computed_(value) ? compute(value, map) : load(value, map);
  if (status_.is_ok()) scopes_.back()[key] = lowered;
  return lowered;
}

void TileLowering::hoist(ValueId value, const IndexMap& map) {
  if (!status_.is_ok()) return;
  if (!varies_in_loops(map)) {
    lower(value, map);
    return;
  }
  if (!computed_(value)) return;
  NodeId id = program_.graph().value(value).node;
  const Node& node = program_.graph().node(id);
  for (size_t i = 0; i < node.operands.size(); ++i) {
    if (!node.operands[i].is_valid() || node.op == Op::DimSize) continue;
    if (reads_buffer(program_.graph(), node, static_cast<int>(i))) continue;
    for (const IndexMap& operand : operand_maps(program_.graph(), node, static_cast<int>(i), map)) {
      hoist(node.operands[i], operand);
    }
  }
}

ValueId TileLowering::load(ValueId value, const IndexMap& map) {
  const TensorType& type = program_.graph().type(value);
  BufferId buffer = program_.buffer_of(value);
  if (!buffer.is_valid()) {
    fail(Status::internal(cat("value ", program_.graph().value_name(value), " is read but not stored")));
    return {};
  }
  for (const Segment& segment : map.segments) {
    for (const auto& [axis, coefficient] : segment.expr.terms) {
      if (axes_[axis].kind == AxisKind::Looped && !axes_[axis].open) {
        fail(Status::internal(
            cat("value ", program_.graph().value_name(value), " is read outside of its loop")));
        return {};
      }
    }
  }
  return kernel_.load(access(buffer, type, map, tile::AccessMode::Read),
                      TileType{type.dtype, tile_shape(map)});
}

ValueId TileLowering::constant(const Node& node) {
  ConstantRef value = AttributeReader(node.op, node.attributes).get_constant("value");
  DType dtype = value->type.dtype;
  if (is_float(dtype) || is_float8(dtype))
    return kernel_.constant(element_as_double(*value, 0), TileType{dtype, ones()});
  return kernel_.integer(element_as_integer(*value, 0), TileType{dtype, ones()});
}

ValueId TileLowering::elementwise(const Node& node, const IndexMap& map) {
  std::vector<ValueId> operands;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    std::optional<IndexMap> operand = operand_map(program_.graph(), node, static_cast<int>(i), map);
    if (!operand) {
      fail(Status::internal(cat(op_name(node.op), ": no map for operand ", i)));
      return {};
    }
    operands.push_back(lower(node.operands[i], *operand));
  }
  if (!status_.is_ok()) return {};
  return kernel_.elementwise(node.op, std::move(operands), node.attributes);
}

ValueId TileLowering::compute(ValueId value, const IndexMap& map) {
  const Graph& graph = program_.graph();
  NodeId id = graph.value(value).node;
  const Node& node = graph.node(id);
  AttributeReader attributes(node.op, node.attributes);
  switch (node.op) {
    case Op::Constant: return constant(node);
    case Op::Iota: {
      int64_t dim = attributes.get_int("dim");
      for (const Segment& segment : map.segments) {
        if (segment.first == dim && segment.count == 1)
          return kernel_.convert(index_tile(segment.expr), graph.type(value).dtype);
      }
      break;
    }
    case Op::DimSize: return integer_tile(graph.type(node.operands[0]).shape[attributes.get_int("dim")]);
    case Op::Reshape:
    case Op::BroadcastInDim:
    case Op::Transpose:
    case Op::Slice:
    case Op::Reverse:
    case Op::StopGradient: {
      std::optional<IndexMap> operand = operand_map(graph, node, 0, map);
      if (operand) return lower(node.operands[0], *operand);
      break;
    }
    case Op::Pad: return pad(node, map);
    case Op::Concatenate: return concatenate(node, map);
    case Op::Gather: return gather(id, map);
    case Op::GatherElements: return gather_elements(id, map);
    case Op::DynamicSlice: return dynamic_slice(node, map);
    case Op::DynamicUpdateSlice: return dynamic_update_slice(node, map);
    case Op::RngBitGenerator: return rng(node, value, map);
    case Op::ReduceSum:
    case Op::ReduceProduct:
    case Op::ReduceMax:
    case Op::ReduceMin:
    case Op::ReduceAnd:
    case Op::ReduceOr:
    case Op::ReduceXor: return reduce(id);
    case Op::Argmax:
    case Op::Argmin: return arg_reduce(id);
    default: {
      if (node.info().kind == OpKind::Elementwise || node.op == Op::BitcastConvert)
        return elementwise(node, map);
      break;
    }
  }
  fail(Status::internal(cat("no tile lowering of ", node_name(graph, id))));
  return {};
}

ValueId TileLowering::concatenate(const Node& node, const IndexMap& map) {
  const Graph& graph = program_.graph();
  int64_t along = AttributeReader(node.op, node.attributes).get_int("dim");
  ValueId position;
  for (const Segment& segment : map.segments) {
    if (segment.first == along) position = index_tile(segment.expr);
  }
  std::vector<Dim> offsets{Dim(0)};
  for (ValueId operand : node.operands) offsets.push_back(offsets.back() + graph.type(operand).shape[along]);
  ValueId joined;
  for (size_t i = node.operands.size(); i-- > 0;) {
    std::optional<IndexMap> operand = operand_map(graph, node, static_cast<int>(i), map);
    if (!operand) {
      fail(Status::internal("concatenate: no map for an operand"));
      return {};
    }
    ValueId part = lower(node.operands[i], *operand);
    if (!status_.is_ok()) return {};
    if (!joined.is_valid()) {
      joined = part;
      continue;
    }
    ValueId inside = kernel_.compare(position, integer_tile(offsets[i + 1]), "LT");
    joined = kernel_.elementwise(Op::Select, {inside, part, joined});
  }
  return joined;
}

}  // namespace tilewright
