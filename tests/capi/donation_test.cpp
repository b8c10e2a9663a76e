// Donated inputs: their memory holds outputs where that is safe, and misuse is refused or harmless.
#include "tests/capi/support.h"

using namespace capi_test;

namespace {

class Donation : public BothModes {};
BOTH_MODES(Donation);

// A step of an optimizer as a frontend without alias pairs writes it.
constexpr const char* kStep =
    R"(graph @step(%p: f32[1000], %m: f32[1000], %g: f32[1000]) -> (p2: f32[1000], m2: f32[1000]) {
  %beta = constant {value=0.5} : f32[1000]
  %0 = multiply %m, %beta : f32[1000]
  %1 = add %0, %g : f32[1000]
  %2 = subtract %p, %1 : f32[1000]
  return %2, %1
}
)";

int64_t number(const std::string& report, const std::string& key) {
  const size_t at = report.find("\"" + key + "\":");
  EXPECT_NE(at, std::string::npos) << report;
  return at == std::string::npos ? -1 : std::atoll(report.c_str() + at + key.size() + 3);
}

TEST_P(Donation, ParametersAreUpdatedInPlace) {
  const tw::Executable run = compile(kStep);
  std::vector<float> start(1000);
  for (size_t at = 0; at < start.size(); ++at) start[at] = static_cast<float>(at);
  tw::Tensor p = floats(start, {1000}), m = floats(std::vector<float>(1000, 2), {1000});
  const tw::Tensor g = floats(std::vector<float>(1000, 1), {1000});
  tw::RunOptions options;
  options.given = {&p, &m};
  // Without donation the overlap is refused, and nothing has changed.
  EXPECT_THROW(run({&p, &m, &g}, options), tw::Error);
  EXPECT_EQ(values(p), start);
  options.donated = {0, 1};
  float momentum = 2;
  std::vector<float> expected = start;
  for (int step = 0; step < 3; ++step) {
    run({&p, &m, &g}, options);
    momentum = momentum * 0.5f + 1;
    for (float& each : expected) each -= momentum;
    EXPECT_EQ(values(p), expected);
    EXPECT_EQ(values(m), std::vector<float>(1000, momentum));
  }
  if (std::string(GetParam()) == "sync") {
    EXPECT_EQ(number(run.report(), "output_copies"), 0) << run.report();
  }
}

