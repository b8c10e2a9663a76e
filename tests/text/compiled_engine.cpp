// Engines behind the planner.
#include "tests/text/compiled_engine.h"

#include <cstdlib>
#include <cstring>
#include <map>

#include "base/text.h"
#include "codegen/emit/emit.h"
#include "codegen/run_program.h"
#include "ir/conditions.h"
#include "targets/target.h"
#include "tests/text/engines.h"

namespace tilewright::text_tests {

namespace {

struct Loaded {
  std::shared_ptr<const LoadedCode> code;
  KernelFunction function = nullptr;
  int64_t scratch_bytes = 0;
};

// Made once a spelling and kept.
Result<std::shared_ptr<Target>> target_of(const std::string& spelling) {
  static auto* targets = new std::map<std::string, std::shared_ptr<Target>>;
  auto found = targets->find(spelling);
  if (found != targets->end()) return found->second;
  TW_ASSIGN_OR_RETURN(std::shared_ptr<Target> target, create_target(spelling));
  (*targets)[spelling] = target;
  return target;
}
Result<std::shared_ptr<Target>> native_target() { return target_of("native"); }

Result<Loaded> load_kernel(const Target& target, const tile::Kernel& kernel) {
  static auto* loaded = new std::map<std::string, Loaded>;
  std::string text = cat(target.info().name, "\n", tile::print(kernel));
  auto found = loaded->find(text);
  if (found != loaded->end()) return found->second;
  Result<EmittedKernel> emitted = emit_kernel(kernel, target.info().limits, {});
  if (!emitted.is_ok()) return emitted.status().because(cat("emitting\n", text));
  EmittedKernel code = std::move(emitted).value();
  CompileOptions options;
  options.ir_passes = IrPasses::Lean;
  std::string entry = code.entry;
  Loaded fresh;
  fresh.scratch_bytes = code.scratch_bytes;
  Result<std::string> bytes = target.compile(std::move(code.module), options);
  if (!bytes.is_ok()) return bytes.status().because(cat("compiling\n", text));
  TW_ASSIGN_OR_RETURN(fresh.code, target.load(*bytes, std::vector<std::string>{entry}));
  fresh.function = reinterpret_cast<KernelFunction>(fresh.code->symbol(entry));
  (*loaded)[text] = fresh;
  return fresh;
}

Result<Program> plan(const Graph& graph, const TargetLimits& limits, const Bindings& bindings) {
  // Asked where symbols are bound, before anything of the program.
  TW_RETURN_IF_ERROR(check_conditions(find_conditions(graph), bindings));
  PlanOptions options;
  options.verify_level = 2;
  return plan_program(graph, limits, options);
}

RunProgramOptions run_options() {
  RunProgramOptions options;
  options.interpreter.custom_call = run_test_custom_call;
  return options;
}

}  // namespace

Result<std::vector<OwnedTensor>> run_on_tiles(const Graph& graph, std::span<const TensorRef> inputs,
                                              const Bindings& bindings) {
  TW_ASSIGN_OR_RETURN(std::shared_ptr<Target> target, native_target());
  TW_ASSIGN_OR_RETURN(Program program, plan(graph, target->info().limits, bindings));
  RunProgramOptions options = run_options();
  TW_ASSIGN_OR_RETURN(std::vector<OwnedTensor> forwards,
                      run_program(program, graph, inputs, bindings, options));
  options.backwards = true;
  TW_ASSIGN_OR_RETURN(std::vector<OwnedTensor> backwards,
                      run_program(program, graph, inputs, bindings, options));
  for (size_t i = 0; i < forwards.size(); ++i) {
    const TensorRef &a = forwards[i].ref, &b = backwards[i].ref;
    if (std::memcmp(a.data, b.data, static_cast<size_t>(a.bytes())) == 0) continue;
    return Status::internal(cat("output ", i, " depends on the order of instances"));
  }
  return forwards;
}

Result<std::vector<OwnedTensor>> run_compiled(const Graph& graph, std::span<const TensorRef> inputs,
                                              const Bindings& bindings) {
  return run_compiled_for("native", graph, inputs, bindings);
}

Result<std::vector<OwnedTensor>> run_compiled_for(const std::string& spelling, const Graph& graph,
                                                  std::span<const TensorRef> inputs,
                                                  const Bindings& bindings) {
  TW_ASSIGN_OR_RETURN(std::shared_ptr<Target> target, target_of(spelling));
  if (!target->info().is_runnable()) return Status::unimplemented(target->info().host_reason);
  TW_ASSIGN_OR_RETURN(Program program, plan(graph, target->info().limits, bindings));
  RunProgramOptions options = run_options();
  options.run_kernel = [&](const tile::Kernel& kernel, std::span<void* const> buffers,
                           std::span<const int64_t> scalars, int64_t count) -> Status {
    TW_ASSIGN_OR_RETURN(Loaded code, load_kernel(*target, kernel));
    std::unique_ptr<void, decltype(&std::free)> scratch(
        std::aligned_alloc(64, static_cast<size_t>((code.scratch_bytes + 127) / 64 * 64)), &std::free);
    code.function(buffers.data(), scalars.data(), 0, count, scratch.get());
    return Status::ok();
  };
  options.run_builtin = [&](const BuiltinCall& call) {
    return target->run_builtin(
        call, [](int64_t count, int64_t, FunctionRef<void(int64_t, int64_t)> body) { body(0, count); });
  };
  return run_program(program, graph, inputs, bindings, options);
}

}  // namespace tilewright::text_tests
