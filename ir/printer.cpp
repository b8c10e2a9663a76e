// Prints graphs; the parser reads the result back to the same text.
#include <algorithm>
#include <unordered_set>

#include "base/text.h"
#include "ir/lexer.h"
#include "ir/literal.h"
#include "ir/text.h"

namespace tilewright {

namespace {

bool is_number(std::string_view name) {
  return std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::string marked_name(char mark, std::string_view name) {
  return cat(mark, is_plain_name(name) ? std::string(name) : quote(name));
}

// A name written without a mark, as of an output.
std::string bare_name(std::string_view name) {
  bool word = is_plain_name(name) && !(name[0] >= '0' && name[0] <= '9') && name[0] != '.' && name[0] != '$';
  return word ? std::string(name) : quote(name);
}

// The text name of every value: its own, made unique, or the number of unnamed values before it.
std::vector<std::string> unique_names(const Graph& graph) {
  std::vector<std::string> names(graph.value_count());
  std::unordered_set<std::string> taken;
  size_t unnamed = 0;
  auto name_value = [&](ValueId id) {
    if (id.index >= graph.value_count()) return;
    const std::string& own = graph.value(id).name;
    std::string name = is_number(own) ? cat(unnamed++) : own;
    std::string candidate = name;
    for (int suffix = 1; !taken.insert(candidate).second; ++suffix) candidate = cat(name, ".", suffix);
    names[id.index] = marked_name('%', candidate);
  };
  for (const Input& input : graph.inputs) name_value(input.value);
  for (const Node& node : graph.nodes()) {
    for (ValueId result : node.results) name_value(result);
  }
  return names;
}

template <class List, class TextOf>
std::string list_of(const List& list, TextOf text_of) {
  return cat("[", join(list, ",", text_of), "]");
}

class GraphPrinter {
 public:
  GraphPrinter(const Graph& graph, std::string& out, int indent)
      : graph_(graph), out_(out), indent_(indent), names_(unique_names(graph)) {}

  void print() {
    print_header();
    out_ += " {\n";
    for (const Node& node : graph_.nodes()) print_node(node);
    start_line(1);
    out_ += "return";
    const char* separator = " ";
    for (const Output& output : graph_.outputs) {
      out_ += separator + name(output.value);
      separator = ", ";
    }
    out_ += "\n";
    start_line(0);
    out_ += "}";
  }

 private:
  void start_line(int level) { out_.append(2 * static_cast<size_t>(indent_ + level), ' '); }

  std::string name(ValueId id) const {
    if (!id.is_valid()) return "_";
    return id.index < names_.size() && !names_[id.index].empty() ? names_[id.index]
                                                                 : cat("%\"undefined ", id.index, "\"");
  }

  void print_header() {
    out_ += "graph";
    if (!graph_.name.empty()) out_ += " " + marked_name('@', graph_.name);
    if (!graph_.symbols.empty()) out_ += cat("[", join(graph_.symbols, ", ", symbol_text), "]");
    out_ += "(";
    out_ += join(graph_.inputs, ", ", [&](const Input& input) {
      const TensorType& type = graph_.type(input.value);
      return cat(name(input.value), ": ", type.to_string(), layout_text(input.layout),
                 input.frozen ? " frozen" : "");
    });
    out_ += ") -> (";
    out_ += join(graph_.outputs, ", ", [&](const Output& output) {
      bool known = output.value.index < graph_.value_count();
      std::string text = output.name.empty() ? "" : bare_name(output.name) + ": ";
      text += known ? graph_.type(output.value).to_string() : "f32[]";
      text += layout_text(output.layout);
      if (output.alias_input >= 0) text += cat(" alias(", output.alias_input, ")");
      return text;
    });
    out_ += ")";
  }

  static std::string symbol_text(const Symbol& symbol) {
    std::string text = symbol.name;
    Symbol plain;
    if (symbol.min != plain.min || symbol.max != plain.max) {
      text += cat(" in ", symbol.min, "..");
      if (symbol.max != plain.max) text += cat(symbol.max);
    }
    if (symbol.hint) text += cat(" hint ", *symbol.hint);
    return text;
  }

  static std::string layout_text(const Layout& layout) {
    switch (layout.kind) {
      case Layout::Kind::Dense:
        return layout.order.empty() ? "" : cat(" order(", join(layout.order, ","), ")");
      case Layout::Kind::Strided:
        return cat(" strides(", join(layout.strides, ",", [](const Dim& dim) { return dim.to_string(); }),
                   ")");
      case Layout::Kind::Any: return " strides(any)";
    }
    return "";
  }

  void print_node(const Node& node) {
    start_line(1);
    if (!node.results.empty()) {
      out_ += join(node.results, ", ", [&](ValueId id) { return name(id); });
      out_ += " = ";
    }
    out_ += node.info().name;
    size_t count = node.operands.size();
    while (count > 0 && !node.operands[count - 1].is_valid()) --count;
    for (size_t i = 0; i < count; ++i) out_ += (i == 0 ? " " : ", ") + name(node.operands[i]);
    print_attributes(node);
    for (const RegionRef& region : node.regions) {
      out_ += " ";
      if (region) GraphPrinter(*region, out_, indent_ + 1).print();
    }
    if (!node.results.empty()) {
      out_ += " : ";
      out_ += join(node.results, ", ", [&](ValueId id) { return graph_.type(id).to_string(); });
    }
    if (!node.tag.empty()) out_ += cat(" loc ", quote(node.tag));
    out_ += "\n";
  }

  // In the order of the table, without defaults; then what the table does not know.
  void print_attributes(const Node& node) {
    const char* separator = " {";
    auto add = [&](const std::string& name, const Attribute& value, bool word) {
      out_ += separator;
      out_ += name + "=";
      const auto* text = std::get_if<std::string>(&value);
      const auto* constant = std::get_if<ConstantRef>(&value);
      if (text && word) {
        out_ += *text;
      } else if (constant && *constant) {
        out_ += print_constant(**constant);
      } else {
        out_ += tilewright::print(value);
      }
      separator = ", ";
    };
    const OpInfo& info = node.info();
    for (const AttributeInfo& schema : info.attributes) {
      auto found = node.attributes.find(schema.name);
      if (found == node.attributes.end()) continue;
      if (schema.default_value && equal(*schema.default_value, found->second)) continue;
      add(schema.name, found->second, schema.kind == AttributeKind::Enum);
    }
    for (const auto& [attribute_name, value] : node.attributes) {
      if (!info.attribute(attribute_name)) add(attribute_name, value, false);
    }
    if (separator[0] == ',') out_ += "}";
  }

  const Graph& graph_;
  std::string& out_;
  int indent_;
  std::vector<std::string> names_;
};

}  // namespace

std::string print(const Graph& graph) {
  std::string out;
  GraphPrinter(graph, out, 0).print();
  out += "\n";
  return out;
}

std::string print(const Attribute& attribute) {
  struct Visitor {
    std::string operator()(bool value) const { return value ? "true" : "false"; }
    std::string operator()(int64_t value) const { return cat(value); }
    std::string operator()(double value) const { return print_float(value); }
    std::string operator()(const std::string& value) const { return quote(value); }
    std::string operator()(DType value) const { return dtype_name(value); }
    std::string operator()(const Ints& value) const { return cat("[", join(value, ","), "]"); }
    std::string operator()(const Floats& value) const { return list_of(value, print_float); }
    std::string operator()(const Shape& value) const { return shape_to_string(value); }
    std::string operator()(const Types& value) const {
      return list_of(value, [](const TensorType& type) { return type.to_string(); });
    }
    std::string operator()(const ConstantRef& value) const {
      return value ? cat(value->type.to_string(), " ", print_constant(*value)) : "null";
    }
  };
  return std::visit(Visitor{}, attribute);
}

}  // namespace tilewright
