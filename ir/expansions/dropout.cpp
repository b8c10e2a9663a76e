// Dropout with a bit mask, and uniform and normal random numbers, from Philox words.
#include <numbers>

#include "ir/expansions/pieces.h"

namespace tilewright {
using namespace expansions;
namespace {

// bool [.., n] as u8 [.., ceil(n / 8)], little-endian bits.
ValueId pack_bits(Builder& b, ValueId keep) {
  if (!b.status().is_ok()) return {};
  Shape shape = b.shape(keep);
  if (shape.empty()) shape = {Dim(1)};
  Dim last = shape.back(), bytes = Dim::ceil_div(last, Dim(8));
  ValueId bits = b.convert(b.reshape(keep, shape), DType::U8);
  Dim missing = bytes * Dim(8) - last;
  if (!missing.is_constant(0)) {
    Shape lo(shape.size(), Dim(0)), hi = lo;
    hi.back() = missing;
    bits = b.pad(bits, b.integer(0, DType::U8), lo, hi);
  }
  Shape groups = shape;
  groups.back() = bytes;
  groups.push_back(8);
  int64_t axis = static_cast<int64_t>(groups.size()) - 1;
  ValueId placed = b.emit(Op::ShiftLeft, {b.reshape(bits, groups), b.iota(groups, axis, DType::U8)});
  return b.emit(Op::ReduceOr, {placed}, {{"dims", Ints{axis}}});
}

// u8 [.., ceil(n / 8)] as bool of `shape`, [.., n].
ValueId unpack_bits(Builder& b, ValueId mask, const Shape& shape) {
  if (!b.status().is_ok()) return {};
  Shape bytes = b.shape(mask), groups = bytes;
  groups.push_back(8);
  int64_t axis = static_cast<int64_t>(groups.size()) - 1;
  Ints dims;
  for (int64_t i = 0; i < axis; ++i) dims.push_back(i);
  ValueId moved =
      b.emit(Op::ShiftRightLogical, {b.broadcast(mask, groups, dims), b.iota(groups, axis, DType::U8)});
  ValueId bit = b.emit(Op::And, {moved, b.integer(1, DType::U8, groups)});
  Shape flat = bytes;
  flat.back() = bytes.back() * Dim(8);
  ValueId kept = b.compare(b.reshape(bit, flat), b.integer(0, DType::U8, flat), "NE");
  Dim last = shape.empty() ? Dim(1) : shape.back();
  return b.reshape(slice_axis(b, kept, axis - 1, 0, last), shape);
}

Status check_probability(const Expansion& e, double p) {
  if (p >= 0 && p <= 1) return Status::ok();
  return fail(e, "p is ", p, ", expected 0 to 1");
}

// x / (1 - p), and 0 / 1 where nothing is kept.
ValueId scaled(Builder& b, ValueId x, double p) {
  if (p == 0 || p == 1) return x;
  return b.divide(x, b.constant_like(1 - p, x));
}

}  // namespace

Status expand_dropout(Expansion& e) {
  Builder& b = e.b;
  double p = e.attributes.get_float("p");
  TW_RETURN_IF_ERROR(check_probability(e, p));
  TW_RETURN_IF_ERROR(check_shape(e, 1, {Dim(2)}));
  Shape shape = shape_of(e, 0);
  ValueId x = widened(e, 0);
  Uniform u = uniform(b, e.operands[1], shape, DType::F32);
  ValueId keep = b.compare(u.value, b.constant(p, DType::F32, shape), "GE");
  ValueId y = b.select(keep, scaled(b, x, p), b.zeros_like(x));
  e.results = {b.convert(y, dtype_of(e, 0)), pack_bits(b, keep), u.state};
  return Status::ok();
}

Status expand_dropout_grad(Expansion& e) {
  Builder& b = e.b;
  double p = e.attributes.get_float("p");
  TW_RETURN_IF_ERROR(check_probability(e, p));
  Shape shape = shape_of(e, 0), packed = shape.empty() ? Shape{Dim(1)} : shape;
  packed.back() = Dim::ceil_div(packed.back(), Dim(8));
  TW_RETURN_IF_ERROR(check_shape(e, 1, packed));
  ValueId g = widened(e, 0), keep = unpack_bits(b, e.operands[1], shape);
  e.results = {b.convert(b.select(keep, scaled(b, g, p), b.zeros_like(g)), dtype_of(e, 0))};
  return Status::ok();
}

namespace {
Result<DType> random_dtype(const Expansion& e) {
  DType dtype = e.attributes.get_dtype("dtype", DType::F32);
  if (!is_float(dtype)) return fail(e, "dtype is ", dtype_name(dtype), ", expected f16, bf16, f32 or f64");
  return dtype;
}
}  // namespace

Status expand_random_uniform(Expansion& e) {
  Builder& b = e.b;
  TW_ASSIGN_OR_RETURN(DType dtype, random_dtype(e));
  TW_RETURN_IF_ERROR(check_shape(e, 0, {Dim(2)}));
  double lo = e.attributes.get_float("lo"), hi = e.attributes.get_float("hi");
  Uniform u = uniform(b, e.operands[0], e.attributes.get_dims("shape"), work_type(dtype));
  ValueId y = u.value;
  if (hi - lo != 1) y = b.scale(y, hi - lo);
  if (lo != 0) y = b.shift(y, lo);
  e.results = {b.convert(y, dtype), u.state};
  return Status::ok();
}

Status expand_random_normal(Expansion& e) {
  Builder& b = e.b;
  TW_ASSIGN_OR_RETURN(DType dtype, random_dtype(e));
  TW_RETURN_IF_ERROR(check_shape(e, 0, {Dim(2)}));
  double mean = e.attributes.get_float("mean"), std = e.attributes.get_float("std");
  Uniform u = symmetric_uniform(b, e.operands[0], e.attributes.get_dims("shape"), work_type(dtype));
  ValueId y = b.scale(b.emit(Op::ErfInv, {u.value}), std * std::numbers::sqrt2);
  if (mean != 0) y = b.shift(y, mean);
  e.results = {b.convert(y, dtype), u.state};
  return Status::ok();
}

}  // namespace tilewright
