// Reading and checking of edited stages.
#include "runtime/override.h"

#include <fstream>
#include <optional>
#include <sstream>

#include "base/log.h"
#include "base/text.h"
#include "ir/text.h"
#include "ir/verifier.h"

namespace tilewright {
namespace {

std::optional<std::string> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

Status check_same_boundary(const Graph& graph, const Graph& edited) {
  const auto differs = [&](const std::string& what) {
    return Status::invalid(cat("graph @", edited.name, " has another ", what, " than the graph it replaces"));
  };
  if (graph.inputs.size() != edited.inputs.size()) return differs("number of inputs");
  if (graph.outputs.size() != edited.outputs.size()) return differs("number of outputs");
  for (size_t i = 0; i < graph.inputs.size(); ++i)
    if (!(graph.type(graph.inputs[i].value) == edited.type(edited.inputs[i].value)))
      return differs(cat("type of input ", i));
  for (size_t i = 0; i < graph.outputs.size(); ++i)
    if (!(graph.type(graph.outputs[i].value) == edited.type(edited.outputs[i].value)))
      return differs(cat("type of output ", i));
  return Status::ok();
}

Status check_same_interface(const tile::Kernel& kernel, const tile::Kernel& edited) {
  const auto differs = [&](const std::string& what) {
    return Status::invalid(
        cat("kernel @", edited.name, " has another ", what, " than the kernel it replaces"));
  };
  if (kernel.params.size() != edited.params.size()) return differs("number of params");
  for (size_t i = 0; i < kernel.params.size(); ++i) {
    const tile::Param &a = kernel.params[i], &b = edited.params[i];
    if (a.dtype != b.dtype || a.mode != b.mode || !(a.dims == b.dims) || !(a.strides == b.strides))
      return differs(cat("param ", i));
  }
  if (kernel.symbols.size() != edited.symbols.size()) return differs("number of symbols");
  for (size_t i = 0; i < kernel.symbols.size(); ++i)
    if (kernel.symbols[i].name != edited.symbols[i].name) return differs(cat("symbol ", i));
  if (kernel.reports != edited.reports) return differs("report of errors");
  return Status::ok();
}

// A dump holds all kernels of a program, each from a line that begins with "kernel @".
std::vector<std::string> split_kernels(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t at = 0; at < text.size();) {
    size_t end = text.find('\n', at);
    if (end == std::string::npos) end = text.size();
    const std::string line = text.substr(at, end - at);
    if (line.rfind("kernel @", 0) == 0) parts.emplace_back();
    if (!parts.empty()) parts.back() += line + "\n";
    at = end + 1;
  }
  return parts;
}

}  // namespace

Result<Graph> override_graph(const std::string& directory, Graph graph, bool* used) {
  const std::string path = cat(directory, "/", graph.name, ".graph.txt");
  const std::optional<std::string> text = read_file(path);
  if (!text) return graph;
  Result<Graph> edited = parse_graph(*text);
  Status status = edited.is_ok() ? verify(*edited) : edited.status();
  if (status.is_ok()) status = check_same_boundary(graph, *edited);
  if (!status.is_ok()) return status.because(cat("override ", path));
  TW_LOG(Runtime, Warn, "graph @", graph.name, " is replaced by ", path);
  *used = true;
  return edited;
}

Status override_kernels(const std::string& directory, Program& program, int* used) {
  const std::string path = cat(directory, "/", program.name, ".tile.txt");
  const std::optional<std::string> text = read_file(path);
  if (!text) return Status::ok();
  for (const std::string& part : split_kernels(*text)) {
    Result<tile::Kernel> edited = tile::parse_kernel(part);
    if (!edited.is_ok()) return edited.status().because(cat("override ", path));
    bool known = false;
    for (KernelEntry& entry : program.kernels) {
      if (entry.kernel.name != edited->name) continue;
      known = true;
      if (tile::canonical_text(entry.kernel) == tile::canonical_text(*edited)) continue;
      const Status status = check_same_interface(entry.kernel, *edited);
      if (!status.is_ok()) return status.because(cat("override ", path));
      TW_LOG(Runtime, Warn, "kernel @", edited->name, " is replaced by that of ", path);
      entry.kernel = *edited;
      ++*used;
    }
    if (!known)
      return Status::invalid(
          cat("override ", path, ": no kernel @", edited->name, " in graph @", program.name));
  }
  return Status::ok();
}

}  // namespace tilewright
