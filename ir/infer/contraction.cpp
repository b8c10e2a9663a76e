// Inference of contractions.
#include "ir/infer/checks.h"

namespace tilewright {

using namespace infer;

namespace {

Status check_pairs(const NodeView& view, const char* what, const Ints& lhs, const Ints& rhs) {
  if (lhs.size() != rhs.size()) {
    return Status::invalid(cat(what, " dims ", ints_text(lhs), " and ", ints_text(rhs), " differ in number"));
  }
  const TensorType &a = view.operand(0), &b = view.operand(1);
  for (size_t i = 0; i < lhs.size(); ++i) {
    if (a.shape[lhs[i]] == b.shape[rhs[i]]) continue;
    return Status::invalid(cat(what, " dim ", lhs[i], " of ", operand_text(view, 0), " and dim ", rhs[i],
                               " of ", operand_text(view, 1), " differ"));
  }
  return Status::ok();
}

DType product_type(DType dtype) {
  if (dtype == DType::I8 || dtype == DType::U8) return DType::I32;
  return is_float8(dtype) ? DType::F32 : dtype;
}

Result<DType> contraction_type(const NodeView& view) {
  AttributeReader attributes(view.op, view.attributes);
  DType dtype = view.operand(0).dtype;
  DType out = attributes.get_dtype("out_type", product_type(dtype));
  DType accumulate = attributes.get_dtype("accumulate_type", out);
  bool floats = is_float(product_type(dtype));
  if (is_float(out) != floats || (!floats && !is_integer(out))) {
    return Status::invalid(
        cat("out_type ", dtype_name(out), " does not fit operands of ", dtype_name(dtype)));
  }
  if (is_float(accumulate) != floats || (!floats && !is_integer(accumulate))) {
    return Status::invalid(
        cat("accumulate_type ", dtype_name(accumulate), " does not fit operands of ", dtype_name(dtype)));
  }
  return out;
}

Ints joined(const Ints& a, const Ints& b) {
  Ints all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

}  // namespace

Result<Types> infer_dot_general(const NodeView& view) {
  AttributeReader attributes(view.op, view.attributes);
  const TensorType &a = view.operand(0), &b = view.operand(1);
  const Ints &lhs_batch = attributes.get_ints("lhs_batch"), &rhs_batch = attributes.get_ints("rhs_batch");
  const Ints &lhs_contract = attributes.get_ints("lhs_contract"),
             &rhs_contract = attributes.get_ints("rhs_contract");
  Ints lhs_dims = joined(lhs_batch, lhs_contract), rhs_dims = joined(rhs_batch, rhs_contract);
  TW_RETURN_IF_ERROR(check_axes("dim of lhs", lhs_dims, a.rank()));
  TW_RETURN_IF_ERROR(check_axes("dim of rhs", rhs_dims, b.rank()));
  TW_RETURN_IF_ERROR(check_pairs(view, "batch", lhs_batch, rhs_batch));
  TW_RETURN_IF_ERROR(check_pairs(view, "contracted", lhs_contract, rhs_contract));
  TensorType type;
  TW_ASSIGN_OR_RETURN(type.dtype, contraction_type(view));
  for (int64_t dim : lhs_batch) type.shape.push_back(a.shape[dim]);
  for (const Dim& dim : without(a.shape, lhs_dims)) type.shape.push_back(dim);
  for (const Dim& dim : without(b.shape, rhs_dims)) type.shape.push_back(dim);
  return Types{type};
}

Result<Types> infer_ragged_dot(const NodeView& view) {
  const TensorType &lhs = view.operand(0), &rhs = view.operand(1), &sizes = view.operand(2);
  TW_RETURN_IF_ERROR(check_rank(view, 0, 2));
  TW_RETURN_IF_ERROR(check_rank(view, 1, 3));
  TW_RETURN_IF_ERROR(check_rank(view, 2, 1));
  if (lhs.shape[1] != rhs.shape[1]) {
    return Status::invalid(
        cat("contracted dims differ: ", operand_text(view, 0), " and ", operand_text(view, 1)));
  }
  if (sizes.shape[0] != rhs.shape[0]) {
    return Status::invalid(cat(operand_text(view, 2), " must have one entry for each of the ",
                               rhs.shape[0].to_string(), " groups of rhs"));
  }
  TW_ASSIGN_OR_RETURN(DType dtype, contraction_type(view));
  return Types{{dtype, {lhs.shape[0], rhs.shape[2]}}};
}

namespace {

// A permutation of 0..rank-1, identity when empty.
Result<Ints> dim_numbers(const NodeView& view, const char* name, int rank) {
  Ints dims = AttributeReader(view.op, view.attributes).get_ints(name);
  if (dims.empty()) {
    for (int i = 0; i < rank; ++i) dims.push_back(i);
  }
  TW_RETURN_IF_ERROR(check_count(name, dims.size(), rank));
  TW_RETURN_IF_ERROR(check_axes(name, dims, rank));
  return dims;
}

struct ConvolutionDims {
  Ints x, w, y;
};

Result<ConvolutionDims> convolution_dims(const NodeView& view, int rank) {
  ConvolutionDims dims;
  TW_ASSIGN_OR_RETURN(dims.x, dim_numbers(view, "x_dims", rank));
  TW_ASSIGN_OR_RETURN(dims.w, dim_numbers(view, "w_dims", rank));
  TW_ASSIGN_OR_RETURN(dims.y, dim_numbers(view, "y_dims", rank));
  return dims;
}

// Channels of x, w and their group counts agree.
Status check_groups(const NodeView& view, const ConvolutionDims& dims, int64_t feature_groups,
                    int64_t batch_groups) {
  const Shape &x = view.operand(0).shape, &w = view.operand(1).shape;
  if (feature_groups < 1 || batch_groups < 1) return Status::invalid("group counts must be at least 1");
  if (feature_groups > 1 && batch_groups > 1) {
    return Status::invalid("feature_groups and batch_groups cannot both exceed 1");
  }
  if (x[dims.x[1]] != w[dims.w[1]] * Dim(feature_groups)) {
    return Status::invalid(cat(operand_text(view, 0), " has ", x[dims.x[1]].to_string(),
                               " features, expected ", feature_groups, " groups of ",
                               w[dims.w[1]].to_string(), " as in ", operand_text(view, 1)));
  }
  if (!w[dims.w[0]].is_multiple_of(feature_groups) || !w[dims.w[0]].is_multiple_of(batch_groups)) {
    return Status::invalid(cat("output features of ", operand_text(view, 1), " must be a multiple of the ",
                               feature_groups * batch_groups, " groups"));
  }
  if (!x[dims.x[0]].is_multiple_of(batch_groups)) {
    return Status::invalid(cat("batch of ", operand_text(view, 0), " must be a multiple of the ",
                               batch_groups, " batch groups"));
  }
  return Status::ok();
}

}  // namespace

Result<Types> infer_convolution(const NodeView& view) {
  AttributeReader attributes(view.op, view.attributes);
  const TensorType &x = view.operand(0), &w = view.operand(1);
  int rank = x.rank();
  if (rank < 3 || rank > 5)
    return Status::invalid(cat(operand_text(view, 0), " must have 1 to 3 spatial dims"));
  TW_RETURN_IF_ERROR(check_rank(view, 1, rank));
  TW_ASSIGN_OR_RETURN(ConvolutionDims dims, convolution_dims(view, rank));
  int64_t feature_groups = attributes.get_int("feature_groups"),
          batch_groups = attributes.get_int("batch_groups");
  TW_RETURN_IF_ERROR(check_groups(view, dims, feature_groups, batch_groups));
  size_t spatial = rank - 2;
  TW_ASSIGN_OR_RETURN(Ints strides, per_dim(view, "strides", spatial, 1, 1));
  TW_ASSIGN_OR_RETURN(Ints lo, per_dim(view, "pad_lo", spatial, 0, INT64_MIN));
  TW_ASSIGN_OR_RETURN(Ints hi, per_dim(view, "pad_hi", spatial, 0, INT64_MIN));
  TW_ASSIGN_OR_RETURN(Ints base, per_dim(view, "lhs_dilation", spatial, 1, 1));
  TW_ASSIGN_OR_RETURN(Ints dilation, per_dim(view, "rhs_dilation", spatial, 1, 1));
  TensorType type{x.dtype, Shape(rank)};
  type.shape[dims.y[0]] = Dim::floor_div(x.shape[dims.x[0]], Dim(batch_groups));
  type.shape[dims.y[1]] = w.shape[dims.w[0]];
  for (size_t i = 0; i < spatial; ++i) {
    WindowDim dim{w.shape[dims.w[i + 2]], strides[i], Dim(lo[i]), Dim(hi[i]), base[i], dilation[i]};
    type.shape[dims.y[i + 2]] = window_output(x.shape[dims.x[i + 2]], dim, view.symbols);
  }
  TW_RETURN_IF_ERROR(check_shape("result", type.shape, view.symbols));
  return Types{type};
}

}  // namespace tilewright
