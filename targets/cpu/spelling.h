// CpuSpelling: what a target spelling such as `native,-avx512f` or `znver4` asks of an x86-64.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "targets/cpu/features.h"

namespace tilewright {

struct CpuSpelling {
  std::string base;     // native, x86-64-v3, znver4, ...
  std::string changes;  // ",+f,-g" in the order given
  FeatureSet features;
  bool is_native = false;  // cache sizes are measured, not those of the level
};

// The part of a spelling before the first '+' or ','.
std::string_view spelling_base(std::string_view spelling);

// `host` is what the machine has; only `native` reads it.
Result<CpuSpelling> parse_cpu_spelling(std::string_view spelling, const FeatureSet& host);

bool is_x86_cpu_name(std::string_view name);

}  // namespace tilewright
