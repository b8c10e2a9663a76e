// Selection of data: mixtures of experts, distinct values, masks, permutations, sampling, splits and buckets.
#include "ir/expansions/pieces.h"

namespace tilewright {
using namespace expansions;
namespace {

ValueId scatter_set(Builder& b, ValueId x, ValueId indices, ValueId updates) {
  return b.emit(Op::ScatterElements, {x, indices, updates}, {{"dim", int64_t{0}}});
}

// iota sorted stably by 64-bit words: a permutation, and the advanced state.
struct Permutation {
  ValueId order, state;
};
Permutation permutation(Builder& b, ValueId state, const Dim& n, DType index) {
  auto drawn = b.emit_all(Op::RngBitGenerator, {state}, {{"shape", Shape{n}}, {"bits", int64_t{64}}});
  if (!b.status().is_ok()) return {};
  auto sorted = b.emit_all(Op::Sort, {drawn[1], b.iota({n}, 0, index)}, {{"dim", int64_t{0}}});
  if (!b.status().is_ok()) return {};
  return {sorted[1], drawn[0]};
}

}  // namespace

Status expand_moe_route(Expansion& e) {
  Builder& b = e.b;
  int64_t rank = static_cast<int64_t>(shape_of(e, 0).size());
  if (rank < 1) return fail(e, "logits has rank 0, expected 1 or more");
  int64_t k = e.attributes.get_int("k");
  const Dim experts = shape_of(e, 0).back();
  if (k < 0 || (experts.is_constant() && k > experts.constant())) {
    return fail(e, "k is ", k, ", expected 0 to ", experts.to_string());
  }
  ValueId p = b.emit(Op::Softmax, {widened(e, 0)}, {{"dim", rank - 1}});
  auto top = b.emit_all(Op::TopK, {p}, {{"k", k}, {"dim", rank - 1}});
  if (!b.status().is_ok()) return Status::ok();
  ValueId weights = top[0];
  if (e.attributes.get_bool("renormalize")) weights = b.divide(weights, spread_sum(b, weights, {rank - 1}));
  e.results = {b.convert(weights, dtype_of(e, 0)), top[1]};
  return Status::ok();
}

Status expand_moe_dispatch(Expansion& e) {
  Builder& b = e.b;
  TW_RETURN_IF_ERROR(check_rank(e, 0, 2));
  TW_RETURN_IF_ERROR(check_rank(e, 1, 2));
  Shape x = shape_of(e, 0), chosen = shape_of(e, 1);
  TW_RETURN_IF_ERROR(check_shape(e, 1, {x[0], chosen[1]}));
  TW_ASSIGN_OR_RETURN(int64_t k, known(e, chosen[1], "the number of experts a token"));
  Dim n = x[0] * Dim(k);
  ValueId flat = b.reshape(e.operands[1], {n});
  auto sorted = b.emit_all(Op::Sort, {flat, b.iota({n}, 0, DType::I64)}, {{"dim", int64_t{0}}});
  if (!b.status().is_ok()) return Status::ok();
  ValueId token =
      k == 1 ? sorted[1] : b.divide(sorted[1], b.integer(std::max<int64_t>(k, 1), DType::I64, {n}));
  ValueId rows = take(b, e.operands[0], token, 0, "promise");
  ValueId sizes = b.emit(Op::Histogram, {flat}, {{"bins", e.attributes.get_int("num_experts")}});
  e.results = {rows, sorted[1], sizes};
  return Status::ok();
}

Status expand_moe_combine(Expansion& e) {
  Builder& b = e.b;
  TW_RETURN_IF_ERROR(check_rank(e, 0, 2));
  TW_RETURN_IF_ERROR(check_rank(e, 2, 2));
  Shape weights = shape_of(e, 2), rows = shape_of(e, 0);
  TW_RETURN_IF_ERROR(check_shape(e, 0, {weights[0] * weights[1], rows[1]}));
  TW_RETURN_IF_ERROR(check_shape(e, 1, {rows[0]}));
  ValueId x = widened(e, 0);
  // Each position is written once: the place of a position is the inverse of the order.
  ValueId place =
      scatter_set(b, b.integer(0, DType::I64, {rows[0]}), e.operands[1], b.iota({rows[0]}, 0, DType::I64));
  Shape full{weights[0], weights[1], rows[1]};
  ValueId back = b.reshape(take(b, x, place, 0, "promise"), full);
  ValueId sum = b.reduce_sum(b.multiply(back, b.broadcast(widened(e, 2), full, {0, 1})), {1});
  e.results = {b.convert(sum, dtype_of(e, 0))};
  return Status::ok();
}

namespace {
Result<Dim> bound_of(const Expansion& e) {
  int64_t bound = e.attributes.get_int("bound");
  if (bound < 0) return fail(e, "bound is ", bound, ", expected 0 or more");
  return Dim(bound);
}
}  // namespace

Status expand_unique(Expansion& e) {
  Builder& b = e.b;
  TW_RETURN_IF_ERROR(check_rank(e, 0, 1));
  TW_ASSIGN_OR_RETURN(Dim bound, bound_of(e));
  Dim n = shape_of(e, 0)[0];
  DType dtype = dtype_of(e, 0);
  auto sorted = b.emit_all(Op::Sort, {e.operands[0], b.iota({n}, 0, DType::I64)}, {{"dim", int64_t{0}}});
  if (!b.status().is_ok()) return Status::ok();
  ValueId values = sorted[0], zero = b.integer(0, DType::I64, {n}), position = b.iota({n}, 0, DType::I64);
  // The neighbour before each value, by a pad that shifts; the first has none.
  ValueId before = b.pad(values, b.constant(0, dtype), {1}, {-1});
  ValueId starts = b.emit(Op::Or, {b.compare(values, before, "NE"), b.compare(position, zero, "EQ")});
  ValueId ones = b.convert(starts, DType::I64);
  ValueId rank =
      b.subtract(b.emit(Op::CumulativeSum, {ones}, {{"dim", int64_t{0}}}), b.integer(1, DType::I64, {n}));
  ValueId count = b.reduce_sum(ones, {0});
  // The first of each run goes to its place; the others are dropped.
  ValueId place = b.select(starts, rank, b.integer(-1, DType::I64, {n}));
  ValueId distinct = scatter_set(b, b.constant(0, dtype, {bound}), place, values);
  if (!bound.is_constant(0)) {
    ValueId last =
        b.subtract(b.minimum(count, b.integer(bound.constant(), DType::I64)), b.integer(1, DType::I64));
    last = b.maximum(last, b.integer(0, DType::I64));
    ValueId index = b.minimum(b.iota({bound}, 0, DType::I64), splat(b, last, {bound}));
    distinct = take(b, distinct, index, 0, "promise");
  }
  ValueId inverse = scatter_set(b, zero, sorted[1], rank);
  ValueId counts = b.emit(Op::Histogram, {rank}, {{"bins", bound.constant()}});
  e.results = {distinct, inverse, counts, count};
  return Status::ok();
}

Status expand_masked_select(Expansion& e) {
  Builder& b = e.b;
  TW_RETURN_IF_ERROR(check_same_shape(e, 1, 0));
  TW_ASSIGN_OR_RETURN(Dim bound, bound_of(e));
  auto found = b.emit_all(Op::CompactIndices, {e.operands[1]}, {{"bound", bound.constant()}});
  if (!b.status().is_ok()) return Status::ok();
  ValueId flat = b.reshape(e.operands[0], {product(shape_of(e, 0))});
  e.results = {take(b, flat, found[0], 0, "drop"), found[1]};
  return Status::ok();
}

Status expand_randperm(Expansion& e) {
  int64_t n = e.attributes.get_int("n");
  DType index = e.attributes.get_dtype("index_type", DType::I64);
  TW_RETURN_IF_ERROR(check_shape(e, 0, {Dim(2)}));
  if (n < 0) return fail(e, "n is ", n, ", expected 0 or more");
  if (index != DType::I32 && index != DType::I64)
    return fail(e, "index_type is ", dtype_name(index), ", expected i32 or i64");
  Permutation p = permutation(e.b, e.operands[0], n, index);
  e.results = {p.order, p.state};
  return Status::ok();
}

Status expand_shuffle(Expansion& e) {
  int64_t dim = e.attributes.get_int("dim");
  TW_RETURN_IF_ERROR(check_axis(e, "dim", dim, static_cast<int>(shape_of(e, 0).size())));
  TW_RETURN_IF_ERROR(check_shape(e, 1, {Dim(2)}));
  Permutation p = permutation(e.b, e.operands[1], Dim(shape_of(e, 0)[static_cast<size_t>(dim)]), DType::I64);
  e.results = {take(e.b, e.operands[0], p.order, dim, "promise"), p.order, p.state};
  return Status::ok();
}

Status expand_multinomial(Expansion& e) {
  Builder& b = e.b;
  Shape shape = shape_of(e, 0);
  if (shape.empty()) return fail(e, "weights has rank 0, expected 1 or more");
  TW_RETURN_IF_ERROR(check_shape(e, 1, {Dim(2)}));
  int64_t samples = e.attributes.get_int("samples"), last = static_cast<int64_t>(shape.size()) - 1;
  if (samples < 0) return fail(e, "samples is ", samples, ", expected 0 or more");
  bool replacement = e.attributes.get_bool("replacement");
  if (!replacement && shape.back().is_constant() && samples > shape.back().constant()) {
    return fail(e, "samples is ", samples, " without replacement, expected at most ",
                shape.back().to_string());
  }
  DType work = work_type(dtype_of(e, 0));
  ValueId w = widened(e, 0);
  if (!replacement) {
    // The largest of log w + Gumbel noise -log(-log u), u = (1 + v) / 2 with v in (-1, 1); both forms of log
    // u are exact up to the logarithm and never 0.
    Uniform v = symmetric_uniform(b, e.operands[1], shape, work);
    ValueId high = b.emit(Op::LogPlusOne, {b.scale(b.shift(v.value, -1), 0.5)});
    ValueId low = b.log(b.scale(b.shift(v.value, 1), 0.5));
    ValueId log_u = b.select(b.compare(v.value, b.zeros_like(v.value), "GT"), high, low);
    ValueId noise = b.negate(b.log(b.negate(log_u)));
    auto top = b.emit_all(Op::TopK, {b.add(b.log(w), noise)}, {{"k", samples}, {"dim", last}});
    if (!b.status().is_ok()) return Status::ok();
    e.results = {top[1], v.state};
    return Status::ok();
  }
  Shape drawn = shape;
  drawn.back() = samples;
  ValueId running = b.emit(Op::CumulativeSum, {w}, {{"dim", last}});
  ValueId total = slice_axis(b, running, last, shape.back() - Dim(1), shape.back());
  Uniform u = uniform(b, e.operands[1], drawn, work);
  ValueId target = b.multiply(u.value, b.broadcast_to(total, drawn));
  ValueId index = b.emit(Op::Searchsorted, {running, target}, {{"side", std::string("right")}});
  ValueId end = b.subtract(axis_size(b, e.operands[0], last, DType::I64), b.integer(1, DType::I64));
  e.results = {b.minimum(index, splat(b, end, drawn)), u.state};
  return Status::ok();
}

Status expand_split_indices(Expansion& e) {
  int64_t n = e.attributes.get_int("n"), train = e.attributes.get_int("train");
  TW_RETURN_IF_ERROR(check_shape(e, 0, {Dim(2)}));
  if (n < 0) return fail(e, "n is ", n, ", expected 0 or more");
  if (train < 0 || train > n) return fail(e, "train is ", train, ", expected 0 to ", n);
  Permutation p = permutation(e.b, e.operands[0], n, DType::I64);
  e.results = {slice_axis(e.b, p.order, 0, 0, train), slice_axis(e.b, p.order, 0, train, n), p.state};
  return Status::ok();
}

Status expand_bucket_by_length(Expansion& e) {
  Builder& b = e.b;
  TW_RETURN_IF_ERROR(check_rank(e, 0, 1));
  TW_RETURN_IF_ERROR(check_rank(e, 1, 1));
  Shape n = shape_of(e, 0);
  ValueId bucket = b.emit(Op::Searchsorted, {e.operands[1], e.operands[0]}, {{"side", std::string("right")}});
  auto sorted = b.emit_all(Op::Sort, {bucket, e.operands[0], b.iota(n, 0, DType::I64)},
                           {{"dim", int64_t{0}}, {"num_keys", int64_t{2}}});
  if (!b.status().is_ok()) return Status::ok();
  e.results = {sorted[2], bucket};
  return Status::ok();
}

}  // namespace tilewright
