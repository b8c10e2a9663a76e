// Runs the text tests of the folders and files given; --coverage FOLDER checks that every op has its
// file, --target SPELLING runs sessions of that target beside the reference and nothing else,
// --gradient-coverage FOLDER that every differentiable op has a case.
//
// TILEWRIGHT_BLESS=1 rewrites expectations that differ.  Exit: 0 passed, 1 failed, 2 usage, 77 all skipped.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/text.h"
#include "ir/op_table.h"
#include "tests/text/actions.h"
#include "tests/text/engines.h"

namespace tilewright::text_tests {

struct Totals {
  int passed = 0, failed = 0, skipped = 0, blessed = 0;
};

static void run_file(const std::string& path, bool bless, bool verbose, Totals& totals) {
  Result<TestFile> file = TestFile::read(path);
  if (!file.is_ok()) {
    std::printf("FAIL %s\n", file.status().to_string().c_str());
    ++totals.failed;
    return;
  }
  std::vector<Edit> edits;
  for (const TestCase& test : file->cases()) {
    for (const Directive& directive : test.runs) {
      Outcome outcome = run_action(Action{*file, test, directive, bless});
      std::string where = cat(path, ":", directive.line, ": ", directive.name);
      if (outcome.kind == Outcome::Kind::Pass) {
        ++totals.passed;
        if (verbose) std::printf("PASS %s\n", where.c_str());
      } else if (outcome.kind == Outcome::Kind::Skip) {
        ++totals.skipped;
        std::printf("SKIP %s: %s\n", where.c_str(), outcome.message.c_str());
      } else if (bless && !outcome.edits.empty()) {
        ++totals.blessed;
        edits.insert(edits.end(), outcome.edits.begin(), outcome.edits.end());
        std::printf("BLESS %s\n", where.c_str());
      } else {
        ++totals.failed;
        std::printf("FAIL %s: %s\n", where.c_str(), outcome.message.c_str());
      }
    }
  }
  if (edits.empty()) return;
  Status written = file->apply(std::move(edits));
  if (!written.is_ok()) {
    std::printf("FAIL %s\n", written.to_string().c_str());
    ++totals.failed;
  }
}

// What a file about an op must have: values, and something that is refused.
static std::string coverage_fault(const TestFile& file, const std::string& op) {
  bool ran = false, refused = false, named = false;
  for (const TestCase& test : file.cases()) {
    for (const Directive& directive : test.runs) {
      ran |= directive.name == "exec";
      refused |= directive.name == "verify" && !test.remarks_of("error").empty();
    }
    named |= test.text.find(op) != std::string::npos;
  }
  if (!named) return "does not use the op";
  if (!ran) return "has no `# run: exec`";
  return refused ? "" : "has no rejected input (`# run: verify` with `# error:`)";
}

static int check_coverage(const std::string& folder) {
  int missing = 0;
  for (const OpInfo& info : all_ops()) {
    std::string path = cat(folder, "/", info.name, ".tw");
    Result<TestFile> file = TestFile::read(path);
    std::string fault = file.is_ok() ? coverage_fault(*file, info.name) : file.status().message();
    if (fault.empty()) continue;
    std::printf("FAIL %s: %s\n", path.c_str(), fault.c_str());
    ++missing;
  }
  std::printf("%zu ops, %d without a complete test file\n", all_ops().size(), missing);
  return missing == 0 ? 0 : 1;
}

static int run(int argc, char** argv) {
  const char* variable = std::getenv("TILEWRIGHT_BLESS");
  bool bless = variable && std::strcmp(variable, "1") == 0, verbose = false, slow = false;
  Totals totals;
  int files = 0;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    if (argument == "--coverage" && i + 1 < argc) return check_coverage(argv[i + 1]);
    if (argument == "--gradient-coverage" && i + 1 < argc) return check_gradient_coverage(argv[i + 1]);
    if (argument == "--target" && i + 1 < argc) {
      use_sessions_of(argv[++i]);
    } else if (argument == "--verbose") {
      verbose = true;
    } else if (argument == "--slow") {
      slow = true;
    } else if (argument.starts_with("-")) {
      std::fprintf(stderr,
                   "usage: run_text_tests [--verbose] [--slow] [--target SPELLING] PATH.. | "
                   "--[gradient-]coverage FOLDER\n");
      return 2;
    } else {
      for (const std::string& path : find_files(argument, slow)) {
        run_file(path, bless, verbose, totals);
        ++files;
      }
    }
  }
  std::printf("%d files: %d passed, %d failed, %d skipped, %d blessed\n", files, totals.passed, totals.failed,
              totals.skipped, totals.blessed);
  if (totals.failed > 0 || files == 0) return 1;
  return totals.passed == 0 && totals.blessed == 0 ? 77 : 0;
}

}  // namespace tilewright::text_tests

int main(int argc, char** argv) { return tilewright::text_tests::run(argc, argv); }
