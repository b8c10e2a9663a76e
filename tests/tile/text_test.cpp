// The text form of tile programs: round trips, canonical text, errors of the parser and of the verifier.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "codegen/tile/tile.h"

namespace tilewright::tile {

namespace {

// Every opcode and every mark.
constexpr const char* kEverything =
    R"(kernel @everything[M in 1..64 hint 8, N](%x: f32[M,N], %y: out f32[M,N] strides(2*N, 1), %i: i32[M], %acc: inout f32[16], %seed: u64[2]) grid (M, floordiv(N + 15, 16)) reports {
  s0 = load_scalar %i[p0] {in_bounds}
  %0 = const -0 : f32 tile[1,16]
  %1 = const inf : f32 tile[1]
  %2 = const true : bool tile[16]
  %3 = index p0 + 1 - 2*ax1 : i64 tile[1,16]
  %4 = load %x[p0 + ax0, 16*p1 + ax1] else -inf {in_bounds, stage=packed, depth=3} : f32 tile[1,16]
  %5 = load %x[max(0, s0) + ax0, floordiv(N, 2) - ax1 + %3] {stage=direct} : f32 tile[1,16]
  %6 = compare %4, %5 {direction=LT, order=TOTALORDER} : bool tile[1,16]
  %7 = select %6, %4, %5 : f32 tile[1,16]
  %8 = bitcast_convert %7 {dtype=i32} : i32 tile[1,16]
  %9 = convert %8 {dtype=f32} : f32 tile[1,16]
  %10 = transpose %9 {perm=[1,0]} : f32 tile[16,1]
  %11 = reshape %10 : f32 tile[16]
  %12 = broadcast %11 {dims=[1]} : f32 tile[16,16]
  %13 = reduce_sum %12 {dims=[0], limit=[min(16, N - 16*p1)]} : f32 tile[16]
  %14, %15 = scan_product %12, %13 {dims=[0], reverse, exclusive, limit=[N]} : f32 tile[16,16], f32 tile[16]
  %16, %17 = reduce_custom %12, %14 {dims=[0]} (%18, %19, %20, %21) {
    %22 = add %18, %20 : f32 tile[]
    %23 = maximum %19, %21 : f32 tile[]
    yield %22, %23
  } : f32 tile[16], f32 tile[16]
  %24 = dot %12, %14, %12 {lhs_contract=[1], rhs_contract=[0], micro=[4,8], epilogue=micro} : f32 tile[16,16]
  %25 = load %seed[ax0] : u64 tile[2]
  %26 = rng_bits %25, %3 : u32 tile[1,16]
  %27 = for j1 = 0 to N step 4 carry (%28 = %16) {
    %29 = if M - j1 carry (%30 = %28) {
      %31 = add %30, %17 : f32 tile[16]
      yield %31
    }
    yield %29
  }
  report %6, %3 {site=2}
  store %4, %y[p0 + ax0, 16*p1 + ax1] {streaming}
  store %27, %acc[ax0] {kind=add}
}
)";

TEST(TileText, EveryInstructionRoundTrips) {
  Result<Kernel> kernel = parse_kernel(kEverything);
  ASSERT_TRUE(kernel.is_ok()) << kernel.status().to_string();
  EXPECT_EQ(print(*kernel), kEverything);
}

TEST(TileText, TheExampleOfTheGuideIsValid) {
  std::ifstream file("docs/tile.md");
  std::stringstream buffer;
  buffer << file.rdbuf();
  std::string text = buffer.str();
  size_t from = text.find("```\nkernel"), to = text.find("```", from + 3);
  ASSERT_NE(to, std::string::npos) << "run from the root of the repository";
  Result<Kernel> kernel = parse_kernel(text.substr(from + 4, to - from - 4));
  EXPECT_TRUE(kernel.is_ok()) << kernel.status().to_string();
}

