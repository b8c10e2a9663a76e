// `tilewright verify`: compiled code against reference kernels, forward and backward, for calls of every op.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <iostream>
#include <mutex>
#include <set>
#include <thread>

#include "tools/tilewright/commands.h"
#include "tools/tilewright/progress.h"
#include "tools/tilewright/verify_cases.h"

namespace command {
namespace {

using Json = nlohmann::json;
using Symbols = std::map<std::string, int64_t>;

constexpr int64_t kSymbolValues[] = {0, 1, 3, 6};

// The custom calls that graphs.tw names.
void cube(const float* x, float* y, int64_t count, double factor) {
  for (int64_t at = 0; at < count; ++at) y[at] = static_cast<float>(factor) * x[at] * x[at] * x[at];
}
void cube_gradient(const float* x, const float* g, float* dx, int64_t count, double factor) {
  for (int64_t at = 0; at < count; ++at) dx[at] = 3 * static_cast<float>(factor) * x[at] * x[at] * g[at];
}

tw_custom_argument argument(int32_t kind, int32_t tensor) {
  tw_custom_argument made = {};
  made.struct_size = sizeof made;
  made.kind = kind;
  made.tensor = tensor;
  return made;
}

void register_custom_calls(tw::Session& session) {
  tw_custom_call call = {};
  call.struct_size = sizeof call;
  call.name = "verify_cube";
  call.function = reinterpret_cast<void (*)()>(cube);
  const tw_custom_argument arguments[] = {argument(TW_ARGUMENT_DATA, 0), argument(TW_ARGUMENT_DATA, 1),
                                          argument(TW_ARGUMENT_ELEMENTS, 0),
                                          argument(TW_ARGUMENT_FLOAT_ATTRIBUTE, 0)};
  call.arguments = arguments;
  call.argument_count = 4;
  call.operand_count = 1;
  call.result_count = 1;
  session.register_custom_call(call);
  call.name = "verify_cube_gradient";
  call.function = reinterpret_cast<void (*)()>(cube_gradient);
  const tw_custom_argument gradient[] = {argument(TW_ARGUMENT_DATA, 0), argument(TW_ARGUMENT_DATA, 2),
                                         argument(TW_ARGUMENT_DATA, 3), argument(TW_ARGUMENT_ELEMENTS, 0),
                                         argument(TW_ARGUMENT_FLOAT_ATTRIBUTE, 0)};
  call.arguments = gradient;
  call.argument_count = 5;
  call.operand_count = 3;
  session.register_custom_call(call);
}

struct OpTally {
  int64_t cases = 0;
  int64_t failures = 0;
  std::set<std::string> fallbacks, backward_fallbacks;  // reasons
  std::set<std::string> covered;  // kinds of input that were compared: "0-d", "empty", ..
  std::set<std::string> dtypes;
};

// Everything that the workers find out.
struct Findings {
  std::mutex mutex;
  int64_t cases = 0, skipped = 0;
  std::vector<std::pair<std::string, std::string>> failures;  // case, what
  std::map<std::string, OpTally> ops;
  std::map<std::string, std::string> refused;  // runs that both engines refuse: they compare no values

