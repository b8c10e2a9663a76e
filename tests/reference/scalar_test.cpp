// Scalar semantics: exhaustive tables of narrow floats, rounding against the compiler's own types, folder
// equal to kernel.
#include "ir/reference/scalar.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "base/text.h"
#include "ir/reference/interpreter.h"

namespace tilewright {
namespace {

constexpr DType kNarrow[] = {DType::F16, DType::BF16, DType::F8E4M3FN, DType::F8E5M2};

double load_code(DType dtype, uint32_t code) { return load_scalar(dtype, &code).f; }

TEST(Scalar, EveryNarrowCodeReadsBack) {
  for (DType dtype : kNarrow) {
    uint32_t codes = 1u << (8 * dtype_bytes(dtype));
    for (uint32_t code = 0; code < codes; ++code) {
      double value = load_code(dtype, code);
      uint32_t stored = 0;
      store_scalar(Scalar::of_float(dtype, value), &stored);
      if (value != value)
        EXPECT_NE(load_code(dtype, stored), load_code(dtype, stored));
      else
        ASSERT_EQ(stored, code) << dtype_name(dtype);
    }
  }
}

// Between two neighbours the nearer is taken, half way the one with an even code.
TEST(Scalar, RoundsToNearestEvenBetweenAllNeighbours) {
  for (DType dtype : kNarrow) {
    uint32_t positive = 1u << (8 * dtype_bytes(dtype) - 1);
    for (uint32_t code = 0; code + 1 < positive; ++code) {
      double low = load_code(dtype, code), high = load_code(dtype, code + 1);
      if (!std::isfinite(low) || !std::isfinite(high)) continue;
      double middle = low + (high - low) / 2, even = code % 2 == 0 ? low : high;
      ASSERT_EQ(round_to(dtype, middle), even) << dtype_name(dtype) << " code " << code;
      ASSERT_EQ(round_to(dtype, std::nextafter(middle, -1)), low) << dtype_name(dtype) << " code " << code;
      ASSERT_EQ(round_to(dtype, std::nextafter(middle, INFINITY)), high)
          << dtype_name(dtype) << " code " << code;
      ASSERT_EQ(round_to(dtype, -middle), -even) << dtype_name(dtype) << " code " << code;
    }
  }
}

#if defined(__FLT16_MANT_DIG__)
TEST(Scalar, HalfAgreesWithTheCompiler) {
  std::mt19937 random(1);
  for (int i = 0; i < 300000; ++i) {
    float value;
    uint32_t bits = static_cast<uint32_t>(random());
    std::memcpy(&value, &bits, sizeof value);
    if (value != value) continue;
    _Float16 half = static_cast<_Float16>(value);
    uint16_t want;
    std::memcpy(&want, &half, sizeof want);
    ASSERT_EQ(f32_to_f16_bits(value), want) << value;
  }
}
#endif

TEST(Scalar, NotANumberStaysOneInEveryFormat) {
  for (DType dtype : kNarrow) EXPECT_TRUE(std::isnan(round_to(dtype, NAN))) << dtype_name(dtype);
  EXPECT_TRUE(std::isnan(bf16_bits_to_f32(f32_to_bf16_bits(NAN))));
  // A payload only in the bits that are cut must not become infinity.
  uint32_t bits = 0x7f800001;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  EXPECT_TRUE(std::isnan(bf16_bits_to_f32(f32_to_bf16_bits(value))));
  EXPECT_TRUE(std::isnan(f16_bits_to_f32(f32_to_f16_bits(value))));
}

TEST(Scalar, IntegersWrapToTheirWidth) {
  EXPECT_EQ(Scalar::of_integer(DType::I8, 200).i, -56);
  EXPECT_EQ(Scalar::of_integer(DType::U8, -1).i, 255);
  EXPECT_EQ(Scalar::of_integer(DType::U32, -1).i, 4294967295);
  EXPECT_EQ(Scalar::of_integer(DType::Bool, 2).i, 1);
}

TEST(Scalar, CombineStartsFromItsIdentity) {
  const Op ops[] = {Op::ReduceSum, Op::ReduceProduct, Op::ReduceMax, Op::ReduceMin,
                    Op::ReduceAnd, Op::ReduceOr,      Op::ReduceXor};
  for (Op op : ops) {
    for (DType dtype : op_info(op).operands[0].types.members()) {
      for (double sample : {0.0, 1.0, 3.0, 5.0}) {
        Scalar x = convert_scalar(Scalar::of_float(DType::F64, sample), dtype);
        Scalar y = combine(op, reduction_identity(op, dtype), x);
        EXPECT_EQ(y.f, x.f) << op_name(op) << " " << dtype_name(dtype);
        EXPECT_EQ(y.i, x.i) << op_name(op) << " " << dtype_name(dtype);
      }
    }
  }
}

std::vector<Scalar> samples(DType dtype) {
  std::vector<Scalar> values;
  if (is_float(dtype)) {
    for (double value : {0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 88.0, -104.0, 1e-8, 1e5, 1e300,
                         double{INFINITY}, double{-INFINITY}, double{NAN}})
      values.push_back(Scalar::of_float(dtype, value));
  } else {
    for (int64_t value :
         {int64_t{0}, int64_t{1}, int64_t{-1}, int64_t{2}, int64_t{7}, int64_t{-128}, int64_t{127},
          int64_t{31}, int64_t{64}, INT64_MIN, INT64_MAX, int64_t{INT32_MIN}, int64_t{INT32_MAX}})
      values.push_back(Scalar::of_integer(dtype, value));
  }
  return values;
}

bool same(const Scalar& a, const Scalar& b) {
  if (a.dtype != b.dtype) return false;
  if (std::isnan(a.f) && std::isnan(b.f)) return true;
  return a.f == b.f && std::signbit(a.f) == std::signbit(b.f) && a.i == b.i;
}

void expect_kernel_agrees(Op op, DType dtype, const std::vector<std::vector<Scalar>>& columns,
                          const AttributeMap& attributes) {
  int64_t count = columns[0].size();
  Graph graph;
  std::vector<ValueId> operands;
  std::vector<OwnedTensor> storage;
  std::vector<TensorRef> inputs;
  for (const auto& column : columns) {
    operands.push_back(graph.add_input("", {dtype, {Dim(count)}}));
    storage.push_back(allocate_tensor(dtype, {count}));
    for (int64_t i = 0; i < count; ++i)
      store_scalar(column[i], static_cast<char*>(storage.back().ref.data) + i * dtype_bytes(dtype));
    inputs.push_back(storage.back().ref);
  }
  auto node = graph.append(op, operands, attributes);
  ASSERT_TRUE(node.is_ok()) << node.status().to_string();
  graph.add_output(graph.result(*node));
  auto outputs = interpret(graph, inputs, {});
  ASSERT_TRUE(outputs.is_ok()) << outputs.status().to_string();
  const TensorRef& out = (*outputs)[0].ref;
  for (int64_t i = 0; i < count; ++i) {
    Scalar row[3];
    for (size_t k = 0; k < columns.size(); ++k) row[k] = columns[k][i];
    Scalar folded =
        evaluate_elementwise(op, AttributeReader(op, attributes), row, static_cast<int>(columns.size()));
    Scalar kernel = load_scalar(out.dtype, static_cast<char*>(out.data) + i * dtype_bytes(out.dtype));
    EXPECT_TRUE(same(folded, kernel))
        << op_name(op) << " " << dtype_name(dtype) << " of " << row[0].f << "/" << row[0].i << ", "
        << row[1].f << "/" << row[1].i << ": folder " << folded.f << "/" << folded.i << ", kernel "
        << kernel.f << "/" << kernel.i;
  }
}

// Folder and kernel agree over special values of every dtype: a constant folded ahead never changes a result.
TEST(Scalar, FolderEqualsKernel) {
  for (const OpInfo& info : all_ops()) {
    if (info.composite || info.kind != OpKind::Elementwise || info.op == Op::Select) continue;
    AttributeMap attributes;
    if (info.op == Op::Convert) attributes["dtype"] = DType::BF16;
    if (info.op == Op::Compare) attributes["direction"] = std::string("LE");
    if (info.op == Op::ReducePrecision)
      attributes["exponent_bits"] = int64_t{4}, attributes["mantissa_bits"] = int64_t{3};
    size_t arity = info.operands.size();
    for (DType dtype : info.operands[0].types.members()) {
      if (is_float8(dtype)) continue;
      std::vector<Scalar> values = samples(dtype);
      std::vector<std::vector<Scalar>> columns(arity);
      size_t n = values.size();
      for (size_t i = 0; i < n * n; ++i) {
        for (size_t k = 0; k < arity; ++k)
          columns[k].push_back(values[k == 0 ? i / n : k == 1 ? i % n : (i / 3) % n]);
      }
      expect_kernel_agrees(info.op, dtype, columns, attributes);
    }
  }
}

}  // namespace
}  // namespace tilewright
