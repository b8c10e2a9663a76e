// Emitted elementwise ops against the scalar evaluator: bit for bit where the op table says exact or rounded.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "base/text.h"
#include "ir/reference/scalar.h"
#include "tests/emit/kernels.h"

namespace tilewright {
namespace {

constexpr size_t kPoints = 4096;

std::vector<DType> all_dtypes() {
  std::vector<DType> out;
  for (int i = 0; i < kDTypeCount; ++i) out.push_back(static_cast<DType>(i));
  return out;
}

// Elements of a dtype: special values, small integers, random bits.
std::vector<unsigned char> make_elements(DType dtype, uint64_t seed) {
  size_t bytes = static_cast<size_t>(dtype_bytes(dtype));
  std::vector<unsigned char> out(kPoints * bytes);
  std::mt19937_64 random(seed * 77 + static_cast<uint64_t>(dtype));
  for (size_t i = 0; i < kPoints; ++i) {
    uint64_t bits = random();
    if (dtype == DType::Bool) bits &= 1;
    std::memcpy(&out[i * bytes], &bits, bytes);
    if (i % 2 == 0 || dtype == DType::Bool) continue;
    bool is_floating = is_float(dtype) || is_float8(dtype);
    static constexpr double kSpecial[] = {
        0,   -0.0,  1,       -1,  0.5, 2.5, -2.5,  3.5,   127.5, 1e10,  1e-8, -300, INFINITY,    -INFINITY,
        NAN, 65520, 65519.9, 448, 464, 480, 57344, 61440, 1e-40, 3e-39, 255,  256,  2147483648.0};
    double value = i % 8 == 1 ? kSpecial[random() % std::size(kSpecial)]
                              : std::uniform_real_distribution<double>(-40, 40)(random);
    Scalar scalar = is_floating ? Scalar::of_float(dtype, value)
                                : Scalar::of_integer(dtype, static_cast<int64_t>(random() % 37) - 18);
    store_scalar(scalar, &out[i * bytes]);
  }
  return out;
}

bool is_same(DType dtype, const void* a, const void* b) {
  if (std::memcmp(a, b, static_cast<size_t>(dtype_bytes(dtype))) == 0) return true;
  Scalar x = load_scalar(dtype, a), y = load_scalar(dtype, b);
  return (is_float(dtype) || is_float8(dtype)) && std::isnan(x.f) && std::isnan(y.f);
}

// Functions are measured in accuracy_test.cpp; rounded to a narrow type they may fall on the other neighbour.
bool is_close(DType dtype, const void* a, const void* b) {
  if (is_same(dtype, a, b)) return true;
  if (!is_narrow_float(dtype)) return true;
  int64_t x = 0, y = 0;
  std::memcpy(&x, a, static_cast<size_t>(dtype_bytes(dtype)));
  std::memcpy(&y, b, static_cast<size_t>(dtype_bytes(dtype)));
  return x - y == 1 || y - x == 1;
}

std::string describe(const ElementwiseCase& test) {
  return cat(op_name(test.op), "(", join(test.operands, ", ", [](DType d) { return dtype_name(d); }), ") -> ",
             dtype_name(test.result));
}

void check_case(const ElementwiseCase& test, KernelFunction kernel, const std::string& target) {
  std::vector<std::vector<unsigned char>> operands;
  std::vector<void*> buffers;
  for (size_t i = 0; i < test.operands.size(); ++i) operands.push_back(make_elements(test.operands[i], i));
  for (auto& operand : operands) buffers.push_back(operand.data());
  size_t bytes = static_cast<size_t>(dtype_bytes(test.result));
  std::vector<unsigned char> out(kPoints * bytes, 0xcc), want(bytes);
  buffers.push_back(out.data());
  kernel(buffers.data(), nullptr, 0, kPoints, nullptr);
  Accuracy accuracy = op_info(test.op).accuracy;
  bool is_exact = accuracy == Accuracy::Exact || accuracy == Accuracy::Rounded;
  AttributeReader attributes(test.op, test.attributes);
  int wrong = 0;
  for (size_t i = 0; i < kPoints && wrong < 3; ++i) {
    std::vector<Scalar> scalars;
    std::string text;
    for (size_t k = 0; k < operands.size(); ++k) {
      DType dtype = test.operands[k];
      scalars.push_back(load_scalar(dtype, &operands[k][i * static_cast<size_t>(dtype_bytes(dtype))]));
      text += cat(is_float(dtype) || is_float8(dtype) ? cat(scalars.back().f) : cat(scalars.back().i), " ");
    }
    Scalar result =
        evaluate_elementwise(test.op, attributes, scalars.data(), static_cast<int>(scalars.size()));
    store_scalar(result, want.data());
    const unsigned char* got = &out[i * bytes];
    if (is_exact ? is_same(test.result, got, want.data()) : is_close(test.result, got, want.data())) continue;
    ++wrong;
    Scalar shown = load_scalar(test.result, got);
    ADD_FAILURE() << target << " " << describe(test) << " at " << text << ": got " << shown.f << " "
                  << shown.i << ", expected " << result.f << " " << result.i;
  }
}

void check_all(const std::vector<ElementwiseCase>& cases) {
  for (const std::shared_ptr<Target>& target : runnable_targets()) {
    Result<ElementwiseKernels> kernels = compile_elementwise(target, cases);
    ASSERT_TRUE(kernels.is_ok()) << kernels.status().to_string();
    for (size_t i = 0; i < cases.size(); ++i) check_case(cases[i], kernels->function(i), target->info().name);
  }
}

// Every elementwise row with every dtype that it takes.
TEST(Elementwise, AllOpsAllTypes) {
  std::vector<ElementwiseCase> cases;
  for (const OpInfo& info : all_ops()) {
    if (info.kind != OpKind::Elementwise || info.composite || info.op == Op::Convert) continue;
    if (info.op == Op::Compare || info.op == Op::ReducePrecision) continue;
    for (DType dtype : info.operands.back().types.members()) {
      ElementwiseCase test{info.op, std::vector<DType>(info.operands.size(), dtype), dtype, {}};
      if (info.op == Op::Select) test.operands[0] = DType::Bool;
      if (info.op == Op::IsFinite) test.result = DType::Bool;
      cases.push_back(test);
    }
  }
  EXPECT_GT(cases.size(), 200u);
  check_all(cases);
}

TEST(Elementwise, Convert) {
  std::vector<ElementwiseCase> cases;
  for (DType from : all_dtypes()) {
    for (DType to : all_dtypes()) {
      cases.push_back({Op::Convert, {from}, to, {{"dtype", to}}});
      if (is_float8(to)) cases.push_back({Op::Convert, {from}, to, {{"dtype", to}, {"saturate", true}}});
    }
  }
  check_all(cases);
}

TEST(Elementwise, Compare) {
  std::vector<ElementwiseCase> cases;
  for (const char* direction : {"EQ", "NE", "GE", "GT", "LE", "LT"}) {
    for (DType dtype : parse_type_class("Arith")->members()) {
      cases.push_back({Op::Compare, {dtype, dtype}, DType::Bool, {{"direction", std::string(direction)}}});
      const char* order = is_float(dtype) ? "TOTALORDER" : is_signed_integer(dtype) ? "UNSIGNED" : "SIGNED";
      if (dtype == DType::Bool) continue;
      cases.push_back({Op::Compare,
                       {dtype, dtype},
                       DType::Bool,
                       {{"direction", std::string(direction)}, {"order", std::string(order)}}});
    }
  }
  check_all(cases);
}

TEST(Elementwise, ReducePrecision) {
  std::vector<ElementwiseCase> cases;
  for (DType dtype : {DType::F16, DType::BF16, DType::F32, DType::F64}) {
    for (auto [exponent, mantissa] :
         {std::pair<int64_t, int64_t>{8, 7}, {5, 10}, {4, 3}, {11, 52}, {8, 23}, {11, 10}, {2, 1}, {8, 0}}) {
      cases.push_back(
          {Op::ReducePrecision, {dtype}, dtype, {{"exponent_bits", exponent}, {"mantissa_bits", mantissa}}});
    }
  }
  check_all(cases);
}

}  // namespace
}  // namespace tilewright
