// Runs the reference on copies of the inputs and compares.
#include "runtime/check.h"

#include "base/text.h"
#include "ir/reference/compare.h"
#include "runtime/memory_plan.h"

namespace tilewright {

Result<std::vector<OwnedTensor>> copy_inputs(std::span<const TensorView* const> inputs, const Device* device,
                                             void* stream) {
  std::vector<OwnedTensor> copies;
  for (const TensorView* input : inputs) {
    TensorRef from = input->ref();
    if (input->on_device) {
      TW_ASSIGN_OR_RETURN(OwnedTensor copy, device->fetch(from, stream));
      copies.push_back(std::move(copy));
      continue;
    }
    copies.push_back(allocate_tensor(from.dtype, from.sizes));
    if (from.elements() > 0) copy_strided(from, copies.back().ref);
  }
  return copies;
}

namespace {

// The kernel that writes an output last: "kernel @k3 (gelu, add)".
std::string writer_of(const Program& program, int output) {
  std::string writer = "no kernel";
  for (const Launch& launch : program.launches) {
    for (size_t position = 0; position < launch.buffers.size(); ++position) {
      const Buffer& buffer = program.buffers[launch.buffers[position].buffer.index];
      if (buffer.kind != BufferKind::Output || buffer.index != output) continue;
      if (buffer_use(program, launch, position) == Use::Read) continue;
      if (launch.kind != LaunchKind::Kernel) {
        writer = launch.node ? cat("node ", launch.node->name) : "a copy";
        continue;
      }
      const KernelEntry& entry = program.kernels[static_cast<size_t>(launch.kernel)];
      writer = cat("kernel @", entry.kernel.name, " (", entry.description, ")");
    }
  }
  return writer;
}

}  // namespace

Status compare_with_reference(Session& session, const Graph& graph, const Program& program,
                              const Bindings& bindings, const std::vector<OwnedTensor>& inputs,
                              const std::vector<TensorRef>& found, const std::string& where_else) {
  std::vector<TensorRef> refs;
  for (const OwnedTensor& input : inputs) refs.push_back(input.ref);
  InterpreterOptions options;
  options.custom_call = [&](const std::string& target, const AttributeMap& attributes,
                            std::span<const TensorRef> from, std::span<TensorRef> to) {
    return session.custom_calls().run(target, attributes, from, to);
  };
  Result<std::vector<OwnedTensor>> expected = interpret(graph, refs, bindings, options);
  if (!expected.is_ok())
    return expected.status().because(cat("check @", graph.name, ": the reference run failed"));
  Comparison comparison(graph, refs, bindings, options.custom_call);
  for (size_t i = 0; i < found.size(); ++i) {
    const std::string different = comparison.difference(i, found[i], (*expected)[i].ref);
    if (different.empty()) continue;
    std::string name =
        graph.outputs[i].name.empty() ? graph.value_name(graph.outputs[i].value) : graph.outputs[i].name;
    return Status::internal(cat("check @", graph.name, ": output ", i, " ", name, " of ",
                                writer_of(program, static_cast<int>(i)), " differs from the reference at ",
                                different, where_else));
  }
  return Status::ok();
}

}  // namespace tilewright
