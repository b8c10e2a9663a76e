// Reverse-mode differentiation of graphs: one rule a differentiable row, a joint graph or a forward/backward
// pair.
#pragma once

#include <span>

#include "ir/builder.h"
#include "ir/inference.h"

namespace tilewright {

// What the forward graph was changed to keep for the gradient of one node.
struct GradientPlan {
  // sort: the result that holds the permutation.
  int permutation_result = -1;

  // scan: where a value that the backward region takes comes from.
  enum class Source : uint8_t { Invariant, Slice, Stacked };
  struct Saved {
    Source source;
    ValueId value;   // Invariant: in `forward`, computed from unchanged carries only
    int index = -1;  // Slice: operand of the scan; Stacked: result of the scan
  };
  std::vector<int> carries;  // carries with a gradient
  std::vector<int> slices;   // stacked operands with a gradient
  std::vector<int> outputs;  // stacked results with a cotangent
  std::vector<Saved> saved;
  RegionRef forward;   // one step with the saved values as further outputs
  RegionRef backward;  // saved values, cotangents of carries and outputs -> gradients of carries and slices
};

// What a rule sees: the forward node's values inside the graph being built, the cotangents, and where to add
// gradients.
class Gradient {
 public:
  Builder& b;
  const Node& node;  // of the original graph: op, attributes, regions
  AttributeReader attributes;
  std::vector<ValueId> operands;  // images in the builder's graph; invalid when absent
  std::vector<ValueId> results;
  std::vector<ValueId> cotangents;  // one a result; invalid when no gradient flows into it
  std::vector<bool> wanted;         // one an operand: whether its gradient is needed
  std::vector<ValueId> gradients;   // one an operand, filled by the rule; invalid means zero
  const GradientPlan* plan = nullptr;

  // The cotangent of a result, zeros when absent.
  ValueId cotangent(int result = 0);
  bool wants(int operand) const { return operand < static_cast<int>(wanted.size()) && wanted[operand]; }
};

// gradient_<name>: rows whose gradient column is Rule.  (gradients/*.cpp)
#define TW_GRADIENT_Zero(name)
#define TW_GRADIENT_Expansion(name)
#define TW_GRADIENT_Rule(name) Status gradient_##name(Gradient& g);
#define OP(name, Enum, id, operands, results, types, attributes, infer, kind, accuracy, traits, gradient, \
           meaning)                                                                                       \
  TW_GRADIENT_##gradient(name)
#define COMPOSITE OP
#include "ir/ops.def"
#undef OP
#undef COMPOSITE

struct GradientOptions {
  std::vector<int> outputs;  // outputs that get a cotangent (float ones only); empty: all float outputs
  std::vector<int> inputs;   // inputs whose gradient is wanted; empty: all float inputs
  bool recompute = false;    // recompute cheap activations in the backward instead of saving them
};

// One graph: the original inputs, then a cotangent an output; the original outputs, then a gradient an input.
// With `implicit_one` the cotangent is the constant 1: for one differentiated output, which is 0-d.
Result<Graph> joint_gradient(const Graph& graph, const GradientOptions& options, bool implicit_one);

struct GradientPair {
  Graph forward;   // the original outputs, then `saved.k`
  Graph backward;  // inputs: the saved values, then the cotangents; outputs: the gradients
};
Result<GradientPair> gradient_pair(const Graph& graph, const GradientOptions& options);

}  // namespace tilewright