TEST(TileText, CanonicalTextForgetsNames) {
  const char* one = R"(kernel @a[N](%x: f32[N], %y: out f32[N]) {
  for i = 0 to N step 8 {
    %v = load %x[i + ax0] : f32 tile[8]
    store %v, %y[i + ax0]
    yield
  }
  for i = 0 to N step 8 {
    %w = load %x[i + ax0] : f32 tile[8]
    store %w, %y[i + ax0]
    yield
  }
})";
  const char* two = R"(kernel @b[Z](%in: f32[Z], %out: out f32[Z]) {
  for k = 0 to Z step 8 {
    %0 = load %in[k + ax0] : f32 tile[8]
    store %0, %out[k + ax0]
    yield
  }
  for other = 0 to Z step 8 {
    %1 = load %in[other + ax0] : f32 tile[8]
    store %1, %out[other + ax0]
    yield
  }
})";
  Result<Kernel> first = parse_kernel(one), second = parse_kernel(two);
  ASSERT_TRUE(first.is_ok() && second.is_ok()) << first.status().to_string() << second.status().to_string();
  EXPECT_EQ(canonical_text(*first), canonical_text(*second));
  Kernel different = *second;
  different.symbols[0].hint = 32;
  EXPECT_NE(canonical_text(different), canonical_text(*second));
}

struct Wrong {
  const char* body;
  const char* message;
};

// The body of a kernel over x: f32[N], y: out f32[N], acc: inout f32[4], grid (N).
std::string wrong_kernel(const char* body) {
  return std::string(
             "kernel @k[N](%x: f32[N], %y: out f32[N], %acc: inout f32[4], %i: i32[4]) grid (N) {\n") +
         body + "\n}";
}

TEST(TileVerifier, SaysWhatIsWrong) {
  const Wrong cases[] = {
      {"%0 = load %x[p1] : f32 tile[]", "symbol p1 of p1 is unknown here, the grid has 1 dims"},
      {"%0 = load %x[M] : f32 tile[]", "symbol M of M is unknown here"},
      {"%0 = load %x[p0, 0] : f32 tile[]", "2 indices into %x of rank 1"},
      {"%0 = load %x[p0 + ax1] : f32 tile[4]", "index mentions ax1 of a tile of rank 1"},
      {"%0 = load %y[p0] : f32 tile[]", "%y is only written, expected in or inout"},
      {"%0 = load %x[p0] : f64 tile[]", "result %0 is f64 tile[], expected f32 tile[]"},
      {"%0 = load %x[p0] : f32 tile[0]", "has a size below 1"},
      {"%0 = const 0 : f32 tile[]\n store %0, %x[p0]", "the param is only read, expected out or inout"},
      {"%0 = const 0 : f64 tile[]\n store %0, %y[p0]", "value %0 is f64, expected f32"},
      {"%0 = const 0 : f32 tile[]\n store %0, %y[p0] {kind=add}",
       "add reads what is there, expected an inout param"},
      {"%0 = const 1 : f32 tile[4]\n %1 = const 1 : f32 tile[2]\n %2 = add %0, %1 : f32 tile[4]",
       "operand %1 is f32 tile[2], expected the shape of %0"},
      {"%0 = const 1 : f32 tile[]\n %1 = const 1 : f64 tile[]\n %2 = add %0, %1 : f32 tile[]", "f64"},
      {"%0 = const 1 : f32 tile[4]\n %1 = reduce_sum %0 {dims=[1]} : f32 tile[]",
       "axis 1 out of range for rank 1"},
      {"%0 = const 1 : f32 tile[4]\n %1 = reduce_and %0 {dims=[0]} : f32 tile[]", "cannot combine f32"},
      {"%0 = const 1 : f32 tile[4]\n %1 = reduce_sum %0 {dims=[0], limit=[1, 2]} : f32 tile[]",
       "2 limits for 1 axes"},
      {"%0 = const 1 : f32 tile[4]\n %1 = transpose %0 {perm=[0,0]} : f32 tile[4]",
       "2 axes for an operand of rank 1"},
      {"%0 = const 1 : f32 tile[4]\n %1 = broadcast %0 {dims=[0]} : f32 tile[5]",
       "operand axis 0 of size 4 cannot become axis 0 of size 5"},
      {"%0 = const 1 : f32 tile[4]\n %1 = reshape %0 : f32 tile[5]", "another number of elements"},
      {"%0 = const 1 : f32 tile[4]\n %1 = reduce_custom %0 {dims=[0]} (%2) {\n yield %2\n } : f32 tile[]",
       "its block takes 1 values, expected 1 left and 1 right"},
      {"%0 = const 1 : f32 tile[4]\n %1 = reduce_custom %0 {dims=[0]} (%2, %3) {\n } : f32 tile[]",
       "its block does not end with yield"},
      {"%9 = const 1 : f32 tile[]\n %0 = const 1 : f32 tile[4]\n"
       "%1 = reduce_custom %0 {dims=[0]} (%2, %3) {\n %4 = add %9, %2 : f32 tile[]\n yield %4\n } : f32 "
       "tile[]",
       "is not defined before, in this block or around it"},
      {"%0 = const 1 : f32 tile[4]\n %1 = for j = 0 to N step 0 carry (%2 = %0) {\n yield %2\n }", "step 0"},
      {"%0 = const 1 : f32 tile[4]\n %1 = for j = 0 to N step 1 carry (%2 = %0) {\n yield\n }",
       "0 values, expected 1"},
      {"for p0 = 0 to N step 1 {\n yield\n }", "has the name of a grid id or tile axis"},
      {"for N = 0 to 4 step 1 {\n yield\n }", "symbol N has a meaning here already"},
      {"for j = 0 to j step 1 {\n yield\n }", "symbol j of j is unknown here"},
      {"for j = 0 to 4 step 1 {\n %0 = index j : i64 tile[]\n yield\n }\n %1 = convert %0 {dtype=f32} : f32 "
       "tile[]",
       "operand %0 is not defined before"},
      {"%0 = const true : bool tile[]\n %1 = const 1 : i64 tile[]\n report %0, %1 {site=0}",
       "does not report"},
      {"%0 = const 1 : f32 tile[2,3]\n %1 = const 1 : f32 tile[2,2]\n"
       "%2 = dot %0, %0, %1 {lhs_contract=[1], rhs_contract=[0]} : f32 tile[2,2]",
       "axis 1 of size 3 meets axis 0 of size 2"},
      {"%0 = index ax0 : f32 tile[4]", "expected integers"},
      {"%0 = const 1 : f32 tile[4]\n %1 = softmax %0 {dim=0} : f32 tile[4]", "not an elementwise primitive"},
  };
  for (const Wrong& wrong : cases) {
    Result<Kernel> kernel = parse_kernel(wrong_kernel(wrong.body));
    ASSERT_FALSE(kernel.is_ok()) << wrong.body;
    EXPECT_NE(kernel.status().message().find(wrong.message), std::string::npos)
        << wrong.body << "\nfound: " << kernel.status().message() << "\nexpected: " << wrong.message;
  }
}

