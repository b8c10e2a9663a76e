// Rebuilding a graph node by node: what simple rewriting passes share.
#pragma once

#include <functional>

#include "codegen/passes.h"

namespace tilewright {

// Copies a graph; for each node, `replace` may append other nodes to `target` and answer the images of its
// results, or answer nothing to have the node copied.
using Replacement = std::function<Result<std::optional<std::vector<ValueId>>>(
    const Node& node, const std::vector<ValueId>& operands, Graph& target)>;
Result<Graph> rewrite_nodes(const Graph& graph, const Replacement& replace);

}  // namespace tilewright
