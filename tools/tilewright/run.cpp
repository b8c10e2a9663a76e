// `tilewright run`: a graph on tensors from files or from a seed.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "tools/tilewright/commands.h"
#include "tools/tilewright/npy.h"
#include "tools/tilewright/progress.h"
#include "tools/tilewright/tensors.h"

namespace command {
namespace {

using Json = nlohmann::json;
using Symbols = std::map<std::string, int64_t>;

Symbols given_symbols(const RunRequest& request) {
  Symbols symbols;
  for (const std::string& word : request.symbols) {
    const auto [name, value] = split_assignment(word, "--symbol");
    char* end = nullptr;
    if (!symbols.emplace(name, std::strtoll(value.c_str(), &end, 10)).second)
      throw UsageError("--symbol: " + name + " is given twice");
    if (end == value.c_str() || *end) throw UsageError("--symbol: found " + word + ", expected name=integer");
  }
  return symbols;
}

// A name that the graph does not declare is a slip of the pen.
void check_symbols(const tw::Graph& graph, const Symbols& symbols) {
  Symbols declared;
  default_symbols(graph, &declared);
  std::string names;
  for (const auto& [name, value] : declared) names += (names.empty() ? "" : ", ") + name;
  for (const auto& [name, value] : symbols)
    if (!declared.count(name))
      throw UsageError("--symbol: the graph has no symbol " + name +
                       (names.empty() ? ", it has none" : ", expected one of: " + names));
}

std::string display_name(const std::string& name, int64_t index, const char* kind) {
  return name.empty() ? std::string(kind) + std::to_string(index) : name;
}

std::string input_names(const tw::Graph& graph) {
  std::string names;
  for (int64_t index = 0; index < graph.input_count(); ++index)
    names += (index ? ", " : "") + display_name(graph.input_name(index), index, "input");
  return names;
}

// Files first: they show the sizes of symbols; what is left is drawn.
std::vector<tw::Tensor> make_inputs(const RunRequest& request, const tw::Graph& graph, Symbols* symbols) {
  std::map<std::string, std::string> files;
  for (const std::string& word : request.inputs) {
    auto file = split_assignment(word, "--input");
    if (!files.insert(file).second) throw UsageError("--input: " + file.first + " is given twice");
  }
  const int64_t count = graph.input_count();
  std::vector<std::optional<tw::Tensor>> tensors(static_cast<size_t>(count));
  for (int64_t index = 0; index < count; ++index) {
    const std::string name = display_name(graph.input_name(index), index, "input");
    const auto file = files.find(name);
    if (file == files.end()) continue;
    const tw::Value value = graph.input_value(index);
    tw::Tensor tensor = read_npy(file->second, value.dtype());
    const tw::Shape shape = value.shape();
    for (size_t dim = 0; dim < std::min(shape.size(), tensor.sizes().size()); ++dim) {
      tw_text* text;
      tw::check(tw_graph_dim_print(graph.get(), shape[dim].handle(), &text));
      const std::string expression = tw::take(text);
      if (!shape[dim].is_constant()) symbols->try_emplace(expression, tensor.sizes()[dim]);
    }
    tensors[static_cast<size_t>(index)] = std::move(tensor);
    files.erase(file);
  }
  if (!files.empty())
    throw InputError("--input: the graph has no input " + files.begin()->first +
                     ", expected one of: " + input_names(graph));
  // Only declared names are values of symbols.
  Symbols declared;
  default_symbols(graph, &declared);
  for (auto& [name, value] : declared)
    if (symbols->count(name)) value = symbols->at(name);
  *symbols = declared;
  Random random(request.seed);
  std::vector<tw::Tensor> made;
  for (int64_t index = 0; index < count; ++index) {
    std::optional<tw::Tensor>& tensor = tensors[static_cast<size_t>(index)];
    if (!tensor) {
      if (!request.random)
        throw InputError(
            "input " + display_name(graph.input_name(index), index, "input") + " has no file: give --input " +
            display_name(graph.input_name(index), index, "input") + "=FILE.npy, or --random SEED");
      tensor.emplace(random_input(graph, index, *symbols, random));
    }
    made.push_back(std::move(*tensor));
  }
  return made;
}

tw::RunOptions run_options(const RunRequest& request, const Symbols& symbols) {
  tw::RunOptions options;
  // Sizes of files win over defaults: only what was said is passed on, and what no input shows.
  for (const auto& [name, value] : symbols) options.symbols.emplace_back(name, value);
  (void)request;
  return options;
}

// The first difference from the reference kernels beyond the bounds, "" when there is none.
std::string compare(const tw::Session& session, const tw::Graph& graph,
                    const std::vector<const tw::Tensor*>& inputs, const tw::RunOptions& options,
                    const std::vector<tw::Tensor>& found) {
  const tw::Executable eager = session.compile(graph, {{"mode", "eager"}});
  return first_difference(graph, inputs, found, eager(inputs, options), options.symbols);
}

// One line a kernel or other launch, the longest first.
void print_profile(const Json& profile) {
  std::printf("%-24s %8s %12s %10s %10s  %s\n", "launch", "runs", "us each", "GB/s", "GFLOP/s", "what");
  for (const Json& line : profile) {
    const double runs = line["runs"].get<double>();
    std::printf("%-24s %8.0f %12.3f %10.2f %10.2f  %s\n", line["name"].get<std::string>().c_str(), runs,
                1e6 * line["seconds"].get<double>() / runs, line["gb_per_second"].get<double>(),
                line["gflop_per_second"].get<double>(), line["description"].get<std::string>().c_str());
  }
  std::fflush(stdout);
}

}  // namespace

int run(const RunRequest& request) {
  const tw::Graph graph = choose_graph(request.choice);
  const tw::Session session =
      make_session(request, request.profile ? tw::OptionList{{"profile", "-"}} : tw::OptionList{});
  Symbols symbols = given_symbols(request);
  check_symbols(graph, symbols);
  const std::vector<tw::Tensor> tensors = make_inputs(request, graph, &symbols);
  std::vector<const tw::Tensor*> inputs;
  for (const tw::Tensor& tensor : tensors) inputs.push_back(&tensor);
  const tw::RunOptions options = run_options(request, symbols);
  const tw::Executable executable = session.compile(graph);

  std::vector<double> seconds;
  std::vector<tw::Tensor> outputs;
  Progress progress("run", request.repeat);
  for (int turn = 0; turn < std::max(request.repeat, 1); ++turn) {
    outputs.clear();
    const auto start = std::chrono::steady_clock::now();
    outputs = executable(inputs, options);
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    progress.advance();
  }
  progress.finish();

  Json result;
  result["graph"] = tw_graph_name(graph.get());
  result["symbols"] = symbols;
  result["outputs"] = Json::array();
  if (!request.output_dir.empty()) std::filesystem::create_directories(request.output_dir);
  for (size_t output = 0; output < outputs.size(); ++output) {
    const std::string name =
        display_name(graph.output_name(static_cast<int64_t>(output)), static_cast<int64_t>(output), "output");
    Json facts = describe(outputs[output]);
    facts["name"] = name;
    if (!request.output_dir.empty()) {
      const std::string path = (std::filesystem::path(request.output_dir) / (name + ".npy")).string();
      write_npy(path, outputs[output]);
      facts["file"] = path;
    }
    std::cout << name << ": " << summary_text(facts) << "\n";
    result["outputs"].push_back(std::move(facts));
  }
  std::vector<double> sorted = seconds;
  std::sort(sorted.begin(), sorted.end());
  result["seconds"] = {
      {"first", seconds.front()}, {"median", sorted[sorted.size() / 2]}, {"best", sorted.front()}};
  result["report"] = Json::parse(executable.report());
  std::cout << "time: first " << seconds.front() << " s";
  if (seconds.size() > 1)
    std::cout << ", median of " << seconds.size() << " " << sorted[sorted.size() / 2] << " s";
  std::cout << "; " << result["report"]["launches"].dump() << "\n";
  if (request.profile) {
    std::cout.flush();
    print_profile(result["report"]["profile"]);
  }
  bool differs = false;
  if (request.compare) {
    const std::string difference = compare(session, graph, inputs, options, outputs);
    differs = !difference.empty();
    result["difference"] = difference;
    std::cout << (differs ? "differs from the reference kernels: " + difference
                          : std::string("agrees with the reference kernels"))
              << "\n";
  }
  if (request.json) std::cout << result.dump() << "\n";
  return differs ? Failures : Success;
}

}  // namespace command
