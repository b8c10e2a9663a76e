// Canonical hash of graphs: structure, types, attributes and signature, by position instead of by name.
#include "ir/hash.h"

#include <algorithm>

#include "base/text.h"
#include "ir/text.h"

namespace tilewright {

namespace {

class GraphHasher {
 public:
  explicit GraphHasher(const Graph& graph) : graph_(graph), numbers_(graph.value_count(), UINT32_MAX) {}

  Hash128 run() {
    number_values();
    add_symbols();
    hasher_.add(graph_.inputs.size());
    for (const Input& input : graph_.inputs) {
      hasher_.add(graph_.type(input.value).to_string());
      add_layout(input.layout);
      hasher_.add(input.frozen);
    }
    hasher_.add(graph_.node_count());
    for (const Node& node : graph_.nodes()) add_node(node);
    hasher_.add(graph_.outputs.size());
    for (const Output& output : graph_.outputs) {
      hasher_.add(number(output.value)).add(output.name).add(output.alias_input);
      add_layout(output.layout);
    }
    return hasher_.finish();
  }

 private:
  // Inputs, then results in node order, whatever order the ids were given in.
  void number_values() {
    uint32_t next = 0;
    for (const Input& input : graph_.inputs) numbers_[input.value.index] = next++;
    for (const Node& node : graph_.nodes()) {
      for (ValueId result : node.results) numbers_[result.index] = next++;
    }
  }
  uint32_t number(ValueId id) const { return id.is_valid() ? numbers_[id.index] : UINT32_MAX; }

  void collect(const std::vector<Dim>& dims, std::vector<std::string>& names) const {
    for (const Dim& dim : dims) {
      if (!dim.is_constant()) dim.collect_symbols(names);
    }
  }

  // Only symbols that occur, by name.
  void add_symbols() {
    std::vector<std::string> used;
    collect_used(graph_, used);
    std::vector<const Symbol*> symbols;
    for (const Symbol& symbol : graph_.symbols) {
      if (std::find(used.begin(), used.end(), symbol.name) != used.end()) symbols.push_back(&symbol);
    }
    std::sort(symbols.begin(), symbols.end(),
              [](const Symbol* a, const Symbol* b) { return a->name < b->name; });
    hasher_.add(symbols.size());
    for (const Symbol* symbol : symbols) {
      hasher_.add(symbol->name)
          .add(symbol->min)
          .add(symbol->max)
          .add(symbol->hint.has_value())
          .add(symbol->hint.value_or(0));
    }
  }

  void collect_used(const Graph& graph, std::vector<std::string>& used) const {
    for (const Value& value : graph.values()) collect(value.type.shape, used);
    for (const Input& input : graph.inputs) collect(input.layout.strides, used);
    for (const Output& output : graph.outputs) collect(output.layout.strides, used);
    for (const Node& node : graph.nodes()) {
      for (const auto& [name, value] : node.attributes) {
        if (const auto* dims = std::get_if<Shape>(&value)) collect(*dims, used);
        if (const auto* types = std::get_if<Types>(&value)) {
          for (const TensorType& type : *types) collect(type.shape, used);
        }
      }
      for (const RegionRef& region : node.regions) {
        if (region) collect_used(*region, used);
      }
    }
  }

  void add_layout(const Layout& layout) {
    hasher_.add(layout.kind).add(layout.order.size());
    for (int64_t dim : layout.order) hasher_.add(dim);
    hasher_.add(layout.strides.size());
    for (const Dim& stride : layout.strides) hasher_.add(stride.to_string());
  }

  void add_node(const Node& node) {
    hasher_.add(node.info().id);
    size_t count = node.operands.size();
    while (count > 0 && !node.operands[count - 1].is_valid()) --count;
    hasher_.add(count);
    for (size_t i = 0; i < count; ++i) hasher_.add(number(node.operands[i]));
    for (const auto& [name, value] : node.attributes) {
      const AttributeInfo* schema = node.info().attribute(name);
      if (schema && schema->default_value && equal(*schema->default_value, value)) continue;
      hasher_.add(name).add(value.index());
      const auto* constant = std::get_if<ConstantRef>(&value);
      if (constant && *constant) {
        hasher_.add((*constant)->content_hash());
      } else {
        hasher_.add(print(value));
      }
    }
    hasher_.add("regions").add(node.regions.size());
    for (const RegionRef& region : node.regions) {
      if (region) hasher_.add(hash_graph(*region));
    }
    hasher_.add(node.results.size());
    for (ValueId result : node.results) hasher_.add(graph_.type(result).to_string());
  }

  const Graph& graph_;
  std::vector<uint32_t> numbers_;
  Hasher hasher_;
};

}  // namespace

Hash128 hash_graph(const Graph& graph) { return GraphHasher(graph).run(); }

}  // namespace tilewright
