// Lowering of pads, gathers, dynamic slices and random bits: values read at computed indices.
#include <algorithm>

#include "base/text.h"
#include "codegen/lower/tile_lowering.h"
#include "ir/inference.h"

namespace tilewright {

using tile::TileType;

namespace {
const IndexExpr* dim_expr(const IndexMap& map, int dim) {
  for (const Segment& segment : map.segments) {
    if (segment.first == dim && segment.count == 1) return &segment.expr;
  }
  return nullptr;
}
bool never_positive(const Dim& dim) { return dim.is_constant() && dim.constant() <= 0; }
}  // namespace

ValueId TileLowering::indexed_load(ValueId value, const std::vector<IndexPart>& parts) {
  const TensorType& type = program_.graph().type(value);
  IndexMap map;
  std::vector<int64_t> shape = ones();
  for (size_t dim = 0; dim < parts.size(); ++dim) {
    map.segments.push_back({static_cast<int>(dim), 1, parts[dim].expr});
    if (!parts[dim].tile.is_valid()) continue;
    for (size_t i = 0; i < shape.size(); ++i)
      shape[i] = std::max(shape[i], kernel_.type(parts[dim].tile).shape[i]);
  }
  std::vector<int64_t> affine = tile_shape(map);
  for (size_t i = 0; i < shape.size(); ++i) shape[i] = std::max(shape[i], affine[i]);
  tile::Access access_to = access(program_.buffer_of(value), type, map, tile::AccessMode::Read);
  for (size_t dim = 0; dim < parts.size(); ++dim) access_to.index[dim].tile = parts[dim].tile;
  return kernel_.load(std::move(access_to), TileType{type.dtype, std::move(shape)});
}

ValueId TileLowering::pad(const Node& node, const IndexMap& map) {
  const Graph& graph = program_.graph();
  AttributeReader attributes(node.op, node.attributes);
  const Shape &lo = attributes.get_dims("lo"), &hi = attributes.get_dims("hi");
  const Ints& interior = attributes.get_ints("interior");
  const Shape& from = graph.type(node.operands[0]).shape;
  bool spread = std::any_of(interior.begin(), interior.end(), [](int64_t step) { return step != 0; });
  ValueId inside, loaded;
  auto require = [&](ValueId condition) {
    inside = inside.is_valid() ? kernel_.elementwise(Op::And, {inside, condition}) : condition;
  };
  std::vector<IndexPart> parts;
  for (const Segment& segment : map.segments) {
    int dim = segment.first;
    if (segment.count > 1) continue;  // pad_map has seen that these dims are not padded
    IndexExpr expr = segment.expr;
    expr.base = expr.base - lo[dim];
    int64_t step = interior.empty() ? 1 : interior[dim] + 1;
    if (step == 1) {
      parts.push_back({expr, {}});
      if (!never_positive(lo[dim])) require(kernel_.compare(index_tile(expr), integer_tile(Dim(0)), "GE"));
      if (!never_positive(hi[dim])) require(kernel_.compare(index_tile(expr), integer_tile(from[dim]), "LT"));
      continue;
    }
    ValueId position = index_tile(expr), width = integer_tile(Dim(step));
    ValueId quotient = kernel_.elementwise(Op::Divide, {position, width});
    ValueId rest = kernel_.elementwise(Op::Remainder, {position, width});
    require(kernel_.compare(position, integer_tile(Dim(0)), "GE"));
    require(kernel_.compare(rest, integer_tile(Dim(0)), "EQ"));
    require(kernel_.compare(quotient, integer_tile(from[dim]), "LT"));
    parts.push_back({IndexExpr{}, quotient});
  }
  if (spread) {
    loaded = indexed_load(node.operands[0], parts);
  } else {
    std::optional<IndexMap> operand = operand_map(graph, node, 0, map);
    if (!operand) {
      fail(Status::internal("pad: no map for the operand"));
      return {};
    }
    loaded = lower(node.operands[0], *operand);
  }
  ValueId outside = lower(node.operands[1], IndexMap{});
  if (!status_.is_ok() || !inside.is_valid()) return loaded;
  return kernel_.elementwise(Op::Select, {inside, loaded, outside});
}

// Which elements of a tile of that shape lie inside the domain, where some may not; else invalid.
ValueId TileLowering::real_elements(const std::vector<int64_t>& shape) {
  ValueId real;
  for (size_t axis = 0; axis < axes_.size(); ++axis) {
    const Axis& info = axes_[axis];
    bool exact = info.size.is_constant() && info.size.constant() > 0 && info.size.constant() % info.tile == 0;
    if (exact || (shape[axis] == 1 && info.tile > 1)) continue;
    ValueId inside = kernel_.compare(index_tile(IndexExpr::of_domain(static_cast<int>(axis))),
                                     integer_tile(info.size), "LT");
    real = real.is_valid() ? kernel_.elementwise(Op::And, {real, inside}) : inside;
  }
  return real;
}

ValueId TileLowering::apply_policy(NodeId id, ValueId start, const Dim& last, const Dim& bound,
                                   ValueId& good) {
  const Node& node = program_.graph().node(id);
  const std::string& policy = AttributeReader(node.op, node.attributes).get_string("oob");
  start = kernel_.convert(start, DType::I64);
  if (policy == "promise") return start;
  if (policy == "clamp") {
    ValueId capped = kernel_.elementwise(Op::Minimum, {start, integer_tile(last)});
    return kernel_.elementwise(Op::Maximum, {capped, integer_tile(Dim(0))});
  }
  ValueId above = kernel_.compare(start, integer_tile(Dim(0)), "GE");
  ValueId below = kernel_.compare(start, integer_tile(last), "LE");
  ValueId inside = kernel_.elementwise(Op::And, {above, below});
  good = good.is_valid() ? kernel_.elementwise(Op::And, {good, inside}) : inside;
  // Lanes behind the indices read 0, which is a fault only in an empty operand: without indices there is none
  // to report.
  if (policy == "error" && !program_.graph().type(node.operands[1]).elements().is_constant(0)) {
    int site = program_.add_site(
        ErrorSite{node.op, tagged_name(program_.graph(), id),
                  cat("index out of range, expected 0 <= index < ", bound.to_string()), bound});
    ValueId outside = kernel_.elementwise(Op::Not, {inside});
    ValueId real = real_elements(kernel_.type(outside).shape);
    if (real.is_valid()) outside = kernel_.elementwise(Op::And, {outside, real});
    kernel_.report(outside, start, site);
  }
  return start;
}

ValueId TileLowering::masked_fill(const Node& node, ValueId loaded, ValueId good) {
  if (!good.is_valid()) return loaded;
  AttributeReader attributes(node.op, node.attributes);
  double fill = attributes.get_string("oob") == "drop" ? attributes.get_float("fill") : 0;
  ValueId outside = kernel_.constant(fill, TileType{kernel_.type(loaded).dtype, ones()});
  return kernel_.elementwise(Op::Select, {good, loaded, outside});
}

ValueId TileLowering::gather(NodeId id, const IndexMap& map) {
  const Graph& graph = program_.graph();
  const Node& node = graph.node(id);
  AttributeReader attributes(node.op, node.attributes);
  const Ints &offset_dims = attributes.get_ints("offset_dims"), &collapsed = attributes.get_ints("collapsed");
  const Ints &batching = attributes.get_ints("operand_batching"),
             &index_batching = attributes.get_ints("indices_batching");
  const Ints& start_map = attributes.get_ints("start_index_map");
  const Shape &sizes = attributes.get_dims("slice_sizes"), &shape = graph.type(node.operands[0]).shape;
  int64_t vector_dim = attributes.get_int("index_vector_dim");
  std::vector<IndexMap> index_maps = operand_maps(graph, node, 1, map);
  auto contains = [](const Ints& list, int64_t x) {
    return std::find(list.begin(), list.end(), x) != list.end();
  };
  if (index_maps.size() != start_map.size()) {
    fail(Status::internal("gather: no map for the indices"));
    return {};
  }
  std::vector<IndexPart> parts(shape.size());
  ValueId good;
  size_t offset = 0;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    if (!contains(collapsed, dim) && !contains(batching, dim)) {
      const IndexExpr* expr = dim_expr(map, static_cast<int>(offset_dims[offset++]));
      if (!expr) {
        fail(Status::internal("gather: merged offset dims"));
        return {};
      }
      parts[dim].expr = *expr;
    }
  }
  for (size_t i = 0; i < batching.size(); ++i) {
    // The result dim of an indices dim: its rank among the batch dims of the result.
    int64_t rank_among = index_batching[i] - (vector_dim < index_batching[i] ? 1 : 0);
    int result_dim = 0;
    for (int64_t seen = 0;; ++result_dim) {
      if (contains(offset_dims, result_dim)) continue;
      if (seen++ == rank_among) break;
    }
    const IndexExpr* expr = dim_expr(map, result_dim);
    if (expr) parts[batching[i]].expr = *expr;
  }
  for (size_t i = 0; i < start_map.size(); ++i) {
    ValueId start = lower(node.operands[1], index_maps[i]);
    if (!status_.is_ok()) return {};
    int64_t dim = start_map[i];
    parts[dim].tile = apply_policy(id, start, shape[dim] - sizes[dim], shape[dim], good);
  }
  return masked_fill(node, indexed_load(node.operands[0], parts), good);
}

