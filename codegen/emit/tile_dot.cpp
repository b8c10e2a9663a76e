// Dot: any dimension numbers as matrix products over one axis of rows, of columns and of depth, inside loops
// over the other axes.
#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "codegen/emit/tile_emitter.h"

namespace tilewright {

using tile::Instruction;

namespace {

bool contains(const Ints& list, size_t axis) {
  return std::find(list.begin(), list.end(), static_cast<int64_t>(axis)) != list.end();
}

// The axes of a dot by role.  Pairs of lhs and rhs axes for batch and depth; result axes go with batch and
// free ones.
struct DotAxes {
  Ints lhs_free, rhs_free;
  int rows = -1, columns = -1,
      depth = -1;  // the axis of the product: of lhs, of rhs, of the list of contracted pairs
};

DotAxes find_axes(const tile::DotDims& dims, const std::vector<int64_t>& lhs,
                  const std::vector<int64_t>& rhs) {
  DotAxes axes;
  for (size_t i = 0; i < lhs.size(); ++i) {
    if (!contains(dims.lhs_batch, i) && !contains(dims.lhs_contract, i))
      axes.lhs_free.push_back(static_cast<int64_t>(i));
  }
  for (size_t i = 0; i < rhs.size(); ++i) {
    if (!contains(dims.rhs_batch, i) && !contains(dims.rhs_contract, i))
      axes.rhs_free.push_back(static_cast<int64_t>(i));
  }
  auto last_long = [](const Ints& list, const std::vector<int64_t>& shape) {
    int best = -1;
    for (int64_t axis : list) {
      if (best < 0 || shape[static_cast<size_t>(axis)] > 1) best = static_cast<int>(axis);
    }
    return best;
  };
  axes.rows = last_long(axes.lhs_free, lhs);
  axes.columns = last_long(axes.rhs_free, rhs);
  for (size_t i = 0; i < dims.lhs_contract.size(); ++i) {
    auto size = [&](size_t pair) { return lhs[static_cast<size_t>(dims.lhs_contract[pair])]; };
    if (axes.depth < 0 || size(i) > size(static_cast<size_t>(axes.depth))) axes.depth = static_cast<int>(i);
  }
  return axes;
}

int64_t size_of(const std::vector<int64_t>& shape, int axis) {
  return axis < 0 ? 1 : shape[static_cast<size_t>(axis)];
}

}  // namespace

ScratchTile TileEmitter::kept_tile(ValueId value) {
  auto known = scratch_tiles_.find(value.index);
  if (known != scratch_tiles_.end()) return known->second;
  ScratchTile tile = new_scratch(type(value));
  fill_tiles({value}, {tile});
  return tile;
}

// A load whose block can be read where it lies: affine, and outside the buffer only past the end of one axis
// a dim, where it gives zeros.
bool TileEmitter::view_of_load(ValueId value, TileView& view) {
  const Instruction* load = plan_.definition(value);
  if (!load || load->opcode != tile::Opcode::Load || scratch_tiles_.count(value.index)) return false;
  const tile::Param& param = kernel_.params[load->access.param];
  const std::vector<int64_t>& shape = type(value).shape;
  if (param.mode != tile::AccessMode::Read || param.dtype == DType::Bool) return false;
  bool proven = proven_inside(load->access, shape);
  if (!proven && (load->literal.f != 0 || load->literal.i != 0)) return false;
  view.dtype = param.dtype;
  view.scope = load->access.param;
  view.strides.assign(shape.size(), i64(0));
  view.sizes.clear();
  for (int64_t size : shape) view.sizes.push_back(i64(size));
  Value* offset = i64(0);
  const ParamInfo& info = params_[load->access.param];
  std::vector<std::pair<size_t, Dim>> ends;
  for (size_t d = 0; d < load->access.index.size(); ++d) {
    const tile::DimIndex& index = load->access.index[d];
    if (index.tile.is_valid()) return false;
    for (const tile::AxisTerm& term : index.terms) {
      if (term.coefficient < 1) return false;
    }
    if (proven || shape.empty()) continue;
    if (index.base.range(plan_.ranges()).min < 0) return false;
    Dim last = index.base;
    for (const tile::AxisTerm& term : index.terms)
      last = last + Dim(term.coefficient * (shape[term.axis] - 1));
    if ((param.dims[d] - last).range(plan_.ranges()).min >= 1) continue;
    if (index.terms.size() != 1 || index.terms[0].coefficient != 1) return false;
    ends.emplace_back(static_cast<size_t>(index.terms[0].axis), param.dims[d] - index.base);
  }
  for (const auto& [axis, end] : ends) {
    Value* left = dim(Dim::max(Dim::min(end, Dim(shape[axis])), Dim(0)));
    view.sizes[axis] = b_.CreateSelect(b_.CreateICmpSLT(left, view.sizes[axis]), left, view.sizes[axis]);
  }
  for (size_t d = 0; d < load->access.index.size(); ++d) {
    const tile::DimIndex& index = load->access.index[d];
    offset = b_.CreateAdd(offset, b_.CreateMul(dim(index.base), info.strides[d]));
    for (const tile::AxisTerm& term : index.terms) {
      size_t axis = static_cast<size_t>(term.axis);
      view.strides[axis] =
          b_.CreateAdd(view.strides[axis], b_.CreateMul(i64(term.coefficient), info.strides[d]));
    }
  }
  view.data = element_pointer(info.data, view.dtype, offset);
  return true;
}

TileEmitter::TileView TileEmitter::view_of(ValueId value) {
  TileView view;
  if (view_of_load(value, view)) return view;
  ScratchTile tile = kept_tile(value);
  const std::vector<int64_t>& shape = type(value).shape;
  view.dtype = type(value).dtype;
  view.data = tile.data;
  view.is_padded = true;
  view.scope = static_cast<int>(kernel_.params.size());
  view.sizes.clear();
  view.strides.clear();
  for (size_t i = 0; i < shape.size(); ++i) {
    view.sizes.push_back(i64(shape[i]));
    view.strides.push_back(i64(tile.strides[i]));
  }
  return view;
}

// Zeros to add to, every element of the result written once: the sums need not be read.
bool TileEmitter::starts_at_zero(const Instruction& dot, const TileView& lhs, const TileView& rhs) const {
  const Instruction* source = plan_.definition(dot.operands[2]);
  if (!source || source->opcode != tile::Opcode::Const || source->literal.f != 0 || source->literal.i != 0)
    return false;
  if (is_narrow_float(type(dot.operands[2]).dtype) || std::signbit(source->literal.f)) return false;
  auto is_whole = [&](ValueId operand, const TileView& view, const Ints& contract) {
    const std::vector<int64_t>& shape = type(operand).shape;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if (contains(contract, axis)) continue;
      auto* size = llvm::dyn_cast<llvm::ConstantInt>(view.sizes[axis]);
      if (!size || size->getSExtValue() != shape[axis]) return false;
    }
    return true;
  };
  return dot.dot.lhs_contract.size() == 1 && is_whole(dot.operands[0], lhs, dot.dot.lhs_contract) &&
         is_whole(dot.operands[1], rhs, dot.dot.rhs_contract);
}

