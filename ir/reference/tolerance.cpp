// Declared accuracy: how far the result of one op may be from its reference on the same operands, by the
// accuracy column of the op table.
#include <algorithm>
#include <cmath>

#include "ir/reference/compare.h"
#include "ir/reference/declared_accuracy.h"

namespace tilewright {

namespace {

using Sizes = std::vector<int64_t>;

Sizes sizes_of(const Graph& graph, ValueId value, const Bindings& bindings) {
  Sizes sizes;
  for (const Dim& dim : graph.type(value).shape) {
    Result<int64_t> size = dim.evaluate(bindings);
    sizes.push_back(size.is_ok() ? *size : 1);
  }
  return sizes;
}

int64_t product(const Sizes& sizes) {
  int64_t all = 1;
  for (int64_t size : sizes) all *= size;
  return all;
}

int64_t product_at(const Sizes& sizes, const Ints& dims) {
  int64_t some = 1;
  for (int64_t dim : dims) some *= sizes[static_cast<size_t>(dim)];
  return some;
}

const Ints& ints_of(const Node& node, std::string_view name) {
  return std::get<Ints>(*find_attribute(node.op, node.attributes, name));
}

bool combines(const Node& node) {
  const auto& kind = std::get<std::string>(*find_attribute(node.op, node.attributes, "kind"));
  return kind == "sum" || kind == "add" || kind == "mul";
}

}  // namespace

// An upper bound of the number of terms in any one sum of the node; 0 when it only moves and chooses.
int64_t summed_terms(const Graph& graph, const Node& node, const Bindings& bindings) {
  const auto sizes = [&](size_t operand) { return sizes_of(graph, node.operands[operand], bindings); };
  switch (node.op) {
    case Op::ReduceSum:
    case Op::ReduceProduct: return product_at(sizes(0), ints_of(node, "dims"));
    case Op::DotGeneral: return product_at(sizes(0), ints_of(node, "lhs_contract"));
    case Op::RaggedDot: return sizes(0).back();
    case Op::Convolution: {
      const Ints& dims = ints_of(node, "w_dims");
      const Sizes w = sizes(1);
      const int64_t outputs = w[dims.empty() ? 0 : static_cast<size_t>(dims[0])];
      return outputs == 0 ? 0 : product(w) / outputs;
    }
    case Op::CumulativeSum:
    case Op::CumulativeProduct:
    case Op::CumulativeLogsumexp:
    case Op::LinearRecurrence: {
      const auto dim = std::get<int64_t>(*find_attribute(node.op, node.attributes, "dim"));
      return sizes(0)[static_cast<size_t>(dim)];
    }
    case Op::ReduceWindow: return combines(node) ? product(ints_of(node, "window")) : 0;
    case Op::SelectAndScatterAdd: return product(ints_of(node, "window"));
    case Op::Scatter:
    case Op::ScatterElements: return combines(node) ? product(sizes(2)) + 1 : 0;
    case Op::Histogram: return product(sizes(0));
    default: {
      int64_t most = 1;
      for (size_t i = 0; i < node.operands.size(); ++i)
        if (node.operands[i].is_valid()) most = std::max(most, product(sizes(i)));
      return most;
    }
  }
}

double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::F64: return 0x1p-53;
    case DType::F32: return 0x1p-24;
    case DType::F16: return 0x1p-11;
    case DType::BF16: return 0x1p-8;
    case DType::F8E4M3FN: return 0x1p-4;
    case DType::F8E5M2: return 0x1p-3;
    default: return 0;
  }
}

double summation_steps(int64_t terms, bool multiplies) {
  // A blocked tree, as ops.md says; for few terms no order of summation rounds more often than there are
  // terms.
  constexpr double kBlock = 16;
  if (terms <= 0) return 0;
  const double count = static_cast<double>(terms), tree = 2 * std::ceil(std::log2(count)) + kBlock;
  return std::min(count - 1, tree) + (multiplies ? 1 : 0);
}

// The reference rounds too: its result once. In f64 there is nothing wider: sums are compensated, but each
// product in them is rounded, and chains of products round as often as compiled ones.
static double reference_steps(Op op, DType accumulated, bool multiplies, double steps) {
  if (accumulated != DType::F64) return 1;
  if (op == Op::ReduceProduct || op == Op::CumulativeProduct || op == Op::LinearRecurrence) return steps;
  return multiplies ? 2 : 1;
}

DeclaredAccuracy declared_accuracy(const Graph& graph, const Node& node, size_t result,
                                   const Bindings& bindings) {
  DeclaredAccuracy own;
  const DType dtype = graph.type(node.results[result]).dtype;
  const bool narrow = is_narrow_float(dtype);
  if (!is_float(dtype) && !is_float8(dtype)) return own;  // integers and bool are exact
  switch (node.info().accuracy) {
    case Accuracy::Exact:
    case Accuracy::Rounded: break;
    // A narrow result is rounded from f32, where a last-bit difference can at most move it to a neighbour.
    case Accuracy::Ulp1: own.ulps = 1; break;
    case Accuracy::Ulp2: own.ulps = narrow ? 1 : 2; break;
    case Accuracy::Ulp4: own.ulps = narrow ? 1 : 4; break;
    case Accuracy::Sum:
    case Accuracy::Mixed: {
      DType accumulated = accumulation_type(dtype);
      if (const Attribute* type = find_attribute(node.op, node.attributes, "accumulate_type"))
        if (const auto* given = std::get_if<DType>(type)) accumulated = *given;
      const bool multiplies = node.info().kind == OpKind::Contraction || node.op == Op::LinearRecurrence;
      const int64_t terms = summed_terms(graph, node, bindings);
      double steps = summation_steps(terms, multiplies);
      // Each step of a recurrence rounds twice.
      if (node.op == Op::LinearRecurrence) steps *= 2;
      if (steps > 0) steps += reference_steps(node.op, accumulated, multiplies, steps);
      own.sum = steps * unit_roundoff(accumulated);
      // A product that underflows is off by a part of the smallest number instead.
      if (multiplies || node.op == Op::ReduceProduct || node.op == Op::CumulativeProduct)
        own.absolute = steps * ulp(0, accumulated);
      // Rounded once from the accumulator; a wide result is the accumulator.
      if (own.sum > 0 && (narrow || is_float8(dtype))) own.ulps = 1;
      if (node.op == Op::CumulativeLogsumexp) {
        // log s has the relative error of s; exp(x - m) adds that of x - m, at most 1/e of a rounding.
        own.absolute = own.sum + 8 * unit_roundoff(accumulated);
        own.ulps = narrow ? 1 : 2;
        own.sum = 0;
      }
      break;
    }
  }
  // Terms of size 1 cancel at the roots of these two: there only the absolute error is bounded.
  if (node.op == Op::Lgamma || node.op == Op::Digamma) own.absolute = 8 * unit_roundoff(dtype);
  return own;
}

}  // namespace tilewright
