// Lowering of scan and of counted whiles: the plan of the region, run once a step on buffers that move along
// the stacked values.
#include <algorithm>
#include <optional>
#include <set>

#include "base/text.h"
#include "codegen/lower/program_builder.h"
#include "codegen/lower/tile_sizes.h"
#include "ir/inference.h"

namespace tilewright {

namespace {

// The region as a graph to plan by itself; nothing when it declares symbols that the graph does not have.
std::optional<Graph> plannable_region(const Graph& graph, const Graph& region) {
  for (const Symbol& symbol : region.symbols) {
    if (!graph.find_symbol(symbol.name)) return std::nullopt;
  }
  Graph body = region;
  body.symbols = graph.symbols;
  return body;
}

void move_sites(tile::Block& block, int by) {
  for (tile::Instruction& instruction : block.body) {
    if (instruction.opcode == tile::Opcode::Report) instruction.site += by;
    for (tile::Block& inner : instruction.blocks) move_sites(inner, by);
  }
}

bool writes(const Program& program, const Launch& launch, size_t position) {
  switch (launch.kind) {
    case LaunchKind::Kernel:
      return program.kernels[static_cast<size_t>(launch.kernel)].kernel.params[position].mode !=
             tile::AccessMode::Read;
    case LaunchKind::Builtin:
    case LaunchKind::Reference: return position >= launch.node->inputs.size();
    case LaunchKind::Copy: return position == 1;
    case LaunchKind::Loop: return true;
  }
  return true;
}

// True when the launch, or one inside it, uses the buffer; in loops every use counts as both kinds.
bool uses(const Program& program, const Launch& launch, BufferId buffer, bool for_writing,
          bool in_loop = false) {
  for (size_t i = 0; i < launch.buffers.size(); ++i) {
    if (launch.buffers[i].buffer != buffer) continue;
    if (in_loop || !for_writing || writes(program, launch, i)) return true;
  }
  return std::any_of(launch.body.begin(), launch.body.end(),
                     [&](const Launch& inner) { return uses(program, inner, buffer, for_writing, true); });
}

// A region run a known number of times: the carries first among its inputs, then slices of stacked operands.
struct LoopShape {
  size_t carries = 0;
  Dim trips;
  bool reverse = false;
};

class RegionLoop {
 public:
  RegionLoop(ProgramBuilder& builder, NodeId id, Graph body, LoopShape shape)
      : builder_(builder),
        graph_(builder.graph()),
        id_(id),
        node_(graph_.node(id)),
        body_(std::move(body)),
        carries_(shape.carries),
        length_(std::move(shape.trips)),
        reverse_(shape.reverse) {}

  Result<bool> emit() {
    drop_unchanged();
    PlanOptions options = builder_.options();
    options.wants_dump = nullptr;
    TW_ASSIGN_OR_RETURN(step_, plan_program(body_, builder_.limits(), options));
    if (!step_.fallbacks.empty()) return false;
    loop_.kind = LaunchKind::Loop;
    loop_.count = length_;
    loop_.nodes = {id_.index};
    place_buffers();
    first_kernel_ = static_cast<int>(builder_.program().kernels.size());
    add_kernels();
    for (const Launch& launch : step_.launches) TW_RETURN_IF_ERROR(add_launch(launch, loop_.body));
    for (const auto& [from, to] : handed_on_) add_copy(from, to);
    builder_.program().launches.push_back(std::move(loop_));
    return true;
  }

 private:
  // Carries that the region hands on unchanged are read where they are; their outputs go away.
  void drop_unchanged() {
    std::vector<Output> kept;
    unchanged_.assign(carries_, false);
    for (size_t i = 0; i < body_.outputs.size(); ++i) {
      if (i < carries_ && body_.outputs[i].value == body_.inputs[i].value) {
        unchanged_[i] = true;
        continue;
      }
      kept.push_back(body_.outputs[i]);
      output_of_.push_back(i);
    }
    body_.outputs = std::move(kept);
  }

