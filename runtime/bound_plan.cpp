// Evaluates every dim of a program for one binding.
#include "runtime/bound_plan.h"

#include <cstring>

#include "base/text.h"

namespace tilewright {
namespace {

// Below this much work (flops and bytes at the hints, scaled by the grid) sharing a launch costs more than it
// gains.
constexpr double kSmallWork = 64 * 1024;

Result<int64_t> evaluate(const Dim& dim, const Bindings& bindings, std::string_view what) {
  Result<int64_t> value = dim.evaluate(bindings);
  if (!value.is_ok()) return value.status().because(cat(what, " ", dim.to_string()));
  return value;
}

class Binder {
 public:
  Binder(const Program& program, Memory& memory, Device* device, BoundPlan& plan)
      : program_(program), memory_(memory), device_(device), plan_(plan) {}

  Status bind_buffers() {
    for (const Buffer& buffer : program_.buffers) {
      std::vector<int64_t> sizes;
      int64_t bytes = dtype_bytes(buffer.type.dtype);
      for (const Dim& dim : buffer.type.shape) {
        TW_ASSIGN_OR_RETURN(int64_t size, evaluate(dim, plan_.sizes.bindings, "size"));
        if (size < 0)
          return Status::invalid(cat("size ", dim.to_string(), " of ", buffer.name, " is ", size));
        if (__builtin_mul_overflow(bytes, size, &bytes))
          return Status::exhausted(cat(buffer.name, " of type ", buffer.type.to_string(), " is too large"));
        sizes.push_back(size);
      }
      plan_.buffer_sizes.push_back(std::move(sizes));
      plan_.buffer_bytes.push_back(bytes);
      TW_RETURN_IF_ERROR(bind_constant(buffer, bytes));
    }
    return Status::ok();
  }

  Status bind_constant(const Buffer& buffer, int64_t bytes) {
    plan_.constants.push_back(nullptr);
    if (buffer.kind != BufferKind::Constant) return Status::ok();
    TW_ASSERT(buffer.constant != nullptr);
    if (device_) {
      TW_ASSERT(buffer.constant->splat || buffer.constant->bytes >= bytes);
      TW_ASSIGN_OR_RETURN(std::shared_ptr<const Block> block, device_->constant(buffer.constant, bytes));
      plan_.constants.back() = block->data();
      plan_.uploaded.push_back(std::move(block));
      return Status::ok();
    }
    if (!buffer.constant->splat) {
      TW_ASSERT(buffer.constant->bytes >= bytes);
      plan_.constants.back() = const_cast<void*>(buffer.constant->data);
      return Status::ok();
    }
    TW_ASSIGN_OR_RETURN(Block block, memory_.allocate(bytes));
    const int64_t element = dtype_bytes(buffer.type.dtype);
    for (int64_t at = 0; at < bytes; at += element)
      std::memcpy(static_cast<char*>(block.data()) + at, buffer.constant->data, static_cast<size_t>(element));
    plan_.constants.back() = block.data();
    plan_.filled.push_back(std::move(block));
    return Status::ok();
  }

  Result<BoundLaunch> bind_launch(const Launch& launch) {
    BoundLaunch bound;
    bound.launch = &launch;
    for (const BufferUse& use : launch.buffers) {
      const Buffer& buffer = program_.buffers[use.buffer.index];
      TW_ASSIGN_OR_RETURN(int64_t offset, evaluate(use.offset, plan_.sizes.bindings, "offset"));
      bound.buffers.push_back(use.buffer.index);
      bound.offsets.push_back(offset * dtype_bytes(buffer.type.dtype));
    }
    switch (launch.kind) {
      case LaunchKind::Kernel: TW_RETURN_IF_ERROR(bind_kernel(launch, bound)); break;
      case LaunchKind::Builtin:
      case LaunchKind::Reference: TW_RETURN_IF_ERROR(bind_node(launch, bound)); break;
      case LaunchKind::Copy: bind_copy(bound); break;
      case LaunchKind::Loop: TW_RETURN_IF_ERROR(bind_loop(launch, bound)); break;
    }
    return bound;
  }

