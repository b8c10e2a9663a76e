// Reads graphs: headers, statements and regions, with recovery at line ends.
#include "ir/parser.h"

#include <algorithm>
#include <unordered_map>

#include "base/text.h"
#include "ir/inference.h"
#include "ir/literal.h"
#include "ir/parser_attributes.h"
#include "ir/text.h"
#include "ir/verifier.h"

namespace tilewright {

namespace {

constexpr int kMaxRegionDepth = 64;

// A graph being read: the values in scope and where its nodes stand.
struct Scope {
  Graph graph;
  std::unordered_map<std::string, ValueId> values;  // an invalid id: defined by a statement that had errors
  std::vector<size_t> node_offsets;
  size_t header_offset = 0;
  Types output_types;
  std::vector<size_t> output_offsets;
  bool returned = false;
};

struct NamedResult {
  std::string name;
  size_t offset;
};

// One statement, read but not yet appended.
struct Statement {
  size_t offset = 0;
  std::vector<NamedResult> results;
  Op op = Op::Constant;
  std::vector<ValueId> operands;
  ParsedAttributes attributes;
  std::vector<RegionRef> regions;
  bool typed = false;
  Types types;
  std::string tag;
  bool poisoned = false;  // uses a value whose own statement had errors
};

class GraphParser {
 public:
  explicit GraphParser(std::string_view text) : r_(text), lexer_(r_.lexer) {}

  ParsedText run() {
    ParsedText parsed;
    while (!lexer_.at(TokenKind::End) && !r_.too_many_errors()) {
      size_t errors = r_.diagnostics.size();
      if (!lexer_.at("graph")) {
        r_.fail_expected_here("`graph`");
        skip_to_graph();
        continue;
      }
      Scope scope;
      if (!parse_graph(scope, 0)) skip_to_graph();
      if (r_.diagnostics.size() != errors) continue;
      report_violations(scope);
      parsed.graphs.push_back(std::move(scope.graph));
    }
    parsed.diagnostics = std::move(r_.diagnostics);
    return parsed;
  }

 private:
  // After an error outside a body: to the next line that starts a graph.
  void skip_to_graph() {
    do {
      lexer_.move_to(lexer_.line_end(lexer_.token().offset));
    } while (!lexer_.at(TokenKind::End) && !lexer_.at("graph"));
  }

  void report_violations(const Scope& scope) {
    for (const Violation& violation : find_violations(scope.graph)) {
      bool of_node = violation.node.index < scope.node_offsets.size();
      r_.fail(of_node ? scope.node_offsets[violation.node.index] : scope.header_offset, violation.message);
    }
  }

  bool parse_graph(Scope& scope, int depth) {
    if (depth > kMaxRegionDepth) return r_.fail_expected(cat("at most ", kMaxRegionDepth, " nested regions"));
    scope.header_offset = lexer_.token().offset;
    if (!parse_header(scope) || !r_.expect("{")) return false;
    while (!lexer_.at("}")) {
      if (lexer_.at(TokenKind::End) || r_.too_many_errors()) return r_.fail_expected("`}`");
      if (depth == 0 && lexer_.at("graph") && lexer_.place(lexer_.token().offset).column == 1) {
        return r_.fail_expected_here("`}` before the next graph");
      }
      size_t start = lexer_.token().offset;
      if (scope.returned) return r_.fail_expected_here("`}` after return");
      bool good = lexer_.at("return") ? parse_return(scope) : parse_statement(scope, depth);
      if (!good && lexer_.token().offset >= start) skip_line(start);
    }
    if (!scope.returned) r_.fail_expected_here("`return` before `}`");
    lexer_.advance();
    return true;
  }

  // After an error in a statement that started at `start`: to the line after the place reached.
  void skip_line(size_t start) {
    size_t reached = std::max(start, lexer_.previous_end());
    if (lexer_.starts_line() && lexer_.token().offset > start) return;
    lexer_.move_to(lexer_.line_end(std::max(reached, start)));
  }

