// Walks the graph from its outputs up and fuses each node into the kernel of its consumers where that is
// legal.
#include "codegen/lower/grouping.h"

#include <algorithm>

#include "base/text.h"
#include "ir/inference.h"

namespace tilewright {

// Operands of a concatenation that elements choose among in one kernel.
constexpr size_t kMaxFusedParts = 24;

bool is_splat(const Node& node) {
  return node.op == Op::Constant && AttributeReader(node.op, node.attributes).get_constant("value")->splat;
}

static bool is_fusible_reduction(Op op) {
  switch (op) {
    case Op::ReduceSum:
    case Op::ReduceProduct:
    case Op::ReduceMax:
    case Op::ReduceMin:
    case Op::ReduceAnd:
    case Op::ReduceOr:
    case Op::ReduceXor:
    case Op::Argmax:
    case Op::Argmin: return true;
    default: return false;
  }
}

bool is_fusible(const Graph& graph, const Node& node) {
  if (node.info().composite) return false;
  if (node.info().kind == OpKind::Elementwise) return true;
  if (is_fusible_reduction(node.op)) return true;
  AttributeReader attributes(node.op, node.attributes);
  switch (node.op) {
    case Op::Constant: return is_splat(node);
    case Op::Iota:
    case Op::Reshape:
    case Op::BroadcastInDim:
    case Op::Transpose:
    case Op::Slice:
    case Op::Pad:
    case Op::Reverse:
    case Op::DynamicSlice:
    case Op::DynamicUpdateSlice:
    case Op::DimSize:
    case Op::StopGradient: return true;
    case Op::Concatenate: return node.operands.size() <= kMaxFusedParts;
    case Op::BitcastConvert:
      return dtype_bytes(graph.type(node.operands[0]).dtype) ==
             dtype_bytes(graph.type(node.results[0]).dtype);
    case Op::Gather:
    case Op::GatherElements: return true;
    case Op::RngBitGenerator: return attributes.get_string("algorithm") == "philox4x32_10";
    default: return false;
  }
}

std::optional<int> alias_operand(const Graph& graph, const Node& node, int result) {
  if (node.op == Op::OptimizationBarrier) return result;
  if (node.info().kind == OpKind::Collective && !node.operands.empty()) {
    // A group of one rank: the value itself.
    if (node.op == Op::CollectivePermute &&
        AttributeReader(node.op, node.attributes).get_ints("pairs") != Ints{0, 0})
      return std::nullopt;
    const AttributeReader attributes(node.op, node.attributes);
    const Ints& group = attributes.get_ints("group");
    const bool alone = (group.empty() || group == Ints{0}) && attributes.get_int("root") == 0;
    if (alone && graph.type(node.operands[0]) == graph.type(node.results[0])) return 0;
  }
  return std::nullopt;
}

// A node that may report an error runs once, over exactly its own elements.
static bool reports(const Node& node) {
  if (node.op != Op::Gather && node.op != Op::GatherElements) return false;
  return AttributeReader(node.op, node.attributes).get_string("oob") == "error";
}

bool reads_buffer(const Graph& graph, const Node& node, int index) {
  (void)graph;
  switch (node.op) {
    case Op::Gather:
    case Op::GatherElements: return index == 0;
    case Op::DynamicSlice: return index == 0;
    case Op::DynamicUpdateSlice: return index == 1;
    case Op::RngBitGenerator: return true;
    case Op::Pad: {
      const Ints& interior = AttributeReader(node.op, node.attributes).get_ints("interior");
      return index == 0 &&
             std::any_of(interior.begin(), interior.end(), [](int64_t step) { return step != 0; });
    }
    default: return false;
  }
}

bool is_cheap(const Graph& graph, const Node& node) {
  (void)graph;
  switch (node.op) {
    case Op::Constant:
    case Op::Iota:
    case Op::Reshape:
    case Op::BroadcastInDim:
    case Op::Transpose:
    case Op::Slice:
    case Op::Reverse:
    case Op::DimSize:
    case Op::StopGradient:
    case Op::BitcastConvert:
    case Op::Convert: return true;
    default: return false;
  }
}

namespace {

constexpr size_t kMaxGroupNodes = 96;
constexpr size_t kMaxDomainDims = 7;
constexpr size_t kMaxMapsPerValue = 3;
constexpr size_t kMaxSearch = 512;          // groups visited when looking for a cycle
constexpr int64_t kMinParallel = 16;        // instances that a fused reduction must leave
constexpr int64_t kRepeatedWork = 16384;    // elements that instances may add up again and again
constexpr int kReductionDepth = 6;          // nodes between a stored row value and its reduction
constexpr int64_t kSmallReduction = 32768;  // elements that one instance may as well reduce alone

struct Use {
  NodeId node;
  int operand;
};

class Grouper {
 public:
  explicit Grouper(const Graph& graph) : graph_(graph) {}

