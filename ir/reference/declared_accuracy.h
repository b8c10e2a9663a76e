// Declared accuracy of one node: the accuracy column of the op table in numbers.
#pragma once

#include "ir/reference/kernel.h"

namespace tilewright {

// |found - reference| <= ulps * ulp(reference) + absolute + sum * (the node on |operands|).
struct DeclaredAccuracy {
  double ulps = 0;
  double absolute = 0;
  double sum = 0;  // k u of the bound k u sum |terms|

  bool is_exact() const { return ulps == 0 && absolute == 0 && sum == 0; }
};
DeclaredAccuracy declared_accuracy(const Graph& graph, const Node& node, size_t result,
                                   const Bindings& bindings);

// Half the distance from 1 to the next larger number.
double unit_roundoff(DType dtype);
// Roundings that one term of a sum meets at most.
double summation_steps(int64_t terms, bool multiplies);
int64_t summed_terms(const Graph& graph, const Node& node, const Bindings& bindings);

}  // namespace tilewright