  bool parse_header(Scope& scope) {
    lexer_.advance();  // graph
    if (lexer_.at(TokenKind::Symbol)) {
      std::optional<std::string> name = token_name(lexer_.token());
      if (!name) return r_.fail_expected("a name with valid escapes");
      scope.graph.name = std::move(*name);
      lexer_.advance();
    }
    if (lexer_.at("[") && !r_.read_list("[", "]", [&] { return parse_symbol(scope.graph); })) return false;
    if (!r_.read_list("(", ")", [&] { return parse_input(scope); })) return false;
    return r_.expect("->") && r_.read_list("(", ")", [&] { return parse_output(scope); });
  }

  // N in 1..65536 hint 32
  bool parse_symbol(Graph& graph) {
    Symbol symbol;
    if (!r_.read_word(symbol.name, "the name of a symbol")) return false;
    if (r_.take("in")) {
      if (!r_.read_integer(symbol.min) || !r_.expect("..")) return false;
      if (lexer_.at(TokenKind::Number) && !r_.read_integer(symbol.max)) return false;
    }
    if (r_.take("hint")) {
      int64_t hint = 0;
      if (!r_.read_integer(hint)) return false;
      symbol.hint = hint;
    }
    graph.symbols.push_back(std::move(symbol));
    return true;
  }

  bool parse_input(Scope& scope) {
    NamedResult name;
    TensorType type;
    Layout layout;
    if (!parse_new_value(name) || !r_.expect(":") || !r_.read_type(type)) return false;
    if (!parse_layout(layout)) return false;
    bool frozen = r_.take("frozen");
    ValueId id = scope.graph.add_input(text_name(name.name), std::move(type), std::move(layout), frozen);
    return define(scope, name, id);
  }

  // loss: f32[N] order(1,0) alias(0)
  bool parse_output(Scope& scope) {
    Output output;
    scope.output_offsets.push_back(lexer_.token().offset);
    if (lexer_.at(TokenKind::String)) {
      if (!r_.read_string(output.name) || !r_.expect(":")) return false;
    } else if (lexer_.at(TokenKind::Word)) {
      size_t start = lexer_.token().offset;
      std::string name(lexer_.token().text);
      lexer_.advance();
      if (r_.take(":")) {
        output.name = std::move(name);
      } else {
        lexer_.move_to(start);
      }
    }
    TensorType type;
    if (!r_.read_type(type) || !parse_layout(output.layout)) return false;
    if (r_.take("alias")) {
      int64_t input = 0;
      if (!r_.expect("(")) return false;
      size_t start = lexer_.token().offset;
      if (!r_.read_integer(input, "the index of an input") || !r_.expect(")")) return false;
      if (input < 0)
        return r_.fail(start, cat("alias(", input, ") is negative, expected the index of an input"));
      output.alias_input = static_cast<int>(std::min<int64_t>(input, INT32_MAX));
    }
    scope.output_types.push_back(std::move(type));
    scope.graph.outputs.push_back(std::move(output));
    return true;
  }

  bool parse_layout(Layout& layout) {
    if (r_.take("order")) {
      return r_.read_list(
          "(", ")", [&] { return r_.read_integer(layout.order.emplace_back(), "the number of a dim"); });
    }
    if (!r_.take("strides")) return true;
    layout.kind = Layout::Kind::Strided;
    if (!r_.read_dims(layout.strides, "(", ')')) return false;
    if (layout.strides.size() == 1 && layout.strides[0].as_symbol() == "any") {
      layout.kind = Layout::Kind::Any;
      layout.strides.clear();
    }
    return true;
  }

  // Numbers say nothing: such values are numbered anew when printed.
  static std::string text_name(const std::string& name) {
    return name.find_first_not_of("0123456789") == std::string::npos ? std::string() : name;
  }

  bool parse_new_value(NamedResult& result) {
    if (!lexer_.at(TokenKind::Value)) return r_.fail_expected("a value such as %x");
    std::optional<std::string> name = token_name(lexer_.token());
    if (!name) return r_.fail_expected("a name with valid escapes");
    result = {std::move(*name), lexer_.token().offset};
    lexer_.advance();
    return true;
  }

