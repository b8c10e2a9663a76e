// 2-d convolution and its gradients on the convolution primitive.
#include "ir/expansions/windows.h"

namespace tilewright {
using namespace expansions;
namespace {

Result<int64_t> groups_of(const Expansion& e, const Dim& inputs, const Dim& outputs) {
  int64_t groups = e.attributes.get_int("groups");
  if (groups < 1) return fail(e, "groups is ", groups, ", expected 1 or more");
  if (!inputs.is_multiple_of(groups) || !outputs.is_multiple_of(groups)) {
    return fail(e, "groups ", groups, " does not divide ", inputs.to_string(), " and ", outputs.to_string(),
                " channels");
  }
  return groups;
}

Result<Ints> kernel_of(const Expansion& e, int operand) {
  const Shape& w = shape_of(e, operand);
  TW_ASSIGN_OR_RETURN(int64_t kh, known(e, w[2], "the kernel height"));
  TW_ASSIGN_OR_RETURN(int64_t kw, known(e, w[3], "the kernel width"));
  return Ints{kh, kw};
}

}  // namespace

Status expand_conv2d(Expansion& e) {
  Builder& b = e.b;
  TW_RETURN_IF_ERROR(check_rank(e, 0, 4));
  TW_RETURN_IF_ERROR(check_rank(e, 1, 4));
  Shape x = shape_of(e, 0), w = shape_of(e, 1);
  TW_ASSIGN_OR_RETURN(int64_t groups, groups_of(e, x[1], w[0]));
  TW_RETURN_IF_ERROR(check_shape(e, 1, {w[0], Dim::floor_div(x[1], Dim(groups)), w[2], w[3]}));
  if (e.has(2)) TW_RETURN_IF_ERROR(check_shape(e, 2, {w[0]}));
  TW_ASSIGN_OR_RETURN(Ints kernel, kernel_of(e, 1));
  TW_ASSIGN_OR_RETURN(Windows windows, read_windows(e, kernel, x[2], x[3], false, true, false));
  Ints pads = windows.of(&WindowAxis::pad);
  // With a bias, narrow types are widened first, so that the sum with the bias rounds once.
  bool biased = e.has(2);
  ValueId y = b.emit(Op::Convolution,
                     {biased ? widened(e, 0) : e.operands[0], biased ? widened(e, 1) : e.operands[1]},
                     {{"strides", windows.of(&WindowAxis::stride)},
                      {"pad_lo", pads},
                      {"pad_hi", pads},
                      {"rhs_dilation", windows.of(&WindowAxis::dilation)},
                      {"feature_groups", groups}});
  if (biased && b.status().is_ok()) y = b.add(y, b.broadcast(widened(e, 2), Shape(b.shape(y)), {1}));
  e.results = {b.convert(y, dtype_of(e, 0))};
  return Status::ok();
}

namespace {

// w [o, c/g, kh, kw] as the weights of the transposed convolution, [c, o/g, kh, kw] with reversed windows.
ValueId transposed_weights(Builder& b, ValueId w, int64_t groups, const Shape& shape) {
  Dim o = Dim::floor_div(shape[0], Dim(groups));
  ValueId split = b.reshape(w, {Dim(groups), o, shape[1], shape[2], shape[3]});
  ValueId swapped = b.transpose(split, {0, 2, 1, 3, 4});
  return b.emit(Op::Reverse, {b.reshape(swapped, {shape[1] * Dim(groups), o, shape[2], shape[3]})},
                {{"dims", Ints{2, 3}}});
}

// The padding that gives exactly the input's size; false when it is negative or depends on symbols.
bool exact_pads(const Windows& windows, Ints& lo, Ints& hi) {
  for (const WindowAxis& axis : windows.axes) {
    Dim end = axis.in + Dim(axis.pad + axis.reach() - 1) - axis.covered();
    int64_t begin = axis.reach() - 1 - axis.pad;
    if (begin < 0 || !end.is_constant() || end.constant() < 0) return false;
    lo.push_back(begin);
    hi.push_back(end.constant());
  }
  return true;
}

}  // namespace

Status expand_conv2d_input_grad(Expansion& e) {
  Builder& b = e.b;
  TW_RETURN_IF_ERROR(check_rank(e, 0, 4));
  TW_RETURN_IF_ERROR(check_rank(e, 1, 4));
  TW_ASSIGN_OR_RETURN(Shape x, four_dims(e, "size"));
  Shape w = shape_of(e, 1);
  TW_ASSIGN_OR_RETURN(int64_t groups, groups_of(e, x[1], w[0]));
  TW_RETURN_IF_ERROR(check_shape(e, 1, {w[0], Dim::floor_div(x[1], Dim(groups)), w[2], w[3]}));
  TW_ASSIGN_OR_RETURN(Ints kernel, kernel_of(e, 1));
  TW_ASSIGN_OR_RETURN(Windows windows, read_windows(e, kernel, x[2], x[3], false, true, false));
  const WindowAxis &height = windows.axes[0], &width = windows.axes[1];
  TW_RETURN_IF_ERROR(check_shape(e, 0, {x[0], w[0], height.out, width.out}));
  if (height.out.is_constant(0) || width.out.is_constant(0)) {
    e.results = {b.constant(0, dtype_of(e, 0), x)};
    return Status::ok();
  }
  Ints lo, hi;
  bool exact = exact_pads(windows, lo, hi);
  // Otherwise the whole padded input is computed, then cut.
  if (!exact) lo = hi = {height.reach() - 1, width.reach() - 1};
  ValueId dx = b.emit(Op::Convolution, {e.operands[0], transposed_weights(b, e.operands[1], groups, w)},
                      {{"pad_lo", lo},
                       {"pad_hi", hi},
                       {"lhs_dilation", windows.of(&WindowAxis::stride)},
                       {"rhs_dilation", windows.of(&WindowAxis::dilation)},
                       {"feature_groups", groups}});
  e.results = {exact ? dx : unpadded(b, dx, windows)};
  return Status::ok();
}

Status expand_conv2d_weight_grad(Expansion& e) {
  Builder& b = e.b;
  TW_RETURN_IF_ERROR(check_rank(e, 0, 4));
  TW_RETURN_IF_ERROR(check_rank(e, 1, 4));
  Shape g = shape_of(e, 0), x = shape_of(e, 1);
  TW_ASSIGN_OR_RETURN(Ints kernel, pair(e, "kernel"));
  TW_ASSIGN_OR_RETURN(int64_t groups, groups_of(e, x[1], g[1]));
  TW_ASSIGN_OR_RETURN(Windows windows, read_windows(e, kernel, x[2], x[3], false, true, false));
  const WindowAxis &height = windows.axes[0], &width = windows.axes[1];
  TW_RETURN_IF_ERROR(check_shape(e, 0, {x[0], g[1], height.out, width.out}));
  Shape result{g[1], Dim::floor_div(x[1], Dim(groups)), kernel[0], kernel[1]};
  if (height.out.is_constant(0) || width.out.is_constant(0)) {
    e.results = {b.constant(0, dtype_of(e, 0), result)};
    return Status::ok();
  }
  // The batch is contracted: channels of x take the place of the batch, g that of the weights.
  Ints pads = windows.of(&WindowAxis::pad);
  ValueId dw = b.emit(Op::Convolution, {e.operands[1], e.operands[0]},
                      {{"strides", windows.of(&WindowAxis::dilation)},
                       {"pad_lo", pads},
                       {"pad_hi", pads},
                       {"rhs_dilation", windows.of(&WindowAxis::stride)},
                       {"batch_groups", groups},
                       {"x_dims", Ints{1, 0, 2, 3}},
                       {"w_dims", Ints{1, 0, 2, 3}},
                       {"y_dims", Ints{1, 0, 2, 3}}});
  // Input rows past the last window leave positions that belong to no weight.
  if (b.status().is_ok() && b.shape(dw) != result) dw = b.slice(dw, {0, 0, 0, 0}, result);
  e.results = {dw};
  return Status::ok();
}

}  // namespace tilewright
