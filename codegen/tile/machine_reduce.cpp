// The tile interpreter's reductions, scans and dots.  Folds run in row-major order, the accumulated value on
// the left.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/text.h"
#include "codegen/tile/machine.h"
#include "ir/reference/element.h"
#include "ir/reference/scalar.h"

namespace tilewright::tile {

using namespace reference;

namespace {

Op combine_op(Combine combine) {
  switch (combine) {
    case Combine::Product: return Op::ReduceProduct;
    case Combine::Max: return Op::ReduceMax;
    case Combine::Min: return Op::ReduceMin;
    case Combine::And: return Op::ReduceAnd;
    case Combine::Or: return Op::ReduceOr;
    case Combine::Xor: return Op::ReduceXor;
    case Combine::Sum:
    case Combine::Custom: break;
  }
  return Op::ReduceSum;
}

std::vector<int64_t> dense_strides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t axis = shape.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * shape[axis];
  return strides;
}

// Axes walked in row-major order with the offset of the current element.
struct Walk {
  std::vector<int64_t> sizes, strides, coordinate;
  int64_t offset = 0;

  Walk(const std::vector<int64_t>& shape, const std::vector<size_t>& axes) {
    std::vector<int64_t> all = dense_strides(shape);
    for (size_t axis : axes) {
      sizes.push_back(shape[axis]);
      strides.push_back(all[axis]);
    }
    coordinate.assign(sizes.size(), 0);
  }
  bool advance() {
    for (size_t i = sizes.size(); i-- > 0;) {
      offset += strides[i];
      if (++coordinate[i] < sizes[i]) return true;
      offset -= coordinate[i] * strides[i];
      coordinate[i] = 0;
    }
    return false;
  }
};

std::vector<size_t> other_axes(size_t rank, const std::vector<size_t>& axes) {
  std::vector<size_t> others;
  for (size_t axis = 0; axis < rank; ++axis) {
    if (std::find(axes.begin(), axes.end(), axis) == axes.end()) others.push_back(axis);
  }
  return others;
}

std::vector<size_t> as_axes(const Ints& axes) { return std::vector<size_t>(axes.begin(), axes.end()); }

// What elements that take no part leave behind: NaN in floats, so that a reader notices.
void poison(const TileData& tile, int64_t element) { std::memset(tile.at(element), 0xff, tile.width); }

}  // namespace

// out = combine(left, right), one address a combined value; out may be left.
Status Machine::combine_into(const Step& step, const std::vector<std::byte*>& left,
                             const std::vector<const std::byte*>& right, const std::vector<std::byte*>& out) {
  const Instruction& instruction = *step.instruction;
  size_t count = left.size();
  if (instruction.combine != Combine::Custom) {
    Op op = combine_op(instruction.combine);
    for (size_t k = 0; k < count; ++k) {
      DType dtype = tile(instruction.operands[k]).dtype;
      store_scalar(
          combine(op, tilewright::load_scalar(dtype, left[k]), tilewright::load_scalar(dtype, right[k])),
          out[k]);
    }
    return Status::ok();
  }
  const Block& block = instruction.blocks[0];
  for (size_t k = 0; k < count; ++k) {
    const TileData &to_left = tile(block.params[k]), &to_right = tile(block.params[count + k]);
    copy_element(to_left.data, left[k], to_left.width);
    copy_element(to_right.data, right[k], to_right.width);
  }
  TW_RETURN_IF_ERROR(run_block(step.blocks[0]));
  for (size_t k = 0; k < count; ++k) {
    const TileData& yielded = tile(block.body.back().operands[k]);
    copy_element(out[k], yielded.data, yielded.width);
  }
  return Status::ok();
}

// Float sums and products are folded in a wider type and rounded once, so that what remains of a difference
// to a chip's tree is the chip's.
template <class Wide>
void Machine::reduce_widely(const Instruction& reduce, const std::vector<int64_t>& limits) {
  const TileData &in = tile(reduce.operands[0]), &out = tile(reduce.results[0]);
  std::vector<size_t> axes = as_axes(reduce.axes);
  Walk kept(*in.shape, other_axes(in.shape->size(), axes));
  int64_t element = 0;
  do {
    bool sum = reduce.combine == Combine::Sum;
    Wide total = sum ? 0 : 1;
    Walk reduced(*in.shape, axes);
    do {
      bool inside = true;
      for (size_t i = 0; i < limits.size(); ++i) inside &= reduced.coordinate[i] < limits[i];
      if (!inside) continue;
      Wide value = tilewright::load_scalar(in.dtype, in.at(kept.offset + reduced.offset)).f;
      total = sum ? total + value : total * value;
    } while (reduced.advance());
    store_scalar(Scalar::of_float(out.dtype, static_cast<double>(total)), out.at(element++));
  } while (kept.advance());
}