  void note_refused(const std::string& name, const std::string& error) {
    std::lock_guard lock(mutex);
    refused[name] = error;
  }
  void count(const std::string& op, const std::string& name, const std::string& failure) {
    std::lock_guard lock(mutex);
    ++cases;
    ++ops[op].cases;
    if (failure.empty()) return;
    ++ops[op].failures;
    failures.emplace_back(name, failure);
  }
  void note_covered(const std::string& op, const std::set<std::string>& kinds,
                    const std::vector<tw::Tensor>& inputs) {
    std::lock_guard lock(mutex);
    ops[op].covered.insert(kinds.begin(), kinds.end());
    for (const tw::Tensor& input : inputs) ops[op].dtypes.insert(tw_dtype_name(input.dtype()));
  }
  void note_fallbacks(const std::string& op, const tw::Executable& executable, bool backward) {
    const Json report = Json::parse(executable.report());
    std::lock_guard lock(mutex);
    for (const Json& fallback : report["fallbacks"])
      (backward ? ops[op].backward_fallbacks : ops[op].fallbacks)
          .insert(fallback["reason"].get<std::string>() + ": " + fallback["sentence"].get<std::string>());
  }
};

bool is_prime(int64_t size) {
  for (int64_t factor = 2; factor * factor <= size; ++factor)
    if (size % factor == 0) return false;
  return size > 4;
}

// What is awkward about the tensors and values of a comparison.
std::set<std::string> kinds_of(const std::vector<tw::Tensor>& inputs, const Symbols& symbols, bool backward,
                               bool special) {
  std::set<std::string> kinds;
  for (const tw::Tensor& input : inputs) {
    if (input.sizes().empty()) kinds.insert("0-d");
    if (input.elements() == 0) kinds.insert("empty");
    for (int64_t size : input.sizes())
      if (is_prime(size)) kinds.insert("prime");
    if (input.elements() > 0) kinds.insert("unaligned");
    if (input.elements() > 1) kinds.insert("strided");
  }
  if (!symbols.empty()) kinds.insert("symbolic");
  if (backward) kinds.insert("backward");
  if (special) kinds.insert("special");
  return kinds;
}

std::vector<const tw::Tensor*> pointers(const std::vector<tw::Tensor>& tensors) {
  std::vector<const tw::Tensor*> list;
  for (const tw::Tensor& tensor : tensors) list.push_back(&tensor);
  return list;
}

// A tensor of the same elements that lies awkwardly in memory.
struct Awkward {
  std::vector<char> storage;
  tw::Sizes strides;
  DLTensor tensor;
};

// kind 0: one element off alignment; 1: one byte off; 2: dims from the last to the first, with gaps,
// backwards.
Awkward make_awkward(const tw::Tensor& from, int kind) {
  Awkward made;
  const int64_t width = tw_dtype_size(from.dtype());
  made.tensor = *from.get();
  const int64_t off = kind == 0 ? width : 1;
  if (kind < 2) {
    made.storage.resize(static_cast<size_t>(from.bytes() + 64 + off));
    const auto base = reinterpret_cast<uintptr_t>(made.storage.data());
    char* data = made.storage.data() + (64 - base % 64) % 64 + off;
    if (from.bytes() > 0) std::memcpy(data, from.raw(), static_cast<size_t>(from.bytes()));
    made.tensor.data = data;
    return made;
  }
  const tw::Sizes& sizes = from.sizes();
  made.strides.resize(sizes.size());
  int64_t step = 2, first = 0;
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    made.strides[dim] = dim == 0 ? -step : step;
    if (dim == 0) first = step * std::max<int64_t>(sizes[dim] - 1, 0);
    step *= std::max<int64_t>(sizes[dim], 1);
  }
  made.storage.resize(static_cast<size_t>((step + first + 1) * width));
  for (int64_t flat = 0; flat < from.elements(); ++flat) {
    int64_t rest = flat, offset = first;
    for (size_t dim = sizes.size(); dim-- > 0;) {
      offset += rest % sizes[dim] * made.strides[dim];
      rest /= sizes[dim];
    }
    std::memcpy(made.storage.data() + offset * width, from.data<char>() + flat * width,
                static_cast<size_t>(width));
  }
  made.tensor.data = made.storage.data() + first * width;
  made.tensor.strides = made.strides.data();
  return made;
}

bool same_bytes(const std::vector<tw::Tensor>& a, const std::vector<tw::Tensor>& b) {
  for (size_t output = 0; output < a.size(); ++output)
    if (a[output].bytes() != b[output].bytes() ||
        std::memcmp(a[output].raw(), b[output].raw(), static_cast<size_t>(a[output].bytes())) != 0)
      return false;
  return true;
}

class Verifier {
 public:
  Verifier(const tw::Session& session, Findings& findings) : session_(session), findings_(findings) {}

