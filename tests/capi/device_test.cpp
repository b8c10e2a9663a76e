// Sessions of a device through the C API: tensors here and there, copies, streams, memory, faults; on the
// simulator.
#include <gtest/gtest.h>

#include <numeric>

#include "tilewright/tilewright.hpp"

namespace {

tw::Session open_session(const std::string& target) {
  return tw::Session({{"target", target}, {"cache", "off"}});
}

// y = x * w + 1, s = the sum of each row of x.
tw::Graph make_graph() {
  return tw::Graph::parse(R"(graph @g(%x: f32[8,16], %w: f32[8,16]) -> (f32[8,16], f32[8]) {
  %0 = multiply %x, %w : f32[8,16]
  %1 = constant {value=1} : f32[8,16]
  %2 = add %0, %1 : f32[8,16]
  %3 = reduce_sum %x {dims=[1]} : f32[8]
  return %2, %3
}
)");
}

struct Example {
  tw::Tensor x{tw::f32, {8, 16}}, w{tw::f32, {8, 16}};
  Example() {
    std::iota(x.data<float>(), x.data<float>() + 128, 0.0f);
    std::fill(w.data<float>(), w.data<float>() + 128, 2.0f);
  }
  void check(const tw::Tensor& y, const tw::Tensor& sums) const {
    for (int i = 0; i < 128; ++i) EXPECT_EQ(y.data<float>()[i], 2.0f * static_cast<float>(i) + 1);
    for (int row = 0; row < 8; ++row)
      EXPECT_EQ(sums.data<float>()[row], static_cast<float>(16 * 16 * row + 120));
  }
};

int64_t number_in(const std::string& json, const std::string& key) {
  const size_t at = json.find("\"" + key + "\":");
  return at == std::string::npos ? -1 : std::atoll(json.c_str() + at + key.size() + 3);
}

TEST(Device, HostTensorsAreCopiedThereAndBack) {
  tw::Session session = open_session("simt:strict");
  tw::Executable run = session.compile(make_graph());
  Example example;
  std::vector<tw::Tensor> outputs = run({&example.x, &example.w});
  ASSERT_TRUE(outputs[0].is_on_host());
  example.check(outputs[0], outputs[1]);
  EXPECT_EQ(number_in(run.report(), "input_copies"), 2);
  EXPECT_EQ(number_in(run.report(), "fallback_count"), 0);
}

TEST(Device, TensorsOfTheDeviceStayThere) {
  tw::Session session = open_session("simt:strict");
  tw::Executable run = session.compile(make_graph());
  Example example;
  tw::Tensor x = session.to_device(example.x), w = session.to_device(example.w);
  ASSERT_FALSE(x.is_on_host());
  std::vector<tw::Tensor> outputs = run({&x, &w});
  ASSERT_FALSE(outputs[0].is_on_host());
  session.synchronize();
  example.check(session.to_host(outputs[0]), session.to_host(outputs[1]));
  EXPECT_EQ(number_in(run.report(), "input_copies"), 0);
}

TEST(Device, PlaceOfAskedOutputsCanBeSaid) {
  tw::Session session = open_session("simt");
  tw::Executable run = session.compile(make_graph());
  Example example;
  tw::RunOptions options;
  options.asked_place = TW_PLACE_DEVICE;
  std::vector<tw::Tensor> outputs = run({&example.x, &example.w}, options);
  EXPECT_FALSE(outputs[0].is_on_host());
  example.check(session.to_host(outputs[0]), session.to_host(outputs[1]));
  options.asked_place = TW_PLACE_HOST;
  tw::Tensor x = session.to_device(example.x);
  outputs = run({&x, &example.w}, options);
  EXPECT_TRUE(outputs[0].is_on_host());
  example.check(outputs[0], outputs[1]);
}

TEST(Device, GivenOutputsOnBothSides) {
  tw::Session session = open_session("simt:strict");
  tw::Executable run = session.compile(make_graph());
  Example example;
  tw::Tensor y = session.allocate_on_device(tw::f32, {8, 16}), sums(tw::f32, {8});
  tw::RunOptions options;
  options.given = {&y, &sums};
  run({&example.x, &example.w}, options);
  example.check(session.to_host(y), sums);
}

