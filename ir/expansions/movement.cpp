// Movement of dims and elements: views, repeats, rotations, triangles, diagonals.
#include <algorithm>

#include "ir/expansions/pieces.h"

namespace tilewright {
using namespace expansions;
namespace {

Status one(Expansion& e, ValueId value) {
  e.results = {value};
  return Status::ok();
}
int rank_of(const Expansion& e, int operand = 0) { return static_cast<int>(shape_of(e, operand).size()); }

}  // namespace

Status expand_squeeze(Expansion& e) {
  const Ints& dims = e.attributes.get_ints("dims");
  TW_RETURN_IF_ERROR(check_axes(e, "dims", dims, rank_of(e)));
  const Shape& shape = shape_of(e, 0);
  for (int64_t dim : dims) {
    const Dim& size = shape[static_cast<size_t>(dim)];
    if (!size.is_constant(1)) return fail(e, "dim ", dim, " has size ", size.to_string(), ", expected 1");
  }
  return one(e, e.b.reshape(e.operands[0], pick(shape, other_axes(rank_of(e), dims))));
}

Status expand_unsqueeze(Expansion& e) {
  const Ints& dims = e.attributes.get_ints("dims");
  int rank = rank_of(e) + static_cast<int>(dims.size());
  TW_RETURN_IF_ERROR(check_axes(e, "dims", dims, rank));
  Shape shape(static_cast<size_t>(rank), Dim(1));
  Ints kept = other_axes(rank, dims);
  for (size_t i = 0; i < kept.size(); ++i) shape[static_cast<size_t>(kept[i])] = shape_of(e, 0)[i];
  return one(e, e.b.reshape(e.operands[0], shape));
}

Status expand_expand(Expansion& e) {
  const Shape &target = e.attributes.get_dims("shape"), &shape = shape_of(e, 0);
  if (target.size() < shape.size()) {
    return fail(e, "shape has rank ", target.size(), ", expected ", shape.size(), " or more");
  }
  size_t lead = target.size() - shape.size();
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i].is_constant(1) || shape[i] == target[lead + i]) continue;
    return fail(e, "dim ", i, " of x is ", shape[i].to_string(), ", expected 1 or ",
                target[lead + i].to_string());
  }
  return one(e, e.b.broadcast_to(e.operands[0], target));
}

Status expand_split(Expansion& e) {
  int64_t dim = e.attributes.get_int("dim");
  TW_RETURN_IF_ERROR(check_axis(e, "dim", dim, rank_of(e)));
  Dim at = 0, size = shape_of(e, 0)[static_cast<size_t>(dim)];
  for (const Dim& part : e.attributes.get_dims("sizes")) {
    if (part.is_constant() && part.constant() < 0) return fail(e, "size ", part.to_string(), " is negative");
    e.results.push_back(slice_axis(e.b, e.operands[0], dim, at, at + part));
    at = at + part;
  }
  if (at == size) return Status::ok();
  return fail(e, "sizes add up to ", at.to_string(), ", expected ", size.to_string());
}

Status expand_chunk(Expansion& e) {
  int64_t dim = e.attributes.get_int("dim"), chunks = e.attributes.get_int("chunks");
  TW_RETURN_IF_ERROR(check_axis(e, "dim", dim, rank_of(e)));
  if (chunks < 1) return fail(e, "chunks is ", chunks, ", expected 1 or more");
  TW_ASSIGN_OR_RETURN(int64_t size, known(e, shape_of(e, 0)[static_cast<size_t>(dim)], "the dim"));
  int64_t each = size / chunks + (size % chunks != 0);
  int64_t count = size == 0 ? chunks : (size - 1) / each + 1;
  TW_RETURN_IF_ERROR(check_most(e, "chunks", count, kMostResults));
  for (int64_t i = 0; i < count; ++i) {
    int64_t start = i * each;
    e.results.push_back(slice_axis(e.b, e.operands[0], dim, start, start + std::min(each, size - start)));
  }
  return Status::ok();
}

Status expand_stack(Expansion& e) {
  if (e.operands.empty()) return fail(e, "no operands, expected one or more");
  int64_t dim = e.attributes.get_int("dim");
  TW_RETURN_IF_ERROR(check_axis(e, "dim", dim, rank_of(e) + 1));
  std::vector<ValueId> parts;
  for (int i = 0; i < static_cast<int>(e.operands.size()); ++i) {
    TW_RETURN_IF_ERROR(check_same_shape(e, i, 0));
    Shape shape = shape_of(e, i);
    shape.insert(shape.begin() + dim, Dim(1));
    parts.push_back(e.b.reshape(e.operands[static_cast<size_t>(i)], shape));
  }
  return one(e, e.b.concatenate(parts, dim));
}

