// Runs a graph on every engine and compares the outputs with the expectation and with each other.
#include <algorithm>

#include "base/text.h"
#include "ir/parser.h"
#include "tests/text/actions.h"
#include "tests/text/engines.h"
#include "tests/text/values.h"

namespace tilewright::text_tests {

namespace {

constexpr int64_t kMaxBlessed = 256;

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    size_t comma = std::min(text.find(','), text.size());
    words.emplace_back(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return words;
}

std::string replace_word(std::string text, std::string_view word, std::string_view with) {
  auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at)) {
    size_t end = at + word.size();
    bool whole = (at == 0 || !is_word(text[at - 1])) && (end >= text.size() || !is_word(text[end]));
    if (whole) text.replace(at, word.size(), with);
    at += whole ? with.size() : word.size();
  }
  return text;
}

// The output that an expectation names: by output name, by value name, or by number.
int find_output(const Graph& graph, std::string_view name) {
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const Output& output = graph.outputs[i];
    if (output.name == name || graph.value_name(output.value) == name || cat(i) == name)
      return static_cast<int>(i);
  }
  return -1;
}

std::string output_label(const Graph& graph, size_t index) {
  const Output& output = graph.outputs[index];
  return output.name.empty() ? graph.value_name(output.value) : output.name;
}

using Compare = std::function<std::string(size_t output, const TensorRef& found, const TensorRef& expected)>;

class Execution {
 public:
  explicit Execution(const Action& action) : action_(action), directive_(action.directive) {}

  Outcome run() {
    if (auto skip = action_.test.remarks_of("skip"); !skip.empty()) return Outcome::skip(skip[0].text);
    std::vector<std::string> dtypes = split_words(directive_.option("dtypes", "f32"));
    int64_t repeat = 1;
    uint64_t seed = 1;
    Status read = read_numbers(repeat, seed);
    if (!read.is_ok()) return Outcome::fail(read.to_string());
    for (const std::string& dtype : dtypes) {
      std::string text = dtype == "f32" ? action_.test.text : replace_word(action_.test.text, "f32", dtype);
      ParsedText parsed = parse_text(text);
      if (!parsed.diagnostics.empty()) return Outcome::fail(cat(dtype, ": ", to_string(parsed.diagnostics)));
      if (parsed.graphs.size() != 1) return Outcome::fail("exec takes exactly one graph");
      for (int64_t i = 0; i < repeat; ++i) {
        bool base = i == 0 && dtype == dtypes[0];
        std::string fault = run_once(parsed.graphs[0], seed + static_cast<uint64_t>(i), base);
        if (!fault.empty())
          problems_ += cat("\n  ", dtype, ", seed ", seed + static_cast<uint64_t>(i), ": ", fault);
      }
    }
    if (problems_.empty() && ran_ == 0) return Outcome::skip("no engine could run it:" + skipped_);
    if (problems_.empty()) return {};
    Outcome outcome = Outcome::fail(cat(
        "outputs differ", edits_.empty() ? "" : " (TILEWRIGHT_BLESS=1 rewrites the expectation)", problems_));
    outcome.edits = std::move(edits_);
    return outcome;
  }

 private:
  Status read_numbers(int64_t& repeat, uint64_t& seed) {
    auto number = [&](std::string_view key, std::string_view fallback) {
      return static_cast<int64_t>(std::strtoll(directive_.option(key, fallback).c_str(), nullptr, 10));
    };
    repeat = number("repeat", "1");
    seed = static_cast<uint64_t>(number("seed", "1"));
    TW_ASSIGN_OR_RETURN(draw_, parse_draw(directive_.option("range"), directive_.option("values")));
    return Status::ok();
  }