  Result<Grouping> run() {
    prepare();
    for (size_t i = graph_.node_count(); i-- > 0;) {
      if (out_.live[i]) place(NodeId{static_cast<uint32_t>(i)});
    }
    return std::move(out_);
  }

 private:
  void prepare() {
    size_t values = graph_.value_count(), nodes = graph_.node_count();
    out_.storage.assign(values, Storage::Buffer);
    out_.group_of.assign(values, -1);
    out_.live.assign(nodes, true);
    uses_.resize(values);
    is_output_.assign(values, false);
    needs_buffer_.assign(values, false);
    node_groups_.resize(nodes);
    for (const Output& output : graph_.outputs) is_output_[output.value.index] = true;
    for (size_t i = 0; i < nodes; ++i) {
      const Node& node = graph_.nodes()[i];
      bool fusible = is_fusible(graph_, node);
      for (size_t k = 0; k < node.operands.size(); ++k) {
        ValueId operand = node.operands[k];
        if (!operand.is_valid() || node.op == Op::DimSize) continue;
        uses_[operand.index].push_back({NodeId{static_cast<uint32_t>(i)}, static_cast<int>(k)});
        if (!fusible || reads_buffer(graph_, node, static_cast<int>(k))) needs_buffer_[operand.index] = true;
      }
    }
  }

  // ---- group graph
  // ------------------------------------------------------------------------------------------------- True
  // when some path from a consumer of `value` outside of `group` leads into `group`.
  bool would_cycle(ValueId value, int group) {
    std::vector<int> groups;      // to visit
    std::vector<uint32_t> nodes;  // special nodes to visit
    std::set<int> seen_groups;
    std::set<uint32_t> seen_nodes;
    bool found = false;
    auto visit_readers = [&](ValueId from, bool may_be_group) {
      for (const Use& use : uses_[from.index]) {
        if (!out_.live[use.node.index]) continue;
        for (int reader : node_groups_[use.node.index]) {
          if (reader == group) {
            found |= may_be_group;
          } else if (seen_groups.insert(reader).second) {
            groups.push_back(reader);
          }
        }
        if (node_groups_[use.node.index].empty() && seen_nodes.insert(use.node.index).second)
          nodes.push_back(use.node.index);
      }
    };
    visit_readers(value, false);
    while (!found && (!groups.empty() || !nodes.empty())) {
      if (seen_groups.size() + seen_nodes.size() > kMaxSearch) return true;
      if (!groups.empty()) {
        int reader = groups.back();
        groups.pop_back();
        for (ValueId root : out_.groups[reader].roots) visit_readers(root, true);
      } else {
        NodeId reader{nodes.back()};
        nodes.pop_back();
        for (ValueId result : graph_.node(reader).results) visit_readers(result, true);
      }
    }
    return found;
  }

