// Side-by-side check: the outputs of a compiled run against the reference kernels on the same inputs.
#pragma once

#include <vector>

#include "ir/reference/interpreter.h"
#include "runtime/bound_plan.h"
#include "runtime/executable.h"

namespace tilewright {

// Dense copies of the inputs, taken before a run that may overwrite them.
Result<std::vector<OwnedTensor>> copy_inputs(std::span<const TensorView* const> inputs, const Device* device,
                                             void* stream);

// The first output and element that differs beyond the declared tolerances, as a status that names the
// kernel; ok when all agree.  `found`: the outputs of the compiled run; `where_else` ends the message.
Status compare_with_reference(Session& session, const Graph& graph, const Program& program,
                              const Bindings& bindings, const std::vector<OwnedTensor>& inputs,
                              const std::vector<TensorRef>& found, const std::string& where_else = {});

// The first launch, in order, that stored a value other than the reference computes from what its kernel
// read: with kernel, nodes, value and element.  `pointers`: the buffers after the run, none of them shared.
Status compare_kernels(Session& session, const Program& program, const LoweredGraph& lowered,
                       const BoundPlan& plan, const std::vector<void*>& pointers,
                       const std::vector<OwnedTensor>& inputs);

}  // namespace tilewright
