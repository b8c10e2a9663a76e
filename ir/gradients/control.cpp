// Gradients of structured control, markers and calls.
#include "ir/gradients/rules.h"

namespace tilewright {

using namespace gradients;

Status gradient_while(Gradient&) {
  return Status::unimplemented("while has no gradient, expected a scan, whose number of steps is known");
}

Status gradient_call(Gradient& g) { return differentiate_region(g, *g.node.regions[0]); }
Status gradient_composite(Gradient& g) { return differentiate_region(g, *g.node.regions[0]); }

Status gradient_optimization_barrier(Gradient& g) {
  g.gradients = g.cotangents;
  return Status::ok();
}

// ---- case ----

// One branch backward: its operands and the cotangents -> the gradients.  The branch is computed again.
static Result<RegionRef> backward_branch(const Graph& region, const GradientOptions& options,
                                         const std::vector<Symbol>& outer) {
  Graph branch = with_symbols(region, outer);
  size_t outputs = branch.outputs.size();
  TW_ASSIGN_OR_RETURN(Graph joint, joint_gradient(branch, options, false));
  joint.outputs.erase(joint.outputs.begin(), joint.outputs.begin() + outputs);
  Graph backward = remove_dead_nodes(joint);
  backward.symbols = region.symbols;
  return RegionRef(std::make_shared<const Graph>(std::move(backward)));
}

Status gradient_case(Gradient& g) {
  Builder& b = g.b;
  GradientOptions options;
  std::vector<ValueId> operands = g.operands;
  for (size_t i = 0; i < g.cotangents.size(); ++i) {
    if (!g.cotangents[i].is_valid()) continue;
    options.outputs.push_back(static_cast<int>(i));
    operands.push_back(g.cotangents[i]);
  }
  for (size_t i = 1; i < g.operands.size(); ++i) {
    if (g.wants(static_cast<int>(i))) options.inputs.push_back(static_cast<int>(i) - 1);
  }
  if (options.inputs.empty()) return Status::ok();
  std::vector<RegionRef> branches;
  for (const RegionRef& region : g.node.regions) {
    TW_ASSIGN_OR_RETURN(RegionRef branch, backward_branch(*region, options, b.graph().symbols));
    branches.push_back(std::move(branch));
  }
  std::vector<ValueId> gradients = b.emit_all(Op::Case, operands, {}, branches);
  TW_RETURN_IF_ERROR(b.status());
  for (size_t k = 0; k < options.inputs.size(); ++k) g.gradients[options.inputs[k] + 1] = gradients[k];
  return Status::ok();
}

// ---- scan ----

namespace {

// Computes values of the forward step that are the same in every step, once, from the carries' initial
// values.
class Hoister {
 public:
  Hoister(Gradient& g, const Graph& step) : g_(g), step_(step), map_(step.value_count()) {
    auto carries = static_cast<size_t>(g.attributes.get_int("carries"));
    for (size_t i = 0; i < carries; ++i) map_[step.inputs[i].value.index] = g.operands[i];
  }

  Status run(const std::vector<ValueId>& values) {
    std::vector<bool> needed(step_.value_count(), false);
    for (ValueId value : values) needed[value.index] = true;
    std::vector<uint32_t> order;
    for (auto i = static_cast<uint32_t>(step_.node_count()); i-- > 0;) {
      const Node& node = step_.nodes()[i];
      bool any = false;
      for (ValueId result : node.results) any |= needed[result.index];
      if (!any) continue;
      order.push_back(i);
      for (ValueId operand : node.operands) {
        if (operand.is_valid()) needed[operand.index] = true;
      }
    }
    for (size_t k = order.size(); k-- > 0;) {
      const Node& node = step_.nodes()[order[k]];
      TW_RETURN_IF_ERROR(copy_node(step_, node, g_.b.graph(), map_));
      for (ValueId result : node.results) g_.b.graph().value(map_[result.index]).name.clear();
    }
    return Status::ok();
  }

  ValueId image(ValueId value) const { return map_[value.index]; }

 private:
  Gradient& g_;
  const Graph& step_;
  std::vector<ValueId> map_;
};

TensorType slice_type(TensorType type) {
  type.shape.erase(type.shape.begin());
  return type;
}

// The scan that runs backward: carries are the cotangents of the carries and the invariant saved values.
class BackwardScan {
 public:
  explicit BackwardScan(Gradient& g) : g_(g), plan_(*g.plan) {}

  Status run() {
    TW_RETURN_IF_ERROR(add_operands());
    TW_RETURN_IF_ERROR(build_region());
    AttributeMap attributes = pick_attributes(g_, {"length"});
    attributes["carries"] = static_cast<int64_t>(plan_.carries.size() + invariants_);
    attributes["reverse"] = !g_.attributes.get_bool("reverse");
    std::vector<ValueId> results = g_.b.emit_all(Op::Scan, operands_, attributes, {region_});
    TW_RETURN_IF_ERROR(g_.b.status());
    for (size_t k = 0; k < plan_.carries.size(); ++k) g_.gradients[plan_.carries[k]] = results[k];
    for (size_t k = 0; k < plan_.slices.size(); ++k) {
      g_.gradients[plan_.slices[k]] = results[plan_.carries.size() + invariants_ + k];
    }
    return Status::ok();
  }

