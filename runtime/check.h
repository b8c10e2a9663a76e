// Side-by-side check: the outputs of a compiled run against the reference kernels on the same inputs.
#pragma once

#include <vector>

#include "ir/reference/interpreter.h"
#include "runtime/executable.h"

namespace tilewright {

// Dense copies of the inputs, taken before a run that may overwrite them.
Result<std::vector<OwnedTensor>> copy_inputs(std::span<const TensorView* const> inputs, const Device* device,
                                             void* stream);

// The first output and element that differs beyond the declared tolerances, as a status that names the
// kernel; ok when all agree.  `found`: the outputs of the compiled run.
Status compare_with_reference(Session& session, const Graph& graph, const Program& program,
                              const Bindings& bindings, const std::vector<OwnedTensor>& inputs,
                              const std::vector<TensorRef>& found);

}  // namespace tilewright
