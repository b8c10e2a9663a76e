// Canonical hash of a graph: equal for graphs that differ only in value names, tags and unused symbols'
// order.
#pragma once

#include "base/hash.h"
#include "ir/graph.h"

namespace tilewright {

Hash128 hash_graph(const Graph& graph);

}  // namespace tilewright
