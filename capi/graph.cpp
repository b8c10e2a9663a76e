// tw_graph: building: symbols, dims, inputs, outputs, nodes of any op.
#include "capi/handles.h"
#include "ir/builder.h"

using namespace tilewright;
using capi::guarded;

namespace {

Result<Dim> combine(const char* call, int32_t operation, const Dim& a, const Dim& b) {
  if (operation >= TW_DIM_FLOOR_DIVIDE && operation <= TW_DIM_MODULO && b.is_constant(0))
    return Status::invalid(cat(call, ": division by 0"));
  switch (operation) {
    case TW_DIM_ADD: return a + b;
    case TW_DIM_SUBTRACT: return a - b;
    case TW_DIM_MULTIPLY: return a * b;
    case TW_DIM_FLOOR_DIVIDE: return Dim::floor_div(a, b);
    case TW_DIM_CEIL_DIVIDE: return Dim::ceil_div(a, b);
    case TW_DIM_MODULO: return Dim::mod(a, b);
    case TW_DIM_MIN: return Dim::min(a, b);
    case TW_DIM_MAX: return Dim::max(a, b);
    default:
      return Status::invalid(cat(call, ": unknown operation ", operation, ", expected one of TW_DIM_*"));
  }
}

bool is_identifier(std::string_view text) {
  if (text.empty() || (text[0] >= '0' && text[0] <= '9')) return false;
  for (char c : text)
    if (!(c == '_' || c == '.' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')))
      return false;
  return true;
}

// Symbols are no part of dotted names.
bool is_symbol_name(std::string_view text) {
  return is_identifier(text) && text.find('.') == std::string_view::npos;
}

Status check_name(const char* call, const char* name) {
  if (!name || !*name || is_identifier(name)) return Status::ok();
  return Status::invalid(cat(call, ": name \"", name, "\" is not made of letters, digits, _ and ."));
}

Status check_symbols(const char* call, const tw_graph& graph, const Shape& shape) {
  std::vector<std::string> names;
  for (const Dim& dim : shape) {
    if (!dim.is_valid()) return Status::invalid(cat(call, ": a size overflows 64 bits"));
    if (dim.is_constant() && dim.constant() < 0)
      return Status::invalid(cat(call, ": size ", dim.constant(), ", expected 0 or more"));
    dim.collect_symbols(names);
  }
  for (const std::string& name : names)
    if (!graph.graph.find_symbol(name))
      return Status::invalid(cat(call, ": symbol ", name, " is not declared"));
  return Status::ok();
}

Result<TensorType> to_type(const char* call, const tw_graph& graph, int32_t dtype, const tw_dim* dims,
                           int32_t rank) {
  TW_RETURN_IF_ERROR(capi::check_list(call, "dims", dims, rank));
  TensorType type;
  TW_ASSIGN_OR_RETURN(type.dtype, capi::to_dtype(call, dtype));
  TW_ASSIGN_OR_RETURN(type.shape, capi::to_shape(graph, dims, rank));
  TW_RETURN_IF_ERROR(check_symbols(call, graph, type.shape));
  return type;
}

Result<std::vector<RegionRef>> to_regions(const char* call, const tw_node& node) {
  TW_RETURN_IF_ERROR(capi::check_list(call, "regions", node.regions, node.region_count));
  std::vector<RegionRef> regions;
  for (int64_t at = 0; at < node.region_count; ++at) {
    if (!node.regions[at]) return Status::invalid(cat(call, ": region ", at, " is null"));
    regions.push_back(std::make_shared<Graph>(node.regions[at]->graph));
  }
  return regions;
}

Status append_constant(tw_graph& graph, ConstantRef constant, tw_value* value) {
  AttributeMap attributes;
  attributes.emplace("value", std::move(constant));
  TW_ASSIGN_OR_RETURN(NodeId node, graph.graph.append(Op::Constant, {}, std::move(attributes)));
  *value = graph.graph.result(node).index;
  return Status::ok();
}

Status check_input_index(const char* call, const tw_graph& graph, int64_t input) {
  const int64_t count = static_cast<int64_t>(graph.graph.inputs.size());
  if (input >= 0 && input < count) return Status::ok();
  return Status::invalid(cat(call, ": input ", input, " of ", count));
}

}  // namespace

extern "C" {

tw_status* tw_graph_create(const char* name, tw_graph** graph) {
  if (graph) *graph = nullptr;
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(graph);
    TW_RETURN_IF_ERROR(check_name(call, name));
    auto made = std::make_unique<tw_graph>();
    made->graph.name = name && *name ? name : "graph";
    *graph = made.release();
    return Status::ok();
  });
}

tw_graph* tw_graph_retain(tw_graph* graph) { return capi::retain(graph); }
void tw_graph_release(tw_graph* graph) { capi::release(graph); }

tw_status* tw_graph_clone(const tw_graph* graph, tw_graph** clone) {
  if (clone) *clone = nullptr;
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(graph);
    TW_REQUIRE(clone);
    auto made = std::make_unique<tw_graph>();
    made->graph = graph->graph;
    std::lock_guard lock(graph->dims_mutex);
    made->dims = graph->dims;
    *clone = made.release();
    return Status::ok();
  });
}

