// Parses the columns of ops.def once into OpInfo records.
#include "ir/op_table.h"

#include <climits>
#include <unordered_map>

#include "base/text.h"
#include "ir/inference.h"

namespace tilewright {

namespace {

struct Row {
  Op op;
  const char *name, *enumerator;
  int id;
  bool composite;
  const char *operands, *results, *types, *attributes;
  InferFunction infer;
  OpKind kind;
  Accuracy accuracy;
  Trait traits;
  GradientKind gradient;
  const char* meaning;
};

constexpr Row kRows[] = {
#define TW_ROW(composite, name, Enum, id, operands, results, types, attributes, infer, kind, accuracy, \
               traits, gradient, meaning)                                                              \
  {Op::Enum,      #name,                                                                               \
   #Enum,         id,                                                                                  \
   composite,     operands,                                                                            \
   results,       types,                                                                               \
   attributes,    &infer_##infer,                                                                      \
   OpKind::kind,  Accuracy::accuracy,                                                                  \
   Trait::traits, GradientKind::gradient,                                                              \
   meaning},
#define OP(...) TW_ROW(false, __VA_ARGS__)
#define COMPOSITE(...) TW_ROW(true, __VA_ARGS__)
#include "ir/ops.def"
#undef OP
#undef COMPOSITE
#undef TW_ROW
};

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  size_t at = 0;
  while (at < text.size()) {
    size_t end = text.find(separator, at);
    if (end == std::string_view::npos) end = text.size();
    if (end > at) parts.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

// Takes a trailing '?' or '*' off a name.
bool take_suffix(std::string& name, char suffix) {
  if (name.empty() || name.back() != suffix) return false;
  name.pop_back();
  return true;
}

std::vector<OperandInfo> parse_operands(const Row& row) {
  std::vector<std::pair<std::string, std::string>> variables;
  for (const std::string& part : split(row.types, ' ')) {
    size_t equals = part.find('=');
    variables.emplace_back(part.substr(0, equals), part.substr(equals + 1));
  }
  std::vector<OperandInfo> operands;
  for (const std::string& part : split(row.operands, ' ')) {
    size_t colon = part.find(':');
    OperandInfo operand;
    operand.name = part.substr(0, colon);
    operand.optional = take_suffix(operand.name, '?');
    operand.variadic = take_suffix(operand.name, '*');
    std::string type = part.substr(colon + 1);
    for (const auto& [variable, type_class] : variables) {
      if (variable == type) {
        operand.variable = variable;
        type = type_class;
        break;
      }
    }
    operand.types = parse_type_class(type).value_or(TypeClass{});
    operands.push_back(std::move(operand));
  }
  return operands;
}

std::vector<ResultInfo> parse_results(const Row& row) {
  std::vector<ResultInfo> results;
  for (std::string name : split(row.results, ' ')) {
    bool variadic = take_suffix(name, '*');
    results.push_back({std::move(name), variadic});
  }
  return results;
}

AttributeKind parse_kind(std::string_view kind) {
  if (kind == "bool") return AttributeKind::Bool;
  if (kind == "float") return AttributeKind::Float;
  if (kind == "string") return AttributeKind::String;
  if (kind == "dtype") return AttributeKind::DType;
  if (kind == "ints") return AttributeKind::Ints;
  if (kind == "floats") return AttributeKind::Floats;
  if (kind == "dims") return AttributeKind::Dims;
  if (kind == "types") return AttributeKind::Types;
  if (kind == "constant") return AttributeKind::Constant;
  if (kind.starts_with("enum(")) return AttributeKind::Enum;
  return AttributeKind::Int;
}

std::optional<Attribute> parse_default(AttributeKind kind, const std::string& text) {
  switch (kind) {
    case AttributeKind::Bool: return Attribute(text == "true");
    case AttributeKind::Int: return Attribute(static_cast<int64_t>(std::stoll(text)));
    case AttributeKind::Float: return Attribute(std::stod(text));
    case AttributeKind::String:
    case AttributeKind::Enum: return Attribute(text);
    case AttributeKind::DType: return Attribute(parse_dtype(text).value_or(DType::F32));
    case AttributeKind::Ints: return Attribute(Ints{});
    case AttributeKind::Floats: return Attribute(Floats{});
    case AttributeKind::Dims: return Attribute(Shape{});
    case AttributeKind::Types: return Attribute(Types{});
    case AttributeKind::Constant: return std::nullopt;
  }
  return std::nullopt;
}

void parse_attributes(const Row& row, OpInfo& info) {
  for (const std::string& part : split(row.attributes, ' ')) {
    size_t colon = part.find(':');
    AttributeInfo attribute;
    attribute.name = part.substr(0, colon);
    std::string kind = part.substr(colon + 1);
    if (attribute.name == "regions") {
      info.min_regions = kind == "+" ? 1 : std::stoi(kind);
      info.max_regions = kind == "+" ? INT_MAX : info.min_regions;
      continue;
    }
    size_t search_from = kind.starts_with("enum(") ? kind.find(')') : 0;
    size_t equals = kind.find('=', search_from);
    std::string default_text = equals == std::string::npos ? "" : kind.substr(equals + 1);
    if (equals != std::string::npos) kind.resize(equals);
    attribute.optional = take_suffix(kind, '?');
    attribute.kind = parse_kind(kind);
    if (attribute.kind == AttributeKind::Enum)
      attribute.choices = split(kind.substr(5, kind.size() - 6), '|');
    if (equals != std::string::npos) attribute.default_value = parse_default(attribute.kind, default_text);
    info.attributes.push_back(std::move(attribute));
  }
}

OpInfo parse_row(const Row& row) {
  OpInfo info{};
  info.op = row.op;
  info.name = row.name;
  info.enumerator = row.enumerator;
  info.id = row.id;
  info.composite = row.composite;
  info.operands = parse_operands(row);
  info.results = parse_results(row);
  parse_attributes(row, info);
  info.infer = row.infer;
  info.kind = row.kind;
  info.accuracy = row.accuracy;
  info.traits = row.traits;
  info.gradient = row.gradient;
  info.meaning = row.meaning;
  info.operand_text = row.operands;
  info.result_text = row.results;
  info.type_text = row.types;
  info.attribute_text = row.attributes;
  return info;
}

struct Table {
  std::vector<OpInfo> rows;
  std::unordered_map<std::string_view, Op> by_name;
  std::unordered_map<int, Op> by_id;
};

const Table& table() {
  static const Table* built = [] {
    auto* fresh = new Table;
    for (const Row& row : kRows) fresh->rows.push_back(parse_row(row));
    for (const OpInfo& info : fresh->rows) {
      fresh->by_name[info.name] = info.op;
      fresh->by_id[info.id] = info.op;
    }
    return fresh;
  }();
  return *built;
}

}  // namespace

const OpInfo& op_info(Op op) { return table().rows[static_cast<size_t>(op)]; }
std::span<const OpInfo> all_ops() { return table().rows; }

std::optional<Op> parse_op(std::string_view name) {
  auto found = table().by_name.find(name);
  return found == table().by_name.end() ? std::nullopt : std::optional<Op>(found->second);
}

std::optional<Op> op_from_id(int id) {
  auto found = table().by_id.find(id);
  return found == table().by_id.end() ? std::nullopt : std::optional<Op>(found->second);
}

const AttributeInfo* OpInfo::attribute(std::string_view wanted) const {
  for (const AttributeInfo& info : attributes) {
    if (info.name == wanted) return &info;
  }
  return nullptr;
}

int OpInfo::min_operands() const {
  int count = 0, last = 0;
  for (const OperandInfo& operand : operands) {
    ++count;
    if (!operand.optional && !operand.variadic) last = count;
  }
  int variadic = 0;  // a variadic operand may be empty: required ones behind it still count
  for (int i = 0; i < last; ++i) variadic += operands[i].variadic;
  return last - variadic;
}

int OpInfo::max_operands() const {
  for (const OperandInfo& operand : operands) {
    if (operand.variadic) return INT_MAX;
  }
  return static_cast<int>(operands.size());
}

const OperandInfo& OpInfo::operand_at(int index, int count) const {
  int declared = static_cast<int>(operands.size());
  int variadic = 0;
  while (variadic < declared && !operands[variadic].variadic) ++variadic;
  if (index < variadic || variadic == declared) return operands[index];
  int behind = declared - variadic - 1;
  if (index >= count - behind) return operands[declared - (count - index)];
  return operands[variadic];
}

const char* kind_name(OpKind kind) {
  switch (kind) {
    case OpKind::Source: return "source";
    case OpKind::Elementwise: return "elementwise";
    case OpKind::Movement: return "movement";
    case OpKind::Reduction: return "reduction";
    case OpKind::Scan: return "scan";
    case OpKind::Window: return "window";
    case OpKind::Contraction: return "contraction";
    case OpKind::Indexing: return "indexing";
    case OpKind::Sorting: return "sorting";
    case OpKind::Control: return "control";
    case OpKind::Marker: return "marker";
    case OpKind::Collective: return "collective";
    case OpKind::Random: return "random";
    case OpKind::Normalization: return "normalization";
    case OpKind::Attention: return "attention";
    case OpKind::Loss: return "loss";
    case OpKind::Recurrent: return "recurrent";
    case OpKind::Selection: return "selection";
    case OpKind::Optimizer: return "optimizer";
  }
  return "unknown";
}

const char* accuracy_name(Accuracy accuracy) {
  switch (accuracy) {
    case Accuracy::Exact: return "exact";
    case Accuracy::Rounded: return "rounded";
    case Accuracy::Ulp1: return "1 ulp";
    case Accuracy::Ulp2: return "2 ulp";
    case Accuracy::Ulp4: return "4 ulp";
    case Accuracy::Sum: return "sum";
    case Accuracy::Mixed: return "mixed";
  }
  return "unknown";
}

}  // namespace tilewright
