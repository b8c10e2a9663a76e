// Runs every composite by its reference kernel and by its expansion, and compares.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "base/text.h"
#include "ir/expansion.h"
#include "ir/reference/compare.h"
#include "ir/reference/interpreter.h"
#include "ir/reference/scalar.h"
#include "ir/verifier.h"
#include "tests/composites/case_file.h"

namespace tilewright::composites_test {
namespace {

constexpr const char* kFolder = "tests/composites/";

// What the letters of a case stand for in one run.
struct Variant {
  DType t = DType::F32, index = DType::I64;
  int64_t n = 3;
};

DType dtype_of(const std::string& name, const Variant& variant) {
  if (name == "T") return variant.t;
  if (name == "I") return variant.index;
  if (name == "W") return accumulation_type(variant.t);
  auto parsed = parse_dtype(name);
  EXPECT_TRUE(parsed.has_value()) << name;
  return parsed.value_or(DType::F32);
}

const double kSpecial[] = {0.0,  -0.0,  1.0,   -1.0, HUGE_VAL, -HUGE_VAL, NAN,  0.5,   -0.5,
                           2.0,  -2.0,  1e-30, 3e4,  -3e4,     7.0,       -7.0, 89.0,  -89.0,
                           1e30, -1e30, 1e-5,  -20,  20,       1.5,       -1.5, -0.25, 2.5};

class Filler {
 public:
  explicit Filler(uint32_t seed) : random_(seed) {}

  OwnedTensor make(const OperandSpec& spec, DType dtype, const std::vector<int64_t>& sizes) {
    OwnedTensor tensor = allocate_tensor(dtype, sizes);
    char* address = static_cast<char*>(tensor.ref.data);
    std::vector<double> values =
        draw(spec.fill, dtype, tensor.ref.elements(), sizes.empty() ? 1 : sizes.back());
    for (double value : values) {
      bool real = is_float(dtype) || is_float8(dtype);
      Scalar scalar =
          real ? Scalar::of_float(dtype, value) : Scalar::of_integer(dtype, static_cast<int64_t>(value));
      store_scalar(scalar, address);
      address += dtype_bytes(dtype);
    }
    return tensor;
  }

 private:
  double uniform(double lo, double hi) { return std::uniform_real_distribution<double>(lo, hi)(random_); }
  int64_t integer(int64_t lo, int64_t hi) { return std::uniform_int_distribution<int64_t>(lo, hi)(random_); }

  double one(const std::string& fill, DType dtype, int64_t i) {
    bool real = is_float(dtype) || is_float8(dtype);
    if (fill == "special")
      return real ? kSpecial[i % std::ssize(kSpecial)] : static_cast<double>(kExtreme[i % 7]);
    if (fill == "wide") return uniform(-2, 2) * std::exp2(uniform(-30, 7));
    if (fill == "unit") return uniform(-1, 1);
    if (fill == "positive") return uniform(0.1, 3);
    if (fill == "probability") return uniform(0.05, 0.95);
    if (fill == "mask") return integer(0, 1);
    if (fill == "bits") return static_cast<double>(integer(0, 255));
    if (fill == "state") return static_cast<double>(integer(0, 1 << 30));
    if (fill == "repeat") return static_cast<double>(integer(0, 3));
    if (fill == "lengths") return static_cast<double>(integer(0, 40));
    if (fill.starts_with("index(")) return static_cast<double>(integer(0, std::stoll(fill.substr(6)) - 1));
    if (fill != "normal") return std::stod(fill);
    if (dtype == DType::Bool) return static_cast<double>(integer(0, 1));
    return real ? uniform(-2, 2) : static_cast<double>(integer(is_unsigned_integer(dtype) ? 0 : -20, 20));
  }

  std::vector<double> draw(const std::string& fill, DType dtype, int64_t count, int64_t last) {
    std::vector<double> values;
    for (int64_t i = 0; i < count; ++i)
      values.push_back(fill.starts_with("offsets(") ? 0 : one(fill_of(fill), dtype, i));
    if (fill == "permutation") {
      for (int64_t i = 0; i < count; ++i) values[static_cast<size_t>(i)] = static_cast<double>(i);
      std::shuffle(values.begin(), values.end(), random_);
    }
    if (fill.starts_with("offsets(")) {
      // Sorted, from 0, with empty bags between.
      for (int64_t i = 1; i < count; ++i)
        values[static_cast<size_t>(i)] = static_cast<double>(integer(0, std::stoll(fill.substr(8))));
      std::sort(values.begin(), values.end());
    }
    if (fill == "masked_rows" || fill == "open_mask") {
      for (int64_t i = 0; i < count; ++i) {
        // The first row is empty, or the first column always open.
        bool decided = fill == "masked_rows" ? i < last : i % last == 0;
        double value = dtype == DType::Bool ? static_cast<double>(integer(0, 1))
                                            : (integer(0, 3) ? uniform(-1, 1) : -HUGE_VAL);
        if (decided)
          value = (fill == "open_mask") == (dtype == DType::Bool) ? 1
                  : fill == "open_mask"                           ? 0.5
                  : dtype == DType::Bool                          ? 0
                                                                  : -HUGE_VAL;
        values[static_cast<size_t>(i)] = value;
      }
    }
    return values;
  }