tw_status* tw_graph_symbol(tw_graph* graph, const char* name, int64_t min, int64_t max, int64_t hint,
                           tw_dim* dim) {
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(graph);
    TW_REQUIRE(name);
    TW_REQUIRE(dim);
    if (!is_symbol_name(name)) return Status::invalid(cat(call, ": \"", name, "\" is no name of a symbol"));
    if (graph->graph.find_symbol(name))
      return Status(Code::AlreadyExists, cat(call, ": symbol ", name, " exists"));
    if (min < 0 || max < min)
      return Status::invalid(cat(call, ": symbol ", name, " in ", min, "..", max, " has no values"));
    if (hint >= 0 && (hint < min || hint > max))
      return Status::invalid(cat(call, ": hint ", hint, " of symbol ", name, " is not in ", min, "..", max));
    Symbol symbol{name, min, max, hint >= 0 ? std::optional<int64_t>(hint) : std::nullopt};
    graph->graph.symbols.push_back(std::move(symbol));
    *dim = capi::from_dim(*graph, Dim::symbol(name));
    return Status::ok();
  });
}

tw_status* tw_graph_dim(tw_graph* graph, int32_t operation, tw_dim a, tw_dim b, tw_dim* dim) {
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(graph);
    TW_REQUIRE(dim);
    TW_ASSIGN_OR_RETURN(Dim left, capi::to_dim(*graph, a));
    TW_ASSIGN_OR_RETURN(Dim right, capi::to_dim(*graph, b));
    TW_ASSIGN_OR_RETURN(Dim made, combine(call, operation, left, right));
    if (!made.is_valid()) return Status::out_of_range(cat(call, ": the size overflows 64 bits"));
    *dim = capi::from_dim(*graph, made);
    return Status::ok();
  });
}

tw_status* tw_graph_dim_parse(tw_graph* graph, const char* text, tw_dim* dim) {
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(graph);
    TW_REQUIRE(text);
    TW_REQUIRE(dim);
    TW_ASSIGN_OR_RETURN(Dim made, parse_dim(text));
    if (!made.is_valid()) return Status::out_of_range(cat(call, ": the size overflows 64 bits"));
    std::vector<std::string> names;
    made.collect_symbols(names);
    for (const std::string& name : names)
      if (!graph->graph.find_symbol(name))
        return Status::invalid(cat(call, ": symbol ", name, " is not declared"));
    *dim = capi::from_dim(*graph, made);
    return Status::ok();
  });
}

tw_status* tw_graph_dim_print(const tw_graph* graph, tw_dim dim, tw_text** text) {
  if (text) *text = nullptr;
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(graph);
    TW_REQUIRE(text);
    TW_ASSIGN_OR_RETURN(Dim found, capi::to_dim(*graph, dim));
    *text = capi::make_text(found.to_string());
    return Status::ok();
  });
}

tw_status* tw_graph_dim_evaluate(const tw_graph* graph, tw_dim dim, const char* const* symbol_names,
                                 const int64_t* symbol_values, int64_t symbol_count, int64_t* value) {
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(graph);
    TW_REQUIRE(value);
    TW_RETURN_IF_ERROR(capi::check_list(call, "symbol_names", symbol_names, symbol_count));
    TW_RETURN_IF_ERROR(capi::check_list(call, "symbol_values", symbol_values, symbol_count));
    Bindings bindings;
    for (int64_t at = 0; at < symbol_count; ++at) {
      if (!symbol_names[at]) return Status::invalid(cat(call, ": symbol name ", at, " is null"));
      bindings[symbol_names[at]] = symbol_values[at];
    }
    TW_ASSIGN_OR_RETURN(Dim found, capi::to_dim(*graph, dim));
    TW_ASSIGN_OR_RETURN(*value, found.evaluate(bindings));
    return Status::ok();
  });
}

