// Lowering of reductions inside a kernel: over whole axes of a tile, or by loops that carry partial results.
#include <algorithm>

#include "base/text.h"
#include "codegen/lower/tile_lowering.h"
#include "ir/accumulation.h"
#include "ir/inference.h"
#include "ir/reference/scalar.h"

namespace tilewright {

using tile::Combine;
using tile::TileType;

namespace {

Combine combine_of(Op op, DType dtype) {
  switch (op) {
    case Op::ReduceProduct: return Combine::Product;
    case Op::ReduceMax: return dtype == DType::Bool ? Combine::Or : Combine::Max;
    case Op::ReduceMin: return dtype == DType::Bool ? Combine::And : Combine::Min;
    case Op::ReduceAnd: return Combine::And;
    case Op::ReduceOr: return Combine::Or;
    case Op::ReduceXor: return Combine::Xor;
    default: return Combine::Sum;
  }
}

Op elementwise_of(Combine combine) {
  switch (combine) {
    case Combine::Product: return Op::Multiply;
    case Combine::Max: return Op::Maximum;
    case Combine::Min: return Op::Minimum;
    case Combine::And: return Op::And;
    case Combine::Or: return Op::Or;
    case Combine::Xor: return Op::Xor;
    default: return Op::Add;
  }
}

ValueId scalar_tile(tile::KernelBuilder& kernel, const Scalar& value, std::vector<int64_t> shape) {
  TileType type{value.dtype, std::move(shape)};
  if (is_float(value.dtype) || is_float8(value.dtype)) return kernel.constant(value.f, type);
  return kernel.integer(value.i, type);
}

}  // namespace

TileLowering::ReductionAxes TileLowering::reduction_axes(NodeId id, const IndexMap& operand_map,
                                                         bool in_loop) {
  const Node& node = program_.graph().node(id);
  AttributeReader attributes(node.op, node.attributes);
  bool arg = node.op == Op::Argmax || node.op == Op::Argmin;
  Ints dims = arg ? Ints{attributes.get_int("dim")} : attributes.get_ints("dims");
  std::vector<int> found;
  for (const Segment& segment : operand_map.segments) {
    if (std::find(dims.begin(), dims.end(), segment.first) == dims.end()) continue;
    for (const auto& [axis, coefficient] : segment.expr.terms) found.push_back(axis);
  }
  std::sort(found.begin(), found.end());
  ReductionAxes out;
  for (int axis : found) {
    const Axis& info = axes_[axis];
    out.tile_axes.push_back(axis);
    if (info.kind == AxisKind::Looped) out.looped.push_back(axis);
    if (info.kind == AxisKind::Full) {
      out.limits.push_back(
          Dim::min(Dim(info.tile), info.size));  // a tile has one element where the axis has none
      continue;
    }
    bool exact = info.size.is_constant() && info.size.constant() % info.tile == 0;
    out.limits.push_back(exact || !in_loop ? Dim(info.tile)
                                           : Dim::min(Dim(info.tile), info.size - info.base));
  }
  return out;
}

ValueId TileLowering::reduce(NodeId id) {
  const Graph& graph = program_.graph();
  const Node& node = graph.node(id);
  ValueId operand = node.operands[0];
  DType dtype = graph.type(operand).dtype;
  AttributeReader attributes(node.op, node.attributes);
  bool sums = node.op == Op::ReduceSum || node.op == Op::ReduceProduct;
  DType result_dtype = graph.type(node.results[0]).dtype;
  DType accumulate = sums ? accumulate_type_of(attributes, dtype, result_dtype) : dtype;
  Combine combine = combine_of(node.op, dtype);
  IndexMap map = reduction_map_(id);
  ReductionAxes axes = reduction_axes(id, map, false);
  auto reduce_tile = [&](bool in_loop) {
    ValueId x = kernel_.convert(lower(operand, map), accumulate);
    if (!status_.is_ok()) return ValueId{};
    std::vector<int64_t> shape = kernel_.type(x).shape, full = shape;
    ReductionAxes now = reduction_axes(id, map, in_loop);
    for (int64_t axis : now.tile_axes) full[axis] = axes_[axis].tile;
    x = kernel_.broadcast(
        x, full, all_axes());  // an operand that does not vary along the axis still counts each element
    for (int64_t axis : now.tile_axes) full[axis] = 1;
    bool limited = false;
    for (size_t i = 0; i < now.tile_axes.size(); ++i)
      limited |= !now.limits[i].is_constant(axes_[now.tile_axes[i]].tile);
    return kernel_.reshape(
        kernel_.reduce(combine, x, now.tile_axes, limited ? now.limits : std::vector<Dim>{}), full);
  };
  if (axes.looped.empty()) {
    ValueId reduced =
        axes.tile_axes.empty() ? kernel_.convert(lower(operand, map), accumulate) : reduce_tile(false);
    return status_.is_ok() ? kernel_.convert(reduced, result_dtype) : ValueId{};
  }
  hoist(operand, map);
  std::vector<int64_t> carry_shape = tile_shape(map);
  for (int64_t axis : axes.tile_axes) carry_shape[axis] = 1;
  ValueId start = scalar_tile(kernel_, reduction_identity(node.op, accumulate), carry_shape);
  open_loops(axes.looped, {start});
  ValueId carried = kernel_.loop_carries()[0];
  ValueId chunk = reduce_tile(true);
  if (!status_.is_ok()) return {};
  ValueId next = kernel_.elementwise(elementwise_of(combine), {carried, chunk});
  return kernel_.convert(close_loops({next})[0], result_dtype);
}

std::vector<ValueId> TileLowering::take_better(bool largest, const std::vector<ValueId>& left,
                                               const std::vector<ValueId>& right) {
  ValueId better = kernel_.compare(right[0], left[0], largest ? "GT" : "LT");
  ValueId tie = kernel_.compare(right[0], left[0], "EQ");
  if (is_float(kernel_.type(left[0]).dtype)) {
    // NaN beats every number, the first NaN beats the others.
    ValueId left_nan = kernel_.compare(left[0], left[0], "NE"),
            right_nan = kernel_.compare(right[0], right[0], "NE");
    ValueId fresh = kernel_.elementwise(Op::And, {right_nan, kernel_.elementwise(Op::Not, {left_nan})});
    better = kernel_.elementwise(Op::Or, {better, fresh});
    tie = kernel_.elementwise(Op::Or, {tie, kernel_.elementwise(Op::And, {left_nan, right_nan})});
  }
  ValueId earlier = kernel_.elementwise(Op::And, {tie, kernel_.compare(right[1], left[1], "LT")});
  ValueId take = kernel_.elementwise(Op::Or, {better, earlier});
  return {kernel_.elementwise(Op::Select, {take, right[0], left[0]}),
          kernel_.elementwise(Op::Select, {take, right[1], left[1]})};
}

ValueId TileLowering::arg_reduce(NodeId id) {
  const Graph& graph = program_.graph();
  const Node& node = graph.node(id);
  ValueId operand = node.operands[0];
  DType dtype = graph.type(operand).dtype, result_dtype = graph.type(node.results[0]).dtype;
  bool largest = node.op == Op::Argmax;
  IndexMap map = reduction_map_(id);
  ReductionAxes axes = reduction_axes(id, map, false);
  if (axes.tile_axes.empty()) {  // an axis of size 1 that the domain does not have
    lower(operand, map);
    return kernel_.convert(integer_tile(Dim(0)), result_dtype);
  }
  int axis = static_cast<int>(axes.tile_axes[0]);
  auto reduce_tile = [&](bool in_loop) -> std::vector<ValueId> {
    ValueId x = lower(operand, map);
    if (!status_.is_ok()) return {};
    std::vector<int64_t> full = kernel_.type(x).shape;
    full[axis] = axes_[axis].tile;
    x = kernel_.broadcast(x, full, all_axes());
    ValueId position = kernel_.broadcast(index_tile(IndexExpr::of_domain(axis)), full, all_axes());
    ReductionAxes now = reduction_axes(id, map, in_loop);
    bool limited = !now.limits[0].is_constant(axes_[axis].tile);
    kernel_.begin_custom(tile::Opcode::Reduce, {x, position}, {axis}, false, false,
                         limited ? now.limits : std::vector<Dim>{});
    std::vector<ValueId> sides = kernel_.combine_params();
    std::vector<ValueId> best =
        kernel_.end_custom(take_better(largest, {sides[0], sides[1]}, {sides[2], sides[3]}));
    full[axis] = 1;
    return {kernel_.reshape(best[0], full), kernel_.reshape(best[1], full)};
  };
  if (axes.looped.empty()) {
    std::vector<ValueId> best = reduce_tile(false);
    return best.empty() ? ValueId{} : kernel_.convert(best[1], result_dtype);
  }
  hoist(operand, map);
  std::vector<int64_t> carry_shape = tile_shape(map);
  carry_shape[axis] = 1;
  ValueId worst =
      scalar_tile(kernel_, reduction_identity(largest ? Op::ReduceMax : Op::ReduceMin, dtype), carry_shape);
  open_loops(axes.looped, {worst, kernel_.integer(INT64_MAX, TileType{DType::I64, carry_shape})});
  std::vector<ValueId> carried = kernel_.loop_carries();
  std::vector<ValueId> chunk = reduce_tile(true);
  if (!status_.is_ok()) return {};
  return kernel_.convert(close_loops(take_better(largest, carried, chunk))[1], result_dtype);
}

}  // namespace tilewright
