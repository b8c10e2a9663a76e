// Boundary: what a graph expects of the tensors and symbols of a call, and the checks that say what is wrong.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ir/conditions.h"
#include "ir/graph.h"
#include "runtime/tensor_view.h"

namespace tilewright {

// Sizes of everything at the boundary under one binding of the symbols.
struct BoundSizes {
  std::vector<int64_t> symbols;  // in the graph's order
  Bindings bindings;
  std::vector<std::vector<int64_t>> inputs;
  std::vector<std::vector<int64_t>> input_strides;  // required ones; empty: any
  std::vector<std::vector<int64_t>> outputs;
};

class Boundary {
 public:
  explicit Boundary(const Graph& graph);

  // Values of the symbols: the first bare occurrence in an input binds, else the run option.  A null input is
  // skipped (a frozen one, whose sizes are in `frozen`).
  Status bind(std::span<const TensorView* const> inputs, const Bindings& given,
              std::vector<int64_t>* symbols) const;
  // Checks ranges and evaluates all sizes.
  Result<BoundSizes> resolve(std::vector<int64_t> symbols) const;
  // Dtype, rank, sizes, data of one input or given output; `what` is "input" or "output".
  Status check_input(const BoundSizes& sizes, int index, const TensorView& tensor) const;
  Status check_output(const BoundSizes& sizes, int index, const TensorView& tensor) const;
  // True when the tensor lies as the input's layout says and its elements are aligned.
  bool fits_layout(const BoundSizes& sizes, int index, const TensorView& tensor) const;

  std::string input_name(int index) const;   // "input 0 %x"
  std::string output_name(int index) const;  // "output 1 loss"

 private:
  struct Source {  // where a symbol is bound
    int input = -1;
    int dim = 0;
  };
  Status check_tensor(const std::string& what, const TensorType& type, const std::vector<int64_t>& sizes,
                      const TensorView& tensor) const;

  const Graph& graph_;
  std::vector<Source> sources_;  // one a symbol
  std::vector<DimCondition> conditions_;
};

// Strides of a dense tensor whose dims lie in `order` (slowest first; empty is row-major).
std::vector<int64_t> dense_strides(const std::vector<int64_t>& sizes, const std::vector<int64_t>& order);

// An argument of a call as a range of bytes.
struct ByteRange {
  uintptr_t begin = 0, end = 0;
  int argument = 0;
};
// Sorts both.  The first pair of a range of `a` and one of `b` that share a byte, or nothing.
std::optional<std::pair<int, int>> find_overlap(std::vector<ByteRange>& a, std::vector<ByteRange>& b);

}  // namespace tilewright
