// The checks every node goes through before its own inference rule: arity, dtypes, attributes, regions.
#include "ir/inference.h"

#include <algorithm>

#include "base/text.h"
#include "ir/conditions.h"

namespace tilewright {

const Attribute* find_attribute(Op op, const AttributeMap& attributes, std::string_view name) {
  auto found = attributes.find(name);
  if (found != attributes.end()) return &found->second;
  const AttributeInfo* info = op_info(op).attribute(name);
  return info && info->default_value ? &*info->default_value : nullptr;
}

template <class T>
static const T& read_attribute(Op op, const AttributeMap& attributes, std::string_view name) {
  static const T* zero = new T();
  const Attribute* attribute = find_attribute(op, attributes, name);
  const T* value = attribute ? std::get_if<T>(attribute) : nullptr;
  return value ? *value : *zero;
}

bool AttributeReader::get_bool(std::string_view name) const {
  return read_attribute<bool>(op_, attributes_, name);
}
int64_t AttributeReader::get_int(std::string_view name) const {
  return read_attribute<int64_t>(op_, attributes_, name);
}
double AttributeReader::get_float(std::string_view name) const {
  return read_attribute<double>(op_, attributes_, name);
}
const std::string& AttributeReader::get_string(std::string_view name) const {
  return read_attribute<std::string>(op_, attributes_, name);
}
DType AttributeReader::get_dtype(std::string_view name, DType fallback) const {
  return has(name) ? read_attribute<DType>(op_, attributes_, name) : fallback;
}
const Ints& AttributeReader::get_ints(std::string_view name) const {
  return read_attribute<Ints>(op_, attributes_, name);
}
const Shape& AttributeReader::get_dims(std::string_view name) const {
  return read_attribute<Shape>(op_, attributes_, name);
}
const Types& AttributeReader::get_types(std::string_view name) const {
  return read_attribute<Types>(op_, attributes_, name);
}
ConstantRef AttributeReader::get_constant(std::string_view name) const {
  return read_attribute<ConstantRef>(op_, attributes_, name);
}

static const char* attribute_kind_name(AttributeKind kind) {
  switch (kind) {
    case AttributeKind::Bool: return "a bool";
    case AttributeKind::Int: return "an integer";
    case AttributeKind::Float: return "a float";
    case AttributeKind::String: return "a string";
    case AttributeKind::Enum: return "a word";
    case AttributeKind::DType: return "a dtype";
    case AttributeKind::Ints: return "a list of integers";
    case AttributeKind::Floats: return "a list of floats";
    case AttributeKind::Dims: return "a list of dims";
    case AttributeKind::Types: return "a list of types";
    case AttributeKind::Constant: return "a constant";
  }
  return "a value";
}

static bool holds_kind(AttributeKind kind, const Attribute& value) {
  switch (kind) {
    case AttributeKind::Bool: return std::holds_alternative<bool>(value);
    case AttributeKind::Int: return std::holds_alternative<int64_t>(value);
    case AttributeKind::Float: return std::holds_alternative<double>(value);
    case AttributeKind::String:
    case AttributeKind::Enum: return std::holds_alternative<std::string>(value);
    case AttributeKind::DType: return std::holds_alternative<DType>(value);
    case AttributeKind::Ints: return std::holds_alternative<Ints>(value);
    case AttributeKind::Floats: return std::holds_alternative<Floats>(value);
    case AttributeKind::Dims: return std::holds_alternative<Shape>(value);
    case AttributeKind::Types: return std::holds_alternative<Types>(value);
    case AttributeKind::Constant: {
      const auto* constant = std::get_if<ConstantRef>(&value);
      return constant && *constant;
    }
  }
  return false;
}

Status check_attributes(Op op, const AttributeMap& attributes) {
  const OpInfo& info = op_info(op);
  for (const auto& [name, value] : attributes) {
    const AttributeInfo* schema = info.attribute(name);
    if (!schema) {
      std::string known = join(info.attributes, ", ", [](const AttributeInfo& known) { return known.name; });
      return Status::invalid(
          cat("unknown attribute `", name, "`, expected one of: ", known.empty() ? "none" : known));
    }
    if (!holds_kind(schema->kind, value)) {
      return Status::invalid(
          cat("attribute `", name, "` has the wrong kind, expected ", attribute_kind_name(schema->kind)));
    }
    if (schema->kind == AttributeKind::Enum) {
      const std::string& word = std::get<std::string>(value);
      if (std::find(schema->choices.begin(), schema->choices.end(), word) == schema->choices.end()) {
        return Status::invalid(
            cat("attribute `", name, "` is `", word, "`, expected one of: ", join(schema->choices, ", ")));
      }
    }
    if (schema->kind == AttributeKind::Dims) {
      for (const Dim& dim : std::get<Shape>(value)) {
        if (!dim.is_valid()) return Status::invalid(cat("attribute `", name, "`: a dim overflows 64 bits"));
      }
    }
  }
  for (const AttributeInfo& schema : info.attributes) {
    if (schema.optional || schema.default_value || attributes.count(schema.name)) continue;
    return Status::invalid(
        cat("attribute `", schema.name, "` is missing, expected ", attribute_kind_name(schema.kind)));
  }
  return Status::ok();
}

Status normalize_attributes(Op op, AttributeMap& attributes) {
  const OpInfo& info = op_info(op);
  for (auto& [name, value] : attributes) {
    const AttributeInfo* schema = info.attribute(name);
    if (!schema) continue;  // check_attributes names it
    if (schema->kind == AttributeKind::Dims && std::holds_alternative<Ints>(value)) {
      Shape dims = to_shape(std::get<Ints>(value));
      value = std::move(dims);
    } else if (schema->kind == AttributeKind::Float && std::holds_alternative<int64_t>(value)) {
      double number = static_cast<double>(std::get<int64_t>(value));
      value = number;
    } else if (schema->kind == AttributeKind::Ints && std::holds_alternative<Shape>(value) &&
               is_static(std::get<Shape>(value))) {
      Ints numbers = static_sizes(std::get<Shape>(value));
      value = std::move(numbers);
    }
  }
  TW_RETURN_IF_ERROR(check_attributes(op, attributes));
  std::erase_if(attributes, [&](const auto& entry) {
    const AttributeInfo* schema = info.attribute(entry.first);
    return schema->default_value && equal(*schema->default_value, entry.second);
  });
  return Status::ok();
}

static std::string class_text(const OperandInfo& schema) {
  return join(schema.types.members(), " ", [](DType dtype) { return dtype_name(dtype); });
}

static Status check_operands(const NodeView& view) {
  const OpInfo& info = op_info(view.op);
  int count = static_cast<int>(view.operands.size());
  if (count < info.min_operands() || count > info.max_operands()) {
    std::string expected = info.max_operands() == info.min_operands() ? cat(info.min_operands())
                           : info.max_operands() == INT32_MAX
                               ? cat("at least ", info.min_operands())
                               : cat(info.min_operands(), " to ", info.max_operands());
    return Status::invalid(
        cat("found ", count, " operands, expected ", expected, " (", info.operand_text, ")"));
  }
  std::map<std::string, std::pair<std::string, DType>> variables;
  for (int i = 0; i < count; ++i) {
    const OperandInfo& schema = info.operand_at(i, count);
    const TensorType* type = view.operands[i];
    if (!type) {
      if (schema.optional) continue;
      return Status::invalid(cat("operand ", i, " `", schema.name, "` is absent, expected a value"));
    }
    if (!schema.types.contains(type->dtype)) {
      return Status::invalid(cat("operand ", i, " `", schema.name, "` has dtype ", dtype_name(type->dtype),
                                 ", expected one of: ", class_text(schema)));
    }
    for (const Dim& dim : type->shape) {
      if (!dim.is_valid())
        return Status::invalid(cat("operand ", i, " `", schema.name, "`: a dim overflows 64 bits"));
    }
    if (schema.variable.empty()) continue;
    auto [seen, fresh] = variables.try_emplace(schema.variable, schema.name, type->dtype);
    if (!fresh && seen->second.second != type->dtype) {
      return Status::invalid(cat("operand ", i, " `", schema.name, "` has dtype ", dtype_name(type->dtype),
                                 ", expected ", dtype_name(seen->second.second), " as `", seen->second.first,
                                 "`"));
    }
  }
  return Status::ok();
}

// A shape whose size or element count is negative or overflows is refused where it is made.
static Status check_result(const TensorType& type, std::span<const Symbol> symbols) {
  std::vector<Symbol> known(symbols.begin(), symbols.end());
  for (const Dim& dim : type.shape) {
    if (!dim.is_valid()) return Status::invalid("a result dim overflows 64 bits");
    if (dim.range(known).max < 0)
      return Status::invalid(cat("result type ", type.to_string(), " has a negative dim"));
    require_at_most(Dim(0), dim, symbols, "least size of result dim", &dim - type.shape.data());
  }
  if (!type.elements().is_valid())
    return Status::invalid(cat("result type ", type.to_string(), " has too many elements"));
  if (type.is_static()) {
    int64_t bytes;
    if (__builtin_mul_overflow(type.elements().constant(), dtype_bytes(type.dtype), &bytes)) {
      return Status::invalid(cat("result type ", type.to_string(), " has too many bytes"));
    }
  }
  return Status::ok();
}

Result<Types> infer_types(const NodeView& view) {
  const OpInfo& info = op_info(view.op);
  TW_RETURN_IF_ERROR(check_operands(view));
  TW_RETURN_IF_ERROR(check_attributes(view.op, view.attributes));
  int regions = static_cast<int>(view.regions.size());
  if (regions < info.min_regions || regions > info.max_regions) {
    return Status::invalid(cat("found ", regions, " regions, expected ", info.min_regions,
                               info.max_regions > info.min_regions ? " or more" : ""));
  }
  for (const RegionRef& region : view.regions) {
    if (!region) return Status::invalid("a region is missing");
  }
  TW_ASSIGN_OR_RETURN(Types types, info.infer(view));
  for (const TensorType& type : types) TW_RETURN_IF_ERROR(check_result(type, view.symbols));
  return types;
}

}  // namespace tilewright
