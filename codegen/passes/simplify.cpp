// Value-preserving rewrites: every rule gives the same bits for every input, NaN, infinities and signed zeros
// included.
#include "base/text.h"
#include "codegen/passes/rewrite.h"
#include "ir/inference.h"

namespace tilewright {

namespace {

using Images = std::optional<std::vector<ValueId>>;

bool is_ordered(const Ints& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] != static_cast<int64_t>(i)) return false;
  }
  return true;
}

// The value itself when a movement node moves nothing; `same_type` says that its result has the operand's
// type.
bool is_identity(const Node& node, bool same_type) {
  AttributeReader attributes(node.op, node.attributes);
  if (node.op == Op::Transpose) return is_ordered(attributes.get_ints("perm"));
  if (!same_type || node.operands.size() != 1) return false;
  if (node.op == Op::BroadcastInDim) return is_ordered(attributes.get_ints("dims"));
  return node.op == Op::Reshape || node.op == Op::Slice || node.op == Op::Convert;
}

const Node* producer(const Graph& target, ValueId value, Op op) {
  NodeId node = target.value(value).node;
  return node.is_valid() && target.node(node).op == op ? &target.node(node) : nullptr;
}

bool is_splat_of(const Graph& target, ValueId value, double number) {
  const Node* node = producer(target, value, Op::Constant);
  if (!node) return false;
  ConstantRef constant = AttributeReader(Op::Constant, node->attributes).get_constant("value");
  return constant->splat && element_as_double(*constant, 0) == number;
}

// x * 1 and x / 1 are x bit for bit; x + 0 is not (-0 + 0 = 0), but x - 0 is.
std::optional<ValueId> drop_neutral(const Node& node, const std::vector<ValueId>& operands,
                                    const Graph& target) {
  if (node.op == Op::Multiply && is_splat_of(target, operands[1], 1)) return operands[0];
  if (node.op == Op::Multiply && is_splat_of(target, operands[0], 1)) return operands[1];
  if (node.op == Op::Divide && is_splat_of(target, operands[1], 1)) return operands[0];
  return std::nullopt;
}

// transpose(transpose(x)) as one, reshape(reshape(x)) as one.
std::optional<ValueId> join_chain(const Node& node, const std::vector<ValueId>& operands, Graph& target,
                                  const TensorType& type) {
  if (node.op == Op::Reshape) {
    const Node* inner = producer(target, operands[0], Op::Reshape);
    if (!inner) return std::nullopt;
    ValueId source = inner->operands[0];
    if (target.type(source) == type) return source;
    return target.result(target.append_unchecked(Op::Reshape, {source}, node.attributes, {}, {type}));
  }
  if (node.op == Op::Transpose) {
    const Node* inner = producer(target, operands[0], Op::Transpose);
    if (!inner) return std::nullopt;
    const Ints& outer_perm = AttributeReader(node.op, node.attributes).get_ints("perm");
    const Ints& inner_perm = AttributeReader(inner->op, inner->attributes).get_ints("perm");
    Ints joined;
    for (int64_t dim : outer_perm) joined.push_back(inner_perm[dim]);
    ValueId source = inner->operands[0];
    if (is_ordered(joined)) return source;
    return target.result(target.append_unchecked(Op::Transpose, {source}, {{"perm", joined}}, {}, {type}));
  }
  return std::nullopt;
}

}  // namespace

Result<Graph> simplify_pass(const Graph& graph, PassContext& context) {
  return rewrite_nodes(
      graph, [&](const Node& node, const std::vector<ValueId>& operands, Graph& target) -> Result<Images> {
        if (node.results.size() != 1 || operands.empty() || !operands[0].is_valid()) return Images();
        const TensorType& type = graph.type(node.results[0]);
        bool same_type = target.type(operands[0]) == type;
        std::optional<ValueId> image;
        if (is_identity(node, same_type)) image = operands[0];
        if (!image) image = drop_neutral(node, operands, target);
        if (!image) image = join_chain(node, operands, target, type);
        if (!image || !context.spend()) return Images();
        return Images({*image});
      });
}

}  // namespace tilewright
