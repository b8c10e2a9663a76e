// Differentiation of whole graphs: the joint graph, and its division into a forward and a backward.
#include "ir/autodiff.h"

#include <algorithm>
#include <set>

#include "base/text.h"
#include "ir/gradients/divide.h"
#include "ir/gradients/reverse.h"

namespace tilewright {

using namespace gradients;

namespace {

// The forward nodes, then the backward nodes, in one graph without outputs.
struct Joint {
  Graph graph;
  size_t forward_nodes = 0;
  std::vector<ValueId> outputs;     // images of the original outputs
  std::vector<ValueId> cotangents;  // inputs of the graph, in the order of options.outputs
  std::vector<ValueId> gradients;   // in the order of options.inputs
};

Status check_choice(const Graph& graph, const char* what, const std::vector<int>& chosen, size_t count,
                    ValueId (*value_of)(const Graph&, int)) {
  Flags seen(count, false);
  for (int i : chosen) {
    if (i < 0 || static_cast<size_t>(i) >= count) {
      return Status::invalid(cat(what, " ", i, " of the gradient is out of range for ", count));
    }
    if (seen[i]) return Status::invalid(cat(what, " ", i, " of the gradient occurs twice"));
    seen[i] = true;
    DType dtype = graph.type(value_of(graph, i)).dtype;
    if (!is_float(dtype)) {
      return Status::invalid(
          cat(what, " ", i, " of the gradient has dtype ", dtype_name(dtype), ", expected a float"));
    }
  }
  return Status::ok();
}

ValueId output_value(const Graph& graph, int i) { return graph.outputs[i].value; }
ValueId input_value(const Graph& graph, int i) { return graph.inputs[i].value; }

std::vector<int> all_floats(const Graph& graph, size_t count, ValueId (*value_of)(const Graph&, int)) {
  std::vector<int> chosen;
  for (int i = 0; i < static_cast<int>(count); ++i) {
    if (is_float(graph.type(value_of(graph, i)).dtype)) chosen.push_back(i);
  }
  return chosen;
}

Result<GradientOptions> resolve(const Graph& graph, GradientOptions options) {
  if (options.outputs.empty()) options.outputs = all_floats(graph, graph.outputs.size(), output_value);
  if (options.inputs.empty()) options.inputs = all_floats(graph, graph.inputs.size(), input_value);
  TW_RETURN_IF_ERROR(check_choice(graph, "output", options.outputs, graph.outputs.size(), output_value));
  TW_RETURN_IF_ERROR(check_choice(graph, "input", options.inputs, graph.inputs.size(), input_value));
  return options;
}

Flags flags_of(const std::vector<int>& chosen, size_t count) {
  Flags flags(count, false);
  for (int i : chosen) flags[i] = true;
  return flags;
}

// `wanted`, or `wanted.1`, .. when the name is taken.
std::string free_name(std::set<std::string>& taken, const std::string& wanted) {
  std::string name = wanted;
  for (int k = 1; !taken.insert(name).second; ++k) name = cat(wanted, ".", k);
  return name;
}

std::set<std::string> value_names(const Graph& graph) {
  std::set<std::string> names;
  for (const Value& value : graph.values()) {
    if (!value.name.empty()) names.insert(value.name);
  }
  return names;
}

std::set<std::string> output_names(const Graph& graph) {
  std::set<std::string> names;
  for (const Output& output : graph.outputs) names.insert(output.name);
  return names;
}

std::string output_label(const Graph& graph, int i) {
  return graph.outputs[i].name.empty() ? cat(i) : graph.outputs[i].name;
}
std::string input_label(const Graph& graph, int i) {
  const std::string& name = graph.value(graph.inputs[i].value).name;
  return name.empty() ? cat(i) : name;
}

// Only one 0-d output has an obvious cotangent.
Status check_scalar_loss(const Graph& graph, const GradientOptions& options) {
  if (options.outputs.size() != 1) {
    return Status::invalid(cat("gradient of @", graph.name, ": implicit_one with ", options.outputs.size(),
                               " differentiated outputs (",
                               join(options.outputs, ", ", [&](int i) { return output_label(graph, i); }),
                               "), expected one: list it in outputs"));
  }
  const TensorType& type = graph.type(graph.outputs[options.outputs[0]].value);
  if (type.rank() == 0) return Status::ok();
  return Status::invalid(cat("gradient of @", graph.name, ": implicit_one with output ",
                             output_label(graph, options.outputs[0]), " of type ", type.to_string(),
                             ", expected a 0-d output: reduce it, or give its cotangent"));
}

Result<Joint> build_joint(const Graph& graph, const GradientOptions& options, bool implicit_one) {
  Flags wanted = flags_of(options.inputs, graph.inputs.size());
  TW_ASSIGN_OR_RETURN(Prepared forward,
                      prepare(graph, wanted, flags_of(options.outputs, graph.outputs.size())));
  Joint joint;
  joint.graph.name = graph.name;
  joint.graph.symbols = forward.graph.symbols;
  std::vector<ValueId> images(forward.graph.value_count());
  for (const Input& input : forward.graph.inputs) {
    const Value& value = forward.graph.value(input.value);
    images[input.value.index] = joint.graph.add_input(value.name, value.type, input.layout, input.frozen);
  }
  std::set<std::string> names = value_names(forward.graph);
  const bool one = implicit_one;
  for (int i : options.outputs) {
    if (one) break;
    std::string name = free_name(names, cat("cotangent.", output_label(graph, i)));
    joint.cotangents.push_back(joint.graph.add_input(name, graph.type(graph.outputs[i].value)));
  }
  TW_RETURN_IF_ERROR(copy_nodes(forward.graph, joint.graph, images));
  joint.forward_nodes = joint.graph.node_count();
  for (const Output& output : forward.graph.outputs) joint.outputs.push_back(images[output.value.index]);
  Builder b(joint.graph);
  std::vector<ValueId> cotangents(graph.outputs.size());
  for (size_t k = 0; k < options.outputs.size(); ++k) {
    cotangents[options.outputs[k]] =
        one ? b.constant_like(1, joint.outputs[options.outputs[k]]) : joint.cotangents[k];
  }
  TW_ASSIGN_OR_RETURN(std::vector<ValueId> gradients, reverse_pass(b, forward, images, cotangents, wanted));
  b.set_tag({});
  for (int i : options.inputs) {
    joint.gradients.push_back(gradients[i].is_valid() ? gradients[i]
                                                      : b.zeros_like(joint.graph.inputs[i].value));
  }
  TW_RETURN_IF_ERROR(b.status());
  return joint;
}

void add_original_outputs(const Graph& graph, const Joint& joint, Graph& target) {
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    target.outputs.push_back(graph.outputs[i]);
    target.outputs.back().value = joint.outputs[i];
  }
}

// ---- division ----

void collect_symbols(const Shape& shape, std::vector<std::string>& names) {
  for (const Dim& dim : shape) dim.collect_symbols(names);
}

void collect_symbols(const Graph& graph, std::vector<std::string>& names) {
  for (const Value& value : graph.values()) collect_symbols(value.type.shape, names);
  for (const Node& node : graph.nodes()) {
    for (const auto& [name, attribute] : node.attributes) {
      if (const auto* dims = std::get_if<Shape>(&attribute)) collect_symbols(*dims, names);
    }
    for (const RegionRef& region : node.regions) collect_symbols(*region, names);
  }
}

bool binds(const Graph& graph, const std::string& symbol) {
  for (const Input& input : graph.inputs) {
    for (const Dim& dim : graph.type(input.value).shape) {
      if (dim.as_symbol() == symbol) return true;
    }
  }
  return false;
}

// The pair over a division; `bind` also saves, for each symbol that no other input of the backward binds, an
// array of that size.
class PairBuilder {
 public:
  PairBuilder(const Graph& source, Joint joint, Division division)
      : source_(source), joint_(std::move(joint)), division_(std::move(division)) {}

