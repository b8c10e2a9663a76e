// Checks graphs against the invariants listed in the header.
#include "ir/verifier.h"

#include <algorithm>
#include <set>

#include "base/text.h"
#include "ir/inference.h"

namespace tilewright {

namespace {

constexpr int kMaxRegionDepth = 64;

bool is_symbol_name(std::string_view name) {
  auto word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return false;
  if (name == "floordiv" || name == "mod" || name == "min" || name == "max" || name == "any" || name == "_")
    return false;
  return std::all_of(name.begin(), name.end(), word);
}

class Verifier {
 public:
  // `outer` holds the symbols of the graphs around a region.
  Verifier(const Graph& graph, std::vector<Symbol> outer, int depth)
      : graph_(graph), symbols_(std::move(outer)), depth_(depth) {}

  std::vector<Violation> run() {
    check_symbols();
    check_inputs();
    for (uint32_t i = 0; i < graph_.node_count(); ++i) check_node(NodeId{i});
    check_outputs();
    return std::move(violations_);
  }

 private:
  void report(std::string message) { violations_.push_back({NodeId{}, std::move(message)}); }
  void report(NodeId node, const std::string& message) {
    violations_.push_back({node, cat(node_name(graph_, node), ": ", message)});
  }

  void check_symbols() {
    std::set<std::string_view> names;
    for (const Symbol& symbol : graph_.symbols) {
      if (!is_symbol_name(symbol.name))
        report(cat("symbol name `", symbol.name, "` is not allowed, expected letters, digits and _"));
      if (!names.insert(symbol.name).second) report(cat("symbol ", symbol.name, " is declared twice"));
      if (symbol.min > symbol.max) {
        report(cat("symbol ", symbol.name, " has the empty range ", symbol.min, "..", symbol.max));
      } else if (symbol.hint && (*symbol.hint < symbol.min || *symbol.hint > symbol.max)) {
        report(cat("symbol ", symbol.name, " has hint ", *symbol.hint, " outside ", symbol.min, "..",
                   symbol.max));
      }
      std::erase_if(symbols_, [&](const Symbol& outer) { return outer.name == symbol.name; });
    }
    symbols_.insert(symbols_.end(), graph_.symbols.begin(), graph_.symbols.end());
  }

  // What is wrong with a dim, or empty.
  std::string dim_fault(const Dim& dim) const {
    if (dim.is_constant()) return {};
    if (!dim.is_valid()) return "a dim overflows 64 bits or divides by zero";
    std::vector<std::string> names;
    dim.collect_symbols(names);
    for (const std::string& name : names) {
      bool known = std::any_of(symbols_.begin(), symbols_.end(),
                               [&](const Symbol& symbol) { return symbol.name == name; });
      if (!known) return cat("symbol ", name, " in ", dim.to_string(), " is not declared");
    }
    return {};
  }
  std::string dims_fault(const std::vector<Dim>& dims) const {
    for (const Dim& dim : dims) {
      std::string fault = dim_fault(dim);
      if (!fault.empty()) return fault;
    }
    return {};
  }
  std::string type_fault(const TensorType& type) const {
    std::string fault = dims_fault(type.shape);
    if (!fault.empty()) return fault;
    for (const Dim& dim : type.shape) {
      if (dim.range(symbols_).max < 0) return cat("type ", type.to_string(), " has a negative dim");
    }
    if (!type.elements().is_valid())
      return cat("type ", type.to_string(), " has more elements than 64 bits count");
    return {};
  }

  std::string layout_fault(const Layout& layout, const TensorType& type) const {
    auto rank = static_cast<size_t>(type.rank());
    switch (layout.kind) {
      case Layout::Kind::Any: return {};
      case Layout::Kind::Strided:
        if (layout.strides.size() != rank)
          return cat("found ", layout.strides.size(), " strides, expected ", rank);
        return dims_fault(layout.strides);
      case Layout::Kind::Dense: break;
    }
    if (layout.order.empty()) return {};
    std::vector<int64_t> sorted = layout.order;
    std::sort(sorted.begin(), sorted.end());
    bool permutation = sorted.size() == rank;
    for (size_t i = 0; permutation && i < rank; ++i) permutation = sorted[i] == static_cast<int64_t>(i);
    return permutation ? std::string()
                       : cat("order(", join(layout.order, ","), ") is no permutation of ", rank, " dims");
  }

  void check_inputs() {
    std::set<std::string_view> names;
    defined_.assign(graph_.value_count(), false);
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      const Input& input = graph_.inputs[i];
      if (input.value.index >= graph_.value_count()) {
        report(cat("input ", i, " names no value"));
        continue;
      }
      const Value& value = graph_.value(input.value);
      if (defined_[input.value.index]) report(cat("input ", i, " repeats an earlier one"));
      if (value.node.is_valid()) report(cat("input ", i, " is the result of a node"));
      defined_[input.value.index] = true;
      std::string where = cat("input ", graph_.value_name(input.value), ": ");
      if (!value.name.empty() && !names.insert(value.name).second)
        report(where + "an earlier input has the same name");
      std::string fault = type_fault(value.type);
      if (fault.empty()) fault = layout_fault(input.layout, value.type);
      if (!fault.empty()) report(where + fault);
    }
  }

