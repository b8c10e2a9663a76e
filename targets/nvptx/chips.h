// Chips of chips.def and the limits that follow from a row.
#pragma once

#include <span>
#include <string_view>

#include "base/target_limits.h"

namespace tilewright {

struct Chip {
  std::string_view name, ptx;
  int64_t shared_bytes;
  int32_t multiprocessors;
  int64_t l2_bytes;
  std::string_view summary;
};
std::span<const Chip> all_chips();
const Chip* find_chip(std::string_view name);  // null: no such row

// All but triple and data layout.
TargetLimits limits_of(const Chip& chip);

}  // namespace tilewright
