// Geometry of 2-d windows, im2col and its transpose.
#include "ir/expansions/windows.h"

#include <algorithm>

#include "ir/window.h"

namespace tilewright::expansions {

Result<Ints> pair(const Expansion& e, std::string_view name) {
  const Ints& given = e.attributes.get_ints(name);
  if (given.size() != 2) return fail(e, name, " has ", given.size(), " entries, expected 2");
  return given;
}

Status check_cells(const Expansion& e, const Ints& kernel) {
  int64_t cells = 1;
  for (int64_t size : kernel)
    if (__builtin_mul_overflow(cells, size, &cells)) cells = INT64_MAX;
  return check_most(e, "the number of elements of kernel", cells, kMostResults);
}

Result<Shape> four_dims(const Expansion& e, std::string_view name) {
  const Shape& size = e.attributes.get_dims(name);
  if (size.size() != 4) return fail(e, name, " has ", size.size(), " entries, expected 4");
  return size;
}

namespace {

Status check_axis_values(const Expansion& e, const WindowAxis& axis) {
  if (axis.kernel < 1) return fail(e, "kernel holds ", axis.kernel, ", expected 1 or more");
  if (axis.stride < 1) return fail(e, "strides holds ", axis.stride, ", expected 1 or more");
  if (axis.dilation < 1) return fail(e, "dilation holds ", axis.dilation, ", expected 1 or more");
  if (axis.pad < 0) return fail(e, "pad holds ", axis.pad, ", expected 0 or more");
  // Sums and products of these stay within 64 bits.
  TW_RETURN_IF_ERROR(check_most(e, "an entry of kernel", axis.kernel, INT32_MAX));
  TW_RETURN_IF_ERROR(check_most(e, "an entry of strides", axis.stride, INT32_MAX));
  TW_RETURN_IF_ERROR(check_most(e, "an entry of dilation", axis.dilation, INT32_MAX));
  TW_RETURN_IF_ERROR(check_most(e, "an entry of pad", axis.pad, INT32_MAX));
  if (!axis.in.is_constant()) return Status::ok();
  return check_most(e, "the size of a spatial dim", axis.in.constant(), int64_t{1} << 61);
}

// With ceil mode a last window counts too that starts inside the input or its left padding but ends outside.
void count_with_ceil(WindowAxis& axis, int64_t size) {
  int64_t room = size + 2 * axis.pad - axis.reach();
  int64_t count = room < 0 ? (room + axis.stride > 0) : (room + axis.stride - 1) / axis.stride + 1;
  int64_t starts = (size + axis.pad + axis.stride - 1) / axis.stride;
  count = std::min(count, starts);
  axis.out = count;
  axis.hi = std::max<int64_t>((count - 1) * axis.stride + axis.reach() - size - axis.pad, 0);
}

}  // namespace

Result<Windows> read_windows(const Expansion& e, const Ints& kernel, const Dim& h, const Dim& w,
                             bool stride_is_kernel, bool has_dilation, bool ceil_mode) {
  TW_ASSIGN_OR_RETURN(Ints strides, ints_or(e, "strides", 2, 0));
  TW_ASSIGN_OR_RETURN(Ints pad, ints_or(e, "pad", 2, 0));
  Ints dilation(2, 1);
  if (has_dilation) {
    TW_ASSIGN_OR_RETURN(dilation, ints_or(e, "dilation", 2, 1));
  }
  bool default_strides = e.attributes.get_ints("strides").empty();
  Windows windows;
  for (size_t i = 0; i < 2; ++i) {
    WindowAxis& axis = windows.axes[i];
    axis.in = i == 0 ? h : w;
    axis.kernel = kernel[i], axis.dilation = dilation[i], axis.pad = pad[i];
    axis.stride = default_strides ? (stride_is_kernel ? kernel[i] : 1) : strides[i];
    TW_RETURN_IF_ERROR(check_axis_values(e, axis));
    axis.hi = axis.pad;
    axis.out = window_count(axis.in + Dim(2 * axis.pad), axis.kernel, axis.dilation, axis.stride,
                            e.b.graph().symbols);
    if (ceil_mode) {
      TW_ASSIGN_OR_RETURN(int64_t size, known(e, axis.in, i == 0 ? "h with ceil_mode" : "w with ceil_mode"));
      count_with_ceil(axis, size);
    }
  }
  return windows;
}

namespace {

// Whether a symbolic size decides that no window fits.
bool may_be_empty(Builder& b, const WindowAxis& axis) {
  return !axis.out.is_constant() && dim_range(axis.out, b.graph().symbols).min <= 0;
}

// Then every element of a window that is not there still starts inside.
int64_t high_pad(Builder& b, const WindowAxis& axis) {
  return axis.hi + (may_be_empty(b, axis) ? axis.reach() + axis.stride : 0);
}

}  // namespace

ValueId padded(Builder& b, ValueId x, const Windows& windows, ValueId value) {
  const WindowAxis &h = windows.axes[0], &w = windows.axes[1];
  const int64_t hi_h = high_pad(b, h), hi_w = high_pad(b, w);
  if (h.pad == 0 && w.pad == 0 && hi_h == 0 && hi_w == 0) return x;
  return b.pad(x, value, {0, 0, h.pad, w.pad}, {0, 0, hi_h, hi_w});
}

ValueId window_element(Builder& b, ValueId padded, const Windows& windows, int64_t i, int64_t j) {
  if (!b.status().is_ok()) return {};
  const Shape& shape = b.shape(padded);
  Shape start{0, 0}, limit{shape[0], shape[1]};
  int64_t offset[2] = {i, j};
  for (size_t k = 0; k < 2; ++k) {
    const WindowAxis& axis = windows.axes[k];
    Dim first = offset[k] * axis.dilation;
    start.push_back(first);
    // Without windows the slice is empty where it starts.
    Dim last = first;
    if (may_be_empty(b, axis))
      last = first + axis.out * Dim(axis.stride);
    else if (!axis.out.is_constant(0))
      last = first + (axis.out - Dim(1)) * Dim(axis.stride) + Dim(1);
    limit.push_back(last);
  }
  return b.slice(padded, start, limit, {1, 1, windows.axes[0].stride, windows.axes[1].stride});
}

ValueId unpadded(Builder& b, ValueId x, const Windows& windows) {
  if (!b.status().is_ok()) return {};
  const WindowAxis &h = windows.axes[0], &w = windows.axes[1];
  Dim hi_h = h.in + Dim(h.pad) - b.shape(x)[2], hi_w = w.in + Dim(w.pad) - b.shape(x)[3];
  if (h.pad == 0 && w.pad == 0 && hi_h.is_constant(0) && hi_w.is_constant(0)) return x;
  return b.pad(x, b.constant(0, b.dtype(x)), {0, 0, -h.pad, -w.pad}, {0, 0, hi_h, hi_w});
}

}  // namespace tilewright::expansions