TEST(TileParser, SaysWhereAndWhat) {
  const Wrong cases[] = {
      {"%0 = lod %x[p0] : f32 tile[]", "line 2, column 6: no instruction or op is called `lod`"},
      {"%0 = load %z[p0] : f32 tile[]", "no param is called %z"},
      {"%0 = negate %7 : f32 tile[]", "value %7 is not defined before"},
      {"%0 = const 1 : f32 tile[]\n%0 = const 1 : f32 tile[]", "line 3, column 1: value %0 is defined twice"},
      {"%0 = const 300 : u8 tile[]", "300"},
      {"%0 = load %x[p0 + ] : f32 tile[]", "dim expression"},
      {"%0 = load %x[p0 : f32", "list has no end, expected `]`"},
      {"%0 = load %x[p0] {reverse} : f32 tile[]", "no mark `reverse` at load"},
      {"%0 = load %x[p0] {stage=far} : f32 tile[]", "expected one of registers, direct, packed"},
      {"%0 = load %x[p0] : f32[]", "expected `tile`"},
  };
  for (const Wrong& wrong : cases) {
    Result<Kernel> kernel = parse_kernel(wrong_kernel(wrong.body));
    ASSERT_FALSE(kernel.is_ok()) << wrong.body;
    EXPECT_NE(kernel.status().message().find(wrong.message), std::string::npos)
        << wrong.body << "\nfound: " << kernel.status().message() << "\nexpected: " << wrong.message;
  }
}

// A text cut or changed anywhere is read or refused, never a crash.
TEST(TileParser, SurvivesDamagedTexts) {
  std::string text = kEverything;
  for (size_t at = 0; at < text.size(); at += 3) {
    (void)parse_kernel(text.substr(0, at)).is_ok();
    std::string changed = text;
    changed[at] = "%{}[]()=,:0x-"[at % 13];
    Result<Kernel> kernel = parse_kernel(changed);
    if (kernel.is_ok()) {
      EXPECT_EQ(print(*parse_kernel(print(*kernel))), print(*kernel));
    }
  }
}

}  // namespace

}  // namespace tilewright::tile
