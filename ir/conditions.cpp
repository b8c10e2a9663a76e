// Collects what inference could not decide over symbolic dims, and evaluates it for one binding.
#include "ir/conditions.h"

#include <algorithm>
#include <set>

#include "base/text.h"
#include "ir/expansion.h"
#include "ir/window.h"

namespace tilewright {
namespace {

class Collector;
thread_local Collector* active = nullptr;

bool is_static(const Node& node, const Graph& graph) {
  for (ValueId operand : node.operands)
    if (operand.is_valid() && !graph.type(operand).is_static()) return false;
  for (ValueId result : node.results)
    if (!graph.type(result).is_static()) return false;
  return std::all_of(node.attributes.begin(), node.attributes.end(), [](const auto& attribute) {
    const auto* dims = std::get_if<Shape>(&attribute.second);
    return !dims || tilewright::is_static(*dims);
  });
}

class Collector {
 public:
  Collector() : outer_(active) { active = this; }
  ~Collector() { active = outer_; }
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;

  void visit(const Graph& graph, const std::vector<Symbol>& symbols, const std::string& prefix) {
    for (uint32_t index = 0; index < graph.node_count(); ++index) {
      const Node& node = graph.node(NodeId{index});
      for (const RegionRef& region : node.regions) {
        std::vector<Symbol> inner = symbols;
        inner.insert(inner.end(), region->symbols.begin(), region->symbols.end());
        visit(*region, inner, cat(prefix, node_name(graph, NodeId{index}), ": "));
      }
      if (is_static(node, graph)) continue;
      node_ = cat(prefix, node_name(graph, NodeId{index}));
      infer(graph, node, symbols);
    }
  }

  void add(const Dim& lhs, const Dim& rhs, std::string_view what, int64_t dim) {
    if (seen_.insert(cat(lhs.to_string(), " <= ", rhs.to_string())).second)
      conditions_.push_back({lhs, rhs, cat(node_, ": ", what, " ", dim)});
  }

  std::vector<DimCondition> take() { return std::move(conditions_); }

 private:
  // Runs the rule of the node and those of all primitives that it expands into; a verified graph passes them.
  static void infer(const Graph& graph, const Node& node, const std::vector<Symbol>& symbols) {
    std::vector<const TensorType*> types;
    for (ValueId operand : node.operands)
      types.push_back(operand.is_valid() ? &graph.type(operand) : nullptr);
    (void)infer_types(NodeView{node.op, types, node.attributes, node.regions, symbols});
    if (!node.info().composite) return;
    Graph single;
    single.symbols = symbols;
    std::vector<ValueId> operands;
    for (const TensorType* type : types) operands.push_back(type ? single.add_input({}, *type) : ValueId{});
    Types results;
    for (ValueId result : node.results) results.push_back(graph.type(result));
    (void)single.append_unchecked(node.op, operands, node.attributes, node.regions, results);
    (void)expand_composites(single, [](Op) { return true; });
  }

  Collector* const outer_;
  std::string node_;
  std::set<std::string> seen_;
  std::vector<DimCondition> conditions_;
};

std::string value_text(const Dim& dim, int64_t value) {
  return dim.is_constant() ? cat(value) : cat(dim.to_string(), " = ", value);
}

}  // namespace

void require_at_most(const Dim& lhs, const Dim& rhs, std::span<const Symbol> symbols, std::string_view what,
                     int64_t dim) {
  if (!active || !lhs.is_valid() || !rhs.is_valid()) return;
  const Dim difference = rhs - lhs;
  if (difference.is_valid() && dim_range(difference, symbols).min >= 0) return;
  active->add(lhs, rhs, what, dim);
}

std::vector<DimCondition> find_conditions(const Graph& graph) {
  if (graph.symbols.empty()) return {};
  Collector collector;
  collector.visit(graph, graph.symbols, {});
  return collector.take();
}

Status check_conditions(std::span<const DimCondition> conditions, const Bindings& bindings) {
  for (const DimCondition& condition : conditions) {
    const Result<int64_t> lhs = condition.lhs.evaluate(bindings), rhs = condition.rhs.evaluate(bindings);
    // Symbols that only a region binds are checked by the kernels inside.
    if (!lhs.is_ok() || !rhs.is_ok() || *lhs <= *rhs) continue;
    return Status::invalid(cat(condition.where, ": found ", value_text(condition.lhs, *lhs),
                               ", expected at most ", value_text(condition.rhs, *rhs)));
  }
  return Status::ok();
}

}  // namespace tilewright
