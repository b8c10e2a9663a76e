// Checks and messages that inference rules share.
#pragma once

#include <string>

#include "base/text.h"
#include "ir/conditions.h"
#include "ir/inference.h"
#include "ir/window.h"

namespace tilewright::infer {

// "lhs f32[2,3]"
std::string operand_text(const NodeView& view, int index);
std::string ints_text(const Ints& values);

// 0 <= axis < rank.
Status check_axis(const char* what, int64_t axis, int rank);
// Every axis in range, none twice.
Status check_axes(const char* what, const Ints& axes, int rank);
Status check_increasing(const char* what, const Ints& axes);
Status check_count(const char* what, size_t found, size_t expected, const char* of = "dims");
Status check_rank(const NodeView& view, int index, int rank);
// All present operands have the shape of the first.
Status check_same_shapes(const NodeView& view);
// Every dim valid and not surely negative.
Status check_shape(const char* what, const Shape& shape, std::span<const Symbol> symbols);
// Index results are i32 or i64.
Status check_index_type(DType dtype);

// True when a > b for all values of the symbols.
bool surely_greater(const Dim& a, const Dim& b, std::span<const Symbol> symbols);

bool contains(const Ints& values, int64_t value);
// The ints, or `count` times `fallback` when they are empty.
Ints or_filled(const Ints& values, size_t count, int64_t fallback);
// or_filled of a per-dim attribute, with its length and lower bound checked.
Result<Ints> per_dim(const NodeView& view, const char* name, size_t count, int64_t fallback, int64_t lowest);

// The dims of `shape` that are not in `axes`.
Shape without(const Shape& shape, const Ints& axes);

}  // namespace tilewright::infer