  void check_outputs() {
    std::set<std::string_view> names;
    std::set<int> aliased;
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      const Output& output = graph_.outputs[i];
      std::string where = cat("output ", i, ": ");
      if (output.value.index >= graph_.value_count() || !defined_[output.value.index]) {
        report(where + "names no value");
        continue;
      }
      if (!output.name.empty() && !names.insert(output.name).second)
        report(cat(where, "name `", output.name, "` is used twice"));
      const TensorType& type = graph_.type(output.value);
      std::string fault = layout_fault(output.layout, type);
      if (!fault.empty()) report(where + fault);
      if (output.alias_input == -1) continue;
      auto input = static_cast<size_t>(output.alias_input);
      if (output.alias_input < 0 || input >= graph_.inputs.size()) {
        report(
            cat(where, "alias(", output.alias_input, ") names no input, there are ", graph_.inputs.size()));
      } else if (graph_.inputs[input].value.index < graph_.value_count() &&
                 graph_.type(graph_.inputs[input].value) != type) {
        report(cat(where, "has type ", type.to_string(), ", but aliases input ", input, " of type ",
                   graph_.type(graph_.inputs[input].value).to_string()));
      } else if (!aliased.insert(output.alias_input).second) {
        report(cat(where, "aliases input ", input, ", which an earlier output aliases"));
      }
    }
  }

  void check_node(NodeId id) {
    const Node& node = graph_.node(id);
    bool usable = check_operands(id, node);
    usable &= check_results(id, node);
    for (const auto& [name, value] : node.attributes) {
      std::string fault;
      if (const auto* dims = std::get_if<Shape>(&value)) fault = dims_fault(*dims);
      if (const auto* types = std::get_if<Types>(&value)) {
        for (const TensorType& type : *types) fault = fault.empty() ? type_fault(type) : fault;
      }
      if (fault.empty()) continue;
      report(id, cat("attribute `", name, "`: ", fault));
      usable = false;
    }
    usable &= check_regions(id, node);
    if (usable) check_against_table(id, node);
    for (ValueId result : node.results) {
      if (result.index < defined_.size()) defined_[result.index] = true;
    }
  }

  bool check_operands(NodeId id, const Node& node) {
    bool good = true;
    for (size_t i = 0; i < node.operands.size(); ++i) {
      ValueId operand = node.operands[i];
      if (!operand.is_valid()) continue;
      if (operand.index < graph_.value_count() && defined_[operand.index]) continue;
      report(id, cat("operand ", i, " (", graph_.value_name(operand), ") is not defined before its use"));
      good = false;
    }
    return good;
  }

  bool check_results(NodeId id, const Node& node) {
    bool good = true;
    for (size_t i = 0; i < node.results.size(); ++i) {
      ValueId result = node.results[i];
      if (result.index >= graph_.value_count() || graph_.value(result).node != id ||
          graph_.value(result).result != i) {
        report(id, cat("result ", i, " does not belong to its node"));
        good = false;
        continue;
      }
      std::string fault = type_fault(graph_.type(result));
      if (fault.empty()) continue;
      report(id, cat("result ", i, ": ", fault));
      good = false;
    }
    return good;
  }

  bool check_regions(NodeId id, const Node& node) {
    bool good = true;
    for (size_t i = 0; i < node.regions.size(); ++i) {
      if (!node.regions[i]) continue;  // the table's check reports it
      if (depth_ >= kMaxRegionDepth) {
        report(id, cat("regions are nested more than ", kMaxRegionDepth, " deep"));
        return false;
      }
      for (const Violation& inner : Verifier(*node.regions[i], symbols_, depth_ + 1).run()) {
        report(id, cat("region ", i, ": ", inner.message));
        good = false;
      }
    }
    return good;
  }

  void check_against_table(NodeId id, const Node& node) {
    std::vector<const TensorType*> operands;
    for (ValueId operand : node.operands)
      operands.push_back(operand.is_valid() ? &graph_.type(operand) : nullptr);
    Result<Types> inferred =
        infer_types(NodeView{node.op, operands, node.attributes, node.regions, symbols_});
    if (!inferred.is_ok()) return report(id, inferred.status().message());
    if (inferred->size() != node.results.size()) {
      return report(id, cat("found ", node.results.size(), " results, expected ", inferred->size()));
    }
    for (size_t i = 0; i < inferred->size(); ++i) {
      const TensorType& type = graph_.type(node.results[i]);
      if (type == (*inferred)[i]) continue;
      report(id,
             cat("result ", i, " has type ", type.to_string(), ", expected ", (*inferred)[i].to_string()));
    }
  }

  const Graph& graph_;
  std::vector<Symbol> symbols_;
  int depth_;
  std::vector<bool> defined_;
  std::vector<Violation> violations_;
};

}  // namespace

std::vector<Violation> find_violations(const Graph& graph) { return Verifier(graph, {}, 0).run(); }

Status verify(const Graph& graph) {
  std::vector<Violation> violations = find_violations(graph);
  if (violations.empty()) return Status::ok();
  constexpr size_t kShown = 100;
  size_t shown = std::min(violations.size(), kShown);
  std::string text = graph.name.empty() ? std::string() : cat("graph @", graph.name, ": ");
  for (size_t i = 0; i < shown; ++i) text += (i == 0 ? "" : "\n") + violations[i].message;
  if (shown < violations.size()) text += cat("\nand ", violations.size() - shown, " more");
  return Status::invalid(std::move(text));
}

}  // namespace tilewright
