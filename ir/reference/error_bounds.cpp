// Derives the bounds: runs the graph as it is and with disturbed values, and measures the responses.
#include "ir/reference/error_bounds.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/hash.h"
#include "ir/expansion.h"
#include "ir/reference/compare.h"
#include "ir/reference/scalar.h"
#include "ir/reference/strided.h"

namespace tilewright {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// An element responds linearly to small errors e_i, each within t_i.  Samples draw them uniformly, so that
// spread^2 = sum (J_i t_i)^2 / 3, and |sum J_i e_i| exceeds 10 spreads with a chance below 2 exp(-100/6) even
// where every e_i is as large as declared.
constexpr double kSafety = 10;
// Errors that are equal within each node are drawn at the ends, +-t_i: with m nodes the largest response is
// sqrt(m) spreads.  No op leans to one side by all that it declares, let alone nine of them.
constexpr double kCorrelatedSafety = 3;
constexpr int kSamples[ErrorBounds::kStages] = {0, 4, 16};  // of each kind

bool holds_float(DType dtype) { return is_float(dtype) || is_float8(dtype); }

bool declares_no_bound(Op op) {
  const OpInfo& info = op_info(op);
  return info.composite && (info.accuracy == Accuracy::Sum || info.accuracy == Accuracy::Mixed);
}

const void* element(const TensorRef& tensor, int64_t flat) {
  return static_cast<const char*>(tensor.data) + flat * dtype_bytes(tensor.dtype);
}
void* element(TensorRef& tensor, int64_t flat) {
  return static_cast<char*>(tensor.data) + flat * dtype_bytes(tensor.dtype);
}

double number_at(const TensorRef& tensor, int64_t flat) {
  const Scalar scalar = load_scalar(tensor.dtype, element(tensor, flat));
  return holds_float(tensor.dtype) ? scalar.f : static_cast<double>(scalar.i);
}

OwnedTensor dense_copy(const TensorRef& tensor) {
  OwnedTensor copy = allocate_tensor(tensor.dtype, tensor.sizes);
  if (tensor.elements() > 0) reference::copy_elements(copy.ref, tensor);
  return copy;
}

uint64_t mixed(uint64_t a, uint64_t b) {
  uint64_t z = a * 0x9e3779b97f4a7c15u + b;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// In [-1, 1).
double symmetric(uint64_t bits) { return static_cast<double>(static_cast<int64_t>(bits)) * 0x1p-63; }

// Functions that never leave [-1, 1]: neither does what stands for them.
bool is_within_one(Op op) {
  return op == Op::Tanh || op == Op::Erf || op == Op::Sine || op == Op::Cosine || op == Op::Logistic;
}

bool never_vanishes(Op op) { return op == Op::Exponential || op == Op::Logistic; }

// A constant with few digits is the same in every type; another one is rounded.
bool is_rounded_constant(const Node& node, DType dtype) {
  const auto& constant = std::get<ConstantRef>(*find_attribute(node.op, node.attributes, "value"));
  if (!holds_float(dtype)) return false;
  for (int64_t at = 0; at < constant->bytes; at += dtype_bytes(dtype)) {
    int exponent;
    const void* address = static_cast<const char*>(constant->data) + at;
    const double digits = std::frexp(load_scalar(dtype, address).f, &exponent) * 16;
    if (std::isfinite(digits) && digits != std::trunc(digits)) return true;
  }
  return false;
}

bool holds_inexact(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const Node& node) {
    return (node.info().accuracy != Accuracy::Exact && node.info().accuracy != Accuracy::Rounded) ||
           std::any_of(node.regions.begin(), node.regions.end(),
                       [](const RegionRef& region) { return holds_inexact(*region); });
  });
}

}  // namespace

ErrorBounds::ErrorBounds(const Graph& graph, std::span<const TensorRef> inputs, const Bindings& bindings,
                         CustomCallRunner custom_call)
    : source_(graph), inputs_(inputs), bindings_(bindings), custom_call_(std::move(custom_call)) {}

