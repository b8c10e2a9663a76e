// The table of builtins, and how the arguments of a builtin launch follow from its node.
#pragma once

#include <span>
#include <string>

#include "base/builtin_call.h"
#include "ir/graph.h"

namespace tilewright {

struct BuiltinInfo {
  const char* name;  // "sort"
  int version;
  Op op;
  const char* summary;
  std::string launch_name() const;  // "sort@1"
};
std::span<const BuiltinInfo> all_builtins();
// The builtin that computes an op, or null.
const BuiltinInfo* builtin_for(Op op);

// Arguments for Target::run_builtin.  `launch_name` is Launch::builtin, `node` Launch::node (a graph of one
// node), `buffers` the data of its operands, then results, dense row-major.
Result<BuiltinCall> make_builtin_call(std::string_view launch_name, const Graph& node,
                                      const Bindings& bindings, std::span<void* const> buffers);

}  // namespace tilewright
