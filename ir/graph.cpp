// Graph construction and whole-graph copies.
#include "ir/graph.h"

#include <algorithm>

#include "base/text.h"
#include "ir/inference.h"

namespace tilewright {

ValueId Graph::add_input(std::string input_name, TensorType type, Layout layout, bool frozen) {
  ValueId id{static_cast<uint32_t>(values_.size())};
  values_.push_back(
      Value{std::move(type), NodeId{}, static_cast<uint32_t>(inputs.size()), std::move(input_name)});
  inputs.push_back(Input{id, std::move(layout), frozen});
  return id;
}

void Graph::add_output(ValueId value, std::string output_name, int alias_input) {
  outputs.push_back(Output{value, std::move(output_name), alias_input, Layout{}});
}

NodeId Graph::append_unchecked(Op op, std::vector<ValueId> operands, AttributeMap attributes,
                               std::vector<RegionRef> regions, Types result_types) {
  NodeId id{static_cast<uint32_t>(nodes_.size())};
  Node node;
  node.op = op;
  node.operands = std::move(operands);
  node.attributes = std::move(attributes);
  node.regions = std::move(regions);
  for (size_t i = 0; i < result_types.size(); ++i) {
    node.results.push_back(ValueId{static_cast<uint32_t>(values_.size())});
    values_.push_back(Value{std::move(result_types[i]), id, static_cast<uint32_t>(i), {}});
  }
  nodes_.push_back(std::move(node));
  return id;
}

Result<NodeId> Graph::append(Op op, std::vector<ValueId> operands, AttributeMap attributes,
                             std::vector<RegionRef> regions, std::string tag) {
  auto where = [&] {
    return cat(op_name(op), " ", value_name(ValueId{static_cast<uint32_t>(values_.size())}));
  };
  std::vector<const TensorType*> types;
  types.reserve(operands.size());
  for (ValueId operand : operands) {
    if (operand.is_valid() && operand.index >= values_.size()) {
      return Status::invalid(cat(where(), ": operand ", value_name(operand), " is not a value of this graph"))
          .with_op(where());
    }
    types.push_back(operand.is_valid() ? &values_[operand.index].type : nullptr);
  }
  // Trailing absent operands say nothing.
  while (!operands.empty() && !operands.back().is_valid()) {
    operands.pop_back();
    types.pop_back();
  }
  Status normal = normalize_attributes(op, attributes);
  if (!normal.is_ok()) return Status(normal.code(), cat(where(), ": ", normal.message())).with_op(where());
  Result<Types> inferred = infer_types(NodeView{op, types, attributes, regions, symbols});
  if (!inferred.is_ok()) {
    return Status(inferred.status().code(), cat(where(), ": ", inferred.status().message())).with_op(where());
  }
  NodeId id = append_unchecked(op, std::move(operands), std::move(attributes), std::move(regions),
                               std::move(inferred).value());
  nodes_[id.index].tag = std::move(tag);
  return id;
}

std::string Graph::value_name(ValueId id) const {
  if (!id.is_valid()) return "_";
  if (id.index > values_.size()) return cat("%?", id.index);
  // As printed: unnamed values are numbered among themselves; the value after the last is the one about to be
  // made.
  auto unnamed = [](const Value& value) {
    return value.name.find_first_not_of("0123456789") == std::string::npos;
  };
  if (id.index < values_.size() && !unnamed(values_[id.index])) return cat("%", values_[id.index].name);
  return cat("%", std::count_if(values_.begin(), values_.begin() + id.index, unnamed));
}

const Symbol* Graph::find_symbol(std::string_view wanted) const {
  for (const Symbol& symbol : symbols) {
    if (symbol.name == wanted) return &symbol;
  }
  return nullptr;
}

std::string node_name(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (node.results.empty()) return op_name(node.op);
  return cat(op_name(node.op), " ", graph.value_name(node.results[0]));
}

Status copy_node(const Graph& source, const Node& node, Graph& target, std::vector<ValueId>& map) {
  std::vector<ValueId> operands;
  operands.reserve(node.operands.size());
  for (ValueId operand : node.operands) {
    ValueId image = operand.is_valid() ? map[operand.index] : ValueId{};
    if (operand.is_valid() && !image.is_valid()) {
      return Status::internal(
          cat("copy of ", op_name(node.op), ": operand ", source.value_name(operand), " was not copied"));
    }
    operands.push_back(image);
  }
  Types types;
  for (ValueId result : node.results) types.push_back(source.type(result));
  NodeId copy =
      target.append_unchecked(node.op, std::move(operands), node.attributes, node.regions, std::move(types));
  target.node(copy).tag = node.tag;
  for (size_t i = 0; i < node.results.size(); ++i) {
    ValueId image = target.node(copy).results[i];
    target.value(image).name = source.value(node.results[i]).name;
    map[node.results[i].index] = image;
  }
  return Status::ok();
}

Status copy_nodes(const Graph& source, Graph& target, std::vector<ValueId>& map) {
  map.resize(source.value_count());
  for (const Node& node : source.nodes()) TW_RETURN_IF_ERROR(copy_node(source, node, target, map));
  return Status::ok();
}

Graph remove_dead_nodes(const Graph& graph) {
  std::vector<bool> needed(graph.value_count(), false);
  std::vector<bool> keep(graph.node_count(), false);
  for (const Output& output : graph.outputs) needed[output.value.index] = true;
  for (size_t i = graph.node_count(); i-- > 0;) {
    const Node& node = graph.nodes()[i];
    bool live = node.info().has(Trait::SideEffect) || node.info().has(Trait::Ordered);
    auto effect = node.attributes.find("side_effect");
    if (effect != node.attributes.end()) live |= std::get<bool>(effect->second);
    for (const RegionRef& region : node.regions) {
      for (const Node& inner : region->nodes()) live |= inner.info().has(Trait::SideEffect);
    }
    for (ValueId result : node.results) live |= needed[result.index];
    if (!live) continue;
    keep[i] = true;
    for (ValueId operand : node.operands) {
      if (operand.is_valid()) needed[operand.index] = true;
    }
  }
  Graph alive;
  alive.name = graph.name;
  alive.symbols = graph.symbols;
  std::vector<ValueId> map(graph.value_count());
  for (const Input& input : graph.inputs) {
    const Value& value = graph.value(input.value);
    map[input.value.index] = alive.add_input(value.name, value.type, input.layout, input.frozen);
  }
  for (size_t i = 0; i < graph.node_count(); ++i) {
    if (!keep[i]) continue;
    Status copied = copy_node(graph, graph.nodes()[i], alive, map);
    if (!copied.is_ok()) return graph;  // a graph in topological order always copies
  }
  for (const Output& output : graph.outputs) {
    alive.outputs.push_back(output);
    alive.outputs.back().value = map[output.value.index];
  }
  return alive;
}

}  // namespace tilewright
