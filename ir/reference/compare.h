// Comparison of two results of one graph, within bounds that follow from the declared accuracy of its ops.
#pragma once

#include <memory>
#include <string>

#include "ir/reference/kernel.h"

namespace tilewright {

// Empty when equal to the bit (any NaN is like any other) or within `ulps` of each other, else the first
// difference: "[1,2]: found 3, expected 4 (off by 1e8 ulp)".
std::string difference(const TensorRef& found, const TensorRef& expected, double ulps = 0);

// Compares outputs of other engines with those of the reference run.  The bound of each element is derived
// for the values at hand: what the op behind the output declares, and the response of the element to errors
// within what the ops before it declare (docs/accuracy.md).
class Comparison {
 public:
  // Inputs are those of the runs and must outlive the comparison.  Without `custom_call`, graphs that need
  // one get the declared bound of the last op alone.
  Comparison(const Graph& graph, std::span<const TensorRef> inputs, const Bindings& bindings,
             CustomCallRunner custom_call = nullptr);
  ~Comparison();
  Comparison(const Comparison&) = delete;
  Comparison& operator=(const Comparison&) = delete;

  // Empty when within the bounds, else the first difference.
  std::string difference(size_t output, const TensorRef& found, const TensorRef& expected);

 private:
  class Bounds;
  std::unique_ptr<Bounds> bounds_;
};

// The number itself; for an infinity what is a step away from the largest finite number.
double finite_number(double value, DType dtype);
// Distance between neighbouring numbers of the dtype at `value`.
double ulp(double value, DType dtype);

}  // namespace tilewright