  Result<GradientPair> run(const GradientOptions& options, bool bind) {
    TW_RETURN_IF_ERROR(build_forward());
    TW_RETURN_IF_ERROR(build_backward(options, bind));
    pair_.forward = remove_dead_nodes(pair_.forward);
    return std::move(pair_);
  }

 private:
  Status build_forward() {
    Graph& forward = pair_.forward;
    forward.name = source_.name;
    forward.symbols = joint_.graph.symbols;
    std::vector<ValueId> map(joint_.graph.value_count());
    for (size_t i = 0; i < source_.inputs.size(); ++i) {
      const Input& input = joint_.graph.inputs[i];
      const Value& value = joint_.graph.value(input.value);
      map[input.value.index] = forward.add_input(value.name, value.type, input.layout, input.frozen);
    }
    for (size_t i = 0; i < joint_.forward_nodes; ++i) {
      TW_RETURN_IF_ERROR(copy_node(joint_.graph, joint_.graph.nodes()[i], forward, map));
    }
    for (size_t i = 0; i < source_.outputs.size(); ++i) {
      forward.outputs.push_back(source_.outputs[i]);
      forward.outputs.back().value = map[joint_.outputs[i].index];
    }
    output_names_ = output_names(forward);
    for (ValueId value : division_.saved) {
      if (!is_cotangent(value)) forward.add_output(map[value.index], saved_name());
    }
    return Status::ok();
  }

  std::string saved_name() { return free_name(output_names_, cat("saved.", saved_count_++)); }

  bool is_cotangent(ValueId value) const {
    return std::find(joint_.cotangents.begin(), joint_.cotangents.end(), value) != joint_.cotangents.end();
  }

