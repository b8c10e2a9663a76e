// Builder: appends nodes with short calls and a sticky error, for expansions, gradients, passes and tests.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"

namespace tilewright {

// After the first failed call every call returns invalid ids; `status()` tells what failed.
class Builder {
 public:
  explicit Builder(Graph& graph) : graph_(graph) {}

  Graph& graph() { return graph_; }
  const Status& status() const { return status_; }
  void fail(Status status) {
    if (status_.is_ok()) status_ = std::move(status);
  }
  const TensorType& type(ValueId value) const;
  DType dtype(ValueId value) const { return type(value).dtype; }
  const Shape& shape(ValueId value) const { return type(value).shape; }
  int rank(ValueId value) const { return type(value).rank(); }
  // Tag given to all nodes appended from now on.
  void set_tag(std::string tag) { tag_ = std::move(tag); }

  std::vector<ValueId> emit_all(Op op, std::vector<ValueId> operands, AttributeMap attributes = {},
                                std::vector<RegionRef> regions = {});
  // The first result.
  ValueId emit(Op op, std::vector<ValueId> operands, AttributeMap attributes = {},
               std::vector<RegionRef> regions = {});

  // Splat constants; integers are exact.
  ValueId constant(double value, DType dtype, Shape shape = {});
  ValueId integer(int64_t value, DType dtype, Shape shape = {});
  ValueId constant_like(double value, ValueId like);
  ValueId zeros_like(ValueId like) { return constant_like(0, like); }
  ValueId iota(Shape shape, int64_t dim, DType dtype);

  ValueId add(ValueId a, ValueId b) { return emit(Op::Add, {a, b}); }
  ValueId subtract(ValueId a, ValueId b) { return emit(Op::Subtract, {a, b}); }
  ValueId multiply(ValueId a, ValueId b) { return emit(Op::Multiply, {a, b}); }
  ValueId divide(ValueId a, ValueId b) { return emit(Op::Divide, {a, b}); }
  ValueId maximum(ValueId a, ValueId b) { return emit(Op::Maximum, {a, b}); }
  ValueId minimum(ValueId a, ValueId b) { return emit(Op::Minimum, {a, b}); }
  ValueId negate(ValueId a) { return emit(Op::Negate, {a}); }
  ValueId exponential(ValueId a) { return emit(Op::Exponential, {a}); }
  ValueId log(ValueId a) { return emit(Op::Log, {a}); }
  ValueId select(ValueId pred, ValueId on_true, ValueId on_false) {
    return emit(Op::Select, {pred, on_true, on_false});
  }
  ValueId compare(ValueId a, ValueId b, const char* direction);  // "LT", ...
  ValueId scale(ValueId a, double factor) { return multiply(a, constant_like(factor, a)); }
  ValueId shift(ValueId a, double amount) { return add(a, constant_like(amount, a)); }

  ValueId convert(ValueId a, DType dtype);  // the value itself when the dtype is already right
  ValueId reshape(ValueId a, Shape shape);  // the value itself when the shape is already right
  ValueId transpose(ValueId a, Ints perm);
  ValueId broadcast(ValueId a, Shape shape, Ints dims);
  // Numpy rule: trailing dims aligned, literal 1s repeated.
  ValueId broadcast_to(ValueId a, const Shape& shape);
  // Puts back the dims that a reduction over `dims` (without keepdims) took away.
  ValueId broadcast_reduced(ValueId a, const Shape& shape, const Ints& dims);
  ValueId slice(ValueId a, Shape start, Shape limit, Ints stride = {});
  ValueId pad(ValueId a, ValueId value, Shape lo, Shape hi, Ints interior = {});
  ValueId concatenate(std::vector<ValueId> values, int64_t dim);
  ValueId reduce_sum(ValueId a, Ints dims, bool keepdims = false);
  ValueId reduce_max(ValueId a, Ints dims, bool keepdims = false);
  // Batched product of the last two dims: [.., m, k] x [.., k, n]; transposed operands by flags.
  ValueId matmul(ValueId a, ValueId b, bool transpose_a = false, bool transpose_b = false);

 private:
  Graph& graph_;
  Status status_;
  std::string tag_;
};

}  // namespace tilewright