 private:
  // Operands in order: carry cotangents, invariants, output cotangents, stacked saved values.
  Status add_operands() {
    std::vector<ValueId> invariant;
    for (const auto& saved : plan_.saved) {
      if (saved.source == GradientPlan::Source::Invariant) invariant.push_back(saved.value);
    }
    invariants_ = invariant.size();
    Hoister hoister(g_, *plan_.forward);
    TW_RETURN_IF_ERROR(hoister.run(invariant));
    for (int i : plan_.carries) operands_.push_back(g_.cotangent(i));
    for (ValueId value : invariant) operands_.push_back(hoister.image(value));
    for (int i : plan_.outputs) operands_.push_back(g_.cotangent(i));
    for (const auto& saved : plan_.saved) {
      if (saved.source == GradientPlan::Source::Slice) operands_.push_back(g_.operands[saved.index]);
      if (saved.source == GradientPlan::Source::Stacked) operands_.push_back(g_.results[saved.index]);
    }
    return g_.b.status();
  }

  Status build_region() {
    const Graph& step = *plan_.backward;
    auto region = std::make_shared<Graph>();
    region->symbols = step.symbols;
    std::vector<ValueId> inputs;
    size_t carries = plan_.carries.size() + invariants_;
    for (size_t i = 0; i < operands_.size(); ++i) {
      TensorType type = g_.b.type(operands_[i]);
      inputs.push_back(region->add_input({}, i < carries ? type : slice_type(type)));
    }
    // The backward step takes the saved values, then the cotangents of the carries and of the outputs.
    std::vector<ValueId> map(step.value_count());
    size_t invariant = plan_.carries.size(), output = carries, stacked = carries + plan_.outputs.size(),
           next = 0;
    auto bind = [&](size_t i) { map[step.inputs[next++].value.index] = inputs[i]; };
    for (const auto& saved : plan_.saved) {
      bind(saved.source == GradientPlan::Source::Invariant ? invariant++ : stacked++);
    }
    for (size_t i = 0; i < plan_.carries.size(); ++i) bind(i);
    for (size_t i = 0; i < plan_.outputs.size(); ++i) bind(output++);
    TW_RETURN_IF_ERROR(copy_unnamed(step, *region, map));
    for (size_t i = 0; i < step.outputs.size(); ++i) {
      if (i == plan_.carries.size()) add_invariants(*region, inputs);
      region->add_output(map[step.outputs[i].value.index]);
    }
    if (step.outputs.size() == plan_.carries.size()) add_invariants(*region, inputs);
    region_ = std::move(region);
    return Status::ok();
  }

  void add_invariants(Graph& region, const std::vector<ValueId>& inputs) const {
    for (size_t i = 0; i < invariants_; ++i) region.add_output(inputs[plan_.carries.size() + i]);
  }

  Gradient& g_;
  const GradientPlan& plan_;
  std::vector<ValueId> operands_;
  size_t invariants_ = 0;
  RegionRef region_;
};

}  // namespace

Status gradient_scan(Gradient& g) { return g.plan ? BackwardScan(g).run() : Status::ok(); }

// ---- custom_call ----

// The declared custom call takes the operands, the results and a cotangent for each float result, and returns
// a gradient for each float operand.
Status gradient_custom_call(Gradient& g) {
  Builder& b = g.b;
  if (!g.attributes.has("gradient")) {
    return Status::unimplemented(cat("custom call `", g.attributes.get_string("target"),
                                     "` declares no gradient, expected the attribute `gradient`"));
  }
  std::vector<ValueId> operands = g.operands;
  operands.insert(operands.end(), g.results.begin(), g.results.end());
  for (size_t i = 0; i < g.results.size(); ++i) {
    if (is_float(b.dtype(g.results[i]))) operands.push_back(g.cotangent(static_cast<int>(i)));
  }
  std::vector<size_t> targets;
  Types types;
  for (size_t i = 0; i < g.operands.size(); ++i) {
    if (!is_float(b.dtype(g.operands[i]))) continue;
    targets.push_back(i);
    types.push_back(b.type(g.operands[i]));
  }
  AttributeMap attributes = {{"target", g.attributes.get_string("gradient")}, {"result_types", types}};
  for (const char* passed : {"ints", "floats"}) {
    if (const Attribute* value = find_attribute(Op::CustomCall, g.attributes.map(), passed))
      attributes.emplace(passed, *value);
  }
  std::vector<ValueId> gradients = b.emit_all(Op::CustomCall, operands, std::move(attributes));
  TW_RETURN_IF_ERROR(b.status());
  for (size_t k = 0; k < targets.size(); ++k) g.gradients[targets[k]] = gradients[k];
  return Status::ok();
}

}  // namespace tilewright
