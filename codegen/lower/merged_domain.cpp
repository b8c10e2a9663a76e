// Merging of domain dims.
#include "codegen/lower/merged_domain.h"

#include <algorithm>

namespace tilewright {

MergedDomain::MergedDomain(const ProgramBuilder& builder, const Grouping& grouping, const Group& group,
                           std::vector<std::vector<int>> runs)
    : builder_(builder), grouping_(grouping), group_(group), runs_(std::move(runs)) {
  index();
}

MergedDomain::MergedDomain(const ProgramBuilder& builder, const Grouping& grouping, const Group& group)
    : builder_(builder), grouping_(grouping), group_(group) {
  for (int dim : group.order) runs_.push_back({dim});
  index();
  // Merge greedily from the fastest pair; what one value forbids stays apart.
  for (size_t i = runs_.size(); i-- > 1;) {
    const DomainDim &left = group.dims[runs_[i - 1].back()], &right = group.dims[runs_[i].front()];
    if (left.reduced != right.reduced) continue;
    std::vector<std::vector<int>> saved = runs_;
    runs_[i - 1].insert(runs_[i - 1].end(), runs_[i].begin(), runs_[i].end());
    runs_.erase(runs_.begin() + static_cast<std::ptrdiff_t>(i));
    index();
    if (!is_feasible()) {
      runs_ = std::move(saved);
      index();
    }
  }
}

std::optional<IndexMap> MergedDomain::map_of(const std::vector<int>& dims) const {
  IndexMap map;
  for (size_t i = 0; i < dims.size();) {
    if (dims[i] < 0) {
      map.segments.push_back({static_cast<int>(i), 1, IndexExpr{}});
      ++i;
      continue;
    }
    const std::vector<int>& run = runs_[run_of_[dims[i]]];
    if (run.size() > dims.size() - i ||
        !std::equal(run.begin(), run.end(), dims.begin() + static_cast<std::ptrdiff_t>(i))) {
      return std::nullopt;
    }
    map.segments.push_back(
        {static_cast<int>(i), static_cast<int>(run.size()), IndexExpr::of_domain(run_of_[dims[i]])});
    i += run.size();
  }
  return map;
}

bool MergedDomain::computed(ValueId value) const {
  NodeId node = builder_.graph().value(value).node;
  if (!node.is_valid() || !group_.nodes.count(node.index)) return false;
  if (grouping_.storage[value.index] == Storage::Inlined) return true;
  return std::find(group_.roots.begin(), group_.roots.end(), value) != group_.roots.end();
}

void MergedDomain::index() {
  run_of_.assign(group_.dims.size(), 0);
  for (size_t i = 0; i < runs_.size(); ++i) {
    for (int dim : runs_[i]) run_of_[dim] = static_cast<int>(i);
  }
}

bool MergedDomain::is_feasible() const {
  for (ValueId root : group_.roots) {
    std::optional<IndexMap> map = map_of(group_.root_dims.at(root.index));
    if (!map || !walks(root, *map, 0)) return false;
  }
  return true;
}

static bool all_single(const IndexMap& map) {
  return std::all_of(map.segments.begin(), map.segments.end(),
                     [](const Segment& segment) { return segment.count == 1; });
}

bool MergedDomain::walks(ValueId value, const IndexMap& map, int depth) const {
  if (!computed(value) || depth > 200) return true;
  const Graph& graph = builder_.graph();
  NodeId id = graph.value(value).node;
  const Node& node = graph.node(id);
  auto reduction = group_.reduce_dims.find(id.index);
  if (reduction != group_.reduce_dims.end()) {
    std::optional<IndexMap> operand = map_of(reduction->second);
    return operand && walks(node.operands[0], *operand, depth + 1);
  }
  bool by_dim = node.op == Op::Iota || node.op == Op::Gather || node.op == Op::GatherElements ||
                node.op == Op::Pad || node.op == Op::DynamicSlice || node.op == Op::DynamicUpdateSlice ||
                node.op == Op::Concatenate;
  if (by_dim && !all_single(map)) return false;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    if (node.op == Op::DimSize || reads_buffer(graph, node, static_cast<int>(i))) continue;
    std::vector<IndexMap> maps = operand_maps(graph, node, static_cast<int>(i), map);
    if (maps.empty()) return false;
    for (const IndexMap& operand : maps) {
      if (!walks(node.operands[i], operand, depth + 1)) return false;
    }
  }
  return true;
}

}  // namespace tilewright
