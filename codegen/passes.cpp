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

// Others give what later passes need.
static bool is_optional(const PassInfo& pass) { return std::string_view(pass.gives) == pass.needs; }

static bool is_pass(std::string_view name) {
  return std::any_of(all_passes().begin(), all_passes().end(),
                     [&](const PassInfo& pass) { return name == pass.name; });
}

static std::string pass_names() {
  return join(all_passes(), ", ", [](const PassInfo& pass) { return pass.name; });
}

Status check_stages(const std::vector<std::string>& stages) {
  static constexpr std::string_view kStages[] = {"graph", "kernels", "tile", "llvm", "asm"};
  static constexpr std::string_view kAfter = "after:";
  for (const std::string& stage : stages) {
    if (std::find(std::begin(kStages), std::end(kStages), stage) != std::end(kStages)) continue;
    const bool after = stage.rfind(kAfter, 0) == 0;
    if (after && is_pass(std::string_view(stage).substr(kAfter.size()))) continue;
    return Status::invalid(cat("dump: no stage '", stage, "', expected one of: ", join(kStages, ", "),
                               ", after:<pass> with a pass of: ", pass_names()));
  }
  return Status::ok();
}

Status check_skipped(const std::vector<std::string>& passes) {
  std::vector<std::string> optional;
  for (const PassInfo& pass : all_passes())
    if (is_optional(pass)) optional.push_back(pass.name);
  for (const std::string& pass : passes)
    if (std::find(optional.begin(), optional.end(), pass) == optional.end())
      return Status::invalid(
          cat("skip: no optional pass '", pass, "', expected one of: ", join(optional, ", ")));
  return Status::ok();
}

Result<Graph> run_passes(const Graph& input, const TargetLimits& limits, const PlanOptions& options) {
  PassContext context{limits, options, options.fuel};
  Graph graph = input;
  if (options.wants_dump && options.wants_dump("graph")) options.dump("graph", print(graph));
  for (const PassInfo& pass : all_passes()) {
    bool skipped = std::find(options.skip_passes.begin(), options.skip_passes.end(), pass.name) !=
                   options.skip_passes.end();
    if (skipped && is_optional(pass)) continue;
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
