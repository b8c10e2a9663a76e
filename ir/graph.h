// Graph: an SSA tensor program.  Nodes and values are named by typed indices, in topological order.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ir/op_table.h"

namespace tilewright {

template <class Tag>
struct Id {
  static constexpr uint32_t kNone = UINT32_MAX;
  uint32_t index = kNone;
  bool is_valid() const { return index != kNone; }
  friend bool operator==(Id, Id) = default;
  friend auto operator<=>(Id, Id) = default;
};
using ValueId = Id<struct ValueTag>;
using NodeId = Id<struct NodeTag>;

class Graph;
using RegionRef = std::shared_ptr<const Graph>;  // regions are closed: they capture nothing

struct Node {
  Op op = Op::Constant;
  std::vector<ValueId> operands;  // an invalid id is an absent optional operand
  std::vector<ValueId> results;
  AttributeMap attributes;  // without those equal to their default
  std::vector<RegionRef> regions;
  std::string tag;  // where the frontend made it; not part of the hash

  const OpInfo& info() const { return op_info(op); }
};

struct Value {
  TensorType type;
  NodeId node;          // invalid for a graph input
  uint32_t result = 0;  // index among the node's results, or among the graph's inputs
  std::string name;     // text name without '%'; empty: numbered when printed
};

// How a tensor at the boundary lies in memory.
struct Layout {
  enum class Kind : uint8_t { Dense, Strided, Any };
  Kind kind = Kind::Dense;
  std::vector<int64_t> order;  // Dense: dims from the slowest to the fastest; empty is row-major
  std::vector<Dim> strides;    // Strided: in elements, one a dim
  friend bool operator==(const Layout&, const Layout&) = default;
};

struct Input {
  ValueId value;
  Layout layout;
  bool frozen = false;  // bound on the executable; may be packed ahead
};

struct Output {
  ValueId value;
  std::string name;      // may be empty
  int alias_input = -1;  // the input whose memory this output may take
  Layout layout;
};

class Graph {
 public:
  std::string name;
  std::vector<Symbol> symbols;
  std::vector<Input> inputs;
  std::vector<Output> outputs;

  ValueId add_input(std::string name, TensorType type, Layout layout = {}, bool frozen = false);
  void add_output(ValueId value, std::string name = {}, int alias_input = -1);

  // Checks operands, attributes and regions, infers the result types and appends the node.
  Result<NodeId> append(Op op, std::vector<ValueId> operands, AttributeMap attributes = {},
                        std::vector<RegionRef> regions = {}, std::string tag = {});
  // Appends without any check, with the result types given (the parser, which verifies later).
  NodeId append_unchecked(Op op, std::vector<ValueId> operands, AttributeMap attributes,
                          std::vector<RegionRef> regions, Types result_types);

  size_t node_count() const { return nodes_.size(); }
  size_t value_count() const { return values_.size(); }
  const Node& node(NodeId id) const { return nodes_[id.index]; }
  Node& node(NodeId id) { return nodes_[id.index]; }
  const Value& value(ValueId id) const { return values_[id.index]; }
  Value& value(ValueId id) { return values_[id.index]; }
  const TensorType& type(ValueId id) const { return values_[id.index].type; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<Value>& values() const { return values_; }
  // The first result of a node.
  ValueId result(NodeId id, int index = 0) const { return nodes_[id.index].results[index]; }
  // Name for messages: "%x" or "%7".
  std::string value_name(ValueId id) const;
  const Symbol* find_symbol(std::string_view name) const;

 private:
  std::vector<Node> nodes_;
  std::vector<Value> values_;
};

// A node in messages: "reduce_sum %7".
std::string node_name(const Graph& graph, NodeId id);

// Copies one node with operands mapped; types, names and tag come along.
Status copy_node(const Graph& source, const Node& node, Graph& target, std::vector<ValueId>& map);

// Copies `source`'s nodes into `target`, operands mapped; `map[i]` is the image of source value i (preset for
// inputs).
Status copy_nodes(const Graph& source, Graph& target, std::vector<ValueId>& map);

// The graph without nodes that no output and no side effect needs; inputs stay.
Graph remove_dead_nodes(const Graph& graph);

}  // namespace tilewright
