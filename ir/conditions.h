// Conditions on dims that no range of the symbols decides: found by inference, checked when symbols are
// bound.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/dim.h"

namespace tilewright {

class Graph;

// lhs <= rhs.
struct DimCondition {
  Dim lhs, rhs;
  std::string where;  // "slice %2: limit of dim 0"
};

// Every condition of the graph's nodes, those inside expansions and regions too, each pair of dims once.
std::vector<DimCondition> find_conditions(const Graph& graph);

// The first condition that does not hold, as an invalid argument that names op, dims and values.
Status check_conditions(std::span<const DimCondition> conditions, const Bindings& bindings);

// Called by inference rules: lhs <= rhs must hold.  Noted while find_conditions runs on this thread, unless
// the ranges of the symbols decide it.
void require_at_most(const Dim& lhs, const Dim& rhs, std::span<const Symbol> symbols, std::string_view what,
                     int64_t dim);

}  // namespace tilewright
