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
  std::fill(c.y.begin(), c.y.end(), 0.0f);
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

// A program whose kernels run in the tile interpreter, one of them spoilt before.
struct Spoilt {
  std::shared_ptr<Session> session;
  std::shared_ptr<Executable> executable;
  std::string kernel;

  Spoilt(const char* text, size_t which, Op from, Op to) {
    Flags flags;
    EXPECT_TRUE(flags.set("cache", "off").is_ok());
    session = *Session::create(std::move(flags));
    Graph graph = *parse_graph(text);
    PlanOptions options;
    options.lowered = std::make_shared<LoweredGraph>();
    Program program = *plan_program(graph, session->target().info().limits, options);
    EXPECT_LT(which, program.kernels.size());
    kernel = program.kernels[which].kernel.name;
    EXPECT_GT(spoil(program.kernels[which].kernel.body, from, to), 0);
    CompileRecord record;
    record.check = true;
    record.lowered = options.lowered;
    std::vector<LoadedKernel> kernels(program.kernels.size());
    executable = *Executable::create(session, graph, std::move(program), std::move(kernels), record);
  }

  static int spoil(tile::Block& block, Op from, Op to) {
    int count = 0;
    for (tile::Instruction& each : block.body) {
      if (each.opcode == tile::Opcode::Elementwise && each.op == from) {
        each.op = to;
        ++count;
      }
      for (tile::Block& inner : each.blocks) count += spoil(inner, from, to);
    }
    return count;
  }
};

// Three kernels in a row; a fault in any of them must be laid at its door, whatever the later ones make of
// it.
constexpr const char* kChain =
    "graph @chain(%x: f32[4,4], %w: f32[4,4]) -> (f32[4,4]) {\n"
    "  %a = exponential %x : f32[4,4]\n"
    "  %p = dot_general %a, %w {lhs_contract=[1], rhs_contract=[0]} : f32[4,4]\n"
    "  %t = tanh %p : f32[4,4]\n"
    "  %q = dot_general %t, %w {lhs_contract=[1], rhs_contract=[0]} : f32[4,4]\n"
    "  %n = negate %q : f32[4,4]\n"
    "  return %n\n}\n";

TEST(Check, TheFirstWrongKernelIsNamed) {
  struct Fault {
    size_t kernel;
    Op from, to;
    const char* node;
  };
  const Fault faults[] = {{0, Op::Exponential, Op::Negate, "exponential %a"},
                          {1, Op::Tanh, Op::Abs, "tanh %t"},
                          {2, Op::Negate, Op::Abs, "negate %n"}};
  for (const Fault& fault : faults) {
    Spoilt spoilt(kChain, fault.kernel, fault.from, fault.to);
    std::vector<float> x(16, 0.5f), w(16, 0.125f), y(16);
    std::vector<int64_t> sizes{4, 4};
    const TensorView in{DType::F32, 2, sizes.data(), nullptr, x.data()},
        weights{DType::F32, 2, sizes.data(), nullptr, w.data()},
        out{DType::F32, 2, sizes.data(), nullptr, y.data()};
    const TensorView *inputs[] = {&in, &weights}, *outputs[] = {&out};
    std::vector<AskedTensor> asked(1);
    const Status status = spoilt.executable->run({inputs, outputs, asked, nullptr, {}});
    ASSERT_FALSE(status.is_ok()) << fault.node;
    const std::string message(status.message());
    EXPECT_NE(message.find("kernel @" + spoilt.kernel + " "), std::string::npos) << message;
    EXPECT_NE(message.find(fault.node), std::string::npos) << message;
    EXPECT_NE(message.find("at [0,0]: found "), std::string::npos) << message;
    EXPECT_NE(message.find(", expected "), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace tilewright
