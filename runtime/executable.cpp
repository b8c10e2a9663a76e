// Creation, plans by binding, frozen inputs, and a run from the checks of its tensors to its outputs.
#include "runtime/executable.h"

#include <algorithm>
#include <chrono>
#include <mutex>

#include "base/float_environment.h"
#include "base/log.h"
#include "runtime/bound_plan.h"
#include "runtime/check.h"
#include "runtime/launcher.h"
#include "runtime/profile.h"
#include "runtime/run_frame.h"

namespace tilewright {
namespace {

constexpr size_t kMaximumPlans = 32;

bool has_kernels(const Program& program) { return !program.kernels.empty(); }

}  // namespace

Executable::Executable(std::shared_ptr<Session> session, Graph graph, Program program,
                       std::vector<LoadedKernel> kernels, CompileRecord record)
    : session_(std::move(session)),
      graph_(std::move(graph)),
      program_(std::move(program)),
      kernels_(std::move(kernels)),
      record_(std::move(record)),
      boundary_(graph_),
      lifetimes_(find_lifetimes(program_)),
      copied_input_bytes_(new std::atomic<int64_t>[graph_.inputs.size()]()),
      profile_(record_.profile.empty()
                   ? nullptr
                   : std::make_unique<Profile>(program_, record_.profile == "-" ? "" : record_.profile)) {}

Executable::~Executable() = default;

Result<std::shared_ptr<Executable>> Executable::create(std::shared_ptr<Session> session, Graph graph,
                                                       Program program, std::vector<LoadedKernel> kernels,
                                                       CompileRecord record) {
  TW_ASSERT(kernels.size() == program.kernels.size());
  std::shared_ptr<Executable> made(new Executable(std::move(session), std::move(graph), std::move(program),
                                                  std::move(kernels), std::move(record)));
  made->input_buffers_.resize(made->graph_.inputs.size());
  made->output_buffers_.resize(made->graph_.outputs.size());
  made->frozen_.resize(made->graph_.inputs.size());
  for (uint32_t index = 0; index < made->program_.buffers.size(); ++index) {
    const Buffer& buffer = made->program_.buffers[index];
    const size_t at = static_cast<size_t>(buffer.index);
    if (buffer.kind == BufferKind::Input) {
      TW_ASSERT(at < made->input_buffers_.size());
      made->input_buffers_[at] = BufferId{index};
    } else if (buffer.kind == BufferKind::Output) {
      TW_ASSERT(at < made->output_buffers_.size());
      made->output_buffers_[at] = BufferId{index};
    }
  }
  for (size_t output = 0; output < made->output_buffers_.size(); ++output) {
    TW_ASSERT(made->output_buffers_[output].is_valid());
    const int input = made->graph_.outputs[output].alias_input;
    const BufferId from = input >= 0 ? made->input_buffers_[static_cast<size_t>(input)] : BufferId{};
    made->alias_in_place_.push_back(
        input >= 0 && (!from.is_valid() || may_share_memory(made->program_, made->lifetimes_, from,
                                                            made->output_buffers_[output])));
  }
  return made;
}

Status Executable::check_counts(const RunRequest& request) const {
  if (request.inputs.size() != graph_.inputs.size())
    return Status::invalid(
        cat("run @", graph_.name, ": ", request.inputs.size(), " inputs, expected ", graph_.inputs.size()));
  if (request.given.size() != graph_.outputs.size())
    return Status::invalid(
        cat("run @", graph_.name, ": ", request.given.size(), " outputs, expected ", graph_.outputs.size()));
  for (size_t output = 0; output < request.given.size(); ++output)
    if (!request.given[output] && output >= request.asked.size())
      return Status::invalid(cat("run @", graph_.name, ": ", boundary_.output_name(static_cast<int>(output)),
                                 " is neither given nor asked for"));
  for (int64_t input : request.donated)
    if (input < 0 || input >= static_cast<int64_t>(graph_.inputs.size()))
      return Status::invalid(
          cat("run @", graph_.name, ": donated input ", input, " of ", graph_.inputs.size()));
  if (request.symbols)
    for (const auto& [name, value] : *request.symbols)
      if (!graph_.find_symbol(name))
        return Status::invalid(cat("run @", graph_.name, ": no symbol ", name, " in this graph"));
  return Status::ok();
}

Status Executable::resolve_inputs(std::span<const TensorView* const> inputs,
                                  std::vector<const TensorView*>* resolved,
                                  std::vector<std::shared_ptr<const Frozen>>* held) {
  if (inputs.size() != graph_.inputs.size())
    return Status::invalid(
        cat("run @", graph_.name, ": ", inputs.size(), " inputs, expected ", graph_.inputs.size()));
  resolved->assign(inputs.begin(), inputs.end());
  for (size_t input = 0; input < inputs.size(); ++input) {
    if (inputs[input]) continue;
    if (!graph_.inputs[input].frozen)
      return Status::invalid(
          cat("run @", graph_.name, ": ", boundary_.input_name(static_cast<int>(input)), " is missing"));
    std::shared_ptr<const Frozen> frozen;
    {
      std::lock_guard lock(mutex_);
      frozen = frozen_[input];
    }
    if (!frozen)
      return Status::precondition(cat("run @", graph_.name, ": ",
                                      boundary_.input_name(static_cast<int>(input)),
                                      " is frozen and was neither bound nor passed"));
    (*resolved)[input] = &frozen->view;
    held->push_back(std::move(frozen));
  }
  return Status::ok();
}

Status Executable::bind_frozen(int input, const TensorView& tensor, std::shared_ptr<const void> owner) {
  if (input < 0 || static_cast<size_t>(input) >= graph_.inputs.size())
    return Status::invalid(cat("bind @", graph_.name, ": input ", input, " of ", graph_.inputs.size()));
  const Input& declared = graph_.inputs[static_cast<size_t>(input)];
  if (!declared.frozen)
    return Status::invalid(
        cat("bind @", graph_.name, ": ", boundary_.input_name(input), " is not declared frozen"));
  const TensorType& type = graph_.type(declared.value);
  if (tensor.dtype != type.dtype || tensor.rank != type.rank())
    return Status::invalid(cat("bind @", graph_.name, ": ", boundary_.input_name(input), " is ",
                               tensor.to_string(), ", expected ", type.to_string()));
  auto frozen = std::make_shared<Frozen>();
  frozen->sizes.assign(tensor.sizes, tensor.sizes + tensor.rank);
  frozen->strides = tensor.strides ? std::vector<int64_t>(tensor.strides, tensor.strides + tensor.rank)
                                   : TensorRef::dense_strides(frozen->sizes);
  frozen->view = TensorView{tensor.dtype,           tensor.rank, frozen->sizes.data(),
                            frozen->strides.data(), tensor.data, tensor.on_device};
  frozen->owner = std::move(owner);
  if (runs_on_device() && !tensor.on_device) TW_RETURN_IF_ERROR(upload_frozen(*frozen));
  std::shared_ptr<const Frozen> current = std::move(frozen);
  {
    std::lock_guard lock(mutex_);
    current.swap(frozen_[static_cast<size_t>(input)]);
  }
  // The replaced tensor goes here, outside of the lock: its deleter is the host's and may call us.
  return Status::ok();
}

Result<std::shared_ptr<const BoundPlan>> Executable::make_plan(std::vector<int64_t> symbols) const {
  TW_ASSIGN_OR_RETURN(BoundSizes sizes, boundary_.resolve(std::move(symbols)));
  return bind_program(program_, lifetimes_, std::move(sizes), session_->memory(),
                      runs_on_device() ? session_->device() : nullptr, record_.check);
}

Result<std::shared_ptr<const BoundPlan>> Executable::find_plan(std::span<const TensorView* const> inputs,
                                                               const Bindings& given,
                                                               std::vector<int64_t>& symbols) {
  TW_RETURN_IF_ERROR(boundary_.bind(inputs, given, &symbols));
  {
    std::lock_guard lock(mutex_);
    for (auto at = plans_.begin(); at != plans_.end(); ++at) {
      if ((*at)->sizes.symbols != symbols) continue;
      plans_.splice(plans_.begin(), plans_, at);
      return plans_.front();
    }
  }
  TW_ASSIGN_OR_RETURN(std::shared_ptr<const BoundPlan> made, make_plan(symbols));
  std::shared_ptr<const BoundPlan> oldest;  // freed outside of the lock, by the host's allocator
  std::lock_guard lock(mutex_);
  plans_.push_front(made);
  if (plans_.size() > kMaximumPlans) {
    oldest = std::move(plans_.back());
    plans_.pop_back();
  }
  return made;
}

Result<std::vector<std::vector<int64_t>>> Executable::output_sizes(std::span<const TensorView* const> inputs,
                                                                   const Bindings& given) {
  std::vector<const TensorView*> resolved;
  std::vector<std::shared_ptr<const Frozen>> held;
  TW_RETURN_IF_ERROR(resolve_inputs(inputs, &resolved, &held));
  std::vector<int64_t> symbols;
  TW_RETURN_IF_ERROR(boundary_.bind(resolved, given, &symbols));
  TW_ASSIGN_OR_RETURN(BoundSizes sizes, boundary_.resolve(std::move(symbols)));
  return std::move(sizes.outputs);
}

std::unique_ptr<RunFrame> Executable::take_frame() {
  {
    std::lock_guard lock(mutex_);
    if (!frames_.empty()) {
      auto frame = std::move(frames_.back());
      frames_.pop_back();
      return frame;
    }
  }
  auto frame = std::make_unique<RunFrame>();
  frame->pointers.resize(program_.buffers.size());
  frame->input_strides.resize(graph_.inputs.size());
  return frame;
}

void Executable::give_frame(std::unique_ptr<RunFrame> frame) {
  frame->reset();
  std::lock_guard lock(mutex_);
  frames_.push_back(std::move(frame));
}

Status Executable::run(const RunRequest& request) {
  return record_.check ? run_checked(request) : run_once(request, nullptr);
}

Status Executable::run_checked(const RunRequest& request) {
  TW_RETURN_IF_ERROR(check_counts(request));
  std::vector<const TensorView*> inputs;
  std::vector<std::shared_ptr<const Frozen>> held;
  TW_RETURN_IF_ERROR(resolve_inputs(request.inputs, &inputs, &held));
  static const Bindings* const no_symbols = new Bindings;
  const Bindings& given = request.symbols ? *request.symbols : *no_symbols;
  std::vector<int64_t> symbols;
  TW_ASSIGN_OR_RETURN(std::shared_ptr<const BoundPlan> plan, find_plan(inputs, given, symbols));
  TW_ASSIGN_OR_RETURN(const std::vector<OwnedTensor> before,
                      copy_inputs(inputs, session_->device(), request.stream));
  TW_RETURN_IF_ERROR(run_once(request, &before));
  std::vector<TensorRef> found;
  std::vector<OwnedTensor> fetched;
  for (size_t output = 0; output < graph_.outputs.size(); ++output) {
    const TensorView* view = output < request.given.size() ? request.given[output] : nullptr;
    bool on_device = view && view->on_device;
    if (view) {
      found.push_back(view->ref());
    } else {
      const AskedTensor& asked = request.asked[output];
      on_device = asked.on_device;
      found.push_back({asked.dtype, asked.sizes, TensorRef::dense_strides(asked.sizes), asked.block.data()});
    }
    if (!on_device) continue;
    TW_ASSIGN_OR_RETURN(OwnedTensor copy, session_->device()->fetch(found.back(), request.stream));
    found.back() = copy.ref;
    fetched.push_back(std::move(copy));
  }
  const DefaultFloatEnvironment environment;
  // Every kernel was checked by itself before.
  const std::string where_else =
      record_.lowered ? ", though each kernel agrees with the lowered graph: a pass changed the graph" : "";
  return compare_with_reference(*session_, graph_, program_, plan->sizes.bindings, before, found, where_else);
}

Status Executable::run_once(const RunRequest& request, const std::vector<OwnedTensor>* before) {
  TW_RETURN_IF_ERROR(check_counts(request));
  if (session_->device() && !runs_on_device() && wants_device(request))
    return run_with_device_tensors(request);
  const DefaultFloatEnvironment environment;
  const auto start = std::chrono::steady_clock::now();
  std::unique_ptr<RunFrame> frame = take_frame();
  std::vector<const TensorView*>& inputs = frame->inputs;
  std::vector<std::shared_ptr<const Frozen>> held;
  TW_RETURN_IF_ERROR(resolve_inputs(request.inputs, &inputs, &held));
  static const Bindings* const no_symbols = new Bindings;
  TW_ASSIGN_OR_RETURN(std::shared_ptr<const BoundPlan> plan,
                      find_plan(inputs, request.symbols ? *request.symbols : *no_symbols, frame->symbols));
  frame->profiling = profile_ != nullptr;
  frame->stream = request.stream;
  const Status status = runs_on_device() ? run_on_device(request, inputs, *plan, *frame, before)
                                         : run_bound(request, inputs, *plan, *frame, before);
  if (!status.is_ok())
    for (AskedTensor& asked : request.asked) asked = AskedTensor();

  const int64_t nanoseconds =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count();
  const int64_t output_copies = static_cast<int64_t>(frame->output_copies.size());
  totals_.runs += 1;
  totals_.run_nanoseconds += nanoseconds;
  totals_.input_copies += frame->input_copies;
  totals_.input_copy_bytes += frame->input_copy_bytes;
  totals_.output_copies += output_copies;
  totals_.bytes_fresh += frame->bytes_fresh;
  totals_.bytes_recycled += frame->bytes_recycled;
  totals_.kernel_launches += frame->kernel_launches;
  totals_.reference_launches += frame->reference_launches;
  totals_.other_launches += frame->other_launches;
  totals_.host_builtins += frame->host_builtins;
  totals_.arena_bytes = plan->arena.bytes;
  SessionCounters& counters = session_->counters();
  counters.runs += 1;
  counters.run_nanoseconds += nanoseconds;
  counters.input_copies += frame->input_copies;
  counters.output_copies += output_copies;
  if (!status.is_ok()) counters.run_errors += 1;
  if (profile_) profile_->add(frame->samples);
  give_frame(std::move(frame));
  return status;
}

namespace {

Result<Block> take_block(Memory& memory, int64_t bytes, RunFrame& frame) {
  TW_ASSIGN_OR_RETURN(Block block, memory.allocate(bytes));
  (block.is_recycled() ? frame.bytes_recycled : frame.bytes_fresh) += bytes;
  return block;
}

// Bytes that a tensor of these sizes and (non-negative) strides spans.
int64_t span_bytes(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides, DType dtype) {
  int64_t last = 0;
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    if (sizes[dim] == 0) return 0;
    last += (sizes[dim] - 1) * std::max<int64_t>(strides[dim], 0);
  }
  return (last + 1) * dtype_bytes(dtype);
}

}  // namespace