  // ---- maps
  // --------------------------------------------------------------------------------------------------------
  // The maps by which the members of `group` read `value`; nothing when one of them has no affine map.
  std::optional<std::vector<IndexMap>> maps_in(ValueId value, int group_id) {
    Group& group = out_.groups[group_id];
    std::vector<IndexMap> maps;
    auto add = [&](IndexMap map) {
      std::string text = map.to_string();
      for (const IndexMap& known : maps) {
        if (known.to_string() == text) return;
      }
      maps.push_back(std::move(map));
    };
    for (const Use& use : uses_[value.index]) {
      if (!group.nodes.count(use.node.index)) continue;
      const Node& node = graph_.node(use.node);
      auto reduction = group.reduce_dims.find(use.node.index);
      if (reduction != group.reduce_dims.end()) {
        IndexMap map;
        for (size_t i = 0; i < reduction->second.size(); ++i) {
          int dim = reduction->second[i];
          map.segments.push_back({static_cast<int>(i), 1, dim < 0 ? IndexExpr{} : IndexExpr::of_domain(dim)});
        }
        add(std::move(map));
        continue;
      }
      if (reads_buffer(graph_, node, use.operand)) continue;
      for (const IndexMap& result_map : group.maps[node.results[0].index]) {
        std::vector<IndexMap> read = operand_maps(graph_, node, use.operand, result_map);
        if (read.empty()) return std::nullopt;
        for (IndexMap& map : read) add(std::move(map));
      }
    }
    return maps;
  }

  // ---- placement
  // ---------------------------------------------------------------------------------------------------
  void place(NodeId id) {
    const Node& node = graph_.node(id);
    bool wanted =
        node.info().has(Trait::SideEffect) || node.info().has(Trait::Ordered) || node.results.empty();
    for (ValueId result : node.results) {
      wanted |= is_output_[result.index];
      for (const Use& use : uses_[result.index]) wanted |= out_.live[use.node.index];
    }
    if (!wanted) {
      out_.live[id.index] = false;
      return;
    }
    if (is_fusible(graph_, node)) {
      for (size_t i = node.results.size(); i-- > 0;) place_value(id, node.results[i]);
      return;
    }
    for (size_t i = 0; i < node.results.size(); ++i) {  // else its results are buffers
      std::optional<int> alias = alias_operand(graph_, node, static_cast<int>(i));
      if (alias) out_.storage[node.results[i].index] = Storage::Alias;
    }
  }

  void place_value(NodeId id, ValueId value) {
    const Node& node = graph_.node(id);
    std::set<int> readers = reading_groups(value);
    if (node.op == Op::Reshape && !reshape_inlines(value, readers)) {
      out_.storage[value.index] = Storage::Alias;
      needs_buffer_[node.operands[0].index] = true;
      return;
    }
    bool must_store = needs_buffer_[value.index] || is_output_[value.index] || live_direct_use(value);
    std::vector<int> joinable;
    bool all = !reports(node);
    for (int group : readers) {
      if (all && can_join(id, value, group)) {
        joinable.push_back(group);
      } else {
        all = false;
      }
    }
    all = all && !readers.empty() && joinable.size() == readers.size();
    if (!must_store && all && (readers.size() == 1 || is_cheap(graph_, node))) {
      for (int group : joinable) join(id, value, group);
      out_.storage[value.index] = Storage::Inlined;
      return;
    }
    // Kept in memory: stored by one of its readers when that costs nothing, else by a kernel of its own.
    for (int group : reports(node) ? std::vector<int>{} : joinable_as_root(id, value, readers)) {
      join(id, value, group);
      add_root(value, group);
      return;
    }
    new_group(id, value);
  }

  std::set<int> reading_groups(ValueId value) {
    std::set<int> groups;
    for (const Use& use : uses_[value.index]) {
      if (!out_.live[use.node.index]) continue;
      if (reads_buffer(graph_, graph_.node(use.node), use.operand)) continue;
      groups.insert(node_groups_[use.node.index].begin(), node_groups_[use.node.index].end());
    }
    return groups;
  }

