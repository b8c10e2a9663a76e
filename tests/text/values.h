// Tensors of text tests: inputs as written or drawn from a seed, expectations, comparison within tolerance.
#pragma once

#include "ir/reference/compare.h"
#include "ir/reference/interpreter.h"
#include "tests/text/test_file.h"

namespace tilewright::text_tests {

// SplitMix64: the same numbers on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next();
  double uniform(double lo, double hi);
  int64_t integer(int64_t lo, int64_t hi);  // both inclusive

 private:
  uint64_t state_;
};

// How random inputs are drawn: `range=-2..2` (the default) and `values=special` for zeros, infinities, NaN,
// extremes.
struct Draw {
  double lo = -2, hi = 2;
  bool special = false;
};
Result<Draw> parse_draw(std::string_view range, std::string_view values);

void fill_random(TensorRef& tensor, Random& random, const Draw& draw);

struct Inputs {
  Bindings bindings;
  std::vector<OwnedTensor> tensors;
  std::vector<TensorRef> refs() const;
};

// From the `# input:` and `# bind:` remarks; what they leave open is drawn.  A symbol that nothing binds
// takes its hint or a small size in its range.
Result<Inputs> make_inputs(const Graph& graph, const TestCase& test, uint64_t seed, const Draw& draw);

// A dense tensor from a literal of the text form.
Result<OwnedTensor> tensor_of_literal(std::string_view literal, DType dtype,
                                      const std::vector<int64_t>& sizes);
std::string literal_of_tensor(const TensorRef& tensor);

using tilewright::difference;
using tilewright::Comparison;

}  // namespace tilewright::text_tests