Status expand_unbind(Expansion& e) {
  int64_t dim = e.attributes.get_int("dim");
  TW_RETURN_IF_ERROR(check_axis(e, "dim", dim, rank_of(e)));
  TW_ASSIGN_OR_RETURN(int64_t size, known(e, shape_of(e, 0)[static_cast<size_t>(dim)], "the dim"));
  TW_RETURN_IF_ERROR(check_most(e, "the size of the dim", size, kMostResults));
  Shape rest = pick(shape_of(e, 0), other_axes(rank_of(e), {dim}));
  for (int64_t i = 0; i < size; ++i) {
    e.results.push_back(e.b.reshape(slice_axis(e.b, e.operands[0], dim, i, i + 1), rest));
  }
  return Status::ok();
}

Status expand_tile(Expansion& e) {
  const Ints& repeats = e.attributes.get_ints("repeats");
  const Shape shape = shape_of(e, 0);
  if (repeats.size() != shape.size()) {
    return fail(e, "repeats has ", repeats.size(), " entries, expected ", shape.size());
  }
  Shape repeated, result;
  Ints dims;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (repeats[i] < 0) return fail(e, "repeats holds ", repeats[i], ", expected 0 or more");
    if (repeats[i] != 1) repeated.push_back(Dim(repeats[i]));
    dims.push_back(static_cast<int64_t>(repeated.size()));
    repeated.push_back(shape[i]);
    result.push_back(shape[i] * Dim(repeats[i]));
  }
  return one(e, e.b.reshape(e.b.broadcast(e.operands[0], repeated, dims), result));
}

Status expand_repeat_interleave(Expansion& e) {
  int64_t dim = e.attributes.get_int("dim"), repeats = e.attributes.get_int("repeats");
  TW_RETURN_IF_ERROR(check_axis(e, "dim", dim, rank_of(e)));
  if (repeats < 0) return fail(e, "repeats is ", repeats, ", expected 0 or more");
  Shape repeated = shape_of(e, 0), result = repeated;
  repeated.insert(repeated.begin() + dim + 1, Dim(repeats));
  result[static_cast<size_t>(dim)] = result[static_cast<size_t>(dim)] * Dim(repeats);
  Ints dims = other_axes(rank_of(e) + 1, {dim + 1});
  return one(e, e.b.reshape(e.b.broadcast(e.operands[0], repeated, dims), result));
}

Status expand_roll(Expansion& e) {
  const Ints &dims = e.attributes.get_ints("dims"), &shifts = e.attributes.get_ints("shifts");
  TW_RETURN_IF_ERROR(check_axes(e, "dims", dims, rank_of(e)));
  if (dims.size() != shifts.size())
    return fail(e, "shifts has ", shifts.size(), " entries, expected ", dims.size());
  ValueId x = e.operands[0];
  Shape shape = shape_of(e, 0);
  for (size_t i = 0; i < dims.size(); ++i) {
    const Dim& size = shape[static_cast<size_t>(dims[i])];
    Dim moved = Dim::mod(Dim(shifts[i]), Dim::max(size, Dim(1)));
    if (moved.is_constant(0)) continue;
    Dim cut = size - moved;
    ValueId tail = slice_axis(e.b, x, dims[i], cut, size), head = slice_axis(e.b, x, dims[i], 0, cut);
    x = e.b.concatenate({tail, head}, dims[i]);
  }
  return one(e, x);
}

Status expand_flip(Expansion& e) {
  const Ints& dims = e.attributes.get_ints("dims");
  TW_RETURN_IF_ERROR(check_axes(e, "dims", dims, rank_of(e)));
  return one(e, e.b.emit(Op::Reverse, {e.operands[0]}, {{"dims", dims}}));
}

Status expand_narrow(Expansion& e) {
  int64_t dim = e.attributes.get_int("dim");
  TW_RETURN_IF_ERROR(check_axis(e, "dim", dim, rank_of(e)));
  const Shape &start = e.attributes.get_dims("start"), &length = e.attributes.get_dims("length");
  if (start.size() != 1) return fail(e, "start has ", start.size(), " entries, expected 1");
  if (length.size() != 1) return fail(e, "length has ", length.size(), " entries, expected 1");
  const Dim end = start[0] + length[0], size = shape_of(e, 0)[static_cast<size_t>(dim)];
  bool is_negative = (start[0].is_constant() && start[0].constant() < 0) ||
                     (length[0].is_constant() && length[0].constant() < 0);
  if (is_negative || (end.is_constant() && size.is_constant() && end.constant() > size.constant())) {
    return fail(e, "elements ", start[0].to_string(), " to ", end.to_string(), " out of range for size ",
                size.to_string());
  }
  return one(e, slice_axis(e.b, e.operands[0], dim, start[0], start[0] + length[0]));
}

