// Comparison of two results of one graph within the tolerances that its ops declare.
#pragma once

#include <string>

#include "ir/reference/kernel.h"

namespace tilewright {

// Sum of the declared tolerances of all nodes, at the narrowest float type in the graph.
struct GraphTolerance {
  Tolerance sum;
  DType unit = DType::F64;  // whose ulps count
  bool scaled = false;      // sums inside: measured against the size of the whole output too
};
GraphTolerance graph_tolerance(const Graph& graph, const Bindings& bindings);

// Empty when equal within the tolerance, else the first difference: "[1,2]: found 3, expected 4 (off by 1e8
// ulp)".
std::string difference(const TensorRef& found, const TensorRef& expected, const GraphTolerance& tolerance);

}  // namespace tilewright
