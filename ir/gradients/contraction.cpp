// Gradients of contractions.
#include <algorithm>
#include <numeric>

#include "ir/gradients/rules.h"

namespace tilewright {

using namespace gradients;

namespace {

DType wider(DType a, DType b) { return dtype_bytes(a) >= dtype_bytes(b) ? a : b; }

Ints joined(const Ints& a, const Ints& b) {
  Ints all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

Ints counted(size_t first, size_t count) {
  Ints values(count);
  std::iota(values.begin(), values.end(), static_cast<int64_t>(first));
  return values;
}

// One side of dot_general as the gradient sees it.
struct Side {
  Ints batch, contract, free;
};

// The gradient for the operand with dims `own`: the cotangent, whose dims of the other side's free part start
// at `other_free_at`, contracted with the other operand.  Of the two orders of the product, the one that
// needs no transpose.
ValueId dot_gradient(Gradient& g, int operand, const Side& own, const Side& other, size_t other_free_at) {
  Builder& b = g.b;
  DType dtype = dtype_of(g, operand), work = wider(dtype, b.dtype(g.cotangent()));
  // The other's contracted dims appear in rising order.
  Ints order(other.contract.size()), contract;
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int64_t i, int64_t j) { return other.contract[i] < other.contract[j]; });
  for (int64_t i : order) contract.push_back(own.contract[i]);
  Ints cotangent_first = joined(own.batch, joined(own.free, contract));
  Ints partner_first = joined(own.batch, joined(contract, own.free));
  bool swapped = std::is_sorted(partner_first.begin(), partner_first.end()) &&
                 !std::is_sorted(cotangent_first.begin(), cotangent_first.end());
  AttributeMap attributes = pick_attributes(g, {"precision"});
  if (g.attributes.has("accumulate_type")) {
    attributes["accumulate_type"] = wider(g.attributes.get_dtype("accumulate_type", work), work);
  }
  ValueId c = b.convert(g.cotangent(), work), partner = b.convert(g.operands[1 - operand], work);
  attributes[swapped ? "rhs_batch" : "lhs_batch"] = counted(0, own.batch.size());
  attributes[swapped ? "lhs_batch" : "rhs_batch"] = other.batch;
  attributes[swapped ? "rhs_contract" : "lhs_contract"] = counted(other_free_at, other.free.size());
  attributes[swapped ? "lhs_contract" : "rhs_contract"] = other.free;
  if (work != dtype) attributes["out_type"] = dtype;
  if (swapped) std::swap(c, partner);
  ValueId product = b.emit(Op::DotGeneral, {c, partner}, attributes);
  return b.transpose(product, inverse_permutation(swapped ? partner_first : cotangent_first));
}

}  // namespace

Status gradient_dot_general(Gradient& g) {
  Side lhs{g.attributes.get_ints("lhs_batch"), g.attributes.get_ints("lhs_contract"), {}};
  Side rhs{g.attributes.get_ints("rhs_batch"), g.attributes.get_ints("rhs_contract"), {}};
  lhs.free = other_dims(g.b.rank(g.operands[0]), joined(lhs.batch, lhs.contract));
  rhs.free = other_dims(g.b.rank(g.operands[1]), joined(rhs.batch, rhs.contract));
  size_t batch = lhs.batch.size();
  if (g.wants(0)) g.gradients[0] = dot_gradient(g, 0, lhs, rhs, batch + lhs.free.size());
  if (g.wants(1)) g.gradients[1] = dot_gradient(g, 1, rhs, lhs, batch);
  return Status::ok();
}

// ---- ragged_dot ----

// For one group: rows of lhs in [start, end) times the same rows of the cotangent.
static RegionRef group_product(const TensorType& lhs, const TensorType& cotangent, DType out,
                               const std::vector<Symbol>& symbols) {
  auto region = std::make_shared<Graph>();
  region->symbols = symbols;
  ValueId rows = region->add_input({}, lhs), c = region->add_input({}, cotangent);
  ValueId start = region->add_input({}, {DType::I64, {}}), end = region->add_input({}, {DType::I64, {}});
  Builder b(*region);
  ValueId row = b.iota(lhs.shape, 0, DType::I64);
  ValueId inside = b.emit(Op::And, {b.compare(row, b.broadcast(start, lhs.shape, {}), "GE"),
                                    b.compare(row, b.broadcast(end, lhs.shape, {}), "LT")});
  ValueId product = b.emit(Op::DotGeneral, {keep_where(b, inside, rows), c},
                           {{"lhs_contract", Ints{0}}, {"rhs_contract", Ints{0}}, {"out_type", out}});
  region->symbols.clear();
  for (ValueId value : {rows, c, product}) region->add_output(value);
  return b.status().is_ok() ? region : nullptr;
}

