// Scaled dot-product attention, its gradient, and rotary embedding.
#include <limits>

#include "ir/expansions/pieces.h"

namespace tilewright {
using namespace expansions;
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
enum Operand { Q = 0, K = 1, V = 2, Mask = 3, State = 4 };

// The shapes and options that forward and backward share.  `first` is the operand index of q.
struct Problem {
  int first = 0;
  Dim b, h, hk, group, s, t, d, dv;
  DType dtype, work;
  bool causal, safe;
  int64_t window;
  double softcap, dropout;

  Shape scores() const { return {b, h, s, t}; }
  // Heads that share keys lie along the rows.
  Shape folded(const Dim& columns) const { return {b, hk, group * s, columns}; }
  Shape unfolded(const Dim& columns) const { return {b, h, s, columns}; }
};

Status check_mask(const Expansion& e, const Problem& p) {
  int index = p.first + Mask;
  if (!e.has(index)) return Status::ok();
  DType dtype = dtype_of(e, index);
  if (dtype != DType::Bool && !is_float(dtype)) {
    return fail(e, "mask is ", dtype_name(dtype), ", expected bool or a float type");
  }
  const Shape &mask = shape_of(e, index), scores = p.scores();
  if (mask.size() > 4) return fail(e, "mask has rank ", mask.size(), ", expected at most 4");
  for (size_t i = 0; i < mask.size(); ++i) {
    const Dim& expected = scores[i + 4 - mask.size()];
    if (mask[i].is_constant(1) || mask[i] == expected) continue;
    return fail(e, "mask dim ", i, " is ", mask[i].to_string(), ", expected 1 or ", expected.to_string());
  }
  return Status::ok();
}

Result<Problem> read_problem(const Expansion& e, int first) {
  Problem p;
  p.first = first;
  for (int i = first; i < first + 3; ++i) TW_RETURN_IF_ERROR(check_rank(e, i, 4));
  const Shape &q = shape_of(e, first + Q), &k = shape_of(e, first + K), &v = shape_of(e, first + V);
  p.b = q[0], p.h = q[1], p.s = q[2], p.d = q[3];
  p.hk = k[1], p.t = k[2], p.dv = v[3];
  TW_RETURN_IF_ERROR(check_shape(e, first + K, {p.b, p.hk, p.t, p.d}));
  TW_RETURN_IF_ERROR(check_shape(e, first + V, {p.b, p.hk, p.t, p.dv}));
  if (p.h == p.hk) {
    p.group = 1;
  } else if (p.hk.is_constant() && p.hk.constant() > 0 && p.h.is_multiple_of(p.hk.constant())) {
    p.group = Dim::floor_div(p.h, p.hk);
  } else {
    return fail(e, "k has ", p.hk.to_string(), " heads, expected a divisor of the ", p.h.to_string(),
                " of q");
  }
  p.dtype = dtype_of(e, first + Q), p.work = work_type(p.dtype);
  p.causal = e.attributes.get_bool("causal"), p.safe = e.attributes.get_bool("safe");
  p.window = e.attributes.get_int("window");
  p.softcap = e.attributes.get_float("softcap"), p.dropout = e.attributes.get_float("dropout");
  if (!(p.dropout >= 0 && p.dropout <= 1)) return fail(e, "dropout is ", p.dropout, ", expected 0 to 1");
  if (p.softcap < 0) return fail(e, "softcap is ", p.softcap, ", expected 0 or more");
  if (e.has(first + State)) TW_RETURN_IF_ERROR(check_shape(e, first + State, {Dim(2)}));
  if (p.dropout > 0 && !e.has(first + State)) return fail(e, "dropout needs a state");
  TW_RETURN_IF_ERROR(check_mask(e, p));
  return p;
}

// scale, or 1 / sqrt(d), as a 0-d value.
ValueId scale_of(Expansion& e, const Problem& p) {
  if (e.attributes.has("scale")) return e.b.constant(e.attributes.get_float("scale"), p.work);
  return e.b.emit(Op::Rsqrt, {axis_size(e.b, e.operands[static_cast<size_t>(p.first + Q)], 3, p.work)});
}

// [b, hk, group s, x] as its work type product with [b, hk, t, x]: [b, hk, group s, t].
ValueId dot(Builder& b, ValueId lhs, ValueId rhs, int64_t lhs_contract, int64_t rhs_contract, DType work) {
  return b.emit(Op::DotGeneral, {lhs, rhs},
                {{"lhs_batch", Ints{0, 1}},
                 {"rhs_batch", Ints{0, 1}},
                 {"lhs_contract", Ints{lhs_contract}},
                 {"rhs_contract", Ints{rhs_contract}},
                 {"out_type", work}});
}

// Where positions alone allow row i to attend to column j; invalid when they always do.
ValueId allowed_positions(Builder& b, const Problem& p) {
  if (!p.causal && p.window < 0) return {};
  Shape grid{p.s, p.t};
  ValueId distance = b.subtract(b.iota(grid, 0, DType::I64), b.iota(grid, 1, DType::I64));
  ValueId allowed;
  if (p.causal) allowed = b.compare(distance, b.zeros_like(distance), "GE");
  if (p.window >= 0) {
    if (!p.causal) distance = b.emit(Op::Abs, {distance});
    ValueId near = b.compare(distance, b.integer(p.window, DType::I64, grid), "LT");
    allowed = allowed.is_valid() ? b.emit(Op::And, {allowed, near}) : near;
  }
  return b.broadcast_to(allowed, p.scores());
}

struct Scores {
  ValueId value;   // [b, h, s, t], masked with -inf
  ValueId capped;  // tanh of the soft cap, or invalid
  ValueId scale;
};

Scores masked_scores(Expansion& e, const Problem& p) {
  Builder& b = e.b;
  auto operand = [&](int index) { return e.operands[static_cast<size_t>(p.first + index)]; };
  Scores r;
  r.scale = scale_of(e, p);
  ValueId raw = dot(b, b.reshape(operand(Q), p.folded(p.d)), operand(K), 3, 3, p.work);
  ValueId x = b.multiply(b.reshape(raw, p.scores()), splat(b, r.scale, p.scores()));
  if (p.softcap > 0) {
    r.capped = b.emit(Op::Tanh, {b.divide(x, b.constant(p.softcap, p.work, p.scores()))});
    x = b.scale(r.capped, p.softcap);
  }
  ValueId minus_infinity = b.constant(-kInfinity, p.work, p.scores());
  if (e.has(p.first + Mask)) {
    ValueId mask = operand(Mask);
    x = b.status().is_ok() && b.dtype(mask) == DType::Bool
            ? b.select(b.broadcast_to(mask, p.scores()), x, minus_infinity)
            : b.add(x, b.broadcast_to(b.convert(mask, p.work), p.scores()));
  }
  ValueId allowed = allowed_positions(b, p);
  if (allowed.is_valid()) x = b.select(allowed, x, minus_infinity);
  r.value = x;
  return r;
}

// Probabilities that survive dropout, divided by 1 - p; word i belongs to flat index i of [b, h, s, t].
ValueId drop(Builder& b, const Problem& p, ValueId keep, ValueId x) {
  if (!keep.is_valid()) return x;
  ValueId scaled = p.dropout < 1 ? b.divide(x, b.constant_like(1 - p.dropout, x)) : x;
  return b.select(keep, scaled, b.zeros_like(x));
}

struct Kept {
  ValueId keep, state;
};
// With dropout the generator advances the state; without, the state advances as if it had run.
Kept draw(Expansion& e, const Problem& p) {
  Builder& b = e.b;
  int index = p.first + State;
  if (!e.has(index)) return {{}, b.integer(0, DType::U64, {Dim(2)})};
  ValueId state = e.operands[static_cast<size_t>(index)];
  if (p.dropout > 0) {
    Uniform u = uniform(b, state, p.scores(), DType::F32);
    return {b.compare(u.value, b.constant(p.dropout, DType::F32, p.scores()), "GE"), u.state};
  }
  ValueId q = e.operands[static_cast<size_t>(p.first + Q)], k = e.operands[static_cast<size_t>(p.first + K)];
  ValueId count = b.multiply(element_count(b, q, {0, 1, 2}, DType::I64), axis_size(b, k, 2, DType::I64));
  ValueId blocks = b.divide(b.add(count, b.integer(3, DType::I64)), b.integer(4, DType::I64));
  ValueId second = b.iota({Dim(2)}, 0, DType::U64);
  return {{}, b.add(state, b.multiply(second, splat(b, b.convert(blocks, DType::U64), {Dim(2)})))};
}

ValueId nothing_to_zero(Builder& b, ValueId x) {
  return b.select(b.compare(x, b.constant_like(-kInfinity, x), "EQ"), b.zeros_like(x), x);
}

}  // namespace

