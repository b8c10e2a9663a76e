// Buffers and reference launches for the nodes of a graph, one to one.
#include "runtime/eager_program.h"

#include <map>

#include "base/text.h"
#include "ir/inference.h"

namespace tilewright {
namespace {

class EagerPlanner {
 public:
  explicit EagerPlanner(const Graph& graph) : graph_(graph), buffer_of_(graph.value_count()) {}

  Result<Program> run() {
    program_.name = graph_.name;
    program_.symbols = graph_.symbols;
    for (size_t index = 0; index < graph_.inputs.size(); ++index)
      buffer_of_[graph_.inputs[index].value.index] =
          add_buffer(BufferKind::Input, index, graph_.inputs[index].value);
    add_outputs();
    for (uint32_t index = 0; index < graph_.node_count(); ++index) add_node(NodeId{index});
    add_copies();
    return std::move(program_);
  }

 private:
  BufferId add_buffer(BufferKind kind, size_t index, ValueId value) {
    Buffer buffer;
    buffer.kind = kind;
    buffer.index = static_cast<int>(index);
    buffer.type = graph_.type(value);
    buffer.name = graph_.value_name(value);
    program_.buffers.push_back(std::move(buffer));
    return BufferId{static_cast<uint32_t>(program_.buffers.size() - 1)};
  }

  // A computed value that is one output lives in its buffer; every other output is copied at the end.
  void add_outputs() {
    for (size_t index = 0; index < graph_.outputs.size(); ++index) {
      const ValueId value = graph_.outputs[index].value;
      const BufferId buffer = add_buffer(BufferKind::Output, index, value);
      if (!buffer_of_[value.index].is_valid() && !is_stored_constant(value)) {
        buffer_of_[value.index] = buffer;
      } else {
        copies_.emplace_back(value, buffer);
      }
    }
  }

  bool is_stored_constant(ValueId value) const {
    const NodeId node = graph_.value(value).node;
    return node.is_valid() && constant_of(node) != nullptr;
  }

  // Dense constants are buffers; splats are filled by their kernel.
  ConstantRef constant_of(NodeId id) const {
    const Node& node = graph_.node(id);
    if (node.op != Op::Constant) return nullptr;
    ConstantRef constant = AttributeReader(node.op, node.attributes).get_constant("value");
    return constant && !constant->splat ? constant : nullptr;
  }

  void add_node(NodeId id) {
    const Node& node = graph_.node(id);
    if (ConstantRef constant = constant_of(id)) {
      const BufferId buffer = add_buffer(BufferKind::Constant, 0, node.results[0]);
      program_.buffers[buffer.index].constant = std::move(constant);
      buffer_of_[node.results[0].index] = buffer;
      return;
    }
    Launch launch;
    launch.kind = LaunchKind::Reference;
    launch.nodes = {id.index};
    launch.node = single_node_graph(id, &launch.buffers);
    for (ValueId result : node.results) {
      BufferId& buffer = buffer_of_[result.index];
      if (!buffer.is_valid()) buffer = add_buffer(BufferKind::Temporary, 0, result);
      launch.buffers.push_back({buffer, 0});
    }
    program_.launches.push_back(std::move(launch));
  }

  // The node alone, with its distinct operands as inputs; names are kept for messages.
  std::shared_ptr<const Graph> single_node_graph(NodeId id, std::vector<BufferUse>* uses) {
    const Node& node = graph_.node(id);
    auto single = std::make_shared<Graph>();
    single->name = graph_.name;
    single->symbols = graph_.symbols;
    std::map<uint32_t, ValueId> image;
    std::vector<ValueId> operands;
    for (ValueId operand : node.operands) {
      if (!operand.is_valid()) {
        operands.emplace_back();
        continue;
      }
      ValueId& input = image[operand.index];
      if (!input.is_valid()) {
        input = single->add_input(graph_.value_name(operand).substr(1), graph_.type(operand));
        uses->push_back({buffer_of_[operand.index], 0});
      }
      operands.push_back(input);
    }
    Types types;
    for (ValueId result : node.results) types.push_back(graph_.type(result));
    const NodeId copy = single->append_unchecked(node.op, operands, node.attributes, node.regions, types);
    single->node(copy).tag = node.tag;
    for (size_t i = 0; i < node.results.size(); ++i) {
      const ValueId result = single->node(copy).results[i];
      single->value(result).name = graph_.value_name(node.results[i]).substr(1);
      single->add_output(result);
    }
    return single;
  }

  void add_copies() {
    for (const auto& [value, buffer] : copies_) {
      Launch launch;
      launch.kind = LaunchKind::Copy;
      launch.buffers = {{buffer_of_[value.index], 0}, {buffer, 0}};
      program_.launches.push_back(std::move(launch));
    }
  }

  const Graph& graph_;
  Program program_;
  std::vector<BufferId> buffer_of_;
  std::vector<std::pair<ValueId, BufferId>> copies_;
};

}  // namespace

Result<Program> plan_eager_program(const Graph& graph) { return EagerPlanner(graph).run(); }

}  // namespace tilewright
