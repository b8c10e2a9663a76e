// The verifier: checks every invariant of a graph and collects all violations.
//
// Invariants:
//  1. every operand is defined before its use; absent operands only where the table allows
//  2. arity, dtype classes, attributes and regions agree with the op table
//  3. result types equal the inferred ones
//  4. symbols used in any dim are declared; ranges are not empty; names are unique
//  5. outputs name existing values; an alias names an input of the same type, each input at most once
//  6. layouts fit the rank of their value; regions verify by themselves and agree with their node
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"

namespace tilewright {

struct Violation {
  NodeId node;  // invalid for the graph itself
  std::string message;
};

std::vector<Violation> find_violations(const Graph& graph);
// All violations joined into one status.
Status verify(const Graph& graph);

}  // namespace tilewright
