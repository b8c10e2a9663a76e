// Running executables: checks of tensors, given and asked outputs, aliasing, layouts, symbols, errors of
// kernels.
#include <thread>

#include "tests/capi/support.h"

namespace capi_test {
namespace {

class Run : public BothModes {};
BOTH_MODES(Run);

const char* const kScale = R"(
graph @scale[N in 1..100 hint 4](%x: f32[N,3], %f: f32[]) -> (y: f32[N,3]) {
  %0 = broadcast_in_dim %f {shape=[N,3], dims=[]} : f32[N,3]
  %1 = multiply %x, %0 : f32[N,3]
  return %1
}
)";

// One tensor as the C API sees it.
struct View {
  std::vector<int64_t> shape, strides;
  DLTensor tensor = {};
  View(void* data, std::vector<int64_t> sizes, std::vector<int64_t> steps = {}, DLDataType dtype = {2, 32, 1})
      : shape(std::move(sizes)), strides(std::move(steps)) {
    tensor.data = data;
    tensor.device.device_type = kDLCPU;
    tensor.ndim = static_cast<int32_t>(shape.size());
    tensor.dtype = dtype;
    tensor.shape = shape.data();
    tensor.strides = strides.empty() ? nullptr : strides.data();
  }
};

std::string graph_text(const std::string& text) { return text.substr(text.find("graph")); }

TEST_P(Run, OneExecutableManySizes) {
  const tw::Executable run = compile(graph_text(kScale));
  for (int64_t n : {1, 3, 7, 100, 3}) {
    std::vector<float> x(static_cast<size_t>(n) * 3);
    for (size_t at = 0; at < x.size(); ++at) x[at] = static_cast<float>(at);
    const tw::Tensor xs = floats(x, {n, 3}), factor = floats({2}, {});
    const std::vector<tw::Tensor> out = run(
        {
            &xs,
            &factor,
        },
        {});
    EXPECT_EQ(out[0].sizes(), (tw::Sizes{n, 3}));
    EXPECT_EQ(out[0].data<float>()[3 * n - 1], 2 * x.back());
  }
}

TEST_P(Run, WrongTensorsAreRefusedWithTheirName) {
  const tw::Executable run = compile(graph_text(kScale));
  float data[12] = {};
  int64_t ints[3] = {};
  View x(data, {2, 3}), f(data, {});
  DLManagedTensorVersioned* out[1];
  const auto call = [&](const DLTensor* a, const DLTensor* b, int64_t inputs = 2, int64_t outputs = 1) {
    const DLTensor* list[] = {a, b};
    return tw_run(run.get(), list, inputs, nullptr, out, outputs, nullptr);
  };
  const auto expect_refused = [&](tw_status* status, const std::string& part) {
    expect_code(status, TW_INVALID_ARGUMENT, part);
    EXPECT_EQ(out[0], nullptr);
  };
  expect_refused(call(&x.tensor, &f.tensor, 1), "1 inputs, expected 2");
  expect_code(call(&x.tensor, &f.tensor, 2, 0), TW_INVALID_ARGUMENT, "0 outputs, expected 1");
  expect_refused(call(&x.tensor, nullptr), "input 1 %f is missing");
  View wide(data, {2, 4}), flat(data, {6}), empty(data, {0, 3}), large(data, {101, 3});
  expect_refused(call(&wide.tensor, &f.tensor), "input 0 %x has size 4 in dim 1, expected 3");
  expect_refused(call(&flat.tensor, &f.tensor), "input 0 %x has rank 1, expected 2");
  expect_refused(call(&empty.tensor, &f.tensor), "symbol N is 0, expected 1 to 100");
  expect_refused(call(&large.tensor, &f.tensor), "symbol N is 101, expected 1 to 100");
  View integers(ints, {2, 3}, {}, {0, 64, 1}), complex(data, {2, 3}, {}, {5, 64, 1}),
      lanes(data, {2, 3}, {}, {2, 32, 2});
  expect_refused(call(&integers.tensor, &f.tensor), "dtype i64, expected f32");
  expect_refused(call(&complex.tensor, &f.tensor), "code 5");
  expect_refused(call(&lanes.tensor, &f.tensor), "2 lanes");
  View nothing(nullptr, {2, 3}), negative(data, {-2, 3});
  expect_refused(call(&nothing.tensor, &f.tensor), "input 0 %x has no data");
  expect_refused(call(&negative.tensor, &f.tensor), "size -2");
  View device(data, {2, 3});
  device.tensor.device.device_type = kDLCUDA;
  expect_refused(call(&device.tensor, &f.tensor), "device type 2");
  View huge(data, {INT64_MAX / 2, 3});
  expect_refused(call(&huge.tensor, &f.tensor), "too large");
  View no_shape(data, {2, 3});
  no_shape.tensor.shape = nullptr;
  expect_refused(call(&no_shape.tensor, &f.tensor), "no shape");
}

TEST_P(Run, OutputsAreGivenOrAskedFor) {
  const tw::Executable run = compile(
      "graph @two(%x: f32[4]) -> (a: f32[4], b: f32[4]) {\n  %0 = add %x, %x : f32[4]\n  %1 = negate %x : "
      "f32[4]\n"
      "  return %0, %1\n}\n");
  const tw::Tensor x = floats({1, 2, 3, 4}, {4}), mine(tw::f32, {4});
  tw::RunOptions options;
  options.given = {nullptr, &mine};
  const std::vector<tw::Tensor> out = run({&x}, options);
  EXPECT_EQ(values(out[0]), (std::vector<float>{2, 4, 6, 8}));
  EXPECT_EQ(out[1].raw(), nullptr);
  EXPECT_EQ(values(mine), (std::vector<float>{-1, -2, -3, -4}));
  // Neither given nor asked for.
  const DLTensor* inputs[] = {x.get()};
  const DLTensor* given[] = {mine.get(), nullptr};
  expect_code(tw_run(run.get(), inputs, 1, given, nullptr, 2, nullptr), TW_INVALID_ARGUMENT,
              "output 1 b is neither given nor asked for");
  // Given with the wrong shape, dtype or no place for each element.
  float data[8] = {};
  View small(data, {3}), repeated(data, {4}, {0});
  given[1] = &small.tensor;
  expect_code(tw_run(run.get(), inputs, 1, given, nullptr, 2, nullptr), TW_INVALID_ARGUMENT,
              "output 1 b has size 3");
  given[1] = &repeated.tensor;
  expect_code(tw_run(run.get(), inputs, 1, given, nullptr, 2, nullptr), TW_INVALID_ARGUMENT, "stride 0");
}

TEST_P(Run, StridedAndUnalignedTensors) {
  const tw::Executable run =
      compile("graph @t(%x: f32[2,3]) -> (f32[2,3]) {\n  %0 = add %x, %x : f32[2,3]\n  return %0\n}\n");
  float storage[32];
  for (int at = 0; at < 32; ++at) storage[at] = static_cast<float>(at);
  const float wanted[] = {1, 3, 5, 2, 4, 6};
  View transposed(storage + 1, {2, 3}, {1, 2}), backwards(storage + 6, {2, 3}, {-3, -1}),
      repeated(storage + 5, {2, 3}, {0, 0});
  float result[16] = {};
  View out(result + 1, {2, 3}, {5, 2});
  const auto call = [&](const DLTensor& in) {
    const DLTensor* inputs[] = {&in};
    const DLTensor* given[] = {&out.tensor};
    EXPECT_OK(tw_run(run.get(), inputs, 1, given, nullptr, 1, nullptr));
    return std::vector<float>{result[1], result[3], result[5], result[6], result[8], result[10]};
  };
  std::vector<float> found = call(transposed.tensor);
  for (int at = 0; at < 6; ++at) EXPECT_EQ(found[static_cast<size_t>(at)], 2 * wanted[at]);
  EXPECT_EQ(result[2], 0);  // between the strides nothing is written
  EXPECT_EQ(call(backwards.tensor), (std::vector<float>{12, 10, 8, 6, 4, 2}));
  EXPECT_EQ(call(repeated.tensor), (std::vector<float>(6, 10)));
  // Not even aligned to an element.
  std::vector<char> bytes(64);
  std::memcpy(bytes.data() + 1, storage, 24);
  View unaligned(bytes.data() + 1, {2, 3});
  EXPECT_EQ(call(unaligned.tensor), (std::vector<float>{0, 2, 4, 6, 8, 10}));
  View offset(storage, {2, 3});
  offset.tensor.byte_offset = 8;
  EXPECT_EQ(call(offset.tensor), (std::vector<float>{4, 6, 8, 10, 12, 14}));
  // Strides of dims of size 1 say nothing.
  const tw::Executable row =
      compile("graph @r(%x: f32[1,3]) -> (f32[1,3]) {\n  %0 = negate %x : f32[1,3]\n  return %0\n}\n");
  View odd(storage, {1, 3}, {1234, 1});
  const DLTensor* inputs[] = {&odd.tensor};
  DLManagedTensorVersioned* asked[1];
  ASSERT_OK(tw_run(row.get(), inputs, 1, nullptr, asked, 1, nullptr));
  EXPECT_EQ(static_cast<float*>(asked[0]->dl_tensor.data)[2], -2);
  tw_tensor_release(asked[0]);
  EXPECT_NE(row.report().find("\"input_copies\":0"), std::string::npos) << row.report();
  EXPECT_EQ(run.report().find("\"input_copies\":0"), std::string::npos);
}

TEST_P(Run, AliasedOutputsReplaceTheirInput) {
  const tw::Executable run =
      compile(R"(graph @step(%p: f32[1000], %g: f32[1000]) -> (p2: f32[1000] alias(0), old: f32[1000]) {
  %lr = constant {value=0.5} : f32[1000]
  %0 = multiply %g, %lr : f32[1000]
  %1 = subtract %p, %0 : f32[1000]
  %2 = add %p, %p : f32[1000]
  return %1, %2
}
)");
  std::vector<float> start(1000);
  for (size_t at = 0; at < start.size(); ++at) start[at] = static_cast<float>(at);
  tw::Tensor p = floats(start, {1000});
  const tw::Tensor g = floats(std::vector<float>(1000, 2), {1000});
  tw::RunOptions options;
  options.given = {&p, nullptr};
  const std::vector<tw::Tensor> out = run({&p, &g}, options);
  for (size_t at = 0; at < start.size(); ++at) {
    ASSERT_EQ(p.data<float>()[at], start[at] - 1);
    ASSERT_EQ(out[1].data<float>()[at], 2 * start[at]);  // the old value was read in time
  }
  // Another overlap is refused.
  float data[1100] = {};
  View in(data, {1000}), shifted(data + 10, {1000}), other(const_cast<float*>(g.data<float>()), {1000});
  const DLTensor* inputs[] = {&in.tensor, g.get()};
  const DLTensor* given[] = {&shifted.tensor, nullptr};
  DLManagedTensorVersioned* asked[2];
  expect_code(tw_run(run.get(), inputs, 2, given, asked, 2, nullptr), TW_INVALID_ARGUMENT, "overlap");
  given[0] = &other.tensor;
  expect_code(tw_run(run.get(), inputs, 2, given, asked, 2, nullptr), TW_INVALID_ARGUMENT, "overlap");
  View second(data + 500, {1000});
  given[0] = &in.tensor;
  given[1] = &second.tensor;
  expect_code(tw_run(run.get(), inputs, 2, given, asked, 2, nullptr), TW_INVALID_ARGUMENT,
              "output 0 p2 and output 1 old overlap");
}

