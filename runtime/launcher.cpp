// The kinds of launches.
#include "runtime/launcher.h"

#include <chrono>

#include "base/text.h"
#include "codegen/builtins.h"
#include "codegen/tile/interpreter.h"

namespace tilewright {

Status Launcher::run_all() {
  for (const BoundLaunch& launch : plan_.launches) {
    TW_RETURN_IF_ERROR(run(launch));
    if (session_.should_abort())
      return Status(Code::Cancelled, cat("run @", program_.name, ": the host asked to stop"));
  }
  return Status::ok();
}

Status Launcher::run(const BoundLaunch& launch) {
  if (!frame_.profiling || launch.launch->kind == LaunchKind::Loop) return run_unmeasured(launch);
  const auto now = [] {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  };
  const int64_t start = now();
  Status status = run_unmeasured(launch);
  // On a device a launch returns at once: its time ends when the stream is empty.
  if (device_ && status.is_ok()) status = device_->synchronize(frame_.stream);
  frame_.samples.push_back({&launch, start, now() - start});
  return status;
}

Status Launcher::run_unmeasured(const BoundLaunch& launch) {
  switch (launch.launch->kind) {
    case LaunchKind::Kernel: return run_kernel(launch);
    case LaunchKind::Builtin:
    case LaunchKind::Reference: {
      const bool is_builtin = launch.launch->kind == LaunchKind::Builtin;
      if (device_) return run_node_on_host(launch);
      return is_builtin ? run_builtin(launch, tensors(launch)) : run_reference(launch, tensors(launch));
    }
    case LaunchKind::Copy: return device_ ? copy_on_device(launch) : run_copy(launch);
    case LaunchKind::Loop: return run_loop(launch);
  }
  return Status::ok();
}

Status Launcher::run_kernel(const BoundLaunch& launch) {
  if (launch.grid == 0) return Status::ok();
  ++frame_.kernel_launches;
  const size_t index = static_cast<size_t>(launch.launch->kernel);
  const tile::Kernel& kernel = program_.kernels[index].kernel;
  const LoadedKernel& loaded = kernels_[index];
  if (device_) return loaded.entry ? launch_on_device(launch, loaded) : interpret_device_kernel(launch);
  const auto function = reinterpret_cast<KernelFunction>(loaded.entry);
  void** arguments = frame_.arguments.data();
  for (size_t position = 0; position < launch.buffers.size(); ++position)
    arguments[position] = address(launch, position);
  if (kernel.reports) arguments[launch.buffers.size()] = frame_.error_word;
  if (!function) {
    const size_t count = launch.buffers.size() + (kernel.reports ? 1 : 0);
    TW_RETURN_IF_ERROR(tile::interpret(kernel, std::span(arguments, count), launch.scalars, 0, launch.grid));
  } else if (launch.is_small) {
    function(arguments, launch.scalars.data(), 0, launch.grid, frame_.scratch.data());
  } else {
    char* scratch = static_cast<char*>(frame_.scratch.data());
    session_.parallel_for(launch.grid, 0, [&](int64_t begin, int64_t end, int worker) {
      function(arguments, launch.scalars.data(), begin, end, scratch + worker * frame_.scratch_stride);
    });
  }
  return kernel.reports && frame_.error_word[0] ? take_error() : Status::ok();
}

Status Launcher::take_error() {
  const size_t site = static_cast<size_t>(frame_.error_word[0] - 1);
  TW_ASSERT(site < program_.sites.size());
  const ErrorSite& where = program_.sites[site];
  if (where.op == Op::Assert)
    return Status(Code::FailedPrecondition, cat(where.node, ": ", where.message)).with_op(where.node);
  return Status::out_of_range(cat(where.node, ": ", where.message, ", found ", frame_.error_word[1]))
      .with_op(where.node);
}

TensorRef Launcher::tensor(const BoundLaunch& launch, size_t position) const {
  TensorRef ref = launch.tensors[position];
  const Buffer& buffer = program_.buffers[launch.buffers[position]];
  if (buffer.kind == BufferKind::Input && ref.sizes == plan_.buffer_sizes[launch.buffers[position]])
    ref.strides = frame_.input_strides[static_cast<size_t>(buffer.index)];
  ref.data = address(launch, position);
  return ref;
}

std::vector<TensorRef> Launcher::tensors(const BoundLaunch& launch) const {
  std::vector<TensorRef> all;
  for (size_t position = 0; position < launch.buffers.size(); ++position)
    all.push_back(tensor(launch, position));
  return all;
}

// Strided operands, and targets without the builtin, take the reference kernel.
Status Launcher::run_builtin(const BoundLaunch& launch, std::span<const TensorRef> tensors) {
  std::vector<void*> data;
  for (const TensorRef& ref : tensors) {
    if (!ref.is_dense()) return run_reference(launch, tensors);
    data.push_back(ref.data);
  }
  TW_ASSIGN_OR_RETURN(BuiltinCall call, make_builtin_call(launch.launch->builtin, *launch.launch->node,
                                                          plan_.sizes.bindings, data));
  auto parallel_for = [&](int64_t count, int64_t max_chunk, FunctionRef<void(int64_t, int64_t)> body) {
    session_.parallel_for(count, max_chunk, [&](int64_t begin, int64_t end, int) { body(begin, end); });
  };
  Status status = session_.target().run_builtin(call, parallel_for);
  if (status.code() == Code::Unimplemented || status.code() == Code::NotFound)
    return run_reference(launch, tensors);
  ++frame_.other_launches;
  return status;
}

Status Launcher::run_reference(const BoundLaunch& launch, std::span<const TensorRef> tensors) {
  ++(launch.launch->kind == LaunchKind::Builtin ? frame_.other_launches : frame_.reference_launches);
  const Graph& graph = *launch.launch->node;
  const Node& node = graph.node(NodeId{0});
  const std::span<const TensorRef> inputs = tensors.first(graph.inputs.size());
  std::vector<TensorRef> outputs(tensors.begin() + static_cast<ptrdiff_t>(inputs.size()), tensors.end());
  std::vector<const TensorRef*> operands;
  for (ValueId operand : node.operands)
    operands.push_back(operand.is_valid() ? &inputs[graph.value(operand).result] : nullptr);
  StickyError error;
  InterpreterOptions options;
  options.custom_call = [this](const std::string& target, const AttributeMap& attributes,
                               std::span<const TensorRef> from, std::span<TensorRef> to) {
    return session_.custom_calls().run(target, attributes, from, to);
  };
  options.abort_check = [this] {
    return session_.should_abort() ? Status(Code::Cancelled, "the host asked to stop") : Status::ok();
  };
  TW_RETURN_IF_ERROR(run_node(graph, node, plan_.sizes.bindings, operands, outputs, error, options));
  const Status found = error.get();
  if (found.is_ok() || node.tag.empty()) return found;
  return Status(found.code(), cat(found.message(), " (", node.tag, ")")).with_op(found.op());
}

Status Launcher::run_copy(const BoundLaunch& launch) {
  ++frame_.other_launches;
  copy_strided(tensor(launch, 0), tensor(launch, 1));
  return Status::ok();
}

Status Launcher::run_loop(const BoundLaunch& launch) {
  for (int64_t trip = 0; trip < launch.count; ++trip) {
    for (const BoundLaunch& inner : launch.body) TW_RETURN_IF_ERROR(run(inner));
    for (const auto& [buffer, bytes] : launch.advances)
      frame_.pointers[buffer] = static_cast<char*>(frame_.pointers[buffer]) + bytes;
  }
  for (const auto& [buffer, bytes] : launch.advances)
    frame_.pointers[buffer] = static_cast<char*>(frame_.pointers[buffer]) - bytes * launch.count;
  return Status::ok();
}

}  // namespace tilewright