TEST(Device, StridedTensorsOfTheDevice) {
  tw::Session session = open_session("simt:strict");
  tw::Executable run = session.compile(make_graph());
  Example example;
  // x as the transpose of a dense [16,8], y into every second column of a wider tensor.
  tw::Tensor turned(tw::f32, {16, 8}), wide(tw::f32, {8, 32});
  for (int row = 0; row < 8; ++row)
    for (int column = 0; column < 16; ++column)
      turned.data<float>()[column * 8 + row] = example.x.data<float>()[row * 16 + column];
  std::fill(wide.data<float>(), wide.data<float>() + 256, -5.0f);
  tw::Tensor on_device = session.to_device(turned), out = session.to_device(wide),
             sums = session.allocate_on_device(tw::f32, {8});
  int64_t sizes[] = {8, 16}, turned_strides[] = {1, 8}, wide_strides[] = {32, 2};
  DLTensor x = *on_device.get(), y = *out.get();
  x.shape = y.shape = sizes;
  x.strides = turned_strides;
  y.strides = wide_strides;
  tw::Tensor w = session.to_device(example.w);
  const DLTensor* inputs[] = {&x, w.get()};
  const DLTensor* given[] = {&y, sums.get()};
  tw::check(tw_run(run.get(), inputs, 2, given, nullptr, 2, nullptr));
  const tw::Tensor back = session.to_host(out);
  for (int row = 0; row < 8; ++row) {
    for (int column = 0; column < 32; ++column) {
      const float expected = column % 2 ? -5.0f : 2.0f * static_cast<float>(row * 16 + column / 2) + 1;
      EXPECT_EQ(back.data<float>()[row * 32 + column], expected);
    }
  }
}

TEST(Device, EagerProgramsTakeTensorsOfTheDevice) {
  tw::Session session({{"target", "simt:strict"}, {"cache", "off"}, {"mode", "eager"}});
  tw::Executable run = session.compile(make_graph());
  Example example;
  tw::Tensor x = session.to_device(example.x);
  std::vector<tw::Tensor> outputs = run({&x, &example.w});
  ASSERT_FALSE(outputs[0].is_on_host());
  example.check(session.to_host(outputs[0]), session.to_host(outputs[1]));
}

TEST(Device, CheckedRunsCompareWithTheReference) {
  tw::Session session({{"target", "simt:strict"}, {"cache", "off"}, {"check", "1"}});
  tw::Executable run = session.compile(make_graph());
  Example example;
  tw::Tensor x = session.to_device(example.x);
  std::vector<tw::Tensor> outputs = run({&x, &example.w});
  example.check(session.to_host(outputs[0]), session.to_host(outputs[1]));
}

TEST(Device, FrozenInputsAreUploadedOnce) {
  tw::Session session = open_session("simt:strict");
  tw::Graph graph = make_graph();
  graph.freeze(1);
  tw::Executable run = session.compile(graph);
  Example example;
  tw::Tensor w = session.allocate(tw::f32, {8, 16});
  std::copy_n(example.w.data<float>(), 128, w.data<float>());
  run.bind(1, w.release());
  for (int round = 0; round < 3; ++round) {
    std::vector<tw::Tensor> outputs = run(std::vector<const tw::Tensor*>{&example.x, nullptr});
    example.check(outputs[0], outputs[1]);
  }
  EXPECT_EQ(number_in(run.report(), "input_copies"), 3);  // of x alone
}

TEST(Device, ConstantsAndBuiltinsAndFallbacks) {
  tw::Session session = open_session("simt:strict");
  tw::Graph graph = tw::Graph::parse(R"(graph @g(%x: f32[100]) -> (f32[100]) {
  %0 = multiply %x, %x : f32[100]
  %1 = sort %0 {dim=0} : f32[100]
  %2 = negate %1 : f32[100]
  return %2
}
)");
  tw::Executable run = session.compile(graph);
  tw::Tensor x(tw::f32, {100});
  for (int i = 0; i < 100; ++i) x.data<float>()[i] = static_cast<float>((i * 37) % 100 - 50);
  const std::vector<tw::Tensor> outputs = run({&x});
  for (int i = 1; i < 100; ++i) EXPECT_GE(outputs[0].data<float>()[i - 1], outputs[0].data<float>()[i]);
  EXPECT_EQ(number_in(run.report(), "host_builtin"), 1);
}

