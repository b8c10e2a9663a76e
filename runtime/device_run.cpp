// Runs on a session's device: where inputs and outputs lie, and the copies that this needs.
#include "runtime/device_run.h"

#include <algorithm>

#include "base/text.h"
#include "runtime/bound_plan.h"
#include "runtime/check.h"
#include "runtime/launcher.h"
#include "runtime/run_frame.h"

namespace tilewright {
namespace {

Result<Block> take_device_block(Device& device, int64_t bytes, RunFrame& frame) {
  TW_ASSIGN_OR_RETURN(Block block, device.allocate(bytes, frame.stream));
  (block.is_recycled() ? frame.bytes_recycled : frame.bytes_fresh) += bytes;
  return block;
}

bool is_aligned(const TensorView& tensor) {
  return reinterpret_cast<uintptr_t>(tensor.data) % static_cast<uintptr_t>(dtype_bytes(tensor.dtype)) == 0;
}

bool any_on_device(std::span<const TensorView* const> tensors) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const TensorView* tensor) { return tensor && tensor->on_device; });
}

bool asks_for_device(const RunRequest& request) {
  if (request.asked_place == AskedPlace::Device) return true;
  return request.asked_place == AskedPlace::WithInputs && any_on_device(request.inputs);
}

// Launches of kernels that need room in global memory, in loops too.
int64_t scratch_of(const TargetLimits& limits, std::span<const LoadedKernel> kernels,
                   const std::vector<BoundLaunch>& launches) {
  int64_t bytes = 0;
  for (const BoundLaunch& launch : launches) {
    bytes = std::max(bytes, scratch_of(limits, kernels, launch.body));
    if (launch.launch->kind != LaunchKind::Kernel) continue;
    const LoadedKernel& kernel = kernels[static_cast<size_t>(launch.launch->kernel)];
    if (kernel.entry)
      bytes = std::max(bytes, kernel.scratch_bytes * device_blocks(limits, kernel, launch.grid));
  }
  return bytes;
}

}  // namespace

bool Executable::runs_on_device() const { return session_->device() && !program_.kernels.empty(); }

bool Executable::wants_device(const RunRequest& request) const {
  if (any_on_device(request.inputs) || any_on_device(request.given) || asks_for_device(request)) return true;
  std::lock_guard lock(mutex_);
  for (size_t input = 0; input < std::min(frozen_.size(), request.inputs.size()); ++input)
    if (!request.inputs[input] && frozen_[input] && frozen_[input]->view.on_device) return true;
  return false;
}

Status Executable::upload_frozen(Frozen& frozen) const {
  TensorRef from = frozen.view.ref();
  OwnedTensor dense = allocate_tensor(from.dtype, from.sizes);
  if (from.elements() > 0) copy_strided(from, dense.ref);
  Device& device = *session_->device();
  TW_ASSIGN_OR_RETURN(frozen.uploaded, device.allocate(dense.ref.bytes(), nullptr));
  TW_RETURN_IF_ERROR(device.upload(frozen.uploaded.data(), dense.ref.data, dense.ref.bytes(), nullptr));
  TW_RETURN_IF_ERROR(device.synchronize(nullptr));
  frozen.strides = dense.ref.strides;
  frozen.view.strides = frozen.strides.data();
  frozen.view.data = frozen.uploaded.data();
  frozen.view.on_device = true;
  frozen.owner.reset();
  return Status::ok();
}

Status Executable::place_device_inputs(std::span<const TensorView* const> inputs, const BoundPlan& plan,
                                       RunFrame& frame) {
  Device& device = *session_->device();
  for (size_t input = 0; input < inputs.size(); ++input) {
    const TensorView& tensor = *inputs[input];
    TW_RETURN_IF_ERROR(boundary_.check_input(plan.sizes, static_cast<int>(input), tensor));
    const BufferId buffer = input_buffers_[input];
    if (!buffer.is_valid()) continue;  // nobody reads it
    frame.input_strides[input] = TensorRef::dense_strides(plan.sizes.inputs[input]);
    if (tensor.on_device && tensor.is_row_major() && is_aligned(tensor)) {
      frame.pointers[buffer.index] = tensor.data;
      continue;
    }
    TW_ASSIGN_OR_RETURN(Block block, take_device_block(device, plan.buffer_bytes[buffer.index], frame));
    TensorRef from = tensor.ref();
    OwnedTensor dense;
    if (tensor.on_device) {
      TW_ASSIGN_OR_RETURN(dense, device.fetch(from, frame.stream));
      from = dense.ref;
    } else if (!tensor.is_row_major() && from.elements() > 0) {
      dense = allocate_tensor(from.dtype, from.sizes);
      copy_strided(from, dense.ref);
      from = dense.ref;
    }
    if (from.elements() > 0)
      TW_RETURN_IF_ERROR(device.upload(block.data(), from.data, from.bytes(), frame.stream));
    frame.pointers[buffer.index] = block.data();
    frame.blocks.push_back(std::move(block));
    ++frame.input_copies;
    frame.input_copy_bytes += plan.buffer_bytes[buffer.index];
    copied_input_bytes_[input] += plan.buffer_bytes[buffer.index];
  }
  return Status::ok();
}