  // Both engines on every binding; `inputs` makes the tensors for one.
  template <class MakeInputs>
  void compare(const std::string& op, const std::string& name, const tw::Graph& graph, bool backward,
               const std::vector<Symbols>& bindings, MakeInputs make_inputs, bool special = false) {
    const std::string title = name + (backward ? " (backward)" : "");
    std::optional<tw::Executable> compiled, eager;
    try {
      compiled.emplace(session_.compile(graph));
      eager.emplace(session_.compile(graph, {{"mode", "eager"}}));
    } catch (const tw::Error& error) {
      return findings_.count(op, title, error.what());
    }
    findings_.note_fallbacks(op, *compiled, backward);
    for (const Symbols& symbols : bindings) {
      std::string label = title;
      for (const auto& [symbol, value] : symbols) label += " " + symbol + "=" + std::to_string(value);
      const std::vector<tw::Tensor> inputs = make_inputs(symbols);
      bool refused = false;
      findings_.count(op, label, compare_one(label, graph, *compiled, *eager, symbols, inputs, refused));
      if (!refused) findings_.note_covered(op, kinds_of(inputs, symbols, backward, special), inputs);
    }
  }

 private:
  std::string compare_one(const std::string& label, const tw::Graph& graph, const tw::Executable& compiled,
                          const tw::Executable& eager, const Symbols& symbols,
                          const std::vector<tw::Tensor>& inputs, bool& refused) const {
    tw::RunOptions options;
    for (const auto& [name, value] : symbols) options.symbols.emplace_back(name, value);
    std::vector<tw::Tensor> expected, found;
    std::string expected_error, found_error;
    const std::vector<const tw::Tensor*> list = pointers(inputs);
    try {
      expected = eager(list, options);
    } catch (const tw::Error& error) {
      expected_error = error.what();
    }
    try {
      found = compiled(list, options);
    } catch (const tw::Error& error) {
      found_error = error.what();
    }
    if (expected_error.empty() != found_error.empty())
      return "compiled: " + (found_error.empty() ? "success" : found_error) +
             "; reference: " + (expected_error.empty() ? "success" : expected_error);
    if (!expected_error.empty()) {
      findings_.note_refused(label, expected_error);
      refused = true;
      return {};
    }
    const std::string difference = first_difference(graph, list, found, expected, options.symbols);
    return difference.empty() ? compare_awkward(compiled, inputs, found, options) : difference;
  }

  // The same bits, however the inputs lie in memory.
  std::string compare_awkward(const tw::Executable& compiled, const std::vector<tw::Tensor>& inputs,
                              const std::vector<tw::Tensor>& found, const tw::RunOptions& options) const {
    static constexpr const char* kKinds[] = {"inputs one element off alignment",
                                             "inputs one byte off alignment", "strided inputs"};
    for (int kind = 0; kind < 3; ++kind) {
      std::vector<Awkward> awkward;
      for (const tw::Tensor& input : inputs) awkward.push_back(make_awkward(input, kind));
      std::vector<const DLTensor*> list;
      for (const Awkward& each : awkward) list.push_back(&each.tensor);
      try {
        if (!same_bytes(compiled.run(list, options), found))
          return std::string(kKinds[kind]) + " give other bits";
      } catch (const tw::Error& error) {
        return std::string(kKinds[kind]) + ": " + error.what();
      }
    }
    return {};
  }

