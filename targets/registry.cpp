// The registry: finds the family that a spelling belongs to; the only place that knows all families.
#include "base/text.h"
#include "targets/cpu/cpu_target.h"
#include "targets/null/null_target.h"
#include "targets/nvptx/nvptx_target.h"
#include "targets/simt/simt_target.h"
#include "targets/target.h"

namespace tilewright {
namespace {

std::string what_can_be_served() {
  return cat("this build serves ", join(list_targets(), ", ", [](const TargetListing& listing) {
               return listing.host_reason.empty() ? listing.spelling
                                                  : cat(listing.spelling, " (compile only)");
             }));
}

}  // namespace

Result<std::shared_ptr<Target>> create_target(std::string_view spelling) {
#define TARGET(family, summary)                                                                        \
  if (claims_##family(spelling)) {                                                                     \
    Result<std::shared_ptr<Target>> target = create_##family(spelling);                                \
    if (target.is_ok()) return target;                                                                 \
    return target.status().because(cat("cannot use target '", spelling, "'; ", what_can_be_served())); \
  }
#include "targets/targets.def"
#undef TARGET
  return Status::invalid(cat("unknown target '", spelling, "'; ", what_can_be_served()));
}

std::vector<TargetListing> list_targets() {
  std::vector<TargetListing> listings;
#define TARGET(family, summary) list_##family(listings);
#include "targets/targets.def"
#undef TARGET
  return listings;
}

std::string CompileOptions::key_text() const {
  return cat("effort=", static_cast<int>(effort), " ir_passes=", static_cast<int>(ir_passes));
}

}  // namespace tilewright
