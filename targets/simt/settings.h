// SimtSettings: the part of a spelling behind `simt:`: what a test wants to go wrong.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace tilewright::simt {

// `simt:memory=1048576,fail_launch=3,fail_async=2,strict`
struct Settings {
  int64_t memory = int64_t{1} << 36;  // bytes of the device
  int64_t fail_launch = 0;            // the launch of this number is refused; 0: none
  int64_t fail_async = 0;             // the launch of this number breaks the device when it runs
  bool strict = false;                // device pages cannot be touched outside launches and copies
};

Result<Settings> parse_settings(std::string_view spelling);

}  // namespace tilewright::simt
