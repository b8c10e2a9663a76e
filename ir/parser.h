// What the parser found, with places: for tools and tests that want each error by itself.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace tilewright {

struct Diagnostic {
  int line = 1;
  int column = 1;
  std::string message;
  std::string line_text;

  // "line 3, column 10: message", the line and a caret under the place.
  std::string to_string() const;
};

struct ParsedText {
  std::vector<Graph> graphs;            // those without syntax errors, in order
  std::vector<Diagnostic> diagnostics;  // syntax errors, and violations of the graphs that have none
};

// Never fails: all errors are in the result (at most 100).
ParsedText parse_text(std::string_view text);

std::string to_string(const std::vector<Diagnostic>& diagnostics);

}  // namespace tilewright