Status gradient_ragged_dot(Gradient& g) {
  Builder& b = g.b;
  DType dtype = dtype_of(g, 0), work = wider(dtype, b.dtype(g.cotangent()));
  ValueId c = b.convert(g.cotangent(), work);
  if (g.wants(0)) {
    ValueId turned = b.transpose(b.convert(g.operands[1], work), {0, 2, 1});
    AttributeMap attributes = pick_attributes(g, {"accumulate_type"});
    if (work != dtype) attributes["out_type"] = dtype;
    g.gradients[0] = b.emit(Op::RaggedDot, {c, turned, g.operands[2]}, attributes);
  }
  if (g.wants(1)) {
    ValueId sizes = b.convert(g.operands[2], DType::I64);
    ValueId ends = b.emit(Op::CumulativeSum, {sizes}, {{"dim", int64_t{0}}});
    ValueId starts = b.subtract(ends, sizes);
    ValueId lhs = b.convert(g.operands[0], work);
    RegionRef region = group_product(b.type(lhs), b.type(c), dtype, b.graph().symbols);
    TW_ASSERT(region || !b.status().is_ok());
    Shape length{shape_of(g, 1)[0]};
    std::vector<ValueId> results =
        b.emit_all(Op::Scan, {lhs, c, starts, ends}, {{"length", length}, {"carries", int64_t{2}}}, {region});
    if (b.status().is_ok()) g.gradients[1] = results[2];
  }
  return Status::ok();
}

// ---- convolution ----