Status expand_select_index(Expansion& e) {
  int64_t dim = e.attributes.get_int("dim"), index = e.attributes.get_int("index");
  TW_RETURN_IF_ERROR(check_axis(e, "dim", dim, rank_of(e)));
  const Dim size = shape_of(e, 0)[static_cast<size_t>(dim)];
  if (size.is_constant() && (index >= size.constant() || index < -size.constant())) {
    return fail(e, "index ", index, " out of range for size ", size.to_string());
  }
  Dim start = index < 0 ? size + Dim(index) : Dim(index);
  ValueId part = slice_axis(e.b, e.operands[0], dim, start, start + Dim(1));
  return one(e, e.b.reshape(part, pick(shape_of(e, 0), other_axes(rank_of(e), {dim}))));
}

// The square of side L that holds the diagonal, flattened with L more elements to rows of L + 1: the diagonal
// is column 0.
Status expand_diagonal(Expansion& e) {
  Builder& b = e.b;
  int64_t offset = e.attributes.get_int("offset"), dim1 = e.attributes.get_int("dim1"),
          dim2 = e.attributes.get_int("dim2");
  int rank = rank_of(e);
  TW_RETURN_IF_ERROR(check_axis(e, "dim1", dim1, rank));
  TW_RETURN_IF_ERROR(check_axis(e, "dim2", dim2, rank));
  if (dim1 == dim2) return fail(e, "dim1 and dim2 are both ", dim1, ", expected two dims");
  Ints perm = other_axes(rank, {dim1, dim2});
  perm.insert(perm.end(), {dim1, dim2});
  ValueId x = b.transpose(e.operands[0], perm);
  Shape shape = pick(shape_of(e, 0), perm);
  if (offset == INT64_MIN) return fail(e, "offset ", offset, " has no magnitude");
  Dim down = std::max<int64_t>(-offset, 0), right = std::max<int64_t>(offset, 0);
  size_t row = shape.size() - 2;
  Dim side = Dim::max(Dim::min(shape[row] - down, shape[row + 1] - right), Dim(0));
  Shape lead(shape.begin(), shape.end() - 2);
  auto with = [&](std::vector<Dim> dims) {
    Shape all = lead;
    all.insert(all.end(), dims.begin(), dims.end());
    return all;
  };
  // An empty diagonal may start past the end.
  Dim first_row = Dim::min(down, shape[row]), first_column = Dim::min(right, shape[row + 1]);
  Shape zeros(lead.size(), Dim(0));
  auto edges = [&](std::vector<Dim> dims) {
    Shape all = zeros;
    all.insert(all.end(), dims.begin(), dims.end());
    return all;
  };
  x = b.slice(x, edges({first_row, first_column}), with({first_row + side, first_column + side}));
  x = b.reshape(x, with({side * side}));
  ValueId zero = b.constant(0, dtype_of(e, 0));
  x = b.reshape(b.pad(x, zero, edges({0}), edges({side})), with({side, side + Dim(1)}));
  x = slice_axis(b, x, static_cast<int64_t>(lead.size()) + 1, 0, 1);
  return one(e, b.reshape(x, with({side})));
}

namespace {
Status triangle(Expansion& e, const char* direction) {
  Builder& b = e.b;
  int rank = rank_of(e);
  if (rank < 2) return fail(e, "x has rank ", rank, ", expected 2 or more");
  Shape shape = shape_of(e, 0);
  Shape grid(shape.end() - 2, shape.end());
  ValueId gap = b.subtract(b.iota(grid, 1, DType::I64), b.iota(grid, 0, DType::I64));
  ValueId kept = b.compare(gap, b.integer(e.attributes.get_int("k"), DType::I64, grid), direction);
  return one(e, b.select(b.broadcast(kept, shape, {rank - 2, rank - 1}), e.operands[0],
                         b.zeros_like(e.operands[0])));
}
}  // namespace

Status expand_tril(Expansion& e) { return triangle(e, "LE"); }
Status expand_triu(Expansion& e) { return triangle(e, "GE"); }

Status expand_meshgrid(Expansion& e) {
  Shape grid;
  for (int i = 0; i < static_cast<int>(e.operands.size()); ++i) {
    TW_RETURN_IF_ERROR(check_rank(e, i, 1));
    grid.push_back(shape_of(e, i)[0]);
  }
  bool swaps = e.attributes.get_string("indexing") == "xy" && grid.size() > 1;
  if (swaps) std::swap(grid[0], grid[1]);
  for (size_t i = 0; i < e.operands.size(); ++i) {
    int64_t axis = static_cast<int64_t>(swaps && i < 2 ? 1 - i : i);
    e.results.push_back(e.b.broadcast(e.operands[i], grid, {axis}));
  }
  return Status::ok();
}

