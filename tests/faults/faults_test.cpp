// Injects faults into results and into the ops inside, and expects the comparison with the reference to find
// each.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "base/text.h"
#include "ir/autodiff.h"
#include "ir/expansion.h"
#include "ir/reference/compare.h"
#include "ir/reference/scalar.h"
#include "tests/composites/call.h"

namespace tilewright::composites_test {
namespace {

using Tensors = std::vector<OwnedTensor>;
constexpr double kRelative = 1e-5;  // what a coefficient that is a little wrong does to a function

std::vector<TensorRef> refs_of(const Tensors& tensors) {
  std::vector<TensorRef> refs;
  for (const OwnedTensor& tensor : tensors) refs.push_back(tensor.ref);
  return refs;
}

void* address(const TensorRef& tensor, int64_t flat) {
  return static_cast<char*>(tensor.data) + flat * dtype_bytes(tensor.dtype);
}
double number(const TensorRef& tensor, int64_t flat) {
  return load_scalar(tensor.dtype, address(tensor, flat)).f;
}

OwnedTensor copy_of(const TensorRef& tensor) {
  OwnedTensor copy = allocate_tensor(tensor.dtype, tensor.sizes);
  if (tensor.bytes() > 0) std::memcpy(copy.ref.data, tensor.data, static_cast<size_t>(tensor.bytes()));
  return copy;
}

// Values of usual size: at the edges of a type a fault may leave no trace.
bool is_usual(const Case& c) {
  return std::none_of(c.operands.begin(), c.operands.end(), [](const OperandSpec& spec) {
    return spec.fill == "special" || spec.fill == "wide" || spec.fill == "-inf" || spec.fill == "masked_rows";
  });
}

bool iterates_in_16_bits(const Case& c) {
  return c.op == Op::Muon && !c.attributes.contains("iteration_type");
}

// Where a function of floats is defined.
std::string domain_of(Op op) {
  switch (op) {
    case Op::Log:
    case Op::Sqrt:
    case Op::Rsqrt:
    case Op::Lgamma:
    case Op::Digamma:
    case Op::LogPlusOne:
    case Op::Power: return "positive";
    case Op::ErfInv: return "unit";
    default: return "normal";
  }
}

// The lines of both case files and a call of each elementwise primitive without attributes.
std::vector<Case> all_cases() {
  std::vector<Case> cases = read_cases("tests/composites/cases.txt");
  for (const Case& c : read_cases("tools/tilewright/cases.txt")) {
    const bool over_dtypes =
        c.text.find("dtype=D") != std::string::npos || c.text.find("dtype=E") != std::string::npos;
    if (!over_dtypes) cases.push_back(c);
  }
  for (const OpInfo& info : all_ops()) {
    if (info.composite || info.kind != OpKind::Elementwise || !info.attributes.empty() ||
        info.op == Op::Clamp)
      continue;
    Case c;
    c.op = info.op;
    c.text = cat(info.name, " ; elementwise");
    for (const OperandInfo& operand : info.operands)
      c.operands.push_back({false, operand.variable.empty() ? "bool" : "T", {Dim(61)}, domain_of(info.op)});
    cases.push_back(c);
  }
  std::erase_if(cases, [](const Case& c) { return !is_usual(c); });
  return cases;
}

// One graph, its inputs and what the reference gives.
struct Subject {
  std::string name;
  Graph graph;
  Tensors inputs;
  Bindings bindings;
  Tensors expected;
};

bool finish(Subject& subject) {
  Result<Tensors> expected = interpret(subject.graph, refs_of(subject.inputs), subject.bindings);
  if (!expected.is_ok()) return false;
  subject.expected = std::move(*expected);
  return true;
}

std::optional<Subject> forward_of(const Case& c, DType dtype) {
  const Variant variant{dtype, DType::I64, 3};
  Result<Graph> graph = build(c, variant);
  EXPECT_TRUE(graph.is_ok()) << c.text << ": " << graph.status().to_string();
  if (!graph.is_ok()) return std::nullopt;
  Subject subject{cat(c.text, " ", dtype_name(dtype)),
                  std::move(*graph),
                  draw_inputs(c, variant),
                  bindings_of(c, variant),
                  {}};
  if (!finish(subject)) return std::nullopt;
  return subject;
}

// The joint graph, with cotangents between 1/2 and 3/2.
std::optional<Subject> backward_of(const Subject& forward) {
  Result<Graph> joint = joint_gradient(forward.graph, {}, false);
  if (!joint.is_ok()) return std::nullopt;
  Subject subject{cat(forward.name, " (backward)"), std::move(*joint), forward.inputs, forward.bindings, {}};
  uint64_t state = 1;
  for (size_t i = subject.inputs.size(); i < subject.graph.inputs.size(); ++i) {
    const TensorType& type = subject.graph.type(subject.graph.inputs[i].value);
    std::vector<int64_t> sizes;
    for (const Dim& dim : type.shape) sizes.push_back(dim.evaluate(subject.bindings).value());
    OwnedTensor cotangent = allocate_tensor(type.dtype, sizes);
    for (int64_t k = 0; k < cotangent.ref.elements(); ++k) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      store_scalar(Scalar::of_float(type.dtype, 0.5 + static_cast<double>(state >> 40) * 0x1p-24),
                   address(cotangent.ref, k));
    }
    subject.inputs.push_back(cotangent);
  }
  if (!finish(subject)) return std::nullopt;
  return subject;
}

// The index of the largest finite element, -1 when all are 0.
int64_t largest(const TensorRef& tensor) {
  int64_t best = -1;
  double size = 0;
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    const double value = std::abs(number(tensor, i));
    if (std::isfinite(value) && value > size) size = value, best = i;
  }
  return best;
}