Status expand_attention(Expansion& e) {
  Builder& b = e.b;
  TW_ASSIGN_OR_RETURN(Problem p, read_problem(e, 0));
  Shape scores = p.scores();
  ValueId x = masked_scores(e, p).value;
  ValueId max = b.reduce_max(x, {3});
  ValueId pivot = p.safe ? nothing_to_zero(b, max) : max;
  ValueId powers = b.exponential(b.subtract(x, b.broadcast_reduced(pivot, scores, {3})));
  ValueId sum = b.reduce_sum(powers, {3});
  ValueId factor = b.divide(b.constant_like(1, sum), sum);
  if (p.safe) factor = b.select(b.compare(sum, b.zeros_like(sum), "EQ"), b.zeros_like(sum), factor);
  ValueId lse = b.add(b.log(sum), pivot);
  Kept kept = draw(e, p);
  ValueId weights = drop(b, p, kept.keep, b.multiply(powers, b.broadcast_reduced(factor, scores, {3})));
  ValueId o = dot(b, b.reshape(weights, p.folded(p.t)), b.convert(e.operands[V], p.work), 3, 2, p.work);
  e.results = {b.convert(b.reshape(o, p.unfolded(p.dv)), p.dtype), b.convert(lse, p.work), kept.state};
  return Status::ok();
}

