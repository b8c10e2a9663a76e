// Division of a joint graph: which forward values the backward takes and which it computes again.
#pragma once

#include "ir/graph.h"

namespace tilewright::gradients {

struct Division {
  std::vector<bool> needed;    // by node: backward nodes that gradients need
  std::vector<bool> repeated;  // by node: forward nodes computed again in the backward
  std::vector<ValueId> saved;  // in order of value; inputs that the backward uses are among them
};

// The first `forward_nodes` nodes are the forward.  What follows from constants alone, broadcasts and
// widenings are always computed again.  With `recompute`, a minimum cut over the bytes chooses among all
// values that elementwise and movement ops can give again from others.
Division divide(const Graph& joint, size_t forward_nodes, const std::vector<ValueId>& gradients,
                bool recompute);

}  // namespace tilewright::gradients
