// Checks and messages that inference rules share.
#include "ir/infer/checks.h"

#include <algorithm>

namespace tilewright::infer {

std::string operand_text(const NodeView& view, int index) {
  const OpInfo& info = op_info(view.op);
  const OperandInfo& operand = info.operand_at(index, static_cast<int>(view.operands.size()));
  int first =
      static_cast<int>(&operand - info.operands.data());  // the variadic operand's position in the schema
  std::string name = operand.variadic ? cat(operand.name, "[", index - first, "]") : operand.name;
  return cat(name, " ", view.operand(index).to_string());
}

std::string ints_text(const Ints& values) { return cat("[", join(values, ","), "]"); }

Status check_axis(const char* what, int64_t axis, int rank) {
  if (axis >= 0 && axis < rank) return Status::ok();
  return Status::invalid(cat(what, " ", axis, " out of range for rank ", rank));
}

Status check_axes(const char* what, const Ints& axes, int rank) {
  std::vector<bool> seen(rank, false);
  for (int64_t axis : axes) {
    TW_RETURN_IF_ERROR(check_axis(what, axis, rank));
    if (seen[axis]) return Status::invalid(cat(what, " ", axis, " occurs twice in ", ints_text(axes)));
    seen[axis] = true;
  }
  return Status::ok();
}

Status check_increasing(const char* what, const Ints& axes) {
  if (std::is_sorted(axes.begin(), axes.end())) return Status::ok();
  return Status::invalid(cat(what, " ", ints_text(axes), " must be increasing"));
}

Status check_count(const char* what, size_t found, size_t expected, const char* of) {
  if (found == expected) return Status::ok();
  return Status::invalid(cat(what, " has ", found, " entries for ", expected, " ", of));
}

Status check_rank(const NodeView& view, int index, int rank) {
  if (view.operand(index).rank() == rank) return Status::ok();
  return Status::invalid(cat(operand_text(view, index), " must have rank ", rank));
}

Status check_same_shapes(const NodeView& view) {
  for (int i = 1; i < static_cast<int>(view.operands.size()); ++i) {
    if (!view.has_operand(i)) continue;
    if (view.operand(i).shape != view.operand(0).shape) {
      return Status::invalid(cat("shapes differ: ", operand_text(view, 0), " and ", operand_text(view, i)));
    }
  }
  return Status::ok();
}

Status check_shape(const char* what, const Shape& shape, std::span<const Symbol> symbols) {
  for (size_t i = 0; i < shape.size(); ++i) {
    if (!shape[i].is_valid()) return Status::invalid(cat(what, ": dim ", i, " overflows 64 bits"));
    if (dim_range(shape[i], symbols).max < 0) {
      return Status::invalid(cat(what, " ", shape_to_string(shape), ": dim ", i, " is negative"));
    }
  }
  return Status::ok();
}

Status check_index_type(DType dtype) {
  if (dtype == DType::I32 || dtype == DType::I64) return Status::ok();
  return Status::invalid(cat("index_type ", dtype_name(dtype), " must be i32 or i64"));
}

bool surely_greater(const Dim& a, const Dim& b, std::span<const Symbol> symbols) {
  Dim difference = a - b;
  return difference.is_valid() && dim_range(difference, symbols).min > 0;
}

bool contains(const Ints& values, int64_t value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

Ints or_filled(const Ints& values, size_t count, int64_t fallback) {
  return values.empty() ? Ints(count, fallback) : values;
}

Result<Ints> per_dim(const NodeView& view, const char* name, size_t count, int64_t fallback, int64_t lowest) {
  Ints values = or_filled(AttributeReader(view.op, view.attributes).get_ints(name), count, fallback);
  TW_RETURN_IF_ERROR(check_count(name, values.size(), count));
  for (int64_t value : values) {
    if (value < lowest)
      return Status::invalid(cat(name, " ", ints_text(values), " must be at least ", lowest));
  }
  return values;
}

Shape without(const Shape& shape, const Ints& axes) {
  Shape kept;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (!contains(axes, static_cast<int64_t>(i))) kept.push_back(shape[i]);
  }
  return kept;
}

}  // namespace tilewright::infer
