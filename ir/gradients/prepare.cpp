// Prepares a forward graph for differentiation: inlines what has no gradient of its own, and lets scans and
// sorts return what their gradients need, so that nothing costly is computed twice.
#include "base/text.h"
#include "ir/gradients/reverse.h"

namespace tilewright::gradients {

namespace {

// Composites of these kinds are computed again by their gradient: only their operands are kept.
bool is_cheap_to_repeat(OpKind kind) {
  return kind == OpKind::Elementwise || kind == OpKind::Movement || kind == OpKind::Loss;
}

bool needs_inlining(const Node& node) {
  if (node.op == Op::Call || node.op == Op::Composite) return true;
  const OpInfo& info = node.info();
  return info.composite && info.gradient == GradientKind::Expansion && !is_cheap_to_repeat(info.kind);
}

bool any_result(const Node& node, const Flags& flags) {
  for (ValueId result : node.results) {
    if (flags[result.index]) return true;
  }
  return false;
}

Graph empty_copy(const Graph& source, std::vector<ValueId>& map) {
  Graph graph;
  graph.name = source.name;
  graph.symbols = source.symbols;
  map.assign(source.value_count(), ValueId{});
  for (const Input& input : source.inputs) {
    const Value& value = source.value(input.value);
    map[input.value.index] = graph.add_input(value.name, value.type, input.layout, input.frozen);
  }
  return graph;
}

void copy_outputs(const Graph& source, Graph& target, const std::vector<ValueId>& map) {
  for (const Output& output : source.outputs) {
    target.outputs.push_back(output);
    target.outputs.back().value = map[output.value.index];
  }
}

// What stands for the node: its region, or its expansion over its present operands.
Result<Graph> body_of(const Graph& graph, const Node& node) {
  if (!node.regions.empty()) return *node.regions[0];
  std::vector<const TensorType*> types;
  for (ValueId operand : node.operands) types.push_back(operand.is_valid() ? &graph.type(operand) : nullptr);
  return expansion_graph(node.op, types, node.attributes, graph.symbols);
}

Status inline_node(const Graph& source, const Node& node, Graph& target, std::vector<ValueId>& map) {
  TW_ASSIGN_OR_RETURN(Graph body, body_of(source, node));
  for (const Symbol& symbol : body.symbols) {
    if (!target.find_symbol(symbol.name)) target.symbols.push_back(symbol);
  }
  std::vector<ValueId> inner(body.value_count());
  size_t next = 0;
  for (ValueId operand : node.operands) {
    if (operand.is_valid()) inner[body.inputs[next++].value.index] = map[operand.index];
  }
  size_t first = target.node_count();
  TW_RETURN_IF_ERROR(copy_unnamed(body, target, inner));
  for (size_t i = first; i < target.node_count(); ++i) {
    Node& copy = target.node(NodeId{static_cast<uint32_t>(i)});
    if (copy.tag.empty()) copy.tag = node.tag;
  }
  for (size_t i = 0; i < node.results.size(); ++i)
    map[node.results[i].index] = inner[body.outputs[i].value.index];
  return Status::ok();
}

// Inlines until no useful node needs it; every round goes one level deeper.
Status inline_useful(Graph& graph, const Flags& wanted_inputs, const Flags& given_outputs) {
  while (true) {
    Flags useful = find_useful(graph, find_active(graph, wanted_inputs), given_outputs);
    bool any = false;
    for (const Node& node : graph.nodes()) any |= needs_inlining(node) && any_result(node, useful);
    if (!any) return Status::ok();
    std::vector<ValueId> map;
    Graph next = empty_copy(graph, map);
    for (const Node& node : graph.nodes()) {
      bool inlined = needs_inlining(node) && any_result(node, useful);
      TW_RETURN_IF_ERROR(inlined ? inline_node(graph, node, next, map) : copy_node(graph, node, next, map));
    }
    copy_outputs(graph, next, map);
    graph = std::move(next);
  }
}

// ---- scans ----

// Which inputs of the body are active and which outputs need a cotangent, through any number of steps.
struct ScanFlow {
  Flags active_inputs, given_outputs, active, useful;
};

ScanFlow scan_flow(const Graph& body, size_t carries, Flags active_inputs, Flags given_outputs) {
  ScanFlow flow{std::move(active_inputs), std::move(given_outputs), {}, {}};
  for (bool changed = true; changed;) {
    changed = false;
    flow.active = find_active(body, flow.active_inputs);
    for (size_t i = 0; i < carries; ++i) {
      if (flow.active_inputs[i] || !flow.active[body.outputs[i].value.index]) continue;
      flow.active_inputs[i] = changed = true;
    }
  }
  for (bool changed = true; changed;) {
    changed = false;
    flow.useful = find_useful(body, flow.active, flow.given_outputs);
    for (size_t i = 0; i < carries; ++i) {
      if (flow.given_outputs[i] || !flow.useful[body.inputs[i].value.index]) continue;
      flow.given_outputs[i] = changed = true;
    }
  }
  return flow;
}

// Values that are the same in every step: unchanged carries and what pure ops make of them.
Flags find_invariant(const Graph& body, size_t carries) {
  Flags invariant(body.value_count(), false);
  for (size_t i = 0; i < carries; ++i) {
    if (body.outputs[i].value == body.inputs[i].value) invariant[body.inputs[i].value.index] = true;
  }
  for (const Node& node : body.nodes()) {
    const OpInfo& info = node.info();
    bool same = !info.has(Trait::SideEffect) && !info.has(Trait::Ordered) && !info.has(Trait::NoCse);
    for (ValueId operand : node.operands) same &= !operand.is_valid() || invariant[operand.index];
    for (ValueId result : node.results) invariant[result.index] = same;
  }
  return invariant;
}

// Says where each saved value comes from; those that differ by step become stacked results of the scan.
RegionRef keep_saved(GradientPlan& plan, const Graph& pair_forward, size_t carries, size_t results) {
  Flags invariant = find_invariant(pair_forward, carries);
  Graph step = pair_forward;
  step.outputs.resize(results);
  for (size_t k = results; k < pair_forward.outputs.size(); ++k) {
    ValueId value = pair_forward.outputs[k].value;
    const Value& saved = pair_forward.value(value);
    if (invariant[value.index]) {
      plan.saved.push_back({GradientPlan::Source::Invariant, value, -1});
    } else if (!saved.node.is_valid() && saved.result >= carries) {
      plan.saved.push_back({GradientPlan::Source::Slice, value, static_cast<int>(saved.result)});
    } else {
      plan.saved.push_back({GradientPlan::Source::Stacked, value, static_cast<int>(step.outputs.size())});
      step.add_output(value);
    }
  }
  return std::make_shared<const Graph>(remove_dead_nodes(step));
}

struct PlannedScan {
  std::shared_ptr<GradientPlan> plan;  // null: no gradient flows through
  RegionRef step;
};

Result<PlannedScan> plan_scan(const Graph& graph, const Node& node, const Flags& active,
                              const Flags& useful) {
  const Graph& original = *node.regions[0];
  Graph body = with_symbols(original, graph.symbols);
  auto carries = static_cast<size_t>(AttributeReader(node.op, node.attributes).get_int("carries"));
  Flags active_inputs, given_outputs;
  for (ValueId operand : node.operands) active_inputs.push_back(active[operand.index]);
  for (ValueId result : node.results) given_outputs.push_back(useful[result.index]);
  ScanFlow flow = scan_flow(body, carries, active_inputs, given_outputs);
  auto plan = std::make_shared<GradientPlan>();
  for (size_t i = 0; i < node.operands.size(); ++i) {
    if (!flow.active_inputs[i]) continue;
    if (i < carries && flow.given_outputs[i]) plan->carries.push_back(static_cast<int>(i));
    if (i >= carries && flow.useful[body.inputs[i].value.index]) plan->slices.push_back(static_cast<int>(i));
  }
  for (size_t i = carries; i < node.results.size(); ++i) {
    if (flow.given_outputs[i] && flow.active[body.outputs[i].value.index])
      plan->outputs.push_back(static_cast<int>(i));
  }
  GradientOptions options;
  options.outputs = options.inputs = plan->carries;
  options.outputs.insert(options.outputs.end(), plan->outputs.begin(), plan->outputs.end());
  options.inputs.insert(options.inputs.end(), plan->slices.begin(), plan->slices.end());
  if (options.outputs.empty() || options.inputs.empty()) return PlannedScan{};
  TW_ASSIGN_OR_RETURN(GradientPair pair, region_pair(body, options));
  pair.forward.symbols = pair.backward.symbols = original.symbols;
  RegionRef step = keep_saved(*plan, pair.forward, carries, node.results.size());
  plan->forward = std::make_shared<const Graph>(std::move(pair.forward));
  plan->backward = std::make_shared<const Graph>(std::move(pair.backward));
  return PlannedScan{std::move(plan), std::move(step)};
}

// ---- the second pass ----

class Planner {
 public:
  Planner(const Graph& source, const Flags& wanted_inputs, const Flags& given_outputs)
      : source_(source),
        active_(find_active(source, wanted_inputs)),
        useful_(find_useful(source, active_, given_outputs)) {}

