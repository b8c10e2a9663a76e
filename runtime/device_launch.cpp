// Launches of a program whose buffers lie on a device; what has no code there runs on the host, over copies.
#include <algorithm>
#include <map>

#include "base/text.h"
#include "codegen/tile/interpreter.h"
#include "runtime/device.h"
#include "runtime/device_run.h"
#include "runtime/launcher.h"

namespace tilewright {

int64_t device_blocks(const TargetLimits& limits, const LoadedKernel& kernel, int64_t grid) {
  // Scratch is a block's own: as many blocks as the chip runs at once are enough.
  constexpr int64_t kMaximumBlocks = (int64_t{1} << 31) - 1, kBlocksEach = 4;
  const int64_t most =
      kernel.scratch_bytes > 0 ? std::max<int64_t>(limits.multiprocessors, 1) * kBlocksEach : kMaximumBlocks;
  return std::min(grid, most);
}

Status Launcher::launch_on_device(const BoundLaunch& launch, const LoadedKernel& loaded) {
  const tile::Kernel& kernel = program_.kernels[static_cast<size_t>(launch.launch->kernel)].kernel;
  size_t count = launch.buffers.size();
  for (size_t position = 0; position < count; ++position)
    frame_.arguments[position] = address(launch, position);
  if (kernel.reports) frame_.arguments[count++] = frame_.device_error.data();
  LaunchRequest request;
  request.entry = loaded.entry;
  request.name = kernel.name;
  request.buffers = std::span(frame_.arguments.data(), count);
  request.scalars = launch.scalars;
  request.grid = launch.grid;
  request.blocks = device_blocks(session_.target().info().limits, loaded, launch.grid);
  request.threads_per_block = loaded.threads_per_block;
  request.shared_bytes = loaded.shared_bytes;
  request.scratch = frame_.scratch.data();
  request.stream = frame_.stream;
  return session_.target().launch(request);
}

namespace {

// Bytes from a parameter's first element to the end of its last.
Result<int64_t> param_bytes(const tile::Param& param, const Bindings& bindings) {
  int64_t last = 0, elements = 1;
  for (size_t dim = 0; dim < param.dims.size(); ++dim) {
    TW_ASSIGN_OR_RETURN(int64_t size, param.dims[dim].evaluate(bindings));
    if (size == 0) return int64_t{0};
    elements *= size;
    if (dim >= param.strides.size()) continue;
    TW_ASSIGN_OR_RETURN(int64_t stride, param.strides[dim].evaluate(bindings));
    last += (size - 1) * stride;
  }
  // Without strides: row-major.
  if (param.strides.empty()) last = elements - 1;
  return (last + 1) * dtype_bytes(param.dtype);
}

// Memory of the device on the host: one copy an address.
struct HostCopy {
  std::vector<char> bytes;
  bool written = false;
};

}  // namespace

Status Launcher::interpret_device_kernel(const BoundLaunch& launch) {
  const tile::Kernel& kernel = program_.kernels[static_cast<size_t>(launch.launch->kernel)].kernel;
  Bindings bindings;
  for (size_t index = 0; index < launch.scalars.size(); ++index)
    bindings[kernel.symbols[index].name] = launch.scalars[index];
  std::map<void*, HostCopy> copies;
  for (size_t position = 0; position < launch.buffers.size(); ++position) {
    TW_ASSIGN_OR_RETURN(int64_t bytes, param_bytes(kernel.params[position], bindings));
    HostCopy& copy = copies[address(launch, position)];
    copy.bytes.resize(std::max(copy.bytes.size(), static_cast<size_t>(bytes)));
    copy.written |= kernel.params[position].mode != tile::AccessMode::Read;
  }
  for (auto& [from, copy] : copies)
    TW_RETURN_IF_ERROR(
        device_->download(copy.bytes.data(), from, static_cast<int64_t>(copy.bytes.size()), frame_.stream));
  std::vector<void*> arguments;
  for (size_t position = 0; position < launch.buffers.size(); ++position)
    arguments.push_back(copies[address(launch, position)].bytes.data());
  if (kernel.reports) arguments.push_back(frame_.error_word);
  TW_RETURN_IF_ERROR(tile::interpret(kernel, arguments, launch.scalars, 0, launch.grid));
  for (auto& [to, copy] : copies)
    if (copy.written)
      TW_RETURN_IF_ERROR(
          device_->upload(to, copy.bytes.data(), static_cast<int64_t>(copy.bytes.size()), frame_.stream));
  return kernel.reports && frame_.error_word[0] ? take_error() : Status::ok();
}

Status Launcher::run_node_on_host(const BoundLaunch& launch) {
  const size_t inputs = launch.launch->node->inputs.size();
  std::vector<OwnedTensor> owned;
  std::vector<TensorRef> refs;
  for (size_t position = 0; position < launch.buffers.size(); ++position) {
    const TensorRef on_device = tensor(launch, position);
    if (position < inputs) {
      TW_ASSIGN_OR_RETURN(OwnedTensor copy, device_->fetch(on_device, frame_.stream));
      owned.push_back(std::move(copy));
    } else {
      owned.push_back(allocate_tensor(on_device.dtype, on_device.sizes));
    }
    refs.push_back(owned.back().ref);
  }
  if (launch.launch->kind == LaunchKind::Builtin) {
    ++frame_.host_builtins;
    TW_RETURN_IF_ERROR(run_builtin(launch, refs));
  } else {
    TW_RETURN_IF_ERROR(run_reference(launch, refs));
  }
  for (size_t position = inputs; position < refs.size(); ++position)
    TW_RETURN_IF_ERROR(device_->store(refs[position], tensor(launch, position), frame_.stream));
  return Status::ok();
}

Status Launcher::copy_on_device(const BoundLaunch& launch) {
  ++frame_.other_launches;
  const TensorRef from = tensor(launch, 0), to = tensor(launch, 1);
  if (from.elements() == 0 || from.data == to.data) return Status::ok();
  if (from.is_dense() && to.is_dense()) return device_->move(to.data, from.data, from.bytes(), frame_.stream);
  TW_ASSIGN_OR_RETURN(OwnedTensor copy, device_->fetch(from, frame_.stream));
  return device_->store(copy.ref, to, frame_.stream);
}

Status Launcher::take_device_error() {
  TW_RETURN_IF_ERROR(device_->download(frame_.error_word, frame_.device_error.data(),
                                       sizeof frame_.error_word, frame_.stream));
  return frame_.error_word[0] ? take_error() : Status::ok();
}

}  // namespace tilewright