  Status build_backward(const GradientOptions& options, bool bind) {
    Graph& backward = pair_.backward;
    backward.name = source_.name.empty() ? std::string() : cat(source_.name, ".backward");
    backward.symbols = joint_.graph.symbols;
    std::vector<ValueId> map(joint_.graph.value_count());
    std::set<std::string> names = value_names(joint_.graph);
    size_t next = source_.outputs.size();
    for (ValueId value : division_.saved) {
      if (is_cotangent(value)) continue;
      const Output& output = pair_.forward.outputs[next++];
      map[value.index] = backward.add_input(free_name(names, output.name), joint_.graph.type(value));
    }
    if (bind) TW_RETURN_IF_ERROR(bind_symbols(names));
    for (ValueId value : joint_.cotangents) {
      map[value.index] = backward.add_input(joint_.graph.value(value).name, joint_.graph.type(value));
    }
    for (size_t i = 0; i < joint_.graph.node_count(); ++i) {
      if (!division_.needed[i] && !division_.repeated[i]) continue;
      TW_RETURN_IF_ERROR(copy_node(joint_.graph, joint_.graph.nodes()[i], backward, map));
    }
    for (size_t k = 0; k < options.inputs.size(); ++k) {
      backward.add_output(map[joint_.gradients[k].index],
                          cat("gradient.", input_label(source_, options.inputs[k])));
    }
    return Status::ok();
  }

  // Only the symbols that the backward uses stay declared.
  Status bind_symbols(std::set<std::string>& names) {
    Graph used;  // all types of the backward, with its inputs as they will be
    used.symbols = pair_.backward.symbols;
    std::vector<ValueId> map(joint_.graph.value_count());
    for (const Input& input : pair_.backward.inputs) used.add_input({}, pair_.backward.type(input.value));
    for (ValueId value : joint_.cotangents) used.add_input({}, joint_.graph.type(value));
    std::vector<std::string> symbols;
    collect_symbols(used, symbols);
    for (size_t i = 0; i < joint_.graph.node_count(); ++i) {
      if (!division_.needed[i] && !division_.repeated[i]) continue;
      const Node& node = joint_.graph.nodes()[i];
      for (ValueId result : node.results) collect_symbols(joint_.graph.type(result).shape, symbols);
      for (const auto& [name, attribute] : node.attributes) {
        if (const auto* dims = std::get_if<Shape>(&attribute)) collect_symbols(*dims, symbols);
      }
      for (const RegionRef& region : node.regions) collect_symbols(*region, symbols);
    }
    std::erase_if(pair_.backward.symbols, [&](const Symbol& symbol) {
      return std::find(symbols.begin(), symbols.end(), symbol.name) == symbols.end();
    });
    Builder b(pair_.forward);
    for (const Symbol& symbol : pair_.backward.symbols) {
      if (binds(used, symbol.name)) continue;
      ValueId sized =
          b.emit(Op::Uninitialized, {}, {{"shape", Shape{Dim::symbol(symbol.name)}}, {"dtype", DType::U8}});
      TW_RETURN_IF_ERROR(b.status());
      pair_.forward.add_output(sized, saved_name());
      pair_.backward.add_input(free_name(names, pair_.forward.outputs.back().name),
                               pair_.forward.type(sized));
    }
    return Status::ok();
  }

  const Graph& source_;
  Joint joint_;
  Division division_;
  GradientPair pair_;
  std::set<std::string> output_names_;
  int saved_count_ = 0;
};

Result<GradientPair> build_pair(const Graph& graph, const GradientOptions& given, bool bind) {
  TW_ASSIGN_OR_RETURN(GradientOptions options, resolve(graph, given));
  TW_ASSIGN_OR_RETURN(Joint joint, build_joint(graph, options, false));
  Division division = divide(joint.graph, joint.forward_nodes, joint.gradients, options.recompute);
  return PairBuilder(graph, std::move(joint), std::move(division)).run(options, bind);
}

}  // namespace

Result<Graph> joint_gradient(const Graph& graph, const GradientOptions& given, bool implicit_one) {
  TW_ASSIGN_OR_RETURN(GradientOptions options, resolve(graph, given));
  if (implicit_one) TW_RETURN_IF_ERROR(check_scalar_loss(graph, options));
  TW_ASSIGN_OR_RETURN(Joint joint, build_joint(graph, options, implicit_one));
  if (!graph.name.empty()) joint.graph.name = cat(graph.name, ".joint");
  add_original_outputs(graph, joint, joint.graph);
  std::set<std::string> names = output_names(joint.graph);
  for (size_t k = 0; k < options.inputs.size(); ++k) {
    joint.graph.add_output(joint.gradients[k],
                           free_name(names, cat("gradient.", input_label(graph, options.inputs[k]))));
  }
  return remove_dead_nodes(joint.graph);
}

Result<GradientPair> gradient_pair(const Graph& graph, const GradientOptions& options) {
  return build_pair(graph, options, true);
}

namespace gradients {

Result<GradientPair> region_pair(const Graph& region, const GradientOptions& options) {
  return build_pair(region, options, false);
}

}  // namespace gradients
}  // namespace tilewright
