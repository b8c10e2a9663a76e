// Runs random graphs on every engine and compares with the reference; a difference is shrunk and printed.
//
// tile_fuzz [--first SEED] [--count N] [--steps N] [--engine NAME] [--trace] [--print]
// Exit: 0 all agree, 1 some differ, 2 usage.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "base/text.h"
#include "codegen/program.h"
#include "ir/text.h"
#include "tests/text/engines.h"
#include "tests/tile/random_graph.h"

namespace tilewright::tile_tests {

using text_tests::Engine;

namespace {

struct Options {
  uint64_t first = 1, count = 100;
  int steps = 14;
  std::string engine;  // empty: all
  bool trace = false;  // print each seed before it runs, to find one that crashes
  bool print = false;  // print graphs and programs instead of running them
};

std::vector<OwnedTensor> make_inputs(const RandomGraph& random, uint64_t seed) {
  Random numbers(seed * 77 + 1);
  std::vector<OwnedTensor> tensors;
  for (const Input& input : random.graph.inputs) {
    const TensorType& type = random.graph.type(input.value);
    std::vector<int64_t> sizes;
    for (const Dim& dim : type.shape) sizes.push_back(dim.evaluate(random.bindings).value());
    tensors.push_back(allocate_tensor(type.dtype, sizes));
    text_tests::fill_random(tensors.back().ref, numbers, text_tests::Draw{});
  }
  return tensors;
}

// What engines could not run, and how often.
std::map<std::string, int>& skips() {
  static auto* counts = new std::map<std::string, int>;
  return *counts;
}

// Empty when all engines agree.
std::string fault_of(const RandomGraph& random, uint64_t seed, const Options& options) {
  std::vector<OwnedTensor> inputs = make_inputs(random, seed);
  std::vector<TensorRef> refs;
  for (const OwnedTensor& input : inputs) refs.push_back(input.ref);
  text_tests::Comparison comparison(random.graph, refs, random.bindings);
  std::vector<OwnedTensor> expected;
  for (const Engine& engine : text_tests::engines()) {
    bool reference = &engine == &text_tests::engines().front();
    if (!reference && !options.engine.empty() && engine.name != options.engine) continue;
    Result<std::vector<OwnedTensor>> outputs = engine.run(random.graph, refs, random.bindings);
    if (!outputs.is_ok() && outputs.status().code() == Code::Unimplemented) {
      ++skips()[cat(engine.name, ": ", outputs.status().message().substr(0, 100))];
      continue;
    }
    if (!outputs.is_ok()) return cat(engine.name, ": ", outputs.status().to_string());
    for (size_t i = 0; i < expected.size(); ++i) {
      std::string text = comparison.difference(i, (*outputs)[i].ref, expected[i].ref);
      if (!text.empty()) return cat(engine.name, ": output ", i, " ", text);
    }
    if (reference) expected = std::move(*outputs);
  }
  return {};
}

// The graph of the first value that differs by itself.
RandomGraph shrink(const RandomGraph& random, uint64_t seed, const Options& options, std::string& fault) {
  for (uint32_t v = 0; v < random.graph.value_count(); ++v) {
    if (!random.graph.value(ValueId{v}).node.is_valid()) continue;
    RandomGraph part = random;
    part.graph.outputs.clear();
    part.graph.add_output(ValueId{v});
    part.graph = remove_dead_nodes(part.graph);
    std::string text = fault_of(part, seed, options);
    if (text.empty()) continue;
    fault = text;
    return part;
  }
  return random;
}

void print_program(const Graph& graph) {
  TargetLimits limits;
  limits.kind = TargetKind::Cpu;
  limits.vector_bytes = 32;
  Result<Program> program = plan_program(graph, limits, {});
  std::printf("%s%s\n", print(graph).c_str(),
              program.is_ok() ? print(*program).c_str() : program.status().to_string().c_str());
}

int run(const Options& options) {
  int different = 0, refused = 0;
  std::map<std::string, int> kinds;
  for (uint64_t seed = options.first; seed < options.first + options.count; ++seed) {
    if (options.trace) std::fprintf(stderr, "seed %llu\n", static_cast<unsigned long long>(seed));
    int steps = 1 + static_cast<int>(seed % static_cast<uint64_t>(options.steps));
    Result<RandomGraph> random = make_random_graph(seed, steps);
    if (!random.is_ok()) {
      std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed),
                  random.status().to_string().c_str());
      ++refused;
      continue;
    }
    if (options.print) {
      print_program(random->graph);
      continue;
    }
    std::string fault = fault_of(*random, seed, options);
    if (fault.empty()) continue;
    ++different;
    RandomGraph smallest = shrink(*random, seed, options, fault);
    if (kinds[fault.substr(0, 60)]++ >= 3) continue;
    std::printf("==== seed %llu, %d steps: %s\n", static_cast<unsigned long long>(seed), steps,
                fault.c_str());
    for (const auto& [name, value] : random->bindings) {
      std::printf("# bind: %s = %lld\n", name.c_str(), static_cast<long long>(value));
    }
    std::printf("%s\n", print(smallest.graph).c_str());
    std::fflush(stdout);
  }
  for (const auto& [what, count] : skips()) std::printf("SKIP %d times %s\n", count, what.c_str());
  std::printf("%llu graphs from seed %llu: %d differ, %d could not be made\n",
              static_cast<unsigned long long>(options.count), static_cast<unsigned long long>(options.first),
              different, refused);
  return different == 0 && refused == 0 ? 0 : 1;
}

}  // namespace

int main_with(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::string_view word = argv[i];
    if (word == "--trace" || word == "--print") {
      (word == "--trace" ? options.trace : options.print) = true;
      continue;
    }
    const char* value = i + 1 < argc ? argv[++i] : nullptr;
    if (value == nullptr) return 2;
    if (word == "--first")
      options.first = std::strtoull(value, nullptr, 10);
    else if (word == "--count")
      options.count = std::strtoull(value, nullptr, 10);
    else if (word == "--steps")
      options.steps = std::max(1, std::atoi(value));
    else if (word == "--engine")
      options.engine = value;
    else
      return 2;
  }
  return run(options);
}

}  // namespace tilewright::tile_tests

int main(int argc, char** argv) {
  int code = tilewright::tile_tests::main_with(argc, argv);
  if (code == 2)
    std::fprintf(stderr,
                 "usage: tile_fuzz [--first SEED] [--count N] [--steps N] [--engine NAME] [--trace] "
                 "[--print] [--print]\n");
  return code;
}