  bool is_used(ValueId value) const {
    for (const Node& node : graph_.nodes()) {
      if (std::find(node.operands.begin(), node.operands.end(), value) != node.operands.end()) return true;
    }
    return std::any_of(graph_.outputs.begin(), graph_.outputs.end(),
                       [&](const Output& output) { return output.value == value; });
  }

  // A buffer of the value that nothing else in the loop goes by: advances move a buffer for all who use it.
  BufferId own_buffer(ValueId value) {
    BufferId buffer = builder_.buffer_of(value);
    if (taken_.insert(buffer.index).second) return buffer;
    BufferId copy = builder_.add_temporary(graph_.type(value), "scan operand");
    builder_.launch_copy(buffer, copy);
    return copy;
  }

  BufferUse stacked(BufferId buffer, const TensorType& slice) {
    Dim elements = slice.elements();
    loop_.advances.emplace_back(buffer, reverse_ ? Dim(0) - elements : elements);
    moving_.insert(buffer.index);
    return {buffer, reverse_ ? (length_ - Dim(1)) * elements : Dim(0)};
  }

  // Where the buffers of one step lie in the program.
  void place_buffers() {
    places_.resize(step_.buffers.size());
    for (size_t b = 0; b < step_.buffers.size(); ++b) {
      const Buffer& buffer = step_.buffers[b];
      if (buffer.kind == BufferKind::Input) places_[b] = place_input(static_cast<size_t>(buffer.index));
      if (buffer.kind == BufferKind::Temporary)
        places_[b] = {builder_.add_temporary(buffer.type, buffer.name), {}};
      if (buffer.kind == BufferKind::Constant) places_[b] = {add_constant(buffer), {}};
    }
    for (size_t b = 0; b < step_.buffers.size(); ++b) {
      const Buffer& buffer = step_.buffers[b];
      if (buffer.kind != BufferKind::Output) continue;
      size_t result = output_of_[static_cast<size_t>(buffer.index)];
      places_[b] = result < carries_ ? place_carry(static_cast<uint32_t>(b), result)
                                     : stacked(builder_.buffer_of(node_.results[result]), buffer.type);
    }
  }

  BufferId add_constant(const Buffer& buffer) {
    Program& program = builder_.program();
    program.buffers.push_back(buffer);
    return BufferId{static_cast<uint32_t>(program.buffers.size() - 1)};
  }

  // The state of a carry lives in its result.
  BufferUse place_input(size_t input) {
    ValueId operand = node_.operands[input];
    if (input >= carries_) return stacked(own_buffer(operand), body_.type(body_.inputs[input].value));
    BufferId result = builder_.buffer_of(node_.results[input]);
    if (!unchanged_[input]) {
      builder_.launch_copy(builder_.buffer_of(operand), result);
      return {result, {}};
    }
    if (is_used(node_.results[input])) builder_.launch_copy(builder_.buffer_of(operand), result);
    return {own_buffer(operand), {}};
  }

  // The new state goes straight over the old one when no launch from there on reads the old.
  BufferUse place_carry(uint32_t buffer, size_t carry) {
    BufferId state = builder_.buffer_of(node_.results[carry]);
    BufferId old;
    for (size_t b = 0; b < step_.buffers.size(); ++b) {
      bool is_old =
          step_.buffers[b].kind == BufferKind::Input && step_.buffers[b].index == static_cast<int>(carry);
      if (is_old) old = BufferId{static_cast<uint32_t>(b)};
    }
    size_t first = 0;
    while (first < step_.launches.size() && !uses(step_, step_.launches[first], BufferId{buffer}, true))
      ++first;
    bool read_later =
        std::any_of(step_.launches.begin() + static_cast<std::ptrdiff_t>(first), step_.launches.end(),
                    [&](const Launch& launch) { return uses(step_, launch, old, false); });
    if (!read_later) return {state, {}};
    BufferId next = builder_.add_temporary(step_.buffers[buffer].type, "scan state");
    handed_on_.emplace_back(next, state);
    return {next, {}};
  }