Status Executable::place_device_outputs(const RunRequest& request, std::span<const TensorView* const> inputs,
                                        const BoundPlan& plan, RunFrame& frame) {
  Device& device = *session_->device();
  const bool asked_on_device = asks_for_device(request);
  for (size_t output = 0; output < request.given.size(); ++output) {
    const uint32_t buffer = output_buffers_[output].index;
    const TensorView* given = request.given[output];
    DeviceOutput copy;
    if (given) {
      TW_RETURN_IF_ERROR(boundary_.check_output(plan.sizes, static_cast<int>(output), *given));
      const int input = frame.output_inputs[output];
      const BufferId read = input >= 0 ? input_buffers_[static_cast<size_t>(input)] : BufferId{};
      const bool aliased =
          read.is_valid() && frame.pointers[read.index] == inputs[static_cast<size_t>(input)]->data;
      if (given->on_device && given->is_row_major() && is_aligned(*given) &&
          (!aliased || may_write_over(output, input))) {
        frame.pointers[buffer] = given->data;
        continue;
      }
      copy.to = given->ref();
      copy.to_device = given->on_device;
    } else {
      AskedTensor& asked = request.asked[output];
      asked.dtype = graph_.type(graph_.outputs[output].value).dtype;
      asked.sizes = plan.sizes.outputs[output];
      asked.on_device = asked_on_device;
      if (asked_on_device) {
        TW_ASSIGN_OR_RETURN(asked.block, take_device_block(device, plan.buffer_bytes[buffer], frame));
        frame.pointers[buffer] = asked.block.data();
        continue;
      }
      TW_ASSIGN_OR_RETURN(asked.block, session_->memory().allocate(plan.buffer_bytes[buffer]));
      copy.to = {asked.dtype, asked.sizes, TensorRef::dense_strides(asked.sizes), asked.block.data()};
    }
    TW_ASSIGN_OR_RETURN(Block block, take_device_block(device, plan.buffer_bytes[buffer], frame));
    frame.pointers[buffer] = copy.from = block.data();
    frame.blocks.push_back(std::move(block));
    frame.device_outputs.push_back(std::move(copy));
  }
  return Status::ok();
}

namespace {

Status finish_output(const Device& device, const DeviceOutput& output, void* stream) {
  if (output.to.elements() == 0) return Status::ok();
  TensorRef from = output.to;
  from.strides = TensorRef::dense_strides(from.sizes);
  from.data = output.from;
  if (output.to.is_dense())
    return output.to_device ? device.move(output.to.data, from.data, from.bytes(), stream)
                            : device.download(output.to.data, from.data, from.bytes(), stream);
  TW_ASSIGN_OR_RETURN(OwnedTensor dense, device.fetch(from, stream));
  if (output.to_device) return device.store(dense.ref, output.to, stream);
  copy_strided(dense.ref, output.to);
  return Status::ok();
}

}  // namespace

Status Executable::check_device_kernels(const BoundPlan& plan, const RunFrame& frame,
                                        const std::vector<OwnedTensor>& before) {
  Device& device = *session_->device();
  std::vector<OwnedTensor> copies;
  std::vector<void*> pointers(program_.buffers.size(), nullptr);
  for (size_t index = 0; index < pointers.size(); ++index) {
    const BufferKind kind = program_.buffers[index].kind;
    const bool is_stored = kind == BufferKind::Output || plan.arena.offsets[index] >= 0;
    if (!is_stored || plan.buffer_bytes[index] == 0) continue;
    copies.push_back(allocate_tensor(DType::U8, {plan.buffer_bytes[index]}));
    pointers[index] = copies.back().ref.data;
    TW_RETURN_IF_ERROR(
        device.download(pointers[index], frame.pointers[index], plan.buffer_bytes[index], frame.stream));
  }
  TW_RETURN_IF_ERROR(device.synchronize(frame.stream));
  return compare_kernels(*session_, program_, *record_.lowered, plan, pointers, before);
}

