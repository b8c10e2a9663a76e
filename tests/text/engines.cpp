// The engines and stages of text tests.
#include "tests/text/engines.h"

#include "base/text.h"
#include "ir/autodiff.h"
#include "ir/expansion.h"
#include "ir/text.h"
#include "tests/text/compiled_engine.h"
#include "tests/text/session_engine.h"

namespace tilewright::text_tests {

Status run_test_custom_call(const std::string& target, const AttributeMap&, std::span<const TensorRef> inputs,
                            std::span<TensorRef> outputs) {
  bool gradient = target == "test.twice_gradient";
  if (target != "test.twice" && !gradient)
    return Status::not_found(cat("custom call `", target, "` is not registered"));
  // The gradient takes the operand, the result and the cotangent.
  const size_t taken = gradient ? 2 : 0;
  if (inputs.size() != taken + 1 || outputs.size() != 1 || inputs[taken].dtype != DType::F32 ||
      !inputs[taken].is_dense()) {
    return Status::invalid(cat(target, " takes dense f32 tensors"));
  }
  const auto* from = static_cast<const float*>(inputs[taken].data);
  auto* to = static_cast<float*>(outputs[0].data);
  for (int64_t i = 0; i < inputs[taken].elements(); ++i) to[i] = 2 * from[i];
  return Status::ok();
}

namespace {

using Outputs = std::vector<OwnedTensor>;

Result<Outputs> run_reference(const Graph& graph, std::span<const TensorRef> inputs,
                              const Bindings& bindings) {
  InterpreterOptions options;
  options.custom_call = run_test_custom_call;
  return interpret(graph, inputs, bindings, options);
}

// Every composite replaced by its expansion: expansions and reference kernels are two definitions of one
// thing.
Result<Outputs> run_expanded(const Graph& graph, std::span<const TensorRef> inputs,
                             const Bindings& bindings) {
  TW_ASSIGN_OR_RETURN(Graph expanded, expand_composites(graph, [](Op op) { return op_info(op).composite; }));
  return run_reference(expanded, inputs, bindings);
}

// Printed and read back: nothing that matters may be lost on the way.
Result<Outputs> run_reparsed(const Graph& graph, std::span<const TensorRef> inputs,
                             const Bindings& bindings) {
  TW_ASSIGN_OR_RETURN(Graph copy, parse_graph(print(graph)));
  return run_reference(copy, inputs, bindings);
}

Result<std::string> expand_text(const Graph& graph) {
  TW_ASSIGN_OR_RETURN(Graph expanded, expand_composites(graph, [](Op op) { return op_info(op).composite; }));
  return print(expanded);
}

Result<std::string> dead_text(const Graph& graph) { return print(remove_dead_nodes(graph)); }

Result<std::string> joint_text(const Graph& graph) {
  // A scalar loss needs no cotangent.
  int floats = 0;
  bool scalar = true;
  for (const Output& output : graph.outputs) {
    if (!is_float(graph.type(output.value).dtype)) continue;
    ++floats;
    scalar = scalar && graph.type(output.value).rank() == 0;
  }
  TW_ASSIGN_OR_RETURN(Graph joint, joint_gradient(graph, {}, floats == 1 && scalar));
  return print(joint);
}

Result<std::string> pair_text(const Graph& graph) {
  TW_ASSIGN_OR_RETURN(GradientPair pair, gradient_pair(graph, {}));
  return print(pair.forward) + print(pair.backward);
}

// The narrower vectors, 16 and 32 bytes; native has the widest of the machine.
Result<Outputs> run_compiled_v2(const Graph& graph, std::span<const TensorRef> inputs,
                                const Bindings& bindings) {
  return run_compiled_for("x86-64-v2", graph, inputs, bindings);
}
Result<Outputs> run_compiled_v3(const Graph& graph, std::span<const TensorRef> inputs,
                                const Bindings& bindings) {
  return run_compiled_for("x86-64-v3", graph, inputs, bindings);
}

}  // namespace

static std::vector<Engine>& engine_list() {
  static auto* list = new std::vector<Engine>{
      {"reference", run_reference},
      {"reparsed", run_reparsed},
      {"tiles", run_on_tiles},
      {"compiled", run_compiled},
      {"compiled for x86-64-v2", run_compiled_v2},
      {"compiled for x86-64-v3", run_compiled_v3},
      {"expanded", run_expanded},
  };
  return *list;
}

const std::vector<Engine>& engines() { return engine_list(); }

void use_sessions_of(const std::string& target) {
  const auto run = [target](const Graph& graph, std::span<const TensorRef> inputs, const Bindings& bindings) {
    return run_in_session(target, graph, inputs, bindings);
  };
  engine_list() = {{"reference", run_reference}, {target, run}};
}

const std::vector<Stage>& stages() {
  static const auto* list = new std::vector<Stage>{
      {"expand", expand_text},
      {"remove_dead_nodes", dead_text},
      {"joint_gradient", joint_text},
      {"gradient_pair", pair_text},
  };
  return *list;
}

}  // namespace tilewright::text_tests