Status ErrorBounds::refine(int stage) {
  if (stages_ == 0) {
    TW_RETURN_IF_ERROR(prepare());
    TW_RETURN_IF_ERROR(measure());
    stages_ = 1;
  }
  for (; stages_ <= stage; ++stages_) {
    if (std::none_of(own_.begin(), own_.end(), [](const Own& own) { return own.follows; })) continue;
    for (; samples_ < kSamples[stages_]; ++samples_) {
      TW_RETURN_IF_ERROR(sample(static_cast<uint64_t>(samples_) + 1, false));
      TW_RETURN_IF_ERROR(sample(static_cast<uint64_t>(samples_) + 1, true));
    }
  }
  return Status::ok();
}

double ErrorBounds::bound(size_t output, int64_t flat, double value, DType dtype) const {
  const Own& own = own_[output];
  const DeclaredAccuracy& declared = own.declared;
  double total = declared.absolute;
  if (declared.ulps > 0 || own.follows) total += (declared.ulps + own.follows) * ulp(value, dtype);
  if (own.magnitudes) {
    const double size = number_at(own.magnitudes->ref, flat);
    if (!std::isnan(size)) total += declared.sum * finite_number(size, dtype);
  }
  if (samples_ == 0 || own.squares[0].empty()) return total;
  const auto at = static_cast<size_t>(flat);
  const auto spread = [&](int kind) {
    return static_cast<double>(std::sqrt(own.squares[kind][at] / samples_));
  };
  return total + std::max(kSafety * spread(0), kCorrelatedSafety * spread(1));
}

Status ErrorBounds::prepare() {
  std::vector<std::vector<int64_t>> sizes;
  for (const TensorRef& input : inputs_) sizes.push_back(input.sizes);
  TW_ASSIGN_OR_RETURN(bindings_, bind_symbols(source_, sizes, bindings_));
  TW_ASSIGN_OR_RETURN(graph_, expand_composites(source_, [&](const Graph&, const Node& node) {
                        expanded_ |= declares_no_bound(node.op);
                        return declares_no_bound(node.op);
                      }));
  exact_.assign(graph_.value_count(), true);
  for (const Node& node : graph_.nodes()) {
    bool exact = !is_inexact(graph_, node);
    for (ValueId operand : node.operands) exact &= !operand.is_valid() || exact_[operand.index];
    for (ValueId result : node.results) exact_[result.index] = exact;
  }
  for (const Output& output : graph_.outputs) {
    Own own;
    const Value& value = graph_.value(output.value);
    if (value.node.is_valid()) {
      const Node& node = graph_.node(value.node);
      own.declared = declared_accuracy(graph_, node, value.result, bindings_);
      own.follows = std::any_of(node.operands.begin(), node.operands.end(), [&](ValueId operand) {
        return operand.is_valid() && !exact_[operand.index];
      });
      own.follows |= own.declared.is_exact() && !exact_[output.value.index];
    }
    own_.push_back(std::move(own));
  }
  return Status::ok();
}

bool ErrorBounds::is_inexact(const Graph& graph, const Node& node) const {
  if (node.op == Op::Constant)
    return expanded_ && is_rounded_constant(node, graph.type(node.results[0]).dtype);
  if (std::any_of(node.regions.begin(), node.regions.end(),
                  [&](const RegionRef& region) { return expanded_ || holds_inexact(*region); }))
    return true;
  if (node.info().accuracy == Accuracy::Rounded) {
    // Equal operands give equal bits; a reference kernel of a composite may round less often, though.
    if (expanded_ || &graph != &graph_) return true;
    return std::any_of(node.operands.begin(), node.operands.end(),
                       [&](ValueId operand) { return operand.is_valid() && !exact_[operand.index]; });
  }
  for (size_t result = 0; result < node.results.size(); ++result)
    if (!declared_accuracy(graph, node, result, bindings_).is_exact()) return true;
  return false;
}

