// The tile interpreter on hand-written kernels: one test an opcode and its edges.
#include "codegen/tile/interpreter.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tilewright::tile {

namespace {

Kernel parse(std::string_view text) {
  Result<Kernel> kernel = parse_kernel(text);
  EXPECT_TRUE(kernel.is_ok()) << kernel.status().to_string();
  return kernel.is_ok() ? *kernel : Kernel{};
}

Status run(const Kernel& kernel, std::vector<void*> buffers, std::vector<int64_t> scalars = {}) {
  Result<int64_t> count = grid_size(kernel, scalars);
  if (!count.is_ok()) return count.status();
  return interpret(kernel, buffers, scalars, 0, *count);
}

using Floats = std::vector<float>;

TEST(TileInterpreter, LoadsOutsideAreTheLiteralAndStoresOutsideAreDropped) {
  Kernel kernel = parse(R"(
kernel @shift[N](%x: f32[N], %y: out f32[N]) grid (floordiv(N + 3, 4)) {
  %0 = load %x[4*p0 + ax0 - 1] else 9 : f32 tile[4]
  store %0, %y[4*p0 + ax0]
})");
  Floats x{1, 2, 3, 4, 5}, y(5, 0);
  ASSERT_TRUE(run(kernel, {x.data(), y.data()}, {5}).is_ok());
  EXPECT_EQ(y, (Floats{9, 1, 2, 3, 4}));
}

TEST(TileInterpreter, IndexTermsAndStridesReachAnyElement) {
  Kernel kernel = parse(R"(
kernel @columns(%x: f32[2,3] strides(1, 2), %y: out f32[3,2]) {
  %0 = load %x[-ax1 + 1, ax0] : f32 tile[3,2]
  store %0, %y[ax0, ax1]
})");
  Floats x{0, 1, 2, 3, 4, 5}, y(6, -1);
  ASSERT_TRUE(run(kernel, {x.data(), y.data()}).is_ok());
  EXPECT_EQ(y, (Floats{1, 0, 3, 2, 5, 4}));
}

TEST(TileInterpreter, IndexTilesGatherAndScatterInRowMajorOrder) {
  Kernel kernel = parse(R"(
kernel @scatter(%x: f32[4], %i: i32[4], %set: inout f32[3], %sum: inout f32[3], %got: out f32[4]) {
  %0 = load %i[ax0] : i32 tile[4]
  %1 = load %x[ax0] : f32 tile[4]
  store %1, %set[%0]
  store %1, %sum[%0] {kind=add}
  %2 = load %x[%0] else 100 : f32 tile[4]
  store %2, %got[ax0]
})");
  Floats x{1, 2, 4, 8}, set(3, 0), sum(3, 0), got(4, 0);
  std::vector<int32_t> index{2, 0, 2, -1};
  ASSERT_TRUE(run(kernel, {x.data(), index.data(), set.data(), sum.data(), got.data()}).is_ok());
  EXPECT_EQ(set, (Floats{2, 0, 4}));
  EXPECT_EQ(sum, (Floats{2, 0, 5}));
  EXPECT_EQ(got, (Floats{4, 1, 4, 100}));
}

TEST(TileInterpreter, AnAccessDeclaredInBoundsThatIsNotIsAnError) {
  Kernel kernel = parse(R"(
kernel @bad(%x: f32[3], %y: out f32[4]) {
  %0 = load %x[ax0] {in_bounds} : f32 tile[4]
  store %0, %y[ax0]
})");
  Floats x(3), y(4);
  Status status = run(kernel, {x.data(), y.data()});
  EXPECT_NE(status.message().find("index 3 of dim 0"), std::string::npos) << status.to_string();
}

TEST(TileInterpreter, LoopsCarryTilesAndSwapThem) {
  Kernel kernel = parse(R"(
kernel @fibonacci[N](%y: out i64[2]) {
  %0 = const 0 : i64 tile[1]
  %1 = const 1 : i64 tile[1]
  %a, %b = for j = 0 to N step 1 carry (%2 = %0, %3 = %1) {
    %4 = add %2, %3 : i64 tile[1]
    yield %3, %4
  }
  store %a, %y[0]
  store %b, %y[1]
})");
  std::vector<int64_t> y(2);
  ASSERT_TRUE(run(kernel, {y.data()}, {10}).is_ok());
  EXPECT_EQ(y, (std::vector<int64_t>{55, 89}));
  ASSERT_TRUE(run(kernel, {y.data()}, {0}).is_ok());
  EXPECT_EQ(y, (std::vector<int64_t>{0, 1}));
}

TEST(TileInterpreter, BranchesPassCarriesThrough) {
  Kernel kernel = parse(R"(
kernel @branch(%n: i32[1], %y: out f32[1]) {
  s = load_scalar %n[0]
  %0 = const 3 : f32 tile[1]
  %1 = if s - 2 carry (%2 = %0) {
    %3 = add %2, %2 : f32 tile[1]
    yield %3
  }
  store %1, %y[0]
})");
  for (int32_t n : {2, 3}) {
    Floats y(1);
    ASSERT_TRUE(run(kernel, {&n, y.data()}).is_ok());
    EXPECT_EQ(y[0], n > 2 ? 6 : 3);
  }
}

TEST(TileInterpreter, ReductionsHonourLimitsAndStartFromTheIdentity) {
  Kernel kernel = parse(R"(
kernel @reduce[N](%x: f32[2,4], %sum: out f32[2], %max: out f32[2]) {
  %0 = load %x[ax0, ax1] : f32 tile[2,4]
  %1 = reduce_sum %0 {dims=[1], limit=[N]} : f32 tile[2]
  %2 = reduce_max %0 {dims=[1], limit=[N]} : f32 tile[2]
  store %1, %sum[ax0]
  store %2, %max[ax0]
})");
  Floats x{1, 5, 3, 100, -4, -2, -9, 100}, sum(2), max(2);
  ASSERT_TRUE(run(kernel, {x.data(), sum.data(), max.data()}, {3}).is_ok());
  EXPECT_EQ(sum, (Floats{9, -15}));
  EXPECT_EQ(max, (Floats{5, -2}));
  ASSERT_TRUE(run(kernel, {x.data(), sum.data(), max.data()}, {0}).is_ok());
  EXPECT_EQ(sum, (Floats{0, 0}));
  EXPECT_EQ(max, (Floats{-INFINITY, -INFINITY}));
}

TEST(TileInterpreter, CustomCombinesKeepTheOrderOfOperands) {
  Kernel kernel = parse(R"(
kernel @last(%x: i64[2,3], %y: out i64[2]) {
  %0 = load %x[ax0, ax1] : i64 tile[2,3]
  %1 = reduce_custom %0 {dims=[1]} (%l, %r) {
    %2 = const 10 : i64 tile[]
    %3 = multiply %l, %2 : i64 tile[]
    %4 = add %3, %r : i64 tile[]
    yield %4
  } : i64 tile[2]
  store %1, %y[ax0]
})");
  std::vector<int64_t> x{1, 2, 3, 4, 5, 6}, y(2);
  ASSERT_TRUE(run(kernel, {x.data(), y.data()}).is_ok());
  EXPECT_EQ(y, (std::vector<int64_t>{123, 456}));
}

TEST(TileInterpreter, ScansRunBothWaysAndCarry) {
  Kernel kernel = parse(R"(
kernel @scans(%x: f32[4], %a: out f32[4], %b: out f32[4], %c: out f32[1]) {
  %0 = load %x[ax0] : f32 tile[4]
  %1 = const 10 : f32 tile[]
  %2, %3 = scan_sum %0, %1 {dims=[0]} : f32 tile[4], f32 tile[]
  %4, %5 = scan_sum %0, %1 {dims=[0], reverse, exclusive, limit=[3]} : f32 tile[4], f32 tile[]
  store %2, %a[ax0]
  store %4, %b[ax0]
  %6 = reshape %5 : f32 tile[1]
  store %6, %c[ax0]
})");
  Floats x{1, 2, 3, 4}, a(4), b(4), c(1);
  ASSERT_TRUE(run(kernel, {x.data(), a.data(), b.data(), c.data()}).is_ok());
  EXPECT_EQ(a, (Floats{11, 13, 16, 20}));
  EXPECT_EQ(b[0], 15);
  EXPECT_EQ(b[1], 13);
  EXPECT_EQ(b[2], 10);
  EXPECT_TRUE(std::isnan(b[3]));  // beyond the limit: unspecified, here NaN
  EXPECT_EQ(c[0], 16);
}

TEST(TileInterpreter, DotAccumulatesInTheAccumulatorsType) {
  Kernel kernel = parse(R"(
kernel @dot(%a: i8[2,2,3], %b: i8[2,3,2], %y: out i32[2,2,2]) {
  %0 = load %a[ax0, ax1, ax2] : i8 tile[2,2,3]
  %1 = load %b[ax0, ax1, ax2] : i8 tile[2,3,2]
  %2 = const 1000 : i32 tile[2,2,2]
  %3 = dot %0, %1, %2 {lhs_contract=[2], rhs_contract=[1], lhs_batch=[0], rhs_batch=[0]} : i32 tile[2,2,2]
  store %3, %y[ax0, ax1, ax2]
})");
  std::vector<int8_t> a{1, 2, 3, 4, 5, 6, 100, 100, 100, 0, 0, 1},
      b{1, 0, 0, 1, 1, 1, 100, 1, 100, 1, 100, 1};
  std::vector<int32_t> y(8);
  ASSERT_TRUE(run(kernel, {a.data(), b.data(), y.data()}).is_ok());
  EXPECT_EQ(y, (std::vector<int32_t>{1004, 1005, 1010, 1011, 31000, 1300, 1100, 1001}));
}

TEST(TileInterpreter, RandomBitsArePhilox) {
  Kernel kernel = parse(R"(
kernel @bits(%state: u64[2], %y: out u32[4]) {
  %0 = load %state[ax0] : u64 tile[2]
  %1 = index ax0 : i64 tile[4]
  %2 = rng_bits %0, %1 : u32 tile[4]
  store %2, %y[ax0]
})");
  std::vector<uint64_t> state{0, 0};
  std::vector<uint32_t> y(4);
  ASSERT_TRUE(run(kernel, {state.data(), y.data()}).is_ok());
  // The published answer for a zero key and counter.
  EXPECT_EQ(y, (std::vector<uint32_t>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
}

TEST(TileInterpreter, TheFirstReportWins) {
  Kernel kernel = parse(R"(
kernel @check(%x: i64[4]) grid (2) reports {
  %0 = load %x[2*p0 + ax0] : i64 tile[2]
  %1 = const 10 : i64 tile[2]
  %2 = compare %0, %1 {direction=GT} : bool tile[2]
  report %2, %0 {site=6}
})");
  std::vector<int64_t> x{1, 11, 12, 13}, word(3, 0);
  ASSERT_TRUE(run(kernel, {x.data(), word.data()}).is_ok());
  EXPECT_EQ(word[0], 7);
  EXPECT_EQ(word[1], 11);
}

TEST(TileInterpreter, NarrowFloatsRoundAtEachStore) {
  Kernel kernel = parse(R"(
kernel @sum(%x: bf16[3], %i: i64[3], %y: inout bf16[1]) {
  %0 = load %x[ax0] : bf16 tile[3]
  %1 = load %i[ax0] : i64 tile[3]
  store %0, %y[%1] {kind=add}
})");
  std::vector<uint16_t> x{0x3f80, 0x3f80, 0x3f80}, y{0x4380};  // 1, 1, 1 and 256, whose neighbour is 258
  std::vector<int64_t> index(3, 0);
  ASSERT_TRUE(run(kernel, {x.data(), index.data(), y.data()}).is_ok());
  EXPECT_EQ(y[0], 0x4380);
}

TEST(TileInterpreter, WrongArgumentsAreErrors) {
  Kernel kernel = parse(R"(
kernel @copy[N](%x: f32[N], %y: out f32[N]) grid (N) {
  %0 = load %x[p0] : f32 tile[]
  store %0, %y[p0]
})");
  Floats x(2), y(2);
  EXPECT_FALSE(run(kernel, {x.data()}, {2}).is_ok());
  EXPECT_FALSE(run(kernel, {x.data(), y.data()}, {}).is_ok());
  std::vector<void*> buffers{x.data(), y.data()};
  std::vector<int64_t> scalars{2};
  EXPECT_FALSE(interpret(kernel, buffers, scalars, 0, 3).is_ok());
}

}  // namespace

}  // namespace tilewright::tile