namespace {
Status check_factor(const Expansion& e, int64_t factor) {
  if (factor < 1) return fail(e, "factor is ", factor, ", expected 1 or more");
  TW_RETURN_IF_ERROR(check_most(e, "factor", factor, INT32_MAX));  // squared below
  if (rank_of(e) < 3) return fail(e, "x has rank ", rank_of(e), ", expected 3 or more");
  return Status::ok();
}
}  // namespace

Status expand_pixel_shuffle(Expansion& e) {
  int64_t r = e.attributes.get_int("factor");
  TW_RETURN_IF_ERROR(check_factor(e, r));
  Shape shape = shape_of(e, 0);
  int64_t c = rank_of(e) - 3;
  const Dim channels = shape[static_cast<size_t>(c)], h = shape[static_cast<size_t>(c + 1)], w = shape.back();
  if (!channels.is_multiple_of(r * r))
    return fail(e, "factor ", r, " squared does not divide the ", channels.to_string(), " channels");
  Dim fewer = Dim::floor_div(channels, Dim(r * r));
  Shape lead(shape.begin(), shape.begin() + c), split = lead, result = lead;
  split.insert(split.end(), {fewer, Dim(r), Dim(r), h, w});
  result.insert(result.end(), {fewer, h * Dim(r), w * Dim(r)});
  Ints perm = other_axes(static_cast<int>(c), {});
  perm.insert(perm.end(), {c, c + 3, c + 1, c + 4, c + 2});
  return one(e, e.b.reshape(e.b.transpose(e.b.reshape(e.operands[0], split), perm), result));
}

Status expand_pixel_unshuffle(Expansion& e) {
  int64_t r = e.attributes.get_int("factor");
  TW_RETURN_IF_ERROR(check_factor(e, r));
  Shape shape = shape_of(e, 0);
  int64_t c = rank_of(e) - 3;
  const Dim channels = shape[static_cast<size_t>(c)], h = shape[static_cast<size_t>(c + 1)], w = shape.back();
  if (!h.is_multiple_of(r) || !w.is_multiple_of(r)) {
    return fail(e, "factor ", r, " does not divide ", h.to_string(), " and ", w.to_string());
  }
  Dim rows = Dim::floor_div(h, Dim(r)), columns = Dim::floor_div(w, Dim(r));
  Shape lead(shape.begin(), shape.begin() + c), split = lead, result = lead;
  split.insert(split.end(), {channels, rows, Dim(r), columns, Dim(r)});
  result.insert(result.end(), {channels * Dim(r * r), rows, columns});
  Ints perm = other_axes(static_cast<int>(c), {});
  perm.insert(perm.end(), {c, c + 2, c + 4, c + 1, c + 3});
  return one(e, e.b.reshape(e.b.transpose(e.b.reshape(e.operands[0], split), perm), result));
}

// Gathers from the flat array; the index arithmetic is part of the graph, so that any strides work.
Status expand_as_strided(Expansion& e) {
  Builder& b = e.b;
  const Ints &sizes = e.attributes.get_ints("shape"), &strides = e.attributes.get_ints("strides");
  int64_t offset = e.attributes.get_int("offset");
  if (sizes.size() != strides.size())
    return fail(e, "strides has ", strides.size(), " entries, expected ", sizes.size());
  Dim count = product(shape_of(e, 0));
  int64_t low = offset, high = offset, elements = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 0) return fail(e, "shape holds ", sizes[i], ", expected 0 or more");
    int64_t step;
    int64_t& end = strides[i] < 0 ? low : high;
    if (__builtin_mul_overflow(elements, sizes[i], &elements) ||
        __builtin_mul_overflow(strides[i], sizes[i] - 1, &step) || __builtin_add_overflow(end, step, &end))
      return fail(e, "shape and strides reach beyond 64 bits");
  }
  if (elements > 0 && (low < 0 || (count.is_constant() && high >= count.constant()))) {
    return fail(e, "elements ", low, " to ", high, " out of range for ", count.to_string(), " elements");
  }
  Shape shape = to_shape(sizes);
  ValueId index = b.integer(offset, DType::I64, shape);
  for (size_t i = 0; i < sizes.size(); ++i) {
    ValueId along = b.iota(shape, static_cast<int64_t>(i), DType::I64);
    index = b.add(index, b.multiply(along, b.integer(strides[i], DType::I64, shape)));
  }
  return one(e, take(b, b.reshape(e.operands[0], {count}), index, 0, "error"));
}

}  // namespace tilewright