Status Executable::place_inputs(std::span<const TensorView* const> inputs, const BoundPlan& plan,
                                RunFrame& frame) {
  for (size_t input = 0; input < inputs.size(); ++input) {
    const TensorView& tensor = *inputs[input];
    const int index = static_cast<int>(input);
    TW_RETURN_IF_ERROR(boundary_.check_input(plan.sizes, index, tensor));
    const BufferId buffer = input_buffers_[input];
    if (!buffer.is_valid()) continue;  // nobody reads it
    const bool any = graph_.inputs[input].layout.kind == Layout::Kind::Any;
    std::vector<int64_t>& strides = frame.input_strides[input];
    // Kernels are compiled for dense memory where nothing else is declared.
    if (boundary_.fits_layout(plan.sizes, index, tensor) &&
        !(has_kernels(program_) && !tensor.is_row_major())) {
      frame.pointers[buffer.index] = tensor.data;
      if (!any) {
        strides = plan.sizes.input_strides[input];
      } else if (tensor.strides) {
        strides.assign(tensor.strides, tensor.strides + tensor.rank);
      } else {
        strides = TensorRef::dense_strides(plan.sizes.inputs[input]);
      }
      continue;
    }
    strides = any || has_kernels(program_) ? TensorRef::dense_strides(plan.sizes.inputs[input])
                                           : plan.sizes.input_strides[input];
    const int64_t bytes = span_bytes(plan.sizes.inputs[input], strides, tensor.dtype);
    TW_ASSIGN_OR_RETURN(Block block, take_block(session_->memory(), bytes, frame));
    TensorRef to = tensor.ref();
    to.strides = strides;
    to.data = block.data();
    copy_strided(tensor.ref(), to);
    frame.pointers[buffer.index] = block.data();
    frame.blocks.push_back(std::move(block));
    ++frame.input_copies;
    frame.input_copy_bytes += bytes;
    copied_input_bytes_[input] += bytes;
  }
  return Status::ok();
}

