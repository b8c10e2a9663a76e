// Minimum vertex cut of a directed graph, by Dinic's maximum flow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tilewright::gradients {

// Vertices have a cost; run() gives the cheapest set that meets every path from the source to the sink.
class MinimumCut {
 public:
  MinimumCut();
  int add_vertex(int64_t cost);
  void connect(int from, int to);
  void connect_source(int vertex);
  void connect_sink(int vertex);
  std::vector<bool> run();  // by vertex

 private:
  struct Edge {
    int to;
    int64_t capacity;
  };
  int add_node();
  void add_edge(int from, int to, int64_t capacity);
  bool find_levels();
  // Sends flow along one shortest path; false when there is none left in this phase.
  bool augment();

  std::vector<Edge> edges_;  // edge i ^ 1 is the reverse of edge i
  std::vector<std::vector<int>> out_;
  std::vector<int> level_;
  std::vector<size_t> next_;  // by node: the first edge not yet exhausted in this phase
  int vertices_ = 0;
};

}  // namespace tilewright::gradients