// The place of the one carry that the value is computed from, element by element, where nobody else reads it.
std::optional<ScratchTile> TileEmitter::carry_to_reuse(ValueId value) const {
  const Instruction* source = plan_.definition(value);
  if (!source || source->opcode != tile::Opcode::Elementwise || plan_.is_kept(value)) return std::nullopt;
  for (ValueId operand : source->operands) {
    if (carries_.count(operand.index) && plan_.reader_count(operand) == 1 && type(operand) == type(value))
      return scratch_tiles_.at(operand.index);
  }
  return std::nullopt;
}

void TileEmitter::emit_dot(const Instruction& instruction) {
  ValueId acc_value = instruction.operands[2];
  TileView lhs = view_of(instruction.operands[0]), rhs = view_of(instruction.operands[1]);
  ScratchTile acc;
  auto known = scratch_tiles_.find(acc_value.index);
  bool alone = plan_.reader_count(acc_value) == 1;
  bool is_fresh = starts_at_zero(instruction, lhs, rhs);
  if (known != scratch_tiles_.end() && alone) {
    acc = known->second;  // nobody else reads the old sums: add in place
  } else if (std::optional<ScratchTile> carry = alone ? carry_to_reuse(acc_value) : std::nullopt) {
    acc = *carry;
    fill_tiles({acc_value}, {acc});
  } else {
    acc = new_scratch(type(acc_value));
    if (!is_fresh) fill_tiles({acc_value}, {acc});
  }
  scratch_tiles_[instruction.results[0].index] = acc;
  DType dtype = type(acc_value).dtype;
  if (!is_narrow_float(dtype)) {
    emit_products(instruction, lhs, rhs, acc, dtype, is_fresh);
    return;
  }
  // Sums of a narrow type are kept in f32 while they grow, and rounded once.
  const std::vector<int64_t>& shape = type(acc_value).shape;
  ScratchTile wide = new_scratch(tile::TileType{DType::F32, shape});
  ValueId result = instruction.results[0];
  for_points(shape, last_axis(shape), {}, {}, [&](const Point& point) {
    write_scratch_as(wide, DType::F32, point, read_scratch(acc, result, point));
  });
  emit_products(instruction, lhs, rhs, wide, DType::F32, false);
  for_points(shape, last_axis(shape), {}, {}, [&](const Point& point) {
    Value* sum = read_scratch_as(wide, DType::F32, point);
    write_scratch(acc, result, point, emit_convert(context_, sum, DType::F32, dtype));
  });
}

