// Expands composites: one node on request, or every wanted one of a graph with calls inlined.
#include "ir/expansion.h"

#include "base/text.h"

namespace tilewright {
namespace {

using ExpandFunction = Status (*)(Expansion&);

ExpandFunction expand_function(Op op) {
  switch (op) {
#define OP(name, Enum, ...) \
  case Op::Enum: return nullptr;
#define COMPOSITE(name, Enum, ...) \
  case Op::Enum: return expand_##name;
#include "ir/ops.def"
#undef OP
#undef COMPOSITE
  }
  return nullptr;
}

using Wanted = FunctionRef<bool(const Graph&, const Node&)>;

// Calls nest up to 64 deep and composites inside them a little more; beyond, two expand into each other.
constexpr int kMaxDepth = 64 + 16;

// Copies a graph node by node, replacing what has an expansion or a region to inline.
class Expander {
 public:
  Expander(const Graph& source, Wanted wanted) : source_(source), wanted_(wanted) {}

  Result<Graph> run() {
    target_.name = source_.name;
    target_.symbols = source_.symbols;
    map_.resize(source_.value_count());
    for (const Input& input : source_.inputs) {
      const Value& value = source_.value(input.value);
      map_[input.value.index] = target_.add_input(value.name, value.type, input.layout, input.frozen);
    }
    TW_RETURN_IF_ERROR(copy_body(source_, map_, 0));
    for (const Output& output : source_.outputs) {
      target_.outputs.push_back(output);
      target_.outputs.back().value = map_[output.value.index];
    }
    return std::move(target_);
  }

 private:
  Status copy_body(const Graph& body, std::vector<ValueId>& map, int depth) {
    for (size_t i = 0; i < body.node_count(); ++i) {
      const Node& node = body.nodes()[i];
      std::vector<ValueId> operands;
      for (ValueId operand : node.operands) {
        operands.push_back(operand.is_valid() ? map[operand.index] : ValueId{});
      }
      std::vector<ValueId> results;
      TW_RETURN_IF_ERROR(place(body, node, std::move(operands), depth, results));
      for (size_t k = 0; k < node.results.size(); ++k) {
        map[node.results[k].index] = results[k];
        if (depth == 0) keep_name(body.value(node.results[k]).name, results[k]);
      }
    }
    return Status::ok();
  }

  // Appends a node's image: its expansion, its inlined region, or itself.
  Status place(const Graph& body, const Node& node, std::vector<ValueId> operands, int depth,
               std::vector<ValueId>& results) {
    if (depth > kMaxDepth) return Status::internal(cat("expansion of ", op_name(node.op), " does not end"));
    if (node.info().composite && wanted_(body, node)) return place_expansion(node, operands, depth, results);
    if (node.op == Op::Call || node.op == Op::Composite) return place_region(node, operands, depth, results);
    std::vector<RegionRef> regions;
    for (const RegionRef& region : node.regions) {
      TW_ASSIGN_OR_RETURN(Graph expanded, expand_composites(*region, wanted_));
      regions.push_back(std::make_shared<const Graph>(std::move(expanded)));
    }
    TW_ASSIGN_OR_RETURN(NodeId id, target_.append(node.op, std::move(operands), node.attributes,
                                                  std::move(regions), node.tag));
    results = target_.node(id).results;
    return Status::ok();
  }

  // Expands into a graph of its own first, so that the composites inside are found.
  Status place_expansion(const Node& node, const std::vector<ValueId>& operands, int depth,
                         std::vector<ValueId>& results) {
    Graph piece;
    piece.symbols = target_.symbols;
    std::vector<ValueId> inputs, map;
    for (ValueId operand : operands) {
      inputs.push_back(operand.is_valid() ? piece.add_input("", target_.type(operand)) : ValueId{});
    }
    Builder builder(piece);
    builder.set_tag(node.tag);
    TW_ASSIGN_OR_RETURN(std::vector<ValueId> made, expand(builder, node.op, inputs, node.attributes));
    map.resize(piece.value_count());
    for (size_t i = 0; i < operands.size(); ++i) {
      if (operands[i].is_valid()) map[inputs[i].index] = operands[i];
    }
    TW_RETURN_IF_ERROR(copy_body(piece, map, depth + 1));
    for (ValueId value : made) results.push_back(map[value.index]);
    return Status::ok();
  }

  Status place_region(const Node& node, const std::vector<ValueId>& operands, int depth,
                      std::vector<ValueId>& results) {
    const Graph& region = *node.regions[0];
    std::vector<ValueId> map(region.value_count());
    for (size_t i = 0; i < region.inputs.size(); ++i) map[region.inputs[i].value.index] = operands[i];
    TW_RETURN_IF_ERROR(copy_body(region, map, depth + 1));
    for (const Output& output : region.outputs) results.push_back(map[output.value.index]);
    return Status::ok();
  }

  void keep_name(const std::string& name, ValueId image) {
    Value& value = target_.value(image);
    if (!name.empty() && value.name.empty() && value.node.is_valid()) value.name = name;
  }

  const Graph& source_;
  Wanted wanted_;
  Graph target_;
  std::vector<ValueId> map_;
};

}  // namespace

Result<std::vector<ValueId>> expand(Builder& builder, Op op, std::span<const ValueId> operands,
                                    const AttributeMap& attributes) {
  ExpandFunction function = expand_function(op);
  if (!function)
    return Status::invalid(cat(op_name(op), ": not a composite, expected an op with an expansion"));
  Expansion e{builder, op, operands, AttributeReader(op, attributes), {}};
  TW_RETURN_IF_ERROR(function(e));
  if (const Status& inner = builder.status(); !inner.is_ok()) {
    return Status(inner.code(), cat(op_name(op), ": ", inner.message()));
  }
  for (ValueId value : e.results) TW_ASSERT(value.is_valid());
  return std::move(e.results);
}

Result<Graph> expand_composites(const Graph& graph, FunctionRef<bool(const Graph&, const Node&)> wanted) {
  return Expander(graph, wanted).run();
}

Result<Graph> expand_composites(const Graph& graph, bool (*wanted)(Op)) {
  return expand_composites(graph, [&](const Graph&, const Node& node) { return wanted(node.op); });
}

}  // namespace tilewright
