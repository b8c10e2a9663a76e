// Round trips, expected errors and golden texts.
#include "tests/text/actions.h"

#include <algorithm>

#include "base/text.h"
#include "ir/hash.h"
#include "ir/parser.h"
#include "ir/text.h"
#include "tests/text/engines.h"

namespace tilewright::text_tests {

namespace {

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

// Lines with - for expected and + for found, from the first that differs.
std::string line_difference(const std::vector<std::string>& expected, const std::vector<std::string>& found) {
  size_t same = 0, most = std::min(expected.size(), found.size());
  while (same < most && expected[same] == found[same]) ++same;
  size_t expected_end = expected.size(), found_end = found.size();
  while (expected_end > same && found_end > same && expected[expected_end - 1] == found[found_end - 1]) {
    --expected_end;
    --found_end;
  }
  std::string out;
  for (size_t i = same; i < expected_end; ++i) out += cat("\n  - ", expected[i]);
  for (size_t i = same; i < found_end; ++i) out += cat("\n  + ", found[i]);
  return out;
}

// Compares with the `#| ` lines of the case; blessing replaces them or puts them at its end.
Outcome compare_golden(const Action& action, const std::string& text) {
  std::vector<std::string> found = split_lines(text);
  if (found == action.test.golden) return {};
  Outcome outcome = Outcome::fail(cat("the text differs (TILEWRIGHT_BLESS=1 rewrites the expectation)",
                                      line_difference(action.test.golden, found)));
  Edit edit;
  for (const std::string& line : found) edit.lines.push_back(line.empty() ? "#|" : "#| " + line);
  if (action.test.golden_line == 0) {
    edit.first = action.file.last_full_line(action.test) + 1;
    edit.last = edit.first - 1;
  } else {
    edit.first = action.test.golden_line;
    edit.last = edit.first + static_cast<int>(action.test.golden.size()) - 1;
  }
  outcome.edits.push_back(std::move(edit));
  return outcome;
}

// print(parse(x)) is stable, keeps the hash, and is what the golden lines say when there are any.
Outcome run_roundtrip(const Action& action) {
  ParsedText parsed = parse_text(action.test.text);
  if (!parsed.diagnostics.empty()) return Outcome::fail(to_string(parsed.diagnostics));
  std::string all;
  for (const Graph& graph : parsed.graphs) {
    std::string text = print(graph);
    ParsedText again = parse_text(text);
    if (!again.diagnostics.empty() || again.graphs.size() != 1) {
      return Outcome::fail(cat("printed text does not parse:\n", to_string(again.diagnostics), "\n", text));
    }
    std::string second = print(again.graphs[0]);
    if (second != text)
      return Outcome::fail("print is not stable" + line_difference(split_lines(text), split_lines(second)));
    if (hash_graph(again.graphs[0]) != hash_graph(graph))
      return Outcome::fail("the hash changed over print and parse");
    all += text;
  }
  if (action.test.golden.empty() && action.directive.option("golden") != "true") return {};
  return compare_golden(action, all);
}

// The case with its `# error:` lines replaced by the errors found.
std::vector<Edit> bless_errors(const Action& action, const std::vector<Diagnostic>& diagnostics) {
  Edit edit{action.test.first_line, action.test.last_line, {}};
  for (int line = edit.first; line <= edit.last; ++line) {
    std::string text = action.file.line(line);
    size_t at = text.find("# error:");
    bool alone = at != std::string::npos && trim(std::string_view(text).substr(0, at)).empty();
    if (at != std::string::npos) text.resize(at);
    while (!text.empty() && text.back() == ' ') text.pop_back();
    if (!alone) edit.lines.push_back(text);
    size_t indent = text.find_first_not_of(' ');
    for (const Diagnostic& diagnostic : diagnostics) {
      if (diagnostic.line != line) continue;
      edit.lines.push_back(
          cat(std::string(indent == std::string::npos ? 0 : indent, ' '), "# error: ", diagnostic.message));
    }
  }
  return {edit};
}

Outcome run_verify(const Action& action) {
  ParsedText parsed = parse_text(action.test.text);
  std::vector<Remark> expected = action.test.remarks_of("error");
  std::string problems;
  for (const Diagnostic& diagnostic : parsed.diagnostics) {
    auto match = std::find_if(expected.begin(), expected.end(), [&](const Remark& remark) {
      return remark.code_line == diagnostic.line && diagnostic.message.find(remark.text) != std::string::npos;
    });
    if (match != expected.end()) {
      expected.erase(match);
    } else {
      problems += "\n  unexpected: " + diagnostic.to_string();
    }
  }
  for (const Remark& remark : expected)
    problems += cat("\n  missing at line ", remark.code_line, ": ", remark.text);
  if (problems.empty()) return {};
  Outcome outcome = Outcome::fail("errors differ (TILEWRIGHT_BLESS=1 rewrites them)" + problems);
  outcome.edits = bless_errors(action, parsed.diagnostics);
  return outcome;
}

Outcome run_stage(const Action& action, const std::string& name) {
  auto stage = std::find_if(stages().begin(), stages().end(), [&](const Stage& s) { return s.name == name; });
  if (stage == stages().end()) {
    return Outcome::fail(cat("unknown directive or stage `", name, "`, expected roundtrip, verify, exec, ",
                             join(stages(), ", ", [](const Stage& s) { return s.name; })));
  }
  ParsedText parsed = parse_text(action.test.text);
  if (!parsed.diagnostics.empty()) return Outcome::fail(to_string(parsed.diagnostics));
  std::string all;
  for (const Graph& graph : parsed.graphs) {
    Result<std::string> text = stage->text(graph);
    if (!text.is_ok() && text.status().code() == Code::Unimplemented)
      return Outcome::skip(text.status().to_string());
    if (!text.is_ok()) return Outcome::fail(text.status().to_string());
    all += *text;
  }
  return compare_golden(action, all);
}

}  // namespace

Outcome run_action(const Action& action) {
  const Directive& directive = action.directive;
  if (directive.name == "roundtrip") return run_roundtrip(action);
  if (directive.name == "verify") return run_verify(action);
  if (directive.name == "exec") return run_exec(action);
  if (directive.name == "gradient") return run_gradient(action);
  return run_stage(action, directive.name == "pass" ? directive.option("pass") : directive.name);
}

}  // namespace tilewright::text_tests
