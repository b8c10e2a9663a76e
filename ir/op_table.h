// The op table as data: enum, parsed signatures and attribute schemas of every row of ops.def.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/attribute.h"

namespace tilewright {

// Dense, in row order; the permanent ids are in OpInfo.
enum class Op : uint16_t {
#define OP(name, Enum, ...) Enum,
#define COMPOSITE(name, Enum, ...) Enum,
#include "ir/ops.def"
#undef OP
#undef COMPOSITE
};

enum class OpKind : uint8_t {
  Source,
  Elementwise,
  Movement,
  Reduction,
  Scan,
  Window,
  Contraction,
  Indexing,
  Sorting,
  Control,
  Marker,
  Collective,
  Random,
  Normalization,
  Attention,
  Loss,
  Recurrent,
  Selection,
  Optimizer,
};

enum class Accuracy : uint8_t { Exact, Rounded, Ulp1, Ulp2, Ulp4, Sum, Mixed };

enum class Trait : uint8_t {
  None = 0,
  Commutative = 1,  // operands 0 and 1 may be swapped
  NoCse = 2,        // two equal nodes stay two
  SideEffect = 4,   // never dead, never merged
  Ordered = 8,      // as SideEffect, and keeps its order among ordered ops
};

enum class GradientKind : uint8_t { Zero, Rule, Expansion };

struct OperandInfo {
  std::string name;
  TypeClass types;
  std::string variable;  // operands with the same non-empty variable have the same dtype
  bool optional = false;
  bool variadic = false;
};

struct ResultInfo {
  std::string name;
  bool variadic = false;
};

struct AttributeInfo {
  std::string name;
  AttributeKind kind = AttributeKind::Int;
  bool optional = false;  // may be absent without a default
  std::optional<Attribute> default_value;
  std::vector<std::string> choices;  // Enum
};

struct NodeView;  // ir/inference.h
using InferFunction = Result<Types> (*)(const NodeView&);

struct OpInfo {
  Op op;
  const char* name;
  const char* enumerator;
  int id;
  bool composite;
  std::vector<OperandInfo> operands;
  std::vector<ResultInfo> results;
  std::vector<AttributeInfo> attributes;
  int min_regions = 0;
  int max_regions = 0;
  InferFunction infer;
  OpKind kind;
  Accuracy accuracy;
  Trait traits;
  GradientKind gradient;
  const char* meaning;
  const char* operand_text;  // the columns as written
  const char* result_text;
  const char* type_text;
  const char* attribute_text;

  bool has(Trait trait) const { return (static_cast<int>(traits) & static_cast<int>(trait)) != 0; }
  const AttributeInfo* attribute(std::string_view name) const;
  int min_operands() const;
  int max_operands() const;  // INT_MAX when variadic
  // The schema of operand `index` of `count`; a variadic operand takes what the others leave.
  const OperandInfo& operand_at(int index, int count) const;
};

const OpInfo& op_info(Op op);
std::span<const OpInfo> all_ops();
std::optional<Op> parse_op(std::string_view name);
std::optional<Op> op_from_id(int id);
inline const char* op_name(Op op) { return op_info(op).name; }
const char* kind_name(OpKind kind);
const char* accuracy_name(Accuracy accuracy);

}  // namespace tilewright
