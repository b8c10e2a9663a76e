// The null target: takes modules, runs nothing; what a new target starts from.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "targets/target.h"

namespace tilewright {

bool claims_null(std::string_view spelling);
Result<std::shared_ptr<Target>> create_null(std::string_view spelling);
void list_null(std::vector<TargetListing>& listings);

}  // namespace tilewright
