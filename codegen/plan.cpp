// plan_program: the way from a graph to launches, in order.
#include <algorithm>
#include <queue>

#include "base/text.h"
#include "codegen/lower/program_builder.h"
#include "codegen/passes.h"
#include "ir/verifier.h"

namespace tilewright {

const char* fallback_reason_name(FallbackReason reason) {
  switch (reason) {
    case FallbackReason::UnsupportedOp: return "unsupported_op";
    case FallbackReason::UnsupportedType: return "unsupported_type";
    case FallbackReason::UnsupportedShape: return "unsupported_shape";
    case FallbackReason::CustomCall: return "custom_call";
    case FallbackReason::Control: return "control";
    case FallbackReason::CompileFailed: return "compile_failed";
    case FallbackReason::Disabled: return "disabled";
  }
  return "unknown";
}

namespace {

// Groups and single nodes in an order in which every buffer is written before it is read.
class Scheduler {
 public:
  Scheduler(const Graph& graph, const Grouping& grouping) : graph_(graph), grouping_(grouping) {
    size_t groups = grouping.groups.size();
    unit_of_node_.assign(graph.node_count(), -1);
    for (size_t g = 0; g < groups; ++g) units_.push_back({static_cast<int>(g), NodeId{}});
    for (size_t n = 0; n < graph.node_count(); ++n) {
      const Node& node = graph.nodes()[n];
      bool anchored = !node.results.empty() && grouping.storage[node.results[0].index] == Storage::Inlined;
      bool alias = !node.results.empty() && grouping.storage[node.results[0].index] == Storage::Alias;
      if (!grouping.live[n] || is_fusible(graph, node) || alias || anchored || node.op == Op::Constant)
        continue;
      unit_of_node_[n] = static_cast<int>(units_.size());
      units_.push_back({-1, NodeId{static_cast<uint32_t>(n)}});
    }
  }

  struct Unit {
    int group;
    NodeId node;
  };

  Result<std::vector<Unit>> order() {
    std::vector<std::vector<int>> readers(units_.size());
    std::vector<int> waiting(units_.size(), 0), position(units_.size(), 0);
    for (size_t u = 0; u < units_.size(); ++u) {
      std::vector<int> sources = producers(u);
      std::sort(sources.begin(), sources.end());
      sources.erase(std::unique(sources.begin(), sources.end()), sources.end());
      for (int source : sources) {
        if (source == static_cast<int>(u)) continue;
        readers[source].push_back(static_cast<int>(u));
        ++waiting[u];
      }
      position[u] = units_[u].group >= 0 ? last_node(grouping_.groups[units_[u].group])
                                         : static_cast<int>(units_[u].node.index);
    }
    using Entry = std::pair<int, int>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    for (size_t u = 0; u < units_.size(); ++u) {
      if (waiting[u] == 0) ready.push({position[u], static_cast<int>(u)});
    }
    std::vector<Unit> sorted;
    while (!ready.empty()) {
      int unit = ready.top().second;
      ready.pop();
      sorted.push_back(units_[unit]);
      for (int reader : readers[unit]) {
        if (--waiting[reader] == 0) ready.push({position[reader], reader});
      }
    }
    if (sorted.size() != units_.size())
      return Status::internal("fused groups depend on each other in a circle");
    return sorted;
  }

 private:
  static int last_node(const Group& group) {
    return group.nodes.empty() ? 0 : static_cast<int>(*group.nodes.rbegin());
  }

  int producer_of(ValueId value) const {
    while (grouping_.storage[value.index] == Storage::Alias) {
      const Node& node = graph_.node(graph_.value(value).node);
      value = node.operands[node.op == Op::Reshape
                                ? 0
                                : *alias_operand(graph_, node, static_cast<int>(graph_.value(value).result))];
    }
    if (grouping_.group_of[value.index] >= 0) return grouping_.group_of[value.index];
    NodeId node = graph_.value(value).node;
    return node.is_valid() ? unit_of_node_[node.index] : -1;
  }

  std::vector<int> producers(size_t unit) const {
    std::vector<int> sources;
    auto add_operands = [&](const Node& node) {
      for (ValueId operand : node.operands) {
        if (!operand.is_valid()) continue;
        int source = producer_of(operand);
        if (source >= 0) sources.push_back(source);
      }
    };
    if (units_[unit].group >= 0) {
      const Group& group = grouping_.groups[units_[unit].group];
      for (uint32_t node : group.nodes) add_operands(graph_.node(NodeId{node}));
      if (group.anchor.is_valid()) add_operands(graph_.node(group.anchor));
    } else {
      add_operands(graph_.node(units_[unit].node));
    }
    return sources;
  }

