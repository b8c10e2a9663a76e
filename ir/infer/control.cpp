// Inference of structured control, markers and calls.
#include <algorithm>

#include "ir/infer/checks.h"

namespace tilewright {

using namespace infer;

namespace {

Types operand_types(const NodeView& view, size_t first = 0) {
  Types types;
  for (size_t i = first; i < view.operands.size(); ++i) types.push_back(*view.operands[i]);
  return types;
}

Types output_types(const Graph& region) {
  Types types;
  for (const Output& output : region.outputs) types.push_back(region.type(output.value));
  return types;
}

std::string types_text(const Types& types) {
  return cat("(", join(types, ", ", [](const TensorType& type) { return type.to_string(); }), ")");
}

Status check_inputs(const NodeView& view, size_t region, const Types& expected) {
  if (!view.regions[region]) return Status::invalid(cat("region ", region, " is missing"));
  Types found;
  for (const Input& input : view.regions[region]->inputs)
    found.push_back(view.regions[region]->type(input.value));
  if (found == expected) return Status::ok();
  return Status::invalid(
      cat("region ", region, " takes ", types_text(found), ", expected ", types_text(expected)));
}

Status check_outputs(const NodeView& view, size_t region, const Types& expected) {
  Types found = output_types(*view.regions[region]);
  if (found == expected) return Status::ok();
  return Status::invalid(
      cat("region ", region, " returns ", types_text(found), ", expected ", types_text(expected)));
}

}  // namespace

Result<Types> infer_while(const NodeView& view) {
  Types carried = operand_types(view);
  TW_RETURN_IF_ERROR(check_inputs(view, 0, carried));
  TW_RETURN_IF_ERROR(check_inputs(view, 1, carried));
  TW_RETURN_IF_ERROR(check_outputs(view, 0, {TensorType{DType::Bool, {}}}));
  TW_RETURN_IF_ERROR(check_outputs(view, 1, carried));
  return carried;
}

Result<Types> infer_case(const NodeView& view) {
  TW_RETURN_IF_ERROR(check_rank(view, 0, 0));
  Types operands = operand_types(view, 1);
  for (size_t i = 0; i < view.regions.size(); ++i) {
    TW_RETURN_IF_ERROR(check_inputs(view, i, operands));
    TW_RETURN_IF_ERROR(check_outputs(view, i, output_types(*view.regions[0])));
  }
  return output_types(*view.regions[0]);
}

Result<Types> infer_scan(const NodeView& view) {
  AttributeReader attributes(view.op, view.attributes);
  const Shape& length = attributes.get_dims("length");
  TW_RETURN_IF_ERROR(check_count("length", length.size(), 1));
  TW_RETURN_IF_ERROR(check_shape("length", length, view.symbols));
  int64_t carries = attributes.get_int("carries");
  if (carries < 0 || carries > static_cast<int64_t>(view.operands.size())) {
    return Status::invalid(cat("carries ", carries, " must be in 0..", view.operands.size()));
  }
  Types inputs;
  for (int i = 0; i < static_cast<int>(view.operands.size()); ++i) {
    TensorType type = view.operand(i);
    if (i >= carries) {
      if (type.rank() == 0 || type.shape[0] != length[0]) {
        return Status::invalid(cat(operand_text(view, i), " must have leading dim ", length[0].to_string()));
      }
      type.shape.erase(type.shape.begin());
    }
    inputs.push_back(std::move(type));
  }
  TW_RETURN_IF_ERROR(check_inputs(view, 0, inputs));
  Types results = output_types(*view.regions[0]);
  if (static_cast<int64_t>(results.size()) < carries ||
      !std::equal(inputs.begin(), inputs.begin() + carries, results.begin())) {
    return Status::invalid(cat("region returns ", types_text(results),
                               ", expected it to begin with the carries ",
                               types_text(Types(inputs.begin(), inputs.begin() + carries))));
  }
  for (size_t i = carries; i < results.size(); ++i) {
    results[i].shape.insert(results[i].shape.begin(), length[0]);
  }
  return results;
}

Result<Types> infer_call(const NodeView& view) {
  TW_RETURN_IF_ERROR(check_inputs(view, 0, operand_types(view)));
  return output_types(*view.regions[0]);
}

Result<Types> infer_identity(const NodeView& view) { return operand_types(view); }

Result<Types> infer_custom_call(const NodeView& view) {
  const Types& types = AttributeReader(view.op, view.attributes).get_types("result_types");
  for (const TensorType& type : types)
    TW_RETURN_IF_ERROR(check_shape("result_types", type.shape, view.symbols));
  return types;
}

Result<Types> infer_assert(const NodeView&) { return Types{}; }

}  // namespace tilewright
