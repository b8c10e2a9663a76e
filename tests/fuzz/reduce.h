// Shrinks a graph while it keeps failing.
#pragma once

#include <functional>

#include "ir/graph.h"

namespace tilewright::fuzz {

// Keeps one output, cuts nodes off by new inputs, drops what is dead; `fails` must be true for `graph`.
Graph reduce_graph(const Graph& graph, const std::function<bool(const Graph&)>& fails);

}  // namespace tilewright::fuzz
