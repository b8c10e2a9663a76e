// The engine of a whole session: compile, cache off, run, with tensors of the host.
#pragma once

#include <string>
#include <vector>

#include "ir/reference/interpreter.h"

namespace tilewright::text_tests {

// Unimplemented where the target cannot run here.
Result<std::vector<OwnedTensor>> run_in_session(const std::string& target, const Graph& graph,
                                                std::span<const TensorRef> inputs, const Bindings& bindings);

}  // namespace tilewright::text_tests
