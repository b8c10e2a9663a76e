// Random valid graphs, driven by the op table: an op is tried as soon as it has a row.
#pragma once

#include <map>

#include "ir/graph.h"
#include "tests/text/values.h"

namespace tilewright::fuzz {

using text_tests::Random;

struct GeneratorOptions {
  int nodes = 8;
  bool symbolic = true;  // dims may be N, M and expressions of them
  bool runnable = true;  // leaves out what has no defined result (uninitialized, promised indices)
  // Values that are right only within a tolerance are then used by movement ops alone, so that a comparison
  // stays sharp.
  bool keep_sharp = true;
  bool floats_only = false;              // for gradients
  const std::vector<Op>* ops = nullptr;  // null: all
};

// How often each op was tried and accepted.
struct OpCount {
  int64_t tried = 0, accepted = 0;
};
using OpCounts = std::map<Op, OpCount>;

struct GeneratedGraph {
  Graph graph;
  bool approximate = false;  // some value is right only within a tolerance
};

// Never fails: ops whose inference refuses are tried again with other operands and attributes.
GeneratedGraph generate_graph(uint64_t seed, const GeneratorOptions& options, OpCounts* counts = nullptr);

}  // namespace tilewright::fuzz