Status Machine::run_reduce(const Step& step) {
  const Instruction& reduce = *step.instruction;
  size_t count = reduce.operands.size();
  const std::vector<int64_t>& shape = *tile(reduce.operands[0]).shape;
  std::vector<size_t> axes = as_axes(reduce.axes);
  std::vector<int64_t> limits;
  for (const CompiledDim& limit : step.limits) {
    TW_ASSIGN_OR_RETURN(int64_t value, evaluate(limit));
    limits.push_back(value);
  }
  bool custom = reduce.combine == Combine::Custom;
  DType dtype = tile(reduce.operands[0]).dtype;
  if (count == 1 && is_float(dtype) &&
      (reduce.combine == Combine::Sum || reduce.combine == Combine::Product)) {
    dtype == DType::F64 ? reduce_widely<long double>(reduce, limits) : reduce_widely<double>(reduce, limits);
    return Status::ok();
  }
  Walk kept(shape, other_axes(shape.size(), axes));
  int64_t element = 0;
  do {
    std::vector<std::byte*> accumulators;
    for (ValueId result : reduce.results) accumulators.push_back(tile(result).at(element));
    for (size_t k = 0; k < count; ++k) {
      const TileData& out = tile(reduce.results[k]);
      if (custom) {
        poison(out, element);
      } else {
        store_scalar(reduction_identity(combine_op(reduce.combine), out.dtype), accumulators[k]);
      }
    }
    bool first = custom;
    Walk reduced(shape, axes);
    do {
      bool inside = true;
      for (size_t i = 0; i < limits.size(); ++i) inside &= reduced.coordinate[i] < limits[i];
      if (!inside) continue;
      std::vector<const std::byte*> right;
      for (size_t k = 0; k < count; ++k) {
        right.push_back(tile(reduce.operands[k]).at(kept.offset + reduced.offset));
        if (first) copy_element(accumulators[k], right[k], tile(reduce.operands[k]).width);
      }
      if (!first) TW_RETURN_IF_ERROR(combine_into(step, accumulators, right, accumulators));
      first = false;
    } while (reduced.advance());
    ++element;
  } while (kept.advance());
  return Status::ok();
}

Status Machine::run_scan(const Step& step) {
  const Instruction& scan = *step.instruction;
  size_t count = scan.operands.size() / 2;
  const std::vector<int64_t>& shape = *tile(scan.operands[0]).shape;
  size_t axis = static_cast<size_t>(scan.axes[0]);
  int64_t size = shape[axis], limit = size;
  if (!step.limits.empty()) {
    TW_ASSIGN_OR_RETURN(int64_t value, evaluate(step.limits[0]));
    limit = std::min(limit, value);
  }
  Walk kept(shape, other_axes(shape.size(), {axis}));
  int64_t stride = dense_strides(shape)[axis], element = 0;
  do {
    std::vector<std::byte*> carries;
    for (size_t k = 0; k < count; ++k) {
      const TileData &in = tile(scan.operands[count + k]), &out = tile(scan.results[count + k]);
      copy_element(out.at(element), in.at(element), out.width);
      carries.push_back(out.at(element));
    }
    for (int64_t i = 0; i < size; ++i) {
      int64_t position = scan.reverse ? size - 1 - i : i, at = kept.offset + position * stride;
      if (position >= limit) {
        for (size_t k = 0; k < count; ++k) poison(tile(scan.results[k]), at);
        continue;
      }
      std::vector<const std::byte*> right;
      for (size_t k = 0; k < count; ++k) {
        const TileData &in = tile(scan.operands[k]), &out = tile(scan.results[k]);
        right.push_back(in.at(at));
        if (scan.exclusive) copy_element(out.at(at), carries[k], out.width);
      }
      TW_RETURN_IF_ERROR(combine_into(step, carries, right, carries));
      if (scan.exclusive) continue;
      for (size_t k = 0; k < count; ++k) {
        const TileData& out = tile(scan.results[k]);
        copy_element(out.at(at), carries[k], out.width);
      }
    }
    ++element;
  } while (kept.advance());
  return Status::ok();
}