  const tw::Session& session_;
  Findings& findings_;
};

bool has_float(const tw::Graph& graph, bool outputs) {
  const int64_t count = outputs ? graph.output_count() : graph.input_count();
  for (int64_t index = 0; index < count; ++index) {
    const tw::DType dtype = (outputs ? graph.output_value(index) : graph.input_value(index)).dtype();
    if (dtype == tw::f16 || dtype == tw::bf16 || dtype == tw::f32 || dtype == tw::f64) return true;
  }
  return false;
}

// The gradient's inputs: those of the forward, then random cotangents.
std::vector<tw::Tensor> with_cotangents(std::vector<tw::Tensor> inputs, const tw::Graph& joint,
                                        const Symbols& symbols, uint64_t seed) {
  Random random(seed);
  for (int64_t index = static_cast<int64_t>(inputs.size()); index < joint.input_count(); ++index)
    inputs.push_back(random_input(joint, index, symbols, random));
  return inputs;
}

void verify_instance(const VerifyRequest& request, Verifier& verifier, Findings& findings,
                     const Instance& instance, uint64_t seed) {
  const std::string name = instance.name(), op = instance.line->op;
  try {
    const tw::Graph graph = build_graph(instance);
    std::vector<Symbols> bindings = {{}};
    if (is_symbolic(*instance.line)) {
      bindings.clear();
      for (int64_t value : kSymbolValues)
        if (!request.quick || value == 3) bindings.push_back({{"N", value}});
    }
    const auto inputs = [&](const Symbols& symbols) {
      return make_tensors(instance, graph, symbols.empty() ? 0 : symbols.at("N"), seed);
    };
    verifier.compare(op, name, graph, false, bindings, inputs, has_special_values(*instance.line));
    if (op_facts().at(op).gradient == "zero" || has_special_values(*instance.line) ||
        !has_float(graph, true) || !has_float(graph, false))
      return;
    const tw::Graph joint = graph.gradient_joint();
    verifier.compare(op, name, joint, true, bindings, [&](const Symbols& symbols) {
      return with_cotangents(inputs(symbols), joint, symbols, seed);
    });
  } catch (const tw::Error& error) {
    findings.count(op, name, error.what());
  }
}

void verify_graph(Verifier& verifier, Findings& findings, const tw::Graph& graph, uint64_t seed) {
  const std::string name = std::string("@") + tw_graph_name(graph.get());
  // A graph is named after the op that it is about, or counts for itself.
  std::string op = tw_graph_name(graph.get());
  while (!op.empty() && !op_facts().count(op))
    op.resize(op.rfind('_') == std::string::npos ? 0 : op.rfind('_'));
  if (op.empty()) op = name;
  try {
    Symbols symbols;
    default_symbols(graph, &symbols);
    const auto inputs = [&](const Symbols& bound) {
      Random random(seed);
      std::vector<tw::Tensor> tensors;
      for (int64_t index = 0; index < graph.input_count(); ++index)
        tensors.push_back(random_input(graph, index, bound, random));
      return tensors;
    };
    verifier.compare(op, name, graph, false, {symbols}, inputs);
    if (!has_float(graph, true) || !has_float(graph, false)) return;
    std::optional<tw::Graph> joint;
    try {
      joint.emplace(graph.gradient_joint());
    } catch (const tw::Error& error) {
      // A loop with an unknown trip count has none.
      if (error.code() == TW_UNIMPLEMENTED || error.code() == TW_INVALID_ARGUMENT) return;
      throw;
    }
    verifier.compare(op, name, *joint, true, {symbols}, [&](const Symbols& bound) {
      return with_cotangents(inputs(bound), *joint, bound, seed);
    });
  } catch (const tw::Error& error) {
    findings.count(op, name, error.what());
  }
}

// Runs work(index) for all indices on a few threads.
void run_parallel(int64_t count, const std::function<void(int64_t)>& work) {
  std::atomic<int64_t> next{0};
  const auto drain = [&] {
    for (int64_t at = next++; at < count; at = next++) work(at);
  };
  std::vector<std::thread> workers;
  const unsigned threads = std::min(std::max(std::thread::hardware_concurrency(), 1u), 16u);
  for (unsigned worker = 1; worker < threads && worker < count; ++worker) workers.emplace_back(drain);
  drain();
  for (std::thread& worker : workers) worker.join();
}

Json coverage(const Findings& findings, int64_t* compiled, int64_t* fallback) {
  Json ops = Json::object();
  *compiled = *fallback = 0;
  for (const auto& [name, tally] : findings.ops) {
    ++*(tally.fallbacks.empty() ? compiled : fallback);
    ops[name] = {{"cases", tally.cases},
                 {"failures", tally.failures},
                 {"compiled", tally.fallbacks.empty()},
                 {"backward_compiled", tally.backward_fallbacks.empty()},
                 {"fallbacks", tally.fallbacks},
                 {"backward_fallbacks", tally.backward_fallbacks},
                 {"covered", tally.covered},
                 {"dtypes", tally.dtypes}};
  }
  return ops;
}

int conclude(const VerifyRequest& request, Findings& findings, double seconds) {
  std::sort(findings.failures.begin(), findings.failures.end());
  int64_t compiled, fallback;
  const Json ops = coverage(findings, &compiled, &fallback);
  for (const auto& [name, facts] : ops.items()) {
    std::printf("%-28s %5lld cases  %-9s", name.c_str(),
                static_cast<long long>(facts["cases"].get<int64_t>()),
                facts["compiled"] ? "compiled" : "fallback");
    std::printf("  %2zu dtypes", facts["dtypes"].size());
    for (const Json& kind : facts["covered"]) std::printf(" %s", kind.get<std::string>().c_str());
    if (facts["failures"] != 0) std::printf("  %s failures", facts["failures"].dump().c_str());
    for (const Json& reason : facts["fallbacks"]) std::printf("  [%s]", reason.get<std::string>().c_str());
    if (!facts["backward_compiled"])
      std::printf("  backward falls back [%s]", facts["backward_fallbacks"][0].get<std::string>().c_str());
    std::printf("\n");
  }
  int shown = 0;
  for (const auto& [name, what] : findings.failures) {
    if (shown++ == request.max_failures) {
      std::printf("and %zu more failures\n",
                  findings.failures.size() - static_cast<size_t>(request.max_failures));
      break;
    }
    std::printf("FAILED %s\n       %s\n", name.c_str(), what.c_str());
  }
  shown = 0;
  for (const auto& [name, error] : findings.refused) {
    if (request.files.empty() || shown++ == request.max_failures)
      break;  // ops have cases that must be refused
    std::printf("REFUSED %s\n        %s\n", name.c_str(), error.c_str());
  }
  // Two engines that refuse alike agree, but have shown nothing about values.
  const bool nothing_compared =
      findings.skipped == 0 && static_cast<int64_t>(findings.refused.size()) >= findings.cases;
  if (nothing_compared)
    std::printf("nothing was compared: %s\n",
                findings.cases == 0
                    ? "there is no case; cases of composites are lines of tests/composites/cases.txt"
                    : "every run was refused; give values with `tilewright run FILE --input "
                      "NAME=FILE.npy --compare`");
  std::printf(
      "%lld cases, %zu failures, %zu refused, %lld skipped; %lld ops compiled, %lld with fallbacks; seed "
      "%llu, %.1f s\n",
      static_cast<long long>(findings.cases), findings.failures.size(), findings.refused.size(),
      static_cast<long long>(findings.skipped), static_cast<long long>(compiled),
      static_cast<long long>(fallback), static_cast<unsigned long long>(request.seed), seconds);
  std::fflush(stdout);
  if (request.json) {
    Json failed = Json::array();
    for (const auto& [name, what] : findings.failures) failed.push_back({{"case", name}, {"what", what}});
    std::cout << Json{{"cases", findings.cases},
                      {"failures", findings.failures.size()},
                      {"skipped", findings.skipped},
                      {"refused", findings.refused},
                      {"compared", !nothing_compared},
                      {"ops_compiled", compiled},
                      {"ops_fallback", fallback},
                      {"seed", request.seed},
                      {"seconds", seconds},
                      {"ops", ops},
                      {"failed", failed}}
                     .dump()
              << "\n";
  }
  return findings.failures.empty() && !nothing_compared ? Success : Failures;
}

}  // namespace

