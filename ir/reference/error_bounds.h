// ErrorBounds: how far each output element of a graph may be from its reference, for the inputs at hand.
#pragma once

#include <optional>

#include "ir/reference/declared_accuracy.h"
#include "ir/reference/interpreter.h"

namespace tilewright {

// The bound of an element is  own + spread.  `own` is what the op that makes the output declares;
// `spread` is a multiple of the root mean square response of the element when every value inside the graph is
// disturbed within what its op declares.  docs/accuracy.md derives it.
class ErrorBounds {
 public:
  ErrorBounds(const Graph& graph, std::span<const TensorRef> inputs, const Bindings& bindings,
              CustomCallRunner custom_call);

  // Stage 0 finds `own`, the next ones add samples of the spread.  Stages that are done cost nothing.
  static constexpr int kStages = 3;
  Status refine(int stage);
  double bound(size_t output, int64_t flat, double value, DType dtype) const;

 private:
  // What is known of one output.
  struct Own {
    DeclaredAccuracy declared;
    std::optional<OwnedTensor> magnitudes;  // the node on |operands|
    bool follows = false;                   // something before the last op is inexact
    std::vector<double> center;
    // Sums of squared responses to errors that are independent, and equal within each node.
    std::vector<long double> squares[2];  // whose range holds the square of any double
  };
  // What one value inside a graph may be off by, and sum terms relatively.
  struct Disturbance {
    double ulps = 0, absolute = 0;
  };

  Status prepare();
  Status measure();
  Status sample(uint64_t number, bool correlated);
  void record_own(const Graph& graph, NodeId id, std::span<const TensorRef* const> inputs);
  bool is_inexact(const Graph& graph, const Node& node) const;
  Disturbance disturbance(const Graph& graph, ValueId value) const;
  std::optional<OwnedTensor> disturbed(const Graph& graph, ValueId value, const TensorRef& tensor,
                                       double relative) const;
  void disturb(const Graph& graph, ValueId value, double relative, const TensorRef& from,
               TensorRef& to) const;

  const Graph& source_;
  std::span<const TensorRef> inputs_;
  Bindings bindings_;
  CustomCallRunner custom_call_;
  int stages_ = 0, samples_ = 0;
  Graph graph_;              // without the composites that declare no bound of their own
  bool expanded_ = false;    // there were such
  std::vector<bool> exact_;  // by value of graph_: nothing before and in its node is inexact
  std::vector<Own> own_;
  uint64_t seed_ = 0;
  bool correlated_ = false;
};

}  // namespace tilewright
