// Expansion of composites into other ops: one function a row, and the pass-like entry that applies them.
#pragma once

#include <span>

#include "base/function_ref.h"
#include "ir/builder.h"
#include "ir/inference.h"

namespace tilewright {

// What an expansion sees.  It appends through `b` and puts one value a result into `results`.
struct Expansion {
  Builder& b;
  Op op;
  std::span<const ValueId> operands;  // invalid ids for absent ones
  AttributeReader attributes;
  std::vector<ValueId> results;

  bool has(int index) const {
    return index < static_cast<int>(operands.size()) && operands[index].is_valid();
  }
};

// expand_<name>: returns a status for bad arguments; builder errors are picked up by the caller.
#define OP(...)
#define COMPOSITE(name, ...) Status expand_##name(Expansion& e);
#include "ir/ops.def"
#undef OP
#undef COMPOSITE

// Expands one composite op over existing values of the builder's graph.
Result<std::vector<ValueId>> expand(Builder& builder, Op op, std::span<const ValueId> operands,
                                    const AttributeMap& attributes);

// The graph with every composite for which `wanted` says so replaced by its expansion (recursively), calls
// and `composite` markers inlined; names and outputs kept.
Result<Graph> expand_composites(const Graph& graph, FunctionRef<bool(const Graph&, const Node&)> wanted);
Result<Graph> expand_composites(const Graph& graph, bool (*wanted)(Op));

}  // namespace tilewright
