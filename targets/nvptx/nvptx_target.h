// NVIDIA chips as targets: modules become PTX text; running it is not there yet.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "targets/target.h"

namespace tilewright {

bool claims_nvptx(std::string_view spelling);
Result<std::shared_ptr<Target>> create_nvptx(std::string_view spelling);
void list_nvptx(std::vector<TargetListing>& listings);

}  // namespace tilewright
