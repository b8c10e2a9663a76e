// Inference of sorting and selection.
#include "ir/infer/checks.h"

namespace tilewright {

using namespace infer;

Result<Types> infer_sort(const NodeView& view) {
  if (view.operands.empty()) return Status::invalid("at least one operand is needed");
  AttributeReader attributes(view.op, view.attributes);
  TW_RETURN_IF_ERROR(check_same_shapes(view));
  TW_RETURN_IF_ERROR(check_axis("dim", attributes.get_int("dim"), view.operand(0).rank()));
  int64_t keys = attributes.get_int("num_keys");
  if (keys < 1 || keys > static_cast<int64_t>(view.operands.size())) {
    return Status::invalid(cat("num_keys ", keys, " must be in 1..", view.operands.size()));
  }
  Types types;
  for (const TensorType* operand : view.operands) types.push_back(*operand);
  return types;
}

Result<Types> infer_top_k(const NodeView& view) {
  AttributeReader attributes(view.op, view.attributes);
  TensorType type = view.operand(0);
  int64_t dim = attributes.get_int("dim"), k = attributes.get_int("k");
  TW_RETURN_IF_ERROR(check_axis("dim", dim, type.rank()));
  DType index_type = attributes.get_dtype("index_type", DType::I64);
  TW_RETURN_IF_ERROR(check_index_type(index_type));
  if (k < 0 || surely_greater(Dim(k), type.shape[dim], view.symbols)) {
    return Status::invalid(cat("k ", k, " must be in 0..", type.shape[dim].to_string()));
  }
  require_at_most(Dim(k), type.shape[dim], view.symbols, "k along dim", dim);
  type.shape[dim] = Dim(k);
  return Types{type, {index_type, type.shape}};
}

Result<Types> infer_searchsorted(const NodeView& view) {
  const TensorType &sequence = view.operand(0), &values = view.operand(1);
  DType index_type = AttributeReader(view.op, view.attributes).get_dtype("index_type", DType::I64);
  TW_RETURN_IF_ERROR(check_index_type(index_type));
  if (sequence.rank() == 0) return Status::invalid(cat(operand_text(view, 0), " must have rank 1 or more"));
  if (sequence.rank() > 1) {
    TW_RETURN_IF_ERROR(check_rank(view, 1, sequence.rank()));
    int64_t last = sequence.rank() - 1;
    if (without(sequence.shape, {last}) != without(values.shape, {last})) {
      return Status::invalid(
          cat("leading dims differ: ", operand_text(view, 0), " and ", operand_text(view, 1)));
    }
  }
  return Types{{index_type, values.shape}};
}

Result<Types> infer_compact_indices(const NodeView& view) {
  AttributeReader attributes(view.op, view.attributes);
  int64_t bound = attributes.get_int("bound");
  DType index_type = attributes.get_dtype("index_type", DType::I64);
  TW_RETURN_IF_ERROR(check_index_type(index_type));
  if (bound < 0) return Status::invalid(cat("bound ", bound, " is negative"));
  return Types{{index_type, {Dim(bound)}}, {DType::I64, {}}};
}

}  // namespace tilewright
