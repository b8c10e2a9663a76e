// Embedding tables: rows by index, bags of rows, and their gradients as deterministic scatters.
#include <limits>

#include "ir/expansions/pieces.h"

namespace tilewright {
using namespace expansions;
namespace {

Result<Dim> rows_of(const Expansion& e) {
  const Shape& rows = e.attributes.get_dims("rows");
  if (rows.size() != 1) return fail(e, "rows has ", rows.size(), " entries, expected 1");
  return rows[0];
}

ValueId scatter_rows(Builder& b, ValueId x, ValueId indices, ValueId updates, const char* kind) {
  if (!b.status().is_ok()) return {};
  return b.emit(Op::Scatter, {x, indices, updates},
                {{"update_window_dims", Ints{1}},
                 {"inserted", Ints{0}},
                 {"scatter_map", Ints{0}},
                 {"index_vector_dim", int64_t{1}},
                 {"kind", std::string(kind)}});
}

}  // namespace

Status expand_embedding(Expansion& e) {
  TW_RETURN_IF_ERROR(check_rank(e, 0, 2));
  e.results = {take(e.b, e.operands[0], e.operands[1], 0, e.attributes.get_string("oob").c_str())};
  return Status::ok();
}

Status expand_embedding_grad(Expansion& e) {
  Builder& b = e.b;
  TW_ASSIGN_OR_RETURN(Dim rows, rows_of(e));
  Shape g = shape_of(e, 0);
  if (g.empty()) return fail(e, "g has rank 0, expected 1 or more");
  TW_RETURN_IF_ERROR(check_shape(e, 1, Shape(g.begin(), g.end() - 1)));
  ValueId indices = e.operands[1];
  int64_t padding = e.attributes.get_int("padding_idx");
  if (padding >= 0) {
    DType index = dtype_of(e, 1);
    Shape shape = shape_of(e, 1);
    ValueId is_padding = b.compare(indices, b.integer(padding, index, shape), "EQ");
    indices = b.select(is_padding, b.integer(-1, index, shape), indices);
  }
  ValueId zeros = b.constant(0, dtype_of(e, 0), {rows, g.back()});
  e.results = {put_add(b, zeros, indices, e.operands[0], 0)};
  return Status::ok();
}

namespace {

// What the bag composites share: the bag of each index and how many each bag holds.
struct Bags {
  ValueId of;     // i64 [n]: the bag of each index; out of range when it belongs to none
  ValueId count;  // i64 [bags]
  Dim bags, n;
};

Result<Bags> read_bags(Expansion& e, int indices, int offsets) {
  Builder& b = e.b;
  TW_RETURN_IF_ERROR(check_rank(e, indices, 1));
  TW_RETURN_IF_ERROR(check_rank(e, offsets, 1));
  if (dtype_of(e, indices) != dtype_of(e, offsets)) {
    return fail(e, "offsets are ", dtype_name(dtype_of(e, offsets)), ", expected ",
                dtype_name(dtype_of(e, indices)), " of indices");
  }
  Bags r;
  r.n = shape_of(e, indices)[0];
  r.bags = shape_of(e, offsets)[0];
  if (e.attributes.get_bool("include_last_offset")) {
    if (r.bags.is_constant(0)) return fail(e, "offsets is empty, expected the last offset");
    r.bags = r.bags - Dim(1);
  }
  ValueId positions = b.iota({r.n}, 0, dtype_of(e, indices));
  ValueId after = b.emit(Op::Searchsorted, {e.operands[static_cast<size_t>(offsets)], positions},
                         {{"side", std::string("right")}});
  r.of = b.subtract(after, b.integer(1, DType::I64, {r.n}));
  ValueId ones = b.integer(1, DType::I64, {r.n});
  r.count = put_add(b, b.integer(0, DType::I64, {r.bags}), r.of, ones, 0);
  return r;
}

ValueId over_columns(Builder& b, ValueId x, const Dim& columns) {
  if (!b.status().is_ok()) return {};
  return b.broadcast(x, {b.shape(x)[0], columns}, {0});
}

// 1 / max(count, 1) would round twice: the sum is divided instead.
ValueId divide_by_count(Builder& b, ValueId x, const Bags& bags, const Dim& columns, DType work) {
  ValueId count = b.maximum(bags.count, b.integer(1, DType::I64, {bags.bags}));
  return b.divide(x, over_columns(b, b.convert(count, work), columns));
}

ValueId no_indices(Builder& b, const Bags& bags, const Dim& columns) {
  return b.integer(-1, DType::I64, {bags.bags, columns});
}

// The largest of each bag and column and the table row it comes from; NaN is the largest.
std::vector<ValueId> bag_maximum(Expansion& e, const Bags& bags, ValueId rows, const Dim& columns) {
  Builder& b = e.b;
  DType dtype = dtype_of(e, 0);
  ValueId lowest = b.constant(-std::numeric_limits<double>::infinity(), dtype, {bags.bags, columns});
  ValueId largest = scatter_rows(b, lowest, bags.of, rows, "max");
  ValueId mine = take(b, largest, bags.of, 0, "drop");
  ValueId hits = b.compare(rows, mine, "EQ");
  hits = b.emit(Op::Or, {hits, b.emit(Op::And, {is_nan(b, rows), is_nan(b, mine)})});
  Shape cells{bags.n, columns};
  ValueId none = splat(b, axis_size(b, e.operands[1], 0, DType::I64), cells);
  ValueId where = b.select(hits, b.iota(cells, 0, DType::I64), none);
  ValueId all = splat(b, axis_size(b, e.operands[1], 0, DType::I64), {bags.bags, columns});
  ValueId first = scatter_rows(b, all, bags.of, where, "min");
  // One past the end stands for "none": it takes the -1 put behind the indices.
  ValueId padded =
      b.concatenate({b.convert(e.operands[1], DType::I64), b.integer(-1, DType::I64, {Dim(1)})}, 0);
  ValueId index = take(b, padded, first, 0, "promise");
  ValueId empty =
      b.compare(over_columns(b, bags.count, columns), b.integer(0, DType::I64, {bags.bags, columns}), "EQ");
  return {b.select(empty, b.zeros_like(largest), largest), index};
}

}  // namespace

Status expand_embedding_bag(Expansion& e) {
  Builder& b = e.b;
  const std::string& mode = e.attributes.get_string("mode");
  TW_RETURN_IF_ERROR(check_rank(e, 0, 2));
  TW_ASSIGN_OR_RETURN(Bags bags, read_bags(e, 1, 2));
  if (e.has(3)) {
    if (mode != "sum") return fail(e, "weights with mode ", mode, ", expected sum");
    TW_RETURN_IF_ERROR(check_same_shape(e, 3, 1));
  }
  DType dtype = dtype_of(e, 0), work = work_type(dtype);
  Dim columns = shape_of(e, 0)[1];
  ValueId rows = take(b, e.operands[0], e.operands[1], 0, "error");
  if (mode == "max") {
    e.results = bag_maximum(e, bags, rows, columns);
    return Status::ok();
  }
  rows = b.convert(rows, work);
  if (e.has(3)) rows = b.multiply(rows, over_columns(b, widened(e, 3), columns));
  ValueId sum = put_add(b, b.constant(0, work, {bags.bags, columns}), bags.of, rows, 0);
  if (mode == "mean") sum = divide_by_count(b, sum, bags, columns, work);
  e.results = {b.convert(sum, dtype), no_indices(b, bags, columns)};
  return Status::ok();
}

Status expand_embedding_bag_grad(Expansion& e) {
  Builder& b = e.b;
  const std::string& mode = e.attributes.get_string("mode");
  TW_RETURN_IF_ERROR(check_rank(e, 0, 2));
  TW_ASSIGN_OR_RETURN(Dim table_rows, rows_of(e));
  TW_ASSIGN_OR_RETURN(Bags bags, read_bags(e, 1, 2));
  DType dtype = dtype_of(e, 0), work = work_type(dtype);
  Dim columns = shape_of(e, 0)[1];
  TW_RETURN_IF_ERROR(check_shape(e, 0, {bags.bags, columns}));
  if (e.has(3)) {
    if (mode != "sum") return fail(e, "weights with mode ", mode, ", expected sum");
    TW_RETURN_IF_ERROR(check_same_shape(e, 3, 1));
  }
  TW_RETURN_IF_ERROR(check_shape(e, 4, {bags.bags, columns}));
  ValueId g = widened(e, 0), zeros = b.constant(0, work, {table_rows, columns});
  ValueId table;
  if (mode == "max") {
    table = b.emit(Op::ScatterElements, {zeros, e.operands[4], g},
                   {{"dim", int64_t{0}}, {"kind", std::string("add")}});
  } else {
    if (mode == "mean") g = divide_by_count(b, g, bags, columns, work);
    ValueId each = take(b, g, bags.of, 0, "drop");
    if (e.has(3)) each = b.multiply(each, over_columns(b, widened(e, 3), columns));
    table = put_add(b, zeros, e.operands[1], each, 0);
  }
  e.results = {b.convert(table, dtype)};
  return Status::ok();
}

Status expand_embedding_bag_weights_grad(Expansion& e) {
  Builder& b = e.b;
  TW_RETURN_IF_ERROR(check_rank(e, 0, 2));
  TW_RETURN_IF_ERROR(check_rank(e, 1, 2));
  TW_ASSIGN_OR_RETURN(Bags bags, read_bags(e, 2, 3));
  Dim columns = shape_of(e, 1)[1];
  TW_RETURN_IF_ERROR(check_shape(e, 0, {bags.bags, columns}));
  DType dtype = dtype_of(e, 0), work = work_type(dtype);
  ValueId rows = b.convert(take(b, e.operands[1], e.operands[2], 0, "error"), work);
  ValueId g = b.convert(take(b, e.operands[0], bags.of, 0, "drop"), work);
  e.results = {b.convert(b.reduce_sum(b.multiply(rows, g), {1}), dtype)};
  return Status::ok();
}

}  // namespace tilewright