  bool define(Scope& scope, const NamedResult& result, ValueId id) {
    auto [found, fresh] = scope.values.try_emplace(result.name, id);
    if (fresh) return true;
    if (!found->second.is_valid()) {
      found->second = id;
      return true;
    }
    return r_.fail(result.offset, cat("value %", result.name, " is defined twice"));
  }

  // An operand or output; absent ones and uses of poisoned values give an invalid id.
  bool parse_use(Scope& scope, ValueId& id, bool& poisoned) {
    if (r_.take("_")) return true;
    NamedResult name;
    if (!parse_new_value(name)) return false;
    auto found = scope.values.find(name.name);
    if (found == scope.values.end()) {
      std::vector<std::string_view> known;
      if (scope.values.size() < 1000) {
        for (const auto& [text, value] : scope.values) known.push_back(text);
      }
      std::string near = nearest(name.name, known);
      r_.fail(name.offset, cat("value %", name.name, " is not defined",
                               near.empty() ? "" : cat(", did you mean %", near, "?")));
      poisoned = true;
      return true;
    }
    id = found->second;
    poisoned |= !id.is_valid();
    return true;
  }

  bool parse_statement(Scope& scope, int depth) {
    Statement statement;
    statement.offset = lexer_.token().offset;
    bool good = read_statement(scope, statement, depth) && !statement.poisoned && append(scope, statement);
    if (!good) {
      // Later uses of these values are no errors of their own.
      for (const NamedResult& result : statement.results) scope.values.try_emplace(result.name, ValueId{});
    }
    return good || statement.poisoned;
  }

  bool read_statement(Scope& scope, Statement& statement, int depth) {
    if (lexer_.at(TokenKind::Value)) {
      do {
        if (!parse_new_value(statement.results.emplace_back())) {
          statement.results.pop_back();
          return false;
        }
      } while (r_.take(","));
      if (!r_.expect("=")) return false;
    }
    if (!read_op(statement.op)) return false;
    const OpInfo& info = op_info(statement.op);
    bool operands = lexer_.at(TokenKind::Value) || lexer_.at("_");
    if (operands && !lexer_.starts_line()) {
      do {
        if (!parse_use(scope, statement.operands.emplace_back(), statement.poisoned)) return false;
      } while (r_.take(","));
    }
    bool good = !lexer_.at("{") || read_attributes(r_, info, statement.attributes);
    while (info.max_regions > 0 && lexer_.at("graph")) {
      Scope region;
      size_t errors = r_.diagnostics.size();
      if (!parse_graph(region, depth + 1)) return false;
      statement.poisoned |= r_.diagnostics.size() != errors;
      statement.regions.push_back(std::make_shared<const Graph>(std::move(region.graph)));
    }
    if (r_.take(":")) {
      statement.typed = true;
      do {
        if (!r_.read_type(statement.types.emplace_back())) return false;
      } while (r_.take(","));
    }
    if (lexer_.at("loc") && !lexer_.starts_line()) {
      lexer_.advance();
      if (!r_.read_string(statement.tag)) return false;
    }
    if (good && !lexer_.starts_line() && !lexer_.at("}")) return r_.fail_expected("the end of the line");
    statement.poisoned |= !good;
    return true;
  }

  bool read_op(Op& op) {
    if (!lexer_.at(TokenKind::Word)) return r_.fail_expected_here("an op, a value or `return`");
    std::optional<Op> known = parse_op(lexer_.token().text);
    if (!known) {
      std::vector<std::string_view> names;
      for (const OpInfo& info : all_ops()) names.push_back(info.name);
      std::string near = nearest(lexer_.token().text, names);
      return r_.fail(lexer_.token().offset, cat("unknown op `", lexer_.token().text.substr(0, 60), "`",
                                                near.empty() ? "" : cat(", did you mean `", near, "`?")));
    }
    op = *known;
    lexer_.advance();
    return true;
  }

  static std::string where(const Statement& statement) {
    const char* name = op_name(statement.op);
    return statement.results.empty() ? std::string(name) : cat(name, " %", statement.results[0].name);
  }

