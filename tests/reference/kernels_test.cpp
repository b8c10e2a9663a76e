// Reference kernels against independent loops: strided operands, sums of many terms, convolution, errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <numeric>
#include <random>

#include "base/text.h"
#include "ir/reference/interpreter.h"
#include "ir/reference/philox.h"
#include "ir/reference/scalar.h"
#include "ir/text.h"

namespace tilewright {
namespace {

Graph parse(const std::string& text) {
  Result<Graph> graph = parse_graph(text);
  EXPECT_TRUE(graph.is_ok()) << graph.status().message();
  return graph.is_ok() ? *graph : Graph{};
}

TensorRef dense(DType dtype, std::vector<int64_t> sizes, void* data) {
  TensorRef ref{dtype, sizes, TensorRef::dense_strides(sizes), data};
  return ref;
}

std::vector<float> random_floats(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(count);
  for (float& value : values) value = uniform(random);
  return values;
}

std::vector<float> floats_of(const OwnedTensor& tensor) {
  const float* data = static_cast<const float*>(tensor.ref.data);
  return {data, data + tensor.ref.elements()};
}

// The same numbers, dims stored in another order, with gaps, some axes running backwards, from an odd offset.
struct Scattered {
  std::vector<char> storage;
  TensorRef ref;

  Scattered(const TensorRef& source, std::mt19937& random) {
    int rank = source.rank();
    std::vector<int> order(rank);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    ref = source;
    int64_t step = 1 + random() % 2, width = dtype_bytes(source.dtype), start = 3;
    for (int dim : order) {
      ref.strides[dim] = step;
      step *= std::max<int64_t>(source.sizes[dim], 1) + random() % 2;
      if (random() % 2) {
        start += ref.strides[dim] * std::max<int64_t>(source.sizes[dim] - 1, 0);
        ref.strides[dim] = -ref.strides[dim];
      }
    }
    storage.assign((step + start + 8) * width, 0x5a);
    ref.data = storage.data() + start * width;
    std::vector<int64_t> index(rank, 0);
    for (int64_t flat = 0; flat < source.elements(); ++flat) {
      int64_t offset = 0;
      for (int dim = 0; dim < rank; ++dim) offset += index[dim] * ref.strides[dim];
      std::copy_n(static_cast<const char*>(source.data) + flat * width, width,
                  static_cast<char*>(ref.data) + offset * width);
      for (int dim = rank - 1; dim >= 0 && ++index[dim] == source.sizes[dim]; --dim) index[dim] = 0;
    }
  }
};

const char* kStridedCases[] = {
    "graph @f(%a: f32[3,5,2], %b: f32[3,5,2]) -> (f32[3,5,2]) {\n %y = subtract %a, %b\n return %y\n}",
    "graph @f(%p: bool[3,4], %a: f16[3,4], %b: f16[3,4]) -> (f16[3,4]) {\n %y = select %p, %a, %b\n return "
    "%y\n}",
    "graph @f(%a: f32[3,5,2]) -> (bf16[3,5,2]) {\n %y = convert %a {dtype=bf16}\n return %y\n}",
    "graph @f(%a: i8[4,6]) -> (i8[2,12]) {\n %y = reshape %a {shape=[2,12]}\n return %y\n}",
    "graph @f(%a: i64[4,3]) -> (i64[5,3,4]) {\n %y = broadcast_in_dim %a {shape=[5,3,4], dims=[2,1]}\n "
    "return %y\n}",
    "graph @f(%a: u16[4,3,2]) -> (u16[2,4,3]) {\n %y = transpose %a {perm=[2,0,1]}\n return %y\n}",
    "graph @f(%a: f64[6,5]) -> (f64[2,3]) {\n %y = slice %a {start=[1,0], limit=[6,5], stride=[3,2]}\n "
    "return %y\n}",
    "graph @f(%a: f32[3,2], %v: f32[]) -> (f32[6,1]) {\n %y = pad %a, %v {lo=[1,0], hi=[0,-1], "
    "interior=[1,0]}\n return %y\n}",
    "graph @f(%a: u8[3,2], %b: u8[3,4]) -> (u8[3,6]) {\n %y = concatenate %a, %b {dim=1}\n return %y\n}",
    "graph @f(%a: f32[3,4]) -> (f32[3,4]) {\n %y = reverse %a {dims=[1]}\n return %y\n}",
    "graph @f(%a: f32[3,4,5]) -> (f32[4], f32[3,5], f32[3,4]) {\n %x = reduce_sum %a {dims=[0,2]}\n %y = "
    "reduce_max %a {dims=[1]}\n"
    " %z = reduce_min %a {dims=[2]}\n return %x, %y, %z\n}",
    "graph @f(%a: f32[5,7]) -> (i64[7], i64[5]) {\n %x = argmax %a {dim=0}\n %y = argmin %a {dim=1}\n return "
    "%x, %y\n}",
    "graph @f(%a: f32[4,6]) -> (f32[4,6], f32[4,6], i64[4,6]) {\n %x = cumulative_sum %a {dim=0, "
    "reverse=true}\n"
    " %y, %i = cumulative_max %a {dim=1}\n return %x, %y, %i\n}",
    "graph @f(%a: f32[4,3], %b: f32[4,3], %h: f32[4]) -> (f32[4,3]) {\n %y = linear_recurrence %a, %b, %h "
    "{dim=1}\n return %y\n}",
    "graph @f(%a: f32[5,6]) -> (f32[2,5]) {\n %y = reduce_window %a {kind=max, window=[3,2], "
    "strides=[2,1]}\n return %y\n}",
    "graph @f(%a: f32[4,4], %s: f32[2,2]) -> (f32[4,4]) {\n"
    " %y = select_and_scatter_add %a, %s {window=[2,2], strides=[2,2]}\n return %y\n}",
    "graph @f(%a: f32[2,3,4], %b: f32[5,2,4]) -> (f32[2,3,5]) {\n"
    " %y = dot_general %a, %b {lhs_batch=[0], rhs_batch=[1], lhs_contract=[2], rhs_contract=[2]}\n return "
    "%y\n}",
    "graph @f(%a: f32[2,4,6], %w: f32[6,2,3]) -> (f32[2,6,4]) {\n"
    " %y = convolution %a, %w {feature_groups=2, pad_lo=[1], strides=[1], pad_hi=[-1]}\n return %y\n}",
    "graph @f(%a: f32[5,3], %i: i32[4]) -> (f32[4,3]) {\n"
    " %y = gather %a, %i {offset_dims=[1], collapsed=[0], start_index_map=[0], index_vector_dim=1, "
    "slice_sizes=[1,3]}\n return %y\n}",
    "graph @f(%a: f32[5,3], %i: i64[4,1], %u: f32[3,4]) -> (f32[5,3]) {\n"
    " %y = scatter %a, %i, %u {update_window_dims=[0], inserted=[0], scatter_map=[0], index_vector_dim=1, "
    "kind=add}\n return %y\n}",
    "graph @f(%a: f32[4,3], %i: i64[2,3], %u: f32[2,3]) -> (f32[2,3], f32[4,3]) {\n %y = gather_elements %a, "
    "%i {dim=0}\n"
    " %z = scatter_elements %a, %i, %u {dim=0}\n return %y, %z\n}",
    "graph @f(%a: f32[4,5], %b: i32[4,5]) -> (f32[4,5], i32[4,5]) {\n %x, %y = sort %a, %b {dim=0}\n return "
    "%x, %y\n}",
    "graph @f(%a: f32[4,5]) -> (f32[4,2], i64[4,2]) {\n %v, %i = top_k %a {k=2, dim=1}\n return %v, %i\n}",
    "graph @f(%m: bool[4,5]) -> (i64[20], i64[]) {\n %i, %n = compact_indices %m {bound=20}\n return %i, "
    "%n\n}",
    "graph @f(%i: i32[4,5], %w: f32[4,5]) -> (f32[3]) {\n %y = histogram %i, %w {bins=3}\n return %y\n}",
    "graph @f(%a: f32[4,2]) -> (u8[4,2,4]) {\n %y = bitcast_convert %a {dtype=u8}\n return %y\n}",
    "graph @f(%s: f32[2,4], %v: f32[2,3]) -> (i64[2,3]) {\n %y = searchsorted %s, %v\n return %y\n}",
    "graph @f(%x: f32[4,3], %i: i32[], %j: i64[]) -> (f32[2,2]) {\n"
    " %y = dynamic_slice %x, %i, %i {sizes=[2,2]}\n return %y\n}",
    "graph @f(%x: f32[4,3]) -> (f32[4,3]) {\n %y = cumulative_logsumexp %x {dim=0}\n return %y\n}",
    "graph @f(%c: f32[2], %x: f32[3,2]) -> (f32[2], f32[3,2]) {\n"
    " %l, %y = scan %c, %x {length=[3], carries=1} graph (%c: f32[2], %x: f32[2]) -> (f32[2], f32[2]) {\n"
    "  %n = subtract %c, %x\n  return %n, %n\n }\n return %l, %y\n}",
};

OwnedTensor random_tensor(const TensorType& type, std::mt19937& random) {
  OwnedTensor tensor = allocate_tensor(type.dtype, static_sizes(type.shape));
  for (int64_t i = 0; i < tensor.ref.elements(); ++i) {
    double value = static_cast<int>(random() % 9) - 4;
    if (type.dtype == DType::I32 || type.dtype == DType::I64) value = random() % 3;
    store_scalar(convert_scalar(Scalar::of_float(DType::F64, value), type.dtype),
                 static_cast<char*>(tensor.ref.data) + i * dtype_bytes(type.dtype));
  }
  return tensor;
}

TEST(Kernels, StridesOfOperandsDoNotMatter) {
  std::mt19937 random(7);
  for (const char* text : kStridedCases) {
    SCOPED_TRACE(text);
    Graph graph = parse(text);
    for (int round = 0; round < 6; ++round) {
      std::vector<OwnedTensor> owned;
      std::vector<Scattered> scattered;
      std::vector<TensorRef> plain, strided;
      for (const Input& input : graph.inputs) {
        owned.push_back(random_tensor(graph.type(input.value), random));
        plain.push_back(owned.back().ref);
        scattered.emplace_back(plain.back(), random);
        strided.push_back(scattered.back().ref);
      }
      auto want = interpret(graph, plain, {}), got = interpret(graph, strided, {});
      ASSERT_TRUE(want.is_ok()) << want.status().to_string();
      ASSERT_TRUE(got.is_ok()) << got.status().to_string();
      for (size_t i = 0; i < want->size(); ++i) {
        const char* x = static_cast<const char*>((*want)[i].ref.data);
        const char* y = static_cast<const char*>((*got)[i].ref.data);
        EXPECT_TRUE(std::equal(x, x + (*want)[i].ref.bytes(), y)) << "output " << i << ", round " << round;
      }
    }
  }
}

TEST(Kernels, LongSumsAreRoundedOnce) {
  for (int64_t n : {1, 7, 1000, 1 << 20}) {
    std::vector<float> x = random_floats(n, 3);
    double want = 0;
    for (float value : x) want += value;
    std::vector<TensorRef> inputs{dense(DType::F32, {n}, x.data())};
    auto got = interpret(
        parse(cat("graph @f(%x: f32[", n, "]) -> (f32[]) {\n %y = reduce_sum %x {dims=[0]}\n return %y\n}")),
        inputs, {});
    ASSERT_TRUE(got.is_ok());
    EXPECT_EQ(floats_of((*got)[0])[0], static_cast<float>(want)) << n;
  }
}

TEST(Kernels, DoubleSumsKeepWhatAdditionsLose) {
  std::vector<double> x{1e16, 1, -1e16, 1, 1e-9};
  std::vector<TensorRef> inputs{dense(DType::F64, {5}, x.data())};
  auto got = interpret(
      parse("graph @f(%x: f64[5]) -> (f64[]) {\n %y = reduce_sum %x {dims=[0]}\n return %y\n}"), inputs, {});
  ASSERT_TRUE(got.is_ok());
  EXPECT_EQ(*static_cast<double*>((*got)[0].ref.data), 2.000000001);
}

TEST(Kernels, MatmulAgreesWithThreeLoops) {
  const int64_t sizes[][3] = {{1, 1, 1}, {3, 5, 2}, {67, 129, 5}, {5, 300, 515}, {130, 17, 33}};
  for (const auto& [m, k, n] : sizes) {
    std::vector<float> a = random_floats(m * k, 1), b = random_floats(k * n, 2);
    std::vector<TensorRef> inputs{dense(DType::F32, {m, k}, a.data()), dense(DType::F32, {k, n}, b.data())};
    auto got = interpret(
        parse(cat("graph @f(%a: f32[", m, ",", k, "], %b: f32[", k, ",", n, "]) -> (f32[", m, ",", n,
                  "]) {\n %y = dot_general %a, %b {lhs_contract=[1], rhs_contract=[0]}\n return %y\n}")),
        inputs, {});
    ASSERT_TRUE(got.is_ok()) << got.status().to_string();
    std::vector<float> y = floats_of((*got)[0]);
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double want = 0;
        for (int64_t t = 0; t < k; ++t) want += static_cast<double>(a[i * k + t]) * b[t * n + j];
        ASSERT_NEAR(y[i * n + j], want, 1e-6 * (1 + std::fabs(want))) << m << "x" << k << "x" << n;
      }
    }
  }
}

