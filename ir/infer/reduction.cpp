// Inference of reductions, scans and windows.
#include "ir/infer/checks.h"

namespace tilewright {

using namespace infer;

Result<Types> infer_reduce(const NodeView& view) {
  AttributeReader attributes(view.op, view.attributes);
  const TensorType& x = view.operand(0);
  const Ints& dims = attributes.get_ints("dims");
  TW_RETURN_IF_ERROR(check_axes("axis", dims, x.rank()));
  TensorType type = x;
  if (attributes.get_bool("keepdims")) {
    for (int64_t dim : dims) type.shape[dim] = Dim(1);
  } else {
    type.shape = without(x.shape, dims);
  }
  type.dtype = attributes.get_dtype("out_type", x.dtype);
  DType accumulate = attributes.get_dtype("accumulate_type", type.dtype);
  for (DType dtype : {type.dtype, accumulate}) {
    if (is_float(dtype) != is_float(x.dtype) ||
        (!is_float(dtype) && !is_integer(dtype) && dtype != x.dtype)) {
      return Status::invalid(cat("out_type and accumulate_type of ", operand_text(view, 0), " must be ",
                                 is_float(x.dtype) ? "float" : "integer", " types, not ", dtype_name(dtype)));
    }
  }
  return Types{type};
}

Result<Types> infer_argreduce(const NodeView& view) {
  AttributeReader attributes(view.op, view.attributes);
  const TensorType& x = view.operand(0);
  int64_t dim = attributes.get_int("dim");
  TW_RETURN_IF_ERROR(check_axis("axis", dim, x.rank()));
  if (dim_range(x.shape[dim], view.symbols).max <= 0) {
    return Status::invalid(cat("axis ", dim, " of ", operand_text(view, 0), " is empty"));
  }
  require_at_most(Dim(1), x.shape[dim], view.symbols, "least size of axis", dim);
  TensorType type{attributes.get_dtype("index_type", DType::I64), without(x.shape, {dim})};
  TW_RETURN_IF_ERROR(check_index_type(type.dtype));
  if (attributes.get_bool("keepdims")) {
    type.shape = x.shape;
    type.shape[dim] = Dim(1);
  }
  return Types{type};
}

Result<Types> infer_same_dim(const NodeView& view) {
  TW_RETURN_IF_ERROR(check_same_shapes(view));
  TW_RETURN_IF_ERROR(
      check_axis("dim", AttributeReader(view.op, view.attributes).get_int("dim"), view.operand(0).rank()));
  return Types{view.operand(0)};
}

Result<Types> infer_cumulative_extreme(const NodeView& view) {
  TW_ASSIGN_OR_RETURN(Types types, infer_same_dim(view));
  types.push_back({DType::I64, view.operand(0).shape});
  return types;
}

Result<Types> infer_linear_recurrence(const NodeView& view) {
  const TensorType &a = view.operand(0), &b = view.operand(1);
  int64_t dim = AttributeReader(view.op, view.attributes).get_int("dim");
  if (a.shape != b.shape) {
    return Status::invalid(cat("shapes differ: ", operand_text(view, 0), " and ", operand_text(view, 1)));
  }
  TW_RETURN_IF_ERROR(check_axis("dim", dim, a.rank()));
  if (view.has_operand(2) && view.operand(2).shape != without(a.shape, {dim})) {
    return Status::invalid(
        cat(operand_text(view, 2), " must have shape ", shape_to_string(without(a.shape, {dim}))));
  }
  return Types{a};
}

// The windows over `shape`; base dilation only where the op has it.
static Result<Shape> window_shape(const NodeView& view, const Shape& shape) {
  size_t rank = shape.size();
  const Ints& window = AttributeReader(view.op, view.attributes).get_ints("window");
  TW_RETURN_IF_ERROR(check_count("window", window.size(), rank));
  for (int64_t size : window) {
    if (size < 1) return Status::invalid(cat("window ", ints_text(window), " must be at least 1"));
  }
  TW_ASSIGN_OR_RETURN(Ints strides, per_dim(view, "strides", rank, 1, 1));
  TW_ASSIGN_OR_RETURN(Ints dilation, per_dim(view, "dilation", rank, 1, 1));
  TW_ASSIGN_OR_RETURN(Ints lo, per_dim(view, "pad_lo", rank, 0, INT64_MIN));
  TW_ASSIGN_OR_RETURN(Ints hi, per_dim(view, "pad_hi", rank, 0, INT64_MIN));
  Ints base(rank, 1);
  if (op_info(view.op).attribute("base_dilation")) {
    TW_ASSIGN_OR_RETURN(base, per_dim(view, "base_dilation", rank, 1, 1));
  }
  Shape windows;
  for (size_t i = 0; i < rank; ++i) {
    WindowDim dim{Dim(window[i]), strides[i], Dim(lo[i]), Dim(hi[i]), base[i], dilation[i]};
    windows.push_back(window_output(shape[i], dim, view.symbols));
  }
  TW_RETURN_IF_ERROR(check_shape("windows", windows, view.symbols));
  return windows;
}

Result<Types> infer_reduce_window(const NodeView& view) {
  TW_ASSIGN_OR_RETURN(Shape windows, window_shape(view, view.operand(0).shape));
  return Types{{view.operand(0).dtype, windows}};
}

Result<Types> infer_select_and_scatter(const NodeView& view) {
  TW_ASSIGN_OR_RETURN(Shape windows, window_shape(view, view.operand(0).shape));
  if (view.operand(1).shape != windows) {
    return Status::invalid(
        cat(operand_text(view, 1), " must have shape ", shape_to_string(windows), ", one element a window"));
  }
  return Types{view.operand(0)};
}

}  // namespace tilewright
