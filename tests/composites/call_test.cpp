// Builds the graph of a case and draws its inputs.
#include "tests/composites/call.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "ir/reference/scalar.h"

namespace tilewright::composites_test {
namespace {

DType dtype_of(const std::string& name, const Variant& variant) {
  if (name == "T" || name == "F") return variant.t;
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

}  // namespace

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

Bindings bindings_of(const Case& c, const Variant& variant) {
  Bindings bindings;
  if (c.text.find('N') != std::string::npos) bindings["N"] = variant.n;
  return bindings;
}

std::vector<OwnedTensor> draw_inputs(const Case& c, const Variant& variant) {
  const Bindings bindings = bindings_of(c, variant);
  Filler filler(static_cast<uint32_t>(c.line) * 31 + static_cast<uint32_t>(variant.n));
  std::vector<OwnedTensor> owned;
  for (const OperandSpec& spec : c.operands) {
    if (spec.absent) continue;
    std::vector<int64_t> sizes;
    for (const Dim& dim : spec.shape) sizes.push_back(*dim.evaluate(bindings));
    owned.push_back(filler.make(spec, dtype_of(spec.dtype, variant), sizes));
  }
  return owned;
}

std::vector<DType> dtypes_of(const Case& c) {
  bool varies = std::any_of(c.operands.begin(), c.operands.end(),
                            [](const OperandSpec& s) { return s.dtype == "T" || s.dtype == "F"; });
  if (!varies) return {DType::F32};
  for (const OperandInfo& operand : op_info(c.op).operands) {
    if (operand.variable == "T") return operand.types.members();
  }
  return {DType::F32};
}

}  // namespace tilewright::composites_test
