// Rebuilds a graph through a replacement function.
#include "codegen/passes/rewrite.h"

#include <optional>

namespace tilewright {

Result<Graph> rewrite_nodes(const Graph& graph, const Replacement& replace) {
  Graph target;
  target.name = graph.name;
  target.symbols = graph.symbols;
  std::vector<ValueId> map(graph.value_count());
  for (const Input& input : graph.inputs) {
    const Value& value = graph.value(input.value);
    map[input.value.index] = target.add_input(value.name, value.type, input.layout, input.frozen);
  }
  for (const Node& node : graph.nodes()) {
    std::vector<ValueId> operands;
    operands.reserve(node.operands.size());
    for (ValueId operand : node.operands)
      operands.push_back(operand.is_valid() ? map[operand.index] : ValueId{});
    TW_ASSIGN_OR_RETURN(std::optional<std::vector<ValueId>> images, replace(node, operands, target));
    if (!images) {
      Types types;
      for (ValueId result : node.results) types.push_back(graph.type(result));
      NodeId copy = target.append_unchecked(node.op, std::move(operands), node.attributes, node.regions,
                                            std::move(types));
      target.node(copy).tag = node.tag;
      images = target.node(copy).results;
    }
    for (size_t i = 0; i < node.results.size(); ++i) {
      map[node.results[i].index] = (*images)[i];
      std::string& name = target.value((*images)[i]).name;
      if (name.empty()) name = graph.value(node.results[i]).name;
    }
  }
  for (const Output& output : graph.outputs) {
    target.outputs.push_back(output);
    target.outputs.back().value = map[output.value.index];
  }
  return target;
}

}  // namespace tilewright
