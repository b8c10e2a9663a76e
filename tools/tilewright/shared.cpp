// Files, graphs and sessions of the commands.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>

#include "tools/tilewright/commands.h"

namespace command {

std::string read_file(const std::string& path) {
  if (path == "-") return std::string(std::istreambuf_iterator<char>(std::cin), {});
  if (std::filesystem::is_directory(path)) throw InputError("cannot read " + path + ": it is a folder");
  std::ifstream file(path, std::ios::binary);
  if (!file) throw InputError("cannot read " + path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::vector<tw::Graph> parse_graphs(const std::string& text, const std::string& where) {
  int64_t count = 0;
  const int64_t size = static_cast<int64_t>(text.size());
  std::vector<tw_graph*> handles;
  tw_status* status = tw_graph_parse_all(text.data(), size, nullptr, 0, &count);
  if (!status) {
    handles.resize(static_cast<size_t>(count));
    status = tw_graph_parse_all(text.data(), size, handles.data(), count, &count);
  }
  if (status) {
    const std::string message = tw_status_text(status);
    tw_status_release(status);
    throw InputError(where + ": " + message);
  }
  std::vector<tw::Graph> graphs;
  for (tw_graph* handle : handles) graphs.emplace_back(handle);
  if (graphs.empty()) throw InputError(where + ": holds no graph");
  return graphs;
}

tw::Graph choose_graph(const GraphChoice& choice) {
  std::vector<tw::Graph> graphs = parse_graphs(read_file(choice.file), choice.file);
  tw::Graph* found = choice.graph.empty() ? &graphs.back() : nullptr;
  std::string names;
  for (tw::Graph& graph : graphs) {
    if (choice.graph == tw_graph_name(graph.get())) found = &graph;
    names += std::string(" @") + tw_graph_name(graph.get());
  }
  if (!found) throw InputError(choice.file + ": no graph @" + choice.graph + ", expected one of" + names);
  if (!choice.gradient) return std::move(*found);
  return found->gradient_joint();
}

void check_op_name(const char* command, const std::string& name) {
  int32_t op;
  if (tw_status* status = tw_op_find(name.c_str(), &op)) {
    const std::string message = tw::Error(status).message();
    throw UsageError(std::string(command) + message.substr(message.find(": ")));
  }
}

std::pair<std::string, std::string> split_assignment(const std::string& word, const char* option) {
  const size_t equals = word.find('=');
  if (equals == std::string::npos || equals == 0)
    throw UsageError(std::string(option) + ": found " + word + ", expected name=value");
  return {word.substr(0, equals), word.substr(equals + 1)};
}

tw::Session make_session(const Common& request, const tw::OptionList& more) {
  tw::OptionList options;
  for (const std::string& word : request.options) options.push_back(split_assignment(word, "--option"));
  for (const std::string& word : request.shorthands) options.push_back(split_assignment(word, "--option"));
  options.insert(options.end(), more.begin(), more.end());
  return tw::Session(options);
}

}  // namespace command