  // True when a live consumer is neither in a group nor reads by buffer (an alias reshape).
  bool live_direct_use(ValueId value) {
    for (const Use& use : uses_[value.index]) {
      if (out_.live[use.node.index] && node_groups_[use.node.index].empty()) return true;
    }
    return false;
  }

  bool reshape_inlines(ValueId value, const std::set<int>& readers) {
    const Node& node = graph_.node(graph_.value(value).node);
    if (needs_buffer_[value.index] || is_output_[value.index] || readers.empty() || live_direct_use(value))
      return false;
    for (int group : readers) {
      std::optional<std::vector<IndexMap>> maps = maps_in(value, group);
      if (!maps) return false;
      for (const IndexMap& map : *maps) {
        if (!operand_map(graph_, node, 0, map)) return false;
      }
    }
    return true;
  }

  bool is_reduction(const Node& node) const { return is_fusible_reduction(node.op); }

  Ints reduced_axes(const Node& node) const {
    AttributeReader attributes(node.op, node.attributes);
    if (node.op == Op::Argmax || node.op == Op::Argmin) return {attributes.get_int("dim")};
    return attributes.get_ints("dims");
  }

  bool can_join(NodeId id, ValueId value, int group_id) {
    const Node& node = graph_.node(id);
    Group& group = out_.groups[group_id];
    if (group.nodes.size() >= kMaxGroupNodes) return false;
    std::optional<std::vector<IndexMap>> maps = maps_in(value, group_id);
    if (!maps || maps->empty()) return false;
    if (!is_reduction(node)) return maps->size() == 1 || (maps->size() <= kMaxMapsPerValue);
    Group trial = group;
    return maps->size() == 1 && assign_reduction(id, (*maps)[0], trial);
  }

  // Fits a reduction into the group: kept dims lie on distinct domain dims, reduced ones on free or new dims,
  // dims of size 1 on none.  A fresh group takes any number of dims.
  bool assign_reduction(NodeId id, const IndexMap& map, Group& group, bool fresh = false) {
    const Node& node = graph_.node(id);
    const TensorType& type = graph_.type(node.operands[0]);
    Ints axes = reduced_axes(node);
    auto reduced = [&](int axis) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); };
    bool keepdims = AttributeReader(node.op, node.attributes).get_bool("keepdims");
    std::vector<int> dims(type.rank(), -1);
    std::set<int> taken;
    int at = 0;
    for (int axis = 0; axis < type.rank(); ++axis) {
      if (reduced(axis)) {
        at += keepdims;
        continue;
      }
      int dim = -1;
      if (at >= static_cast<int>(map.segments.size())) return false;
      if (type.shape[axis].is_constant(1)) {
        ++at;
        continue;
      }
      if (!map.segments[at++].expr.is_identity(&dim)) return false;
      if (group.dims[dim].reduced || !(group.dims[dim].size == type.shape[axis]) || !taken.insert(dim).second)
        return false;
      dims[axis] = dim;
    }
    int64_t reduced_elements = 1;
    for (int axis = 0; axis < type.rank(); ++axis) {
      if (!reduced(axis) || type.shape[axis].is_constant(1)) continue;
      reduced_elements *= std::max<int64_t>(1, type.shape[axis].hint(graph_.symbols));
      dims[axis] = find_reduced_dim(group, type.shape[axis], taken, axis, dims, fresh);
      if (dims[axis] < 0) return false;
      taken.insert(dims[axis]);
    }
    for (int axis = 0; axis < type.rank(); ++axis) {
      if (dims[axis] < 0) continue;
      DomainDim& dim = group.dims[dims[axis]];
      if (reduced(axis)) {
        if (dim.kept) return false;
        dim.reduced = true;
      } else {
        if (dim.reduced) return false;
        dim.kept = true;
      }
    }
    // Along a dim that is neither reduced nor kept by this reduction, each instance repeats all of it.
    int64_t parallel = 1, repeats = 1;
    for (size_t d = 0; d < group.dims.size(); ++d) {
      if (group.dims[d].reduced) continue;
      int64_t size = std::max<int64_t>(1, group.dims[d].size.hint(graph_.symbols));
      parallel *= size;
      if (!taken.count(static_cast<int>(d))) repeats *= size;
    }
    if (repeats > 1 && parallel * reduced_elements > kRepeatedWork) return false;
    if (parallel < kMinParallel && reduced_elements > kSmallReduction &&
        group.roots.size() + group.nodes.size() > 0 && !is_own_root(id, group)) {
      return false;
    }
    group.reduce_dims[id.index] = dims;
    return true;
  }

