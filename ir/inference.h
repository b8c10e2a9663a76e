// Checks a node against its row of the op table and infers its result types, over symbolic dims.
#pragma once

#include <span>

#include "ir/graph.h"

namespace tilewright {

// What an inference rule sees: operand types (null when absent), attributes with defaults, regions, symbols.
struct NodeView {
  Op op;
  std::span<const TensorType* const> operands;
  const AttributeMap& attributes;
  std::span<const RegionRef> regions;
  std::span<const Symbol> symbols;

  const TensorType& operand(int index) const { return *operands[index]; }
  bool has_operand(int index) const {
    return index < static_cast<int>(operands.size()) && operands[index] != nullptr;
  }
};

// Attribute access by name; a missing optional attribute or wrong kind cannot happen after check_attributes.
// `find_attribute` returns the explicit value, else the default of the table, else null.
const Attribute* find_attribute(Op op, const AttributeMap& attributes, std::string_view name);

// Typed reads with the default of the table applied; asking for an absent one returns the zero value.
class AttributeReader {
 public:
  AttributeReader(Op op, const AttributeMap& attributes) : op_(op), attributes_(attributes) {}
  bool has(std::string_view name) const { return find_attribute(op_, attributes_, name) != nullptr; }
  bool get_bool(std::string_view name) const;
  int64_t get_int(std::string_view name) const;
  double get_float(std::string_view name) const;
  const std::string& get_string(std::string_view name) const;  // strings and enum words
  DType get_dtype(std::string_view name, DType fallback) const;
  const Ints& get_ints(std::string_view name) const;
  const Shape& get_dims(std::string_view name) const;
  const Types& get_types(std::string_view name) const;
  ConstantRef get_constant(std::string_view name) const;
  const AttributeMap& map() const { return attributes_; }

 private:
  Op op_;
  const AttributeMap& attributes_;
};

// Arity, dtype classes, dtype equality, attribute names, kinds and choices, number of regions; then the row's
// rule.
Result<Types> infer_types(const NodeView& view);

// Attribute schema only: unknown, missing, wrong kind, wrong choice.
Status check_attributes(Op op, const AttributeMap& attributes);
// Removes attributes equal to their defaults and sorts out int/float/dims spellings (ints given for dims
// become dims).
Status normalize_attributes(Op op, AttributeMap& attributes);

// One function a rule; rows name them.  (infer/*.cpp)
#define OP(name, Enum, id, operands, results, types, attributes, infer, ...) \
  Result<Types> infer_##infer(const NodeView& view);
#define COMPOSITE OP
#include "ir/ops.def"
#undef OP
#undef COMPOSITE

}  // namespace tilewright
