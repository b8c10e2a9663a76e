// Reverse accumulation over a graph: which values matter, how the forward is prepared, and the pass itself.
#pragma once

#include <memory>

#include "ir/autodiff.h"

namespace tilewright::gradients {

// Flags by value index.
using Flags = std::vector<bool>;

// Values that depend on a wanted input through differentiable ops.
Flags find_active(const Graph& graph, const Flags& wanted_inputs);
// Active values that reach an output with a cotangent.
Flags find_useful(const Graph& graph, const Flags& active, const Flags& outputs_with_cotangent);

// The forward with active calls and costly composites inlined, scans and sorts keeping what their gradients
// need. Outputs and inputs are those of the source, in order.
struct Prepared {
  Graph graph;
  std::vector<std::shared_ptr<const GradientPlan>> plans;  // by node; null for most
};
Result<Prepared> prepare(const Graph& source, const Flags& wanted_inputs,
                         const Flags& outputs_with_cotangent);

// Appends the backward nodes to the builder's graph.  `images` maps values of the prepared graph into it; a
// cotangent an output, invalid where absent.  Returns a gradient an input, invalid where it is zero or not
// wanted.
Result<std::vector<ValueId>> reverse_pass(Builder& b, const Prepared& forward,
                                          const std::vector<ValueId>& images,
                                          const std::vector<ValueId>& cotangents, const Flags& wanted_inputs);

// The gradient of a node as that of a region with the node's operands from `first` on as inputs and its
// results as outputs; the region's values are computed again in the builder's graph.
Status differentiate_region(Gradient& g, const Graph& region, int first = 0);
// The same through the expansion of a composite.
Status differentiate_expansion(Gradient& g);

// The expansion of a composite as a graph of its present operands.
Result<Graph> expansion_graph(Op op, const std::vector<const TensorType*>& operands,
                              const AttributeMap& attributes, const std::vector<Symbol>& symbols);

// Copies the nodes without their names; `map` is preset for the inputs.
Status copy_unnamed(const Graph& source, Graph& target, std::vector<ValueId>& map);

// A copy of the region that also knows the symbols around it.
Graph with_symbols(const Graph& region, const std::vector<Symbol>& outer);

// gradient_pair without the values that only bind symbols; for regions, whose symbols are bound outside.
Result<GradientPair> region_pair(const Graph& region, const GradientOptions& options);

}  // namespace tilewright::gradients