  bool is_own_root(NodeId id, const Group& group) const {
    return group.roots.size() == 1 && group.roots[0] == graph_.node(id).results[0];
  }

  // A domain dim of that size that nobody keeps and this reduction has not taken; else a new one, placed as
  // in the operand.
  int find_reduced_dim(Group& group, const Dim& size, const std::set<int>& taken, int axis,
                       const std::vector<int>& dims, bool fresh_group) {
    for (int dim : group.order) {
      if (!taken.count(dim) && !group.dims[dim].kept && group.dims[dim].size == size) return dim;
    }
    if (group.dims.size() >= kMaxDomainDims && !fresh_group) return -1;
    int fresh = static_cast<int>(group.dims.size());
    group.dims.push_back({size, false, false});
    // In front of the next kept operand dim, else at the end.
    auto position = group.order.end();
    for (size_t next = axis + 1; next < dims.size(); ++next) {
      if (dims[next] < 0) continue;
      position = std::find(group.order.begin(), group.order.end(), dims[next]);
      break;
    }
    group.order.insert(position, fresh);
    return fresh;
  }

  void join(NodeId id, ValueId value, int group_id) {
    Group& group = out_.groups[group_id];
    const Node& node = graph_.node(id);
    std::optional<std::vector<IndexMap>> maps = maps_in(value, group_id);
    group.maps[value.index] = std::move(*maps);
    if (is_reduction(node)) assign_reduction(id, group.maps[value.index][0], group);
    group.nodes.insert(id.index);
    node_groups_[id.index].insert(group_id);
  }

  void add_root(ValueId value, int group_id) {
    Group& group = out_.groups[group_id];
    std::vector<int> dims;
    std::set<int> used;
    for (const Segment& segment : group.maps[value.index][0].segments) {
      int dim = -1;
      if (!segment.expr.is_identity(&dim)) dim = -1;  // a dim of size 1
      dims.push_back(dim);
      if (dim >= 0) used.insert(dim);
    }
    // Stored once, not by each instance along the other dims.
    for (size_t dim = 0; dim < group.dims.size(); ++dim) {
      if (!used.count(static_cast<int>(dim)) && !group.dims[dim].size.is_constant(1))
        group.dims[dim].reduced = true;
    }
    group.roots.push_back(value);
    group.root_dims[value.index] = std::move(dims);
    out_.storage[value.index] = Storage::Buffer;
    out_.group_of[value.index] = group_id;
  }

  // True when the value comes from a reduction over a dim of that size, which will join the group and walk
  // along `dim`.
  bool may_become_reduced(ValueId value, const Group& group, int dim) const {
    if (group.dims[dim].kept || !comes_from_reduction(value, group.dims[dim].size, 0)) return false;
    int64_t parallel = 1;
    for (size_t other = 0; other < group.dims.size(); ++other) {
      if (static_cast<int>(other) != dim && !group.dims[other].reduced)
        parallel *= std::max<int64_t>(1, group.dims[other].size.hint(graph_.symbols));
    }
    return parallel >= kMinParallel || group.dims[dim].size.hint(graph_.symbols) <= kSmallReduction;
  }