ValueId TileLowering::gather_elements(NodeId id, const IndexMap& map) {
  const Graph& graph = program_.graph();
  const Node& node = graph.node(id);
  int64_t along = AttributeReader(node.op, node.attributes).get_int("dim");
  const Shape& shape = graph.type(node.operands[0]).shape;
  ValueId start = lower(node.operands[1], map);
  if (!status_.is_ok()) return {};
  std::vector<IndexPart> parts(shape.size());
  ValueId good;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    const IndexExpr* expr = dim_expr(map, static_cast<int>(dim));
    if (!expr) {
      fail(Status::internal("gather_elements: merged dims"));
      return {};
    }
    if (static_cast<int64_t>(dim) != along) parts[dim].expr = *expr;
  }
  parts[along].tile = apply_policy(id, start, shape[along] - Dim(1), shape[along], good);
  return masked_fill(node, indexed_load(node.operands[0], parts), good);
}

ValueId TileLowering::dynamic_slice(const Node& node, const IndexMap& map) {
  const Graph& graph = program_.graph();
  const Shape& sizes = AttributeReader(node.op, node.attributes).get_dims("sizes");
  const Shape& shape = graph.type(node.operands[0]).shape;
  std::vector<IndexPart> parts(shape.size());
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    const IndexExpr* expr = dim_expr(map, static_cast<int>(dim));
    ValueId start = kernel_.convert(lower(node.operands[1 + dim], IndexMap{}), DType::I64);
    if (!expr || !status_.is_ok()) {
      fail(Status::internal("dynamic_slice: merged dims"));
      return {};
    }
    ValueId capped = kernel_.elementwise(Op::Minimum, {start, integer_tile(shape[dim] - sizes[dim])});
    parts[dim] = {*expr, kernel_.elementwise(Op::Maximum, {capped, integer_tile(Dim(0))})};
  }
  return indexed_load(node.operands[0], parts);
}

