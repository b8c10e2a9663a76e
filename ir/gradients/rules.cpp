// What gradient rules share.
#include "ir/gradients/rules.h"

#include <algorithm>

namespace tilewright::gradients {

ValueId sum_all(Builder& b, ValueId x) {
  return b.rank(x) == 0 ? x : b.reduce_sum(x, other_dims(b.rank(x), {}));
}

ValueId keep_where(Builder& b, ValueId pred, ValueId x) { return b.select(pred, x, b.zeros_like(x)); }
ValueId keep_unless(Builder& b, ValueId pred, ValueId x) { return b.select(pred, b.zeros_like(x), x); }

Ints other_dims(int rank, const Ints& dims) {
  Ints others;
  for (int64_t i = 0; i < rank; ++i) {
    if (std::find(dims.begin(), dims.end(), i) == dims.end()) others.push_back(i);
  }
  return others;
}

Ints inverse_permutation(const Ints& perm) {
  Ints inverse(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) inverse[perm[i]] = static_cast<int64_t>(i);
  return inverse;
}

ValueId resize(Builder& b, ValueId x, int64_t dim, const Dim& size) {
  Shape shape = b.shape(x);
  if (shape.empty() || shape[dim] == size) return x;
  Shape lo(shape.size(), Dim(0)), hi(shape.size(), Dim(0));
  hi[dim] = size - shape[dim];
  return b.pad(x, b.constant(0, b.dtype(x)), lo, hi);
}

ValueId shift_along(Builder& b, ValueId x, int64_t dim, int64_t by) {
  Shape lo(b.rank(x), Dim(0)), hi = lo;
  lo[dim] = Dim(by);
  hi[dim] = Dim(-by);
  return b.pad(x, b.constant(0, b.dtype(x)), lo, hi);
}

AttributeMap pick_attributes(const Gradient& g, std::initializer_list<const char*> names) {
  AttributeMap picked;
  for (const char* name : names) {
    if (const Attribute* value = find_attribute(g.node.op, g.node.attributes, name))
      picked.emplace(name, *value);
  }
  return picked;
}

bool has_secondary_cotangent(const Gradient& g) {
  return std::any_of(g.cotangents.begin() + 1, g.cotangents.end(), [](ValueId c) { return c.is_valid(); });
}

}  // namespace tilewright::gradients
