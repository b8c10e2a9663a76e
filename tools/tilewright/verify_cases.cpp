// Parsing of case lines, dtypes of a call, and building its graph through the C API.
#include "tools/tilewright/verify_cases.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "tools/tilewright/commands.h"

namespace command {
namespace {

const char* const kCases =
#include <embedded/cases.inc>
    ;
const char* const kComposites =
#include <embedded/composites.inc>
    ;
const char* const kGraphs =
#include <embedded/graphs.inc>
    ;

using Json = nlohmann::json;

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t"), end = text.find_last_not_of(" \t");
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  std::string part;
  while (std::getline(stream, part, separator)) parts.push_back(trimmed(part));
  return parts;
}

// "a,b" of "[a,b]".
std::vector<std::string> entries(const std::string& list) {
  return list.size() < 2 ? std::vector<std::string>() : split(list.substr(1, list.size() - 2), ',');
}

// "dims:ints keepdims:bool=false order:enum(A|B)?": kinds by name.
void read_schema(const std::string& text, OpFacts& facts) {
  std::stringstream stream(text);
  std::string item;
  while (stream >> item) {
    const size_t colon = item.find(':');
    const std::string name = item.substr(0, colon);
    std::string kind = item.substr(colon + 1);
    if (name == "regions") {
      facts.regions = kind == "+" ? 1 : std::atoi(kind.c_str());
      continue;
    }
    const bool optional =
        kind.find('=', kind.find(')') == std::string::npos ? 0 : kind.find(')')) != std::string::npos ||
        kind.back() == '?';
    facts.has_required_attributes |= !optional;
    kind.resize(std::min(kind.find_first_of("(=?"), kind.size()));
    facts.attributes[name] = kind;
  }
}

OpFacts read_facts(int32_t id) {
  tw_text* text;
  tw::check(tw_op_describe(id, &text));
  const Json row = Json::parse(tw::take(text));
  OpFacts facts;
  facts.id = id;
  facts.name = row["name"];
  facts.kind = row["kind"];
  facts.accuracy = row["accuracy"];
  facts.gradient = row["gradient"];
  facts.composite = row["composite"];
  for (const Json& operand : row["operands"])
    facts.operands.push_back({operand["name"], operand["variable"], operand["optional"], operand["variadic"],
                              operand["dtypes"].get<std::vector<std::string>>()});
  read_schema(row["attributes"], facts);
  return facts;
}

OperandSpec read_operand(const std::string& text) {
  OperandSpec spec;
  if (text == "-") {
    spec.absent = true;
    return spec;
  }
  const size_t open = text.find('['), close = text.find(']');
  if (open == std::string::npos || close == std::string::npos) throw UsageError("case operand " + text);
  spec.dtype = text.substr(0, open);
  spec.dims = entries(text.substr(open, close - open + 1));
  if (close + 1 < text.size()) spec.fill = text.substr(close + 2);
  return spec;
}

CaseLine read_line(const std::string& text) {
  CaseLine line;
  line.text = text;
  const std::vector<std::string> columns = split(text, ';');
  line.op = columns[0];
  std::stringstream operands(columns.size() > 1 ? columns[1] : "");
  std::string word;
  while (operands >> word) line.operands.push_back(read_operand(word));
  std::stringstream attributes(columns.size() > 2 ? columns[2] : "");
  while (attributes >> word) {
    const size_t equals = word.find('=');
    line.attributes[word.substr(0, equals)] = word.substr(equals + 1);
  }
  return line;
}

void read_lines(const char* text, std::vector<CaseLine>& lines) {
  std::stringstream stream(text);
  std::string line;
  while (std::getline(stream, line))
    if (!trimmed(line).empty() && line[0] != '#') lines.push_back(read_line(line));
}

// Whether an op is one function of operands of one shape.
bool is_pointwise(const OpFacts& facts) {
  return facts.kind == "elementwise" && !facts.has_required_attributes && !facts.operands.empty() &&
         facts.name != "select" && facts.name != "clamp" && facts.name != "rope";
}

// Calls of an elementwise op: 0-d, empty, prime, symbolic, special values.
void add_elementwise(const OpFacts& facts, std::vector<CaseLine>& lines) {
  const auto add = [&](const std::string& shape) {
    std::string text = facts.name + " ;";
    for (const OpFacts::Operand& operand : facts.operands)
      text += " " + (operand.variable.empty() ? operand.dtypes[0] : std::string("T")) + shape;
    lines.push_back(read_line(text + " ;"));
  };
  for (const char* shape : {"[]", "[N,7]", "[61]:special", "[3,0]", "[1031]:wide", "[127]"}) add(shape);
}

// The first line of each op that moves, chooses or reduces once more, with zeros of both signs, infinities,
// NaN and subnormals: they obey no formula but the op's own.
void add_edges(std::vector<CaseLine>& lines) {
  std::map<std::string, bool> seen;
  std::vector<CaseLine> edges;
  for (const CaseLine& line : lines) {
    const OpFacts& facts = op_facts().at(line.op);
    const bool moves = facts.kind == "movement" || facts.kind == "indexing" || facts.kind == "sorting" ||
                       facts.kind == "marker";
    const bool reduces = facts.kind == "reduction" || facts.kind == "scan" || facts.kind == "window" ||
                         facts.kind == "contraction";
    if ((!moves && (!reduces || facts.composite)) || seen[line.op]) continue;
    std::string text = line.text;
    for (size_t at = text.find(']'); at != std::string::npos && at < text.rfind(';');
         at = text.find(']', at + 1)) {
      const size_t start = text.find_last_of(' ', at) + 1;
      const bool plain = text.size() == at + 1 || text[at + 1] != ':';
      if (plain && text[start] == 'T' && start > text.find(';')) text.insert(at + 1, ":edges");
    }
    // An expansion's sum in another order than its reference loses a subnormal beside a cancelling pair.
    // A product in f32 underflows, before an infinity, where the double of its reference does not.
    // Threads that share a recurrence multiply its coefficients first, where infinity may meet zero.
    const bool loses_range = (facts.composite && facts.accuracy != "exact") ||
                             line.op.ends_with("_product") || line.op == "linear_recurrence";
    if (text == line.text || loses_range) continue;
    seen[line.op] = true;
    edges.push_back(read_line(text));
  }
  lines.insert(lines.end(), edges.begin(), edges.end());
}

const char* const kQuick[] = {"bool", "i8", "i32", "u64", "bf16", "f32"};

bool contains(const std::vector<std::string>& list, const std::string& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

// What T may be: the variables of the operands that are spelled T.
std::vector<std::string> dtypes_of_t(const CaseLine& line, const OpFacts& facts) {
  std::vector<std::string> common;
  bool first = true;
  for (size_t at = 0; at < line.operands.size(); ++at) {
    if (line.operands[at].absent || (line.operands[at].dtype != "T" && line.operands[at].dtype != "F"))
      continue;
    // A variadic operand takes what the others leave; all of its dtypes are those of its row.
    size_t row = std::min(at, facts.operands.size() - 1);
    for (size_t before = 0; before < facts.operands.size() && before < at; ++before)
      if (facts.operands[before].variadic) row = before;
    const std::vector<std::string>& own = facts.operands[row].dtypes;
    if (first)
      common = own;
    else
      std::erase_if(common, [&](const std::string& name) { return !contains(own, name); });
    first = false;
  }
  return common;
}

bool uses(const CaseLine& line, const std::string& dtype) {
  for (const OperandSpec& operand : line.operands)
    if (!operand.absent && operand.dtype == dtype) return true;
  for (const auto& [name, value] : line.attributes)
    if (value == dtype) return true;
  return false;
}

tw::DType find_dtype(const std::string& name) {
  int32_t dtype;
  tw::check(tw_dtype_find(name.c_str(), &dtype));
  return static_cast<tw::DType>(dtype);
}

std::vector<std::string> all_dtypes() {
  std::vector<std::string> names;
  for (int32_t dtype = 0; tw_dtype_name(dtype); ++dtype) names.push_back(tw_dtype_name(dtype));
  return names;
}

tw::Dim parse_dim(const tw::Graph& graph, const std::string& text) {
  tw_dim dim;
  tw::check(tw_graph_dim_parse(graph.get(), text.c_str(), &dim));
  return tw::Dim(graph.get(), dim);
}

tw::Shape parse_shape(const tw::Graph& graph, const std::vector<std::string>& dims) {
  tw::Shape shape;
  for (const std::string& dim : dims) shape.push_back(parse_dim(graph, dim));
  return shape;
}

tw::Attribute read_attribute(const Instance& instance, const tw::Graph& graph, const std::string& name,
                             const std::string& kind, const std::string& value) {
  const char* key = name.c_str();
  if (kind == "bool") return tw::Attribute(key, value == "true");
  if (kind == "int")
    return tw::Attribute(key, static_cast<int64_t>(std::strtoll(value.c_str(), nullptr, 10)));
  if (kind == "float") return tw::Attribute(key, std::strtod(value.c_str(), nullptr));
  if (kind == "dtype") return tw::Attribute(key, instance.dtype_of(value));
  if (kind == "ints") {
    tw::Sizes list;
    for (const std::string& entry : entries(value)) list.push_back(std::strtoll(entry.c_str(), nullptr, 10));
    return tw::Attribute(key, std::move(list));
  }
  if (kind == "dims") return tw::Attribute(key, parse_shape(graph, entries(value)));
  return tw::Attribute(key, value);
}

}  // namespace

const std::map<std::string, OpFacts>& op_facts() {
  static const auto* facts = [] {
    auto* made = new std::map<std::string, OpFacts>;
    for (int64_t index = 0; index < tw_op_count(); ++index) {
      OpFacts row = read_facts(tw_op_id(index));
      made->emplace(row.name, std::move(row));
    }
    return made;
  }();
  return *facts;
}

std::string embedded_graphs() { return kGraphs; }

std::vector<CaseLine> all_case_lines() {
  std::vector<CaseLine> lines;
  for (int64_t index = 0; index < tw_op_count(); ++index) {
    const OpFacts& facts = op_facts().at(tw_op_name(tw_op_id(index)));
    if (is_pointwise(facts)) add_elementwise(facts, lines);
  }
  read_lines(kCases, lines);
  read_lines(kComposites, lines);
  add_edges(lines);
  return lines;
}

std::vector<Instance> instances_of(const CaseLine& line, bool quick, const std::vector<std::string>& only) {
  const OpFacts& facts = op_facts().at(line.op);
  const bool has_t = uses(line, "T") || uses(line, "F"), has_d = uses(line, "D") || uses(line, "E");
  std::vector<std::string> t_names = has_t ? dtypes_of_t(line, facts) : std::vector<std::string>{"f32"};
  const auto has_no_arithmetic = [](const std::string& name) {
    return name == "bool" || name.rfind("f8", 0) == 0;
  };
  if (uses(line, "F"))
    std::erase_if(t_names, [&](const std::string& name) {
      return has_no_arithmetic(name) || !is_float(find_dtype(name));
    });
  const auto unwanted = [&](const std::string& name) {
    if (!only.empty()) return !contains(only, name);
    return quick && std::find(std::begin(kQuick), std::end(kQuick), name) == std::end(kQuick);
  };
  if (has_t) std::erase_if(t_names, unwanted);
  std::vector<std::string> d_names = has_d ? all_dtypes() : std::vector<std::string>{"f32"};
  if (uses(line, "E")) std::erase_if(d_names, has_no_arithmetic);
  if (has_d && quick) std::erase_if(d_names, unwanted);
  std::vector<Instance> instances;
  int turn = 0;
  for (const std::string& t : t_names) {
    for (const std::string& d : d_names) {
      Instance instance;
      instance.line = &line;
      instance.dtypes['T'] = instance.dtypes['F'] = find_dtype(t);
      instance.dtypes['D'] = instance.dtypes['E'] = find_dtype(d);
      instance.dtypes['W'] = t == "f64" ? tw::f64 : tw::f32;
      // Both index types, without doubling the cases.
      instance.dtypes['I'] = turn++ % 2 ? tw::i64 : tw::i32;
      instances.push_back(instance);
      if (uses(line, "I") && t_names.size() * d_names.size() == 1) {
        instance.dtypes['I'] = tw::i64;
        instances.push_back(instance);
      }
    }
  }
  return instances;
}

tw::DType Instance::dtype_of(const std::string& spelled) const {
  if (spelled.size() == 1 && dtypes.count(spelled[0])) return dtypes.at(spelled[0]);
  return find_dtype(spelled);
}

std::string Instance::name() const {
  std::string text = trimmed(line->text);
  for (const auto& [letter, dtype] : dtypes)
    if (uses(*line, std::string(1, letter))) text += std::string(" ") + letter + "=" + tw_dtype_name(dtype);
  return text;
}

bool is_symbolic(const CaseLine& line) { return line.text.find('N') != std::string::npos; }

bool has_special_values(const CaseLine& line) {
  for (const OperandSpec& operand : line.operands)
    for (const char* fill : {"special", "wide", "edges", "inf", "masked_rows"})
      if (operand.fill.find(fill) != std::string::npos) return true;
  return false;
}

tw::Graph build_graph(const Instance& instance) {
  const OpFacts& facts = op_facts().at(instance.line->op);
  tw::Graph graph(facts.name.c_str());
  if (is_symbolic(*instance.line)) graph.symbol("N", 0, 4096);
  std::vector<tw::Value> operands;
  for (const OperandSpec& operand : instance.line->operands) {
    if (operand.absent)
      operands.emplace_back();
    else
      operands.push_back(
          graph.input(nullptr, instance.dtype_of(operand.dtype), parse_shape(graph, operand.dims)));
  }
  tw::Attributes attributes;
  for (const auto& [name, value] : instance.line->attributes) {
    const auto kind = facts.attributes.find(name);
    attributes.push_back(read_attribute(instance, graph, name,
                                        kind == facts.attributes.end() ? "string" : kind->second, value));
  }
  for (const tw::Value& result : graph.ops(facts.id, operands, attributes)) graph.output(result);
  return graph;
}

}  // namespace command