  const Graph& graph_;
  const Grouping& grouping_;
  std::vector<Unit> units_;
  std::vector<int> unit_of_node_;
};

FallbackReason reason_for(const Node& node) {
  if (node.op == Op::CustomCall) return FallbackReason::CustomCall;
  return node.info().kind == OpKind::Control ? FallbackReason::Control : FallbackReason::UnsupportedOp;
}

Status lower_single(ProgramBuilder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  TW_ASSIGN_OR_RETURN(bool lowered, lower_node(builder, id));
  if (lowered) return Status::ok();
  return builder.launch_reference(id, reason_for(node),
                                  cat(op_name(node.op), " has no lowering for these operands"));
}

Result<Program> plan_eager(const Graph& graph, const TargetLimits& limits, const PlanOptions& options) {
  ProgramBuilder builder(graph, limits, options);
  TW_RETURN_IF_ERROR(builder.assign_buffers_of_nodes());
  for (size_t n = 0; n < graph.node_count(); ++n) {
    const Node& node = graph.nodes()[n];
    if (node.op == Op::Constant && !is_splat(node)) continue;
    TW_RETURN_IF_ERROR(
        builder.launch_reference(NodeId{static_cast<uint32_t>(n)}, FallbackReason::Disabled, "eager mode"));
  }
  builder.launch_output_copies();
  return std::move(builder.program());
}

// Level 1 verifies every tile program, level 2 also its round trip through text.
Status verify_kernels(const Program& program, int level) {
  for (const KernelEntry& entry : program.kernels) {
    if (level < 1) break;
    Status valid = tile::verify(entry.kernel);
    if (!valid.is_ok()) return valid.because(cat("kernel of ", entry.description));
    if (level < 2) continue;
    std::string text = tile::print(entry.kernel);
    Result<tile::Kernel> copy = tile::parse_kernel(text);
    if (!copy.is_ok())
      return copy.status().because(cat("kernel of ", entry.description, " does not read back"));
    if (tile::print(*copy) != text || tile::canonical_text(*copy) != tile::canonical_text(entry.kernel)) {
      return Status::internal(cat("kernel of ", entry.description, " reads back as another one:\n", text));
    }
  }
  return Status::ok();
}

}  // namespace

Result<Program> plan_program(const Graph& input, const TargetLimits& limits, const PlanOptions& options) {
  TW_RETURN_IF_ERROR(verify(input));
  if (options.eager) return plan_eager(input, limits, options);
  TW_ASSIGN_OR_RETURN(Graph graph, run_passes(input, limits, options));
  TW_ASSIGN_OR_RETURN(Grouping grouping, group_nodes(graph));
  anchor_contractions(graph, grouping);
  ProgramBuilder builder(graph, limits, options);
  TW_RETURN_IF_ERROR(builder.assign_buffers(grouping));
  TW_ASSIGN_OR_RETURN(std::vector<Scheduler::Unit> units, Scheduler(graph, grouping).order());
  for (const Scheduler::Unit& unit : units) {
    if (unit.group < 0) {
      TW_RETURN_IF_ERROR(lower_single(builder, unit.node));
      continue;
    }
    const Group& group = grouping.groups[unit.group];
    TW_RETURN_IF_ERROR(group.anchor.is_valid() ? lower_anchored_group(builder, grouping, group)
                                               : lower_group(builder, grouping, group));
  }
  builder.launch_output_copies();
  Program program = std::move(builder.program());
  for (uint32_t n = 0; n < graph.node_count(); ++n) {
    program.node_names.push_back(tagged_name(graph, NodeId{n}));
  }
  if (options.lowered) {
    options.lowered->buffers.clear();
    for (uint32_t v = 0; v < graph.value_count(); ++v)
      options.lowered->buffers.push_back(builder.buffer_of(ValueId{v}));
    options.lowered->graph = graph;
  }
  TW_RETURN_IF_ERROR(verify_kernels(program, options.verify_level));
  if (options.wants_dump && options.wants_dump("kernels")) options.dump("kernels", print(program));
  return program;
}

}  // namespace tilewright
