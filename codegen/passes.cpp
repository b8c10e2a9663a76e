// Runs the passes in order: skip, fuel, verify, dump.
#include "codegen/passes.h"

#include <algorithm>

#include "base/text.h"
#include "ir/text.h"
#include "ir/verifier.h"

namespace tilewright {

const std::vector<PassInfo>& all_passes() {
  static const auto* passes = new std::vector<PassInfo>{
#define PASS(name, needs, gives, summary) {#name, #needs, #gives, summary, &name##_pass},
#include "codegen/passes.def"
#undef PASS
  };
  return *passes;
}

Result<Graph> run_passes(const Graph& input, const TargetLimits& limits, const PlanOptions& options) {
  PassContext context{limits, options, options.fuel};
  Graph graph = input;
  if (options.wants_dump && options.wants_dump("graph")) options.dump("graph", print(graph));
  for (const PassInfo& pass : all_passes()) {
    bool skipped = std::find(options.skip_passes.begin(), options.skip_passes.end(), pass.name) !=
                   options.skip_passes.end();
    if (skipped && std::string_view(pass.gives) == pass.needs) continue;
    Result<Graph> rewritten = pass.run(graph, context);
    if (!rewritten.is_ok()) return rewritten.status().because(cat("pass ", pass.name));
    if (options.verify_level > 0) {
      Status valid = verify(*rewritten);
      if (!valid.is_ok()) return valid.because(cat("after pass ", pass.name));
    }
    graph = std::move(rewritten).value();
    std::string stage = cat("after:", pass.name);
    if (options.wants_dump && options.wants_dump(stage)) options.dump(stage, print(graph));
  }
  return graph;
}

}  // namespace tilewright
