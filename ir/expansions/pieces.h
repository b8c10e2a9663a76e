// What the expansions share: argument checks, widening and rounding, means, taking along an axis.
#pragma once

#include <string>

#include "base/text.h"
#include "ir/expansion.h"

namespace tilewright::expansions {

template <class... Parts>
Status fail(const Expansion& e, const Parts&... parts) {
  return Status::invalid(cat(op_name(e.op), ": ", parts...));
}

// f32 for the narrow floats, the type itself otherwise.
inline DType work_type(DType dtype) { return accumulation_type(dtype); }

// Operand `index` in its work type.
inline ValueId widened(Expansion& e, int index) {
  return e.b.convert(e.operands[index], work_type(e.b.dtype(e.operands[index])));
}
inline const Shape& shape_of(const Expansion& e, int index) { return e.b.shape(e.operands[index]); }
inline DType dtype_of(const Expansion& e, int index) { return e.b.dtype(e.operands[index]); }

// The name of an operand in the table, for messages.
const std::string& operand_name(const Expansion& e, int operand);
Status check_rank(const Expansion& e, int operand, int rank);
Status check_axis(const Expansion& e, std::string_view name, int64_t axis, int rank);
// In range and without repeats.
Status check_axes(const Expansion& e, std::string_view name, const Ints& axes, int rank);
Status check_shape(const Expansion& e, int operand, const Shape& expected);
Status check_same_shape(const Expansion& e, int operand, int other);
// Attribute `name` holds `count` entries; an empty list gives `count` times `fallback`.
Result<Ints> ints_or(const Expansion& e, std::string_view name, size_t count, int64_t fallback);
// As a literal number, or an error that says what has to be known.
Result<int64_t> known(const Expansion& e, const Dim& dim, std::string_view what);

// Limits of what an expansion writes out: results or nodes, and entries of index tables.
inline constexpr int64_t kMostResults = 16384, kMostEntries = int64_t{1} << 22;
// value <= most, checked before anything is allocated.
Status check_most(const Expansion& e, std::string_view what, int64_t value, int64_t most);

// The axes of a shape that are not in `axes`.
Ints other_axes(int rank, const Ints& axes);
Shape pick(const Shape& shape, const Ints& axes);
Dim product(const Shape& shape);

// A dim as a 0-d value of `dtype`; `x` is a value one of whose dims it is when it is symbolic.
ValueId axis_size(Builder& b, ValueId x, int64_t axis, DType dtype);
// The number of elements along the axes as a 0-d value.
ValueId element_count(Builder& b, ValueId x, const Ints& axes, DType dtype);
// A 0-d value repeated to a shape.
ValueId splat(Builder& b, ValueId scalar, const Shape& shape);
ValueId splat_like(Builder& b, ValueId scalar, ValueId like);
// Mean over the axes, which go away.
ValueId mean_over(Builder& b, ValueId x, const Ints& axes);
// Sum over the axes put back by repetition.
ValueId spread_sum(Builder& b, ValueId x, const Ints& axes);
ValueId spread_max(Builder& b, ValueId x, const Ints& axes);
ValueId spread_mean(Builder& b, ValueId x, const Ints& axes);

ValueId is_nan(Builder& b, ValueId x);
// x[.., indices[i], ..] along `axis`, for a 1-d or 0-d index value; `oob` as in gather.
ValueId take(Builder& b, ValueId x, ValueId indices, int64_t axis, const char* oob);
// Adds updates[.., i, ..] into x[.., indices[i], ..] along `axis`; indices out of range are dropped.
ValueId put_add(Builder& b, ValueId x, ValueId indices, ValueId updates, int64_t axis);
// x[i..] with dim `axis` limited to [start, limit).
ValueId slice_axis(Builder& b, ValueId x, int64_t axis, Dim start, Dim limit, int64_t stride = 1);
ValueId integers(Builder& b, const Ints& values, DType dtype = DType::I64);
ValueId floats(Builder& b, const Floats& values, DType dtype);

// Uniform numbers k 2^-24 (f64: 2^-53) of the given shape and the advanced state.
struct Uniform {
  ValueId value;
  ValueId state;
};
Uniform uniform(Builder& b, ValueId state, const Shape& shape, DType dtype);
// The same words as odd multiples of 2^-24 (2^-53) in (-1, 1): 2u - 1 with u = (k + 1/2) 2^-24, exactly.
Uniform symmetric_uniform(Builder& b, ValueId state, const Shape& shape, DType dtype);

}  // namespace tilewright::expansions
