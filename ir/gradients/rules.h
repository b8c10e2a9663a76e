// What gradient rules share.
#pragma once

#include "base/text.h"
#include "ir/gradients/reverse.h"
#include "ir/window.h"

namespace tilewright::gradients {

inline const Shape shape_of(const Gradient& g, int operand) { return g.b.shape(g.operands[operand]); }
inline DType dtype_of(const Gradient& g, int operand) { return g.b.dtype(g.operands[operand]); }

// Sum of all elements as a 0-d value.
ValueId sum_all(Builder& b, ValueId x);
// `x` where pred is true, 0 elsewhere.
ValueId keep_where(Builder& b, ValueId pred, ValueId x);
ValueId keep_unless(Builder& b, ValueId pred, ValueId x);
// 0, 1, .., rank-1 without `dim`.
Ints other_dims(int rank, const Ints& dims);
Ints inverse_permutation(const Ints& perm);
// Zeros of a shape.
inline ValueId zeros(Builder& b, DType dtype, const Shape& shape) { return b.constant(0, dtype, shape); }
// Pads or cuts the end of `dim` with zeros, so that it has the given size.
ValueId resize(Builder& b, ValueId x, int64_t dim, const Dim& size);
// x with every index of `dim` moved by `by` (toward higher indices); zeros move in.
ValueId shift_along(Builder& b, ValueId x, int64_t dim, int64_t by);
// Attribute copies for emitted nodes.
AttributeMap pick_attributes(const Gradient& g, std::initializer_list<const char*> names);
// Whether any result but the first has a cotangent.
bool has_secondary_cotangent(const Gradient& g);

}  // namespace tilewright::gradients
