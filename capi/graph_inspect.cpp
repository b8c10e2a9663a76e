// tw_graph: inspection, text form, verification, expansion, gradients.
#include "capi/handles.h"
#include "ir/autodiff.h"
#include "ir/expansion.h"
#include "ir/hash.h"
#include "ir/index_bound.h"
#include "ir/text.h"
#include "ir/verifier.h"

using namespace tilewright;
using capi::guarded;

namespace {

tw_graph* to_handle(Graph graph) {
  auto made = std::make_unique<tw_graph>();
  made->graph = std::move(graph);
  return made.release();
}

std::string_view view_of(const char* text, int64_t size) {
  return size < 0 ? std::string_view(text) : std::string_view(text, static_cast<size_t>(size));
}

Result<GradientOptions> to_options(const char* call, const tw_gradient_options* options, bool* implicit_one) {
  tw_gradient_options given;
  TW_RETURN_IF_ERROR(capi::read_struct(call, "tw_gradient_options", options, &given));
  TW_RETURN_IF_ERROR(capi::check_list(call, "outputs", given.outputs, given.output_count));
  TW_RETURN_IF_ERROR(capi::check_list(call, "inputs", given.inputs, given.input_count));
  GradientOptions made;
  for (int64_t at = 0; at < given.output_count; ++at)
    made.outputs.push_back(static_cast<int>(given.outputs[at]));
  for (int64_t at = 0; at < given.input_count; ++at)
    made.inputs.push_back(static_cast<int>(given.inputs[at]));
  made.recompute = given.recompute != 0;
  *implicit_one = given.implicit_one != 0;
  return made;
}

Status check_index(const char* call, const char* what, int64_t index, size_t count) {
  if (index >= 0 && index < static_cast<int64_t>(count)) return Status::ok();
  return Status::invalid(cat(call, ": ", what, " ", index, " of ", count));
}

}  // namespace

extern "C" {

tw_status* tw_graph_value_type(const tw_graph* graph, tw_value value, int32_t* dtype, int32_t* rank,
                               tw_dim* dims, int32_t capacity) {
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(graph);
    TW_ASSIGN_OR_RETURN(ValueId found, capi::to_value(*graph, value));
    if (!found.is_valid()) return Status::invalid(cat(call, ": no value is given"));
    const TensorType& type = graph->graph.type(found);
    if (dtype) *dtype = static_cast<int32_t>(type.dtype);
    if (rank) *rank = type.rank();
    for (int32_t dim = 0; dims && dim < std::min(capacity, type.rank()); ++dim)
      dims[dim] = capi::from_dim(*graph, type.shape[static_cast<size_t>(dim)]);
    return Status::ok();
  });
}

tw_status* tw_graph_value_name(const tw_graph* graph, tw_value value, tw_text** name) {
  if (name) *name = nullptr;
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(graph);
    TW_REQUIRE(name);
    TW_ASSIGN_OR_RETURN(ValueId found, capi::to_value(*graph, value));
    *name = capi::make_text(graph->graph.value_name(found));
    return Status::ok();
  });
}

const char* tw_graph_name(const tw_graph* graph) { return graph ? graph->graph.name.c_str() : nullptr; }
int64_t tw_graph_input_count(const tw_graph* graph) {
  return graph ? static_cast<int64_t>(graph->graph.inputs.size()) : 0;
}
int64_t tw_graph_output_count(const tw_graph* graph) {
  return graph ? static_cast<int64_t>(graph->graph.outputs.size()) : 0;
}
int64_t tw_graph_node_count(const tw_graph* graph) {
  return graph ? static_cast<int64_t>(graph->graph.node_count()) : 0;
}
int64_t tw_graph_symbol_count(const tw_graph* graph) {
  return graph ? static_cast<int64_t>(graph->graph.symbols.size()) : 0;
}

tw_status* tw_graph_input_at(const tw_graph* graph, int64_t index, tw_value* value, const char** name) {
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(graph);
    TW_RETURN_IF_ERROR(check_index(call, "input", index, graph->graph.inputs.size()));
    const ValueId found = graph->graph.inputs[static_cast<size_t>(index)].value;
    if (value) *value = found.index;
    if (name) *name = graph->graph.value(found).name.c_str();
    return Status::ok();
  });
}

tw_status* tw_graph_output_at(const tw_graph* graph, int64_t index, tw_value* value, const char** name,
                              int64_t* alias_input) {
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(graph);
    TW_RETURN_IF_ERROR(check_index(call, "output", index, graph->graph.outputs.size()));
    const Output& output = graph->graph.outputs[static_cast<size_t>(index)];
    if (value) *value = output.value.index;
    if (name) *name = output.name.c_str();
    if (alias_input) *alias_input = output.alias_input;
    return Status::ok();
  });
}

tw_status* tw_graph_symbol_at(const tw_graph* graph, int64_t index, const char** name, int64_t* min,
                              int64_t* max, int64_t* hint) {
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(graph);
    TW_RETURN_IF_ERROR(check_index(call, "symbol", index, graph->graph.symbols.size()));
    const Symbol& symbol = graph->graph.symbols[static_cast<size_t>(index)];
    if (name) *name = symbol.name.c_str();
    if (min) *min = symbol.min;
    if (max) *max = symbol.max;
    if (hint) *hint = symbol.hint.value_or(-1);
    return Status::ok();
  });
}

