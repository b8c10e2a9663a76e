// Gradients of shape ops: each moves the cotangent back.
#include <algorithm>
#include <numeric>

#include "ir/gradients/rules.h"

namespace tilewright {

using namespace gradients;

Status gradient_reshape(Gradient& g) {
  g.gradients[0] = g.b.reshape(g.cotangent(), shape_of(g, 0));
  return Status::ok();
}

Status gradient_broadcast_in_dim(Gradient& g) {
  Builder& b = g.b;
  Shape from = shape_of(g, 0), to = b.shape(g.results[0]);
  const Ints& dims = g.attributes.get_ints("dims");
  Ints summed = other_dims(static_cast<int>(to.size()), dims);
  Ints kept;  // operand dims that were not repeated
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] == to[dims[i]]) {
      kept.push_back(static_cast<int64_t>(i));
    } else {
      summed.push_back(dims[i]);
    }
  }
  std::sort(summed.begin(), summed.end());
  ValueId c = g.cotangent();
  if (!summed.empty()) c = b.reduce_sum(c, summed);
  // The kept dims lie in the order of the result: put them in the order of the operand.
  Ints order(kept.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t i, int64_t j) { return dims[kept[i]] < dims[kept[j]]; });
  if (!order.empty()) c = b.transpose(c, inverse_permutation(order));
  g.gradients[0] = b.reshape(c, from);
  return Status::ok();
}

Status gradient_transpose(Gradient& g) {
  g.gradients[0] = g.b.transpose(g.cotangent(), inverse_permutation(g.attributes.get_ints("perm")));
  return Status::ok();
}

Status gradient_slice(Gradient& g) {
  Builder& b = g.b;
  Shape from = shape_of(g, 0), to = b.shape(g.results[0]);
  Shape start = g.attributes.get_dims("start"), hi;
  Ints interior;
  const Ints& stride = g.attributes.get_ints("stride");
  for (size_t i = 0; i < from.size(); ++i) {
    int64_t step = stride.empty() ? 1 : stride[i];
    interior.push_back(step - 1);
    hi.push_back(from[i] - start[i] - dilated_size(to[i], step, b.graph().symbols));
  }
  g.gradients[0] = b.pad(g.cotangent(), b.constant(0, b.dtype(g.results[0])), start, hi, interior);
  return Status::ok();
}

// What `pad` put where: the inner elements come back by cutting the edges and stepping over the interior.
static ValueId unpad(Builder& b, ValueId c, const Shape& inner, const Shape& lo, const Ints& steps) {
  Shape outer = b.shape(c), cut_lo, cut_hi, zero(inner.size(), Dim(0)), limit;
  for (size_t i = 0; i < inner.size(); ++i) {
    limit.push_back(inner[i] * Dim(steps[i]));
    cut_lo.push_back(Dim(0) - lo[i]);
    cut_hi.push_back(limit[i] + lo[i] - outer[i]);
  }
  ValueId cut = c;
  if (outer != limit || lo != zero) cut = b.pad(c, b.constant(0, b.dtype(c)), cut_lo, cut_hi);
  if (limit == inner) return cut;
  return b.slice(cut, zero, limit, steps);
}

Status gradient_pad(Gradient& g) {
  Builder& b = g.b;
  Shape inner = shape_of(g, 0), lo = g.attributes.get_dims("lo"), hi = g.attributes.get_dims("hi");
  Ints interior = g.attributes.get_ints("interior"), steps;
  for (size_t i = 0; i < inner.size(); ++i) steps.push_back(interior.empty() ? 1 : interior[i] + 1);
  if (g.wants(0)) g.gradients[0] = unpad(b, g.cotangent(), inner, lo, steps);
  if (g.wants(1)) {
    ValueId inside = b.pad(b.integer(0, DType::Bool, inner), b.integer(1, DType::Bool), lo, hi, interior);
    g.gradients[1] = sum_all(b, keep_where(b, inside, g.cotangent()));
  }
  return Status::ok();
}

Status gradient_concatenate(Gradient& g) {
  Builder& b = g.b;
  int64_t dim = g.attributes.get_int("dim");
  Shape start(b.rank(g.results[0]), Dim(0));
  for (size_t i = 0; i < g.operands.size(); ++i) {
    Shape limit = shape_of(g, static_cast<int>(i));
    limit[dim] = limit[dim] + start[dim];
    if (g.wants(static_cast<int>(i))) g.gradients[i] = b.slice(g.cotangent(), start, limit);
    start[dim] = limit[dim];
  }
  return Status::ok();
}

Status gradient_reverse(Gradient& g) {
  g.gradients[0] = g.b.emit(Op::Reverse, {g.cotangent()}, pick_attributes(g, {"dims"}));
  return Status::ok();
}

static std::vector<ValueId> with_starts(const Gradient& g, std::vector<ValueId> operands, size_t first) {
  operands.insert(operands.end(), g.operands.begin() + first, g.operands.end());
  return operands;
}

Status gradient_dynamic_slice(Gradient& g) {
  ValueId zero = g.b.zeros_like(g.operands[0]);
  g.gradients[0] = g.b.emit(Op::DynamicUpdateSlice, with_starts(g, {zero, g.cotangent()}, 1));
  return Status::ok();
}

Status gradient_dynamic_update_slice(Gradient& g) {
  Builder& b = g.b;
  if (g.wants(0)) {
    ValueId zero = b.zeros_like(g.operands[1]);
    g.gradients[0] = b.emit(Op::DynamicUpdateSlice, with_starts(g, {g.cotangent(), zero}, 2));
  }
  if (g.wants(1)) {
    g.gradients[1] =
        b.emit(Op::DynamicSlice, with_starts(g, {g.cotangent()}, 2), {{"sizes", shape_of(g, 1)}});
  }
  return Status::ok();
}

}  // namespace tilewright
