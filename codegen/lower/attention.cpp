// Attention kept whole: which nodes, and the tiles that forward and backward share.
#include "codegen/lower/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/inference.h"

namespace tilewright {

using tile::AccessMode;
using tile::TileType;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kLargestWidth = 512;  // wider heads do not fit the caches as whole rows

int first_operand(const Node& node) { return node.op == Op::AttentionGrad ? 1 : 0; }

}  // namespace

bool attention_is_lowered(const Graph& graph, const Node& node) {
  if (node.op != Op::Attention && node.op != Op::AttentionGrad) return false;
  if (node.op == Op::AttentionGrad && AttributeReader(node.op, node.attributes).get_bool("mask_grad"))
    return false;
  int first = first_operand(node);
  for (int i = first; i < first + 3; ++i) {
    const Shape& shape = graph.type(node.operands[i]).shape;
    if (shape.size() != 4 || !shape[3].is_constant()) return false;
    if (shape[3].constant() < 1 || shape[3].constant() > kLargestWidth) return false;
  }
  return true;
}

AttentionProblem read_attention(const Graph& graph, const Node& node) {
  AttributeReader attributes(node.op, node.attributes);
  size_t first = static_cast<size_t>(first_operand(node));
  auto operand = [&](size_t index) {
    return first + index < node.operands.size() ? node.operands[first + index] : ValueId{};
  };
  AttentionProblem p;
  p.q = operand(0), p.k = operand(1), p.v = operand(2), p.mask = operand(3), p.state = operand(4);
  const Shape &q = graph.type(p.q).shape, &k = graph.type(p.k).shape, &v = graph.type(p.v).shape;
  p.batch = q[0], p.heads = q[1], p.key_heads = k[1], p.queries = q[2], p.keys = k[2];
  p.group = p.heads == p.key_heads ? Dim(1) : Dim::floor_div(p.heads, p.key_heads);
  p.width = q[3].constant(), p.value_width = v[3].constant();
  p.dtype = graph.type(p.q).dtype, p.work = accumulation_type(p.dtype);
  p.causal = attributes.get_bool("causal"), p.safe = attributes.get_bool("safe");
  p.window = attributes.get_int("window");
  p.scale =
      attributes.has("scale") ? attributes.get_float("scale") : 1 / std::sqrt(static_cast<double>(p.width));
  p.softcap = attributes.get_float("softcap"), p.dropout = attributes.get_float("dropout");
  return p;
}

AttentionBlock attention_block(const TargetLimits& limits, DType dtype, int64_t width) {
  AttentionBlock block;
  if (limits.shared_bytes_per_block == 0) return block;
  // Queries, keys, values and what is between them for two blocks of threads a multiprocessor.
  block.keys = block.keys_of_few = 64;
  block.wanted_instances = limits.multiprocessors;
  const int64_t row_bytes = width * std::max<int64_t>(dtype_bytes(dtype), 2);
  while (block.keys > 16 && 3 * block.keys * row_bytes > limits.shared_bytes_per_block / 2) {
    block.keys /= 2;
    block.queries /= 2;
  }
  block.keys_of_few = block.keys;
  block.min_queries = std::min(block.min_queries, block.queries);
  return block;
}

int AttentionTiles::add_param(const char* name, ValueId value, AccessMode mode) {
  return add_param(name, program_.buffer_of(value), program_.graph().type(value), mode);
}

int AttentionTiles::add_param(const char* name, BufferId buffer, TensorType type, AccessMode mode) {
  buffers_.push_back(buffer);
  return kernel.add_param(tile::Param{name, type.dtype, std::move(type.shape), {}, mode});
}

void AttentionTiles::add_score_params() {
  if (problem_.mask.is_valid()) mask_ = add_param("mask", problem_.mask);
  if (problem_.dropout > 0) state_ = add_param("state", problem_.state);
}

void AttentionTiles::launch(std::string description, NodeId node) {
  program_.launch_kernel(kernel.take(), std::move(buffers_), std::move(description), {node.index});
}

ValueId AttentionTiles::load_rows(int param, const Dim& batch, const Dim& head, const Dim& first,
                                  int64_t positions, int64_t features, bool transposed) {
  int position_axis = transposed ? 1 : 0;
  std::vector<int64_t> shape{positions, features};
  if (transposed) std::swap(shape[0], shape[1]);
  tile::Access access{param,
                      {{batch, {}, {}},
                       {head, {}, {}},
                       {first, {{position_axis, 1}}, {}},
                       {Dim(0), {{1 - position_axis, 1}}, {}}},
                      false};
  return kernel.load(std::move(access), TileType{problem_.dtype, std::move(shape)}, {}, tile::Stage::Packed);
}

