// Buffers and launches of a program under construction.
#include "codegen/lower/program_builder.h"

#include <algorithm>

#include "base/text.h"
#include "codegen/lower/cost.h"
#include "ir/inference.h"

namespace tilewright {

ProgramBuilder::ProgramBuilder(const Graph& graph, const TargetLimits& limits, const PlanOptions& options)
    : graph_(graph), limits_(limits), options_(options) {
  program_.name = graph.name;
  program_.symbols = graph.symbols;
}

static BufferId append_buffer(Program& program, Buffer buffer) {
  program.buffers.push_back(std::move(buffer));
  return BufferId{static_cast<uint32_t>(program.buffers.size() - 1)};
}

BufferId ProgramBuilder::add_temporary(TensorType type, std::string name) {
  return append_buffer(program_, Buffer{BufferKind::Temporary, 0, std::move(type), nullptr, std::move(name)});
}

// The value at the end of a chain of aliases.
static ValueId alias_root(const Graph& graph, const Grouping& grouping, ValueId value) {
  while (grouping.storage[value.index] == Storage::Alias) {
    const Node& node = graph.node(graph.value(value).node);
    int operand =
        node.op == Op::Reshape ? 0 : *alias_operand(graph, node, static_cast<int>(graph.value(value).result));
    value = node.operands[operand];
  }
  return value;
}

Status ProgramBuilder::assign_buffers(const Grouping& grouping) {
  buffers_.assign(graph_.value_count(), BufferId{});
  for (size_t i = 0; i < graph_.inputs.size(); ++i) {
    ValueId value = graph_.inputs[i].value;
    buffers_[value.index] =
        append_buffer(program_, Buffer{BufferKind::Input, static_cast<int>(i), graph_.type(value), nullptr,
                                       graph_.value_name(value)});
  }
  // An output that a launch produces is produced in place; all others (inputs, constants, second uses) are
  // copied.
  std::vector<std::pair<size_t, ValueId>> copied;
  for (size_t i = 0; i < graph_.outputs.size(); ++i) {
    ValueId value = graph_.outputs[i].value;
    ValueId root = alias_root(graph_, grouping, value);
    NodeId producer = graph_.value(root).node;
    bool produced = producer.is_valid() &&
                    (graph_.node(producer).op != Op::Constant || grouping.group_of[root.index] >= 0);
    BufferId buffer = append_buffer(program_, Buffer{BufferKind::Output, static_cast<int>(i),
                                                     graph_.type(value), nullptr, graph_.value_name(value)});
    if (produced && !buffers_[root.index].is_valid()) {
      buffers_[root.index] = buffer;
    } else {
      copied.emplace_back(i, root);
    }
  }
  for (size_t n = 0; n < graph_.node_count(); ++n) {
    const Node& node = graph_.nodes()[n];
    if (!grouping.live[n]) continue;
    for (ValueId result : node.results) {
      if (buffers_[result.index].is_valid() || grouping.storage[result.index] != Storage::Buffer) continue;
      if (is_fusible(graph_, node) && grouping.group_of[result.index] < 0) continue;  // a result nobody needs
      if (node.op == Op::Constant && grouping.group_of[result.index] < 0) {
        ConstantRef constant = AttributeReader(node.op, node.attributes).get_constant("value");
        buffers_[result.index] = append_buffer(program_, Buffer{BufferKind::Constant, 0, graph_.type(result),
                                                                constant, graph_.value_name(result)});
        continue;
      }
      buffers_[result.index] = add_temporary(graph_.type(result), graph_.value_name(result));
    }
  }
  for (size_t v = 0; v < graph_.value_count(); ++v) {
    ValueId value{static_cast<uint32_t>(v)};
    if (grouping.storage[v] != Storage::Alias) continue;
    NodeId producer = graph_.value(value).node;
    if (!grouping.live[producer.index]) continue;
    buffers_[v] = buffers_[alias_root(graph_, grouping, value).index];
  }
  for (const auto& [output, root] : copied) {
    if (!buffers_[root.index].is_valid()) return Status::internal(cat("output ", output, " has no buffer"));
    for (size_t b = 0; b < program_.buffers.size(); ++b) {
      const Buffer& buffer = program_.buffers[b];
      if (buffer.kind != BufferKind::Output || buffer.index != static_cast<int>(output)) continue;
      output_copies_.emplace_back(buffers_[root.index], BufferId{static_cast<uint32_t>(b)});
    }
  }
  return Status::ok();
}

Status ProgramBuilder::assign_buffers_of_nodes() {
  // As if each node were a group of its own.
  Grouping grouping;
  grouping.storage.assign(graph_.value_count(), Storage::Buffer);
  grouping.group_of.assign(graph_.value_count(), -1);
  grouping.live.assign(graph_.node_count(), true);
  for (size_t n = 0; n < graph_.node_count(); ++n) {
    const Node& node = graph_.nodes()[n];
    if (node.op == Op::Constant && !is_splat(node)) continue;
    for (ValueId result : node.results) grouping.group_of[result.index] = static_cast<int>(n);
  }
  return assign_buffers(grouping);
}

void ProgramBuilder::launch_output_copies() {
  for (const auto& [from, to] : output_copies_) launch_copy(from, to);
}

// Stores to buffers larger than the last-level cache go around it: they are gone before anybody reads them.
static void mark_streaming(tile::Block& block, const tile::Kernel& kernel, int64_t cache_bytes) {
  for (tile::Instruction& instruction : block.body) {
    for (tile::Block& inner : instruction.blocks) mark_streaming(inner, kernel, cache_bytes);
    if (instruction.opcode != tile::Opcode::Store || instruction.store != tile::StoreKind::Set) continue;
    const tile::Param& param = kernel.params[instruction.access.param];
    if (param.mode != tile::AccessMode::Write) continue;
    double bytes = static_cast<double>(dtype_bytes(param.dtype));
    for (const Dim& size : param.dims) bytes *= static_cast<double>(size.hint(kernel.symbols));
    instruction.streaming = bytes > static_cast<double>(cache_bytes);
  }
}

void ProgramBuilder::launch_kernel(tile::Kernel kernel, std::vector<BufferId> buffers,
                                   std::string description, std::vector<uint32_t> nodes) {
  // Kernel symbols: the graph symbols that its dims mention, in the graph's order.
  std::vector<std::string> used;
  tile::collect_symbols(kernel, used);
  Launch launch;
  launch.kind = LaunchKind::Kernel;
  kernel.symbols.clear();
  for (const Symbol& symbol : graph_.symbols) {
    if (std::find(used.begin(), used.end(), symbol.name) == used.end()) continue;
    kernel.symbols.push_back(symbol);
    launch.scalars.push_back(Dim::symbol(symbol.name));
  }
  int64_t cache_bytes = std::max({limits_.l3_bytes, 4 * limits_.l2_bytes, int64_t{8} << 20});
  mark_streaming(kernel.body, kernel, cache_bytes);
  if (kernel.name.empty()) kernel.name = cat("k", program_.kernels.size());
  for (BufferId buffer : buffers) launch.buffers.push_back({buffer, Dim(0)});
  launch.kernel = static_cast<int>(program_.kernels.size());
  launch.nodes = nodes;
  KernelEntry entry;
  const KernelWork work = estimate_work(kernel);
  entry.flops = work.flops;
  entry.bytes = work.bytes;
  entry.kernel = std::move(kernel);
  entry.description = std::move(description);
  entry.nodes = std::move(nodes);
  program_.kernels.push_back(std::move(entry));
  program_.launches.push_back(std::move(launch));
}

void ProgramBuilder::launch_copy(BufferId from, BufferId to) {
  Launch launch;
  launch.kind = LaunchKind::Copy;
  launch.buffers = {{from, Dim(0)}, {to, Dim(0)}};
  program_.launches.push_back(std::move(launch));
}

std::string tagged_name(const Graph& graph, NodeId id) {
  const std::string& tag = graph.node(id).tag;
  return tag.empty() ? node_name(graph, id) : cat(node_name(graph, id), " (", tag, ")");
}

int ProgramBuilder::add_site(ErrorSite site) {
  program_.sites.push_back(std::move(site));
  return static_cast<int>(program_.sites.size()) - 1;
}

Result<std::shared_ptr<const Graph>> ProgramBuilder::single_node_graph(NodeId id) const {
  const Node& node = graph_.node(id);
  auto single = std::make_shared<Graph>();
  single->name = op_name(node.op);
  single->symbols = graph_.symbols;
  std::vector<ValueId> operands;
  for (ValueId operand : node.operands) {
    operands.push_back(operand.is_valid() ? single->add_input({}, graph_.type(operand)) : ValueId{});
  }
  Types results;
  for (ValueId result : node.results) results.push_back(graph_.type(result));
  NodeId copy = single->append_unchecked(node.op, std::move(operands), node.attributes, node.regions,
                                         std::move(results));
  single->node(copy).tag = node.tag;
  for (ValueId result : single->node(copy).results) single->add_output(result);
  return std::shared_ptr<const Graph>(std::move(single));
}

static Status bind_node_buffers(const ProgramBuilder& builder, const Node& node, Launch& launch) {
  for (ValueId operand : node.operands) {
    if (!operand.is_valid()) continue;
    if (!builder.buffer_of(operand).is_valid()) {
      return Status::internal(
          cat("operand ", builder.graph().value_name(operand), " of ", op_name(node.op), " has no buffer"));
    }
    launch.buffers.push_back({builder.buffer_of(operand), Dim(0)});
  }
  for (ValueId result : node.results) launch.buffers.push_back({builder.buffer_of(result), Dim(0)});
  return Status::ok();
}

Status ProgramBuilder::launch_reference(NodeId id, FallbackReason reason, std::string sentence) {
  Launch launch;
  launch.kind = LaunchKind::Reference;
  TW_ASSIGN_OR_RETURN(launch.node, single_node_graph(id));
  TW_RETURN_IF_ERROR(bind_node_buffers(*this, graph_.node(id), launch));
  launch.reason = static_cast<int>(program_.fallbacks.size());
  launch.nodes = {id.index};
  program_.fallbacks.push_back(Fallback{id.index, graph_.node(id).op, reason, std::move(sentence)});
  program_.launches.push_back(std::move(launch));
  return Status::ok();
}

Status ProgramBuilder::launch_builtin(NodeId id, std::string name) {
  Launch launch;
  launch.kind = LaunchKind::Builtin;
  launch.builtin = std::move(name);
  TW_ASSIGN_OR_RETURN(launch.node, single_node_graph(id));
  TW_RETURN_IF_ERROR(bind_node_buffers(*this, graph_.node(id), launch));
  launch.nodes = {id.index};
  program_.launches.push_back(std::move(launch));
  return Status::ok();
}

}  // namespace tilewright
