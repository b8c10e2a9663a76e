// Actions: what a `# run:` directive does with its case.
#pragma once

#include "tests/text/test_file.h"

namespace tilewright::text_tests {

struct Outcome {
  enum class Kind { Pass, Fail, Skip };
  Kind kind = Kind::Pass;
  std::string message;
  std::vector<Edit> edits;  // what bless would write

  static Outcome fail(std::string message) { return {Kind::Fail, std::move(message), {}}; }
  static Outcome skip(std::string message) { return {Kind::Skip, std::move(message), {}}; }
};

struct Action {
  const TestFile& file;
  const TestCase& test;
  const Directive& directive;
  bool bless = false;
};

// Roundtrip, verify, exec, or a stage (expand, pass=..).
Outcome run_action(const Action& action);

Outcome run_exec(const Action& action);      // exec.cpp
Outcome run_gradient(const Action& action);  // gradient.cpp

// Whether every op with a gradient has a case with `# run: gradient` in the folder; an exit code.
int check_gradient_coverage(const std::string& folder);

}  // namespace tilewright::text_tests
