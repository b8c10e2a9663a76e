// Minimum vertex cut: every vertex is an edge from its entry to its exit whose capacity is the cost.
#include "ir/gradients/minimum_cut.h"

#include <algorithm>

namespace tilewright::gradients {

namespace {
constexpr int64_t kEndless = INT64_MAX / 4;
constexpr int kSource = 0, kSink = 1;

int entry(int vertex) { return 2 + 2 * vertex; }
int exit_of(int vertex) { return 3 + 2 * vertex; }
}  // namespace

MinimumCut::MinimumCut() {
  add_node();
  add_node();
}

int MinimumCut::add_node() {
  out_.emplace_back();
  return static_cast<int>(out_.size()) - 1;
}

void MinimumCut::add_edge(int from, int to, int64_t capacity) {
  out_[from].push_back(static_cast<int>(edges_.size()));
  edges_.push_back({to, capacity});
  out_[to].push_back(static_cast<int>(edges_.size()));
  edges_.push_back({from, 0});
}

int MinimumCut::add_vertex(int64_t cost) {
  add_node();
  add_node();
  add_edge(entry(vertices_), exit_of(vertices_), cost);
  return vertices_++;
}

void MinimumCut::connect(int from, int to) { add_edge(exit_of(from), entry(to), kEndless); }
void MinimumCut::connect_source(int vertex) { add_edge(kSource, entry(vertex), kEndless); }
void MinimumCut::connect_sink(int vertex) { add_edge(exit_of(vertex), kSink, kEndless); }

bool MinimumCut::find_levels() {
  level_.assign(out_.size(), -1);
  level_[kSource] = 0;
  std::vector<int> queue{kSource};
  for (size_t head = 0; head < queue.size(); ++head) {
    for (int edge : out_[queue[head]]) {
      if (edges_[edge].capacity == 0 || level_[edges_[edge].to] >= 0) continue;
      level_[edges_[edge].to] = level_[queue[head]] + 1;
      queue.push_back(edges_[edge].to);
    }
  }
  return level_[kSink] >= 0;
}

bool MinimumCut::augment() {
  std::vector<int> path;
  int at = kSource;
  while (at != kSink) {
    bool advanced = false;
    for (; next_[at] < out_[at].size(); ++next_[at]) {
      const Edge& edge = edges_[out_[at][next_[at]]];
      if (edge.capacity == 0 || level_[edge.to] != level_[at] + 1) continue;
      path.push_back(out_[at][next_[at]]);
      at = edge.to;
      advanced = true;
      break;
    }
    if (advanced) continue;
    if (path.empty()) return false;
    // A dead end: step back and never try this edge again in this phase.
    at = edges_[path.back() ^ 1].to;
    path.pop_back();
    ++next_[at];
  }
  int64_t flow = kEndless;
  for (int edge : path) flow = std::min(flow, edges_[edge].capacity);
  for (int edge : path) {
    edges_[edge].capacity -= flow;
    edges_[edge ^ 1].capacity += flow;
  }
  return true;
}

std::vector<bool> MinimumCut::run() {
  while (find_levels()) {
    next_.assign(out_.size(), 0);
    while (augment()) {
    }
  }
  // What the source still reaches lies on its side; vertices across the border are the cut.
  std::vector<bool> chosen(vertices_);
  for (int i = 0; i < vertices_; ++i) chosen[i] = level_[entry(i)] >= 0 && level_[exit_of(i)] < 0;
  return chosen;
}

}  // namespace tilewright::gradients