void AttentionTiles::store_rows(int param, const Dim& batch, const Dim& head, const Dim& first,
                                ValueId tile) {
  kernel.store(
      kernel.convert(tile, problem_.dtype),
      tile::Access{
          param, {{batch, {}, {}}, {head, {}, {}}, {first, {{0, 1}}, {}}, {Dim(0), {{1, 1}}, {}}}, false});
}

static tile::Access query_access(int param, const ScoreBlock& block) {
  return {param,
          {{block.batch, {}, {}},
           block.head_index(block.query_axis),
           block.query_index(block.query_axis),
           {Dim(0), {{block.key_axis(), 1}}, {}}},
          false};
}

ValueId AttentionTiles::load_queries(int param, const ScoreBlock& block, int64_t features) {
  std::vector<int64_t> shape{block.rows(), features};
  if (block.query_axis == 1) std::swap(shape[0], shape[1]);
  return kernel.load(query_access(param, block), TileType{problem_.dtype, std::move(shape)}, {},
                     tile::Stage::Packed);
}

void AttentionTiles::store_queries(int param, const ScoreBlock& block, ValueId tile) {
  kernel.store(kernel.convert(tile, problem_.dtype), query_access(param, block));
}

ValueId AttentionTiles::load_statistic(int param, const ScoreBlock& block, double outside) {
  tile::Access access{param, {{block.batch, {}, {}}, block.head_index(0), block.query_index(0)}, false};
  TileType type{kernel.kernel().params[static_cast<size_t>(param)].dtype, {block.rows()}};
  ValueId tile = widen(kernel.load(std::move(access), std::move(type), {outside, 0}));
  return kernel.broadcast(tile, block.shape(), {block.query_axis});
}

void AttentionTiles::store_statistic(int param, const ScoreBlock& block, ValueId tile) {
  kernel.store(
      tile, tile::Access{param, {{block.batch, {}, {}}, block.head_index(0), block.query_index(0)}, false});
}

ValueId AttentionTiles::accumulate(ValueId computed, ValueId loaded, ValueId acc, bool bounded) {
  const TargetLimits& limits = program_.limits();
  // Unbounded values may leave the range of f16.
  const bool fits = problem_.dtype == DType::BF16 || (problem_.dtype == DType::F16 && bounded);
  if (limits.shared_bytes_per_block == 0 || !limits.has_bf16_dot || !fits)
    return dot(computed, widen(loaded), acc);
  ValueId high = kernel.convert(computed, problem_.dtype);
  ValueId rest = subtract(computed, widen(high));
  return dot(kernel.convert(rest, problem_.dtype), loaded, dot(high, loaded, acc));
}

ValueId AttentionTiles::nothing_to_zero(ValueId x) {
  return kernel.elementwise(Op::Select, {kernel.compare(x, splat(-kInfinity, x), "EQ"), splat(0, x), x});
}

AttentionTiles::Scores AttentionTiles::scores(const ScoreBlock& block, ValueId lhs, ValueId rhs,
                                              bool mask_tail) {
  Scores result;
  ValueId x = dot(lhs, rhs, zeros(block.shape()));
  x = multiply(x, splat(problem_.scale, x));
  if (problem_.softcap > 0) {
    result.capped =
        kernel.elementwise(Op::Tanh, {kernel.elementwise(Op::Divide, {x, splat(problem_.softcap, x)})});
    x = multiply(result.capped, splat(problem_.softcap, x));
  }
  x = apply_mask(block, x);
  ValueId inside = allowed(block, mask_tail);
  if (inside.is_valid()) x = kernel.elementwise(Op::Select, {inside, x, splat(-kInfinity, x)});
  result.value = x;
  return result;
}

ValueId AttentionTiles::apply_mask(const ScoreBlock& block, ValueId x) {
  if (mask_ < 0) return x;
  const TensorType& type = program_.graph().type(problem_.mask);
  const tile::DimIndex places[4] = {{block.batch, {}, {}},
                                    block.head_index(block.query_axis),
                                    block.query_index(block.query_axis),
                                    {block.key, {{block.key_axis(), 1}}, {}}};
  tile::Access access{mask_, {}, false};
  std::vector<int64_t> shape{1, 1};
  size_t missing = 4 - type.shape.size();
  for (size_t i = 0; i < type.shape.size(); ++i) {
    const tile::DimIndex& place = places[i + missing];
    bool repeated = type.shape[i].is_constant(1);
    access.index.push_back(repeated ? tile::DimIndex{} : place);
    if (!repeated && !place.terms.empty()) shape[place.terms[0].axis] = block.shape()[place.terms[0].axis];
  }
  ValueId mask = kernel.load(std::move(access), TileType{type.dtype, std::move(shape)});
  if (type.dtype != DType::Bool) return add(x, widen(mask));
  return kernel.elementwise(Op::Select, {mask, x, splat(-kInfinity, x)});
}

