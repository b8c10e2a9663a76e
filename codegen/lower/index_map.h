// Index maps: where an element of a value lies, as affine expressions over the dims of a kernel's iteration
// domain.
//
// A group of fused nodes runs over one domain.  The map of its root is the identity; walking from a node to
// an operand transforms the map, so that movement ops vanish into indices.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "ir/graph.h"

namespace tilewright {

// base + sum of coefficient * domain dim.
struct IndexExpr {
  Dim base;
  std::vector<std::pair<int, int64_t>> terms;  // (domain dim, coefficient), by domain dim

  static IndexExpr of_domain(int dim) { return {Dim(0), {{dim, 1}}}; }
  bool is_identity(int* dim) const;
  std::string to_string() const;
};

// Value dims [first, first + count), seen as one merged row-major dim.
struct Segment {
  int first = 0;
  int count = 1;
  IndexExpr expr;
};

struct IndexMap {
  std::vector<Segment> segments;  // cover the value's dims in order
  std::string to_string() const;
};

// The map of operand `operand` of `node`, given the map of the node's result; nothing when no affine map
// exists. For ops of kind Elementwise and Movement and for markers; others answer nothing.
std::optional<IndexMap> operand_map(const Graph& graph, const Node& node, int operand,
                                    const IndexMap& result_map);

// All maps by which a node reads an operand, with the index operands of gathers (one a component); empty: no
// affine map.
std::vector<IndexMap> operand_maps(const Graph& graph, const Node& node, int operand,
                                   const IndexMap& result_map);

// The map of `reshape`'s operand when it only splits operand dims or moves dims of size 1 (affine), else
// nothing.
std::optional<IndexMap> reshape_map(const Shape& from, const Shape& to, const IndexMap& result_map);

IndexMap identity_map(int rank);

}  // namespace tilewright
