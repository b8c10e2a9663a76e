// The host processor as a target: x86-64 through LLVM and ORC.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "targets/target.h"

namespace tilewright {

// Registers LLVM's code generator for x86-64; once is enough.
void initialize_cpu_codegen();

bool claims_cpu(std::string_view spelling);
Result<std::shared_ptr<Target>> create_cpu(std::string_view spelling);
void list_cpu(std::vector<TargetListing>& listings);

}  // namespace tilewright