// One wrong element and a tail that nobody wrote.
void expect_wrong_elements_found(const Subject& subject, int64_t& found) {
  const std::vector<TensorRef> inputs = refs_of(subject.inputs);
  Comparison comparison(subject.graph, inputs, subject.bindings);
  for (size_t output = 0; output < subject.expected.size(); ++output) {
    const TensorRef& expected = subject.expected[output].ref;
    if (!is_float(expected.dtype) || expected.elements() == 0) continue;
    if (const int64_t at = largest(expected); at >= 0) {
      OwnedTensor wrong = copy_of(expected);
      store_scalar(Scalar::of_float(expected.dtype, number(expected, at) * 0.75), address(wrong.ref, at));
      EXPECT_NE(comparison.difference(output, wrong.ref, expected), "")
          << subject.name << ": output " << output << ", element " << at << " is wrong";
      ++found;
    }
    const int64_t last = expected.elements() - 1;
    OwnedTensor unwritten = copy_of(expected);
    std::memset(address(unwritten.ref, last), 0x3d, static_cast<size_t>(dtype_bytes(expected.dtype)));
    const double want = number(expected, last), have = number(unwritten.ref, last);
    if (std::abs(want - have) <= 0.25 * std::abs(want)) continue;
    EXPECT_NE(comparison.difference(output, unwritten.ref, expected), "")
        << subject.name << ": output " << output << ", the last element is not written";
    ++found;
  }
}

TEST(Faults, WrongElementsAreFound) {
  int64_t found = 0;
  std::set<Op> ops;
  for (const Case& c : all_cases()) {
    for (DType dtype : dtypes_of(c)) {
      if (!is_float(dtype)) continue;
      std::optional<Subject> forward = forward_of(c, dtype);
      if (!forward) continue;
      const int64_t before = found;
      expect_wrong_elements_found(*forward, found);
      if (found > before) ops.insert(c.op);
      if (dtype != DType::F32 || op_info(c.op).gradient == GradientKind::Zero) continue;
      // 16-bit steps of an iteration are no differentiable function; its wide forms are.
      if (iterates_in_16_bits(c)) continue;
      if (std::optional<Subject> backward = backward_of(*forward))
        expect_wrong_elements_found(*backward, found);
    }
  }
  EXPECT_GT(found, 3000);
  EXPECT_GT(ops.size(), 150u);
}

// Outputs with every result of one op inside off by kRelative of itself.
Result<Tensors> run_with_fault(const Graph& expanded, const Subject& subject, Op op) {
  InterpreterOptions options;
  options.observe = [&](NodeId id, std::span<const TensorRef> results) {
    if (expanded.node(id).op != op) return;
    for (const TensorRef& result : results) {
      for (int64_t i = 0; is_float(result.dtype) && i < result.elements(); ++i) {
        const double value = number(result, i);
        store_scalar(Scalar::of_float(result.dtype, value * (1 + kRelative)), address(result, i));
      }
    }
  };
  return interpret(expanded, refs_of(subject.inputs), subject.bindings, options);
}

bool computes(const Graph& graph, const Node& node) {
  return node.info().accuracy != Accuracy::Exact && is_float(graph.type(node.results[0]).dtype);
}

// How far outputs move, in parts of themselves.
double effect(const Tensors& found, const Tensors& expected) {
  double most = 0;
  for (size_t output = 0; output < found.size(); ++output) {
    const TensorRef &a = found[output].ref, &b = expected[output].ref;
    for (int64_t i = 0; is_float(a.dtype) && i < a.elements(); ++i) {
      const double want = number(b, i), distance = std::abs(number(a, i) - want);
      if (std::isfinite(distance) && want != 0) most = std::max(most, distance / std::abs(want));
    }
  }
  return most;
}

TEST(Faults, WrongFunctionsAreFound) {
  // By op of the table and op inside: seen with an effect, found.
  std::map<std::pair<Op, Op>, std::pair<int, int>> tally[2];
  for (const Case& c : all_cases()) {
    for (DType dtype : dtypes_of(c)) {
      if (dtype != DType::F32 && dtype != DType::F64) continue;
      std::optional<Subject> subject = forward_of(c, dtype);
      if (!subject) continue;
      Result<Graph> expanded = expand_composites(subject->graph, [](Op) { return true; });
      ASSERT_TRUE(expanded.is_ok()) << expanded.status().to_string();
      const std::vector<TensorRef> inputs = refs_of(subject->inputs);
      Comparison comparison(subject->graph, inputs, subject->bindings);
      std::set<Op> inside;
      for (const Node& node : expanded->nodes())
        if (!node.results.empty() && computes(*expanded, node)) inside.insert(node.op);
      for (Op op : inside) {
        Result<Tensors> found = run_with_fault(*expanded, *subject, op);
        if (!found.is_ok() || effect(*found, subject->expected) < kRelative / 2) continue;
        auto& [seen, caught] = tally[dtype == DType::F64][{c.op, op}];
        ++seen;
        for (size_t output = 0; output < found->size(); ++output) {
          if (comparison.difference(output, (*found)[output].ref, subject->expected[output].ref).empty())
            continue;
          ++caught;
          break;
        }
      }
    }
  }
  for (bool wide : {false, true}) {
    for (const auto& [pair, counts] : tally[wide]) {
      const std::string what =
          cat(op_name(pair.first), " with a wrong ", op_name(pair.second), wide ? " in f64" : " in f32");
      if (wide && pair.first != Op::Muon)  // whose roundings to bf16 hide part of them
        EXPECT_EQ(counts.second, counts.first) << what;
      else
        EXPECT_GT(counts.second, 0) << what << ": " << counts.first << " not found";
    }
  }
  EXPECT_GT(tally[0].size(), 200u);
}

}  // namespace
}  // namespace tilewright::composites_test