  Result<Prepared> run() {
    prepared_.graph = empty_copy(source_, map_);
    for (const Node& node : source_.nodes()) {
      bool differentiated = any_result(node, useful_);
      if (differentiated && node.op == Op::Scan) {
        TW_RETURN_IF_ERROR(add_scan(node));
      } else if (differentiated && node.op == Op::Sort) {
        TW_RETURN_IF_ERROR(add_sort(node));
      } else {
        TW_RETURN_IF_ERROR(copy_node(source_, node, prepared_.graph, map_));
      }
      prepared_.plans.resize(prepared_.graph.node_count());
    }
    copy_outputs(source_, prepared_.graph, map_);
    return std::move(prepared_);
  }

 private:
  // Appends the changed node; its first results stand for those of the old one.
  Status append(const Node& node, std::vector<ValueId> operands, std::vector<RegionRef> regions,
                std::shared_ptr<const GradientPlan> plan) {
    TW_ASSIGN_OR_RETURN(NodeId id, prepared_.graph.append(node.op, std::move(operands), node.attributes,
                                                          std::move(regions), node.tag));
    for (size_t i = 0; i < node.results.size(); ++i) {
      ValueId image = prepared_.graph.node(id).results[i];
      prepared_.graph.value(image).name = source_.value(node.results[i]).name;
      map_[node.results[i].index] = image;
    }
    prepared_.plans.resize(id.index + 1);
    prepared_.plans[id.index] = std::move(plan);
    return Status::ok();
  }