namespace {

// Floats are summed in a wider type, as in reduce_widely.
template <class C>
using DotSum = std::conditional_t<std::is_same_v<C, float>, double,
                                  std::conditional_t<std::is_same_v<C, double>, long double, C>>;
template <class C>
C multiply_add(C a, C b, C sum) {
  if constexpr (std::is_floating_point_v<C>) {
    return sum + a * b;
  } else {
    return static_cast<C>(static_cast<uint64_t>(sum) + static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  }
}

// All elements of a tile in the type that accumulates.
template <class C>
std::vector<C> widen(const TileData& tile, DType dtype) {
  std::vector<C> values(static_cast<size_t>(tile.elements));
  for (int64_t i = 0; i < tile.elements; ++i) {
    Scalar value = convert_scalar(tilewright::load_scalar(tile.dtype, tile.at(i)), dtype);
    if constexpr (kIsFloat<C>)
      values[static_cast<size_t>(i)] = static_cast<C>(value.f);
    else
      values[static_cast<size_t>(i)] = static_cast<C>(value.i);
  }
  return values;
}

// a, b and acc as [batch, free, contracted] with the free axes of the others left out.
struct DotAxes {
  std::vector<size_t> batch_a, batch_b, free_a, free_b, contract_a, contract_b;
};

template <class C>
void dot_tiles(const DotAxes& axes, const TileData& a, const TileData& b, const TileData& acc,
               const TileData& out, DType dtype) {
  std::vector<C> lhs = widen<C>(a, dtype), rhs = widen<C>(b, dtype), sums = widen<C>(acc, dtype);
  int64_t element = 0;
  Walk batch_a(*a.shape, axes.batch_a), batch_b(*b.shape, axes.batch_b);
  do {
    Walk rows(*a.shape, axes.free_a);
    do {
      Walk columns(*b.shape, axes.free_b);
      do {
        using Sum = DotSum<C>;
        Sum sum = sums[static_cast<size_t>(element)];
        Walk k_a(*a.shape, axes.contract_a), k_b(*b.shape, axes.contract_b);
        do {
          sum =
              multiply_add(Sum(lhs[static_cast<size_t>(batch_a.offset + rows.offset + k_a.offset)]),
                           Sum(rhs[static_cast<size_t>(batch_b.offset + columns.offset + k_b.offset)]), sum);
          k_b.advance();
        } while (k_a.advance());
        Scalar result;
        result.dtype = dtype;
        if constexpr (kIsFloat<C>)
          result.f = static_cast<double>(static_cast<C>(sum));
        else
          result.i = static_cast<int64_t>(sum);
        store_scalar(result, out.at(element++));
      } while (columns.advance());
    } while (rows.advance());
    batch_b.advance();
  } while (batch_a.advance());
}

}  // namespace

Status Machine::run_dot(const Instruction& instruction) {
  const TileData &a = tile(instruction.operands[0]), &b = tile(instruction.operands[1]);
  const TileData &acc = tile(instruction.operands[2]), &out = tile(instruction.results[0]);
  const DotDims& dot = instruction.dot;
  DotAxes axes;
  axes.batch_a = as_axes(dot.lhs_batch);
  axes.batch_b = as_axes(dot.rhs_batch);
  axes.contract_a = as_axes(dot.lhs_contract);
  axes.contract_b = as_axes(dot.rhs_contract);
  auto bound = [](std::vector<size_t> batch, const std::vector<size_t>& contract) {
    batch.insert(batch.end(), contract.begin(), contract.end());
    return batch;
  };
  axes.free_a = other_axes(a.shape->size(), bound(axes.batch_a, axes.contract_a));
  axes.free_b = other_axes(b.shape->size(), bound(axes.batch_b, axes.contract_b));
  return visit<kNumber>(out.dtype, [&]<class T>(Tag<T>) {
    dot_tiles<ComputeType<T>>(axes, a, b, acc, out, out.dtype);
    return Status::ok();
  });
}

}  // namespace tilewright::tile
