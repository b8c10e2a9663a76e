// Inference of shape ops.
#include "ir/infer/checks.h"

namespace tilewright {

using namespace infer;

namespace {

// Replaces the one -1 of `shape` by what the element count leaves.
Status solve_inferred_dim(const Dim& elements, Shape& shape) {
  int inferred = -1;
  Dim rest(1);
  for (size_t i = 0; i < shape.size(); ++i) {
    if (!shape[i].is_constant(-1)) {
      rest = rest * shape[i];
    } else if (inferred >= 0) {
      return Status::invalid(cat("shape ", shape_to_string(shape), " has more than one inferred dim"));
    } else {
      inferred = static_cast<int>(i);
    }
  }
  if (inferred < 0) return Status::ok();
  if (rest.is_constant(0))
    return Status::invalid(cat("inferred dim of ", shape_to_string(shape), " is ambiguous"));
  Dim size = Dim::floor_div(elements, rest);
  if (size * rest != elements) {
    return Status::invalid(cat("no size for the inferred dim of ", shape_to_string(shape), ": ",
                               elements.to_string(), " elements"));
  }
  shape[inferred] = size;
  return Status::ok();
}

}  // namespace

Result<Types> infer_reshape(const NodeView& view) {
  TensorType type{view.operand(0).dtype, AttributeReader(view.op, view.attributes).get_dims("shape")};
  Dim elements = view.operand(0).elements();
  if (!elements.is_valid())
    return Status::invalid(cat("element count of ", operand_text(view, 0), " overflows"));
  TW_RETURN_IF_ERROR(solve_inferred_dim(elements, type.shape));
  TW_RETURN_IF_ERROR(check_shape("shape", type.shape, view.symbols));
  if (type.elements() != elements) {
    return Status::invalid(cat("shape ", shape_to_string(type.shape), " has ", type.elements().to_string(),
                               " elements, ", operand_text(view, 0), " has ", elements.to_string()));
  }
  return Types{type};
}

Result<Types> infer_broadcast_in_dim(const NodeView& view) {
  AttributeReader attributes(view.op, view.attributes);
  const TensorType& x = view.operand(0);
  TensorType type{x.dtype, attributes.get_dims("shape")};
  const Ints& dims = attributes.get_ints("dims");
  TW_RETURN_IF_ERROR(check_shape("shape", type.shape, view.symbols));
  TW_RETURN_IF_ERROR(check_count("dims", dims.size(), x.shape.size()));
  TW_RETURN_IF_ERROR(check_axes("dims", dims, type.rank()));
  for (int i = 0; i < x.rank(); ++i) {
    if (x.shape[i] == type.shape[dims[i]] || x.shape[i].is_constant(1)) continue;
    return Status::invalid(cat("dim ", i, " of ", operand_text(view, 0), " must be 1 or ",
                               type.shape[dims[i]].to_string(), ", the size of result dim ", dims[i]));
  }
  return Types{type};
}

Result<Types> infer_transpose(const NodeView& view) {
  const TensorType& x = view.operand(0);
  const Ints& perm = AttributeReader(view.op, view.attributes).get_ints("perm");
  TW_RETURN_IF_ERROR(check_count("perm", perm.size(), x.shape.size()));
  TW_RETURN_IF_ERROR(check_axes("perm", perm, x.rank()));
  TensorType type{x.dtype, {}};
  for (int64_t dim : perm) type.shape.push_back(x.shape[dim]);
  return Types{type};
}

Result<Types> infer_slice(const NodeView& view) {
  AttributeReader attributes(view.op, view.attributes);
  const TensorType& x = view.operand(0);
  const Shape &start = attributes.get_dims("start"), &limit = attributes.get_dims("limit");
  TW_RETURN_IF_ERROR(check_count("start", start.size(), x.shape.size()));
  TW_RETURN_IF_ERROR(check_count("limit", limit.size(), x.shape.size()));
  TW_ASSIGN_OR_RETURN(Ints stride, per_dim(view, "stride", x.shape.size(), 1, 1));
  TensorType type{x.dtype, {}};
  for (int i = 0; i < x.rank(); ++i) {
    bool valid = start[i].is_valid() && limit[i].is_valid();
    if (!valid || dim_range(start[i], view.symbols).max < 0 ||
        surely_greater(start[i], limit[i], view.symbols) ||
        surely_greater(limit[i], x.shape[i], view.symbols)) {
      return Status::invalid(cat("start ", start[i].to_string(), " and limit ", limit[i].to_string(),
                                 " of dim ", i, " must be in order within 0..", x.shape[i].to_string()));
    }
    require_at_most(Dim(0), start[i], view.symbols, "start of dim", i);
    require_at_most(start[i], limit[i], view.symbols, "start of dim", i);
    require_at_most(limit[i], x.shape[i], view.symbols, "limit of dim", i);
    type.shape.push_back(Dim::ceil_div(limit[i] - start[i], Dim(stride[i])));
  }
  return Types{type};
}

Result<Types> infer_pad(const NodeView& view) {
  AttributeReader attributes(view.op, view.attributes);
  const TensorType& x = view.operand(0);
  const Shape &lo = attributes.get_dims("lo"), &hi = attributes.get_dims("hi");
  TW_RETURN_IF_ERROR(check_rank(view, 1, 0));
  TW_RETURN_IF_ERROR(check_count("lo", lo.size(), x.shape.size()));
  TW_RETURN_IF_ERROR(check_count("hi", hi.size(), x.shape.size()));
  TW_ASSIGN_OR_RETURN(Ints interior, per_dim(view, "interior", x.shape.size(), 0, 0));
  TensorType type{x.dtype, {}};
  constexpr int64_t kFar = int64_t{1} << 62;
  for (int i = 0; i < x.rank(); ++i) {
    auto is_far = [](const Dim& dim) {
      return dim.is_constant() && (dim.constant() <= -kFar || dim.constant() >= kFar);
    };
    if (interior[i] >= kFar || is_far(lo[i]) || is_far(hi[i]))
      return Status::invalid(cat("lo ", lo[i].to_string(), ", hi ", hi[i].to_string(), " and interior ",
                                 interior[i], " of dim ", i, " reach beyond 62 bits"));
    Dim size = lo[i] + hi[i] + dilated_size(x.shape[i], interior[i] + 1, view.symbols);
    if (!size.is_valid() || dim_range(size, view.symbols).max < 0) {
      return Status::invalid(cat("lo ", lo[i].to_string(), " and hi ", hi[i].to_string(), " of dim ", i,
                                 " cut more than there is in ", operand_text(view, 0)));
    }
    type.shape.push_back(size);
  }
  return Types{type};
}

Result<Types> infer_concatenate(const NodeView& view) {
  if (view.operands.empty()) return Status::invalid("at least one operand is needed");
  int64_t dim = AttributeReader(view.op, view.attributes).get_int("dim");
  TensorType type = view.operand(0);
  TW_RETURN_IF_ERROR(check_axis("dim", dim, type.rank()));
  for (int i = 1; i < static_cast<int>(view.operands.size()); ++i) {
    const TensorType& x = view.operand(i);
    TW_RETURN_IF_ERROR(check_rank(view, i, type.rank()));
    if (without(x.shape, {dim}) != without(type.shape, {dim})) {
      return Status::invalid(cat("shapes differ outside dim ", dim, ": ", operand_text(view, 0), " and ",
                                 operand_text(view, i)));
    }
    type.shape[dim] = type.shape[dim] + x.shape[dim];
  }
  if (!type.shape[dim].is_valid()) return Status::invalid(cat("size of dim ", dim, " overflows 64 bits"));
  return Types{type};
}

Result<Types> infer_reverse(const NodeView& view) {
  TW_RETURN_IF_ERROR(
      check_axes("dims", AttributeReader(view.op, view.attributes).get_ints("dims"), view.operand(0).rank()));
  return Types{view.operand(0)};
}

static Status check_starts(const NodeView& view, int first) {
  TW_RETURN_IF_ERROR(
      check_count("starts", view.operands.size() - first, view.operand(0).shape.size(), "dims of x"));
  for (int i = first; i < static_cast<int>(view.operands.size()); ++i)
    TW_RETURN_IF_ERROR(check_rank(view, i, 0));
  return Status::ok();
}

Result<Types> infer_dynamic_slice(const NodeView& view) {
  const TensorType& x = view.operand(0);
  TW_RETURN_IF_ERROR(check_starts(view, 1));
  const Shape& sizes = AttributeReader(view.op, view.attributes).get_dims("sizes");
  TW_RETURN_IF_ERROR(check_count("sizes", sizes.size(), x.shape.size()));
  TW_RETURN_IF_ERROR(check_shape("sizes", sizes, view.symbols));
  for (int i = 0; i < x.rank(); ++i) {
    if (surely_greater(sizes[i], x.shape[i], view.symbols)) {
      return Status::invalid(
          cat("size ", sizes[i].to_string(), " of dim ", i, " exceeds ", operand_text(view, 0)));
    }
    require_at_most(sizes[i], x.shape[i], view.symbols, "size of dim", i);
  }
  return Types{{x.dtype, sizes}};
}

Result<Types> infer_dynamic_update_slice(const NodeView& view) {
  const TensorType &x = view.operand(0), &update = view.operand(1);
  TW_RETURN_IF_ERROR(check_starts(view, 2));
  TW_RETURN_IF_ERROR(check_rank(view, 1, x.rank()));
  for (int i = 0; i < x.rank(); ++i) {
    if (surely_greater(update.shape[i], x.shape[i], view.symbols)) {
      return Status::invalid(
          cat("dim ", i, " of ", operand_text(view, 1), " exceeds ", operand_text(view, 0)));
    }
    require_at_most(update.shape[i], x.shape[i], view.symbols, "size of update in dim", i);
  }
  return Types{x};
}

}  // namespace tilewright