TEST_P(Run, AliasOfATransposedReadUsesATemporary) {
  const tw::Executable run = compile(R"(graph @t(%x: f32[64,64]) -> (y: f32[64,64] alias(0)) {
  %0 = transpose %x {perm=[1,0]} : f32[64,64]
  %1 = add %x, %0 : f32[64,64]
  return %1
}
)");
  std::vector<float> start(64 * 64);
  for (size_t at = 0; at < start.size(); ++at) start[at] = static_cast<float>(at % 97);
  tw::Tensor x = floats(start, {64, 64});
  tw::RunOptions options;
  options.given = {&x};
  run({&x}, options);
  for (size_t row = 0; row < 64; ++row)
    for (size_t column = 0; column < 64; ++column)
      ASSERT_EQ(x.data<float>()[row * 64 + column], start[row * 64 + column] + start[column * 64 + row]);
}

TEST_P(Run, PassThroughAndRepeatedOutputs) {
  const tw::Executable run = compile(R"(graph @p(%x: f32[3]) -> (f32[3], f32[3], f32[3], i32[2]) {
  %0 = negate %x : f32[3]
  %1 = constant {value=[7,8]} : i32[2]
  return %x, %0, %0, %1
}
)");
  const tw::Tensor x = floats({1, 2, 3}, {3});
  const std::vector<tw::Tensor> out = run({&x});
  EXPECT_EQ(values(out[0]), (std::vector<float>{1, 2, 3}));
  EXPECT_NE(out[0].raw(), x.raw());
  EXPECT_EQ(values(out[1]), values(out[2]));
  EXPECT_NE(out[1].raw(), out[2].raw());
  EXPECT_EQ(out[3].to_vector<int32_t>(), (std::vector<int32_t>{7, 8}));
}