TEST(Device, ErrorsOfKernelsAreReportedByTheRun) {
  tw::Session session = open_session("simt:strict");
  tw::Graph graph = tw::Graph::parse(R"(graph @g(%x: f32[10], %i: i32[3]) -> (f32[3]) {
  %0 = gather_elements %x, %i {dim=0, oob=error} : f32[3]
  %1 = add %0, %0 : f32[3]
  return %1
}
)");
  tw::Executable run = session.compile(graph);
  tw::Tensor x(std::vector<float>(10, 1.0f), {10}), good(std::vector<int32_t>{0, 9, 3}, {3}),
      bad(std::vector<int32_t>{0, 10, 3}, {3});
  EXPECT_EQ(run({&x, &good})[0].data<float>()[1], 2.0f);
  try {
    run({&x, &bad});
    ADD_FAILURE() << "an index out of range was not reported";
  } catch (const tw::Error& error) {
    EXPECT_EQ(error.code(), TW_OUT_OF_RANGE) << error.what();
  }
  EXPECT_EQ(run({&x, &good})[0].data<float>()[1], 2.0f);
}

TEST(Device, OutOfMemoryIsAStatusAndTheSessionGoesOn) {
  tw::Session session = open_session("simt:memory=100000");
  tw::Executable run = session.compile(make_graph());
  Example example;
  std::vector<tw::Tensor> taken;
  taken.push_back(session.allocate_on_device(tw::f32, {24000}));
  try {
    run({&example.x, &example.w});
    run({&example.x, &example.w});
    taken.push_back(session.allocate_on_device(tw::f32, {24000}));
    ADD_FAILURE() << "more memory than there is";
  } catch (const tw::Error& error) {
    EXPECT_EQ(error.code(), TW_RESOURCE_EXHAUSTED) << error.what();
  }
  taken.clear();
  std::vector<tw::Tensor> outputs = run({&example.x, &example.w});
  example.check(outputs[0], outputs[1]);
}

TEST(Device, RefusedLaunchIsAStatusAndTheNextRunIsRight) {
  tw::Session session = open_session("simt:fail_launch=1");
  tw::Executable run = session.compile(make_graph());
  Example example;
  EXPECT_THROW(run({&example.x, &example.w}), tw::Error);
  std::vector<tw::Tensor> outputs = run({&example.x, &example.w});
  example.check(outputs[0], outputs[1]);
}

TEST(Device, BrokenDeviceIsReportedByTheCallThatWaits) {
  tw::Session session = open_session("simt:fail_async=2");
  tw::Executable run = session.compile(make_graph());
  Example example;
  tw::Tensor x = session.to_device(example.x), w = session.to_device(example.w);
  EXPECT_NO_THROW({ std::vector<tw::Tensor> outputs = run({&x, &w}); })
      << "all on the device: nothing is waited for";
  EXPECT_THROW(session.synchronize(), tw::Error);
  EXPECT_THROW(session.synchronize(), tw::Error) << "what is broken stays so";
  EXPECT_THROW(run({&x, &w}), tw::Error);
}

TEST(Device, MisuseIsRefused) {
  tw::Session device = open_session("simt"), host = open_session("native");
  Example example;
  tw::Tensor x = device.to_device(example.x);
  tw::Executable on_host = host.compile(make_graph()), on_device = device.compile(make_graph());
  EXPECT_THROW(on_host({&x, &example.w}), tw::Error) << "a session of the host has no device";
  tw::RunOptions options;
  options.asked_place = TW_PLACE_DEVICE;
  EXPECT_THROW(on_host({&example.x, &example.w}, options), tw::Error);
  EXPECT_THROW(host.allocate_on_device(tw::f32, {1}), tw::Error);
  options.asked_place = 7;
  EXPECT_THROW(on_device({&example.x, &example.w}, options), tw::Error);
  tw::Tensor small(tw::f32, {3});
  EXPECT_THROW(device.copy(x, small), tw::Error);
  // Memory of another device's number is not ours.
  DLTensor other = *x.get();
  other.device.device_id = 1;
  const DLTensor* inputs[] = {&other, example.w.get()};
  DLManagedTensorVersioned* asked[2];
  tw_status* status = tw_run(on_device.get(), inputs, 2, nullptr, asked, 2, nullptr);
  ASSERT_NE(status, nullptr);
  tw_status_release(status);
}

TEST(Device, TensorsOutliveTheirSession) {
  tw::Tensor kept;
  {
    tw::Session session = open_session("simt");
    kept = session.allocate_on_device(tw::f32, {100});
  }
  EXPECT_FALSE(kept.is_on_host());
}

}  // namespace
