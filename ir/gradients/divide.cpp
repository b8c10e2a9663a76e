// Division of a joint graph into what is saved and what is computed again.
#include "ir/gradients/divide.h"

#include <algorithm>

#include "ir/gradients/minimum_cut.h"
#include "ir/inference.h"

namespace tilewright::gradients {

namespace {

// A value is computed again from saved ones through at most this many ops, so that a backward pass never
// repeats a whole network to get its last layer.
constexpr int kLongestChain = 24;

bool is_cheap(const Node& node) {
  OpKind kind = node.info().kind;
  return node.regions.empty() && !node.operands.empty() &&
         (kind == OpKind::Elementwise || (kind == OpKind::Movement && !node.info().composite));
}

class Divider {
 public:
  Divider(const Graph& graph, size_t forward_nodes, bool recompute)
      : graph_(graph), forward_nodes_(forward_nodes), recompute_(recompute) {}

  Division run(const std::vector<ValueId>& gradients) {
    find_free();
    find_backward(gradients);
    if (recompute_) cut();
    repeat();
    return std::move(division_);
  }

 private:
  // Values that follow from constants alone cost nothing to have again.
  void find_free() {
    free_.assign(graph_.value_count(), false);
    for (const Node& node : graph_.nodes()) {
      bool free = node.op == Op::Constant || node.op == Op::Iota || is_cheap(node);
      for (ValueId operand : node.operands) free &= operand.is_valid() && free_[operand.index];
      for (ValueId result : node.results) free_[result.index] = free;
    }
  }

  // The backward nodes that gradients need, the forward values that they use, and those that they test for
  // equality: what was selected by value must be found again with the same bits.
  void find_backward(const std::vector<ValueId>& gradients) {
    division_.needed.assign(graph_.node_count(), false);
    division_.repeated.assign(graph_.node_count(), false);
    wanted_.assign(graph_.value_count(), false);
    exact_.assign(graph_.value_count(), false);
    for (ValueId gradient : gradients) wanted_[gradient.index] = true;
    for (size_t i = graph_.node_count(); i-- > forward_nodes_;) {
      const Node& node = graph_.nodes()[i];
      bool any = node.info().has(Trait::Ordered);
      for (ValueId result : node.results) any |= wanted_[result.index];
      if (!any) continue;
      division_.needed[i] = true;
      bool equality =
          node.op == Op::Compare && AttributeReader(node.op, node.attributes).get_string("direction") == "EQ";
      for (ValueId operand : node.operands) {
        if (!operand.is_valid()) continue;
        wanted_[operand.index] = true;
        if (equality) exact_[operand.index] = true;
      }
    }
  }

  // Broadcasts and widenings are smaller before than after.
  bool grows(const Node& node) const {
    if (node.op == Op::BroadcastInDim) return true;
    return node.op == Op::Convert &&
           dtype_bytes(graph_.type(node.results[0]).dtype) > dtype_bytes(graph_.type(node.operands[0]).dtype);
  }

  bool is_free(const Node& node) const { return !node.results.empty() && free_[node.results[0].index]; }

  // Walks back from what is wanted: repeats nodes whose results are not kept, saves the rest.
  void repeat() {
    for (size_t i = forward_nodes_; i-- > 0;) {
      const Node& node = graph_.nodes()[i];
      bool any = false;
      for (ValueId result : node.results) any |= wanted_[result.index];
      if (!any) continue;
      bool again = is_free(node) || (recompute_ ? repeatable_[i] && !any_kept(node) : grows(node));
      if (!again) continue;
      division_.repeated[i] = true;
      for (ValueId operand : node.operands) {
        if (operand.is_valid()) wanted_[operand.index] = true;
      }
    }
    for (uint32_t i = 0; i < graph_.value_count(); ++i) {
      if (!wanted_[i]) continue;
      NodeId node = graph_.value(ValueId{i}).node;
      if (!node.is_valid() || !(division_.needed[node.index] || division_.repeated[node.index])) {
        division_.saved.push_back(ValueId{i});
      }
    }
  }

  bool any_kept(const Node& node) const {
    return std::any_of(node.results.begin(), node.results.end(),
                       [&](ValueId result) { return wanted_[result.index] && kept_[result.index]; });
  }

  // Nodes that may be repeated: cheap, not tested for equality, at the end of no long chain.
  void find_repeatable() {
    repeatable_.assign(forward_nodes_, false);
    std::vector<int> level(graph_.value_count(), 0);
    for (size_t i = 0; i < forward_nodes_; ++i) {
      const Node& node = graph_.nodes()[i];
      if (!is_cheap(node) || is_free(node)) continue;
      int longest = 0;
      bool exact = false;
      for (ValueId operand : node.operands) {
        if (operand.is_valid()) longest = std::max(longest, level[operand.index]);
      }
      for (ValueId result : node.results) exact |= exact_[result.index];
      if ((exact && !grows(node)) || longest >= kLongestChain) continue;
      repeatable_[i] = true;
      for (ValueId result : node.results) level[result.index] = longest + 1;
    }
  }

  // Bytes at the hinted sizes; inputs are there anyway.
  int64_t cost(ValueId value) const {
    const Value& info = graph_.value(value);
    if (!info.node.is_valid()) return 1;
    int64_t elements = std::clamp<int64_t>(info.type.elements().hint(graph_.symbols), 1, int64_t{1} << 40);
    return elements * dtype_bytes(info.type.dtype) + 1;
  }

  // Chooses `kept_`: the cheapest set of values from which all wanted ones follow.
  void cut() {
    find_repeatable();
    MinimumCut network;
    std::vector<int> vertex(graph_.value_count(), -1);
    std::vector<uint32_t> pending;
    auto visit = [&](ValueId value) {
      if (vertex[value.index] >= 0) return vertex[value.index];
      vertex[value.index] = network.add_vertex(cost(value));
      pending.push_back(value.index);
      return vertex[value.index];
    };
    for (uint32_t i = 0; i < graph_.value_count(); ++i) {
      const Value& value = graph_.value(ValueId{i});
      bool forward = !value.node.is_valid() || value.node.index < forward_nodes_;
      if (wanted_[i] && forward && !free_[i]) network.connect_sink(visit(ValueId{i}));
    }
    while (!pending.empty()) {
      ValueId value{pending.back()};
      pending.pop_back();
      NodeId node = graph_.value(value).node;
      if (!node.is_valid() || !repeatable_[node.index]) {
        network.connect_source(vertex[value.index]);
        continue;
      }
      for (ValueId operand : graph_.node(node).operands) {
        if (operand.is_valid() && !free_[operand.index]) network.connect(visit(operand), vertex[value.index]);
      }
    }
    std::vector<bool> chosen = network.run();
    kept_.assign(graph_.value_count(), false);
    for (uint32_t i = 0; i < graph_.value_count(); ++i) kept_[i] = vertex[i] >= 0 && chosen[vertex[i]];
  }

  const Graph& graph_;
  size_t forward_nodes_;
  bool recompute_;
  std::vector<bool> free_, wanted_, exact_, repeatable_, kept_;
  Division division_;
};

}  // namespace

Division divide(const Graph& joint, size_t forward_nodes, const std::vector<ValueId>& gradients,
                bool recompute) {
  return Divider(joint, forward_nodes, recompute).run(gradients);
}

}  // namespace tilewright::gradients
