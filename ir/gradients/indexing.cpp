// Gradients of gather and scatter: each is the other's transpose.
#include <functional>

#include "ir/gradients/rules.h"

namespace tilewright {

using namespace gradients;

namespace {

AttributeMap renamed(const Gradient& g, std::initializer_list<std::pair<const char*, const char*>> names) {
  AttributeMap attributes;
  for (auto [from, to] : names) {
    if (const Attribute* value = find_attribute(g.node.op, g.node.attributes, from))
      attributes.emplace(to, *value);
  }
  return attributes;
}

// A gather that met a bad index gave 0 there: its transpose drops it without a second report.
std::string transposed_policy(const Gradient& g) {
  const std::string& oob = g.attributes.get_string("oob");
  return oob == "error" ? "drop" : oob;
}

// A scatter seen from outside its index arithmetic: put updates into a base, take a base's values at the
// updates.
struct Scatter {
  Builder& b;
  std::function<ValueId(ValueId base, ValueId updates, const char* kind)> put;
  std::function<ValueId(ValueId base)> take;
  bool unique;

  ValueId count(ValueId hits, const Shape& shape) { return put(zeros(b, b.dtype(hits), shape), hits, "add"); }
};

// The last update at each place wins: number the updates and see whose number is left.
ValueId winners(Gradient& g, Scatter& s) {
  Builder& b = g.b;
  Shape shape = shape_of(g, 2);
  Dim count = b.type(g.operands[2]).elements();
  ValueId number = b.reshape(b.iota({count}, 0, DType::I64), shape);
  ValueId left = s.put(b.integer(-1, DType::I64, shape_of(g, 0)), number, "set");
  return b.compare(s.take(left), number, "EQ");
}

Status set_gradient(Gradient& g, Scatter& s) {
  Builder& b = g.b;
  ValueId c = g.cotangent();
  if (g.wants(0)) g.gradients[0] = s.put(c, b.zeros_like(g.operands[2]), "set");
  if (g.wants(2)) {
    ValueId taken = s.take(c);
    g.gradients[2] = s.unique ? taken : keep_where(b, winners(g, s), taken);
  }
  return Status::ok();
}

// The product without one factor: zeros are counted, so that none is divided by.
Status multiply_gradient(Gradient& g, Scatter& s) {
  Builder& b = g.b;
  ValueId c = g.cotangent(), x = g.operands[0], updates = g.operands[2];
  ValueId one = b.constant_like(1, x);
  if (g.wants(0)) g.gradients[0] = b.multiply(c, s.put(one, updates, "mul"));
  if (!g.wants(2)) return Status::ok();
  ValueId incoming = s.take(b.multiply(c, x));
  if (!s.unique) {
    ValueId unit = b.constant_like(1, updates);
    ValueId is_zero = b.compare(updates, b.zeros_like(updates), "EQ");
    ValueId safe = b.select(is_zero, unit, updates);
    ValueId others = b.divide(s.take(s.put(one, safe, "mul")), safe);
    ValueId own = b.convert(is_zero, DType::I32);
    ValueId zeros_there = s.take(s.count(own, shape_of(g, 0)));
    incoming = keep_where(b, b.compare(zeros_there, own, "EQ"), b.multiply(incoming, others));
  }
  g.gradients[2] = incoming;
  return Status::ok();
}

// Everything that equals the result shares.
Status extreme_gradient(Gradient& g, Scatter& s) {
  Builder& b = g.b;
  DType dtype = dtype_of(g, 0), wide = accumulation_type(dtype);
  ValueId x = g.operands[0], y = g.results[0], updates = g.operands[2];
  ValueId kept = b.compare(x, y, "EQ"), won = b.compare(updates, s.take(y), "EQ");
  ValueId count = b.add(b.convert(kept, wide), s.count(b.convert(won, wide), shape_of(g, 0)));
  ValueId share = b.convert(b.divide(b.convert(g.cotangent(), wide), count), dtype);
  if (g.wants(0)) g.gradients[0] = keep_where(b, kept, share);
  if (g.wants(2)) g.gradients[2] = keep_where(b, won, s.take(share));
  return Status::ok();
}

Status scatter_gradient(Gradient& g, Scatter& s) {
  const std::string& kind = g.attributes.get_string("kind");
  if (kind == "set") return set_gradient(g, s);
  if (kind == "mul") return multiply_gradient(g, s);
  if (kind != "add") return extreme_gradient(g, s);
  if (g.wants(0)) g.gradients[0] = g.cotangent();
  if (g.wants(2)) g.gradients[2] = s.take(g.cotangent());
  return Status::ok();
}

}  // namespace

Status gradient_gather(Gradient& g) {
  AttributeMap attributes = renamed(g, {{"offset_dims", "update_window_dims"},
                                        {"collapsed", "inserted"},
                                        {"operand_batching", "input_batching"},
                                        {"indices_batching", "indices_batching"},
                                        {"start_index_map", "scatter_map"},
                                        {"index_vector_dim", "index_vector_dim"},
                                        {"sorted", "sorted"},
                                        {"unique", "unique"}});
  attributes["kind"] = std::string("add");
  attributes["oob"] = transposed_policy(g);
  g.gradients[0] =
      g.b.emit(Op::Scatter, {g.b.zeros_like(g.operands[0]), g.operands[1], g.cotangent()}, attributes);
  return Status::ok();
}

Status gradient_scatter(Gradient& g) {
  Builder& b = g.b;
  AttributeMap put = g.node.attributes;
  put["oob"] = transposed_policy(g);
  AttributeMap take = renamed(g, {{"update_window_dims", "offset_dims"},
                                  {"inserted", "collapsed"},
                                  {"input_batching", "operand_batching"},
                                  {"indices_batching", "indices_batching"},
                                  {"scatter_map", "start_index_map"},
                                  {"index_vector_dim", "index_vector_dim"},
                                  {"sorted", "sorted"},
                                  {"unique", "unique"}});
  take["oob"] = transposed_policy(g);
  // The window of each update: 1 in dims that are inserted or batched.
  const Ints& window_dims = g.attributes.get_ints("update_window_dims");
  Ints gone = g.attributes.get_ints("inserted");
  const Ints& batching = g.attributes.get_ints("input_batching");
  gone.insert(gone.end(), batching.begin(), batching.end());
  Shape sizes(b.rank(g.operands[0]), Dim(1)), updates = shape_of(g, 2);
  size_t next = 0;
  for (int64_t dim : other_dims(b.rank(g.operands[0]), gone)) sizes[dim] = updates[window_dims[next++]];
  take["slice_sizes"] = sizes;
  Scatter s{b,
            [&](ValueId base, ValueId values, const char* kind) {
              AttributeMap attributes = put;
              attributes["kind"] = std::string(kind);
              return b.emit(Op::Scatter, {base, g.operands[1], values}, attributes);
            },
            [&](ValueId base) { return b.emit(Op::Gather, {base, g.operands[1]}, take); },
            g.attributes.get_bool("unique")};
  return scatter_gradient(g, s);
}

Status gradient_gather_elements(Gradient& g) {
  g.gradients[0] = g.b.emit(
      Op::ScatterElements, {g.b.zeros_like(g.operands[0]), g.operands[1], g.cotangent()},
      {{"dim", g.attributes.get_int("dim")}, {"kind", std::string("add")}, {"oob", transposed_policy(g)}});
  return Status::ok();
}

Status gradient_scatter_elements(Gradient& g) {
  Builder& b = g.b;
  AttributeMap put = g.node.attributes;
  put["oob"] = transposed_policy(g);
  AttributeMap take{{"dim", g.attributes.get_int("dim")}, {"oob", transposed_policy(g)}};
  Scatter s{b,
            [&](ValueId base, ValueId values, const char* kind) {
              AttributeMap attributes = put;
              attributes["kind"] = std::string(kind);
              return b.emit(Op::ScatterElements, {base, g.operands[1], values}, attributes);
            },
            [&](ValueId base) { return b.emit(Op::GatherElements, {base, g.operands[1]}, take); }, false};
  return scatter_gradient(g, s);
}

Status gradient_histogram(Gradient& g) {
  Builder& b = g.b;
  if (!g.wants(1)) return Status::ok();
  ValueId taken = b.emit(Op::Gather, {g.cotangent(), g.operands[0]},
                         {{"offset_dims", Ints{}},
                          {"collapsed", Ints{0}},
                          {"start_index_map", Ints{0}},
                          {"index_vector_dim", static_cast<int64_t>(b.rank(g.operands[0]))},
                          {"slice_sizes", Shape{Dim(1)}},
                          {"oob", std::string("drop")}});
  g.gradients[1] = taken;
  return Status::ok();
}

// ---- sorting ----

Status gradient_sort(Gradient& g) {
  Builder& b = g.b;
  int64_t dim = g.attributes.get_int("dim");
  ValueId order;
  if (g.plan) {
    order = g.results[g.plan->permutation_result];
  } else {
    std::vector<ValueId> operands = g.operands;
    operands.push_back(b.iota(shape_of(g, 0), dim, DType::I64));
    std::vector<ValueId> sorted = b.emit_all(Op::Sort, operands, g.node.attributes);
    order = sorted.back();
  }
  for (size_t i = 0; i < g.operands.size(); ++i) {
    if (!g.wants(static_cast<int>(i)) || !g.cotangents[i].is_valid()) continue;
    g.gradients[i] =
        b.emit(Op::ScatterElements, {b.zeros_like(g.operands[i]), order, g.cotangents[i]}, {{"dim", dim}});
  }
  return Status::ok();
}

Status gradient_top_k(Gradient& g) {
  if (!g.cotangents[0].is_valid()) return Status::ok();
  g.gradients[0] = g.b.emit(Op::ScatterElements, {g.b.zeros_like(g.operands[0]), g.results[1], g.cotangent()},
                            {{"dim", g.attributes.get_int("dim")}});
  return Status::ok();
}

}  // namespace tilewright
