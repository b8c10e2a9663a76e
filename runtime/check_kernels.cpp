// The check of each kernel by itself: its stored values against the reference nodes it covers, computed from
// what it read.
#include <algorithm>

#include "base/text.h"
#include "ir/reference/compare.h"
#include "runtime/check.h"
#include "runtime/memory_plan.h"

namespace tilewright {
namespace {

// The part of the lowered graph between stored values and the next stored ones before them.
class Cut {
 public:
  Cut(const LoweredGraph& lowered, const std::vector<bool>& stored) : lowered_(lowered), stored_(stored) {
    part_.name = lowered.graph.name;
    part_.symbols = lowered.graph.symbols;
    map_.resize(lowered.graph.value_count());
  }

  Status add_output(ValueId value) {
    TW_RETURN_IF_ERROR(add_node_of(value));
    part_.add_output(map_[value.index]);
    return Status::ok();
  }

  const Graph& part() const { return part_; }
  const std::vector<ValueId>& inputs() const { return inputs_; }  // values of the lowered graph

 private:
  bool is_boundary(ValueId value) const {
    const NodeId node = lowered_.graph.value(value).node;
    return !node.is_valid() || (stored_[value.index] && lowered_.graph.node(node).op != Op::Constant);
  }

  // Chains of nodes may be long: a stack of its own instead of recursion.
  Status add_node_of(ValueId wanted) {
    std::vector<NodeId> pending{lowered_.graph.value(wanted).node};
    while (!pending.empty()) {
      const Node& node = lowered_.graph.node(pending.back());
      const size_t before = pending.size();
      for (ValueId operand : node.operands) {
        if (!operand.is_valid() || map_[operand.index].is_valid()) continue;
        if (is_boundary(operand)) {
          map_[operand.index] = part_.add_input({}, lowered_.graph.type(operand));
          inputs_.push_back(operand);
        } else {
          pending.push_back(lowered_.graph.value(operand).node);
        }
      }
      if (pending.size() > before) continue;
      pending.pop_back();
      const bool done = std::any_of(node.results.begin(), node.results.end(), [&](ValueId result) {
        return map_[result.index].is_valid() && !is_input_of_part(result);
      });
      if (!done) TW_RETURN_IF_ERROR(copy_node(lowered_.graph, node, part_, map_));
    }
    return Status::ok();
  }

  // Another result of the same node may be a stored value that was read.
  bool is_input_of_part(ValueId value) const { return !part_.value(map_[value.index]).node.is_valid(); }

  const LoweredGraph& lowered_;
  const std::vector<bool>& stored_;
  Graph part_;
  std::vector<ValueId> map_, inputs_;
};

class KernelCheck {
 public:
  KernelCheck(Session& session, const Program& program, const LoweredGraph& lowered, const BoundPlan& plan,
              const std::vector<void*>& pointers, const std::vector<OwnedTensor>& inputs)
      : session_(session),
        program_(program),
        lowered_(lowered),
        plan_(plan),
        pointers_(pointers),
        inputs_(inputs),
        last_writer_(program.buffers.size(), -1),
        stored_(lowered.graph.value_count(), false) {
    for (size_t step = 0; step < program.launches.size(); ++step)
      note_writes(program.launches[step], static_cast<int>(step));
    for (size_t v = 0; v < stored_.size(); ++v)
      stored_[v] = lowered.buffers[v].is_valid() && last_writer_[lowered.buffers[v].index] >= 0;
  }

  Status run() {
    for (size_t step = 0; step < program_.launches.size(); ++step) {
      const LaunchKind kind = program_.launches[step].kind;
      // These are what they would be compared with.
      if (kind == LaunchKind::Reference || kind == LaunchKind::Copy) continue;
      TW_RETURN_IF_ERROR(check_launch(static_cast<int>(step)));
    }
    return Status::ok();
  }

 private:
  void note_writes(const Launch& launch, int step) {
    for (size_t position = 0; position < launch.buffers.size(); ++position)
      if (buffer_use(program_, launch, position) != Use::Read)
        last_writer_[launch.buffers[position].buffer.index] = step;
    for (const Launch& inner : launch.body) note_writes(inner, step);
  }

  // The values that are complete once this launch is done.
  std::vector<ValueId> values_of(int step) const {
    std::vector<ValueId> values;
    for (uint32_t v = 0; v < stored_.size(); ++v) {
      if (!stored_[v] || last_writer_[lowered_.buffers[v].index] != step) continue;
      const NodeId node = lowered_.graph.value(ValueId{v}).node;
      if (node.is_valid() && lowered_.graph.node(node).op != Op::Uninitialized) values.push_back(ValueId{v});
    }
    return values;
  }