ValueId AttentionTiles::allowed(const ScoreBlock& block, bool mask_tail) {
  ValueId inside;
  TileType type{DType::I32, block.shape()};
  auto constant = [&](int64_t value) { return kernel.integer(value, type); };
  bool near = problem_.window >= 0;
  if (problem_.causal || near) {
    tile::DimIndex difference = block.query_index(block.query_axis);
    difference.base = difference.base - block.key;
    difference.terms.push_back({block.key_axis(), -1});
    ValueId distance = kernel.index(std::move(difference), type);
    if (problem_.causal) inside = kernel.compare(distance, constant(0), "GE");
    if (near && problem_.window < INT32_MAX) {
      inside = both(inside, kernel.compare(distance, constant(problem_.window), "LT"));
      if (!problem_.causal) inside = both(inside, kernel.compare(distance, constant(-problem_.window), "GT"));
    }
  }
  // A causal block never reaches behind the last key, unless there are more queries than keys.
  bool reaches_over =
      !(problem_.causal && problem_.queries == problem_.keys) && !problem_.keys.is_multiple_of(block.keys);
  if (mask_tail && reaches_over) {
    ValueId behind =
        kernel.index(tile::DimIndex{block.key - problem_.keys, {{block.key_axis(), 1}}, {}}, type);
    inside = both(inside, kernel.compare(behind, constant(0), "LT"));
  }
  return inside;
}

ValueId AttentionTiles::keep(const ScoreBlock& block) {
  if (state_ < 0) return {};
  // Word i of the generator belongs to flat index i of [batch, head, query, key].
  TileType type{DType::I64, block.shape()};
  Dim row = (block.batch * problem_.heads + block.head) * problem_.queries + block.query;
  ValueId flat = kernel.index(tile::DimIndex{row, {{block.query_axis, 1}}, {}}, type);
  flat = multiply(flat, kernel.index(tile::DimIndex{problem_.keys, {}, {}}, type));
  flat = add(flat, kernel.index(tile::DimIndex{block.key, {{block.key_axis(), 1}}, {}}, type));
  ValueId state =
      kernel.load(tile::Access{state_, {{Dim(0), {{0, 1}}, {}}}, true}, TileType{DType::U64, {2}});
  ValueId bits = kernel.rng_bits(state, flat);
  ValueId top = kernel.elementwise(Op::ShiftRightLogical,
                                   {bits, kernel.integer(8, TileType{DType::U32, block.shape()})});
  TileType uniform{DType::F32, block.shape()};
  ValueId u = multiply(kernel.convert(top, DType::F32), kernel.constant(0x1p-24, uniform));
  return kernel.compare(u, kernel.constant(problem_.dropout, uniform), "GE");
}

ValueId AttentionTiles::drop(ValueId keep, ValueId x) {
  if (!keep.is_valid()) return x;
  ValueId scaled = x;
  if (problem_.dropout < 1) scaled = kernel.elementwise(Op::Divide, {x, splat(1 - problem_.dropout, x)});
  return kernel.elementwise(Op::Select, {keep, scaled, splat(0, x)});
}

static Dim floor_to(const Dim& value, int64_t step) {
  return Dim::floor_div(Dim::max(value, Dim(0)), Dim(step)) * Dim(step);
}

std::pair<Dim, Dim> AttentionTiles::key_range(const Dim& query, int64_t queries, int64_t step) const {
  Dim from(0), to = problem_.keys;
  if (problem_.causal) to = Dim::min(to, query + Dim(queries));
  if (problem_.window >= 0 && problem_.window < INT32_MAX) {
    from = floor_to(query - Dim(problem_.window) + Dim(1), step);
    if (!problem_.causal) to = Dim::min(to, query + Dim(queries - 1) + Dim(problem_.window));
  }
  return {from, to};
}

std::pair<Dim, Dim> AttentionTiles::query_range(const Dim& key, int64_t keys, int64_t step) const {
  Dim from(0), to = problem_.queries;
  if (problem_.causal) from = floor_to(key, step);
  if (problem_.window >= 0 && problem_.window < INT32_MAX) {
    to = Dim::min(to, key + Dim(keys - 1) + Dim(problem_.window));
    if (!problem_.causal) from = floor_to(key - Dim(problem_.window) + Dim(1), step);
  }
  return {from, to};
}

Result<bool> lower_attention(ProgramBuilder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  if (!attention_is_lowered(builder.graph(), node)) return false;
  if (node.op == Op::Attention) {
    TW_RETURN_IF_ERROR(lower_attention_forward(builder, id));
  } else {
    TW_RETURN_IF_ERROR(lower_attention_backward(builder, id));
  }
  return true;
}

}  // namespace tilewright