namespace {

// Sums a gradient over the dims that the mask repeats.
ValueId mask_gradient(Expansion& e, const Problem& p, ValueId dscores) {
  Builder& b = e.b;
  int index = p.first + Mask;
  if (!e.attributes.get_bool("mask_grad")) return b.constant(0, DType::F32, {Dim(0)});
  Shape mask = shape_of(e, index), scores = p.scores();
  Ints dims;
  for (int64_t i = 0; i < 4; ++i) {
    int64_t at = i - (4 - static_cast<int64_t>(mask.size()));
    bool repeats = at < 0 || (mask[static_cast<size_t>(at)] != scores[static_cast<size_t>(i)]);
    if (repeats) dims.push_back(i);
  }
  return b.convert(b.reshape(dims.empty() ? dscores : b.reduce_sum(dscores, dims), mask), dtype_of(e, index));
}

}  // namespace

Status expand_attention_grad(Expansion& e) {
  Builder& b = e.b;
  TW_ASSIGN_OR_RETURN(Problem p, read_problem(e, 1));
  constexpr int kOutput = 6, kLse = 7;
  TW_RETURN_IF_ERROR(check_shape(e, 0, p.unfolded(p.dv)));
  TW_RETURN_IF_ERROR(check_shape(e, kOutput, p.unfolded(p.dv)));
  TW_RETURN_IF_ERROR(check_shape(e, kLse, {p.b, p.h, p.s}));
  if (e.attributes.get_bool("mask_grad") &&
      !(e.has(p.first + Mask) && is_float(dtype_of(e, p.first + Mask)))) {
    return fail(e, "mask_grad is set, expected a mask of a float type");
  }
  Shape scores = p.scores();
  ValueId g = widened(e, 0), v = b.convert(e.operands[static_cast<size_t>(p.first + V)], p.work);
  ValueId lse = b.convert(e.operands[kLse], p.work);
  if (p.safe) lse = nothing_to_zero(b, lse);
  Scores x = masked_scores(e, p);
  ValueId weights = b.exponential(b.subtract(x.value, b.broadcast_reduced(lse, scores, {3})));
  Kept kept = p.dropout > 0 ? draw(e, p) : Kept{};
  ValueId folded_g = b.reshape(g, p.folded(p.dv));
  ValueId dropped = b.reshape(drop(b, p, kept.keep, weights), p.folded(p.t));
  ValueId dv = dot(b, dropped, folded_g, 2, 2, p.work);
  ValueId dweights = drop(b, p, kept.keep, b.reshape(dot(b, folded_g, v, 3, 3, p.work), scores));
  ValueId row = b.reduce_sum(b.multiply(g, widened(e, kOutput)), {3});
  ValueId dscores = b.multiply(weights, b.subtract(dweights, b.broadcast_reduced(row, scores, {3})));
  ValueId dmask = mask_gradient(e, p, dscores);
  if (x.capped.is_valid()) {
    ValueId slope = b.subtract(b.constant_like(1, x.capped), b.multiply(x.capped, x.capped));
    dscores = b.multiply(dscores, slope);
  }
  ValueId inner = b.reshape(b.multiply(dscores, splat(b, x.scale, scores)), p.folded(p.t));
  ValueId q = b.convert(b.reshape(e.operands[static_cast<size_t>(p.first + Q)], p.folded(p.d)), p.work);
  ValueId k = b.convert(e.operands[static_cast<size_t>(p.first + K)], p.work);
  ValueId dq = b.reshape(dot(b, inner, k, 3, 2, p.work), p.unfolded(p.d)),
          dk = dot(b, inner, q, 2, 2, p.work);
  e.results = {b.convert(dq, p.dtype), b.convert(dk, p.dtype), b.convert(dv, p.dtype), dmask};
  return Status::ok();
}

