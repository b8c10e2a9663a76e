// Builder conveniences: each is one or two appended nodes.
#include "ir/builder.h"

#include <algorithm>

#include "base/text.h"

namespace tilewright {

const TensorType& Builder::type(ValueId value) const {
  static const auto* none = new TensorType;
  return value.is_valid() && value.index < graph_.value_count() ? graph_.type(value) : *none;
}

std::vector<ValueId> Builder::emit_all(Op op, std::vector<ValueId> operands, AttributeMap attributes,
                                       std::vector<RegionRef> regions) {
  if (status_.is_ok()) {
    Result<NodeId> node =
        graph_.append(op, std::move(operands), std::move(attributes), std::move(regions), tag_);
    if (node.is_ok()) return graph_.node(*node).results;
    fail(node.status());
  }
  const OpInfo& info = op_info(op);
  return std::vector<ValueId>(std::max<size_t>(info.results.size(), 1));
}

ValueId Builder::emit(Op op, std::vector<ValueId> operands, AttributeMap attributes,
                      std::vector<RegionRef> regions) {
  std::vector<ValueId> results = emit_all(op, std::move(operands), std::move(attributes), std::move(regions));
  return results.empty() ? ValueId{} : results[0];
}

ValueId Builder::constant(double value, DType dtype, Shape shape) {
  return emit(Op::Constant, {}, {{"value", make_splat(value, dtype, std::move(shape))}});
}
ValueId Builder::integer(int64_t value, DType dtype, Shape shape) {
  return emit(Op::Constant, {}, {{"value", make_integer_splat(value, dtype, std::move(shape))}});
}
ValueId Builder::constant_like(double value, ValueId like) {
  return constant(value, dtype(like), shape(like));
}

ValueId Builder::iota(Shape shape, int64_t dim, DType dtype) {
  return emit(Op::Iota, {}, {{"shape", std::move(shape)}, {"dim", dim}, {"dtype", dtype}});
}

ValueId Builder::compare(ValueId a, ValueId b, const char* direction) {
  return emit(Op::Compare, {a, b}, {{"direction", std::string(direction)}});
}

ValueId Builder::convert(ValueId a, DType to) {
  if (a.is_valid() && dtype(a) == to) return a;
  return emit(Op::Convert, {a}, {{"dtype", to}});
}

ValueId Builder::reshape(ValueId a, Shape to) {
  if (a.is_valid() && shape(a) == to) return a;
  return emit(Op::Reshape, {a}, {{"shape", std::move(to)}});
}

ValueId Builder::transpose(ValueId a, Ints perm) {
  if (std::is_sorted(perm.begin(), perm.end()) && static_cast<int>(perm.size()) == rank(a)) return a;
  return emit(Op::Transpose, {a}, {{"perm", std::move(perm)}});
}

ValueId Builder::broadcast(ValueId a, Shape to, Ints dims) {
  return emit(Op::BroadcastInDim, {a}, {{"shape", std::move(to)}, {"dims", std::move(dims)}});
}

ValueId Builder::broadcast_to(ValueId a, const Shape& to) {
  if (a.is_valid() && shape(a) == to) return a;
  Ints dims;
  int offset = static_cast<int>(to.size()) - rank(a);
  for (int i = 0; i < rank(a); ++i) dims.push_back(offset + i);
  return broadcast(a, to, std::move(dims));
}

ValueId Builder::broadcast_reduced(ValueId a, const Shape& to, const Ints& dims) {
  Ints kept;
  for (int64_t i = 0; i < static_cast<int64_t>(to.size()); ++i) {
    if (std::find(dims.begin(), dims.end(), i) == dims.end()) kept.push_back(i);
  }
  return broadcast(a, to, std::move(kept));
}

ValueId Builder::slice(ValueId a, Shape start, Shape limit, Ints stride) {
  return emit(Op::Slice, {a},
              {{"start", std::move(start)}, {"limit", std::move(limit)}, {"stride", std::move(stride)}});
}

ValueId Builder::pad(ValueId a, ValueId value, Shape lo, Shape hi, Ints interior) {
  return emit(Op::Pad, {a, value},
              {{"lo", std::move(lo)}, {"hi", std::move(hi)}, {"interior", std::move(interior)}});
}

ValueId Builder::concatenate(std::vector<ValueId> values, int64_t dim) {
  return emit(Op::Concatenate, std::move(values), {{"dim", dim}});
}

ValueId Builder::reduce_sum(ValueId a, Ints dims, bool keepdims) {
  return emit(Op::ReduceSum, {a}, {{"dims", std::move(dims)}, {"keepdims", keepdims}});
}
ValueId Builder::reduce_max(ValueId a, Ints dims, bool keepdims) {
  return emit(Op::ReduceMax, {a}, {{"dims", std::move(dims)}, {"keepdims", keepdims}});
}

ValueId Builder::matmul(ValueId a, ValueId b, bool transpose_a, bool transpose_b) {
  int64_t ra = rank(a), rb = rank(b);
  if (ra < 2 || rb < 2) {
    fail(Status::invalid(cat("matmul: found ranks ", ra, " and ", rb, ", expected at least 2")));
    return {};
  }
  Ints batch_a, batch_b;
  for (int64_t i = 0; i + 2 < ra && i + 2 < rb; ++i) {
    batch_a.push_back(i);
    batch_b.push_back(i);
  }
  Ints contract_a{transpose_a ? ra - 2 : ra - 1}, contract_b{transpose_b ? rb - 1 : rb - 2};
  return emit(Op::DotGeneral, {a, b},
              {{"lhs_contract", contract_a},
               {"rhs_contract", contract_b},
               {"lhs_batch", batch_a},
               {"rhs_batch", batch_b}});
}

}  // namespace tilewright