TEST_P(Donation, OldValuesAreReadBeforeTheyAreOverwritten) {
  const tw::Executable run = compile(R"(graph @t(%x: f32[64,64]) -> (y: f32[64,64]) {
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
  options.donated = {0};
  run({&x}, options);
  for (size_t row = 0; row < 64; ++row)
    for (size_t column = 0; column < 64; ++column)
      ASSERT_EQ(x.data<float>()[row * 64 + column], start[row * 64 + column] + start[column * 64 + row]);
}

TEST_P(Donation, SwappedMemoryStillReadsOldValues) {
  // Output 0 takes the memory of %m, output 1 that of %p: each kernel's reads must come first.
  const tw::Executable run = compile(kStep);
  tw::Tensor p = floats(std::vector<float>(1000, 10), {1000}),
             m = floats(std::vector<float>(1000, 2), {1000});
  const tw::Tensor g = floats(std::vector<float>(1000, 1), {1000});
  tw::RunOptions options;
  options.given = {&m, &p};
  options.donated = {0, 1};
  run({&p, &m, &g}, options);
  EXPECT_EQ(values(m), std::vector<float>(1000, 8));
  EXPECT_EQ(values(p), std::vector<float>(1000, 2));
}

TEST_P(Donation, WithoutAnOutputInItTheMemoryIsKept) {
  const tw::Executable run = compile(kStep);
  const tw::Tensor p = floats(std::vector<float>(1000, 10), {1000}),
                   m = floats(std::vector<float>(1000, 2), {1000}),
                   g = floats(std::vector<float>(1000, 1), {1000});
  tw::RunOptions options;
  options.donated = {0, 1, 2};
  const std::vector<tw::Tensor> first = run({&p, &m, &g}, options), second = run({&p, &m, &g}, options);
  EXPECT_EQ(values(first[0]), values(second[0]));
  EXPECT_EQ(values(p), std::vector<float>(1000, 10));
}

TEST_P(Donation, MisuseIsRefused) {
  const tw::Executable run = compile(kStep);
  tw::Tensor p = floats(std::vector<float>(1000, 10), {1000}),
             m = floats(std::vector<float>(1000, 2), {1000});
  const auto call = [&](std::vector<const DLTensor*> inputs, std::vector<const DLTensor*> given,
                        std::vector<int64_t> donated) {
    tw_run_options options = {};
    options.struct_size = sizeof options;
    options.donated = donated.data();
    options.donated_count = static_cast<int64_t>(donated.size());
    DLManagedTensorVersioned* asked[2] = {};
    tw_status* status = tw_run(run.get(), inputs.data(), 3, given.data(), asked, 2, &options);
    for (DLManagedTensorVersioned* each : asked) tw_tensor_release(each);
    return status;
  };
  const DLTensor *dp = p.get(), *dm = m.get();
  expect_code(call({dp, dm, dm}, {nullptr, nullptr}, {0, 1, 0}), TW_INVALID_ARGUMENT,
              "input 0 %p is donated twice");
  expect_code(call({dp, dm, dm}, {nullptr, nullptr}, {3}), TW_INVALID_ARGUMENT, "donated input 3 of 3");
  expect_code(call({dp, dm, dm}, {nullptr, nullptr}, {-1}), TW_INVALID_ARGUMENT, "donated input -1 of 3");
  // One memory, passed twice: the other reader did not agree.
  expect_code(call({dp, dm, dm}, {nullptr, dm}, {1}), TW_INVALID_ARGUMENT, "overlap");
  expect_code(call({dp, dm, dm}, {nullptr, dm}, {1, 2}), TW_INVALID_ARGUMENT, "overlap");
  // Part of donated memory is not the whole of it.
  std::vector<float> memory(2000, 1);
  DLTensor shifted = *dp;
  shifted.data = memory.data() + 500;
  DLTensor whole = *dp;
  whole.data = memory.data();
  expect_code(call({&whole, dm, dm}, {&shifted, nullptr}, {0}), TW_INVALID_ARGUMENT, "overlap");
  // Two outputs cannot be in one memory.
  expect_code(call({dp, dm, dm}, {dp, dp}, {0}), TW_INVALID_ARGUMENT, "overlap");
  EXPECT_EQ(values(p), std::vector<float>(1000, 10));
}

TEST_P(Donation, AStridedInputIsCopiedFirst) {
  const tw::Executable run = compile(R"(graph @n(%x: f32[4,4]) -> (y: f32[4,4]) {
  %0 = negate %x : f32[4,4]
  return %0
}
)");
  std::vector<float> memory(16);
  for (size_t at = 0; at < 16; ++at) memory[at] = static_cast<float>(at);
  int64_t sizes[] = {4, 4}, transposed[] = {1, 4};
  DLTensor in = *floats(memory, {4, 4}).get();
  in.data = memory.data();
  in.byte_offset = 0;
  in.shape = sizes;
  in.strides = transposed;
  DLTensor out = in;
  out.strides = nullptr;
  const DLTensor *inputs[] = {&in}, *given[] = {&out};
  const int64_t donated[] = {0};
  tw_run_options options = {};
  options.struct_size = sizeof options;
  options.donated = donated;
  options.donated_count = 1;
  ASSERT_OK(tw_run(run.get(), inputs, 1, given, nullptr, 1, &options));
  for (size_t row = 0; row < 4; ++row)
    for (size_t column = 0; column < 4; ++column)
      EXPECT_EQ(memory[row * 4 + column], -static_cast<float>(column * 4 + row));
  if (std::string(GetParam()) == "sync") {
    EXPECT_NE(run.report().find("\"copied_inputs\":{\"%x\":64}"), std::string::npos) << run.report();
    EXPECT_EQ(number(run.report(), "input_copy_bytes"), 64);
  }
}

}  // namespace