ValueId TileLowering::dynamic_update_slice(const Node& node, const IndexMap& map) {
  const Graph& graph = program_.graph();
  const Shape &shape = graph.type(node.operands[0]).shape, &sizes = graph.type(node.operands[1]).shape;
  ValueId old = lower(node.operands[0], map);
  std::vector<IndexPart> parts(shape.size());
  ValueId inside;
  auto require = [&](ValueId condition) {
    inside = inside.is_valid() ? kernel_.elementwise(Op::And, {inside, condition}) : condition;
  };
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    const IndexExpr* expr = dim_expr(map, static_cast<int>(dim));
    ValueId start = lower(node.operands[2 + dim], IndexMap{});
    if (!expr || !status_.is_ok()) {
      fail(Status::internal("dynamic_update_slice: merged dims"));
      return {};
    }
    start = kernel_.convert(start, DType::I64);
    start = kernel_.elementwise(Op::Minimum, {start, integer_tile(shape[dim] - sizes[dim])});
    start = kernel_.elementwise(Op::Maximum, {start, integer_tile(Dim(0))});
    ValueId position = kernel_.elementwise(Op::Subtract, {index_tile(*expr), start});
    require(kernel_.compare(position, integer_tile(Dim(0)), "GE"));
    require(kernel_.compare(position, integer_tile(sizes[dim]), "LT"));
    parts[dim] = {IndexExpr{}, position};
  }
  ValueId update = indexed_load(node.operands[1], parts);
  return inside.is_valid() ? kernel_.elementwise(Op::Select, {inside, update, old}) : update;
}

