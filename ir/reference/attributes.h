// Attributes that several reference kernels read in the same way.
#pragma once

#include "ir/inference.h"
#include "ir/reference/functions.h"

namespace tilewright::reference {

// A compare with its order resolved: SIGNED and UNSIGNED choose how integers are seen.
struct CompareSpec {
  Direction direction;
  bool total_order;
  DType dtype;
};
CompareSpec read_compare(const AttributeReader& attributes, DType dtype);

// What max and min start from: infinities for floats.
template <class C>
constexpr C lowest_value() {
  if constexpr (std::is_floating_point_v<C>)
    return -std::numeric_limits<C>::infinity();
  else
    return std::numeric_limits<C>::lowest();
}
template <class C>
constexpr C highest_value() {
  if constexpr (std::is_floating_point_v<C>)
    return std::numeric_limits<C>::infinity();
  else
    return std::numeric_limits<C>::max();
}

}  // namespace tilewright::reference
