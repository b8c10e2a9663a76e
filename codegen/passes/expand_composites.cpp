// Replaces composites that no lowering takes whole by their expansions, and inlines calls.
#include "codegen/passes.h"
#include "ir/expansion.h"

namespace tilewright {

static bool is_expanded(Op op) { return op_info(op).composite; }

Result<Graph> expand_composites_pass(const Graph& graph, PassContext&) {
  return expand_composites(graph, &is_expanded);
}

}  // namespace tilewright