tw_status* tw_graph_input(tw_graph* graph, const char* name, int32_t dtype, const tw_dim* dims, int32_t rank,
                          tw_value* value) {
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(graph);
    TW_REQUIRE(value);
    TW_RETURN_IF_ERROR(check_name(call, name));
    if (name && *name)
      for (size_t other = 0; other < graph->graph.inputs.size(); ++other)
        if (graph->graph.value(graph->graph.inputs[other].value).name == name)
          return Status(Code::AlreadyExists, cat(call, ": input ", graph->graph.inputs.size(), ": input ",
                                                 other, " has the name ", name, " already"));
    TW_ASSIGN_OR_RETURN(TensorType type, to_type(call, *graph, dtype, dims, rank));
    *value = graph->graph.add_input(name ? name : "", std::move(type)).index;
    return Status::ok();
  });
}

tw_status* tw_graph_input_layout(tw_graph* graph, int64_t input, int32_t layout, const int64_t* order,
                                 const tw_dim* strides) {
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(graph);
    TW_RETURN_IF_ERROR(check_input_index(call, *graph, input));
    Input& declared = graph->graph.inputs[static_cast<size_t>(input)];
    const int64_t rank = graph->graph.type(declared.value).rank();
    Layout made;
    if (layout == TW_LAYOUT_DENSE) {
      if (order) made.order.assign(order, order + rank);
      std::vector<bool> seen(static_cast<size_t>(rank), false);
      for (int64_t dim : made.order) {
        if (dim < 0 || dim >= rank || seen[static_cast<size_t>(dim)])
          return Status::invalid(
              cat(call, ": order [", join(made.order, ","), "] is no permutation of ", rank, " dims"));
        seen[static_cast<size_t>(dim)] = true;
      }
    } else if (layout == TW_LAYOUT_STRIDED) {
      made.kind = Layout::Kind::Strided;
      TW_RETURN_IF_ERROR(capi::check_list(call, "strides", strides, rank));
      TW_ASSIGN_OR_RETURN(made.strides, capi::to_shape(*graph, strides, rank));
    } else if (layout == TW_LAYOUT_ANY) {
      made.kind = Layout::Kind::Any;
    } else {
      return Status::invalid(cat(call, ": unknown layout ", layout, ", expected one of TW_LAYOUT_*"));
    }
    declared.layout = std::move(made);
    return Status::ok();
  });
}

tw_status* tw_graph_input_frozen(tw_graph* graph, int64_t input, int32_t frozen) {
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(graph);
    TW_RETURN_IF_ERROR(check_input_index(call, *graph, input));
    graph->graph.inputs[static_cast<size_t>(input)].frozen = frozen != 0;
    return Status::ok();
  });
}

tw_status* tw_graph_output(tw_graph* graph, tw_value value, const char* name) {
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(graph);
    TW_RETURN_IF_ERROR(check_name(call, name));
    TW_ASSIGN_OR_RETURN(ValueId found, capi::to_value(*graph, value));
    if (!found.is_valid()) return Status::invalid(cat(call, ": no value is given"));
    if (name && *name)
      for (size_t other = 0; other < graph->graph.outputs.size(); ++other)
        if (graph->graph.outputs[other].name == name)
          return Status(Code::AlreadyExists, cat(call, ": output ", graph->graph.outputs.size(), ": output ",
                                                 other, " has the name ", name, " already"));
    graph->graph.add_output(found, name ? name : "");
    return Status::ok();
  });
}

tw_status* tw_graph_clear_outputs(tw_graph* graph) {
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(graph);
    graph->graph.outputs.clear();
    return Status::ok();
  });
}