Status Executable::pair_outputs(const RunRequest& request, std::span<const TensorView* const> inputs,
                                RunFrame& frame) const {
  frame.output_inputs.assign(request.given.size(), -1);
  std::map<uintptr_t, std::pair<uintptr_t, int>> donated;  // begin: end and input
  std::vector<bool> seen(request.donated.empty() ? 0 : inputs.size(), false);
  for (const int64_t input : request.donated) {
    const size_t at = static_cast<size_t>(input);
    if (seen[at])
      return Status::invalid(cat("run @", graph_.name, ": ", boundary_.input_name(static_cast<int>(input)),
                                 " is donated twice"));
    seen[at] = true;
    uintptr_t begin, end;
    inputs[at]->byte_range(&begin, &end);
    donated[begin] = {end, static_cast<int>(input)};
  }
  for (size_t output = 0; output < request.given.size(); ++output) {
    if (!request.given[output]) continue;
    uintptr_t begin, end, input_begin, input_end;
    request.given[output]->byte_range(&begin, &end);
    if (begin == end) continue;
    const int alias = graph_.outputs[output].alias_input;
    if (alias >= 0) {
      inputs[static_cast<size_t>(alias)]->byte_range(&input_begin, &input_end);
      if (input_begin == begin && input_end == end) frame.output_inputs[output] = alias;
    }
    if (frame.output_inputs[output] >= 0) continue;
    const auto donor = donated.find(begin);
    if (donor != donated.end() && donor->second.first == end)
      frame.output_inputs[output] = donor->second.second;
  }
  return Status::ok();
}

