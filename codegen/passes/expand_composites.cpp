// Replaces composites that no lowering takes whole by their expansions, and inlines calls.
#include "codegen/lower/attention.h"
#include "codegen/passes.h"
#include "ir/expansion.h"

namespace tilewright {

Result<Graph> expand_composites_pass(const Graph& graph, PassContext&) {
  return expand_composites(graph, [](const Graph& body, const Node& node) {
    return node.info().composite && !attention_is_lowered(body, node);
  });
}

}  // namespace tilewright
