// ProgramBuilder: the program under construction, with the buffer of every stored value; what node lowerings
// write to.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "codegen/lower/grouping.h"
#include "codegen/program.h"

namespace tilewright {

// A node in messages, with the place in the user's program that it comes from: "gather %7 (train.py:10)".
std::string tagged_name(const Graph& graph, NodeId id);

class ProgramBuilder {
 public:
  ProgramBuilder(const Graph& graph, const TargetLimits& limits, const PlanOptions& options);

  const Graph& graph() const { return graph_; }
  const TargetLimits& limits() const { return limits_; }
  const PlanOptions& options() const { return options_; }
  Program& program() { return program_; }

  // Declares the storage of values as the grouping decided; makes input, output, constant and temporary
  // buffers.
  Status assign_buffers(const Grouping& grouping);
  // Storage for eager programs: every result has a buffer, dense constants their own bytes.
  Status assign_buffers_of_nodes();
  // The buffer that holds a stored value, dense row-major in the value's shape.
  BufferId buffer_of(ValueId value) const { return buffers_[value.index]; }
  BufferId add_temporary(TensorType type, std::string name);

  // Adds a kernel; its params are bound to `buffers` in order, its symbols to the graph's symbols of the same
  // name.
  void launch_kernel(tile::Kernel kernel, std::vector<BufferId> buffers, std::string description,
                     std::vector<uint32_t> nodes);
  void launch_copy(BufferId from, BufferId to);
  // The whole node on its reference kernel.
  Status launch_reference(NodeId node, FallbackReason reason, std::string sentence);
  // A builtin with the node's operands and results: "sort@1".
  Status launch_builtin(NodeId node, std::string name);
  int add_site(ErrorSite site);
  // Copies for outputs that are inputs, constants or held by another output; launched last.
  void launch_output_copies();

  // A graph of that one node, its operands as inputs.
  Result<std::shared_ptr<const Graph>> single_node_graph(NodeId node) const;
  std::vector<Launch> take_launches() { return std::move(program_.launches); }

 private:
  const Graph& graph_;
  const TargetLimits& limits_;
  const PlanOptions& options_;
  Program program_;
  std::vector<BufferId> buffers_;  // by value
  std::vector<std::pair<BufferId, BufferId>> output_copies_;
};

// Lowers one node that is not fusible (contractions, scans, windows, scatters, sorts, control) to launches.
// Answers false when no lowering knows it: the caller makes it a reference launch.
Result<bool> lower_node(ProgramBuilder& builder, NodeId node);

// Families of lower_node; each answers false for what it does not handle.
Result<bool> lower_contraction(ProgramBuilder& builder, NodeId node);
Result<bool> lower_convolution(ProgramBuilder& builder, NodeId node);
Result<bool> lower_ragged(ProgramBuilder& builder, NodeId node);
Result<bool> lower_window(ProgramBuilder& builder, NodeId node);
Result<bool> lower_scan_op(ProgramBuilder& builder, NodeId node);
Result<bool> lower_scatter(ProgramBuilder& builder, NodeId node);
Result<bool> lower_sorting(ProgramBuilder& builder, NodeId node);
Result<bool> lower_attention(ProgramBuilder& builder, NodeId node);
Result<bool> lower_concatenation(ProgramBuilder& builder, NodeId node);
Result<bool> lower_control(ProgramBuilder& builder, NodeId node);

// A contraction that ends in the stores of the group it anchors.
Status lower_anchored_group(ProgramBuilder& builder, const Grouping& grouping, const Group& group);
// One kernel for a group of fused nodes.
Status lower_group(ProgramBuilder& builder, const Grouping& grouping, const Group& group);

}  // namespace tilewright
