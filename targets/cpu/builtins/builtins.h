// The builtins of CPUs, by name.
#pragma once

#include "base/builtin_call.h"
#include "base/status.h"

namespace tilewright::builtins {

Status run_sort(const BuiltinCall& call, ParallelFor parallel_for);
Status run_top_k(const BuiltinCall& call, ParallelFor parallel_for);
Status run_searchsorted(const BuiltinCall& call, ParallelFor parallel_for);
Status run_compact_indices(const BuiltinCall& call, ParallelFor parallel_for);

// Dispatches on call.name; an unknown name is NOT_FOUND.
Status run(const BuiltinCall& call, ParallelFor parallel_for);

}  // namespace tilewright::builtins