struct Convolution {
  int64_t batch, groups, in, out, height, width, kernel_h, kernel_w, stride_h, stride_w, lo, hi, lhs_dilation,
      rhs_dilation;
};

// The definition: padded and dilated input, one output at a time.
double convolve_at(const Convolution& c, const std::vector<float>& x, const std::vector<float>& w, int64_t b,
                   int64_t o, int64_t row, int64_t column) {
  double sum = 0;
  int64_t group = o / (c.out / c.groups);
  for (int64_t i = 0; i < c.in; ++i) {
    for (int64_t p = 0; p < c.kernel_h; ++p) {
      for (int64_t q = 0; q < c.kernel_w; ++q) {
        int64_t h = row * c.stride_h + p * c.rhs_dilation - c.lo,
                v = column * c.stride_w + q * c.rhs_dilation - c.lo;
        if (h < 0 || v < 0 || h % c.lhs_dilation || v % c.lhs_dilation) continue;
        h /= c.lhs_dilation, v /= c.lhs_dilation;
        if (h >= c.height || v >= c.width) continue;
        int64_t feature = group * c.in + i;
        sum += static_cast<double>(x[((b * c.groups * c.in + feature) * c.height + h) * c.width + v]) *
               w[((o * c.in + i) * c.kernel_h + p) * c.kernel_w + q];
      }
    }
  }
  return sum;
}

