// Loops whose carries are read where others are written: what is computed in place must not change a result.
#include <gtest/gtest.h>

#include "tests/emit/tile_run.h"

namespace tilewright {
namespace {

void check(const char* text, double tolerance = 1e-5) {
  Result<tile::Kernel> kernel = tile::parse_kernel(text);
  ASSERT_TRUE(kernel.is_ok()) << kernel.status().to_string();
  EXPECT_EQ(check_tile(*kernel, {}, tolerance), "");
}

TEST(Carries, TwoChangePlaces) {
  check(R"(kernel @k(%x: f32[40], %y: f32[40], %a: out f32[40], %b: out f32[40]) {
  %0 = load %x[ax0] : f32 tile[40]
  %1 = load %y[ax0] : f32 tile[40]
  %2, %3 = for j = 0 to 5 step 1 carry (%p = %0, %q = %1) {
    yield %q, %p
  }
  store %2, %a[ax0]
  store %3, %b[ax0]
})");
}

TEST(Carries, ARowIsReadAfterItsColumnWasWritten) {
  check(R"(kernel @k(%x: f32[20], %a: out f32[20], %b: out f32[20,24]) {
  %0 = load %x[ax0] : f32 tile[20]
  %z = const 0 : f32 tile[20,24]
  %2, %3 = for j = 0 to 5 step 1 carry (%p = %0, %q = %z) {
    %h = const 0.5 : f32 tile[20]
    %n = multiply %p, %h : f32 tile[20]
    %w = broadcast %p {dims=[0]} : f32 tile[20,24]
    %s = add %q, %w : f32 tile[20,24]
    yield %n, %s
  }
  store %2, %a[ax0]
  store %3, %b[ax0,ax1]
})");
}

TEST(Carries, AColumnSumFeedsTheNextPass) {
  check(R"(kernel @k(%x: f32[24,24], %a: out f32[24,24], %b: out f32[24]) {
  %0 = load %x[ax0, ax1] : f32 tile[24,24]
  %z = const 0 : f32 tile[24]
  %2, %3 = for j = 0 to 4 step 1 carry (%q = %0, %p = %z) {
    %h = const 0.125 : f32 tile[24,24]
    %t = transpose %q {perm=[1,0]} : f32 tile[24,24]
    %d = multiply %t, %h : f32 tile[24,24]
    %r = reduce_sum %q {dims=[0]} : f32 tile[24]
    %s = add %p, %r : f32 tile[24]
    yield %d, %s
  }
  store %2, %a[ax0, ax1]
  store %3, %b[ax0]
})");
}

TEST(Carries, SumsOfAProductStayWhereTheyAre) {
  check(R"(kernel @k(%x: f32[32,24], %y: f32[24,40], %a: out f32[32,40], %b: out f32[32,40]) {
  %z = const 0 : f32 tile[32,40]
  %o = const 1 : f32 tile[32,40]
  %2, %3 = for j = 0 to 24 step 8 carry (%p = %z, %q = %o) {
    %l = load %x[ax0, j + ax1] : f32 tile[32,8]
    %r = load %y[j + ax0, ax1] : f32 tile[8,40]
    %h = const 0.5 : f32 tile[32,40]
    %f = multiply %p, %h : f32 tile[32,40]
    %n = dot %l, %r, %f {lhs_contract=[1], rhs_contract=[0]} : f32 tile[32,40]
    yield %q, %n
  }
  store %2, %a[ax0, ax1]
  store %3, %b[ax0, ax1]
})");
}

TEST(Carries, AProductInADeeperLoopStartsFromTheSameSums) {
  check(R"(kernel @k(%x: f32[32,24], %y: f32[24,40], %a: out f32[32,40]) {
  %z = const 1 : f32 tile[32,40]
  %2 = for i = 0 to 2 step 1 carry (%p = %z) {
    %c = const 0 : f32 tile[32,40]
    %3 = for j = 0 to 24 step 8 carry (%q = %c) {
      %l = load %x[ax0, j + ax1] : f32 tile[32,8]
      %r = load %y[j + ax0, ax1] : f32 tile[8,40]
      %h = const 0.5 : f32 tile[32,40]
      %f = multiply %p, %h : f32 tile[32,40]
      %n = dot %l, %r, %f {lhs_contract=[1], rhs_contract=[0]} : f32 tile[32,40]
      %s = add %q, %n : f32 tile[32,40]
      yield %s
    }
    yield %3
  }
  store %2, %a[ax0, ax1]
})");
}

TEST(Carries, AProductThatEndsEarlyLeavesZeros) {
  check(R"(kernel @k(%x: f32[20,24], %y: f32[24,30], %a: out f32[32,40]) {
  %z = const 0 : f32 tile[32,40]
  %l = load %x[ax0, ax1] : f32 tile[32,24]
  %r = load %y[ax0, ax1] : f32 tile[24,40]
  %n = dot %l, %r, %z {lhs_contract=[1], rhs_contract=[0]} : f32 tile[32,40]
  store %n, %a[ax0, ax1]
})");
}

TEST(Carries, AStoreStreamsBesideASum) {
  check(R"(kernel @k(%x: f32[6,512], %a: out f32[6,512], %b: out f32[6]) grid (6) {
  %v = load %x[p0, ax0] : f32 tile[512]
  %n = negate %v : f32 tile[512]
  %s = reduce_sum %v {dims=[0]} : f32 tile[]
  store %n, %a[p0, ax0] {streaming}
  store %s, %b[p0]
})");
}

TEST(Carries, FetchingAheadChangesNothing) {
  check(R"(kernel @k(%x: f32[37,200], %b: out f32[200]) {
  %z = const 0 : f32 tile[200]
  %2 = for i = 0 to 37 step 1 carry (%p = %z) {
    %v = load %x[i, ax0] {depth=3} : f32 tile[200]
    %s = add %p, %v : f32 tile[200]
    yield %s
  }
  store %2, %b[ax0]
})");
}

TEST(Carries, MaximumKnowsZerosAndNaN) {
  check(R"(kernel @k(%x: f32[3,16], %a: out f32[48], %b: out f32[48]) {
  %z = const 0 : f32 tile[48]
  %m = const -0 : f32 tile[48]
  %n = const nan : f32 tile[48]
  %i = index ax0 : i64 tile[48]
  %s = const 16 : i64 tile[48]
  %t = const 32 : i64 tile[48]
  %f = compare %i, %s {direction=LT} : bool tile[48]
  %g = compare %i, %t {direction=LT} : bool tile[48]
  %l = select %f, %z, %m : f32 tile[48]
  %r = select %f, %m, %z : f32 tile[48]
  %h = select %g, %l, %n : f32 tile[48]
  %hi = maximum %h, %r : f32 tile[48]
  %lo = minimum %r, %h : f32 tile[48]
  %one = const 1 : f32 tile[48]
  %u = divide %one, %hi : f32 tile[48]
  %v = divide %one, %lo : f32 tile[48]
  store %u, %a[ax0]
  store %v, %b[ax0]
})");
}

}  // namespace
}  // namespace tilewright
