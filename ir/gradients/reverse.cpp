// Reverse accumulation: cotangents flow from the outputs to the wanted inputs, node by node in reverse order.
#include "ir/gradients/reverse.h"

#include "base/text.h"
#include "ir/expansion.h"

namespace tilewright {

ValueId Gradient::cotangent(int result) {
  if (!cotangents[result].is_valid()) cotangents[result] = b.zeros_like(results[result]);
  return cotangents[result];
}

namespace gradients {

namespace {

using Rule = Status (*)(Gradient&);

Status no_gradient(Gradient&) { return Status::ok(); }

Rule gradient_rule(Op op) {
  switch (op) {
#define TW_RULE_Zero(name) no_gradient
#define TW_RULE_Rule(name) gradient_##name
#define TW_RULE_Expansion(name) differentiate_expansion
#define OP(name, Enum, id, operands, results, types, attributes, infer, kind, accuracy, traits, gradient, \
           meaning)                                                                                       \
  case Op::Enum: return TW_RULE_##gradient(name);
#define COMPOSITE OP
#include "ir/ops.def"
#undef OP
#undef COMPOSITE
  }
  return no_gradient;
}

class ReversePass {
 public:
  ReversePass(Builder& b, const Prepared& forward, const std::vector<ValueId>& images,
              const Flags& wanted_inputs)
      : b_(b),
        graph_(forward.graph),
        plans_(forward.plans),
        images_(images),
        active_(find_active(forward.graph, wanted_inputs)),
        pending_(forward.graph.value_count()) {}

  Result<std::vector<ValueId>> run(const std::vector<ValueId>& cotangents, const Flags& wanted_inputs) {
    for (size_t i = 0; i < graph_.outputs.size(); ++i) contribute(graph_.outputs[i].value, cotangents[i]);
    for (uint32_t i = static_cast<uint32_t>(graph_.node_count()); i-- > 0;)
      TW_RETURN_IF_ERROR(visit(NodeId{i}));
    std::vector<ValueId> gradients;
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      gradients.push_back(wanted_inputs[i] ? take(graph_.inputs[i].value) : ValueId{});
    }
    TW_RETURN_IF_ERROR(b_.status());
    return gradients;
  }

 private:
  void contribute(ValueId value, ValueId cotangent) {
    if (cotangent.is_valid() && active_[value.index]) pending_[value.index].push_back(cotangent);
  }

  // The sum of what has arrived, in the order of arrival; invalid when nothing has.
  ValueId take(ValueId value) {
    std::vector<ValueId> parts = std::move(pending_[value.index]);
    pending_[value.index].clear();
    if (parts.empty()) return {};
    ValueId sum = parts[0];
    for (size_t i = 1; i < parts.size(); ++i) sum = b_.add(sum, parts[i]);
    return sum;
  }

  Status visit(NodeId id) {
    const Node& node = graph_.node(id);
    bool any = false;
    for (ValueId result : node.results) any |= !pending_[result.index].empty();
    if (!any) return Status::ok();
    Gradient g{
        b_, node, AttributeReader(node.op, node.attributes), {}, {}, {}, {}, {}, plans_[id.index].get()};
    for (ValueId operand : node.operands) {
      g.operands.push_back(operand.is_valid() ? images_[operand.index] : ValueId{});
      g.wanted.push_back(operand.is_valid() && active_[operand.index]);
    }
    for (ValueId result : node.results) {
      g.results.push_back(images_[result.index]);
      g.cotangents.push_back(take(result));
    }
    g.gradients.resize(node.operands.size());
    b_.set_tag(node.tag);
    Status status = gradient_rule(node.op)(g);
    if (status.is_ok()) status = b_.status();
    if (!status.is_ok()) return status.because(cat("gradient of ", node_name(graph_, id)));
    for (size_t i = 0; i < node.operands.size(); ++i) TW_RETURN_IF_ERROR(deliver(id, static_cast<int>(i), g));
    return Status::ok();
  }

  Status deliver(NodeId id, int operand, const Gradient& g) {
    ValueId gradient = g.gradients[operand];
    if (!gradient.is_valid() || !g.wanted[operand]) return Status::ok();
    ValueId target = graph_.node(id).operands[operand];
    if (b_.type(gradient) != graph_.type(target)) {
      return Status::internal(cat("gradient of ", node_name(graph_, id), " for operand ", operand,
                                  " has type ", b_.type(gradient).to_string(), ", expected ",
                                  graph_.type(target).to_string()));
    }
    contribute(target, gradient);
    return Status::ok();
  }

  Builder& b_;
  const Graph& graph_;
  const std::vector<std::shared_ptr<const GradientPlan>>& plans_;
  const std::vector<ValueId>& images_;
  Flags active_;
  std::vector<std::vector<ValueId>> pending_;
};

}  // namespace

