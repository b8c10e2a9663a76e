// Engines: ways to run a graph.  All of them must agree with the first, the reference interpreter.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/reference/interpreter.h"

namespace tilewright::text_tests {

struct Engine {
  std::string name;
  // Unimplemented means that this machine or build cannot: a skip, never a pass.
  std::function<Result<std::vector<OwnedTensor>>(const Graph&, std::span<const TensorRef> inputs,
                                                 const Bindings&)>
      run;
};
const std::vector<Engine>& engines();
// Leaves the reference and sessions of this target.
void use_sessions_of(const std::string& target);

// Stages whose text a golden test compares: `# run: expand`, `# run: pass=<name>`.
struct Stage {
  std::string name;
  std::function<Result<std::string>(const Graph&)> text;
};
const std::vector<Stage>& stages();

// Custom calls known to tests: test.twice doubles its only input, test.twice_gradient is its gradient.
Status run_test_custom_call(const std::string& target, const AttributeMap& attributes,
                            std::span<const TensorRef> inputs, std::span<TensorRef> outputs);

}  // namespace tilewright::text_tests