  bool append(Scope& scope, Statement& statement) {
    const char* name = op_name(statement.op);
    AttributeMap& attributes = statement.attributes.values;
    for (const PendingConstant& pending : statement.attributes.constants) {
      if (statement.types.size() != 1)
        return r_.fail(pending.offset, cat(name, " needs one result type after `:`"));
      Result<ConstantRef> constant = parse_constant(pending.text, statement.types[0]);
      if (!constant.is_ok()) return r_.fail(pending.offset, constant.status().message());
      attributes.emplace(pending.name, std::move(*constant));
    }
    NodeId node;
    std::vector<ValueId>& operands = statement.operands;
    if (statement.typed || op_info(statement.op).results.empty()) {
      while (!operands.empty() && !operands.back().is_valid()) operands.pop_back();
      Status normal = normalize_attributes(statement.op, attributes);
      if (!normal.is_ok()) return r_.fail(statement.offset, cat(where(statement), ": ", normal.message()));
      node = scope.graph.append_unchecked(statement.op, std::move(operands), std::move(attributes),
                                          std::move(statement.regions), std::move(statement.types));
    } else {
      Result<NodeId> appended = scope.graph.append(statement.op, std::move(operands), std::move(attributes),
                                                   std::move(statement.regions));
      if (!appended.is_ok()) {
        // The message names the value by its number, the text by its name.
        const std::string& message = appended.status().message();
        size_t colon = message.find(": ");
        std::string rest = colon == std::string::npos ? message : message.substr(colon + 2);
        return r_.fail(statement.offset, cat(where(statement), ": ", rest));
      }
      node = *appended;
    }
    scope.node_offsets.push_back(statement.offset);
    scope.graph.node(node).tag = std::move(statement.tag);
    return name_results(scope, statement, node);
  }

  bool name_results(Scope& scope, const Statement& statement, NodeId node) {
    std::vector<ValueId> results = scope.graph.node(node).results;
    bool good = true;
    for (size_t i = 0; i < std::min(results.size(), statement.results.size()); ++i) {
      scope.graph.value(results[i]).name = text_name(statement.results[i].name);
      good &= define(scope, statement.results[i], results[i]);
    }
    if (results.size() == statement.results.size()) return good;
    return r_.fail(statement.offset,
                   cat(op_name(statement.op), ": found ", statement.results.size(),
                       " result names, expected ", results.size(), " as there are result types"));
  }

  bool parse_return(Scope& scope) {
    size_t start = lexer_.token().offset;
    lexer_.advance();
    scope.returned = true;
    std::vector<ValueId> values;
    bool poisoned = false;
    if (lexer_.at(TokenKind::Value) && !lexer_.starts_line()) {
      do {
        if (!parse_use(scope, values.emplace_back(), poisoned)) return false;
      } while (r_.take(","));
    }
    Graph& graph = scope.graph;
    if (values.size() != graph.outputs.size()) {
      return r_.fail(start, cat("return has ", values.size(), " values, expected ", graph.outputs.size(),
                                " as in the header"));
    }
    for (size_t i = 0; i < values.size() && !poisoned; ++i) {
      graph.outputs[i].value = values[i];
      const TensorType& type = graph.type(values[i]);
      if (type == scope.output_types[i]) continue;
      r_.fail(scope.output_offsets[i],
              cat("output ", i, " has type ", scope.output_types[i].to_string(), ", but returns ",
                  graph.value_name(values[i]), " of type ", type.to_string()));
    }
    return true;
  }

  TextReader r_;
  Lexer& lexer_;
};

}  // namespace

ParsedText parse_text(std::string_view text) { return GraphParser(text).run(); }

Result<std::vector<Graph>> parse_graphs(std::string_view text) {
  ParsedText parsed = parse_text(text);
  if (!parsed.diagnostics.empty()) return Status::invalid(to_string(parsed.diagnostics));
  return std::move(parsed.graphs);
}

Result<Graph> parse_graph(std::string_view text) {
  TW_ASSIGN_OR_RETURN(std::vector<Graph> graphs, parse_graphs(text));
  if (graphs.size() != 1)
    return Status::invalid(cat("found ", graphs.size(), " graphs, expected exactly one"));
  return std::move(graphs[0]);
}

}  // namespace tilewright