Flags find_active(const Graph& graph, const Flags& wanted_inputs) {
  Flags active(graph.value_count(), false);
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    ValueId value = graph.inputs[i].value;
    active[value.index] = wanted_inputs[i] && is_float(graph.type(value).dtype);
  }
  for (const Node& node : graph.nodes()) {
    if (node.info().gradient == GradientKind::Zero) continue;
    bool any = false;
    for (ValueId operand : node.operands) any |= operand.is_valid() && active[operand.index];
    if (!any) continue;
    for (ValueId result : node.results) active[result.index] = is_float(graph.type(result).dtype);
  }
  return active;
}

Flags find_useful(const Graph& graph, const Flags& active, const Flags& outputs_with_cotangent) {
  Flags useful(graph.value_count(), false);
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    ValueId value = graph.outputs[i].value;
    if (outputs_with_cotangent[i] && active[value.index]) useful[value.index] = true;
  }
  for (size_t i = graph.node_count(); i-- > 0;) {
    const Node& node = graph.nodes()[i];
    bool any = false;
    for (ValueId result : node.results) any |= useful[result.index];
    if (!any) continue;
    for (ValueId operand : node.operands) {
      if (operand.is_valid() && active[operand.index]) useful[operand.index] = true;
    }
  }
  return useful;
}

Result<std::vector<ValueId>> reverse_pass(Builder& b, const Prepared& forward,
                                          const std::vector<ValueId>& images,
                                          const std::vector<ValueId>& cotangents,
                                          const Flags& wanted_inputs) {
  return ReversePass(b, forward, images, wanted_inputs).run(cotangents, wanted_inputs);
}

Status copy_unnamed(const Graph& source, Graph& target, std::vector<ValueId>& map) {
  size_t first = target.value_count();
  TW_RETURN_IF_ERROR(copy_nodes(source, target, map));
  for (size_t i = first; i < target.value_count(); ++i)
    target.value(ValueId{static_cast<uint32_t>(i)}).name.clear();
  return Status::ok();
}

Graph with_symbols(const Graph& region, const std::vector<Symbol>& outer) {
  Graph copy = region;
  for (const Symbol& symbol : outer) {
    if (!copy.find_symbol(symbol.name)) copy.symbols.push_back(symbol);
  }
  return copy;
}

Status differentiate_region(Gradient& g, const Graph& region, int first) {
  Graph source = with_symbols(region, g.b.graph().symbols);
  Flags wanted, given;
  for (size_t i = 0; i < source.inputs.size(); ++i) wanted.push_back(g.wants(static_cast<int>(i) + first));
  for (ValueId cotangent : g.cotangents) given.push_back(cotangent.is_valid());
  TW_ASSIGN_OR_RETURN(Prepared forward, prepare(source, wanted, given));
  std::vector<ValueId> images(forward.graph.value_count());
  for (size_t i = 0; i < source.inputs.size(); ++i) {
    images[forward.graph.inputs[i].value.index] = g.operands[i + first];
  }
  TW_RETURN_IF_ERROR(copy_unnamed(forward.graph, g.b.graph(), images));
  TW_ASSIGN_OR_RETURN(std::vector<ValueId> gradients,
                      reverse_pass(g.b, forward, images, g.cotangents, wanted));
  for (size_t i = 0; i < gradients.size(); ++i) g.gradients[i + first] = gradients[i];
  return Status::ok();
}

Result<Graph> expansion_graph(Op op, const std::vector<const TensorType*>& operands,
                              const AttributeMap& attributes, const std::vector<Symbol>& symbols) {
  Graph graph;
  graph.symbols = symbols;
  std::vector<ValueId> inputs;
  for (const TensorType* type : operands) inputs.push_back(type ? graph.add_input({}, *type) : ValueId{});
  Builder builder(graph);
  TW_ASSIGN_OR_RETURN(std::vector<ValueId> results, expand(builder, op, inputs, attributes));
  TW_RETURN_IF_ERROR(builder.status());
  for (ValueId result : results) graph.add_output(result);
  return graph;
}

Status differentiate_expansion(Gradient& g) {
  std::vector<const TensorType*> types;
  for (ValueId operand : g.operands) types.push_back(operand.is_valid() ? &g.b.type(operand) : nullptr);
  TW_ASSIGN_OR_RETURN(Graph region,
                      expansion_graph(g.node.op, types, g.node.attributes, g.b.graph().symbols));
  // The region has present operands only: close the gaps, then open them again.
  std::vector<int> present;
  for (size_t i = 0; i < g.operands.size(); ++i) {
    if (g.operands[i].is_valid()) present.push_back(static_cast<int>(i));
  }
  Gradient packed{g.b, g.node, g.attributes, {}, g.results, g.cotangents, {}, {}, nullptr};
  for (int i : present) {
    packed.operands.push_back(g.operands[i]);
    packed.wanted.push_back(g.wanted[i]);
  }
  packed.gradients.resize(present.size());
  TW_RETURN_IF_ERROR(differentiate_region(packed, region));
  for (size_t k = 0; k < present.size(); ++k) g.gradients[present[k]] = packed.gradients[k];
  return Status::ok();
}

}  // namespace gradients
}  // namespace tilewright
