// Inference of collectives: an empty group or one rank gives the result of a single rank.
#include "ir/infer/checks.h"

namespace tilewright {

using namespace infer;

static int64_t group_size(const NodeView& view) {
  const Ints& group = AttributeReader(view.op, view.attributes).get_ints("group");
  return group.empty() ? 1 : static_cast<int64_t>(group.size());
}

static Status divide_dim(const NodeView& view, TensorType& type, int64_t dim) {
  int64_t ranks = group_size(view);
  if (!type.shape[dim].is_multiple_of(ranks)) {
    return Status::invalid(cat("dim ", dim, " of ", operand_text(view, 0), " must be a multiple of the ",
                               ranks, " ranks of the group"));
  }
  type.shape[dim] = Dim::floor_div(type.shape[dim], Dim(ranks));
  return Status::ok();
}

Result<Types> infer_reduce_scatter(const NodeView& view) {
  TensorType type = view.operand(0);
  int64_t dim = AttributeReader(view.op, view.attributes).get_int("dim");
  TW_RETURN_IF_ERROR(check_axis("dim", dim, type.rank()));
  TW_RETURN_IF_ERROR(divide_dim(view, type, dim));
  return Types{type};
}

Result<Types> infer_all_gather(const NodeView& view) {
  TensorType type = view.operand(0);
  int64_t dim = AttributeReader(view.op, view.attributes).get_int("dim");
  TW_RETURN_IF_ERROR(check_axis("dim", dim, type.rank()));
  type.shape[dim] = type.shape[dim] * Dim(group_size(view));
  TW_RETURN_IF_ERROR(check_shape("result", type.shape, view.symbols));
  return Types{type};
}

Result<Types> infer_all_to_all(const NodeView& view) {
  AttributeReader attributes(view.op, view.attributes);
  TensorType type = view.operand(0);
  int64_t split = attributes.get_int("split_dim"), concat = attributes.get_int("concat_dim");
  TW_RETURN_IF_ERROR(check_axis("split_dim", split, type.rank()));
  TW_RETURN_IF_ERROR(check_axis("concat_dim", concat, type.rank()));
  TW_RETURN_IF_ERROR(divide_dim(view, type, split));
  type.shape[concat] = type.shape[concat] * Dim(group_size(view));
  return Types{type};
}

Result<Types> infer_collective_permute(const NodeView& view) {
  const Ints& pairs = AttributeReader(view.op, view.attributes).get_ints("pairs");
  if (pairs.size() % 2 != 0) {
    return Status::invalid(cat("pairs has ", pairs.size(), " entries, expected a source and a target each"));
  }
  int64_t ranks = group_size(view);
  for (int64_t rank : pairs) {
    if (rank < 0 || rank >= ranks) return Status::invalid(cat("pairs names rank ", rank, " of ", ranks));
  }
  return Types{view.operand(0)};
}

Result<Types> infer_rank_id(const NodeView&) { return Types{{DType::I64, {}}}; }

}  // namespace tilewright