  // Empty when all is well.
  std::string run_once(const Graph& graph, uint64_t seed, bool base) {
    Result<Inputs> inputs = make_inputs(graph, action_.test, seed, draw_);
    if (!inputs.is_ok()) return inputs.status().to_string();
    std::vector<TensorRef> refs = inputs->refs();
    Comparison bounds(graph, refs, inputs->bindings, run_test_custom_call);
    const bool exact = directive_.option("tolerance") == "exact";
    Compare compare = [&](size_t output, const TensorRef& found, const TensorRef& expected) {
      return exact ? difference(found, expected) : bounds.difference(output, found, expected);
    };
    std::vector<OwnedTensor> first;
    std::string fault;
    bool have = false;
    std::vector<std::string> wanted = split_words(directive_.option("engines"));
    for (const Engine& engine : engines()) {
      if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), engine.name) == wanted.end()) continue;
      Result<std::vector<OwnedTensor>> outputs = engine.run(graph, refs, inputs->bindings);
      if (!outputs.is_ok() && outputs.status().code() == Code::Unimplemented) {
        skipped_ += cat("\n  ", engine.name, ": ", outputs.status().message());
        continue;
      }
      ++ran_;
      std::string problem = check_status(outputs.is_ok() ? Status::ok() : outputs.status());
      if (!problem.empty() || !outputs.is_ok()) {
        if (!problem.empty()) fault += cat(engine.name, ": ", problem, "; ");
        continue;
      }
      if (!have && base) fault += compare_expected(graph, *outputs, compare, engine.name);
      if (have) fault += compare_engines(graph, *outputs, first, compare, engine.name);
      if (!have) first = std::move(*outputs);
      have = true;
    }
    return fault;
  }

  std::string check_status(const Status& status) const {
    std::vector<Remark> expected = action_.test.remarks_of("expect-error");
    if (expected.empty()) return status.is_ok() ? "" : status.to_string();
    if (status.is_ok()) return cat("succeeded, expected the error: ", expected[0].text);
    if (status.to_string().find(expected[0].text) != std::string::npos) return {};
    return cat("found the error ", status.to_string(), ", expected ", expected[0].text);
  }

  std::string compare_engines(const Graph& graph, const std::vector<OwnedTensor>& found,
                              const std::vector<OwnedTensor>& expected, const Compare& compare,
                              const std::string& engine) const {
    for (size_t i = 0; i < std::min(found.size(), expected.size()); ++i) {
      std::string text = compare(i, found[i].ref, expected[i].ref);
      if (!text.empty()) return cat(engine, " against reference: ", output_label(graph, i), text, "; ");
    }
    return found.size() == expected.size()
               ? ""
               : cat(engine, ": found ", found.size(), " outputs, expected ", expected.size(), "; ");
  }

  std::string compare_expected(const Graph& graph, const std::vector<OwnedTensor>& found,
                               const Compare& compare, const std::string& engine) {
    std::string fault;
    std::vector<Remark> remarks = action_.test.remarks_of("expect");
    for (const Remark& remark : remarks) {
      size_t equals = remark.text.find('=');
      std::string name(trim(std::string_view(remark.text).substr(0, equals)));
      int index = find_output(graph, name);
      if (equals == std::string::npos || index < 0)
        return cat("line ", remark.line, ": `", name, "` is no output; ");
      const TensorRef& have = found[static_cast<size_t>(index)].ref;
      std::string literal(trim(std::string_view(remark.text).substr(equals + 1)));
      Result<OwnedTensor> want = tensor_of_literal(literal, have.dtype, have.sizes);
      std::string text =
          want.is_ok() ? compare(static_cast<size_t>(index), have, want->ref) : want.status().message();
      if (text.empty()) continue;
      fault += cat(engine, " against line ", remark.line, ": ", name, text, "; ");
      edits_.push_back(
          Edit{remark.line, remark.line, {cat("# expect: ", name, " = ", literal_of_tensor(have))}});
    }
    if (remarks.empty() && directive_.option("bless") == "true") fault += bless_new(graph, found);
    return fault;
  }

  // `# run: exec bless` asks for expectations that are not there yet.
  std::string bless_new(const Graph& graph, const std::vector<OwnedTensor>& found) {
    Edit edit;
    edit.first = action_.file.last_full_line(action_.test) + 1;
    edit.last = edit.first - 1;
    for (size_t i = 0; i < found.size(); ++i) {
      if (found[i].ref.elements() > kMaxBlessed) continue;
      edit.lines.push_back(cat("# expect: ", output_label(graph, i), " = ", literal_of_tensor(found[i].ref)));
    }
    edits_.push_back(std::move(edit));
    return "expectations are missing; ";
  }

  const Action& action_;
  const Directive& directive_;
  Draw draw_;
  int ran_ = 0;
  std::string problems_, skipped_;
  std::vector<Edit> edits_;
};

}  // namespace

Outcome run_exec(const Action& action) { return Execution(action).run(); }

}  // namespace tilewright::text_tests
