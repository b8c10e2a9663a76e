// Recurrent cells, their scans over time, and the selective scan.
#include <array>
#include <memory>

#include "ir/expansions/pieces.h"

namespace tilewright {
using namespace expansions;
namespace {

// x [n, i] times w [j, i] transposed, in the work type.
ValueId project(Builder& b, ValueId x, ValueId w, DType work) {
  if (!b.status().is_ok()) return {};
  int64_t last = b.rank(x) - 1;
  return b.emit(Op::DotGeneral, {x, w},
                {{"lhs_contract", Ints{last}}, {"rhs_contract", Ints{1}}, {"out_type", work}});
}

ValueId add_bias(Builder& b, ValueId x, ValueId bias, DType work) {
  if (!b.status().is_ok()) return {};
  return b.add(x, b.broadcast(b.convert(bias, work), Shape(b.shape(x)), {b.rank(x) - 1}));
}

// Part `index` of the gates along the last dim.
ValueId gate(Builder& b, ValueId gates, int64_t index, const Dim& hidden) {
  if (!b.status().is_ok()) return {};
  return slice_axis(b, gates, b.rank(gates) - 1, Dim(index) * hidden, Dim(index + 1) * hidden);
}

struct State {
  ValueId h, c;
};

// From the sum of all projections, in the work type; positions of the gates i, f, g, o.
State lstm_step(Builder& b, ValueId gates, ValueId c, const Dim& hidden,
                const std::array<int64_t, 4>& order) {
  ValueId i = b.emit(Op::Logistic, {gate(b, gates, order[0], hidden)});
  ValueId f = b.emit(Op::Logistic, {gate(b, gates, order[1], hidden)});
  ValueId g = b.emit(Op::Tanh, {gate(b, gates, order[2], hidden)});
  ValueId o = b.emit(Op::Logistic, {gate(b, gates, order[3], hidden)});
  ValueId next = b.add(b.multiply(f, c), b.multiply(i, g));
  return {b.multiply(o, b.emit(Op::Tanh, {next})), next};
}
constexpr std::array<int64_t, 4> kInputForgetCellOutput{0, 1, 2, 3}, kInputOutputForgetCell{0, 2, 3, 1};

// h' = n + z (h - n) as (1 - z) n + z h, with n = tanh(x_n + r h_n).
ValueId gru_step(Builder& b, ValueId from_x, ValueId from_h, ValueId h, const Dim& hidden) {
  auto both = [&](int64_t k) { return b.add(gate(b, from_x, k, hidden), gate(b, from_h, k, hidden)); };
  ValueId r = b.emit(Op::Logistic, {both(0)}), z = b.emit(Op::Logistic, {both(1)});
  ValueId n =
      b.emit(Op::Tanh, {b.add(gate(b, from_x, 2, hidden), b.multiply(r, gate(b, from_h, 2, hidden)))});
  return b.add(b.multiply(b.subtract(b.constant_like(1, z), z), n), b.multiply(z, h));
}

// x [.., n, i], h [n, hidden], weights [gates hidden, i] and [gates hidden, hidden], biases [gates hidden].
Status check_cell(const Expansion& e, int rank, int w_ih, int64_t gates, std::initializer_list<int> biases) {
  TW_RETURN_IF_ERROR(check_rank(e, 0, rank));
  TW_RETURN_IF_ERROR(check_rank(e, 1, 2));
  const Shape &x = shape_of(e, 0), &h = shape_of(e, 1);
  TW_RETURN_IF_ERROR(check_shape(e, 1, {x[x.size() - 2], h[1]}));
  Dim rows = Dim(gates) * h[1];
  TW_RETURN_IF_ERROR(check_shape(e, w_ih, {rows, x.back()}));
  TW_RETURN_IF_ERROR(check_shape(e, w_ih + 1, {rows, h[1]}));
  for (int bias : biases) {
    if (e.has(bias)) TW_RETURN_IF_ERROR(check_shape(e, bias, {rows}));
  }
  return Status::ok();
}

}  // namespace

Status expand_lstm_cell(Expansion& e) {
  Builder& b = e.b;
  TW_RETURN_IF_ERROR(check_cell(e, 2, 3, 4, {5}));
  TW_RETURN_IF_ERROR(check_same_shape(e, 2, 1));
  DType dtype = dtype_of(e, 0), work = work_type(dtype);
  ValueId gates =
      b.add(project(b, e.operands[0], e.operands[3], work), project(b, e.operands[1], e.operands[4], work));
  if (e.has(5)) gates = add_bias(b, gates, e.operands[5], work);
  bool torch_order = e.attributes.get_string("order") == "ifgo";
  State next = lstm_step(b, gates, widened(e, 2), shape_of(e, 1)[1],
                         torch_order ? kInputForgetCellOutput : kInputOutputForgetCell);
  e.results = {b.convert(next.h, dtype), b.convert(next.c, dtype)};
  return Status::ok();
}

Status expand_gru_cell(Expansion& e) {
  Builder& b = e.b;
  TW_RETURN_IF_ERROR(check_cell(e, 2, 2, 3, {4, 5}));
  DType dtype = dtype_of(e, 0), work = work_type(dtype);
  ValueId from_x = project(b, e.operands[0], e.operands[2], work),
          from_h = project(b, e.operands[1], e.operands[3], work);
  if (e.has(4)) from_x = add_bias(b, from_x, e.operands[4], work);
  if (e.has(5)) from_h = add_bias(b, from_h, e.operands[5], work);
  e.results = {b.convert(gru_step(b, from_x, from_h, widened(e, 1), shape_of(e, 1)[1]), dtype)};
  return Status::ok();
}

namespace {

// A scan over the leading dim of `stacked`; `carries` first, constant ones last.  Returns all results.
std::vector<ValueId> scan(Builder& b, std::vector<ValueId> carries, ValueId stacked, bool reverse,
                          Result<RegionRef> region) {
  if (!b.status().is_ok()) return {};
  if (!region.is_ok()) {
    b.fail(region.status());
    return {};
  }
  Shape length{b.shape(stacked)[0]};
  int64_t count = static_cast<int64_t>(carries.size());
  carries.push_back(stacked);
  return b.emit_all(Op::Scan, carries, {{"length", length}, {"carries", count}, {"reverse", reverse}},
                    {*region});
}

// An empty region with inputs of the types of `carries` and of one slice of `stacked`.
std::vector<ValueId> start_region(Builder& b, Graph& region, const std::vector<ValueId>& carries,
                                  ValueId stacked) {
  region.symbols = b.graph().symbols;
  std::vector<ValueId> inputs;
  for (ValueId carry : carries) inputs.push_back(region.add_input("", b.type(carry)));
  TensorType slice = b.type(stacked);
  slice.shape.erase(slice.shape.begin());
  inputs.push_back(region.add_input("", slice));
  return inputs;
}

// The state rounds to its type at every step, as the cell does.
Result<RegionRef> lstm_region(Builder& b, const std::vector<ValueId>& carries, ValueId stacked) {
  auto region = std::make_shared<Graph>();
  std::vector<ValueId> in = start_region(b, *region, carries, stacked);
  Builder inner(*region);
  DType dtype = inner.dtype(in[0]), work = work_type(dtype);
  ValueId gates = inner.add(in[3], project(inner, in[0], in[2], work));
  State next =
      lstm_step(inner, gates, inner.convert(in[1], work), Dim(inner.shape(in[0])[1]), kInputForgetCellOutput);
  ValueId h = inner.convert(next.h, dtype), c = inner.convert(next.c, dtype);
  TW_RETURN_IF_ERROR(inner.status());
  for (ValueId output : {h, c, in[2], h}) region->add_output(output);
  return RegionRef(std::move(region));
}

Result<RegionRef> gru_region(Builder& b, const std::vector<ValueId>& carries, ValueId stacked) {
  auto region = std::make_shared<Graph>();
  std::vector<ValueId> in = start_region(b, *region, carries, stacked);
  Builder inner(*region);
  bool biased = carries.size() == 3;
  DType dtype = inner.dtype(in[0]), work = work_type(dtype);
  ValueId from_h = project(inner, in[0], in[1], work);
  if (biased) from_h = add_bias(inner, from_h, in[2], work);
  ValueId next = gru_step(inner, in.back(), from_h, inner.convert(in[0], work), Dim(inner.shape(in[0])[1]));
  ValueId h = inner.convert(next, dtype);
  TW_RETURN_IF_ERROR(inner.status());
  region->add_output(h);
  region->add_output(in[1]);
  if (biased) region->add_output(in[2]);
  region->add_output(h);
  return RegionRef(std::move(region));
}

}  // namespace

// The input's projection is one product over all steps; the recurrent weights ride along as constant carries.
Status expand_lstm(Expansion& e) {
  Builder& b = e.b;
  TW_RETURN_IF_ERROR(check_cell(e, 3, 3, 4, {5}));
  TW_RETURN_IF_ERROR(check_same_shape(e, 2, 1));
  DType work = work_type(dtype_of(e, 0));
  ValueId from_x = project(b, e.operands[0], e.operands[3], work);
  if (e.has(5)) from_x = add_bias(b, from_x, e.operands[5], work);
  if (!b.status().is_ok()) return Status::ok();
  std::vector<ValueId> carries{e.operands[1], e.operands[2], e.operands[4]};
  std::vector<ValueId> all =
      scan(b, carries, from_x, e.attributes.get_bool("reverse"), lstm_region(b, carries, from_x));
  if (b.status().is_ok()) e.results = {all[3], all[0], all[1]};
  return Status::ok();
}

Status expand_gru(Expansion& e) {
  Builder& b = e.b;
  TW_RETURN_IF_ERROR(check_cell(e, 3, 2, 3, {4, 5}));
  DType work = work_type(dtype_of(e, 0));
  ValueId from_x = project(b, e.operands[0], e.operands[2], work);
  if (e.has(4)) from_x = add_bias(b, from_x, e.operands[4], work);
  if (!b.status().is_ok()) return Status::ok();
  std::vector<ValueId> carries{e.operands[1], e.operands[3]};
  if (e.has(5)) carries.push_back(e.operands[5]);
  std::vector<ValueId> all =
      scan(b, carries, from_x, e.attributes.get_bool("reverse"), gru_region(b, carries, from_x));
  if (b.status().is_ok()) e.results = {all.back(), all[0]};
  return Status::ok();
}

Status expand_selective_scan(Expansion& e) {
  Builder& b = e.b;
  for (int operand : {0, 1, 3, 4}) TW_RETURN_IF_ERROR(check_rank(e, operand, 3));
  TW_RETURN_IF_ERROR(check_rank(e, 2, 2));
  Shape u = shape_of(e, 0);
  Dim states = shape_of(e, 2)[1];
  TW_RETURN_IF_ERROR(check_same_shape(e, 1, 0));
  TW_RETURN_IF_ERROR(check_shape(e, 2, {u[2], states}));
  TW_RETURN_IF_ERROR(check_shape(e, 3, {u[0], u[1], states}));
  TW_RETURN_IF_ERROR(check_shape(e, 4, {u[0], u[1], states}));
  if (e.has(5)) TW_RETURN_IF_ERROR(check_shape(e, 5, {u[2]}));
  Shape full{u[0], u[1], u[2], states};
  ValueId input = widened(e, 0), delta = widened(e, 1);
  if (e.attributes.get_bool("softplus")) delta = b.emit(Op::Softplus, {delta});
  ValueId steps = b.broadcast(delta, full, {0, 1, 2});
  ValueId decay = b.exponential(b.multiply(steps, b.broadcast(widened(e, 2), full, {2, 3})));
  ValueId drive = b.multiply(b.broadcast(b.multiply(delta, input), full, {0, 1, 2}),
                             b.broadcast(widened(e, 3), full, {0, 1, 3}));
  ValueId h = b.emit(Op::LinearRecurrence, {decay, drive, ValueId{}}, {{"dim", int64_t{1}}});
  ValueId y = b.reduce_sum(b.multiply(h, b.broadcast(widened(e, 4), full, {0, 1, 3})), {3});
  if (e.has(5)) y = b.add(y, b.multiply(input, b.broadcast(widened(e, 5), u, {2})));
  e.results = {b.convert(y, dtype_of(e, 0))};
  return Status::ok();
}

}  // namespace tilewright
