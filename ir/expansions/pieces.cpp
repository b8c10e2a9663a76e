// What the expansions share: argument checks, widening and rounding, means, taking along an axis.
#include "ir/expansions/pieces.h"

#include <algorithm>

namespace tilewright::expansions {

const std::string& operand_name(const Expansion& e, int operand) {
  return op_info(e.op).operand_at(operand, static_cast<int>(e.operands.size())).name;
}

Status check_rank(const Expansion& e, int operand, int rank) {
  int found = static_cast<int>(shape_of(e, operand).size());
  if (found == rank) return Status::ok();
  return fail(e, operand_name(e, operand), " has rank ", found, ", expected ", rank);
}

Status check_axis(const Expansion& e, std::string_view name, int64_t axis, int rank) {
  if (axis >= 0 && axis < rank) return Status::ok();
  return fail(e, name, " ", axis, " out of range for rank ", rank);
}

Status check_axes(const Expansion& e, std::string_view name, const Ints& axes, int rank) {
  std::vector<bool> seen(static_cast<size_t>(rank), false);
  for (int64_t axis : axes) {
    TW_RETURN_IF_ERROR(check_axis(e, name, axis, rank));
    if (seen[static_cast<size_t>(axis)]) return fail(e, name, " names axis ", axis, " twice");
    seen[static_cast<size_t>(axis)] = true;
  }
  return Status::ok();
}

Status check_shape(const Expansion& e, int operand, const Shape& expected) {
  const Shape& found = shape_of(e, operand);
  if (found == expected) return Status::ok();
  return fail(e, operand_name(e, operand), " has shape ", shape_to_string(found), ", expected ",
              shape_to_string(expected));
}

Status check_same_shape(const Expansion& e, int operand, int other) {
  const Shape &found = shape_of(e, operand), &expected = shape_of(e, other);
  if (found == expected) return Status::ok();
  return fail(e, operand_name(e, operand), " has shape ", shape_to_string(found), ", expected ",
              shape_to_string(expected), " of ", operand_name(e, other));
}

Result<Ints> ints_or(const Expansion& e, std::string_view name, size_t count, int64_t fallback) {
  const Ints& given = e.attributes.get_ints(name);
  if (given.empty()) return Ints(count, fallback);
  if (given.size() != count) return fail(e, name, " has ", given.size(), " entries, expected ", count);
  return given;
}

Status check_most(const Expansion& e, std::string_view what, int64_t value, int64_t most) {
  if (value <= most) return Status::ok();
  return fail(e, what, " is ", value, ", expected at most ", most);
}

Result<int64_t> known(const Expansion& e, const Dim& dim, std::string_view what) {
  if (dim.is_constant()) return dim.constant();
  return fail(e, what, " is ", dim.to_string(), ", expected a known size");
}

Ints other_axes(int rank, const Ints& axes) {
  Ints others;
  for (int64_t axis = 0; axis < rank; ++axis) {
    if (std::find(axes.begin(), axes.end(), axis) == axes.end()) others.push_back(axis);
  }
  return others;
}

Shape pick(const Shape& shape, const Ints& axes) {
  Shape picked;
  for (int64_t axis : axes) picked.push_back(shape[static_cast<size_t>(axis)]);
  return picked;
}

Dim product(const Shape& shape) {
  Dim total = 1;
  for (const Dim& dim : shape) total = total * dim;
  return total;
}

ValueId axis_size(Builder& b, ValueId x, int64_t axis, DType dtype) {
  if (!b.status().is_ok()) return {};
  const Dim& dim = b.shape(x)[static_cast<size_t>(axis)];
  if (dim.is_constant()) {
    return is_float(dtype) ? b.constant(static_cast<double>(dim.constant()), dtype)
                           : b.integer(dim.constant(), dtype);
  }
  return b.convert(b.emit(Op::DimSize, {x}, {{"dim", axis}}), dtype);
}

ValueId element_count(Builder& b, ValueId x, const Ints& axes, DType dtype) {
  if (!b.status().is_ok()) return {};
  int64_t literal = 1;
  ValueId count;
  for (int64_t axis : axes) {
    const Dim& dim = b.shape(x)[static_cast<size_t>(axis)];
    if (dim.is_constant()) {
      literal *= dim.constant();
      continue;
    }
    ValueId size = axis_size(b, x, axis, DType::I64);
    count = count.is_valid() ? b.multiply(count, size) : size;
  }
  if (!count.is_valid()) {
    return is_float(dtype) ? b.constant(static_cast<double>(literal), dtype) : b.integer(literal, dtype);
  }
  if (literal != 1) count = b.multiply(count, b.integer(literal, DType::I64));
  return b.convert(count, dtype);
}

ValueId splat(Builder& b, ValueId scalar, const Shape& shape) { return b.broadcast(scalar, shape, {}); }

ValueId splat_like(Builder& b, ValueId scalar, ValueId like) {
  if (!b.status().is_ok()) return {};
  return splat(b, scalar, Shape(b.shape(like)));
}

ValueId mean_over(Builder& b, ValueId x, const Ints& axes) {
  if (!b.status().is_ok()) return {};
  ValueId sum = b.reduce_sum(x, axes);
  return b.divide(sum, splat_like(b, element_count(b, x, axes, b.dtype(x)), sum));
}

namespace {
ValueId spread(Builder& b, ValueId reduced, ValueId x, const Ints& axes) {
  if (!b.status().is_ok()) return {};
  return b.broadcast_reduced(reduced, Shape(b.shape(x)), axes);
}
}  // namespace

ValueId spread_sum(Builder& b, ValueId x, const Ints& axes) {
  return spread(b, b.reduce_sum(x, axes), x, axes);
}
ValueId spread_max(Builder& b, ValueId x, const Ints& axes) {
  return spread(b, b.reduce_max(x, axes), x, axes);
}
ValueId spread_mean(Builder& b, ValueId x, const Ints& axes) {
  return spread(b, mean_over(b, x, axes), x, axes);
}

ValueId is_nan(Builder& b, ValueId x) { return b.compare(x, x, "NE"); }

ValueId take(Builder& b, ValueId x, ValueId indices, int64_t axis, const char* oob) {
  if (!b.status().is_ok()) return {};
  int64_t index_rank = b.rank(indices);
  Shape slices = b.shape(x);
  slices[static_cast<size_t>(axis)] = 1;
  Ints offsets;
  for (int64_t i = 0; i < b.rank(x); ++i) {
    if (i != axis) offsets.push_back(i < axis ? i : i - 1 + index_rank);
  }
  return b.emit(Op::Gather, {x, indices},
                {{"offset_dims", offsets},
                 {"collapsed", Ints{axis}},
                 {"start_index_map", Ints{axis}},
                 {"index_vector_dim", index_rank},
                 {"slice_sizes", slices},
                 {"oob", std::string(oob)}});
}

ValueId put_add(Builder& b, ValueId x, ValueId indices, ValueId updates, int64_t axis) {
  if (!b.status().is_ok()) return {};
  int64_t index_rank = b.rank(indices);
  Ints window;
  for (int64_t i = 0; i < b.rank(x); ++i) {
    if (i != axis) window.push_back(i < axis ? i : i - 1 + index_rank);
  }
  return b.emit(Op::Scatter, {x, indices, updates},
                {{"update_window_dims", window},
                 {"inserted", Ints{axis}},
                 {"scatter_map", Ints{axis}},
                 {"index_vector_dim", index_rank},
                 {"kind", std::string("add")},
                 {"oob", std::string("drop")}});
}

ValueId slice_axis(Builder& b, ValueId x, int64_t axis, Dim start, Dim limit, int64_t stride) {
  if (!b.status().is_ok()) return {};
  size_t at = static_cast<size_t>(axis);
  Shape limits = b.shape(x), starts(limits.size(), Dim(0));
  Ints strides(limits.size(), 1);
  starts[at] = std::move(start);
  limits[at] = std::move(limit);
  strides[at] = stride;
  return b.slice(x, starts, limits, stride == 1 ? Ints{} : strides);
}

namespace {
ValueId dense(Builder& b, DType dtype, size_t count, const void* data, size_t bytes) {
  auto made =
      make_constant({dtype, {Dim(static_cast<int64_t>(count))}}, false, data, static_cast<int64_t>(bytes));
  if (!made.is_ok()) {
    b.fail(made.status());
    return {};
  }
  return b.emit(Op::Constant, {}, {{"value", *made}});
}
}  // namespace

ValueId integers(Builder& b, const Ints& values, DType dtype) {
  if (dtype == DType::I64) return dense(b, dtype, values.size(), values.data(), values.size() * 8);
  std::vector<int32_t> narrow(values.begin(), values.end());
  return dense(b, DType::I32, narrow.size(), narrow.data(), narrow.size() * 4);
}

ValueId floats(Builder& b, const Floats& values, DType dtype) {
  if (dtype == DType::F64) return dense(b, dtype, values.size(), values.data(), values.size() * 8);
  std::vector<float> narrow(values.begin(), values.end());
  return b.convert(dense(b, DType::F32, narrow.size(), narrow.data(), narrow.size() * 4), dtype);
}

namespace {
// The top 24 (f64: 53) bits of each word as a signed integer, and the advanced state.
Uniform top_bits(Builder& b, ValueId state, const Shape& shape, DType dtype) {
  bool wide = dtype == DType::F64;
  auto drawn =
      b.emit_all(Op::RngBitGenerator, {state}, {{"shape", shape}, {"bits", int64_t{wide ? 64 : 32}}});
  if (!b.status().is_ok()) return {};
  ValueId amount = b.integer(wide ? 11 : 8, wide ? DType::U64 : DType::U32, shape);
  ValueId bits = b.emit(Op::ShiftRightLogical, {drawn[1], amount});
  return {b.convert(bits, wide ? DType::I64 : DType::I32), drawn[0]};
}
constexpr double kUnit32 = 0x1p-24, kUnit64 = 0x1p-53;
}  // namespace

Uniform uniform(Builder& b, ValueId state, const Shape& shape, DType dtype) {
  Uniform bits = top_bits(b, state, shape, dtype);
  if (!b.status().is_ok()) return {};
  return {b.scale(b.convert(bits.value, dtype), dtype == DType::F64 ? kUnit64 : kUnit32), bits.state};
}

Uniform symmetric_uniform(Builder& b, ValueId state, const Shape& shape, DType dtype) {
  Uniform bits = top_bits(b, state, shape, dtype);
  if (!b.status().is_ok()) return {};
  bool wide = dtype == DType::F64;
  DType integer = wide ? DType::I64 : DType::I32;
  ValueId doubled = b.add(bits.value, bits.value);
  int64_t one = int64_t{1} << (wide ? 53 : 24);
  ValueId odd = b.subtract(doubled, b.integer(one - 1, integer, shape));
  return {b.scale(b.convert(odd, dtype), wide ? kUnit64 : kUnit32), bits.state};
}

}  // namespace tilewright::expansions
