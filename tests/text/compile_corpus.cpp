// compile_corpus TARGET PATH..: plans every graph of the text tests for a target and compiles all its
// kernels, where that target's code cannot run as well.
//
//   --assembler COMMAND   gives every n-th text to `COMMAND FILE`, which must succeed
//   --every N             that n; 1 by default
//
// Exit: 0 all compile, 1 some do not, 2 usage.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>

#include "base/text.h"
#include "codegen/emit/emit.h"
#include "codegen/program.h"
#include "ir/text.h"
#include "targets/target.h"
#include "tests/text/engines.h"
#include "tests/text/test_file.h"

namespace tilewright::text_tests {
namespace {

struct Settings {
  std::string assembler, file;
  int64_t every = 1;
};

struct Totals {
  int64_t graphs = 0, kernels = 0, assembled = 0, failures = 0;
};

// What code for a chip must not hold: functions that are far from exact, and calls that nothing answers.
Status check_text(const std::string& code) {
  for (const char* word : {"sin.approx", "cos.approx", "tanh.approx", "lg2.approx", "sqrt.approx",
                           "div.approx", "div.full", ".extern .func"}) {
    if (code.find(word) != std::string::npos) return Status::internal(cat("the code has ", word));
  }
  return Status::ok();
}

Status assemble(const Settings& settings, const std::string& code) {
  {
    std::ofstream file(settings.file, std::ios::binary);
    file << code;
  }
  if (std::system(cat(settings.assembler, " ", settings.file).c_str()) != 0)
    return Status::internal("the assembler refuses it");
  return Status::ok();
}

Status compile_kernel(const Target& target, const tile::Kernel& kernel, const Settings& settings,
                      Totals& totals) {
  TW_ASSIGN_OR_RETURN(EmittedKernel emitted, emit_kernel(kernel, target.info().limits, {}));
  const TargetLimits& limits = target.info().limits;
  if (emitted.shared_bytes > limits.shared_bytes_per_block)
    return Status::internal(
        cat(emitted.shared_bytes, " bytes of shared memory, there are ", limits.shared_bytes_per_block));
  CompileOptions options;
  options.ir_passes = IrPasses::Lean;
  TW_ASSIGN_OR_RETURN(std::string code, target.compile(std::move(emitted.module), options));
  TW_RETURN_IF_ERROR(check_text(code));
  if (settings.assembler.empty() || totals.kernels % settings.every != 0) return Status::ok();
  ++totals.assembled;
  return assemble(settings, code);
}

void compile_graph(const Target& target, const Graph& graph, const std::string& where,
                   const Settings& settings, std::set<std::string>& seen, Totals& totals) {
  PlanOptions options;
  options.verify_level = 1;
  Result<Program> program = plan_program(graph, target.info().limits, options);
  if (!program.is_ok()) return;  // a case of an error, or of a graph that no target plans
  ++totals.graphs;
  for (const KernelEntry& entry : program->kernels) {
    if (!seen.insert(tile::canonical_text(entry.kernel)).second) continue;
    ++totals.kernels;
    Status status = compile_kernel(target, entry.kernel, settings, totals);
    if (status.is_ok()) continue;
    ++totals.failures;
    std::printf("FAIL %s: %s\n%s\n", where.c_str(), status.to_string().c_str(),
                tile::print(entry.kernel).c_str());
  }
}

int run(int argc, char** argv) {
  Settings settings;
  std::vector<std::string> arguments;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    if (argument == "--assembler" && i + 1 < argc) {
      settings.assembler = argv[++i];
    } else if (argument == "--every" && i + 1 < argc) {
      settings.every = std::max<int64_t>(1, std::atoll(argv[++i]));
    } else {
      arguments.push_back(std::move(argument));
    }
  }
  if (arguments.size() < 2) {
    std::fprintf(stderr, "usage: compile_corpus [--assembler COMMAND] [--every N] TARGET PATH..\n");
    return 2;
  }
  Result<std::shared_ptr<Target>> target = create_target(arguments[0]);
  if (!target.is_ok()) {
    std::fprintf(stderr, "%s\n", target.status().to_string().c_str());
    return 2;
  }
  char name[] = "/tmp/tilewright_corpus_XXXXXX";
  const int handle = settings.assembler.empty() ? -1 : mkstemp(name);
  settings.file = name;
  std::set<std::string> seen;
  Totals totals;
  for (size_t i = 1; i < arguments.size(); ++i) {
    for (const std::string& path : find_files(arguments[i], false)) {
      Result<TestFile> file = TestFile::read(path);
      if (!file.is_ok()) continue;
      for (const TestCase& test : file->cases()) {
        Result<std::vector<Graph>> graphs = parse_graphs(test.text);
        if (!graphs.is_ok()) continue;
        for (const Graph& graph : *graphs)
          compile_graph(**target, graph, cat(path, ":", test.first_line), settings, seen, totals);
      }
    }
  }
  if (handle >= 0) std::remove(name);
  std::printf("%lld graphs, %lld kernels, %lld assembled, %lld failures\n",
              static_cast<long long>(totals.graphs), static_cast<long long>(totals.kernels),
              static_cast<long long>(totals.assembled), static_cast<long long>(totals.failures));
  return totals.failures == 0 && totals.kernels > 0 ? 0 : 1;
}

}  // namespace
}  // namespace tilewright::text_tests

int main(int argc, char** argv) { return tilewright::text_tests::run(argc, argv); }
