// Inference of elementwise ops, conversions and sources of values.
#include "ir/infer/checks.h"

namespace tilewright {

using namespace infer;

Result<Types> infer_same(const NodeView& view) {
  TW_RETURN_IF_ERROR(check_same_shapes(view));
  return Types{view.operand(0)};
}

Result<Types> infer_reduce_precision(const NodeView& view) {
  AttributeReader attributes(view.op, view.attributes);
  int64_t exponent = attributes.get_int("exponent_bits"), mantissa = attributes.get_int("mantissa_bits");
  if (exponent < 1 || exponent > 11)
    return Status::invalid(cat("exponent_bits ", exponent, " must be in 1..11"));
  if (mantissa < 0 || mantissa > 52)
    return Status::invalid(cat("mantissa_bits ", mantissa, " must be in 0..52"));
  return Types{view.operand(0)};
}

Result<Types> infer_same_bool(const NodeView& view) {
  TW_RETURN_IF_ERROR(check_same_shapes(view));
  AttributeReader attributes(view.op, view.attributes);
  DType dtype = view.operand(0).dtype;
  if (attributes.has("order")) {
    const std::string& order = attributes.get_string("order");
    bool fits = order == "SIGNED"     ? is_signed_integer(dtype)
                : order == "UNSIGNED" ? is_unsigned_integer(dtype) || dtype == DType::Bool
                                      : is_float(dtype);
    if (!fits) return Status::invalid(cat("order ", order, " does not fit ", dtype_name(dtype)));
  }
  return Types{{DType::Bool, view.operand(0).shape}};
}

Result<Types> infer_select(const NodeView& view) {
  const TensorType &pred = view.operand(0), &on_true = view.operand(1), &on_false = view.operand(2);
  if (on_true.shape != on_false.shape) {
    return Status::invalid(cat("shapes differ: ", operand_text(view, 1), " and ", operand_text(view, 2)));
  }
  if (pred.rank() != 0 && pred.shape != on_true.shape) {
    return Status::invalid(
        cat(operand_text(view, 0), " must be 0-d or have the shape of ", operand_text(view, 1)));
  }
  return Types{on_true};
}

Result<Types> infer_clamp(const NodeView& view) {
  for (int bound : {0, 2}) {
    if (view.operand(bound).rank() != 0 && view.operand(bound).shape != view.operand(1).shape) {
      return Status::invalid(
          cat(operand_text(view, bound), " must be 0-d or have the shape of ", operand_text(view, 1)));
    }
  }
  return Types{view.operand(1)};
}

Result<Types> infer_convert(const NodeView& view) {
  return Types{
      {AttributeReader(view.op, view.attributes).get_dtype("dtype", DType::F32), view.operand(0).shape}};
}

Result<Types> infer_bitcast_convert(const NodeView& view) {
  TensorType type = view.operand(0);
  DType to = AttributeReader(view.op, view.attributes).get_dtype("dtype", type.dtype);
  if ((to == DType::Bool) != (type.dtype == DType::Bool)) {
    return Status::invalid(cat("no bitcast between ", dtype_name(type.dtype), " and ", dtype_name(to)));
  }
  int64_t from_bytes = dtype_bytes(type.dtype), to_bytes = dtype_bytes(to);
  if (from_bytes > to_bytes) {
    type.shape.push_back(Dim(from_bytes / to_bytes));
  } else if (from_bytes < to_bytes) {
    int64_t ratio = to_bytes / from_bytes;
    if (type.rank() == 0 || !type.shape.back().is_constant(ratio)) {
      return Status::invalid(
          cat(operand_text(view, 0), " must have ", ratio, " elements in the last dim for ", dtype_name(to)));
    }
    type.shape.pop_back();
  }
  type.dtype = to;
  return Types{type};
}

Result<Types> infer_same_matrix(const NodeView& view) {
  if (view.operand(0).rank() < 2)
    return Status::invalid(cat(operand_text(view, 0), " must have rank 2 or more"));
  return Types{view.operand(0)};
}

Result<Types> infer_convert_optional(const NodeView& view) {
  TW_RETURN_IF_ERROR(check_same_shapes(view));
  AttributeReader attributes(view.op, view.attributes);
  const TensorType& x = view.operand(0);
  TW_RETURN_IF_ERROR(check_axis("dim", attributes.get_int("dim"), x.rank()));
  DType dtype = attributes.get_dtype("out_type", x.dtype);
  if (!is_float(dtype)) return Status::invalid(cat("out_type ", dtype_name(dtype), " must be a float type"));
  return Types{{dtype, x.shape}};
}

// ---- sources
// -------------------------------------------------------------------------------------------------------

Result<Types> infer_constant(const NodeView& view) {
  ConstantRef constant = AttributeReader(view.op, view.attributes).get_constant("value");
  if (!constant) return Status::invalid("constant without a value");
  TW_RETURN_IF_ERROR(check_shape("value", constant->type.shape, view.symbols));
  return Types{constant->type};
}

Result<Types> infer_iota(const NodeView& view) {
  AttributeReader attributes(view.op, view.attributes);
  TensorType type{attributes.get_dtype("dtype", DType::I64), attributes.get_dims("shape")};
  if (!is_integer(type.dtype) && !is_float(type.dtype)) {
    return Status::invalid(cat("dtype ", dtype_name(type.dtype), " must be an integer or float type"));
  }
  TW_RETURN_IF_ERROR(check_shape("shape", type.shape, view.symbols));
  TW_RETURN_IF_ERROR(check_axis("dim", attributes.get_int("dim"), type.rank()));
  return Types{type};
}

Result<Types> infer_filled(const NodeView& view) {
  AttributeReader attributes(view.op, view.attributes);
  TensorType type{attributes.get_dtype("dtype", DType::F32), attributes.get_dims("shape")};
  TW_RETURN_IF_ERROR(check_shape("shape", type.shape, view.symbols));
  return Types{type};
}

Result<Types> infer_rng_bit_generator(const NodeView& view) {
  AttributeReader attributes(view.op, view.attributes);
  int64_t bits = attributes.get_int("bits");
  if (bits != 32 && bits != 64) return Status::invalid(cat("bits ", bits, " must be 32 or 64"));
  bool philox = attributes.get_string("algorithm") == "philox4x32_10";
  TensorType state = philox ? TensorType{DType::U64, {Dim(2)}} : TensorType{DType::U32, {Dim(625)}};
  if (view.operand(0) != state) {
    return Status::invalid(cat(operand_text(view, 0), " must be ", state.to_string(), " for ",
                               attributes.get_string("algorithm")));
  }
  const Shape& shape = attributes.get_dims("shape");
  TW_RETURN_IF_ERROR(check_shape("shape", shape, view.symbols));
  return Types{state, {bits == 32 ? DType::U32 : DType::U64, shape}};
}

Result<Types> infer_dim_size(const NodeView& view) {
  TW_RETURN_IF_ERROR(
      check_axis("dim", AttributeReader(view.op, view.attributes).get_int("dim"), view.operand(0).rank()));
  return Types{{DType::I64, {}}};
}

}  // namespace tilewright