namespace tilewright {
using namespace expansions;

Status expand_unfold(Expansion& e) {
  Builder& b = e.b;
  TW_RETURN_IF_ERROR(check_rank(e, 0, 4));
  TW_ASSIGN_OR_RETURN(Ints kernel, pair(e, "kernel"));
  Shape shape = shape_of(e, 0);
  TW_ASSIGN_OR_RETURN(Windows windows, read_windows(e, kernel, shape[2], shape[3], false, true, false));
  TW_RETURN_IF_ERROR(check_cells(e, kernel));
  Dim h = windows.axes[0].out, w = windows.axes[1].out;
  ValueId x = padded(b, e.operands[0], windows, b.constant(0, dtype_of(e, 0)));
  std::vector<ValueId> parts;
  for (int64_t i = 0; i < kernel[0]; ++i) {
    for (int64_t j = 0; j < kernel[1]; ++j) {
      parts.push_back(b.reshape(window_element(b, x, windows, i, j), {shape[0], shape[1], Dim(1), h, w}));
    }
  }
  e.results = {b.reshape(b.concatenate(parts, 2), {shape[0], shape[1] * Dim(kernel[0] * kernel[1]), h * w})};
  return Status::ok();
}

Status expand_fold(Expansion& e) {
  Builder& b = e.b;
  TW_RETURN_IF_ERROR(check_rank(e, 0, 3));
  TW_ASSIGN_OR_RETURN(Ints kernel, pair(e, "kernel"));
  TW_ASSIGN_OR_RETURN(Ints size, pair(e, "size"));
  TW_ASSIGN_OR_RETURN(Windows windows, read_windows(e, kernel, size[0], size[1], false, true, false));
  const WindowAxis &h = windows.axes[0], &w = windows.axes[1];
  TW_RETURN_IF_ERROR(check_cells(e, kernel));
  Shape shape = shape_of(e, 0);
  int64_t cells = kernel[0] * kernel[1];
  if (!shape[1].is_multiple_of(cells)) {
    return fail(e, "dim 1 of x is ", shape[1].to_string(), ", expected a multiple of ", cells);
  }
  Dim channels = Dim::floor_div(shape[1], Dim(cells));
  TW_RETURN_IF_ERROR(check_shape(e, 0, {shape[0], shape[1], h.out * w.out}));
  Shape plane{shape[0], channels, size[0], size[1]};
  if (h.out.is_constant(0) || w.out.is_constant(0)) {
    e.results = {b.constant(0, dtype_of(e, 0), plane)};
    return Status::ok();
  }
  ValueId x = b.reshape(widened(e, 0), {shape[0], channels, kernel[0], kernel[1], h.out, w.out});
  ValueId zero = b.constant(0, work_type(dtype_of(e, 0))), sum;
  for (int64_t i = 0; i < kernel[0]; ++i) {
    for (int64_t j = 0; j < kernel[1]; ++j) {
      ValueId part = slice_axis(b, slice_axis(b, x, 2, i, i + 1), 3, j, j + 1);
      part = b.reshape(part, {shape[0], channels, h.out, w.out});
      Dim lo_h = i * h.dilation, lo_w = j * w.dilation;
      Dim rest_h = Dim(h.reach() - 1) - lo_h, rest_w = Dim(w.reach() - 1) - lo_w;
      part =
          b.pad(part, zero, {0, 0, lo_h, lo_w}, {0, 0, rest_h, rest_w}, {0, 0, h.stride - 1, w.stride - 1});
      sum = sum.is_valid() ? b.add(sum, part) : part;
    }
  }
  e.results = {b.convert(unpadded(b, sum, windows), dtype_of(e, 0))};
  return Status::ok();
}

}  // namespace tilewright
