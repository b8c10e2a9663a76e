// Dots of all layouts, sizes and types against the tile interpreter.
#include <gtest/gtest.h>

#include "base/text.h"
#include "tests/emit/tile_run.h"

namespace tilewright {
namespace {

using tile::AccessMode;
using tile::KernelBuilder;
using tile::TileType;

struct ProductCase {
  int64_t m, n, k;               // sizes of the matrices
  int64_t rows, columns, depth;  // of the tiles
  bool lhs_transposed = false, rhs_transposed = false;
  DType in = DType::F32, out = DType::F32;
  bool symbolic = false;
};

tile::Access matrix_access(int param, Dim row, Dim column, bool transposed) {
  tile::Access access;
  access.param = param;
  tile::DimIndex r{std::move(row), {{0, 1}}, {}}, c{std::move(column), {{1, 1}}, {}};
  if (transposed) {
    access.index = {c, r};
  } else {
    access.index = {r, c};
  }
  return access;
}

tile::Kernel make_product(const ProductCase& test) {
  KernelBuilder builder("product");
  Dim m = test.symbolic ? Dim::symbol("M") : Dim(test.m), n = test.symbolic ? Dim::symbol("N") : Dim(test.n);
  Dim k = test.symbolic ? Dim::symbol("K") : Dim(test.k);
  if (test.symbolic) {
    for (const char* name : {"M", "N", "K"})
      builder.kernel().symbols.push_back(Symbol{name, 0, INT64_MAX, {}});
  }
  auto param = [&](const char* name, DType dtype, Dim a, Dim b, AccessMode mode) {
    tile::Param out;
    out.name = name;
    out.dtype = dtype;
    out.dims = {std::move(a), std::move(b)};
    out.mode = mode;
    return builder.add_param(std::move(out));
  };
  int x = test.lhs_transposed ? param("x", test.in, k, m, AccessMode::Read)
                              : param("x", test.in, m, k, AccessMode::Read);
  int w = test.rhs_transposed ? param("w", test.in, n, k, AccessMode::Read)
                              : param("w", test.in, k, n, AccessMode::Read);
  int y = param("y", test.out, m, n, AccessMode::Write);
  builder.set_grid({Dim::ceil_div(m, Dim(test.rows)), Dim::ceil_div(n, Dim(test.columns))});
  Dim row = KernelBuilder::grid_id(0) * Dim(test.rows),
      column = KernelBuilder::grid_id(1) * Dim(test.columns);
  ValueId acc = builder.integer(0, TileType{test.out, {test.rows, test.columns}});
  Dim step = builder.begin_for(Dim(0), k, Dim(test.depth), {acc});
  ValueId a = builder.load(matrix_access(x, row, step, test.lhs_transposed),
                           TileType{test.in, {test.rows, test.depth}});
  ValueId b = builder.load(matrix_access(w, step, column, test.rhs_transposed),
                           TileType{test.in, {test.depth, test.columns}});
  ValueId next = builder.dot(a, b, builder.loop_carries()[0], tile::DotDims{{1}, {0}, {}, {}});
  ValueId sums = builder.end_block({next})[0];
  builder.store(sums, matrix_access(y, row, column, false));
  return builder.take();
}

void check(const ProductCase& test, double tolerance) {
  std::string wrong =
      check_tile(make_product(test), {{"M", test.m}, {"N", test.n}, {"K", test.k}}, tolerance);
  EXPECT_EQ(wrong, "") << cat(test.m, "x", test.n, "x", test.k, " tiles ", test.rows, "x", test.columns, "x",
                              test.depth, " transposed ", test.lhs_transposed, test.rhs_transposed, " ",
                              dtype_name(test.in), " ", dtype_name(test.out),
                              test.symbolic ? " symbolic" : "");
}

TEST(Product, Sizes) {
  for (auto [m, n, k] : {std::array<int64_t, 3>{1, 1, 1},
                         {1, 40, 17},
                         {40, 1, 17},
                         {5, 7, 3},
                         {16, 16, 16},
                         {33, 65, 20},
                         {50, 100, 70},
                         {3, 200, 33},
                         {64, 3, 9},
                         {29, 48, 64}}) {
    check({m, n, k, m, n, k}, 1e-5);
    check({m, n, k, std::min<int64_t>(m, 32), std::min<int64_t>(n, 48), std::min<int64_t>(k, 16)}, 1e-5);
  }
}

TEST(Product, Layouts) {
  for (int layout = 0; layout < 4; ++layout) {
    for (bool symbolic : {false, true}) {
      check({50, 70, 45, 32, 48, 16, (layout & 1) != 0, (layout & 2) != 0, DType::F32, DType::F32, symbolic},
            1e-5);
      check({64, 96, 32, 32, 48, 16, (layout & 1) != 0, (layout & 2) != 0, DType::F32, DType::F32, symbolic},
            1e-5);
      check({3, 96, 300, 3, 48, 128, (layout & 1) != 0, (layout & 2) != 0, DType::F32, DType::F32, symbolic},
            1e-5);
    }
  }
}

TEST(Product, Types) {
  for (auto [in, out] : {std::pair<DType, DType>{DType::F64, DType::F64},
                         {DType::BF16, DType::F32},
                         {DType::F16, DType::F32},
                         {DType::BF16, DType::BF16},
                         {DType::I8, DType::I32},
                         {DType::U8, DType::I32},
                         {DType::I32, DType::I32},
                         {DType::I64, DType::I64},
                         {DType::F8E4M3FN, DType::F32}}) {
    for (int layout = 0; layout < 4; ++layout) {
      check({50, 70, 45, 32, 48, 16, (layout & 1) != 0, (layout & 2) != 0, in, out, true},
            is_narrow_float(out) ? 3e-2 : 1e-5);
    }
  }
}

// Tiles of the sizes that blocks of threads take; ends that no tile divides; rows that are not aligned.
TEST(Product, Blocks) {
  for (int layout = 0; layout < 4; ++layout) {
    bool lhs = (layout & 1) != 0, rhs = (layout & 2) != 0;
    for (DType in : {DType::BF16, DType::F16}) {
      check({130, 264, 136, 128, 256, 64, lhs, rhs, in, DType::F32, false}, 1e-4);
      check({100, 72, 200, 64, 64, 64, lhs, rhs, in, DType::F32, true}, 1e-4);
    }
    check({65, 129, 127, 64, 128, 32, lhs, rhs, DType::BF16, DType::F32, true}, 1e-4);
    check({1, 64, 256, 1, 64, 64, lhs, rhs, DType::BF16, DType::F32, false}, 1e-4);
    check({17, 1, 96, 17, 1, 32, lhs, rhs, DType::BF16, DType::F32, false}, 1e-4);
    check({130, 132, 36, 128, 128, 32, lhs, rhs, DType::F32, DType::F32, false}, 1e-5);
    check({66, 70, 40, 64, 64, 16, lhs, rhs, DType::F64, DType::F64, true}, 1e-12);
  }
}

}  // namespace
}  // namespace tilewright