ErrorBounds::Disturbance ErrorBounds::disturbance(const Graph& graph, ValueId id) const {
  const Value& value = graph.value(id);
  if (!value.node.is_valid() || !holds_float(value.type.dtype)) return {};
  const Node& node = graph.node(value.node);
  if (!node.regions.empty() || !is_inexact(graph, node)) return {};
  const DeclaredAccuracy own = declared_accuracy(graph, node, value.result, bindings_);
  // Half an ulp of rounding is a whole one where values are stored in the same type again.
  return {std::max(own.ulps, 1.0), own.absolute};
}

void ErrorBounds::disturb(const Graph& graph, ValueId id, double relative, const TensorRef& from,
                          TensorRef& to) const {
  const Disturbance most = disturbance(graph, id);
  const uint64_t stream = mixed(seed_, id.index + 1000 * graph.node_count());
  const bool sign = (stream >> 17) & 1;
  const Value& value = graph.value(id);
  const bool within_one = value.node.is_valid() && is_within_one(graph.node(value.node).op);
  // Zeros are exact, but for those of functions that have none.
  const bool underflows = value.node.is_valid() && most.ulps > 0 && never_vanishes(graph.node(value.node).op);
  for (int64_t i = 0; i < from.elements(); ++i) {
    Scalar scalar = load_scalar(from.dtype, element(from, i));
    const double x = scalar.f;
    if (!std::isfinite(x) || (x == 0 && most.absolute == 0 && !underflows)) continue;
    const uint64_t bits = mixed(mixed(stream, static_cast<uint64_t>(i)), std::bit_cast<uint64_t>(x));
    const double size = most.ulps * ulp(x, from.dtype) + most.absolute;
    double y = x + (correlated_ ? (sign ? size : -size) : size * symmetric(bits));
    y += relative * std::abs(x) * (correlated_ ? (sign ? 1 : -1) : symmetric(mixed(bits, 1)));
    if (x == 0 && underflows) y = std::abs(y);
    if (within_one) y = std::clamp(y, -1.0, 1.0);
    store_scalar(Scalar::of_float(from.dtype, y), element(to, i));
  }
}

std::optional<OwnedTensor> ErrorBounds::disturbed(const Graph& graph, ValueId id, const TensorRef& tensor,
                                                  double relative) const {
  if (!holds_float(tensor.dtype)) return std::nullopt;
  const Disturbance most = disturbance(graph, id);
  if (most.ulps == 0 && most.absolute == 0 && relative == 0) return std::nullopt;
  OwnedTensor copy = dense_copy(tensor);
  const OwnedTensor from = tensor.is_dense() ? OwnedTensor{tensor, nullptr} : dense_copy(tensor);
  disturb(graph, id, relative, from.ref, copy.ref);
  return copy;
}

// The node on the magnitudes of its operands bounds the sums of |terms| inside.
void ErrorBounds::record_own(const Graph& graph, NodeId id, std::span<const TensorRef* const> inputs) {
  const Node& node = graph.node(id);
  const auto is_sum = [&](size_t output) {
    return graph.outputs[output].value.is_valid() && graph.value(graph.outputs[output].value).node == id &&
           own_[output].declared.sum > 0;
  };
  bool any = false;
  for (size_t output = 0; output < own_.size(); ++output) any |= is_sum(output);
  if (!any) return;
  std::vector<OwnedTensor> copies;
  copies.reserve(inputs.size());
  std::vector<const TensorRef*> magnitudes(inputs.begin(), inputs.end());
  for (size_t k = 0; k < inputs.size(); ++k) {
    const bool chooses = node.op == Op::SelectAndScatterAdd && k == 0;
    if (!inputs[k] || !holds_float(inputs[k]->dtype) || chooses) continue;
    copies.push_back(dense_copy(*inputs[k]));
    TensorRef& copy = copies.back().ref;
    for (int64_t i = 0; i < copy.elements(); ++i) {
      Scalar scalar = load_scalar(copy.dtype, element(copy, i));
      scalar.f = std::abs(scalar.f);
      store_scalar(scalar, element(copy, i));
    }
    magnitudes[k] = &copy;
  }
  std::vector<OwnedTensor> results;
  std::vector<TensorRef> refs;
  for (ValueId result : node.results) {
    std::vector<int64_t> sizes;
    for (const Dim& dim : graph.type(result).shape) sizes.push_back(dim.evaluate(bindings_).value());
    results.push_back(allocate_tensor(graph.type(result).dtype, sizes));
    refs.push_back(results.back().ref);
  }
  StickyError error;
  if (!run_node(graph, node, bindings_, magnitudes, refs, error, {}).is_ok()) return;
  for (size_t output = 0; output < own_.size(); ++output)
    if (is_sum(output)) own_[output].magnitudes = results[graph.value(graph.outputs[output].value).result];
}