Status expand_rope(Expansion& e) {
  Builder& b = e.b;
  Shape shape = shape_of(e, 0);
  if (shape.size() < 2) return fail(e, "x has rank ", shape.size(), ", expected 2 or more");
  int64_t last = static_cast<int64_t>(shape.size()) - 1;
  if (!shape.back().is_multiple_of(2))
    return fail(e, "the last dim of x is ", shape.back().to_string(), ", expected an even size");
  Dim half = Dim::floor_div(shape.back(), Dim(2));
  Shape halves = shape;
  halves.back() = half;
  TW_RETURN_IF_ERROR(check_same_shape(e, 2, 1));
  DType dtype = dtype_of(e, 0);
  DType work = dtype == DType::F64 || dtype_of(e, 1) == DType::F64 ? DType::F64 : DType::F32;
  ValueId x = b.convert(e.operands[0], work);
  ValueId cos = b.broadcast_to(b.convert(e.operands[1], work), halves);
  ValueId sin = b.broadcast_to(b.convert(e.operands[2], work), halves);
  bool interleaved = e.attributes.get_bool("interleaved");
  Shape pairs = halves;
  pairs.push_back(2);
  ValueId first, second;
  if (interleaved) {
    ValueId split = b.reshape(x, pairs);
    first = b.reshape(slice_axis(b, split, last + 1, 0, 1), halves);
    second = b.reshape(slice_axis(b, split, last + 1, 1, 2), halves);
  } else {
    first = slice_axis(b, x, last, 0, half);
    second = slice_axis(b, x, last, half, shape.back());
  }
  ValueId a = b.subtract(b.multiply(first, cos), b.multiply(second, sin));
  ValueId c = b.add(b.multiply(second, cos), b.multiply(first, sin));
  ValueId y;
  if (interleaved) {
    Shape one = halves;
    one.push_back(1);
    y = b.reshape(b.concatenate({b.reshape(a, one), b.reshape(c, one)}, last + 1), shape);
  } else {
    y = b.concatenate({a, c}, last);
  }
  e.results = {b.convert(y, dtype)};
  return Status::ok();
}

}  // namespace tilewright
