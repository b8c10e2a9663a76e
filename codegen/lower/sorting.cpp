// Lowering of sorting nodes: each is a builtin of the target.
#include "base/text.h"
#include "codegen/builtins.h"
#include "codegen/lower/program_builder.h"

namespace tilewright {

Result<bool> lower_sorting(ProgramBuilder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  const BuiltinInfo* builtin = builtin_for(node.op);
  if (!builtin || node.info().kind != OpKind::Sorting) return false;
  TW_RETURN_IF_ERROR(builder.launch_builtin(id, builtin->launch_name()));
  return true;
}

}  // namespace tilewright
