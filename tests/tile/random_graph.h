// RandomGraph: well-conditioned random graphs of the primitive ops that kernels are made of.
#pragma once

#include "ir/builder.h"
#include "tests/text/values.h"

namespace tilewright::tile_tests {

using text_tests::Random;

struct RandomGraph {
  Graph graph;
  Bindings bindings;
};

// The same graph for the same seed.  `steps` ops are appended to a few inputs.
Result<RandomGraph> make_random_graph(uint64_t seed, int steps);

}  // namespace tilewright::tile_tests
