// The side-by-side check: agrees with a right run, names output, kernel and element of a wrong one.
#include "runtime/check.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ir/text.h"
#include "runtime/compile.h"

namespace tilewright {
namespace {

constexpr const char* kText =
    "graph @f(%x: f32[5,7], %b: f32[7]) -> (f32[5,7]) {\n"
    "  %0 = broadcast_in_dim %b {shape=[5,7], dims=[1]} : f32[5,7]\n"
    "  %1 = add %x, %0 : f32[5,7]\n"
    "  %y = tanh %1 : f32[5,7]\n"
    "  return %y\n}\n";

struct Case {
  std::shared_ptr<Session> session;
  std::shared_ptr<Executable> executable;
  std::vector<float> x = std::vector<float>(35, 0.25f), b = std::vector<float>(7, -0.5f),
                     y = std::vector<float>(35);
  std::vector<int64_t> x_sizes{5, 7}, b_sizes{7};

  TensorView view(std::vector<float>& data, std::vector<int64_t>& sizes) {
    return {DType::F32, static_cast<int32_t>(sizes.size()), sizes.data(), nullptr, data.data()};
  }
};

Case make_case() {
  Case c;
  Flags flags;
  EXPECT_TRUE(flags.set("cache", "off").is_ok());
  EXPECT_TRUE(flags.set("check", "1").is_ok());
  c.session = *Session::create(std::move(flags));
  Result<std::shared_ptr<Executable>> compiled = compile(c.session, *parse_graph(kText), {});
  EXPECT_TRUE(compiled.is_ok()) << compiled.status().to_string();
  c.executable = *compiled;
  return c;
}

TEST(Check, ARightRunPasses) {
  Case c = make_case();
  TensorView x = c.view(c.x, c.x_sizes), b = c.view(c.b, c.b_sizes), y = c.view(c.y, c.x_sizes);
  const TensorView *inputs[] = {&x, &b}, *outputs[] = {&y};
  std::vector<AskedTensor> asked(1);
  RunRequest request{inputs, outputs, asked, nullptr, {}};
  Status status = c.executable->run(request);
  EXPECT_TRUE(status.is_ok()) << status.to_string();
  // Written over its own input: the check has its copy.
  c.y = std::vector<float>(35, 0);
  EXPECT_TRUE(c.executable->run(request).is_ok());
}

TEST(Check, AWrongElementIsNamed) {
  Case c = make_case();
  TensorView x = c.view(c.x, c.x_sizes), b = c.view(c.b, c.b_sizes);
  const TensorView* inputs[] = {&x, &b};
  std::vector<OwnedTensor> before = copy_inputs(inputs, nullptr, nullptr).value();
  c.y = std::vector<float>(35, std::tanh(-0.25f));
  c.y[9] += 1e-3f;
  TensorRef found{DType::F32, c.x_sizes, TensorRef::dense_strides(c.x_sizes), c.y.data()};
  Status status =
      compare_with_reference(*c.session, c.executable->graph(), c.executable->program(), {}, before, {found});
  ASSERT_FALSE(status.is_ok());
  EXPECT_NE(status.message().find("output 0 %y"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("kernel @"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("[1,2]"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace tilewright
