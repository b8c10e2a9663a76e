// The table from names to the builtins of CPUs.
#include "targets/cpu/builtins/builtins.h"

#include <new>

#include "base/text.h"

namespace tilewright::builtins {

namespace {

struct Row {
  std::string_view name;
  Status (*run)(const BuiltinCall&, ParallelFor);
  size_t inputs;  // at least
  size_t outputs;
};

constexpr Row kRows[] = {
    {"sort@1", &run_sort, 1, 1},
    {"top_k@1", &run_top_k, 1, 2},
    {"searchsorted@1", &run_searchsorted, 2, 1},
    {"compact_indices@1", &run_compact_indices, 1, 2},
};

}  // namespace

Status run(const BuiltinCall& call, ParallelFor parallel_for) {
  for (const Row& row : kRows) {
    if (row.name != call.name) continue;
    if (call.inputs.size() < row.inputs || call.outputs.size() < row.outputs) {
      return Status::invalid(cat(call.name, ": ", call.inputs.size(), " inputs and ", call.outputs.size(),
                                 " outputs, expected at least ", row.inputs, " and ", row.outputs));
    }
    try {
      return row.run(call, parallel_for);
    } catch (const std::bad_alloc&) {
      return Status::exhausted(cat(call.name, ": no memory for scratch"));
    }
  }
  return Status::not_found(cat("this target has no builtin ", call.name));
}

}  // namespace tilewright::builtins
