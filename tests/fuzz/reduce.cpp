// Shrinks failing graphs greedily.
#include "tests/fuzz/reduce.h"

#include "base/text.h"

namespace tilewright::fuzz {

namespace {

// The graph with the results of one node turned into inputs, and without inputs that nothing uses.
Graph cut(const Graph& graph, size_t cut_node) {
  std::vector<bool> used(graph.value_count(), false);
  for (size_t i = 0; i < graph.node_count(); ++i) {
    if (i == cut_node) continue;
    for (ValueId operand : graph.nodes()[i].operands) {
      if (operand.is_valid()) used[operand.index] = true;
    }
  }
  for (const Output& output : graph.outputs) used[output.value.index] = true;
  Graph target;
  target.name = graph.name;
  target.symbols = graph.symbols;
  std::vector<ValueId> map(graph.value_count());
  for (const Input& input : graph.inputs) {
    const Value& value = graph.value(input.value);
    if (used[input.value.index])
      map[input.value.index] = target.add_input(value.name, value.type, input.layout, input.frozen);
  }
  if (cut_node < graph.node_count()) {
    for (ValueId result : graph.nodes()[cut_node].results) {
      if (used[result.index])
        map[result.index] = target.add_input(graph.value(result).name, graph.type(result));
    }
  }
  for (size_t i = 0; i < graph.node_count(); ++i) {
    if (i == cut_node) continue;
    const Node& node = graph.nodes()[i];
    std::vector<ValueId> operands;
    for (ValueId operand : node.operands)
      operands.push_back(operand.is_valid() ? map[operand.index] : ValueId{});
    Types types;
    for (ValueId result : node.results) types.push_back(graph.type(result));
    NodeId copy = target.append_unchecked(node.op, operands, node.attributes, node.regions, types);
    for (size_t r = 0; r < node.results.size(); ++r)
      map[node.results[r].index] = target.node(copy).results[r];
  }
  for (const Output& output : graph.outputs) target.add_output(map[output.value.index]);
  return target;
}

Graph without_dead(const Graph& graph) { return cut(remove_dead_nodes(graph), SIZE_MAX); }

}  // namespace

Graph reduce_graph(const Graph& graph, const std::function<bool(const Graph&)>& fails) {
  // Inputs are drawn by their names, so every value keeps one.
  Graph named = graph;
  for (uint32_t i = 0; i < named.value_count(); ++i) {
    if (named.value(ValueId{i}).name.empty()) named.value(ValueId{i}).name = cat("v", i);
  }
  Graph best = named;
  for (size_t i = 0; i < named.outputs.size() && named.outputs.size() > 1; ++i) {
    Graph one = named;
    one.outputs = {named.outputs[i]};
    one = without_dead(one);
    if (!fails(one)) continue;
    best = one;
    break;
  }
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (size_t i = best.node_count(); i-- > 0;) {
      Graph trial = without_dead(cut(best, i));
      if (trial.node_count() >= best.node_count() || !fails(trial)) continue;
      best = std::move(trial);
      smaller = true;
      break;
    }
  }
  return best;
}

}  // namespace tilewright::fuzz