TEST_P(Run, EmptyTensorsNeedNoData) {
  const tw::Executable run = compile(
      "graph @e(%x: f32[0,5]) -> (f32[0,5], f32[5]) {\n  %0 = negate %x : f32[0,5]\n"
      "  %1 = reduce_sum %x {dims=[0]} : f32[5]\n  return %0, %1\n}\n");
  View x(nullptr, {0, 5});
  const std::vector<tw::Tensor> out = run.run({&x.tensor});
  EXPECT_EQ(out[0].elements(), 0);
  EXPECT_EQ(values(out[1]), std::vector<float>(5, 0));
}

TEST_P(Run, SymbolsFromOptions) {
  const tw::Executable run = compile(
      "graph @s[N in 0..9](%f: f32[]) -> (f32[2*N]) {\n  %0 = broadcast_in_dim %f {shape=[2*N], dims=[]} : "
      "f32[2*N]\n"
      "  return %0\n}\n");
  const tw::Tensor f = floats({3}, {});
  tw::RunOptions options;
  options.symbols = {{"N", 2}};
  EXPECT_EQ(values(run({&f}, options)[0]), std::vector<float>(4, 3));
  const auto failure = [&](std::vector<std::pair<std::string, int64_t>> symbols) -> std::string {
    options.symbols = std::move(symbols);
    try {
      run({&f}, options);
    } catch (const tw::Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(failure({}).find("symbol N is no size of an input"), std::string::npos);
  EXPECT_NE(failure({{"N", 10}}).find("symbol N is 10, expected 0 to 9"), std::string::npos);
  EXPECT_NE(failure({{"M", 1}, {"N", 1}}).find("no symbol M"), std::string::npos);
  int64_t sizes[1];
  int32_t rank = 0;
  const DLTensor* inputs[] = {f.get()};
  const char* name = "N";
  const int64_t value = 4;
  tw_run_options raw = {};
  raw.struct_size = sizeof raw;
  raw.symbol_names = &name;
  raw.symbol_values = &value;
  raw.symbol_count = 1;
  ASSERT_OK(tw_executable_output_sizes(run.get(), inputs, 1, &raw, 0, sizes, 1, &rank));
  EXPECT_EQ(rank, 1);
  EXPECT_EQ(sizes[0], 8);
  raw.stream = &raw;
  expect_code(tw_executable_output_sizes(run.get(), inputs, 1, &raw, 0, sizes, 1, &rank), TW_INVALID_ARGUMENT,
              "stream");
}

TEST_P(Run, ErrorsOfKernelsComeBackFromTheRun) {
  const tw::Executable run = compile(
      "graph @lookup(%t: f32[4,2], %i: i32[3]) -> (f32[3,2]) {\n  %0 = embedding %t, %i {oob=error} : "
      "f32[3,2]\n"
      "  return %0\n}\n");
  const tw::Tensor table = floats({0, 1, 2, 3, 4, 5, 6, 7}, {4, 2});
  const tw::Tensor good(std::vector<int32_t>{0, 3, 1}, {3}), bad(std::vector<int32_t>{0, 9, 1}, {3});
  EXPECT_EQ(values(run({&table, &good})[0]), (std::vector<float>{0, 1, 6, 7, 2, 3}));
  for (int turn = 0; turn < 3; ++turn) {
    try {
      run({&table, &bad});
      FAIL() << "an index out of range went through";
    } catch (const tw::Error& error) {
      EXPECT_EQ(error.code(), TW_OUT_OF_RANGE) << error.what();
      EXPECT_NE(error.message().find("9"), std::string::npos) << error.what();
    }
    // The next run starts afresh.
    EXPECT_EQ(run({&table, &good})[0].data<float>()[2], 6);
  }
}

TEST_P(Run, FrozenInputsAreBoundOnTheExecutable) {
  tw::Graph g("frozen");
  const tw::Value x = g.input("x", tw::f32, {2}), w = g.input("w", tw::f32, {2});
  g.freeze(1);
  g.output(x * w);
  tw::Executable run = session.compile(g);
  const tw::Tensor xs = floats({1, 2}, {2}), passed = floats({5, 5}, {2});
  EXPECT_THROW(run({&xs, nullptr}), tw::Error);
  EXPECT_EQ(values(run({&xs, &passed})[0]), (std::vector<float>{5, 10}));
  const auto bind = [&](float value) {
    tw::Tensor weights = session.allocate(tw::f32, {2});
    weights.data<float>()[0] = weights.data<float>()[1] = value;
    run.bind(1, weights.release());
  };
  bind(10);
  EXPECT_EQ(values(run({&xs, nullptr})[0]), (std::vector<float>{10, 20}));
  bind(3);
  EXPECT_EQ(values(run({&xs, nullptr})[0]), (std::vector<float>{3, 6}));
  tw::Tensor wrong = session.allocate(tw::f32, {2});
  DLManagedTensorVersioned* tensor = wrong.release();
  expect_code(tw_executable_bind(run.get(), 0, tensor), TW_INVALID_ARGUMENT, "not declared frozen");
  expect_code(tw_executable_bind(run.get(), 7, tensor), TW_INVALID_ARGUMENT, "input 7");
  tw_tensor_release(tensor);
}

TEST_P(Run, LayoutsOfInputs) {
  tw::Graph g("layouts");
  const tw::Value a = g.input("a", tw::f32, {2, 3}), b = g.input("b", tw::f32, {2, 3}),
                  c = g.input("c", tw::f32, {2, 3});
  g.output(a + b + c);
  const int64_t order[] = {1, 0}, strides[] = {4, 1};
  tw::check(tw_graph_input_layout(g.get(), 0, TW_LAYOUT_DENSE, order, nullptr));
  tw::check(tw_graph_input_layout(g.get(), 1, TW_LAYOUT_STRIDED, nullptr, strides));
  tw::check(tw_graph_input_layout(g.get(), 2, TW_LAYOUT_ANY, nullptr, nullptr));
  const tw::Executable run = session.compile(g);
  float column_major[] = {1, 4, 2, 5, 3, 6}, padded[] = {10, 20, 30, -1, 40, 50, 60, -1};
  float reversed[] = {600, 500, 400, 300, 200, 100};
  View x(column_major, {2, 3}, {1, 2}), y(padded, {2, 3}, {4, 1}), z(reversed + 5, {2, 3}, {-3, -1});
  EXPECT_EQ(values(run.run({&x.tensor, &y.tensor, &z.tensor})[0]),
            (std::vector<float>{111, 222, 333, 444, 555, 666}));
  // Row-major tensors do for all of them.
  const tw::Tensor row = floats({1, 2, 3, 4, 5, 6}, {2, 3});
  EXPECT_EQ(values(run({&row, &row, &row})[0]), (std::vector<float>{3, 6, 9, 12, 15, 18}));
}

TEST_P(Run, TensorsOutliveEverything) {
  std::vector<tw::Tensor> kept;
  {
    const tw::Session local = session_for(GetParam());
    const tw::Tensor x = floats({1, 2, 3}, {3});
    const tw::Executable run = local.compile(
        tw::Graph::parse("graph @n(%x: f32[3]) -> (f32[3]) {\n  %0 = negate %x : f32[3]\n  return %0\n}\n"));
    kept = run({&x});
  }
  EXPECT_EQ(values(kept[0]), (std::vector<float>{-1, -2, -3}));
  std::thread other([&] { kept.clear(); });
  other.join();
}

TEST_P(Run, SizesThatASymbolDecidesAreCheckedAtTheCall) {
  const tw::Executable run = compile(R"(graph @cut[N](%x: f32[N,6], %u: f32[600,6], %i: i64[]) -> (f32[N,6]) {
  %0 = tanh %x : f32[N,6]
  %y = dynamic_update_slice %0, %u, %i, %i : f32[N,6]
  return %y
}
)");
  const tw::Tensor update(tw::f32, {600, 6}), start(tw::i64, {});
  for (int64_t n : {0, 5, 599}) {
    const tw::Tensor x(tw::f32, {n, 6});
    const DLTensor* list[] = {x.get(), update.get(), start.get()};
    DLManagedTensorVersioned* out[1];
    expect_code(
        tw_run(run.get(), list, 3, nullptr, out, 1, nullptr), TW_INVALID_ARGUMENT,
        "run @cut: dynamic_update_slice %y: size of update in dim 0: found 600, expected at most N = " +
            std::to_string(n));
    EXPECT_EQ(out[0], nullptr);
  }
  const tw::Tensor x(tw::f32, {600, 6});
  EXPECT_EQ(values(run({&x, &update, &start})[0]), std::vector<float>(3600));
}

TEST_P(Run, CollectivesOfOtherRanksNeedAnEngine) {
  const tw::Tensor x = floats({1, 2, 3, 4}, {2, 2});
  for (const char* group : {"[5]", "[-1]", "[127]", "[1]"}) {
    for (const std::string op :
         {"all_reduce %x {", "reduce_scatter %x {dim=0, ", "all_gather %x {dim=0, ",
          "all_to_all %x {split_dim=0, concat_dim=1, ", "collective_broadcast %x {root=0, ",
          "collective_permute %x {pairs=[0,0], "}) {
      const std::string text = "graph @c(%x: f32[2,2]) -> (f32[2,2]) {\n  %y = " + op + "group=" + group +
                               "} : f32[2,2]\n  return %y\n}\n";
      const tw::Executable run = compile(text);
      const DLTensor* list[] = {x.get()};
      DLManagedTensorVersioned* out[1];
      expect_code(tw_run(run.get(), list, 1, nullptr, out, 1, nullptr), TW_UNIMPLEMENTED,
                  "communication engine");
    }
  }
}

TEST_P(Run, CallsNestAsDeepAsTheTextSays) {
  for (int depth : {18, 60}) {
    std::string text = "graph(%x: f32[2]) -> (f32[2]) {\n %0 = softmax %x {dim=0}\n return %0\n}";
    for (int level = 1; level < depth; ++level)
      text = "graph(%x: f32[2]) -> (f32[2]) {\n %0 = call %x " + text + "\n return %0\n}";
    const tw::Executable run =
        compile("graph @f(%x: f32[2]) -> (f32[2]) {\n %0 = call %x " + text + "\n return %0\n}");
    const tw::Tensor x = floats({3, 3}, {2});
    EXPECT_EQ(values(run({&x})[0]), (std::vector<float>{0.5, 0.5})) << depth;
  }
}

TEST(Compare, TensorsWithoutDataAreRefused) {
  const tw::Graph graph =
      tw::Graph::parse("graph @n(%x: f32[3]) -> (f32[3]) {\n  %0 = negate %x : f32[3]\n  return %0\n}\n");
  float data[3] = {1, 2, 3}, negated[3] = {-1, -2, -3};
  View x(data, {3}), y(negated, {3}), none(nullptr, {3});
  const auto compare = [&](View& input, View& found, View& expected) {
    const DLTensor *inputs[] = {&input.tensor}, *have[] = {&found.tensor}, *want[] = {&expected.tensor};
    tw_text* difference = nullptr;
    tw_status* status = tw_graph_compare(graph.get(), inputs, 1, have, want, 1, nullptr, &difference);
    tw_text_release(difference);
    return status;
  };
  EXPECT_OK(compare(x, y, y));
  expect_code(compare(none, y, y), TW_INVALID_ARGUMENT, "tensor 0 has no data");
  expect_code(compare(x, none, y), TW_INVALID_ARGUMENT, "tensor 0 has no data");
  expect_code(compare(x, y, none), TW_INVALID_ARGUMENT, "tensor 0 has no data");
}

TEST_P(Run, ReturnedTensorsAreRecycled) {
  const tw::Executable run = compile(
      "graph @n(%x: f32[100000]) -> (f32[100000]) {\n  %0 = negate %x : f32[100000]\n  return %0\n}\n");
  const tw::Tensor x(tw::f32, {100000});
  void* first = run({&x})[0].raw();
  for (int turn = 0; turn < 5; ++turn) EXPECT_EQ(run({&x})[0].raw(), first);
  // What the caller holds is not touched.
  const std::vector<tw::Tensor> held = run({&x});
  EXPECT_NE(run({&x})[0].raw(), held[0].raw());
  EXPECT_NE(run.report().find("\"recycled\":"), std::string::npos);
  EXPECT_OK(tw_session_trim(session.get()));
}

class Outside : public BothModes {};
BOTH_MODES(Outside);
TEST_P(Outside, NamesTheUsersLine) {
  tw::Graph g("g");
  g.set_tag("train.py:10");
  const tw::Value x = g.input("x", tw::f32, {2, 5}), t = g.input("t", tw::i64, {2});
  g.output(g.op("cross_entropy", {x, t}), "loss");
  const tw::Tensor logits(tw::f32, {2, 5}), target(std::vector<int64_t>{1, 50}, {2});
  try {
    session.compile(g)({&logits, &target});
    FAIL() << "a target of 50 is accepted";
  } catch (const tw::Error& error) {
    EXPECT_EQ(error.code(), TW_OUT_OF_RANGE);
    for (const char* part : {"50", "5", "train.py:10"})
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(Status, TextIsOneLine) {
  tw_graph* graph;
  tw_status* status = tw_graph_parse(
      "graph @g(%x: f32[2]) -> (f32[3]) {\n  %0 = nosuch %x : f32[2]\n  return %y\n}\n", -1, &graph);
  ASSERT_NE(status, nullptr);
  EXPECT_EQ(std::string(tw_status_text(status)).find('\n'), std::string::npos) << tw_status_text(status);
  tw_status_release(status);
}

}  // namespace
}  // namespace capi_test
