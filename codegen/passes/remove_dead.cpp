// Drops nodes whose results nobody reads.
#include "codegen/passes.h"

namespace tilewright {

Result<Graph> remove_dead_pass(const Graph& graph, PassContext&) { return remove_dead_nodes(graph); }

}  // namespace tilewright
