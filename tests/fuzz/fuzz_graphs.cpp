// Differential fuzzing: random graphs through print and parse, the verifier, and every engine; mutated text
// through the parser.
//
// fuzz_graphs [--seed N] [--runs N] [--nodes N] [--mode text|verify|exec] [--engines a,b] [--op name]
// [--stats] A failure prints the seed, the shrunk graph and what differs.  Exit: 0 passed, 1 failed, 2 usage.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/text.h"
#include "ir/hash.h"
#include "ir/parser.h"
#include "ir/text.h"
#include "ir/verifier.h"
#include "tests/fuzz/proposal.h"
#include "tests/fuzz/reduce.h"
#include "tests/fuzz/session_engines.h"
#include "tests/text/engines.h"

namespace tilewright::fuzz {

using text_tests::Engine;
using text_tests::engines;

struct Settings {
  uint64_t seed = 1;
  int64_t runs = 200;
  int nodes = 8;
  std::string mode = "verify", engines, op;
  bool stats = false;
};

// print(parse(print(g))) is print(g), and nothing else changes either; empty when all is well.
static std::string round_trip_fault(const Graph& graph) {
  Status valid = verify(graph);
  if (!valid.is_ok()) return cat("does not verify: ", valid.message());
  std::string text = print(graph);
  Result<Graph> again = parse_graph(text);
  if (!again.is_ok()) return cat("printed text does not parse: ", again.status().message());
  if (print(*again) != text) return "print(parse(print(g))) differs from print(g)";
  if (hash_graph(*again) != hash_graph(graph)) return "the hash changed over print and parse";
  Graph alive = remove_dead_nodes(graph);
  if (print(remove_dead_nodes(alive)) != print(alive)) return "remove_dead_nodes is not idempotent";
  return {};
}

static bool is_wanted(const std::string& list, const std::string& name) {
  return list.empty() || cat(",", list, ",").find(cat(",", name, ",")) != std::string::npos;
}

// A bad index of a gather without elements is looked at by some engines only.
static bool all_empty(const std::vector<OwnedTensor>& outputs) {
  return std::all_of(outputs.begin(), outputs.end(),
                     [](const OwnedTensor& output) { return output.ref.elements() == 0; });
}

// Opened at the first use; closed before the program ends, so that the directory goes.
static std::unique_ptr<SessionEngines>& opened_sessions() {
  static auto* opened = new std::unique_ptr<SessionEngines>;
  return *opened;
}
static SessionEngines& sessions() {
  if (!opened_sessions()) opened_sessions() = SessionEngines::open().value();
  return *opened_sessions();
}

// The engines of the text tests and two sessions, of which the second finds what the first compiled.
static std::vector<Engine> all_engines(uint64_t seed) {
  std::vector<Engine> list;
  for (const Engine& engine : engines()) {
    // The first session compiles for this machine; the two narrower widths take turns.
    const bool narrow = engine.name.ends_with(seed % 2 ? "v2" : "v3");
    if (!engine.name.starts_with("compiled") || narrow) list.push_back(engine);
  }
  const auto add = [&](const char* name, auto member) {
    list.push_back(
        {name, [member](const Graph& graph, std::span<const TensorRef> inputs, const Bindings& bindings) {
           return (sessions().*member)(graph, inputs, bindings);
         }});
  };
  add("session", &SessionEngines::run_fresh);
  add("cached", &SessionEngines::run_cached);
  return list;
}

// Runs all engines and compares them with the reference; empty when they agree.
static std::string engine_fault(const Graph& graph, bool approximate, uint64_t seed,
                                const std::string& wanted) {
  text_tests::Draw draw{-4, 4, !approximate};
  const std::vector<Engine> engines = all_engines(seed);
  text_tests::TestCase nothing;
  Result<text_tests::Inputs> inputs = text_tests::make_inputs(graph, nothing, seed, draw);
  if (!inputs.is_ok()) return inputs.status().to_string();
  std::vector<TensorRef> refs = inputs->refs();
  text_tests::Comparison comparison(graph, refs, inputs->bindings, text_tests::run_test_custom_call);
  const Engine& reference = engines[0];
  Result<std::vector<OwnedTensor>> fresh = Status::unimplemented("not run");
  Result<std::vector<OwnedTensor>> expected = reference.run(graph, refs, inputs->bindings);
  for (const Engine& engine : engines) {
    if (&engine == &reference || !is_wanted(wanted, engine.name)) continue;
    Result<std::vector<OwnedTensor>> found = engine.run(graph, refs, inputs->bindings);
    if (!found.is_ok() && found.status().code() == Code::Unimplemented) continue;
    // A symbolic size that does not fit at this binding: the engines need only survive it.
    if (!expected.is_ok() && expected.status().code() == Code::InvalidArgument) continue;
    if (found.is_ok() && expected.status().code() == Code::OutOfRange && all_empty(*found)) continue;
    if (found.is_ok() != expected.is_ok()) {
      return cat(engine.name, ": ", found.is_ok() ? "succeeded" : found.status().to_string(),
                 ", reference: ", expected.is_ok() ? "succeeded" : expected.status().to_string());
    }
    if (!found.is_ok()) continue;
    for (size_t i = 0; i < expected->size(); ++i) {
      std::string text = comparison.difference(i, (*found)[i].ref, (*expected)[i].ref);
      if (!text.empty()) return cat(engine.name, ": output ", i, text);
      if (engine.name != "cached" || !fresh.is_ok()) continue;
      text = difference((*found)[i].ref, (*fresh)[i].ref);
      if (!text.empty()) return cat("cached against fresh: output ", i, text);
    }
    if (engine.name == "session") fresh = std::move(found);
  }
  return {};
}

static void report(const Settings& settings, uint64_t seed, const Graph& graph, const std::string& fault) {
  std::printf("FAIL seed %llu (--mode %s --seed %llu --runs 1 --nodes %d): %s\n%s\n",
              static_cast<unsigned long long>(seed), settings.mode.c_str(),
              static_cast<unsigned long long>(seed), settings.nodes, fault.c_str(), print(graph).c_str());
  std::fflush(stdout);
}

static bool run_graph(const Settings& settings, uint64_t seed, OpCounts& counts) {
  GeneratorOptions options;
  options.nodes = settings.nodes;
  std::vector<Op> ops;
  if (!settings.op.empty()) {
    std::optional<Op> op = parse_op(settings.op);
    if (op) ops.push_back(*op);
    options.ops = ops.empty() ? nullptr : &ops;
  }
  options.runnable = settings.mode == "exec";
  GeneratedGraph generated = generate_graph(seed, options, &counts);
  auto fault_of = [&](const Graph& graph) {
    std::string fault = round_trip_fault(graph);
    if (!fault.empty() || settings.mode != "exec") return fault;
    return engine_fault(graph, generated.approximate, seed, settings.engines);
  };
  std::string fault = fault_of(generated.graph);
  if (fault.empty()) return true;
  Graph small = reduce_graph(generated.graph, [&](const Graph& graph) { return !fault_of(graph).empty(); });
  report(settings, seed, small, fault_of(small));
  return false;
}

// A text with a few bytes or pieces changed.
static std::string mutate(std::string text, Random& random) {
  static const std::vector<std::string> pieces = {
      "%x",      ",",     "(",      ")",         "[",    "]",    "{",      "}",   ":",
      "=",       "graph", "return", "\n",        "#",    "\"",   "\\",     "-",   "0x",
      "..",      "->",    "N",      "f32[",      "nan",  "-inf", "splat ", "_",   "9223372036854775807",
      "1e99999", "%\"",   "@",      "floordiv(", "((((", "[[[[", "\0x",    "\xff"};
  for (int64_t i = random.integer(1, 4); i-- > 0 && !text.empty();) {
    size_t at = random.next() % text.size(), length = random.next() % 12;
    switch (random.next() % 4) {
      case 0: text.erase(at, length); break;
      case 1: text.insert(at, pick(random, pieces)); break;
      case 2: text.insert(at, text.substr(random.next() % text.size(), length)); break;
      default: text[at] = static_cast<char>(random.next());
    }
  }
  return text;
}

// Whatever the text, parsing ends with graphs or errors; what it accepts prints and parses to the same.
static bool run_text(const Settings& settings, uint64_t seed, OpCounts& counts) {
  Random random(seed);
  GeneratorOptions options;
  options.nodes = 4;
  options.runnable = false;
  std::string text = print(generate_graph(seed, options, &counts).graph);
  for (int i = 0; i < 20; ++i) {
    ParsedText parsed = parse_text(mutate(text, random));
    if (!parsed.diagnostics.empty()) continue;
    for (const Graph& graph : parsed.graphs) {
      std::string fault = round_trip_fault(graph);
      if (fault.empty()) continue;
      report(settings, seed, graph, fault);
      return false;
    }
  }
  return true;
}

static void print_stats(const OpCounts& counts) {
  for (const OpInfo& info : all_ops()) {
    auto found = counts.find(info.op);
    OpCount count = found == counts.end() ? OpCount{} : found->second;
    std::printf("%-28s %8lld tried %8lld accepted\n", info.name, static_cast<long long>(count.tried),
                static_cast<long long>(count.accepted));
  }
}

static bool read_arguments(int argc, char** argv, Settings& settings) {
  for (int i = 1; i < argc; ++i) {
    std::string name = argv[i];
    if (name == "--stats") {
      settings.stats = true;
      continue;
    }
    if (i + 1 >= argc) return false;
    std::string value = argv[++i];
    if (name == "--seed") {
      settings.seed = std::strtoull(value.c_str(), nullptr, 10);
    } else if (name == "--runs") {
      settings.runs = std::strtoll(value.c_str(), nullptr, 10);
    } else if (name == "--nodes") {
      settings.nodes = static_cast<int>(std::strtol(value.c_str(), nullptr, 10));
    } else if (name == "--mode") {
      settings.mode = value;
    } else if (name == "--engines") {
      settings.engines = value;
    } else if (name == "--op") {
      settings.op = value;
    } else {
      return false;
    }
  }
  return settings.mode == "text" || settings.mode == "verify" || settings.mode == "exec";
}

static int run(int argc, char** argv) {
  Settings settings;
  if (!read_arguments(argc, argv, settings)) {
    std::fprintf(stderr,
                 "usage: fuzz_graphs [--seed N] [--runs N] [--nodes N] [--mode text|verify|exec] [--engines "
                 "a,b] [--op name] "
                 "[--stats]\n");
    return 2;
  }
  std::printf("seed %llu, %lld runs\n", static_cast<unsigned long long>(settings.seed),
              static_cast<long long>(settings.runs));
  OpCounts counts;
  int64_t failed = 0;
  for (int64_t i = 0; i < settings.runs && failed < 20; ++i) {
    uint64_t seed = settings.seed + static_cast<uint64_t>(i);
    failed +=
        settings.mode == "text" ? !run_text(settings, seed, counts) : !run_graph(settings, seed, counts);
  }
  opened_sessions().reset();
  if (settings.stats) print_stats(counts);
  int64_t nodes = 0;
  for (const auto& [op, count] : counts) nodes += count.accepted;
  std::printf("%lld nodes of %zu ops, %lld failed\n", static_cast<long long>(nodes), counts.size(),
              static_cast<long long>(failed));
  return failed == 0 ? 0 : 1;
}

}  // namespace tilewright::fuzz

int main(int argc, char** argv) { return tilewright::fuzz::run(argc, argv); }