ValueId TileLowering::rng(const Node& node, ValueId value, const IndexMap& map) {
  const Graph& graph = program_.graph();
  ValueId state = node.operands[0];
  const TensorType& bits_type = graph.type(node.results[1]);
  int64_t words = AttributeReader(node.op, node.attributes).get_int("bits") / 32;
  if (value == node.results[0]) {
    // The counter (element 1) moves on by the number of Philox blocks used.
    const IndexExpr* expr = dim_expr(map, 0);
    ValueId old = load(state, map);
    if (!expr || !status_.is_ok()) return {};
    ValueId used =
        kernel_.convert(integer_tile(Dim::ceil_div(bits_type.elements() * Dim(words), Dim(4))), DType::U64);
    ValueId none = kernel_.integer(0, TileType{DType::U64, ones()});
    ValueId is_counter = kernel_.compare(index_tile(*expr), integer_tile(Dim(1)), "EQ");
    return kernel_.elementwise(Op::Add, {old, kernel_.elementwise(Op::Select, {is_counter, used, none})});
  }
  // Flat row-major position of each element.
  ValueId flat = integer_tile(Dim(0));
  Dim stride(1);
  for (size_t i = map.segments.size(); i-- > 0;) {
    const Segment& segment = map.segments[i];
    ValueId part = kernel_.elementwise(Op::Multiply, {index_tile(segment.expr), integer_tile(stride)});
    flat = kernel_.elementwise(Op::Add, {flat, part});
    for (int dim = segment.first; dim < segment.first + segment.count; ++dim)
      stride = stride * bits_type.shape[dim];
  }
  IndexMap start{{Segment{0, 1, IndexExpr{}}}};
  tile::Access state_access =
      access(program_.buffer_of(state), graph.type(state), start, tile::AccessMode::Read);
  state_access.index = {tile::DimIndex{Dim(0), {{0, 1}}, {}}};
  ValueId key = kernel_.load(std::move(state_access), TileType{DType::U64, {2}});
  if (words == 1) return kernel_.rng_bits(key, flat);
  ValueId low_index = kernel_.elementwise(Op::Multiply, {flat, integer_tile(Dim(2))});
  ValueId high_index = kernel_.elementwise(Op::Add, {low_index, integer_tile(Dim(1))});
  ValueId low = kernel_.convert(kernel_.rng_bits(key, low_index), DType::U64);
  ValueId high = kernel_.convert(kernel_.rng_bits(key, high_index), DType::U64);
  ValueId shifted =
      kernel_.elementwise(Op::ShiftLeft, {high, kernel_.integer(32, TileType{DType::U64, ones()})});
  return kernel_.elementwise(Op::Or, {low, shifted});
}

}  // namespace tilewright