int verify(const VerifyRequest& request) {
  const auto start = std::chrono::steady_clock::now();
  if (request.files.empty() && !request.all && request.ops.empty())
    throw UsageError("verify: give --all, --op NAME or a file");
  for (const std::string& op : request.ops) check_op_name("verify", op);
  for (const std::string& dtype : request.dtypes) {
    int32_t found;
    if (tw_status* status = tw_dtype_find(dtype.c_str(), &found))
      throw UsageError("verify: " + std::string(tw::Error(status).message()));
  }
  const bool wants_all = request.all;
  const auto wanted = [&](const std::string& op) {
    return wants_all || std::find(request.ops.begin(), request.ops.end(), op) != request.ops.end();
  };
  std::vector<CaseLine> lines;
  std::vector<tw::Graph> graphs;
  if (!request.files.empty()) {
    if (request.all || !request.ops.empty() || !request.dtypes.empty() || request.quick)
      throw UsageError(
          "verify: files stand alone: --all, --op, --dtype and --quick choose among the cases of ops");
    for (const std::string& file : request.files)
      for (tw::Graph& graph : parse_graphs(read_file(file), file)) graphs.push_back(std::move(graph));
  } else {
    lines = all_case_lines();
    std::erase_if(lines, [&](const CaseLine& line) { return !wanted(line.op); });
    if (request.dtypes.empty()) graphs = parse_graphs(embedded_graphs(), "embedded graphs");
    std::erase_if(graphs, [&](const tw::Graph& graph) {
      std::string name = tw_graph_name(graph.get());
      while (!name.empty() && !op_facts().count(name))
        name.resize(name.rfind('_') == std::string::npos ? 0 : name.rfind('_'));
      return !wanted(name);
    });
  }
  std::vector<Instance> instances;
  for (const CaseLine& line : lines)
    for (const Instance& instance : instances_of(line, request.quick, request.dtypes))
      instances.push_back(instance);
  if (request.list) {
    for (const Instance& instance : instances) std::cout << instance.name() << "\n";
    for (const tw::Graph& graph : graphs) std::cout << "@" << tw_graph_name(graph.get()) << "\n";
    return Success;
  }

  // Objects of single calls are of no use to anybody else.
  tw::OptionList more;
  if (std::none_of(request.options.begin(), request.options.end(),
                   [](const std::string& word) { return word.rfind("cache=", 0) == 0; }))
    more = {{"cache", "off"}};
  tw::Session session = make_session(request, more);
  register_custom_calls(session);
  tw_text* text;
  tw::check(tw_target_describe(session.option("target").c_str(), &text));
  const std::string host_reason = Json::parse(tw::take(text))["host_reason"];
  Findings findings;
  const int64_t count = static_cast<int64_t>(instances.size() + graphs.size());
  if (!host_reason.empty()) {
    std::cout << "target does not run here: " << host_reason << "\n";
    findings.skipped = count;
    return conclude(request, findings, 0);
  }
  Verifier verifier(session, findings);
  Progress progress("verify", count);
  std::mutex progress_mutex;
  run_parallel(count, [&](int64_t index) {
    const size_t at = static_cast<size_t>(index);
    if (at < instances.size())
      verify_instance(request, verifier, findings, instances[at], request.seed + at);
    else
      verify_graph(verifier, findings, graphs[at - instances.size()], request.seed + at);
    std::lock_guard lock(progress_mutex);
    progress.advance(at < instances.size() ? instances[at].line->op : "graphs");
  });
  progress.finish();
  return conclude(request, findings,
                  std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
}

}  // namespace command
