// The minimum cut against all subsets of small random graphs.
#include "ir/gradients/minimum_cut.h"

#include <gtest/gtest.h>

#include <random>

namespace tilewright::gradients {
namespace {

struct Example {
  std::vector<int64_t> cost;
  std::vector<std::pair<int, int>> edges;
  std::vector<bool> source, sink;
};

// Whether a path from the source to the sink avoids all chosen vertices; edges go upward.
bool leaks(const Example& example, unsigned chosen) {
  std::vector<bool> reached(example.cost.size());
  for (size_t v = 0; v < reached.size(); ++v) {
    if (chosen >> v & 1u) continue;
    reached[v] = example.source[v];
    for (auto [from, to] : example.edges) {
      if (to == static_cast<int>(v) && reached[static_cast<size_t>(from)]) reached[v] = true;
    }
    if (reached[v] && example.sink[v]) return true;
  }
  return false;
}

int64_t cost_of(const Example& example, unsigned chosen) {
  int64_t cost = 0;
  for (size_t v = 0; v < example.cost.size(); ++v) cost += chosen >> v & 1u ? example.cost[v] : 0;
  return cost;
}

TEST(MinimumCut, IsTheCheapestOfAllSubsets) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    size_t count = 1 + random() % 9;
    Example example;
    MinimumCut network;
    for (size_t v = 0; v < count; ++v) {
      example.cost.push_back(1 + random() % 9);
      network.add_vertex(example.cost.back());
      example.source.push_back(random() % 3 == 0);
      example.sink.push_back(random() % 3 == 0);
      if (example.source[v]) network.connect_source(static_cast<int>(v));
      if (example.sink[v]) network.connect_sink(static_cast<int>(v));
      for (size_t from = 0; from < v; ++from) {
        if (random() % 2) continue;
        example.edges.emplace_back(from, v);
        network.connect(static_cast<int>(from), static_cast<int>(v));
      }
    }
    std::vector<bool> cut = network.run();
    unsigned chosen = 0;
    for (size_t v = 0; v < count; ++v) chosen |= cut[v] ? 1u << v : 0u;
    int64_t best = INT64_MAX;
    for (unsigned subset = 0; subset < 1u << count; ++subset) {
      if (!leaks(example, subset)) best = std::min(best, cost_of(example, subset));
    }
    ASSERT_FALSE(leaks(example, chosen)) << "round " << round;
    ASSERT_EQ(cost_of(example, chosen), best) << "round " << round;
  }
}

}  // namespace
}  // namespace tilewright::gradients
