// The pass runner over passes.def, and the passes themselves.
#pragma once

#include "codegen/program.h"

namespace tilewright {

// What a pass may ask of its surroundings.
struct PassContext {
  const TargetLimits& limits;
  const PlanOptions& options;
  int64_t fuel;  // rewrites left; negative: without end

  // True when one more rewrite may be made; counts it.
  bool spend() {
    if (fuel < 0) return true;
    if (fuel == 0) return false;
    --fuel;
    return true;
  }
};

#define PASS(name, needs, gives, summary) Result<Graph> name##_pass(const Graph& graph, PassContext& context);
#include "codegen/passes.def"
#undef PASS

struct PassInfo {
  const char* name;
  const char* needs;
  const char* gives;
  const char* summary;
  Result<Graph> (*run)(const Graph&, PassContext&);
};
const std::vector<PassInfo>& all_passes();

// Words of the options `dump` and `skip`, and stages that a compile is asked for: each must exist, else the
// status says what does.
Status check_stages(const std::vector<std::string>& stages);
Status check_skipped(const std::vector<std::string>& passes);

Result<Graph> run_passes(const Graph& graph, const TargetLimits& limits, const PlanOptions& options);

}  // namespace tilewright
