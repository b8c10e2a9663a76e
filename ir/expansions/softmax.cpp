// softmax, log_softmax, logsumexp and their gradients: stable, computed in f32 (f64 for f64), rounded once.
#include <limits>

#include "ir/expansions/pieces.h"

namespace tilewright {
using namespace expansions;
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Status finish(Expansion& e, ValueId value) {
  e.results = {e.b.convert(value, e.attributes.get_dtype("out_type", dtype_of(e, 0)))};
  return Status::ok();
}

// A maximum of -inf becomes 0, so that exp(-inf - max) is 0 instead of NaN.
ValueId without_minus_infinity(Builder& b, ValueId max) {
  ValueId empty = b.compare(max, b.constant_like(-kInfinity, max), "EQ");
  return b.select(empty, b.zeros_like(max), max);
}

}  // namespace

Status expand_softmax(Expansion& e) {
  Builder& b = e.b;
  int64_t dim = e.attributes.get_int("dim");
  TW_RETURN_IF_ERROR(check_axis(e, "dim", dim, b.rank(e.operands[0])));
  bool safe = e.attributes.get_bool("safe");
  ValueId x = widened(e, 0);
  Shape shape = b.shape(x);
  ValueId max = b.reduce_max(x, {dim});
  if (safe) max = without_minus_infinity(b, max);
  ValueId powers = b.exponential(b.subtract(x, b.broadcast_reduced(max, shape, {dim})));
  ValueId sum = b.reduce_sum(powers, {dim});
  ValueId factor = b.divide(b.constant_like(1, sum), sum);
  if (safe) factor = b.select(b.compare(sum, b.zeros_like(sum), "EQ"), b.zeros_like(sum), factor);
  return finish(e, b.multiply(powers, b.broadcast_reduced(factor, shape, {dim})));
}

Status expand_softmax_grad(Expansion& e) {
  Builder& b = e.b;
  int64_t dim = e.attributes.get_int("dim");
  TW_RETURN_IF_ERROR(check_axis(e, "dim", dim, b.rank(e.operands[0])));
  TW_RETURN_IF_ERROR(check_same_shape(e, 1, 0));
  ValueId g = widened(e, 0), y = widened(e, 1);
  ValueId sum = spread_sum(b, b.multiply(g, y), {dim});
  return finish(e, b.multiply(y, b.subtract(g, sum)));
}

Status expand_log_softmax(Expansion& e) {
  Builder& b = e.b;
  int64_t dim = e.attributes.get_int("dim");
  TW_RETURN_IF_ERROR(check_axis(e, "dim", dim, b.rank(e.operands[0])));
  ValueId x = widened(e, 0);
  Shape shape = b.shape(x);
  ValueId shifted = b.subtract(x, spread_max(b, x, {dim}));
  ValueId log_sum = b.log(b.reduce_sum(b.exponential(shifted), {dim}));
  return finish(e, b.subtract(shifted, b.broadcast_reduced(log_sum, shape, {dim})));
}

Status expand_log_softmax_grad(Expansion& e) {
  Builder& b = e.b;
  int64_t dim = e.attributes.get_int("dim");
  TW_RETURN_IF_ERROR(check_axis(e, "dim", dim, b.rank(e.operands[0])));
  TW_RETURN_IF_ERROR(check_same_shape(e, 1, 0));
  ValueId g = widened(e, 0), y = widened(e, 1);
  return finish(e, b.subtract(g, b.multiply(b.exponential(y), spread_sum(b, g, {dim}))));
}

Status expand_logsumexp(Expansion& e) {
  Builder& b = e.b;
  const Ints& dims = e.attributes.get_ints("dims");
  TW_RETURN_IF_ERROR(check_axes(e, "dims", dims, b.rank(e.operands[0])));
  ValueId x = widened(e, 0);
  Shape shape = b.shape(x);
  ValueId max = b.reduce_max(x, dims);
  // An infinite maximum is not subtracted: exp then gives 0 or inf by itself.
  max = b.select(b.emit(Op::IsFinite, {max}), max, b.zeros_like(max));
  ValueId powers = b.exponential(b.subtract(x, b.broadcast_reduced(max, shape, dims)));
  ValueId y = b.add(b.log(b.reduce_sum(powers, dims)), max);
  if (e.attributes.get_bool("keepdims")) {
    for (int64_t dim : dims) shape[static_cast<size_t>(dim)] = 1;
    y = b.reshape(y, shape);
  }
  e.results = {b.convert(y, dtype_of(e, 0))};
  return Status::ok();
}

}  // namespace tilewright
