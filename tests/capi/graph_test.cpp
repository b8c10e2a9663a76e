// Building, inspecting, printing and differentiating graphs through the C API.
#include "tests/capi/support.h"

namespace capi_test {
namespace {

TEST(GraphBuilding, SymbolicMlpPrintsAndReadsBack) {
  tw::Graph g("mlp");
  const tw::Dim n = g.symbol("N", 1, 65536, 64);
  const tw::Value x = g.input("x", tw::f32, {n, 784}), w = g.input("w", tw::f32, {784, 128});
  const tw::Value b = g.input("b", tw::f32, {128});
  g.output(tw::relu(tw::matmul(x, w) + b), "y");
  g.verify();
  const std::string text = g.text();
  EXPECT_NE(text.find("graph @mlp[N in 1..65536 hint 64](%x: f32[N,784], %w: f32[784,128], %b: f32[128])"),
            std::string::npos)
      << text;
  EXPECT_EQ(tw::Graph::parse(text).text(), text);
  uint64_t first[2], second[2];
  ASSERT_OK(tw_graph_hash(g.get(), first));
  ASSERT_OK(tw_graph_hash(tw::Graph::parse(text).get(), second));
  EXPECT_EQ(first[0], second[0]);
  EXPECT_EQ(first[1], second[1]);
}

TEST(GraphBuilding, DimsAreExpressions) {
  tw::Graph g("dims");
  const tw::Dim n = g.symbol("N"), m = g.symbol("M", 0, 100);
  const tw::Dim size = n * 2 + m / 4 - 1;
  tw_text* printed;
  ASSERT_OK(tw_graph_dim_print(g.get(), size.handle(), &printed));
  EXPECT_EQ(tw::take(printed), "2*N + floordiv(M, 4) - 1");
  tw_dim parsed;
  ASSERT_OK(tw_graph_dim_parse(g.get(), "N + N + floordiv(M,4) - 1", &parsed));
  EXPECT_EQ(parsed, size.handle());
  const char* names[] = {"N", "M"};
  const int64_t values[] = {5, 9};
  int64_t value;
  ASSERT_OK(tw_graph_dim_evaluate(g.get(), size.handle(), names, values, 2, &value));
  EXPECT_EQ(value, 11);
  expect_code(tw_graph_dim_evaluate(g.get(), size.handle(), names, values, 1, &value), TW_INVALID_ARGUMENT,
              "M");
  expect_code(tw_graph_dim_parse(g.get(), "Q + 1", &parsed), TW_INVALID_ARGUMENT, "symbol Q is not declared");
  expect_code(tw_graph_dim_parse(g.get(), "N +", &parsed), TW_INVALID_ARGUMENT, "");
  expect_code(tw_graph_dim(g.get(), 42, 1, 2, &parsed), TW_INVALID_ARGUMENT, "unknown operation 42");
  expect_code(tw_graph_dim(g.get(), TW_DIM_FLOOR_DIVIDE, 1, 0, &parsed), TW_INVALID_ARGUMENT,
              "division by 0");
  expect_code(tw_graph_symbol(g.get(), "N", 1, 2, -1, &parsed), TW_ALREADY_EXISTS, "symbol N");
  expect_code(tw_graph_symbol(g.get(), "2N", 1, 2, -1, &parsed), TW_INVALID_ARGUMENT, "2N");
  expect_code(tw_graph_symbol(g.get(), "K", 5, 2, -1, &parsed), TW_INVALID_ARGUMENT, "5..2");
  expect_code(tw_graph_symbol(g.get(), "K", 1, 2, 7, &parsed), TW_INVALID_ARGUMENT, "hint 7");
  // Inspection gives the same handle again.
  const tw::Value x = g.input("x", tw::f32, {size, 3});
  EXPECT_EQ(x.dim(0).handle(), size.handle());
  EXPECT_EQ(x.dim(-1).handle(), 3);
  // A clone takes over the handles.
  const tw::Graph copy = g.clone();
  ASSERT_OK(tw_graph_dim_print(copy.get(), size.handle(), &printed));
  tw_text_release(printed);
}

TEST(GraphBuilding, WrongNodesSayWhatWasFound) {
  tw::Graph g("wrong");
  const tw::Value x = g.input("x", tw::f32, {2, 3}), i = g.input("i", tw::i32, {2, 3});
  const auto append = [&](int32_t op, std::vector<tw_value> operands,
                          std::vector<tw_attribute> attributes = {}) {
    tw_node node = {};
    node.struct_size = sizeof node;
    node.op = op;
    node.operands = operands.data();
    node.operand_count = static_cast<int64_t>(operands.size());
    node.attributes = attributes.data();
    node.attribute_count = static_cast<int64_t>(attributes.size());
    return tw_graph_append(g.get(), &node, nullptr, 0, nullptr);
  };
  const int64_t nodes = g.node_count();
  const int64_t axis[] = {3};
  expect_code(append(7777, {x.id()}), TW_INVALID_ARGUMENT, "unknown op 7777");
  expect_code(append(TW_OP_ADD, {x.id()}), TW_INVALID_ARGUMENT, "add");
  expect_code(append(TW_OP_ADD, {x.id(), i.id()}), TW_INVALID_ARGUMENT, "add");
  expect_code(append(TW_OP_ADD, {x.id(), 99}), TW_INVALID_ARGUMENT, "operand 1");
  expect_code(append(TW_OP_ADD, {x.id(), TW_NO_VALUE}), TW_INVALID_ARGUMENT, "add");
  expect_code(append(TW_OP_REDUCE_SUM, {x.id()}), TW_INVALID_ARGUMENT, "dims");
  expect_code(append(TW_OP_REDUCE_SUM, {x.id()}, {tw_ints("dims", axis, 1)}), TW_INVALID_ARGUMENT, "3");
  expect_code(append(TW_OP_REDUCE_SUM, {x.id()}, {tw_ints("dims", axis, 0), tw_int("color", 1)}),
              TW_INVALID_ARGUMENT, "color");
  expect_code(append(TW_OP_REDUCE_SUM, {x.id()}, {tw_word("dims", "all")}), TW_INVALID_ARGUMENT, "dims");
  expect_code(append(TW_OP_REDUCE_SUM, {x.id()}, {tw_ints("dims", nullptr, 2)}), TW_INVALID_ARGUMENT,
              "dims is null");
  expect_code(append(TW_OP_COMPARE, {x.id(), x.id()}, {tw_word("direction", "UP")}), TW_INVALID_ARGUMENT,
              "UP");
  expect_code(append(TW_OP_NEGATE, {x.id()}, {tw_attribute_empty("a", 42)}), TW_INVALID_ARGUMENT,
              "unknown kind 42");
  expect_code(append(TW_OP_NEGATE, {x.id()}, {tw_attribute_empty(nullptr, 1)}), TW_INVALID_ARGUMENT,
              "no name");
  expect_code(append(TW_OP_REDUCE_SUM, {x.id()}, {tw_ints("dims", axis, 0), tw_ints("dims", axis, 0)}),
              TW_INVALID_ARGUMENT, "twice");
  EXPECT_EQ(g.node_count(), nodes);
  // The status names the op.
  tw_status* status = append(TW_OP_REDUCE_SUM, {x.id()}, {tw_ints("dims", axis, 1)});
  EXPECT_NE(std::string(tw_status_op(status)).find("reduce_sum"), std::string::npos);
  tw_status_release(status);
}

TEST(GraphBuilding, ManyResultsAndSmallCapacity) {
  tw::Graph g("split");
  const tw::Value x = g.input("x", tw::f32, {20});
  std::vector<tw::Value> parts = g.ops("split", {x}, {{"dim", 0}, {"sizes", tw::Shape(20, tw::Dim(1))}});
  ASSERT_EQ(parts.size(), 20u);
  EXPECT_EQ(parts[19].dim(0).handle(), 1);
}

TEST(GraphBuilding, RegionsAreCopied) {
  tw::Graph body("body");
  const tw::Value c = body.input("c", tw::f32, {}), x = body.input("x", tw::f32, {});
  const tw::Value next = c + x;
  body.output(next);
  body.output(next * 2.0);
  tw::Graph g("sums");
  const tw::Value start = g.input("start", tw::f32, {}), xs = g.input("xs", tw::f32, {4});
  const std::vector<tw::Value> results =
      g.ops("scan", {start, xs}, {{"length", tw::Shape{4}}, {"carries", 1}}, {&body});
  ASSERT_EQ(results.size(), 2u);
  body.output(next);  // changes the original only
  g.output(results[0]);
  g.output(results[1]);
  g.verify();
  const tw::Session session = session_for("eager");
  const tw::Tensor from = floats({1}, {}), numbers = floats({1, 2, 3, 4}, {4});
  const std::vector<tw::Tensor> out = session.compile(g)({&from, &numbers});
  EXPECT_EQ(out[0].item<float>(), 11);
  EXPECT_EQ(values(out[1]), (std::vector<float>{4, 8, 14, 22}));
}

TEST(GraphBuilding, AliasesAndLayoutsAreChecked) {
  tw::Graph g("alias");
  const tw::Value x = g.input("x", tw::f32, {2, 3}), y = g.input("y", tw::f32, {3});
  g.output(x + 1.0);
  g.output(x + 2.0);
  g.output(y);
  EXPECT_OK(tw_graph_alias(g.get(), 0, 0));
  expect_code(tw_graph_alias(g.get(), 1, 0), TW_INVALID_ARGUMENT, "aliased by output 0");
  expect_code(tw_graph_alias(g.get(), 1, 1), TW_INVALID_ARGUMENT, "f32[2,3]");
  expect_code(tw_graph_alias(g.get(), 5, 1), TW_INVALID_ARGUMENT, "output 5 of 3");
  const int64_t order[] = {1, 0}, twice[] = {1, 1};
  EXPECT_OK(tw_graph_input_layout(g.get(), 0, TW_LAYOUT_DENSE, order, nullptr));
  expect_code(tw_graph_input_layout(g.get(), 0, TW_LAYOUT_DENSE, twice, nullptr), TW_INVALID_ARGUMENT,
              "permutation");
  expect_code(tw_graph_input_layout(g.get(), 0, TW_LAYOUT_STRIDED, nullptr, nullptr), TW_INVALID_ARGUMENT,
              "strides");
  expect_code(tw_graph_input_layout(g.get(), 0, 9, nullptr, nullptr), TW_INVALID_ARGUMENT,
              "unknown layout 9");
  EXPECT_EQ(tw::Graph::parse(g.text()).text(), g.text());
}

TEST(GraphText, ErrorsCarryTheLine) {
  tw_graph* graph;
  expect_code(
      tw_graph_parse("graph @g(%x: f32[2]) -> (f32[2]) {\n  %0 = frobnicate %x : f32[2]\n  return %0\n}", -1,
                     &graph),
      TW_INVALID_ARGUMENT, "frobnicate");
  EXPECT_EQ(graph, nullptr);
  expect_code(tw_graph_parse("", -1, &graph), TW_INVALID_ARGUMENT, "");
  expect_code(tw_graph_parse("\xff\xfe garbage", -1, &graph), TW_INVALID_ARGUMENT, "");
  // Text that is not NUL-terminated.
  const std::string text = "graph @g(%x: f32[2]) -> (f32[2]) {\n  return %x\n}\nTRAILING";
  ASSERT_OK(tw_graph_parse(text.data(), static_cast<int64_t>(text.find("TRAILING")), &graph));
  tw_graph_release(graph);
}

TEST(GraphText, ManyGraphsInOneText) {
  const std::string one = "graph @a(%x: f32[2]) -> (f32[2]) {\n  return %x\n}\n";
  const std::string two = one + "graph @b(%x: f32[2]) -> (f32[2]) {\n  return %x\n}\n";
  int64_t count = 0;
  ASSERT_OK(tw_graph_parse_all(two.c_str(), -1, nullptr, 0, &count));
  EXPECT_EQ(count, 2);
  tw_graph* graphs[3];
  ASSERT_OK(tw_graph_parse_all(two.c_str(), -1, graphs, 3, &count));
  EXPECT_STREQ(tw_graph_name(graphs[1]), "b");
  EXPECT_EQ(graphs[2], nullptr);
  tw_graph_release(graphs[0]);
  tw_graph_release(graphs[1]);
}

TEST(GraphConstants, TakenTensorsAreReleasedOnce) {
  static int released = 0;
  static float data[] = {1, 2, 3};
  static int64_t shape[] = {3};
  DLManagedTensorVersioned tensor = {};
  tensor.version.major = 1;
  tensor.dl_tensor.data = data;
  tensor.dl_tensor.device.device_type = kDLCPU;
  tensor.dl_tensor.ndim = 1;
  tensor.dl_tensor.dtype = {2, 32, 1};
  tensor.dl_tensor.shape = shape;
  tensor.deleter = [](DLManagedTensorVersioned*) { ++released; };
  tw_constant* constant;
  ASSERT_OK(tw_constant_take(&tensor, &constant));
  std::vector<tw::Tensor> out;
  {
    tw::Graph g("c");
    tw_value value;
    ASSERT_OK(tw_graph_constant(g.get(), constant, &value));
    tw_constant_release(constant);
    g.output(tw::Value(g.get(), value) * 2.0);
    const tw::Executable run = session_for("eager").compile(g);
    tw::Graph dropped("d");
    g = std::move(dropped);
    out = run(std::vector<tw::Tensor>());
    EXPECT_EQ(released, 0);  // the executable still needs it
  }
  EXPECT_EQ(values(out[0]), (std::vector<float>{2, 4, 6}));
  EXPECT_EQ(released, 1);
  // A foreign version is not touched.
  tensor.version.major = 2;
  expect_code(tw_constant_take(&tensor, &constant), TW_INVALID_ARGUMENT, "DLPack 2");
  EXPECT_EQ(released, 1);
}

TEST(Gradients, JointAndPairAgree) {
  tw::Graph g("loss");
  const tw::Value x = g.input("x", tw::f32, {3}), w = g.input("w", tw::f32, {3});
  g.output(tw::sum(x * x * w, {0}), "loss");
  const tw::Session session = session_for("sync");
  const tw::Tensor xs = floats({1, 2, 3}, {3}), ws = floats({4, 5, 6}, {3}), one = floats({1}, {});
  tw::GradientOptions options;
  options.implicit_one = true;
  options.inputs = {0};
  const std::vector<tw::Tensor> joint = session.compile(g.gradient_joint(options))({&xs, &ws});
  ASSERT_EQ(joint.size(), 2u);
  EXPECT_EQ(joint[0].item<float>(), 78);
  EXPECT_EQ(values(joint[1]), (std::vector<float>{8, 20, 36}));
  auto [forward, backward] = g.gradient_pair();
  std::vector<tw::Tensor> saved = session.compile(forward)({&xs, &ws});
  std::vector<const tw::Tensor*> inputs;
  for (size_t at = 1; at < saved.size(); ++at) inputs.push_back(&saved[at]);
  inputs.push_back(&one);
  const std::vector<tw::Tensor> gradients = session.compile(backward)(inputs);
  EXPECT_EQ(values(gradients[0]), values(joint[1]));
  EXPECT_EQ(values(gradients[1]), (std::vector<float>{1, 4, 9}));
  tw::GradientOptions wrong;
  wrong.inputs = {17};
  EXPECT_THROW(g.gradient_joint(wrong), tw::Error);
}

TEST(OpTable, CanBeAsked) {
  EXPECT_GT(tw_op_count(), 200);
  EXPECT_EQ(tw_op_id(-1), -1);
  EXPECT_EQ(tw_op_id(tw_op_count()), -1);
  EXPECT_STREQ(tw_op_name(TW_OP_DOT_GENERAL), "dot_general");
  EXPECT_EQ(tw_op_name(9999), nullptr);
  int32_t op;
  ASSERT_OK(tw_op_find("softmax", &op));
  EXPECT_EQ(op, TW_OP_SOFTMAX);
  expect_code(tw_op_find("soft_max", &op), TW_NOT_FOUND, "soft_max");
  tw_text* json;
  ASSERT_OK(tw_op_describe(TW_OP_SOFTMAX, &json));
  EXPECT_NE(tw::take(json).find("\"name\":\"softmax\""), std::string::npos);
  expect_code(tw_op_describe(9999, &json), TW_NOT_FOUND, "9999");
  EXPECT_STREQ(tw_dtype_name(TW_DTYPE_BF16), "bf16");
  EXPECT_EQ(tw_dtype_name(15), nullptr);
  EXPECT_EQ(tw_dtype_size(TW_DTYPE_F64), 8);
  EXPECT_EQ(tw_dtype_size(-1), 0);
  for (int32_t dtype = 0; tw_dtype_name(dtype); ++dtype) {
    DLDataType dlpack;
    int32_t back = -1;
    ASSERT_OK(tw_dtype_to_dlpack(dtype, &dlpack));
    ASSERT_OK(tw_dtype_from_dlpack(dlpack, &back));
    EXPECT_EQ(back, dtype);
  }
  expect_code(tw_dtype_from_dlpack({5, 64, 1}, &op), TW_INVALID_ARGUMENT, "code 5");
  expect_code(tw_dtype_from_dlpack({2, 32, 4}, &op), TW_INVALID_ARGUMENT, "4 lanes");
}

// The error of a call of the wrapper; "" when it succeeds.
template <class Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST(Wrapper, ValuesBelongToOneGraph) {
  tw::Graph f("f"), g("g");
  const tw::Value w = f.input("w", tw::f32, {2});
  const tw::Value a = g.input("a", tw::f32, {2});
  g.input("b", tw::f32, {2});
  for (const std::string& error :
       {error_of([&] { g.output(w); }), error_of([&] { tw::op("add", {a, w}); }), error_of([&] { a + w; }),
        error_of([&] { g.op("add", {a, w}); }), error_of([&] { tw::concatenate({a, w}, 0); })}) {
    EXPECT_NE(error.find("@f"), std::string::npos) << error;
    EXPECT_NE(error.find("@g"), std::string::npos) << error;
  }
  EXPECT_EQ(g.node_count(), 0);
  EXPECT_EQ(g.output_count(), 0);
}

TEST(Wrapper, ErrorsNameTheCallAndTheNumberGiven) {
  tw::Graph g("g");
  const tw::Value x = g.input("x", tw::f32, {2, 3}), v = g.input("v", tw::f32, {3});
  EXPECT_EQ(error_of([&] { tw::mean(x, {9}); }), "tw::mean: axis 9 out of range for rank 2");
  EXPECT_EQ(error_of([&] { tw::softmax(x, -5); }), "tw::softmax: axis -5 out of range for rank 2");
  EXPECT_EQ(error_of([&] { tw::sum(x, {-3}); }), "reduce_sum: axis -3 out of range for rank 2");
  EXPECT_EQ(error_of([&] { (void)x.dim(2); }), "tw::Value::dim: axis 2 out of range for rank 2");
  EXPECT_EQ(error_of([&] { tw::concatenate({}, 0); }), "tw::concatenate: no values are given");
  EXPECT_EQ(error_of([&] { tw::matmul(x, v); }),
            "tw::matmul: operands of rank 2 and 1, expected rank 2 or more");
  EXPECT_EQ(error_of([&] { tw::gelu(tw::Value()); }), "gelu: no operand is given, so that no graph is known");
  EXPECT_EQ(error_of([&] { tw::softmax(tw::Value(), 0); }), "tw::softmax: the value is absent");
  EXPECT_EQ(error_of([&] { tw::Value() + x; }), "add: the value is absent");
  EXPECT_EQ(error_of([&] { g.output(tw::Value()); }), "tw::Graph::output: the value is absent");
}

TEST(Wrapper, ListsOfOneOptionAndOfNumbers) {
  tw::Session session({{"cache", "off"}});
  EXPECT_EQ(session.option("cache"), "off");
  tw::Session two({{"cache", "off"}, {"mode", "eager"}});
  EXPECT_EQ(two.option("mode"), "eager");
  tw::Graph g("g");
  const tw::Value x = g.input("x", tw::f32, {2, 3});
  EXPECT_EQ(tw::op("transpose", {x}, {{"perm", {1, 0}}}).dim(0).handle(), 3);
}

TEST(GraphBuilding, NamesOfInputsAndOutputsAreRefusedTwice) {
  tw::Graph g("g");
  const tw::Value x = g.input("x", tw::f32, {2});
  tw_value value;
  const tw_dim dim = 2;
  expect_code(tw_graph_input(g.get(), "x", TW_DTYPE_F32, &dim, 1, &value), TW_ALREADY_EXISTS,
              "input 1: input 0 has the name x already");
  EXPECT_OK(tw_graph_output(g.get(), x.id(), "y"));
  expect_code(tw_graph_output(g.get(), x.id(), "y"), TW_ALREADY_EXISTS,
              "output 1: output 0 has the name y already");
  EXPECT_OK(tw_graph_output(g.get(), x.id(), nullptr));
  EXPECT_OK(tw_graph_output(g.get(), x.id(), nullptr));
  g.clear_outputs();
  EXPECT_EQ(g.output_count(), 0);
  EXPECT_EQ(g.output(x, "y"), 0);
  g.verify();
}

TEST(Gradients, ImplicitOneIsForOneScalar) {
  tw::Graph g("g");
  const tw::Value x = g.input("x", tw::f32, {2});
  g.output(tw::square(x), "y");
  tw::GradientOptions options;
  options.implicit_one = true;
  const std::string vector = error_of([&] { g.gradient_joint(options); });
  EXPECT_NE(vector.find("implicit_one with output y of type f32[2]"), std::string::npos) << vector;
  g.output(tw::sum(x, {0}), "loss");
  const std::string several = error_of([&] { g.gradient_joint(options); });
  EXPECT_NE(several.find("(y, loss), expected one: list it in outputs"), std::string::npos) << several;
  options.outputs = {1};
  const tw::Graph joint = g.gradient_joint(options);
  EXPECT_EQ(joint.input_count(), 1);
  // Dumps of both graphs have names of their own.
  EXPECT_STREQ(tw_graph_name(joint.get()), "g.joint");
}

TEST(GraphInspection, BoundsOfIndices) {
  const tw::Graph g = tw::Graph::parse(
      "graph @g[N](%x: f32[N,5], %t: i64[N], %table: f32[N,5], %rows: i64[N], %n: i64[N]) -> (f32[], i64[N]) "
      "{\n"
      "  %0 = embedding %table, %rows : f32[N,5]\n"
      "  %1 = add %x, %0 : f32[N,5]\n"
      "  %loss, %lse = cross_entropy %1, %t : f32[], f32[N]\n"
      "  %2 = add %n, %n : i64[N]\n"
      "  return %loss, %2\n}\n");
  const auto bound = [&](int64_t input) {
    tw_dim dim = 0;
    EXPECT_OK(tw_graph_input_bound(g.get(), input, &dim));
    return dim;
  };
  EXPECT_EQ(bound(1), 5);
  EXPECT_EQ(bound(3), g.input_value(0).dim(0).handle());
  EXPECT_EQ(bound(0), TW_UNBOUNDED);
  EXPECT_EQ(bound(4), TW_UNBOUNDED);
  tw_dim dim;
  expect_code(tw_graph_input_bound(g.get(), 9, &dim), TW_INVALID_ARGUMENT, "input 9 of 5");
}

}  // namespace
}  // namespace capi_test