  Result<TensorRef> tensor(ValueId value) const {
    const TensorType& type = lowered_.graph.type(value);
    TensorRef ref;
    ref.dtype = type.dtype;
    for (const Dim& dim : type.shape) {
      TW_ASSIGN_OR_RETURN(int64_t size, dim.evaluate(plan_.sizes.bindings));
      ref.sizes.push_back(size);
    }
    ref.strides = TensorRef::dense_strides(ref.sizes);
    const Value& described = lowered_.graph.value(value);
    ref.data = described.node.is_valid() ? pointers_[lowered_.buffers[value.index].index]
                                         : inputs_[described.result].ref.data;
    return ref;
  }

  // A value may be named by several reshapes of one buffer: computing one from another would prove nothing.
  std::vector<bool> stored_elsewhere(const std::vector<ValueId>& values) const {
    std::vector<bool> stored = stored_;
    for (uint32_t v = 0; v < stored.size(); ++v)
      for (ValueId each : values)
        if (stored[v] && lowered_.buffers[v] == lowered_.buffers[each.index]) stored[v] = false;
    return stored;
  }

  Status check_launch(int step) const {
    const std::vector<ValueId> values = values_of(step);
    if (values.empty()) return Status::ok();
    const std::vector<bool> stored = stored_elsewhere(values);
    Cut cut(lowered_, stored);
    for (ValueId value : values) TW_RETURN_IF_ERROR(cut.add_output(value));
    std::vector<TensorRef> from;
    for (ValueId input : cut.inputs()) {
      TW_ASSIGN_OR_RETURN(TensorRef ref, tensor(input));
      from.push_back(std::move(ref));
    }
    InterpreterOptions options;
    options.custom_call = [&](const std::string& target, const AttributeMap& attributes,
                              std::span<const TensorRef> read, std::span<TensorRef> written) {
      return session_.custom_calls().run(target, attributes, read, written);
    };
    Result<std::vector<OwnedTensor>> expected = interpret(cut.part(), from, plan_.sizes.bindings, options);
    if (!expected.is_ok())
      return expected.status().because(
          cat("check @", program_.name, ": the reference of ", name_of(step), " failed"));
    Comparison comparison(cut.part(), from, plan_.sizes.bindings, options.custom_call);
    for (size_t i = 0; i < values.size(); ++i) {
      TW_ASSIGN_OR_RETURN(TensorRef found, tensor(values[i]));
      const std::string different = comparison.difference(i, found, (*expected)[i].ref);
      if (different.empty()) continue;
      return Status::internal(cat("check @", program_.name, ": ", name_of(step), ": value ",
                                  lowered_.graph.value_name(values[i]), " of type ",
                                  lowered_.graph.type(values[i]).to_string(),
                                  " differs from the reference at ", different));
    }
    return Status::ok();
  }

  // "kernel @k3 (gelu, add; nodes add %3, gelu %4)".
  std::string name_of(int step) const {
    const Launch& launch = program_.launches[static_cast<size_t>(step)];
    std::vector<std::string> nodes;
    for (uint32_t node : launch.nodes)
      if (node < lowered_.graph.node_count()) nodes.push_back(node_name(lowered_.graph, NodeId{node}));
    const std::string covered = nodes.empty() ? "" : cat("nodes ", join(nodes, ", "));
    if (launch.kind != LaunchKind::Kernel)
      return cat(launch.kind == LaunchKind::Loop ? "loop" : cat("builtin ", launch.builtin), " (", covered,
                 ")");
    const KernelEntry& entry = program_.kernels[static_cast<size_t>(launch.kernel)];
    return cat("kernel @", entry.kernel.name, " (", entry.description, "; ", covered, ")");
  }

  Session& session_;
  const Program& program_;
  const LoweredGraph& lowered_;
  const BoundPlan& plan_;
  const std::vector<void*>& pointers_;
  const std::vector<OwnedTensor>& inputs_;
  std::vector<int> last_writer_;  // one a buffer: top-level launch, or -1
  std::vector<bool> stored_;      // one a value: a launch writes it
};

}  // namespace

Status compare_kernels(Session& session, const Program& program, const LoweredGraph& lowered,
                       const BoundPlan& plan, const std::vector<void*>& pointers,
                       const std::vector<OwnedTensor>& inputs) {
  return KernelCheck(session, program, lowered, plan, pointers, inputs).run();
}

}  // namespace tilewright
