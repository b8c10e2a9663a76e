// Which lowering takes a node that is not fusible.
#include "codegen/lower/program_builder.h"

namespace tilewright {

Result<bool> lower_node(ProgramBuilder& builder, NodeId node) {
  using Lowering = Result<bool> (*)(ProgramBuilder&, NodeId);
  static constexpr Lowering kLowerings[] = {
      &lower_contraction, &lower_convolution, &lower_ragged,    &lower_window,  &lower_scan_op,
      &lower_scatter,     &lower_sorting,     &lower_attention, &lower_control, &lower_concatenation};
  for (Lowering lowering : kLowerings) {
    TW_ASSIGN_OR_RETURN(bool taken, lowering(builder, node));
    if (taken) return true;
  }
  return false;
}

}  // namespace tilewright