namespace {

// A convolution node with its attributes spelled out.
struct Convolution {
  Ints strides, lo, hi, base, dilation, x_dims, w_dims, y_dims;
  int64_t feature_groups, batch_groups;
  size_t spatial;
};

Ints or_filled(const Ints& values, size_t count, int64_t fallback) {
  return values.empty() ? Ints(count, fallback) : values;
}

Convolution read_convolution(const Gradient& g) {
  size_t rank = static_cast<size_t>(g.b.rank(g.operands[0])), spatial = rank - 2;
  auto per_dim = [&](const char* name, int64_t fallback) {
    return or_filled(g.attributes.get_ints(name), spatial, fallback);
  };
  auto numbers = [&](const char* name) {
    const Ints& dims = g.attributes.get_ints(name);
    return dims.empty() ? counted(0, rank) : dims;
  };
  return {per_dim("strides", 1),
          per_dim("pad_lo", 0),
          per_dim("pad_hi", 0),
          per_dim("lhs_dilation", 1),
          per_dim("rhs_dilation", 1),
          numbers("x_dims"),
          numbers("w_dims"),
          numbers("y_dims"),
          g.attributes.get_int("feature_groups"),
          g.attributes.get_int("batch_groups"),
          spatial};
}

// Emits a convolution whose padding may be symbolic: symbolic padding becomes a pad of x.
ValueId convolve(Gradient& g, ValueId x, ValueId w, const Convolution& c, const Shape& lo, const Shape& hi) {
  Builder& b = g.b;
  Convolution static_part = c;
  if (is_static(lo) && is_static(hi)) {
    static_part.lo = static_sizes(lo);
    static_part.hi = static_sizes(hi);
  } else {
    Shape pad_lo(b.rank(x), Dim(0)), pad_hi = pad_lo;
    Ints interior(b.rank(x), 0);
    for (size_t i = 0; i < c.spatial; ++i) {
      int64_t dim = c.x_dims[i + 2];
      pad_lo[dim] = lo[i];
      pad_hi[dim] = hi[i];
      interior[dim] = c.base[i] - 1;
    }
    x = b.pad(x, b.constant(0, b.dtype(x)), pad_lo, pad_hi, interior);
    static_part.lo = static_part.hi = Ints(c.spatial, 0);
    static_part.base = Ints(c.spatial, 1);
  }
  AttributeMap attributes = pick_attributes(g, {"precision"});
  attributes["strides"] = c.strides;
  attributes["pad_lo"] = static_part.lo;
  attributes["pad_hi"] = static_part.hi;
  attributes["lhs_dilation"] = static_part.base;
  attributes["rhs_dilation"] = c.dilation;
  attributes["feature_groups"] = c.feature_groups;
  attributes["batch_groups"] = c.batch_groups;
  attributes["x_dims"] = c.x_dims;
  attributes["w_dims"] = c.w_dims;
  attributes["y_dims"] = c.y_dims;
  return b.emit(Op::Convolution, {x, w}, attributes);
}

// [.., a, .., groups*b, ..] -> [.., groups*a, .., b, ..]: the groups of dim `from` move in front of dim `to`.
ValueId move_groups(Builder& b, ValueId x, int64_t from, int64_t to, int64_t groups) {
  if (groups == 1) return x;
  Shape shape = b.shape(x), split, merged = shape;
  for (int64_t i = 0; i < b.rank(x); ++i) {
    if (i == from) split.push_back(Dim(groups));
    split.push_back(i == from ? Dim::floor_div(shape[i], Dim(groups)) : shape[i]);
  }
  merged[from] = Dim::floor_div(shape[from], Dim(groups));
  merged[to] = shape[to] * Dim(groups);
  Ints perm = other_dims(static_cast<int>(split.size()), {from});
  // Position of dim `to` in the split shape, then in the list without the group dim.
  int64_t at = to > from ? to + 1 : to;
  perm.insert(std::find(perm.begin(), perm.end(), at), from);
  return b.reshape(b.transpose(b.reshape(x, split), perm), merged);
}

// The cotangent convolved with the reversed kernel, input and output features exchanged.
ValueId input_gradient(Gradient& g, const Convolution& c) {
  Builder& b = g.b;
  Shape x = shape_of(g, 0), w = shape_of(g, 1);
  const auto& symbols = b.graph().symbols;
  int64_t groups = c.feature_groups * c.batch_groups;
  Convolution back = c;
  back.strides = c.base;
  back.base = c.strides;
  back.x_dims = c.y_dims;
  back.y_dims = c.x_dims;
  std::swap(back.w_dims[0], back.w_dims[1]);
  back.feature_groups = groups;
  back.batch_groups = 1;
  Ints spatial_dims(c.w_dims.begin() + 2, c.w_dims.end());
  ValueId kernel = b.emit(Op::Reverse, {g.operands[1]}, {{"dims", spatial_dims}});
  kernel = move_groups(b, kernel, c.w_dims[0], c.w_dims[1], groups);
  Shape lo, hi;
  for (size_t i = 0; i < c.spatial; ++i) {
    Dim kernel_size = dilated_size(w[c.w_dims[i + 2]], c.dilation[i], symbols);
    Dim size = x[c.x_dims[i + 2]],
        got = dilated_size(b.shape(g.cotangent())[c.y_dims[i + 2]], c.strides[i], symbols);
    lo.push_back(kernel_size - Dim(1) - Dim(c.lo[i]));
    Dim exact = (size - Dim(1)) * Dim(c.base[i]) + kernel_size - got - lo.back();
    hi.push_back(exact.is_constant() ? exact : kernel_size - Dim(1));
  }
  ValueId dx = convolve(g, g.cotangent(), kernel, back, lo, hi);
  // With symbolic sizes the result reaches as far as the windows do.
  for (size_t i = 0; i < c.spatial; ++i) dx = resize(b, dx, c.x_dims[i + 2], x[c.x_dims[i + 2]]);
  // With batch groups each group of features belongs to its part of the batch.
  return move_groups(b, dx, c.x_dims[1], c.x_dims[0], c.batch_groups);
}

// The input convolved with the cotangent, batch and features exchanged.
ValueId kernel_gradient(Gradient& g, const Convolution& c) {
  Builder& b = g.b;
  Shape w = shape_of(g, 1);
  Convolution back = c;
  back.strides = c.dilation;
  back.dilation = c.strides;
  std::swap(back.x_dims[0], back.x_dims[1]);
  back.w_dims = c.y_dims;
  std::swap(back.w_dims[0], back.w_dims[1]);
  back.y_dims = c.w_dims;
  std::swap(back.y_dims[0], back.y_dims[1]);
  back.feature_groups = c.batch_groups;
  back.batch_groups = c.feature_groups;
  Shape hi = to_shape(c.hi);
  for (size_t i = 0; i < c.spatial; ++i) {
    // Less padding where the last windows did not reach the end.
    Dim size = dilated_size(shape_of(g, 0)[c.x_dims[i + 2]], c.base[i], b.graph().symbols);
    Dim got = dilated_size(b.shape(g.cotangent())[c.y_dims[i + 2]], c.strides[i], b.graph().symbols);
    Dim exact = (w[c.w_dims[i + 2]] - Dim(1)) * Dim(c.dilation[i]) + got - size - Dim(c.lo[i]);
    if (exact.is_constant()) hi[i] = exact;
  }
  ValueId dw = convolve(g, g.operands[0], g.cotangent(), back, to_shape(c.lo), hi);
  for (size_t i = 0; i < c.spatial; ++i) dw = resize(b, dw, c.w_dims[i + 2], w[c.w_dims[i + 2]]);
  return dw;
}

}  // namespace

Status gradient_convolution(Gradient& g) {
  Convolution c = read_convolution(g);
  if (g.wants(0)) g.gradients[0] = input_gradient(g, c);
  if (g.wants(1)) g.gradients[1] = kernel_gradient(g, c);
  return Status::ok();
}

}  // namespace tilewright