TEST(Kernels, ConvolutionAgreesWithItsDefinition) {
  const Convolution cases[] = {
      {1, 1, 1, 1, 3, 3, 1, 1, 1, 1, 0, 0, 1, 1},     {2, 1, 3, 4, 7, 6, 3, 2, 1, 1, 1, 1, 1, 1},
      {2, 2, 2, 4, 6, 5, 3, 3, 2, 1, 2, 0, 1, 1},     {1, 1, 2, 3, 5, 4, 2, 3, 1, 2, 2, 3, 2, 1},
      {3, 1, 2, 2, 9, 8, 3, 2, 2, 3, 1, 2, 1, 2},     {1, 3, 1, 6, 4, 4, 2, 2, 1, 1, 1, 0, 3, 2},
      {1, 1, 1, 2, 20, 20, 3, 3, 1, 1, -1, -2, 1, 1},
  };
  for (const Convolution& c : cases) {
    std::vector<float> x = random_floats(c.batch * c.groups * c.in * c.height * c.width, 5);
    std::vector<float> w = random_floats(c.out * c.in * c.kernel_h * c.kernel_w, 6);
    auto out_size = [&](int64_t size, int64_t kernel, int64_t stride) {
      int64_t padded = (size - 1) * c.lhs_dilation + 1 + c.lo + c.hi;
      return (padded - ((kernel - 1) * c.rhs_dilation + 1)) / stride + 1;
    };
    int64_t rows = out_size(c.height, c.kernel_h, c.stride_h),
            columns = out_size(c.width, c.kernel_w, c.stride_w);
    std::string text =
        cat("graph @f(%x: f32[", c.batch, ",", c.groups * c.in, ",", c.height, ",", c.width, "], %w: f32[",
            c.out, ",", c.in, ",", c.kernel_h, ",", c.kernel_w, "]) -> (f32[", c.batch, ",", c.out, ",", rows,
            ",", columns, "]) {\n %y = convolution %x, %w {feature_groups=", c.groups, ", strides=[",
            c.stride_h, ",", c.stride_w, "], pad_lo=[", c.lo, ",", c.lo, "], pad_hi=[", c.hi, ",", c.hi,
            "], lhs_dilation=[", c.lhs_dilation, ",", c.lhs_dilation, "], rhs_dilation=[", c.rhs_dilation,
            ",", c.rhs_dilation, "]}\n return %y\n}");
    Graph graph = parse(text);
    std::vector<TensorRef> inputs{
        dense(DType::F32, static_sizes(graph.type(graph.inputs[0].value).shape), x.data()),
        dense(DType::F32, static_sizes(graph.type(graph.inputs[1].value).shape), w.data())};
    auto got = interpret(graph, inputs, {});
    ASSERT_TRUE(got.is_ok()) << got.status().to_string();
    std::vector<float> y = floats_of((*got)[0]);
    for (int64_t i = 0; i < static_cast<int64_t>(y.size()); ++i) {
      int64_t column = i % columns, row = i / columns % rows, o = i / columns / rows % c.out,
              b = i / columns / rows / c.out;
      ASSERT_NEAR(y[i], convolve_at(c, x, w, b, o, row, column), 1e-6) << text;
    }
  }
}

