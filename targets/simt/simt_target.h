// The simulator as a target: kernels for blocks of threads, compiled for the host and run by fibers.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "targets/target.h"

namespace tilewright {

bool claims_simt(std::string_view spelling);
Result<std::shared_ptr<Target>> create_simt(std::string_view spelling);
void list_simt(std::vector<TargetListing>& listings);

}  // namespace tilewright
