// What the values of an index must stay below, found from the ops that read it.
#pragma once

#include <optional>

#include "ir/graph.h"

namespace tilewright {

// The least of the sizes that `value` chooses from in `graph`, also behind ops that only move or convert it;
// nothing when it chooses from nothing.
std::optional<Dim> index_bound(const Graph& graph, ValueId value);

}  // namespace tilewright