  std::vector<ValueId> mapped_operands(const Node& node) const {
    std::vector<ValueId> operands;
    for (ValueId operand : node.operands) operands.push_back(map_[operand.index]);
    return operands;
  }

  Status add_scan(const Node& node) {
    TW_ASSIGN_OR_RETURN(PlannedScan planned, plan_scan(source_, node, active_, useful_));
    if (!planned.plan) return copy_node(source_, node, prepared_.graph, map_);
    return append(node, mapped_operands(node), {planned.step}, planned.plan);
  }

  // Sorts the positions along, so that the gradient knows the permutation.
  Status add_sort(const Node& node) {
    Builder b(prepared_.graph);
    std::vector<ValueId> operands = mapped_operands(node);
    int64_t dim = AttributeReader(node.op, node.attributes).get_int("dim");
    operands.push_back(b.iota(Shape(b.shape(operands[0])), dim, DType::I64));
    TW_RETURN_IF_ERROR(b.status());
    auto plan = std::make_shared<GradientPlan>();
    plan->permutation_result = static_cast<int>(node.results.size());
    return append(node, std::move(operands), {}, std::move(plan));
  }

  const Graph& source_;
  Flags active_, useful_;
  Prepared prepared_;
  std::vector<ValueId> map_;
};

}  // namespace

Result<Prepared> prepare(const Graph& source, const Flags& wanted_inputs,
                         const Flags& outputs_with_cotangent) {
  Graph graph = source;
  TW_RETURN_IF_ERROR(inline_useful(graph, wanted_inputs, outputs_with_cotangent));
  return Planner(graph, wanted_inputs, outputs_with_cotangent).run();
}

}  // namespace tilewright::gradients