  void add_kernels() {
    Program& program = builder_.program();
    int sites = static_cast<int>(program.sites.size());
    program.sites.insert(program.sites.end(), step_.sites.begin(), step_.sites.end());
    for (KernelEntry& entry : step_.kernels) {
      entry.kernel.name = cat("k", program.kernels.size());
      entry.description = cat("scan: ", entry.description);
      entry.nodes = {id_.index};
      move_sites(entry.kernel.body, sites);
      program.kernels.push_back(std::move(entry));
    }
  }

  Status add_launch(const Launch& source, std::vector<Launch>& target) {
    Launch launch = source;
    launch.nodes = {id_.index};
    launch.body.clear();
    for (BufferUse& use : launch.buffers) {
      const BufferUse& place = places_[use.buffer.index];
      if (!place.buffer.is_valid()) return Status::internal("a buffer of a scan step has no place");
      use = {place.buffer, place.offset + use.offset};
    }
    for (auto& [buffer, elements] : launch.advances) buffer = places_[buffer.index].buffer;
    if (launch.kind == LaunchKind::Kernel) launch.kernel += first_kernel_;
    if (launch.kind == LaunchKind::Copy) {
      bool moves =
          moving_.count(launch.buffers[0].buffer.index) + moving_.count(launch.buffers[1].buffer.index) > 0;
      if (moves) launch = copy_kernel(source, launch);
    }
    for (const Launch& inner : source.body) TW_RETURN_IF_ERROR(add_launch(inner, launch.body));
    target.push_back(std::move(launch));
    return Status::ok();
  }

  // A copy launch takes whole buffers; a slice is copied by a kernel.
  Launch copy_kernel(const Launch& source, const Launch& placed) {
    const TensorType type = step_.buffers[source.buffers[0].buffer.index].type;
    Dim count = type.elements();
    int64_t lanes = clip_tile(count, hint_of(count, graph_.symbols), 4096);
    tile::KernelBuilder kernel("");
    kernel.set_grid({Dim::ceil_div(count, Dim(lanes))});
    tile::DimIndex line{tile::KernelBuilder::grid_id(0) * Dim(lanes), {{0, 1}}, {}};
    int from = kernel.add_param(tile::Param{"from", type.dtype, {count}, {}, tile::AccessMode::Read});
    int to = kernel.add_param(tile::Param{"to", type.dtype, {count}, {}, tile::AccessMode::Write});
    ValueId value = kernel.load(tile::Access{from, {line}, false}, tile::TileType{type.dtype, {lanes}});
    kernel.store(value, tile::Access{to, {line}, false});
    builder_.launch_kernel(kernel.take(), {placed.buffers[0].buffer, placed.buffers[1].buffer}, "scan: copy",
                           {id_.index});
    Launch launch = std::move(builder_.program().launches.back());
    builder_.program().launches.pop_back();
    launch.buffers = placed.buffers;
    return launch;
  }

  void add_copy(BufferId from, BufferId to) {
    Launch launch;
    launch.kind = LaunchKind::Copy;
    launch.buffers = {{from, Dim(0)}, {to, Dim(0)}};
    launch.nodes = {id_.index};
    loop_.body.push_back(std::move(launch));
  }

