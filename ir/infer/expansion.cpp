// Inference of composites by their expansion: built in a scratch graph whose result types are taken.
#include "ir/infer/checks.h"

#include "ir/expansion.h"

namespace tilewright {

Result<Types> infer_expansion(const NodeView& view) {
  Graph scratch;
  scratch.symbols.assign(view.symbols.begin(), view.symbols.end());
  std::vector<ValueId> operands;
  for (const TensorType* type : view.operands) {
    operands.push_back(type ? scratch.add_input({}, *type) : ValueId{});
  }
  Builder builder(scratch);
  TW_ASSIGN_OR_RETURN(std::vector<ValueId> results, expand(builder, view.op, operands, view.attributes));
  TW_RETURN_IF_ERROR(builder.status());
  Types types;
  for (ValueId result : results) types.push_back(scratch.type(result));
  return types;
}

}  // namespace tilewright