bool Executable::may_write_over(size_t output, int input) const {
  if (input == graph_.outputs[output].alias_input) return alias_in_place_[output];
  std::lock_guard lock(mutex_);
  const auto [known, fresh] = donated_in_place_.try_emplace({output, input}, false);
  if (fresh)
    known->second = may_share_memory(program_, lifetimes_, input_buffers_[static_cast<size_t>(input)],
                                     output_buffers_[output]);
  return known->second;
}

Status Executable::check_overlaps(const RunRequest& request, std::span<const TensorView* const> inputs,
                                  RunFrame& frame) const {
  std::vector<ByteRange>&outputs = frame.written, &reads = frame.read;
  outputs.clear();
  reads.clear();
  for (size_t output = 0; output < request.given.size(); ++output) {
    if (!request.given[output]) continue;
    ByteRange range;
    range.argument = static_cast<int>(output);
    request.given[output]->byte_range(&range.begin, &range.end);
    outputs.push_back(range);
  }
  if (outputs.empty()) return Status::ok();
  // Two outputs: after sorting, neighbours overlap if any do.
  std::sort(outputs.begin(), outputs.end(),
            [](const ByteRange& a, const ByteRange& b) { return a.begin < b.begin; });
  const ByteRange* previous = nullptr;
  for (const ByteRange& range : outputs) {
    if (range.begin == range.end) continue;
    if (previous && range.begin < previous->end)
      return Status::invalid(cat("run @", graph_.name, ": ", boundary_.output_name(previous->argument),
                                 " and ", boundary_.output_name(range.argument), " overlap in memory"));
    previous = &range;
  }
  std::vector<char>& is_alias = frame.is_alias;
  is_alias.assign(inputs.size(), 0);
  for (const int input : frame.output_inputs)
    if (input >= 0) is_alias[static_cast<size_t>(input)] = 1;
  for (size_t input = 0; input < inputs.size(); ++input) {
    if (is_alias[input]) continue;
    ByteRange range;
    range.argument = static_cast<int>(input);
    inputs[input]->byte_range(&range.begin, &range.end);
    reads.push_back(range);
  }
  if (const auto overlap = find_overlap(outputs, reads))
    return Status::invalid(cat("run @", graph_.name, ": ", boundary_.output_name(overlap->first), " and ",
                               boundary_.input_name(overlap->second),
                               " overlap in memory without permission to alias"));
  return Status::ok();
}