  ProgramBuilder& builder_;
  const Graph& graph_;
  NodeId id_;
  const Node& node_;
  Graph body_;
  size_t carries_;
  Dim length_;
  bool reverse_;
  Program step_;
  Launch loop_;
  std::vector<bool> unchanged_;    // by carry
  std::vector<size_t> output_of_;  // by output of the step: the result of the node
  std::vector<BufferUse> places_;  // by buffer of the step
  std::set<uint32_t> taken_, moving_;
  std::vector<std::pair<BufferId, BufferId>> handed_on_;  // new state, old state
  int first_kernel_ = 0;
};

LoopShape scan_shape(const Node& node) {
  AttributeReader attributes(node.op, node.attributes);
  return {static_cast<size_t>(attributes.get_int("carries")), attributes.get_dims("length")[0],
          attributes.get_bool("reverse")};
}

std::optional<int64_t> integer_constant(const Graph& graph, ValueId value) {
  NodeId producer = graph.value(value).node;
  if (!producer.is_valid() || graph.node(producer).op != Op::Constant) return std::nullopt;
  if (!is_integer(graph.type(value).dtype) || !graph.type(value).shape.empty()) return std::nullopt;
  const Node& node = graph.node(producer);
  return element_as_integer(*AttributeReader(node.op, node.attributes).get_constant("value"), 0);
}

// The index among the region's inputs; -1: not an input.
int input_index(const Graph& region, ValueId value) {
  return region.value(value).node.is_valid() ? -1 : static_cast<int>(region.value(value).result);
}

// A carry that begins at a constant, moves by a constant and is compared with a constant tells the trips.
std::optional<int64_t> trips_of_while(const Graph& graph, const Node& node) {
  const Graph &condition = *node.regions[0], &body = *node.regions[1];
  NodeId test = condition.value(condition.outputs[0].value).node;
  if (!test.is_valid() || condition.node(test).op != Op::Compare) return std::nullopt;
  const Node& compare = condition.node(test);
  if (AttributeReader(compare.op, compare.attributes).get_string("direction") != "LT") return std::nullopt;
  // The value of a carry that the body hands on unchanged is the one it begins with.
  auto fixed = [&](ValueId value) -> std::optional<int64_t> {
    int input = input_index(condition, value);
    if (input < 0) return integer_constant(condition, value);
    if (input_index(body, body.outputs[input].value) != input) return std::nullopt;
    return integer_constant(graph, node.operands[input]);
  };
  int counter = input_index(condition, compare.operands[0]);
  std::optional<int64_t> limit = fixed(compare.operands[1]);
  if (counter < 0 || !limit) return std::nullopt;
  DType dtype = graph.type(node.operands[counter]).dtype;
  if (dtype != DType::I32 && dtype != DType::I64) return std::nullopt;
  std::optional<int64_t> first = integer_constant(graph, node.operands[counter]);
  NodeId step_node = body.value(body.outputs[counter].value).node;
  if (!first || !step_node.is_valid() || body.node(step_node).op != Op::Add) return std::nullopt;
  const Node& add = body.node(step_node);
  for (int side = 0; side < 2; ++side) {
    std::optional<int64_t> step = integer_constant(body, add.operands[1 - side]);
    if (input_index(body, add.operands[side]) != counter || !step || *step < 1) continue;
    if (*first >= *limit) return 0;
    // Far ends, where the counter might wrap, are left to the reference kernel.
    constexpr int64_t kFar = int64_t{1} << 30;
    if (*limit > kFar || *first < -kFar || *step > kFar) return std::nullopt;
    return (*limit - *first + *step - 1) / *step;
  }
  return std::nullopt;
}

// Answers false when the region does not plan to launches of its own.
Result<bool> lower_loop(ProgramBuilder& builder, NodeId id, const Graph& region, LoopShape shape) {
  std::optional<Graph> body = plannable_region(builder.graph(), region);
  if (!body) return false;
  return RegionLoop(builder, id, std::move(*body), std::move(shape)).emit();
}

}  // namespace

Result<bool> lower_control(ProgramBuilder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  const char* sentence = nullptr;
  bool lowered = false;
  if (node.op == Op::Scan) {
    sentence = "a step of the scan needs reference kernels of its own";
    TW_ASSIGN_OR_RETURN(lowered, lower_loop(builder, id, *node.regions[0], scan_shape(node)));
  } else if (node.op == Op::While) {
    sentence = "the trips of a while are not known before it runs";
    if (std::optional<int64_t> trips = trips_of_while(builder.graph(), node)) {
      sentence = "a step of the while needs reference kernels of its own";
      LoopShape shape{node.operands.size(), Dim(*trips), false};
      TW_ASSIGN_OR_RETURN(lowered, lower_loop(builder, id, *node.regions[1], std::move(shape)));
    }
  } else if (node.op == Op::Case) {
    sentence = "the branch of a case is not known before it runs";
  }
  if (lowered || !sentence) return lowered;
  TW_RETURN_IF_ERROR(builder.launch_reference(id, FallbackReason::Control, sentence));
  return true;
}

}  // namespace tilewright