  bool comes_from_reduction(ValueId value, const Dim& size, int depth) const {
    NodeId id = graph_.value(value).node;
    if (!id.is_valid() || depth > kReductionDepth) return false;
    const Node& node = graph_.node(id);
    if (is_reduction(node)) {
      const Shape& shape = graph_.type(node.operands[0]).shape;
      Ints axes = reduced_axes(node);
      return std::any_of(axes.begin(), axes.end(), [&](int64_t axis) { return shape[axis] == size; });
    }
    if (node.info().kind != OpKind::Elementwise && node.op != Op::Reshape) return false;
    return std::any_of(node.operands.begin(), node.operands.end(), [&](ValueId operand) {
      return operand.is_valid() && comes_from_reduction(operand, size, depth + 1);
    });
  }

  // True when a member of the group reads the value from memory, which must then be written by another
  // kernel.
  bool read_from_memory_in(ValueId value, int group) {
    for (const Use& use : uses_[value.index]) {
      if (reads_buffer(graph_, graph_.node(use.node), use.operand) &&
          node_groups_[use.node.index].count(group))
        return true;
    }
    return false;
  }

  // Groups among the readers that may store the value: its map covers each of its elements exactly once.
  std::vector<int> joinable_as_root(NodeId id, ValueId value, const std::set<int>& readers) {
    std::vector<int> found;
    for (int group_id : readers) {
      if (read_from_memory_in(value, group_id) || !can_join(id, value, group_id)) continue;
      Group& group = out_.groups[group_id];
      std::vector<IndexMap> maps = *maps_in(value, group_id);
      if (maps.size() != 1) continue;
      std::set<int> used;
      bool covers = true;
      const Shape& shape = graph_.type(value).shape;
      for (size_t i = 0; i < maps[0].segments.size() && covers; ++i) {
        int dim = -1;
        if (shape[i].is_constant(1)) continue;
        covers = maps[0].segments[i].expr.is_identity(&dim) && group.dims[dim].size == shape[i] &&
                 used.insert(dim).second;
      }
      for (size_t dim = 0; dim < group.dims.size() && covers; ++dim) {
        // Instances along an unused dim would all store the same elements.
        covers = used.count(static_cast<int>(dim)) || group.dims[dim].reduced ||
                 group.dims[dim].size.is_constant(1) ||
                 may_become_reduced(value, group, static_cast<int>(dim));
      }
      if (covers && !would_cycle(value, group_id)) {
        found.push_back(group_id);
        break;
      }
    }
    return found;
  }

  void new_group(NodeId id, ValueId value) {
    const Node& node = graph_.node(id);
    const Shape& shape = graph_.type(value).shape;
    int group_id = static_cast<int>(out_.groups.size());
    Group group;
    std::vector<int> dims;
    IndexMap map = identity_map(static_cast<int>(shape.size()));
    for (const Dim& size : shape) {
      if (size.is_constant(1)) {
        map.segments[dims.size()].expr = IndexExpr{};
        dims.push_back(-1);
        continue;
      }
      int dim = static_cast<int>(group.dims.size());
      map.segments[dims.size()].expr = IndexExpr::of_domain(dim);
      group.dims.push_back({size, false, false});
      group.order.push_back(dim);
      dims.push_back(dim);
    }
    group.roots = {value};
    group.root_dims[value.index] = dims;
    group.maps[value.index] = {std::move(map)};
    if (is_reduction(node)) assign_reduction(id, group.maps[value.index][0], group, true);
    group.nodes.insert(id.index);
    out_.groups.push_back(std::move(group));
    node_groups_[id.index].insert(group_id);
    out_.storage[value.index] = Storage::Buffer;
    out_.group_of[value.index] = group_id;
  }

  const Graph& graph_;
  Grouping out_;
  std::vector<std::vector<Use>> uses_;
  std::vector<bool> is_output_, needs_buffer_;
  std::vector<std::set<int>> node_groups_;
};

}  // namespace

Result<Grouping> group_nodes(const Graph& graph) { return Grouper(graph).run(); }

}  // namespace tilewright