TEST(Kernels, PhiloxKnownAnswers) {
  using Words = std::array<uint32_t, 4>;
  EXPECT_EQ(philox4x32_10({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32_10({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Kernels, MersenneTwisterIsTheStandardOne) {
  std::vector<uint32_t> state(625);
  state[0] = 42;
  for (uint32_t i = 1; i < 624; ++i) state[i] = 1812433253u * (state[i - 1] ^ (state[i - 1] >> 30)) + i;
  state[624] = 624;
  Graph graph = parse(
      "graph @f(%s: u32[625]) -> (u32[625], u32[700], u32[700]) {\n"
      " %t, %x = rng_bit_generator %s {shape=[700], algorithm=mt19937_torch}\n"
      " %u, %y = rng_bit_generator %t {shape=[700], algorithm=mt19937_torch}\n return %u, %x, %y\n}");
  std::vector<TensorRef> inputs{dense(DType::U32, {625}, state.data())};
  auto got = interpret(graph, inputs, {});
  ASSERT_TRUE(got.is_ok()) << got.status().to_string();
  std::mt19937 standard(42);
  for (size_t output : {1, 2}) {
    const uint32_t* words = static_cast<const uint32_t*>((*got)[output].ref.data);
    for (int i = 0; i < 700; ++i) ASSERT_EQ(words[i], standard()) << i;
  }
}

Status run_status(const std::string& text, std::vector<TensorRef> inputs = {}, const Bindings& given = {}) {
  return interpret(parse(text), inputs, given).status();
}

TEST(Errors, IndexOutOfRangeIsSticky) {
  Status status = run_status(
      "graph @f() -> (f32[2]) {\n %x = constant {value=[1,2,3]} : f32[3]\n %i = constant {value=[1,7]} : "
      "i64[2]\n"
      " %y = gather_elements %x, %i {dim=0, oob=error}\n return %y\n}");
  EXPECT_EQ(status.code(), Code::OutOfRange);
  EXPECT_EQ(status.message(), "gather_elements: index 7 is outside [0, 3) in dim 0");
}

TEST(Errors, IndexOutOfRangeGivesZeroThere) {
  std::vector<float> seen;
  InterpreterOptions options;
  options.observe = [&](NodeId, std::span<const TensorRef> results) {
    const float* data = static_cast<const float*>(results[0].data);
    if (results[0].dtype == DType::F32) seen.assign(data, data + results[0].elements());
  };
  Graph graph = parse(
      "graph @f() -> (f32[2,2]) {\n %x = constant {value=[[1,2],[3,4]]} : f32[2,2]\n %i = constant "
      "{value=[5,1]} : i64[2]\n"
      " %y = gather %x, %i {offset_dims=[1], collapsed=[0], start_index_map=[0], index_vector_dim=1, "
      "slice_sizes=[1,2], oob=error}\n"
      " return %y\n}");
  EXPECT_EQ(interpret(graph, {}, {}, options).status().code(), Code::OutOfRange);
  EXPECT_EQ(seen, (std::vector<float>{0, 0, 3, 4}));
}

TEST(Errors, FailedAssertIsSticky) {
  Status status = run_status(
      "graph @f() -> () {\n %p = constant {value=[true,false]} : bool[2]\n assert %p {message=\"y was 0\"}\n "
      "return\n}");
  EXPECT_EQ(status.code(), Code::FailedPrecondition);
  EXPECT_EQ(status.message(), "assert: y was 0");
}

TEST(Errors, MoreRanksAreUnimplemented) {
  Status status = run_status(
      "graph @f() -> (f32[]) {\n %x = constant {value=1} : f32[]\n %y = all_reduce %x {group=[0,1]}\n return "
      "%y\n}");
  EXPECT_EQ(status.code(), Code::Unimplemented);
}

TEST(Errors, ArgmaxOfAnEmptyAxis) {
  Status status =
      run_status("graph @f[N](%x: f32[2,N]) -> (i64[2]) {\n %y = argmax %x {dim=1}\n return %y\n}",
                 {dense(DType::F32, {2, 0}, nullptr)});
  EXPECT_EQ(status.code(), Code::InvalidArgument);
}

TEST(Symbols, BoundByTheFirstBareDim) {
  Graph graph = parse(
      "graph @f[N in 1..100](%x: f32[N], %y: f32[2*N]) -> (f32[2*N]) {\n %z = negate %y\n return %z\n}");
  std::vector<std::vector<int64_t>> sizes{{3}, {6}};
  auto bindings = bind_symbols(graph, sizes, {});
  ASSERT_TRUE(bindings.is_ok());
  EXPECT_EQ(bindings->at("N"), 3);
  sizes[1] = {7};
  EXPECT_EQ(bind_symbols(graph, sizes, {}).status().message(),
            "input %y: dim 0 has size 7, expected 2*N = 6");
  sizes = {{101}, {202}};
  EXPECT_EQ(bind_symbols(graph, sizes, {}).status().message(), "symbol N = 101 is outside its range 1..100");
  sizes = {{3, 1}, {6}};
  EXPECT_FALSE(bind_symbols(graph, sizes, {}).is_ok());
  sizes = {{3}};
  EXPECT_FALSE(bind_symbols(graph, sizes, {}).is_ok());
}

TEST(Symbols, OthersComeFromTheRun) {
  Graph graph = parse(
      "graph @f[N](%x: f32[2*N]) -> (f32[N]) {\n %i = iota {shape=[N], dim=0, dtype=f32}\n return %i\n}");
  std::vector<std::vector<int64_t>> sizes{{8}};
  EXPECT_FALSE(bind_symbols(graph, sizes, {}).is_ok());
  auto bindings = bind_symbols(graph, sizes, {{"N", 4}});
  ASSERT_TRUE(bindings.is_ok()) << bindings.status().to_string();
  EXPECT_FALSE(bind_symbols(graph, sizes, {{"N", 5}}).is_ok());
}

TEST(Symbols, RegionsSeeThem) {
  std::vector<float> x{1, 2, 3};
  std::vector<TensorRef> inputs{dense(DType::F32, {3}, x.data())};
  Graph graph = parse(
      "graph @f[N](%x: f32[N]) -> (f32[N]) {\n %y = call %x graph (%x: f32[N]) -> (f32[N]) {\n"
      "  %i = iota {shape=[N], dim=0, dtype=f32}\n  %s = add %x, %i\n  return %s\n }\n return %y\n}");
  auto got = interpret(graph, inputs, {});
  ASSERT_TRUE(got.is_ok()) << got.status().to_string();
  EXPECT_EQ(floats_of((*got)[0]), (std::vector<float>{1, 3, 5}));
}

TEST(Interpreter, OutputsAreOwnCopies) {
  std::vector<float> x{1, 2};
  std::vector<TensorRef> inputs{dense(DType::F32, {2}, x.data())};
  Graph graph = parse(
      "graph @f(%x: f32[2]) -> (f32[2], f32[2], f32[2], f32[2]) {\n %y = negate %x\n return %x, %y, %y, "
      "%x\n}");
  auto got = interpret(graph, inputs, {});
  ASSERT_TRUE(got.is_ok());
  x = {9, 9};
  EXPECT_EQ(floats_of((*got)[0]), (std::vector<float>{1, 2}));
  EXPECT_EQ(floats_of((*got)[1]), (std::vector<float>{-1, -2}));
  EXPECT_EQ(floats_of((*got)[2]), (std::vector<float>{-1, -2}));
  EXPECT_EQ(floats_of((*got)[3]), (std::vector<float>{1, 2}));
}

TEST(Interpreter, LongChainsNeedNoStack) {
  Graph graph;
  ValueId value = graph.add_input("x", {DType::I32, {}});
  for (int i = 0; i < 50000; ++i) {
    auto node = graph.append(Op::Negate, {value});
    ASSERT_TRUE(node.is_ok());
    value = graph.result(*node);
  }
  graph.add_output(value);
  int32_t x = 5;
  std::vector<TensorRef> inputs{dense(DType::I32, {}, &x)};
  auto got = interpret(graph, inputs, {});
  ASSERT_TRUE(got.is_ok());
  EXPECT_EQ(*static_cast<int32_t*>((*got)[0].ref.data), 5);
}

TEST(Interpreter, RoundsToNearestWhateverTheHostDoes) {
  Graph graph = parse(
      "graph @f() -> (f32[]) {\n %x = constant {value=1} : f32[]\n %y = constant {value=3} : f32[]\n"
      " %z = divide %x, %y\n return %z\n}");
  std::fesetround(FE_UPWARD);
  auto got = interpret(graph, {}, {});
  int mode = std::fegetround();
  std::fesetround(FE_TONEAREST);
  ASSERT_TRUE(got.is_ok());
  EXPECT_EQ(floats_of((*got)[0])[0], 0x1.555556p-2f);
  graph = parse(
      "graph @f() -> (f32[]) {\n %x = constant {value=1} : f32[]\n %y = constant {value=10} : f32[]\n"
      " %z = divide %x, %y\n return %z\n}");
  std::fesetround(FE_DOWNWARD);
  auto down = interpret(graph, {}, {});
  std::fesetround(FE_TONEAREST);
  ASSERT_TRUE(down.is_ok());
  EXPECT_EQ(floats_of((*down)[0])[0], 0x1.99999ap-4f);
  EXPECT_EQ(mode, FE_UPWARD);
}

TEST(Interpreter, AbortCheckStops) {
  InterpreterOptions options;
  options.abort_check = [] { return Status(Code::Cancelled, "enough"); };
  Graph graph = parse("graph @f() -> (f32[]) {\n %x = constant {value=1} : f32[]\n return %x\n}");
  EXPECT_EQ(interpret(graph, {}, {}, options).status().code(), Code::Cancelled);
}

TEST(Interpreter, CustomCallsGoToTheRunner) {
  InterpreterOptions options;
  options.custom_call = [](const std::string& target, const AttributeMap&, std::span<const TensorRef> inputs,
                           std::span<TensorRef> outputs) {
    if (target != "twice") return Status::not_found(target);
    *static_cast<float*>(outputs[0].data) = 2 * *static_cast<const float*>(inputs[0].data);
    return Status::ok();
  };
  Graph graph = parse(
      "graph @f() -> (f32[]) {\n %x = constant {value=4} : f32[]\n %y = custom_call %x {target=\"twice\", "
      "result_types=[f32[]]}\n return %y\n}");
  auto got = interpret(graph, {}, {}, options);
  ASSERT_TRUE(got.is_ok()) << got.status().to_string();
  EXPECT_EQ(floats_of((*got)[0])[0], 8);
  EXPECT_EQ(interpret(graph, {}, {}).status().code(), Code::Unimplemented);
}

}  // namespace
}  // namespace tilewright