Status ErrorBounds::measure() {
  InterpreterOptions options;
  options.custom_call = custom_call_;
  options.before = [&](const Graph& graph, NodeId id, std::vector<const TensorRef*>& inputs,
                       std::vector<OwnedTensor>&) {
    if (&graph == &graph_) record_own(graph, id, inputs);
  };
  TW_ASSIGN_OR_RETURN(std::vector<OwnedTensor> outputs, interpret(graph_, inputs_, bindings_, options));
  for (size_t output = 0; output < outputs.size(); ++output) {
    Own& own = own_[output];
    const TensorRef& ref = outputs[output].ref;
    for (int64_t i = 0; i < ref.elements(); ++i) own.center.push_back(number_at(ref, i));
    for (auto& squares : own.squares) squares.assign(own.center.size(), 0);
  }
  return Status::ok();
}

Status ErrorBounds::sample(uint64_t number, bool correlated) {
  seed_ = mixed(number, correlated);
  correlated_ = correlated;
  InterpreterOptions options;
  options.custom_call = custom_call_;
  options.before = [&](const Graph& graph, NodeId id, std::vector<const TensorRef*>& inputs,
                       std::vector<OwnedTensor>& held) {
    const Node& node = graph.node(id);
    // A sum in any order is the exact sum of terms that are each off by at most `sum`.
    const double relative = node.results.empty() ? 0 : declared_accuracy(graph, node, 0, bindings_).sum;
    held.reserve(inputs.size());
    for (size_t k = 0; k < inputs.size(); ++k) {
      if (!inputs[k]) continue;
      std::optional<OwnedTensor> copy = disturbed(graph, node.operands[k], *inputs[k], relative);
      if (!copy) continue;
      held.push_back(std::move(*copy));
      inputs[k] = &held.back().ref;
    }
  };
  options.after_region = [&](const Graph& region, std::span<TensorRef> outputs) {
    for (size_t i = 0; i < outputs.size(); ++i) {
      std::optional<OwnedTensor> copy = disturbed(region, region.outputs[i].value, outputs[i], 0);
      if (copy) reference::copy_elements(outputs[i], copy->ref);
    }
  };
  Result<std::vector<OwnedTensor>> outputs = interpret(graph_, inputs_, bindings_, options);
  // An index that an error moved out of its range stops a sample; the others tell enough.
  if (!outputs.is_ok()) return outputs.status().code() == Code::OutOfRange ? Status::ok() : outputs.status();
  for (size_t output = 0; output < outputs->size(); ++output) {
    Own& own = own_[output];
    for (size_t i = 0; i < own.center.size(); ++i) {
      const double a = own.center[i], b = number_at((*outputs)[output].ref, static_cast<int64_t>(i));
      if (a == b || (std::isnan(a) && std::isnan(b))) continue;
      const double distance = std::isfinite(a) && std::isfinite(b) ? a - b : kInfinity;
      own.squares[correlated][i] += static_cast<long double>(distance) * distance;
    }
  }
  return Status::ok();
}

}  // namespace tilewright
