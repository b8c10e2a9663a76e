// Transforms of index maps through elementwise and movement ops.
#include "codegen/lower/index_map.h"

#include <algorithm>

#include "base/text.h"
#include "ir/inference.h"

namespace tilewright {

bool IndexExpr::is_identity(int* dim) const {
  if (!base.is_constant(0) || terms.size() != 1 || terms[0].second != 1) return false;
  if (dim) *dim = terms[0].first;
  return true;
}

std::string IndexExpr::to_string() const {
  std::string text = base.to_string();
  for (const auto& [dim, coefficient] : terms) text += cat("+", coefficient, "*d", dim);
  return text;
}

std::string IndexMap::to_string() const {
  return join(segments, ";",
              [](const Segment& segment) { return cat(segment.count, ":", segment.expr.to_string()); });
}

IndexMap identity_map(int rank) {
  IndexMap map;
  for (int i = 0; i < rank; ++i) map.segments.push_back({i, 1, IndexExpr::of_domain(i)});
  return map;
}

namespace {

IndexExpr affine(const IndexExpr& expr, int64_t scale, const Dim& offset) {
  IndexExpr out{expr.base * Dim(scale) + offset, {}};
  for (const auto& [dim, coefficient] : expr.terms) out.terms.emplace_back(dim, coefficient * scale);
  return out;
}

// The segment that is exactly the one dim `dim`; null when the dim is merged with others.
const Segment* single(const IndexMap& map, int dim) {
  for (const Segment& segment : map.segments) {
    if (segment.first == dim && segment.count == 1) return &segment;
  }
  return nullptr;
}

// Same segments, every one must be single.
std::optional<IndexMap> map_each_dim(const IndexMap& map, int rank,
                                     const std::function<IndexExpr(int, const IndexExpr&)>& change,
                                     const std::function<bool(int)>& unchanged) {
  IndexMap out;
  for (const Segment& segment : map.segments) {
    if (segment.count == 1) {
      out.segments.push_back({segment.first, 1, change(segment.first, segment.expr)});
      continue;
    }
    for (int dim = segment.first; dim < segment.first + segment.count; ++dim) {
      if (!unchanged(dim)) return std::nullopt;
    }
    out.segments.push_back(segment);
  }
  (void)rank;
  return out;
}

std::optional<IndexMap> broadcast_map(const Node& node, const TensorType& from, const TensorType& to,
                                      const IndexMap& map) {
  const Ints& dims = AttributeReader(node.op, node.attributes).get_ints("dims");
  IndexMap out;
  for (int i = 0; i < from.rank();) {
    int target = static_cast<int>(dims[i]);
    bool repeated = !(from.shape[i] == to.shape[target]);
    auto segment = std::find_if(map.segments.begin(), map.segments.end(), [&](const Segment& candidate) {
      return target >= candidate.first && target < candidate.first + candidate.count;
    });
    if (segment == map.segments.end()) return std::nullopt;
    if (segment->count == 1) {
      out.segments.push_back({i, 1, repeated ? IndexExpr{} : segment->expr});
      ++i;
      continue;
    }
    // A merged segment must come whole, in order, unrepeated.
    if (target != segment->first || i + segment->count > from.rank()) return std::nullopt;
    for (int k = 0; k < segment->count; ++k) {
      if (dims[i + k] != target + k || !(from.shape[i + k] == to.shape[target + k])) return std::nullopt;
    }
    out.segments.push_back({i, segment->count, segment->expr});
    i += segment->count;
  }
  // Result segments that the operand lacks must be lacking as a whole, which the scan above ensured.
  return out;
}

std::optional<IndexMap> transpose_map(const Node& node, const IndexMap& map) {
  const Ints& perm = AttributeReader(node.op, node.attributes).get_ints("perm");
  IndexMap out;
  for (const Segment& segment : map.segments) {
    for (int k = 1; k < segment.count; ++k) {
      if (perm[segment.first + k] != perm[segment.first] + k) return std::nullopt;
    }
    out.segments.push_back({static_cast<int>(perm[segment.first]), segment.count, segment.expr});
  }
  std::sort(out.segments.begin(), out.segments.end(),
            [](const Segment& a, const Segment& b) { return a.first < b.first; });
  return out;
}

std::optional<IndexMap> slice_map(const Node& node, const TensorType& from, const IndexMap& map) {
  AttributeReader attributes(node.op, node.attributes);
  const Shape &start = attributes.get_dims("start"), &limit = attributes.get_dims("limit");
  const Ints& stride = attributes.get_ints("stride");
  auto step = [&](int dim) { return stride.empty() ? 1 : stride[dim]; };
  return map_each_dim(
      map, from.rank(), [&](int dim, const IndexExpr& expr) { return affine(expr, step(dim), start[dim]); },
      [&](int dim) { return step(dim) == 1 && start[dim].is_constant(0) && limit[dim] == from.shape[dim]; });
}

std::optional<IndexMap> reverse_map(const Node& node, const TensorType& from, const IndexMap& map) {
  const Ints& dims = AttributeReader(node.op, node.attributes).get_ints("dims");
  auto reversed = [&](int dim) { return std::find(dims.begin(), dims.end(), dim) != dims.end(); };
  return map_each_dim(
      map, from.rank(),
      [&](int dim, const IndexExpr& expr) {
        return reversed(dim) ? affine(expr, -1, from.shape[dim] - Dim(1)) : expr;
      },
      [&](int dim) { return !reversed(dim); });
}

std::optional<IndexMap> pad_map(const Node& node, const TensorType& from, const IndexMap& map) {
  AttributeReader attributes(node.op, node.attributes);
  for (int64_t interior : attributes.get_ints("interior")) {
    if (interior != 0) return std::nullopt;
  }
  const Shape &lo = attributes.get_dims("lo"), &hi = attributes.get_dims("hi");
  return map_each_dim(
      map, from.rank(), [&](int dim, const IndexExpr& expr) { return affine(expr, 1, Dim(0) - lo[dim]); },
      [&](int dim) { return lo[dim].is_constant(0) && hi[dim].is_constant(0); });
}

std::optional<IndexMap> concatenate_map(const Graph& graph, const Node& node, int operand,
                                        const IndexMap& map) {
  int64_t along = AttributeReader(node.op, node.attributes).get_int("dim");
  Dim offset(0);
  for (int i = 0; i < operand; ++i) offset = offset + graph.type(node.operands[i]).shape[along];
  return map_each_dim(
      map, graph.type(node.operands[operand]).rank(),
      [&](int dim, const IndexExpr& expr) { return dim == along ? affine(expr, 1, Dim(0) - offset) : expr; },
      [&](int dim) { return dim != along; });
}

}  // namespace

std::optional<IndexMap> reshape_map(const Shape& from, const Shape& to, const IndexMap& map) {
  // Walk both shapes; each operand dim must be the product of a run of result dims.
  IndexMap out;
  size_t at = 0;
  auto next_segment = [&](size_t dim) { return single(map, static_cast<int>(dim)); };
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i].is_constant(1)) {
      out.segments.push_back({static_cast<int>(i), 1, IndexExpr{}});
      continue;
    }
    IndexExpr expr;
    Dim product(1);
    while (!(product == from[i])) {
      if (at >= to.size()) return std::nullopt;
      const Segment* segment = next_segment(at);
      if (!segment) return std::nullopt;
      if (!to[at].is_constant(1)) {
        if (!to[at].is_constant() && !(product.is_constant(1)))
          return std::nullopt;  // a symbolic inner factor scales by a symbol
        if (to[at].is_constant()) {
          if (to[at].constant() == 0) return std::nullopt;
          expr = affine(expr, to[at].constant(), Dim(0));
        } else {
          expr = IndexExpr{};
        }
        expr.base = expr.base + segment->expr.base;
        for (const auto& term : segment->expr.terms) expr.terms.push_back(term);
        product = product * to[at];
      }
      ++at;
      // Stop when the product can no longer reach the dim.
      if (product.is_constant() && from[i].is_constant() && product.constant() > from[i].constant())
        return std::nullopt;
    }
    std::sort(expr.terms.begin(), expr.terms.end());
    for (size_t k = 1; k < expr.terms.size(); ++k) {
      if (expr.terms[k].first == expr.terms[k - 1].first) return std::nullopt;
    }
    out.segments.push_back({static_cast<int>(i), 1, std::move(expr)});
  }
  for (; at < to.size(); ++at) {
    if (!to[at].is_constant(1)) return std::nullopt;
  }
  return out;
}

