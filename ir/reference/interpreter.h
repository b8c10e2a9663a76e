// Runs a whole graph on reference kernels, node by node.
#pragma once

#include "ir/reference/kernel.h"

namespace tilewright {

// Owned dense storage for one tensor.
struct OwnedTensor {
  TensorRef ref;
  std::shared_ptr<void> storage;
};
OwnedTensor allocate_tensor(DType dtype, const std::vector<int64_t>& sizes);

struct InterpreterOptions {
  CustomCallRunner custom_call;         // null: custom calls are an error
  bool fill_uninitialized = true;       // 0xAA into `uninitialized`
  std::function<Status()> abort_check;  // polled between nodes
  // Called after each node with its results; for tracing and for finding the first difference.
  std::function<void(NodeId, std::span<const TensorRef>)> observe;
  // Called before each node, those of regions too; may put tensors that it keeps in `held` in the place of
  // inputs.
  std::function<void(const Graph&, NodeId, std::vector<const TensorRef*>& inputs,
                     std::vector<OwnedTensor>& held)>
      before;
  // Called with the outputs of each run of a region, which it may change.
  std::function<void(const Graph& region, std::span<TensorRef> outputs)> after_region;
};

// Binds symbols from the input sizes (the first bare occurrence binds, all others are checked; a mismatch
// names the dim) on top of `given`.
Result<Bindings> bind_symbols(const Graph& graph, std::span<const std::vector<int64_t>> input_sizes,
                              const Bindings& given);

// Inputs in order; returns freshly allocated dense outputs.
Result<std::vector<OwnedTensor>> interpret(const Graph& graph, std::span<const TensorRef> inputs,
                                           const Bindings& given, const InterpreterOptions& options = {});

// One node: output sizes from the result types under `bindings`.
Status run_node(const Graph& graph, const Node& node, const Bindings& bindings,
                std::span<const TensorRef* const> inputs, std::span<TensorRef> outputs, StickyError& error,
                const InterpreterOptions& options);

}  // namespace tilewright
