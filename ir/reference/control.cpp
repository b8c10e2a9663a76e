// Reference kernels of structured control and markers: regions are run through the call.
#include "ir/reference/interpreter.h"
#include "ir/reference/strided.h"

namespace tilewright {

using namespace reference;

namespace {

Result<std::vector<OwnedTensor>> allocate_like(std::span<const TensorRef> tensors) {
  std::vector<OwnedTensor> owned;
  for (const TensorRef& tensor : tensors) {
    owned.push_back(allocate_tensor(tensor.dtype, tensor.sizes));
    if (!owned.back().storage) return Status::exhausted(cat("cannot allocate ", tensor.bytes(), " bytes"));
  }
  return owned;
}

std::vector<TensorRef> refs_of(const std::vector<OwnedTensor>& owned) {
  std::vector<TensorRef> refs;
  for (const OwnedTensor& tensor : owned) refs.push_back(tensor.ref);
  return refs;
}

std::vector<TensorRef> inputs_of(const KernelCall& call, size_t first) {
  std::vector<TensorRef> refs;
  for (size_t i = first; i < call.inputs.size(); ++i) refs.push_back(*call.inputs[i]);
  return refs;
}

void copy_all(std::span<const TensorRef> targets, std::span<const TensorRef> sources) {
  for (size_t i = 0; i < targets.size(); ++i) copy_elements(targets[i], sources[i]);
}

}  // namespace

Status reference_while(KernelCall& call) {
  std::vector<TensorRef> carried = inputs_of(call, 0);
  // Two sets of buffers take turns as input and output of the body.
  TW_ASSIGN_OR_RETURN(std::vector<OwnedTensor> first, allocate_like(carried));
  TW_ASSIGN_OR_RETURN(std::vector<OwnedTensor> second, allocate_like(carried));
  std::vector<TensorRef> next = refs_of(first), spare = refs_of(second);
  uint8_t proceed = 0;
  std::vector<TensorRef> condition{{DType::Bool, {}, {}, &proceed}};
  while (true) {
    TW_RETURN_IF_ERROR(call.run_region(*call.regions[0], carried, condition));
    if (!proceed) break;
    TW_RETURN_IF_ERROR(call.run_region(*call.regions[1], carried, next));
    carried = next;
    std::swap(next, spare);
    if (call.error.is_set()) break;
  }
  copy_all(call.outputs, carried);
  return Status::ok();
}

Status reference_case(KernelCall& call) {
  int64_t last = static_cast<int64_t>(call.regions.size()) - 1;
  int64_t index = index_at(call.in(0), 0);
  if (index < 0 || index > last) index = last;
  std::vector<TensorRef> inputs = inputs_of(call, 1);
  return call.run_region(*call.regions[index], inputs, call.outputs);
}

Status reference_scan(KernelCall& call) {
  TW_ASSIGN_OR_RETURN(std::vector<int64_t> lengths, call.sizes("length"));
  int64_t length = lengths.empty() ? 0 : lengths[0];
  size_t carries = static_cast<size_t>(call.attributes.get_int("carries"));
  bool reverse = call.attributes.get_bool("reverse");
  std::vector<TensorRef> carried = inputs_of(call, 0),
                         stacked_outputs(call.outputs.begin(), call.outputs.end());
  std::vector<TensorRef> stacked_inputs(carried.begin() + carries, carried.end());
  carried.resize(carries);
  stacked_outputs.erase(stacked_outputs.begin(), stacked_outputs.begin() + carries);
  TW_ASSIGN_OR_RETURN(std::vector<OwnedTensor> first, allocate_like(carried));
  TW_ASSIGN_OR_RETURN(std::vector<OwnedTensor> second, allocate_like(carried));
  std::vector<TensorRef> next = refs_of(first), spare = refs_of(second);
  for (int64_t trip = 0; trip < length; ++trip) {
    int64_t step = reverse ? length - 1 - trip : trip;
    std::vector<TensorRef> inputs = carried, outputs = next;
    for (const TensorRef& x : stacked_inputs) inputs.push_back(without_dim(moved(x, step * x.strides[0]), 0));
    for (const TensorRef& y : stacked_outputs)
      outputs.push_back(without_dim(moved(y, step * y.strides[0]), 0));
    TW_RETURN_IF_ERROR(call.run_region(*call.regions[0], inputs, outputs));
    carried = next;
    std::swap(next, spare);
  }
  copy_all(call.outputs.subspan(0, carries), carried);
  return Status::ok();
}

Status reference_call(KernelCall& call) {
  std::vector<TensorRef> inputs = inputs_of(call, 0);
  return call.run_region(*call.regions[0], inputs, call.outputs);
}

Status reference_composite(KernelCall& call) { return reference_call(call); }

Status reference_custom_call(KernelCall& call) {
  const std::string& target = call.attributes.get_string("target");
  if (!call.run_custom_call) {
    return Status::unimplemented(cat("custom_call: nothing here can run custom call ", target));
  }
  std::vector<TensorRef> inputs = inputs_of(call, 0);
  return call.run_custom_call(target, call.attributes.map(), inputs, call.outputs);
}

Status reference_optimization_barrier(KernelCall& call) {
  copy_all(call.outputs, inputs_of(call, 0));
  return Status::ok();
}

Status reference_stop_gradient(KernelCall& call) {
  copy_elements(call.out(), call.in(0));
  return Status::ok();
}

Status reference_assert(KernelCall& call) {
  const TensorRef& pred = call.in(0);
  bool holds = true;
  for_each_index(pred.sizes, [&](const std::vector<int64_t>& index) {
    holds &= elements_of<const uint8_t>(pred)[offset_of(index, pred.strides)] != 0;
  });
  if (!holds) call.error.set(Status::precondition(cat("assert: ", call.attributes.get_string("message"))));
  return Status::ok();
}

}  // namespace tilewright