// Loops over all axes but those of the product.
void TileEmitter::emit_products(const Instruction& instruction, const TileView& lhs, const TileView& rhs,
                                const ScratchTile& acc, DType dtype, bool is_fresh) {
  const tile::DotDims& dims = instruction.dot;
  const std::vector<int64_t>&left = type(instruction.operands[0]).shape,
        &right = type(instruction.operands[1]).shape;
  DotAxes axes = find_axes(dims, left, right);
  size_t batches = dims.lhs_batch.size();
  struct Step {
    int64_t size;
    int lhs = -1, rhs = -1, result = -1;
  };
  std::vector<Step> steps;
  for (size_t i = 0; i < batches; ++i) {
    steps.push_back({left[dims.lhs_batch[i]], static_cast<int>(dims.lhs_batch[i]),
                     static_cast<int>(dims.rhs_batch[i]), static_cast<int>(i)});
  }
  int rows_result = -1;
  for (size_t i = 0; i < axes.lhs_free.size(); ++i) {
    int axis = static_cast<int>(axes.lhs_free[i]), result = static_cast<int>(batches + i);
    if (axis == axes.rows) {
      rows_result = result;
    } else {
      steps.push_back({left[axis], axis, -1, result});
    }
  }
  for (size_t i = 0; i < axes.rhs_free.size(); ++i) {
    int axis = static_cast<int>(axes.rhs_free[i]),
        result = static_cast<int>(batches + axes.lhs_free.size() + i);
    if (axis != axes.columns) steps.push_back({right[axis], -1, axis, result});
  }
  for (size_t i = 0; i < dims.lhs_contract.size(); ++i) {
    if (static_cast<int>(i) == axes.depth) continue;
    steps.push_back({left[dims.lhs_contract[i]], static_cast<int>(dims.lhs_contract[i]),
                     static_cast<int>(dims.rhs_contract[i]), -1});
  }
  Product product;
  product.dtype = dtype;
  product.micro = instruction.micro;
  product.is_fresh = is_fresh;
  int lhs_depth = axes.depth < 0 ? -1 : static_cast<int>(dims.lhs_contract[axes.depth]);
  int rhs_depth = axes.depth < 0 ? -1 : static_cast<int>(dims.rhs_contract[axes.depth]);
  product.rows = size_of(left, axes.rows);
  product.columns = size_of(right, axes.columns);
  product.depth = size_of(left, lhs_depth);
  auto side = [&](const TileView& view, int row, int depth) {
    MatrixView out;
    out.dtype = view.dtype;
    out.data = view.data;
    out.row = row < 0 ? i64(0) : view.strides[row];
    out.depth = depth < 0 ? i64(0) : view.strides[depth];
    out.rows = row < 0 ? i64(1) : view.sizes[row];
    out.is_padded = view.is_padded;
    return out;
  };
  product.lhs = side(lhs, axes.rows, lhs_depth);
  product.rhs = side(rhs, axes.columns, rhs_depth);
  Value* lhs_steps = lhs_depth < 0 ? i64(1) : lhs.sizes[lhs_depth];
  Value* rhs_steps = rhs_depth < 0 ? i64(1) : rhs.sizes[rhs_depth];
  product.steps = lhs_steps == rhs_steps
                      ? lhs_steps
                      : b_.CreateSelect(b_.CreateICmpSLT(lhs_steps, rhs_steps), lhs_steps, rhs_steps);
  product.sums = acc.data;
  product.sums_row = rows_result < 0 ? 0 : acc.strides[rows_result];
  if (product.columns == 1 && product.rows > 1) {  // a column is contiguous: the sides change places
    std::swap(product.lhs, product.rhs);
    std::swap(product.rows, product.columns);
    product.sums_row = 0;
  }
  llvm::Type* element = register_type(context_, product.dtype, 0);
  std::function<void(size_t, const Product&)> nest = [&](size_t level, const Product& at) {
    if (level == steps.size()) {
      emit_product(context_, at, [&](int64_t bytes) { return new_scratch_bytes(bytes); });
      return;
    }
    const Step& step = steps[level];
    bool swapped = size_of(right, axes.columns) == 1 && size_of(left, axes.rows) > 1;
    auto body = [&](Value* index) {
      Product inner = at;
      MatrixView& from_lhs = swapped ? inner.rhs : inner.lhs;
      MatrixView& from_rhs = swapped ? inner.lhs : inner.rhs;
      auto move = [&](MatrixView& view, const TileView& tile, int axis) {
        if (axis >= 0)
          view.data = element_pointer(view.data, view.dtype, b_.CreateMul(index, tile.strides[axis]));
      };
      move(from_lhs, lhs, step.lhs);
      move(from_rhs, rhs, step.rhs);
      if (step.result >= 0) {
        inner.sums = b_.CreateGEP(element, inner.sums, b_.CreateMul(index, i64(acc.strides[step.result])));
      }
      nest(level + 1, inner);
    };
    Value* end = i64(step.size);
    auto cut = [&](const TileView& tile, int axis) {
      if (axis < 0 || tile.sizes[axis] == end) return;
      end = b_.CreateSelect(b_.CreateICmpSLT(tile.sizes[axis], end), tile.sizes[axis], end);
    };
    cut(lhs, step.lhs);
    cut(rhs, step.rhs);
    if (step.size == 1 && end == i64(1)) {
      body(i64(0));
    } else {
      for_loop(i64(0), end, i64(1), body);
    }
  };
  nest(0, product);
}

}  // namespace tilewright