  static std::string fill_of(const std::string& fill) {
    return fill == "permutation" || fill == "masked_rows" || fill == "open_mask" ? "normal" : fill;
  }

  static constexpr int64_t kExtreme[7] = {0, 1, -1, INT64_MIN, INT64_MAX, 7, -7};
  std::mt19937 random_;
};

// The graph with one node, or the status that says why there is none.
Result<Graph> build(const Case& c, const Variant& variant) {
  Graph graph;
  graph.name = "case";
  bool symbolic = c.text.find('N') != std::string::npos;
  if (symbolic) graph.symbols.push_back({"N", 0, 64, {}});
  std::vector<ValueId> operands;
  for (const OperandSpec& spec : c.operands) {
    operands.push_back(spec.absent ? ValueId{}
                                   : graph.add_input("", {dtype_of(spec.dtype, variant), spec.shape}));
  }
  TW_ASSIGN_OR_RETURN(NodeId node, graph.append(c.op, operands, c.attributes));
  for (ValueId result : std::vector<ValueId>(graph.node(node).results)) graph.add_output(result);
  return graph;
}

void run(const Case& c, const Variant& variant) {
  SCOPED_TRACE(cat("line ", c.line, ": ", c.text, "\n  T=", dtype_name(variant.t), " N=", variant.n));
  auto graph = build(c, variant);
  ASSERT_TRUE(graph.is_ok()) << graph.status().to_string();
  auto expanded = expand_composites(*graph, [](Op) { return true; });
  ASSERT_TRUE(expanded.is_ok()) << expanded.status().to_string();
  Status verified = verify(*expanded);
  ASSERT_TRUE(verified.is_ok()) << verified.to_string();
  for (const Node& node : expanded->nodes()) ASSERT_FALSE(node.info().composite) << op_name(node.op);
  Bindings bindings;
  if (!graph->symbols.empty()) bindings["N"] = variant.n;
  Filler filler(static_cast<uint32_t>(c.line) * 31 + static_cast<uint32_t>(variant.n));
  std::vector<OwnedTensor> owned;
  std::vector<TensorRef> inputs;
  for (const OperandSpec& spec : c.operands) {
    if (spec.absent) continue;
    std::vector<int64_t> sizes;
    for (const Dim& dim : spec.shape) sizes.push_back(*dim.evaluate(bindings));
    owned.push_back(filler.make(spec, dtype_of(spec.dtype, variant), sizes));
    inputs.push_back(owned.back().ref);
  }
  auto want = interpret(*graph, inputs, bindings), got = interpret(*expanded, inputs, bindings);
  ASSERT_TRUE(want.is_ok()) << want.status().to_string();
  ASSERT_TRUE(got.is_ok()) << got.status().to_string();
  ASSERT_EQ(want->size(), got->size());
  Comparison comparison(*graph, inputs, bindings);
  for (size_t i = 0; i < want->size(); ++i) {
    const TensorRef &a = (*got)[i].ref, &b = (*want)[i].ref;
    EXPECT_EQ(comparison.difference(i, a, b), "") << "result " << i;
  }
}

std::vector<DType> dtypes_of(const Case& c) {
  bool varies =
      std::any_of(c.operands.begin(), c.operands.end(), [](const OperandSpec& s) { return s.dtype == "T"; });
  if (!varies) return {DType::F32};
  for (const OperandInfo& operand : op_info(c.op).operands) {
    if (operand.variable == "T") return operand.types.members();
  }
  return {DType::F32};
}

TEST(Composites, ExpansionsAgreeWithReferenceKernels) {
  for (const Case& c : read_cases(cat(kFolder, "cases.txt"))) {
    bool symbolic = c.text.find('N') != std::string::npos;
    int64_t turn = 0;
    for (DType t : dtypes_of(c)) {
      for (int64_t n : symbolic ? std::vector<int64_t>{1, 3, 6} : std::vector<int64_t>{3}) {
        run(c, {t, turn++ % 2 ? DType::I32 : DType::I64, n});
      }
    }
  }
}

TEST(Composites, EveryRowHasACase) {
  std::set<Op> covered;
  for (const Case& c : read_cases(cat(kFolder, "cases.txt"))) covered.insert(c.op);
  for (const OpInfo& info : all_ops()) {
    EXPECT_TRUE(!info.composite || covered.contains(info.op)) << info.name << " has no line in cases.txt";
  }
}

TEST(Composites, BadArgumentsAreRejectedWithTheirReason) {
  for (const Case& c : read_cases(cat(kFolder, "rejected.txt"))) {
    SCOPED_TRACE(cat("line ", c.line, ": ", c.text));
    auto graph = build(c, {});
    ASSERT_FALSE(graph.is_ok());
    std::string message = graph.status().to_string();
    EXPECT_NE(message.find(c.last), std::string::npos) << message;
    EXPECT_NE(message.find(op_name(c.op)), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace tilewright::composites_test
