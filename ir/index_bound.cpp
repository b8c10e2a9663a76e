// Walks from a value to the ops that take it as an index.
#include "ir/index_bound.h"

#include <vector>

#include "ir/inference.h"

namespace tilewright {
namespace {

void lower_to(std::optional<Dim>& bound, const Dim& size) { bound = bound ? Dim::min(*bound, size) : size; }

class BoundFinder {
 public:
  explicit BoundFinder(const Graph& graph) : graph_(graph), carries_(graph.value_count(), false) {}

  std::optional<Dim> run(ValueId value) {
    carries_[value.index] = true;
    // Nodes stand behind their operands.
    for (const Node& node : graph_.nodes())
      for (size_t at = 0; at < node.operands.size(); ++at)
        if (node.operands[at].is_valid() && carries_[node.operands[at].index])
          visit(node, static_cast<int>(at));
    return std::move(bound_);
  }

 private:
  void visit(const Node& node, int operand) {
    const AttributeReader attributes(node.op, node.attributes);
    switch (node.op) {
      case Op::Reshape:
      case Op::Transpose:
      case Op::BroadcastInDim:
      case Op::Slice:
      case Op::Convert:
      case Op::StopGradient: carries_[node.results[0].index] = true; return;
      case Op::Gather:
        if (operand == 1)
          chosen(node, attributes.get_ints("start_index_map"), attributes.get_dims("slice_sizes"));
        return;
      case Op::Scatter:
        if (operand == 1) chosen(node, attributes.get_ints("scatter_map"), {});
        return;
      case Op::GatherElements:
      case Op::ScatterElements:
        if (operand == 1) lower_to(bound_, size(node, 0, attributes.get_int("dim")));
        return;
      case Op::Histogram:
        if (operand == 0) lower_to(bound_, attributes.get_int("bins"));
        return;
      case Op::Case:
        if (operand == 0) lower_to(bound_, static_cast<int64_t>(node.regions.size()));
        return;
      case Op::MoeDispatch:
        if (operand == 1) lower_to(bound_, attributes.get_int("num_experts"));
        return;
      case Op::Embedding:
        if (operand == 1) lower_to(bound_, size(node, 0, 0));
        return;
      case Op::EmbeddingGrad:
        if (operand == 1) lower_to(bound_, attributes.get_dims("rows").at(0));
        return;
      case Op::EmbeddingBag:
        if (operand == 1) lower_to(bound_, size(node, 0, 0));
        if (operand == 2) lower_to(bound_, 1);  // offsets begin at 0 and never fall: zeros fit
        return;
      case Op::EmbeddingBagGrad:
        if (operand == 1) lower_to(bound_, attributes.get_dims("rows").at(0));
        if (operand == 2) lower_to(bound_, 1);
        return;
      case Op::EmbeddingBagWeightsGrad:
        if (operand == 2) lower_to(bound_, size(node, 1, 0));
        if (operand == 3) lower_to(bound_, 1);
        return;
      case Op::CrossEntropy:
        if (operand == 1) lower_to(bound_, size(node, 0, 1));
        return;
      case Op::CrossEntropyGrad:
        if (operand == 2) lower_to(bound_, size(node, 1, 1));
        return;
      case Op::LinearCrossEntropy:
        if (operand == 2) lower_to(bound_, size(node, 1, 0));
        return;
      case Op::LinearCrossEntropyGrad:
        if (operand == 3) lower_to(bound_, size(node, 2, 0));
        return;
      default: return;  // all other ops take numbers, not places
    }
  }

  Dim size(const Node& node, int operand, int64_t dim) const {
    return graph_.type(node.operands[static_cast<size_t>(operand)]).shape[static_cast<size_t>(dim)];
  }

  // An index vector has a component for each of `dims`; a slice must fit behind it.
  void chosen(const Node& node, const Ints& dims, const Shape& slice) {
    for (int64_t dim : dims)
      lower_to(bound_, slice.empty() ? size(node, 0, dim)
                                     : size(node, 0, dim) - slice[static_cast<size_t>(dim)] + Dim(1));
  }

  const Graph& graph_;
  std::vector<bool> carries_;
  std::optional<Dim> bound_;
};

}  // namespace

std::optional<Dim> index_bound(const Graph& graph, ValueId value) { return BoundFinder(graph).run(value); }

}  // namespace tilewright