std::optional<IndexMap> operand_map(const Graph& graph, const Node& node, int operand, const IndexMap& map) {
  const TensorType& from = graph.type(node.operands[operand]);
  const TensorType& to = graph.type(node.results[0]);
  switch (node.op) {
    case Op::BroadcastInDim: return broadcast_map(node, from, to, map);
    case Op::Transpose: return transpose_map(node, map);
    case Op::Slice: return slice_map(node, from, map);
    case Op::Reverse: return reverse_map(node, from, map);
    case Op::Pad: return operand == 0 ? pad_map(node, from, map) : IndexMap{};
    case Op::Concatenate: return concatenate_map(graph, node, operand, map);
    case Op::Reshape: {
      if (from.shape == to.shape) return map;
      return reshape_map(from.shape, to.shape, map);
    }
    default: break;
  }
  if (node.info().kind == OpKind::Elementwise || node.op == Op::StopGradient ||
      node.op == Op::BitcastConvert) {
    if (from.rank() == to.rank()) return map;
    if (from.rank() == 0) return IndexMap{};  // select's pred, clamp's bounds
  }
  return std::nullopt;
}

std::optional<IndexMap> gather_index_map(const Graph& graph, const Node& node, int64_t component,
                                         const IndexMap& map) {
  AttributeReader attributes(node.op, node.attributes);
  const Ints& offset_dims = attributes.get_ints("offset_dims");
  int64_t vector_dim = attributes.get_int("index_vector_dim");
  int rank = graph.type(node.operands[1]).rank();
  int result_rank = graph.type(node.results[0]).rank();
  IndexMap out;
  int result_dim = 0;
  for (int dim = 0; dim < rank; ++dim) {
    if (dim == vector_dim) {
      out.segments.push_back({dim, 1, IndexExpr{Dim(component), {}}});
      continue;
    }
    while (result_dim < result_rank &&
           std::find(offset_dims.begin(), offset_dims.end(), result_dim) != offset_dims.end()) {
      ++result_dim;
    }
    const Segment* segment = single(map, result_dim++);
    if (!segment) return std::nullopt;
    out.segments.push_back({dim, 1, segment->expr});
  }
  return out;
}

std::vector<IndexMap> operand_maps(const Graph& graph, const Node& node, int operand,
                                   const IndexMap& result_map) {
  std::vector<IndexMap> maps;
  std::optional<IndexMap> map;
  switch (node.op) {
    case Op::GatherElements: map = result_map; break;
    case Op::DynamicSlice: map = IndexMap{}; break;
    case Op::DynamicUpdateSlice: map = operand == 0 ? result_map : IndexMap{}; break;
    case Op::Gather: {
      int64_t components =
          static_cast<int64_t>(AttributeReader(node.op, node.attributes).get_ints("start_index_map").size());
      for (int64_t i = 0; i < components; ++i) {
        map = gather_index_map(graph, node, i, result_map);
        if (!map) return {};
        maps.push_back(std::move(*map));
      }
      return maps;
    }
    default: map = operand_map(graph, node, operand, result_map); break;
  }
  if (map) maps.push_back(std::move(*map));
  return maps;
}

}  // namespace tilewright
