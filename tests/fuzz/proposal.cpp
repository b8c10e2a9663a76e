// The general proposal: dtypes by the classes of the row, shapes related to the first operand, attributes by
// kind and name.
#include "tests/fuzz/proposal.h"

#include <algorithm>

#include "base/text.h"

namespace tilewright::fuzz {

Ints random_permutation(Random& random, int rank) {
  Ints order;
  for (int i = 0; i < rank; ++i) order.push_back(i);
  for (int i = rank; i-- > 1;)
    std::swap(order[static_cast<size_t>(i)], order[random.next() % static_cast<size_t>(i + 1)]);
  return order;
}

Ints random_subset(Random& random, int rank, int min_size) {
  Ints all = random_permutation(random, rank);
  int low = std::min(min_size, rank);
  all.resize(static_cast<size_t>(random.integer(low, rank)));
  std::sort(all.begin(), all.end());
  return all;
}

namespace {

// Shapes that ops ask of their other operands, more or less: the same, a part of it, a scalar.
Shape related_shape(Random& random, const Shape& first) {
  Shape shape = first;
  size_t rank = first.size();
  switch (random.next() % 10) {
    case 0: return {};
    case 1:
      if (rank > 0) shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(random.next() % rank));
      return shape;
    case 2: return rank > 0 ? Shape{first[random.next() % rank]} : shape;
    case 3: return rank > 0 ? Shape{first.back()} : shape;
    case 4: return rank > 1 ? Shape(first.begin(), first.end() - 1) : shape;
    case 5: return rank > 1 ? Shape{first[1]} : shape;
    default: return shape;
  }
}

class SchemaProposal {
 public:
  SchemaProposal(const OpInfo& info, Random& random, OperandSource& source)
      : info_(info), random_(random), source_(source) {}

  Proposal make() {
    draw_operands();
    for (const AttributeInfo& schema : info_.attributes) {
      bool may_miss = schema.optional || schema.default_value.has_value();
      if (may_miss && chance(random_, 50)) continue;
      proposal_.attributes.emplace(schema.name, attribute(schema));
    }
    return std::move(proposal_);
  }

 private:
  void draw_operands() {
    std::map<std::string, DType> variables;
    for (const OperandInfo& operand : info_.operands) {
      int64_t copies = operand.variadic ? random_.integer(1, 3) : 1;
      for (int64_t i = 0; i < copies; ++i) {
        if (operand.optional && chance(random_, 40)) {
          proposal_.operands.emplace_back();
          continue;
        }
        DType dtype = pick(random_, operand.types.members());
        if (!operand.variable.empty()) dtype = variables.try_emplace(operand.variable, dtype).first->second;
        proposal_.operands.push_back(draw_operand(dtype));
      }
    }
  }

  ValueId draw_operand(DType dtype) {
    bool first = proposal_.operands.empty() || !proposal_.operands[0].is_valid();
    if (first || chance(random_, 10)) return source_.any_value(dtype);
    return source_.value_of({dtype, related_shape(random_, shape())});
  }

  // Of the first operand.
  Shape shape() const {
    bool none = proposal_.operands.empty() || !proposal_.operands[0].is_valid();
    return none ? Shape{} : source_.graph().type(proposal_.operands[0]).shape;
  }
  int rank() const { return static_cast<int>(shape().size()); }

  Attribute attribute(const AttributeInfo& schema) {
    switch (schema.kind) {
      case AttributeKind::Bool: return chance(random_, 50);
      case AttributeKind::Int: return integer(schema.name);
      case AttributeKind::Float: return pick(random_, std::vector<double>{0.5, 1, 0.25, 0.1, 2, 0, 1e-5});
      case AttributeKind::String: return std::string(chance(random_, 50) ? "text" : "with \"quotes\" and \\");
      case AttributeKind::Enum: return pick(random_, schema.choices);
      case AttributeKind::DType: return static_cast<DType>(random_.next() % kDTypeCount);
      case AttributeKind::Ints: return integers(schema.name);
      case AttributeKind::Floats: return Floats{0.5, 1e300, -0.0};
      case AttributeKind::Dims: return dims(schema.name);
      case AttributeKind::Types: return Types{{DType::F32, shape()}};
      case AttributeKind::Constant:
        return ConstantRef(make_integer_splat(random_.integer(-3, 3), DType::F32, shape()));
    }
    return false;
  }

  int64_t integer(const std::string& name) {
    bool axis = name == "dim" || name == "feature_dim" || name == "index_vector_dim" ||
                name.starts_with("split") || name.starts_with("concat") || name == "dim1" || name == "dim2";
    if (axis && rank() > 0) return random_.integer(0, rank() - 1);
    if (name == "exponent_bits") return random_.integer(2, 8);
    if (name == "mantissa_bits") return random_.integer(0, 20);
    if (name == "bits") return 32 << (random_.next() & 1);
    if (name == "channel" || name == "root") return 0;
    return random_.integer(name == "k" || name == "index" ? -1 : 1, 4);
  }

  Ints integers(const std::string& name) {
    if (name == "perm") return random_permutation(random_, rank());
    if (name == "dims") return random_subset(random_, rank());
    if (name == "group") return {0};
    if (name == "pairs") return {0, 0};
    if (name == "axes") {
      Ints axes;
      for (int64_t i = random_.integer(0, std::max(rank() - 1, 0)); i < rank(); ++i) axes.push_back(i);
      return axes;
    }
    bool spatial = name == "kernel" || name == "size" || name == "pad" || info_.kind == OpKind::Contraction ||
                   info_.name == std::string_view("max_pool2d") ||
                   info_.name == std::string_view("avg_pool2d");
    int64_t low = name.starts_with("pad") ? 0 : name == "shifts" ? -3 : 1;
    Ints values;
    for (int i = 0; i < (spatial ? 2 : rank()); ++i) values.push_back(random_.integer(low, low + 2));
    return values;
  }

  Shape dims(const std::string& name) {
    bool whole = name == "shape" || name == "size" || name == "sizes" || name == "slice_sizes";
    if (!whole || !chance(random_, 50)) {
      Shape fresh;
      int64_t count = name == "start" || name == "length" || name == "rows" ? 1 : random_.integer(0, 3);
      for (int64_t i = 0; i < count; ++i) fresh.push_back(source_.random_dim());
      return fresh;
    }
    return shape();
  }

  const OpInfo& info_;
  Random& random_;
  OperandSource& source_;
  Proposal proposal_;
};

}  // namespace

Proposal propose(const OpInfo& info, Random& random, OperandSource& source) {
  Proposal proposal;
  if (propose_special(info, random, source, proposal)) return proposal;
  return SchemaProposal(info, random, source).make();
}

}  // namespace tilewright::fuzz
