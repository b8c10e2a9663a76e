// Reads and rewrites text test files.
#include "tests/text/test_file.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/text.h"

namespace tilewright::text_tests {

std::string_view trim(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  return text;
}

std::string Directive::option(std::string_view key, std::string_view fallback) const {
  auto found = options.find(key);
  return std::string(found == options.end() ? fallback : std::string_view(found->second));
}

std::vector<Remark> TestCase::remarks_of(std::string_view kind) const {
  std::vector<Remark> found;
  std::copy_if(remarks.begin(), remarks.end(), std::back_inserter(found),
               [&](const Remark& r) { return r.kind == kind; });
  return found;
}

namespace {

constexpr std::string_view kKinds[] = {"input", "bind", "expect", "expect-error", "error", "skip"};

// The text after `# key:`, or nothing when the line does not say that.
bool says(std::string_view line, std::string_view key, std::string& rest) {
  size_t at = line.find(cat("# ", key, ":"));
  if (at == std::string_view::npos) return false;
  bool alone = trim(line.substr(0, at)).empty();
  if (!alone && key != "error") return false;
  rest = trim(line.substr(at + key.size() + 3));
  return true;
}

Directive parse_directive(std::string_view text, int line) {
  Directive directive;
  directive.line = line;
  while (!(text = trim(text)).empty()) {
    size_t end = std::min(text.find(' '), text.size());
    std::string_view word = text.substr(0, end);
    text.remove_prefix(end);
    size_t equals = word.find('=');
    std::string key(word.substr(0, equals));
    if (directive.name.empty()) directive.name = key;
    if (equals != std::string_view::npos) directive.options[key] = word.substr(equals + 1);
    if (equals == std::string_view::npos && key != directive.name) directive.options[key] = "true";
  }
  return directive;
}

class CaseReader {
 public:
  explicit CaseReader(const std::vector<std::string>& lines) : lines_(lines) {}

  std::vector<TestCase> read() {
    for (size_t i = 0; i < lines_.size(); ++i) read_line(static_cast<int>(i) + 1, lines_[i]);
    return std::move(cases_);
  }

 private:
  void read_line(int number, const std::string& line) {
    std::string rest;
    if (says(line, "run", rest)) {
      if (cases_.empty() || has_code_) {
        cases_.emplace_back();
        cases_.back().first_line = number;
        cases_.back().text.assign(static_cast<size_t>(number) - 1, '\n');
        has_code_ = false;
        code_line_ = number;
      }
      cases_.back().runs.push_back(parse_directive(rest, number));
    }
    if (cases_.empty()) return;
    TestCase& test = cases_.back();
    test.last_line = number;
    test.text += line + "\n";
    std::string_view code = trim(line);
    if (code.starts_with("#|")) {
      if (test.golden_line == 0) test.golden_line = number;
      test.golden.emplace_back(code.substr(code.starts_with("#| ") ? 3 : 2));
      return;
    }
    if (!code.empty() && code[0] != '#') {
      has_code_ = true;
      code_line_ = number;
    }
    for (std::string_view kind : kKinds) {
      if (!says(line, kind, rest)) continue;
      test.remarks.push_back(Remark{std::string(kind), rest, number, code_line_});
      return;
    }
  }

  const std::vector<std::string>& lines_;
  std::vector<TestCase> cases_;
  bool has_code_ = false;
  int code_line_ = 0;
};

}  // namespace

Result<TestFile> TestFile::read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return Status::not_found(cat("cannot read ", path));
  TestFile file;
  file.path_ = path;
  for (std::string line; std::getline(in, line);) file.lines_.push_back(line);
  file.cases_ = CaseReader(file.lines_).read();
  if (file.cases_.empty()) return Status::invalid(cat(path, ": no `# run:` directive"));
  return file;
}

int TestFile::last_full_line(const TestCase& test) const {
  int last = test.last_line;
  while (last > test.first_line && trim(line(last)).empty()) --last;
  return last;
}

Status TestFile::apply(std::vector<Edit> edits) const {
  std::stable_sort(edits.begin(), edits.end(),
                   [](const Edit& a, const Edit& b) { return a.first > b.first; });
  std::vector<std::string> lines = lines_;
  for (const Edit& edit : edits) {
    auto from = lines.begin() + (edit.first - 1), to = lines.begin() + edit.last;
    lines.insert(lines.erase(from, to), edit.lines.begin(), edit.lines.end());
  }
  std::ofstream out(path_, std::ios::binary);
  for (const std::string& line : lines) out << line << "\n";
  out.close();
  return out ? Status::ok() : Status::runtime(cat("cannot write ", path_));
}

std::vector<std::string> find_files(const std::string& path, bool slow) {
  namespace fs = std::filesystem;
  if (!fs::is_directory(path)) return {path};
  std::vector<std::string> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path)) {
    std::string name = entry.path().string();
    if (name.ends_with(".tw") && (slow || !name.ends_with(".slow.tw"))) files.push_back(name);
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace tilewright::text_tests
