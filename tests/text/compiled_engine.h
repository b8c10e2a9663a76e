// Engines behind the planner: programs on the tile interpreter, and compiled for this machine.
#pragma once

#include <string>
#include <vector>

#include "ir/reference/interpreter.h"

namespace tilewright::text_tests {

Result<std::vector<OwnedTensor>> run_on_tiles(const Graph& graph, std::span<const TensorRef> inputs,
                                              const Bindings& bindings);
// Kernels are emitted, compiled and loaded by the native target; unimplemented where it cannot run.
Result<std::vector<OwnedTensor>> run_compiled(const Graph& graph, std::span<const TensorRef> inputs,
                                              const Bindings& bindings);

// The same for a target by its spelling.
Result<std::vector<OwnedTensor>> run_compiled_for(const std::string& spelling, const Graph& graph,
                                                  std::span<const TensorRef> inputs,
                                                  const Bindings& bindings);

}  // namespace tilewright::text_tests