Status Executable::run_on_device(const RunRequest& request, std::span<const TensorView* const> inputs,
                                 const BoundPlan& plan, RunFrame& frame,
                                 const std::vector<OwnedTensor>* before) {
  Device& device = *session_->device();
  TW_RETURN_IF_ERROR(place_device_inputs(inputs, plan, frame));
  TW_RETURN_IF_ERROR(pair_outputs(request, inputs, frame));
  TW_RETURN_IF_ERROR(check_overlaps(request, inputs, frame));
  TW_RETURN_IF_ERROR(place_device_outputs(request, inputs, plan, frame));
  TW_ASSIGN_OR_RETURN(frame.arena, take_device_block(device, plan.arena.bytes, frame));
  char* arena = static_cast<char*>(frame.arena.data());
  for (size_t index = 0; index < program_.buffers.size(); ++index) {
    if (plan.arena.offsets[index] >= 0)
      frame.pointers[index] = arena + plan.arena.offsets[index];
    else if (plan.constants[index])
      frame.pointers[index] = plan.constants[index];
  }
  frame.arguments.resize(static_cast<size_t>(plan.max_arguments));
  frame.scratch = Block();
  const int64_t scratch = scratch_of(session_->target().info().limits, kernels_, plan.launches);
  if (scratch > 0) {
    TW_ASSIGN_OR_RETURN(frame.scratch, take_device_block(device, scratch, frame));
  }
  const bool reports = !program_.sites.empty();
  if (reports) {
    TW_ASSIGN_OR_RETURN(frame.device_error, take_device_block(device, sizeof frame.error_word, frame));
    TW_RETURN_IF_ERROR(
        device.upload(frame.device_error.data(), frame.error_word, sizeof frame.error_word, frame.stream));
  }
  Launcher launcher(*session_, program_, kernels_, plan, frame, &device);
  Status status = launcher.run_all();
  // What a kernel reported comes before what its wrong numbers led to.
  if (reports && status.code() != Code::Internal) {
    const Status reported = launcher.take_device_error();
    if (!reported.is_ok()) return reported;
  }
  TW_RETURN_IF_ERROR(status);
  if (before && record_.lowered) TW_RETURN_IF_ERROR(check_device_kernels(plan, frame, *before));
  bool waits = reports;
  for (const DeviceOutput& output : frame.device_outputs) {
    TW_RETURN_IF_ERROR(finish_output(device, output, frame.stream));
    waits |= !output.to_device;
  }
  return waits ? device.synchronize(frame.stream) : Status::ok();
}

Status Executable::run_with_device_tensors(const RunRequest& request) {
  Device& device = *session_->device();
  std::vector<const TensorView*> resolved;
  std::vector<std::shared_ptr<const Frozen>> held;
  TW_RETURN_IF_ERROR(resolve_inputs(request.inputs, &resolved, &held));
  // Host copies of everything on the device; sizes and strides live in the tensors.
  std::vector<OwnedTensor> owned;
  std::vector<TensorView> views;
  owned.reserve(resolved.size() + request.given.size());
  views.reserve(owned.capacity());
  const auto add_view = [&](OwnedTensor tensor) {
    owned.push_back(std::move(tensor));
    const TensorRef& ref = owned.back().ref;
    views.push_back({ref.dtype, ref.rank(), ref.sizes.data(), ref.strides.data(), ref.data});
    return &views.back();
  };
  for (const TensorView*& input : resolved) {
    if (!input->on_device) continue;
    TW_ASSIGN_OR_RETURN(OwnedTensor copy, device.fetch(input->ref(), request.stream));
    input = add_view(std::move(copy));
  }
  std::vector<const TensorView*> given(request.given.begin(), request.given.end());
  for (const TensorView*& output : given)
    if (output && output->on_device) output = add_view(allocate_tensor(output->dtype, output->ref().sizes));
  RunRequest on_host = request;
  on_host.inputs = resolved;
  on_host.given = given;
  on_host.asked_place = AskedPlace::Host;
  TW_RETURN_IF_ERROR(run_once(on_host, nullptr));
  totals_.input_copies += static_cast<int64_t>(owned.size());
  for (size_t output = 0; output < given.size(); ++output)
    if (request.given[output] && request.given[output]->on_device)
      TW_RETURN_IF_ERROR(device.store(given[output]->ref(), request.given[output]->ref(), request.stream));
  if (!asks_for_device(request)) return Status::ok();
  for (size_t output = 0; output < given.size(); ++output) {
    if (given[output]) continue;
    AskedTensor& asked = request.asked[output];
    const int64_t bytes = asked.block.bytes();
    TW_ASSIGN_OR_RETURN(Block block, device.allocate(bytes, request.stream));
    if (bytes > 0) TW_RETURN_IF_ERROR(device.upload(block.data(), asked.block.data(), bytes, request.stream));
    asked.block = std::move(block);
    asked.on_device = true;
  }
  return Status::ok();
}

}  // namespace tilewright