tw_status* tw_graph_node_at(const tw_graph* graph, int64_t index, int32_t* op, tw_value* results,
                            int64_t capacity, int64_t* result_count, const char** tag) {
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(graph);
    TW_RETURN_IF_ERROR(check_index(call, "node", index, graph->graph.node_count()));
    const Node& node = graph->graph.nodes()[static_cast<size_t>(index)];
    if (op) *op = node.info().id;
    if (result_count) *result_count = static_cast<int64_t>(node.results.size());
    for (int64_t at = 0;
         results && at < std::min<int64_t>(capacity, static_cast<int64_t>(node.results.size())); ++at)
      results[at] = node.results[static_cast<size_t>(at)].index;
    if (tag) *tag = node.tag.c_str();
    return Status::ok();
  });
}

tw_status* tw_graph_input_bound(tw_graph* graph, int64_t input, tw_dim* bound) {
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(graph);
    TW_REQUIRE(bound);
    TW_RETURN_IF_ERROR(check_index(call, "input", input, graph->graph.inputs.size()));
    const std::optional<Dim> found =
        index_bound(graph->graph, graph->graph.inputs[static_cast<size_t>(input)].value);
    *bound = found ? capi::from_dim(*graph, *found) : TW_UNBOUNDED;
    return Status::ok();
  });
}

tw_status* tw_graph_parse(const char* text, int64_t size, tw_graph** graph) {
  if (graph) *graph = nullptr;
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(text);
    TW_REQUIRE(graph);
    TW_ASSIGN_OR_RETURN(Graph parsed, parse_graph(view_of(text, size)));
    *graph = to_handle(std::move(parsed));
    return Status::ok();
  });
}

tw_status* tw_graph_parse_all(const char* text, int64_t size, tw_graph** graphs, int64_t capacity,
                              int64_t* count) {
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(text);
    TW_REQUIRE(count);
    TW_RETURN_IF_ERROR(capi::check_list(call, "graphs", graphs, capacity));
    for (int64_t at = 0; at < capacity; ++at) graphs[at] = nullptr;
    TW_ASSIGN_OR_RETURN(std::vector<Graph> parsed, parse_graphs(view_of(text, size)));
    for (int64_t at = 0; at < std::min<int64_t>(capacity, static_cast<int64_t>(parsed.size())); ++at)
      graphs[at] = to_handle(std::move(parsed[static_cast<size_t>(at)]));
    *count = static_cast<int64_t>(parsed.size());
    return Status::ok();
  });
}

tw_status* tw_graph_print(const tw_graph* graph, tw_text** text) {
  if (text) *text = nullptr;
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(graph);
    TW_REQUIRE(text);
    *text = capi::make_text(print(graph->graph));
    return Status::ok();
  });
}

tw_status* tw_graph_verify(const tw_graph* graph) {
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(graph);
    return verify(graph->graph);
  });
}

tw_status* tw_graph_hash(const tw_graph* graph, uint64_t hash[2]) {
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(graph);
    TW_REQUIRE(hash);
    const Hash128 found = hash_graph(graph->graph);
    hash[0] = found.high;
    hash[1] = found.low;
    return Status::ok();
  });
}

tw_status* tw_graph_expand(const tw_graph* graph, tw_graph** expanded) {
  if (expanded) *expanded = nullptr;
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(graph);
    TW_REQUIRE(expanded);
    TW_ASSIGN_OR_RETURN(Graph made, expand_composites(graph->graph, [](Op) { return true; }));
    *expanded = to_handle(std::move(made));
    return Status::ok();
  });
}

tw_status* tw_graph_gradient_joint(const tw_graph* graph, const tw_gradient_options* options,
                                   tw_graph** joint) {
  if (joint) *joint = nullptr;
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(graph);
    TW_REQUIRE(joint);
    bool implicit_one = false;
    TW_ASSIGN_OR_RETURN(GradientOptions given, to_options(call, options, &implicit_one));
    TW_ASSIGN_OR_RETURN(Graph made, joint_gradient(graph->graph, given, implicit_one));
    *joint = to_handle(std::move(made));
    return Status::ok();
  });
}

tw_status* tw_graph_gradient_pair(const tw_graph* graph, const tw_gradient_options* options,
                                  tw_graph** forward, tw_graph** backward) {
  if (forward) *forward = nullptr;
  if (backward) *backward = nullptr;
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(graph);
    TW_REQUIRE(forward);
    TW_REQUIRE(backward);
    bool implicit_one = false;
    TW_ASSIGN_OR_RETURN(GradientOptions given, to_options(call, options, &implicit_one));
    if (implicit_one) return Status::invalid(cat(call, ": implicit_one is for joint gradients"));
    TW_ASSIGN_OR_RETURN(GradientPair pair, gradient_pair(graph->graph, given));
    *forward = to_handle(std::move(pair.forward));
    *backward = to_handle(std::move(pair.backward));
    return Status::ok();
  });
}

}  // extern "C"
