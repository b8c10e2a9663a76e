// Evaluates nodes on small constants with the reference kernels' own evaluator.
#include "codegen/passes/rewrite.h"
#include "ir/inference.h"
#include "ir/reference/interpreter.h"
#include "ir/reference/scalar.h"

namespace tilewright {

namespace {

constexpr int64_t kMaxElements = 64;  // larger results stay computed: a program is no place for data

const Constant* constant_of(const Graph& graph, ValueId value) {
  NodeId node = graph.value(value).node;
  if (!node.is_valid() || graph.node(node).op != Op::Constant) return nullptr;
  return AttributeReader(Op::Constant, graph.node(node).attributes).get_constant("value").get();
}

bool is_foldable(const Node& node) {
  OpKind kind = node.info().kind;
  return kind == OpKind::Elementwise || kind == OpKind::Movement || kind == OpKind::Reduction;
}

// Elementwise nodes on splats give a splat, whatever their shape.
Result<std::optional<ConstantRef>> fold_splats(const Graph& graph, const Node& node,
                                               const std::vector<ValueId>& operands, const Graph& target) {
  if (node.info().kind != OpKind::Elementwise || node.info().composite) return std::optional<ConstantRef>();
  std::vector<Scalar> scalars;
  for (ValueId operand : operands) {
    const Constant* constant = constant_of(target, operand);
    if (!constant || !constant->splat) return std::optional<ConstantRef>();
    scalars.push_back(load_scalar(constant->type.dtype, constant->data));
  }
  Scalar value = evaluate_elementwise(node.op, AttributeReader(node.op, node.attributes), scalars.data(),
                                      static_cast<int>(scalars.size()));
  char bytes[8] = {};
  store_scalar(value, bytes);
  const TensorType& type = graph.type(node.results[0]);
  TW_ASSIGN_OR_RETURN(ConstantRef folded, make_constant(type, true, bytes, dtype_bytes(type.dtype)));
  return std::optional<ConstantRef>(std::move(folded));
}

Result<std::optional<ConstantRef>> fold_small(const Graph& graph, const Node& node,
                                              const std::vector<ValueId>& operands, const Graph& target) {
  const TensorType& type = graph.type(node.results[0]);
  if (node.results.size() != 1 || !type.is_static() || type.elements().constant() > kMaxElements)
    return std::optional<ConstantRef>();
  std::vector<OwnedTensor> inputs;
  std::vector<const TensorRef*> refs;
  for (ValueId operand : operands) {
    const Constant* constant = operand.is_valid() ? constant_of(target, operand) : nullptr;
    if (!constant || !constant->type.is_static() || constant->type.elements().constant() > kMaxElements) {
      return std::optional<ConstantRef>();
    }
    inputs.push_back(allocate_tensor(constant->type.dtype, static_sizes(constant->type.shape)));
    int64_t width = dtype_bytes(constant->type.dtype);
    for (int64_t i = 0; i < inputs.back().ref.elements(); ++i) {
      const char* from = static_cast<const char*>(constant->data) + (constant->splat ? 0 : i * width);
      std::copy(from, from + width, static_cast<char*>(inputs.back().ref.data) + i * width);
    }
  }
  if (inputs.empty()) return std::optional<ConstantRef>();
  for (const OwnedTensor& tensor : inputs) refs.push_back(&tensor.ref);
  std::vector<OwnedTensor> results{allocate_tensor(type.dtype, static_sizes(type.shape))};
  std::vector<TensorRef> outputs{results[0].ref};
  StickyError error;
  Status ran = run_node(graph, node, {}, refs, outputs, error, {});
  if (!ran.is_ok() || error.is_set()) return std::optional<ConstantRef>();  // the run will say what is wrong
  TW_ASSIGN_OR_RETURN(ConstantRef folded, make_constant(type, false, outputs[0].data, outputs[0].bytes()));
  return std::optional<ConstantRef>(std::move(folded));
}

}  // namespace

Result<Graph> fold_constants_pass(const Graph& graph, PassContext& context) {
  return rewrite_nodes(graph,
                       [&](const Node& node, const std::vector<ValueId>& operands,
                           Graph& target) -> Result<std::optional<std::vector<ValueId>>> {
                         if (!is_foldable(node) || operands.empty())
                           return std::optional<std::vector<ValueId>>();
                         TW_ASSIGN_OR_RETURN(std::optional<ConstantRef> folded,
                                             fold_splats(graph, node, operands, target));
                         if (!folded) {
                           TW_ASSIGN_OR_RETURN(folded, fold_small(graph, node, operands, target));
                         }
                         if (!folded || !context.spend()) return std::optional<std::vector<ValueId>>();
                         NodeId constant = target.append_unchecked(Op::Constant, {}, {{"value", *folded}}, {},
                                                                   {graph.type(node.results[0])});
                         return std::optional<std::vector<ValueId>>(target.node(constant).results);
                       });
}

}  // namespace tilewright
