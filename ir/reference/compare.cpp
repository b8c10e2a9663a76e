// Comparison of two results of one graph within the tolerances that its ops declare.
#include "ir/reference/compare.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/text.h"
#include "ir/literal.h"
#include "ir/reference/scalar.h"

namespace tilewright {

namespace {

bool holds_float(DType dtype) { return is_float(dtype) || is_float8(dtype); }

// Digits of the significand, with the hidden one.
int significand_bits(DType dtype) {
  switch (dtype) {
    case DType::F64: return 53;
    case DType::F32: return 24;
    case DType::F16: return 11;
    case DType::BF16: return 8;
    case DType::F8E4M3FN: return 4;
    case DType::F8E5M2: return 3;
    default: return 53;
  }
}

int smallest_exponent(DType dtype) {
  switch (dtype) {
    case DType::F64: return -1022;
    case DType::F32:
    case DType::BF16: return -126;
    case DType::F16:
    case DType::F8E5M2: return -14;
    case DType::F8E4M3FN: return -6;
    default: return -1022;
  }
}

double ulp(double value, DType dtype) {
  int exponent = value == 0 ? smallest_exponent(dtype) : std::ilogb(value);
  return std::ldexp(1.0, std::max(exponent, smallest_exponent(dtype)) - significand_bits(dtype) + 1);
}

int64_t terms_of(const Graph& graph, const Node& node, const Bindings& bindings) {
  auto count = [&](ValueId id) -> int64_t {
    if (!id.is_valid()) return 1;
    Result<int64_t> elements = graph.type(id).elements().evaluate(bindings);
    return elements.is_ok() ? *elements : 1;
  };
  int64_t most = 1;
  for (ValueId operand : node.operands) most = std::max(most, count(operand));
  return most;  // an upper bound of the length of any sum inside
}

void add_tolerances(const Graph& graph, const Bindings& bindings, GraphTolerance& total) {
  for (const Node& node : graph.nodes()) {
    Accuracy accuracy = node.info().accuracy;
    total.scaled |= accuracy == Accuracy::Sum || accuracy == Accuracy::Mixed;
    for (ValueId result : node.results) {
      DType dtype = graph.type(result).dtype;
      if (!holds_float(dtype)) continue;
      if (significand_bits(dtype) < significand_bits(total.unit)) total.unit = dtype;
      Tolerance own = tolerance(node.op, dtype, terms_of(graph, node, bindings));
      total.sum.ulps += own.ulps;
      total.sum.relative += own.relative;
      total.sum.absolute += own.absolute;
      break;
    }
    for (const RegionRef& region : node.regions) add_tolerances(*region, bindings, total);
  }
}

bool has_sums(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                     [](const Node& node) { return node.op == Op::Add || node.op == Op::Subtract; });
}

double as_double(const Scalar& scalar) {
  return holds_float(scalar.dtype) ? scalar.f : static_cast<double>(scalar.i);
}

std::string index_text(int64_t flat, const std::vector<int64_t>& sizes) {
  std::vector<int64_t> index(sizes.size());
  for (size_t d = sizes.size(); d-- > 0;) {
    index[d] = flat % sizes[d];
    flat /= sizes[d];
  }
  return cat("[", join(index, ","), "]");
}

// Root of the mean square of the finite elements: what sums that cancel are measured against.
double scale_of(const TensorRef& tensor) {
  double squares = 0;
  int64_t count = 0;
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    double value = as_double(
        load_scalar(tensor.dtype, static_cast<const char*>(tensor.data) + i * dtype_bytes(tensor.dtype)));
    if (!std::isfinite(value)) continue;
    squares += value * value;
    ++count;
  }
  return count == 0 ? 0 : std::sqrt(squares / static_cast<double>(count));
}

bool within(double found, double expected, double scale, const GraphTolerance& tolerance, DType dtype) {
  if (std::isnan(expected)) return std::isnan(found);
  if (std::isinf(expected) || std::isinf(found)) {
    // An overflow at the edge of the type may fall on either side when rounding is allowed.
    return found == expected;
  }
  const Tolerance& t = tolerance.sum;
  DType unit = significand_bits(tolerance.unit) < significand_bits(dtype) ? tolerance.unit : dtype;
  double size = std::max(std::abs(expected), scale);
  double bound = t.absolute + t.relative * size + t.ulps * ulp(size, unit);
  return std::abs(found - expected) <= bound;
}

}  // namespace

GraphTolerance graph_tolerance(const Graph& graph, const Bindings& bindings) {
  GraphTolerance total;
  add_tolerances(graph, bindings, total);
  if (graph.node_count() > 1) {
    // An ulp of an intermediate value is up to two of what is computed from it.
    total.sum.ulps *= 2;
    // Where terms of size 1 that are not exact cancel, only the absolute error is bounded.
    if (has_sums(graph))
      total.sum.absolute += total.sum.ulps * std::ldexp(1.0, -significand_bits(total.unit));
  }
  return total;
}

std::string difference(const TensorRef& found, const TensorRef& expected, const GraphTolerance& tolerance) {
  if (found.dtype != expected.dtype)
    return cat("found dtype ", dtype_name(found.dtype), ", expected ", dtype_name(expected.dtype));
  if (found.sizes != expected.sizes) {
    return cat("found sizes [", join(found.sizes, ","), "], expected [", join(expected.sizes, ","), "]");
  }
  double scale = tolerance.scaled ? scale_of(expected) : 0;
  int64_t size = dtype_bytes(found.dtype);
  for (int64_t i = 0; i < found.elements(); ++i) {
    const char *a = static_cast<const char*>(found.data) + i * size,
               *b = static_cast<const char*>(expected.data) + i * size;
    if (std::memcmp(a, b, static_cast<size_t>(size)) == 0) continue;
    Scalar have = load_scalar(found.dtype, a), want = load_scalar(found.dtype, b);
    if (holds_float(found.dtype)) {
      bool same_zero = have.f == 0 && want.f == 0 && std::signbit(have.f) != std::signbit(want.f);
      bool loose = tolerance.sum.ulps > 0 || tolerance.sum.relative > 0 || tolerance.sum.absolute > 0;
      if ((!same_zero || loose) && within(have.f, want.f, scale, tolerance, found.dtype)) continue;
    }
    std::string off;
    if (holds_float(found.dtype) && std::isfinite(have.f) && std::isfinite(want.f)) {
      off = cat(" (off by ", std::abs(have.f - want.f) / ulp(std::max(std::abs(want.f), scale), found.dtype),
                " ulp)");
    }
    return cat(index_text(i, found.sizes), ": found ", print_scalar(have), ", expected ", print_scalar(want),
               off);
  }
  return {};
}

}  // namespace tilewright
