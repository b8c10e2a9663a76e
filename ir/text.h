// Text form of graphs: printer and parser are exact inverses; docs/ir.md has the grammar.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace tilewright {

std::string print(const Graph& graph);
std::string print(const Attribute& attribute);

// Reads every graph of a text.  Errors carry line and column and the offending line; all syntax errors that
// can be told apart are joined into one status.  The graphs are verified.
Result<std::vector<Graph>> parse_graphs(std::string_view text);
Result<Graph> parse_graph(std::string_view text);  // exactly one

}  // namespace tilewright
