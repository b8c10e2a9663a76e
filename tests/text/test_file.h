// A text test file: cases of directives and graphs, and the edits that bless makes.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tilewright::text_tests {

// `# run: exec seed=7 engines=reference`
struct Directive {
  std::string name;
  std::map<std::string, std::string, std::less<>>
      options;  // `pass=x` as a first word: name "pass", option "pass"
  int line = 0;

  std::string option(std::string_view key, std::string_view fallback = {}) const;
};

// `# input: ...`, `# bind: ...`, `# expect: ...`, `# expect-error: ...`, `# error: ...`
struct Remark {
  std::string kind;
  std::string text;
  int line = 0;       // of the remark itself
  int code_line = 0;  // error: the line that it speaks of
};

// The directives at its head apply to all the text up to the next directive that follows a graph.
struct TestCase {
  int first_line = 0, last_line = 0;  // counted from 1, inclusive
  std::vector<Directive> runs;
  std::vector<Remark> remarks;
  std::string text;                 // with empty lines before it, so that lines count as in the file
  std::vector<std::string> golden;  // the `#| ` lines
  int golden_line = 0;              // the first of them, 0 when there are none

  std::vector<Remark> remarks_of(std::string_view kind) const;
};

// Replaces lines [first, last] (last = first - 1 inserts before first).
struct Edit {
  int first = 0, last = 0;
  std::vector<std::string> lines;
};

class TestFile {
 public:
  static Result<TestFile> read(const std::string& path);

  const std::string& path() const { return path_; }
  const std::vector<TestCase>& cases() const { return cases_; }
  const std::string& line(int number) const { return lines_[static_cast<size_t>(number) - 1]; }
  // The last line of a case that is not empty.
  int last_full_line(const TestCase& test) const;
  Status apply(std::vector<Edit> edits) const;  // writes the file

 private:
  std::string path_;
  std::vector<std::string> lines_;
  std::vector<TestCase> cases_;
};

// The `.tw` files under a folder, or the file itself; sorted.
std::vector<std::string> find_files(const std::string& path, bool slow);

std::string_view trim(std::string_view text);

}  // namespace tilewright::text_tests
