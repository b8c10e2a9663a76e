// The tile programs written by hand in tests/tile/programs, against the limit of one core and of all.
#pragma once

#include <string>
#include <vector>

#include "targets/target.h"

namespace tilewright::bench {

// Those whose name has one of the words (all without words), two JSON lines each; answers how many failed.
int run_programs(const Target& target, const std::vector<std::string>& words);

}  // namespace tilewright::bench