Status Executable::place_outputs(const RunRequest& request, std::span<const TensorView* const> inputs,
                                 const BoundPlan& plan, RunFrame& frame) {
  for (size_t output = 0; output < request.given.size(); ++output) {
    const uint32_t buffer = output_buffers_[output].index;
    const TensorType& type = graph_.type(graph_.outputs[output].value);
    const TensorView* given = request.given[output];
    if (!given) {
      AskedTensor& asked = request.asked[output];
      TW_ASSIGN_OR_RETURN(asked.block, take_block(session_->memory(), plan.buffer_bytes[buffer], frame));
      asked.dtype = type.dtype;
      asked.sizes = plan.sizes.outputs[output];
      frame.pointers[buffer] = asked.block.data();
      continue;
    }
    TW_RETURN_IF_ERROR(boundary_.check_output(plan.sizes, static_cast<int>(output), *given));
    // An input that was copied, or that nobody reads, is in nobody's way.
    const int input = frame.output_inputs[output];
    const BufferId read = input >= 0 ? input_buffers_[static_cast<size_t>(input)] : BufferId{};
    const bool aliased =
        read.is_valid() && frame.pointers[read.index] == inputs[static_cast<size_t>(input)]->data;
    const bool aligned =
        reinterpret_cast<uintptr_t>(given->data) % static_cast<uintptr_t>(dtype_bytes(type.dtype)) == 0;
    if (given->is_row_major() && aligned && (!aliased || may_write_over(output, input))) {
      frame.pointers[buffer] = given->data;
      continue;
    }
    TW_ASSIGN_OR_RETURN(Block block, take_block(session_->memory(), plan.buffer_bytes[buffer], frame));
    frame.pointers[buffer] = block.data();
    OutputCopy copy{given->ref(), given->ref()};
    copy.from.strides = TensorRef::dense_strides(copy.from.sizes);
    copy.from.data = block.data();
    frame.output_copies.push_back(std::move(copy));
    frame.blocks.push_back(std::move(block));
  }
  return Status::ok();
}

