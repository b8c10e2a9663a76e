// Fuses elementwise groups into the contraction that they read.
#include <algorithm>
#include <set>

#include "codegen/lower/convolution.h"

namespace tilewright {

namespace {

// True when the group reads `value` at its own index and nowhere else, over the whole domain.
bool reads_in_place(const Graph& graph, const Group& group, ValueId value) {
  if (!group.reduce_dims.empty() || group.anchor.is_valid()) return false;
  const Shape& shape = graph.type(value).shape;
  if (group.dims.size() != shape.size()) return false;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    if (!(group.dims[dim].size == shape[dim]) || group.order[dim] != static_cast<int>(dim)) return false;
  }
  IndexMap identity = identity_map(static_cast<int>(shape.size()));
  bool read = false;
  for (uint32_t index : group.nodes) {
    const Node& node = graph.node(NodeId{index});
    for (size_t i = 0; i < node.operands.size(); ++i) {
      if (node.operands[i] != value) continue;
      if (reads_buffer(graph, node, static_cast<int>(i))) return false;
      auto maps = group.maps.find(node.results[0].index);
      if (maps == group.maps.end()) return false;
      for (const IndexMap& map : maps->second) {
        for (const IndexMap& operand : operand_maps(graph, node, static_cast<int>(i), map)) {
          if (operand.to_string() != identity.to_string()) return false;
          read = true;
        }
      }
    }
  }
  return read;
}

}  // namespace

void anchor_contractions(const Graph& graph, Grouping& grouping) {
  std::vector<std::set<int>> readers(graph.value_count());
  std::vector<bool> read_elsewhere(graph.value_count(), false);
  for (size_t g = 0; g < grouping.groups.size(); ++g) {
    for (uint32_t node : grouping.groups[g].nodes) {
      for (ValueId operand : graph.node(NodeId{node}).operands) {
        if (operand.is_valid()) readers[operand.index].insert(static_cast<int>(g));
      }
    }
  }
  for (size_t n = 0; n < graph.node_count(); ++n) {
    const Node& node = graph.nodes()[n];
    bool grouped = is_fusible(graph, node) &&
                   (node.results.empty() || grouping.storage[node.results[0].index] != Storage::Alias);
    if (!grouping.live[n] || grouped) continue;
    for (ValueId operand : node.operands) {
      if (operand.is_valid()) read_elsewhere[operand.index] = true;
    }
  }
  for (const Output& output : graph.outputs) read_elsewhere[output.value.index] = true;
  for (size_t n = 0; n < graph.node_count(); ++n) {
    const Node& node = graph.nodes()[n];
    NodeId id{static_cast<uint32_t>(n)};
    bool ends_in_group = node.op == Op::DotGeneral || convolution_takes_group(graph, id);
    if (!grouping.live[n] || !ends_in_group) continue;
    ValueId value = node.results[0];
    if (read_elsewhere[value.index] || readers[value.index].size() != 1) continue;
    Group& group = grouping.groups[*readers[value.index].begin()];
    if (!reads_in_place(graph, group, value)) continue;
    group.anchor = id;
    grouping.storage[value.index] = Storage::Inlined;
  }
}

}  // namespace tilewright