 private:
  Status bind_kernel(const Launch& launch, BoundLaunch& bound) {
    const KernelEntry& entry = program_.kernels[static_cast<size_t>(launch.kernel)];
    TW_ASSERT(launch.scalars.size() == entry.kernel.symbols.size());
    Bindings inner;
    for (size_t index = 0; index < launch.scalars.size(); ++index) {
      TW_ASSIGN_OR_RETURN(int64_t value, evaluate(launch.scalars[index], plan_.sizes.bindings, "scalar"));
      bound.scalars.push_back(value);
      inner[entry.kernel.symbols[index].name] = value;
    }
    bound.grid = 1;
    double grid_at_hint = 1;
    for (const Dim& dim : entry.kernel.grid) {
      TW_ASSIGN_OR_RETURN(int64_t size, evaluate(dim, inner, "grid"));
      if (size < 0 || __builtin_mul_overflow(bound.grid, size, &bound.grid))
        return Status::invalid(cat("kernel ", entry.kernel.name, ": grid ", dim.to_string(), " is ", size));
      grid_at_hint *= static_cast<double>(std::max<int64_t>(dim.hint(entry.kernel.symbols), 1));
    }
    const double scale = static_cast<double>(bound.grid) / grid_at_hint;
    bound.bytes = static_cast<double>(entry.bytes) * scale;
    bound.flops = static_cast<double>(entry.flops) * scale;
    bound.is_small = bound.grid <= 1 || static_cast<double>(entry.flops + entry.bytes) * scale < kSmallWork;
    plan_.max_arguments =
        std::max<int64_t>(plan_.max_arguments, static_cast<int64_t>(bound.buffers.size()) + 1);
    return Status::ok();
  }

  // Views of the buffers as the node sees them: its own types, from the offset on.
  Status bind_node(const Launch& launch, BoundLaunch& bound) {
    TW_ASSERT(launch.node && launch.node->node_count() == 1);
    const Graph& node = *launch.node;
    std::vector<const TensorType*> types;
    for (const Input& input : node.inputs) types.push_back(&node.type(input.value));
    for (ValueId result : node.node(NodeId{0}).results) types.push_back(&node.type(result));
    TW_ASSERT(types.size() == bound.buffers.size());
    for (const TensorType* type : types) {
      TensorRef ref;
      ref.dtype = type->dtype;
      for (const Dim& dim : type->shape) {
        TW_ASSIGN_OR_RETURN(int64_t size, evaluate(dim, plan_.sizes.bindings, "size"));
        ref.sizes.push_back(size);
      }
      ref.strides = TensorRef::dense_strides(ref.sizes);
      bound.tensors.push_back(std::move(ref));
    }
    return Status::ok();
  }

  // Both sides as long as the shorter one.
  void bind_copy(BoundLaunch& bound) {
    const uint32_t shorter =
        plan_.buffer_bytes[bound.buffers[0]] < plan_.buffer_bytes[bound.buffers[1]] ? 0 : 1;
    const uint32_t buffer = bound.buffers[shorter];
    TensorRef ref;
    ref.dtype = program_.buffers[buffer].type.dtype;
    ref.sizes = plan_.buffer_sizes[buffer];
    ref.strides = TensorRef::dense_strides(ref.sizes);
    bound.tensors.assign(2, ref);
  }

  Status bind_loop(const Launch& launch, BoundLaunch& bound) {
    TW_ASSIGN_OR_RETURN(bound.count, evaluate(launch.count, plan_.sizes.bindings, "trip count"));
    for (const auto& [buffer, step] : launch.advances) {
      TW_ASSIGN_OR_RETURN(int64_t elements, evaluate(step, plan_.sizes.bindings, "advance"));
      bound.advances.emplace_back(buffer.index,
                                  elements * dtype_bytes(program_.buffers[buffer.index].type.dtype));
    }
    for (const Launch& inner : launch.body) {
      TW_ASSIGN_OR_RETURN(BoundLaunch bound_inner, bind_launch(inner));
      bound.body.push_back(std::move(bound_inner));
    }
    return Status::ok();
  }

  const Program& program_;
  Memory& memory_;
  Device* const device_;
  BoundPlan& plan_;
};

}  // namespace

Result<std::shared_ptr<const BoundPlan>> bind_program(const Program& program, const Lifetimes& lifetimes,
                                                      BoundSizes sizes, Memory& memory, Device* device,
                                                      bool keep_temporaries) {
  auto plan = std::make_shared<BoundPlan>();
  plan->sizes = std::move(sizes);
  Binder binder(program, memory, device, *plan);
  TW_RETURN_IF_ERROR(binder.bind_buffers());
  for (const Launch& launch : program.launches) {
    TW_ASSIGN_OR_RETURN(BoundLaunch bound, binder.bind_launch(launch));
    plan->launches.push_back(std::move(bound));
  }
  plan->arena = plan_arena(program, lifetimes, plan->buffer_bytes, keep_temporaries);
  return std::shared_ptr<const BoundPlan>(std::move(plan));
}

}  // namespace tilewright