Status Executable::run_bound(const RunRequest& request, std::span<const TensorView* const> inputs,
                             const BoundPlan& plan, RunFrame& frame, const std::vector<OwnedTensor>* before) {
  TW_RETURN_IF_ERROR(place_inputs(inputs, plan, frame));
  TW_RETURN_IF_ERROR(pair_outputs(request, inputs, frame));
  TW_RETURN_IF_ERROR(check_overlaps(request, inputs, frame));
  TW_RETURN_IF_ERROR(place_outputs(request, inputs, plan, frame));
  TW_ASSIGN_OR_RETURN(frame.arena, take_block(session_->memory(), plan.arena.bytes, frame));
  char* arena = static_cast<char*>(frame.arena.data());
  for (size_t index = 0; index < program_.buffers.size(); ++index) {
    if (plan.arena.offsets[index] >= 0)
      frame.pointers[index] = arena + plan.arena.offsets[index];
    else if (plan.constants[index])
      frame.pointers[index] = plan.constants[index];
  }
  if (has_kernels(program_)) {
    frame.arguments.resize(static_cast<size_t>(plan.max_arguments));
    int64_t scratch = 0;
    for (const LoadedKernel& kernel : kernels_) scratch = std::max(scratch, kernel.scratch_bytes);
    frame.scratch_stride = (scratch + 4095) / 4096 * 4096;
    const int64_t wanted = frame.scratch_stride * session_->thread_count();
    if (frame.scratch.bytes() < wanted) {
      TW_ASSIGN_OR_RETURN(frame.scratch, take_block(session_->memory(), wanted, frame));
    }
  }
  TW_RETURN_IF_ERROR(Launcher(*session_, program_, kernels_, plan, frame, nullptr).run_all());
  if (before && record_.lowered)
    TW_RETURN_IF_ERROR(compare_kernels(*session_, program_, *record_.lowered, plan, frame.pointers, *before));
  for (const OutputCopy& copy : frame.output_copies) copy_strided(copy.from, copy.to);
  return Status::ok();
}

}  // namespace tilewright