tw_status* tw_graph_alias(tw_graph* graph, int64_t output, int64_t input) {
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(graph);
    TW_RETURN_IF_ERROR(check_input_index(call, *graph, input));
    std::vector<Output>& outputs = graph->graph.outputs;
    if (output < 0 || output >= static_cast<int64_t>(outputs.size()))
      return Status::invalid(cat(call, ": output ", output, " of ", outputs.size()));
    const TensorType& from = graph->graph.type(graph->graph.inputs[static_cast<size_t>(input)].value);
    const TensorType& to = graph->graph.type(outputs[static_cast<size_t>(output)].value);
    if (!(from == to))
      return Status::invalid(cat(call, ": output ", output, " is ", to.to_string(), ", but input ", input,
                                 " is ", from.to_string()));
    for (size_t other = 0; other < outputs.size(); ++other)
      if (outputs[other].alias_input == input && static_cast<int64_t>(other) != output)
        return Status::invalid(cat(call, ": input ", input, " is aliased by output ", other, " already"));
    outputs[static_cast<size_t>(output)].alias_input = static_cast<int>(input);
    return Status::ok();
  });
}

tw_status* tw_graph_append(tw_graph* graph, const tw_node* node, tw_value* results, int64_t result_capacity,
                           int64_t* result_count) {
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(graph);
    TW_REQUIRE(node);
    tw_node given;
    TW_RETURN_IF_ERROR(capi::read_struct(call, "tw_node", node, &given));
    const std::optional<Op> op = op_from_id(given.op);
    if (!op) return Status::invalid(cat(call, ": unknown op ", given.op, ", expected one of TW_OP_*"));
    TW_RETURN_IF_ERROR(capi::check_list(call, "operands", given.operands, given.operand_count));
    if (result_capacity < 0 || (result_capacity > 0 && !results))
      return Status::invalid(cat(call, ": results is null, but has capacity ", result_capacity));
    std::vector<ValueId> operands;
    for (int64_t at = 0; at < given.operand_count; ++at) {
      Result<ValueId> operand = capi::to_value(*graph, given.operands[at]);
      if (!operand.is_ok())
        return Status::invalid(
            cat(call, ": ", op_name(*op), " operand ", at, ": ", operand.status().message()));
      operands.push_back(*operand);
    }
    TW_ASSIGN_OR_RETURN(AttributeMap attributes,
                        capi::to_attributes(*graph, given.attributes, given.attribute_count));
    TW_ASSIGN_OR_RETURN(std::vector<RegionRef> regions, to_regions(call, given));
    TW_ASSIGN_OR_RETURN(NodeId id, graph->graph.append(*op, std::move(operands), std::move(attributes),
                                                       std::move(regions), given.tag ? given.tag : ""));
    const std::vector<ValueId>& made = graph->graph.node(id).results;
    for (int64_t at = 0; at < std::min<int64_t>(result_capacity, static_cast<int64_t>(made.size())); ++at)
      results[at] = made[static_cast<size_t>(at)].index;
    if (result_count) *result_count = static_cast<int64_t>(made.size());
    return Status::ok();
  });
}

tw_status* tw_graph_constant(tw_graph* graph, tw_constant* constant, tw_value* value) {
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(graph);
    TW_REQUIRE(constant);
    TW_REQUIRE(value);
    return append_constant(*graph, constant->constant, value);
  });
}

tw_status* tw_graph_splat(tw_graph* graph, int32_t dtype, const tw_dim* dims, int32_t rank, double number,
                          tw_value* value) {
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(graph);
    TW_REQUIRE(value);
    TW_ASSIGN_OR_RETURN(TensorType type, to_type(call, *graph, dtype, dims, rank));
    return append_constant(*graph, make_splat(number, type.dtype, std::move(type.shape)), value);
  });
}

tw_status* tw_graph_splat_integer(tw_graph* graph, int32_t dtype, const tw_dim* dims, int32_t rank,
                                  int64_t number, tw_value* value) {
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(graph);
    TW_REQUIRE(value);
    TW_ASSIGN_OR_RETURN(TensorType type, to_type(call, *graph, dtype, dims, rank));
    if (is_float(type.dtype) || is_float8(type.dtype))
      return Status::invalid(cat(call, ": dtype ", dtype_name(type.dtype), ", expected an integer or bool"));
    return append_constant(*graph, make_integer_splat(number, type.dtype, std::move(type.shape)), value);
  });
}

}  // extern "C"
