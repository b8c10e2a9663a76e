// Custom calls: C functions as ops, with every kind of argument.
#include <cmath>

#include "tests/capi/support.h"

namespace capi_test {
namespace {

class CustomCall : public BothModes {};
BOTH_MODES(CustomCall);

tw_custom_argument argument(int32_t kind, int32_t tensor = 0, int32_t index = 0,
                            int32_t ctype = TW_CTYPE_DEFAULT) {
  tw_custom_argument made = {};
  made.struct_size = sizeof made;
  made.kind = kind;
  made.tensor = tensor;
  made.index = index;
  made.ctype = ctype;
  return made;
}

tw_custom_call make_call(const char* name, void (*function)(),
                         const std::vector<tw_custom_argument>& arguments, int32_t operands, int32_t results,
                         int32_t returns = TW_CTYPE_VOID) {
  tw_custom_call call = {};
  call.struct_size = sizeof call;
  call.name = name;
  call.function = function;
  call.arguments = arguments.data();
  call.argument_count = static_cast<int64_t>(arguments.size());
  call.operand_count = operands;
  call.result_count = results;
  call.return_ctype = returns;
  return call;
}

template <class Function>
void (*erase(Function* function))() {
  return reinterpret_cast<void (*)()>(function);
}

const char* const kGraph = R"(graph @call(%x: f32[2,3]) -> (f32[2,3]) {
  %0 = custom_call %x {target="axpb", result_types=[f32[2,3]], ints=[7,2], floats=[0.5]} : f32[2,3]
  %1 = negate %0 : f32[2,3]
  return %1
}
)";

// Everything that an argument can be filled with.
int64_t axpb(const float* x, float* y, int32_t rows, uint32_t columns, int64_t stride, uint64_t rank,
             int64_t elements, int32_t attribute, double factor, float constant, int64_t seven, void* context,
             const DLTensor* tensor) {
  if (rank != 2 || stride != 3 || elements != 6 || seven != 7 || tensor->ndim != 2 || tensor->shape[1] != 3)
    return 1;
  if (tensor->data != x || tensor->strides[0] != 3 || tensor->dtype.bits != 32) return 2;
  *static_cast<int*>(context) += 1;
  for (int64_t at = 0; at < int64_t{rows} * columns; ++at)
    y[at] = static_cast<float>(factor) * x[at] + static_cast<float>(attribute) + constant;
  return 0;
}

TEST_P(CustomCall, ArgumentsOfEveryKind) {
  std::vector<tw_custom_argument> arguments = {
      argument(TW_ARGUMENT_DATA, 0),
      argument(TW_ARGUMENT_DATA, 1),
      argument(TW_ARGUMENT_SIZE, 0, 0, TW_CTYPE_I32),
      argument(TW_ARGUMENT_SIZE, 0, 1, TW_CTYPE_U32),
      argument(TW_ARGUMENT_STRIDE, 1, 0),
      argument(TW_ARGUMENT_RANK, 0, 0, TW_CTYPE_U64),
      argument(TW_ARGUMENT_ELEMENTS, 1),
      argument(TW_ARGUMENT_INT_ATTRIBUTE, 0, 1, TW_CTYPE_I32),
      argument(TW_ARGUMENT_FLOAT_ATTRIBUTE, 0, 0),
      argument(TW_ARGUMENT_FLOAT, 0, 0, TW_CTYPE_F32),
      argument(TW_ARGUMENT_INT),
      argument(TW_ARGUMENT_CONTEXT),
      argument(TW_ARGUMENT_TENSOR, 0),
  };
  arguments[9].f = 100;
  arguments[10].i = 7;
  int calls = 0;
  tw_custom_call call = make_call("axpb", erase(axpb), arguments, 1, 1, TW_CTYPE_I64);
  call.context = &calls;
  session.register_custom_call(call);
  expect_code(tw_session_register_custom_call(session.get(), &call), TW_ALREADY_EXISTS, "axpb");
  const tw::Executable run = compile(kGraph);
  const tw::Tensor x = floats({0, 2, 4, 6, 8, 10}, {2, 3});
  EXPECT_EQ(values(run({&x})[0]), (std::vector<float>{-102, -103, -104, -105, -106, -107}));
  EXPECT_EQ(calls, 1);
}

TEST_P(CustomCall, FailuresOfTheFunction) {
  session.register_custom_call(make_call("axpb", erase(+[](const float*) -> int32_t { return -5; }),
                                         {argument(TW_ARGUMENT_DATA, 0)}, 1, 1, TW_CTYPE_I32));
  const tw::Tensor x(tw::f32, {2, 3});
  const tw::Executable run = compile(kGraph);
  try {
    run({&x});
    FAIL();
  } catch (const tw::Error& error) {
    EXPECT_NE(error.message().find("axpb returned -5"), std::string::npos) << error.what();
  }
  const tw::Session other = session_for(GetParam());
  tw_custom_call call =
      make_call("axpb", erase(+[]() { return tw_status_create(TW_DATA_LOSS, "the disk is gone"); }), {}, 1, 1,
                TW_CTYPE_STATUS);
  tw::check(tw_session_register_custom_call(other.get(), &call));
  const tw::Executable second = other.compile(tw::Graph::parse(kGraph));
  try {
    second({&x});
    FAIL();
  } catch (const tw::Error& error) {
    EXPECT_EQ(error.code(), TW_DATA_LOSS) << error.what();
  }
}

TEST_P(CustomCall, UnknownTargetsAreNamed) {
  const tw::Tensor x(tw::f32, {2, 3});
  const tw::Executable run = compile(kGraph);
  try {
    run({&x});
    FAIL();
  } catch (const tw::Error& error) {
    EXPECT_EQ(error.code(), TW_NOT_FOUND) << error.what();
    EXPECT_NE(error.message().find("axpb"), std::string::npos);
  }
}

TEST_P(CustomCall, BadSignatures) {
  const auto refuse = [&](const tw_custom_call& call, int32_t code, const std::string& part) {
    expect_code(tw_session_register_custom_call(session.get(), &call), code, part);
  };
  const std::vector<tw_custom_argument> beyond = {argument(TW_ARGUMENT_DATA, 2)}, kind = {argument(77)},
                                        type = {argument(TW_ARGUMENT_DATA, 0, 0, TW_CTYPE_I32)},
                                        negative = {argument(TW_ARGUMENT_SIZE, 0, -1)};
  refuse(make_call("bad", erase(axpb), beyond, 1, 1), TW_INVALID_ARGUMENT, "names tensor 2, expected 0 to 1");
  refuse(make_call("bad", erase(axpb), kind, 1, 1), TW_INVALID_ARGUMENT, "unknown kind 77");
  refuse(make_call("bad", erase(axpb), type, 1, 1), TW_INVALID_ARGUMENT, "expected a pointer type");
  refuse(make_call("bad", erase(axpb), negative, 1, 1), TW_INVALID_ARGUMENT, "index -1");
  refuse(make_call("bad", erase(axpb), {}, 1, 1, TW_CTYPE_F64), TW_INVALID_ARGUMENT, "return type 7");
  refuse(make_call(nullptr, erase(axpb), {}, 1, 1), TW_INVALID_ARGUMENT, "name");
  refuse(make_call("bad", nullptr, {}, 1, 1), TW_INVALID_ARGUMENT, "neither a function nor a symbol");
  tw_custom_call call = make_call("bad", nullptr, {}, 1, 1);
  call.symbol = "no_such_function_anywhere";
  refuse(call, TW_NOT_FOUND, "no_such_function_anywhere");
  call.library = "libno_such_library.so";
  refuse(call, TW_NOT_FOUND, "libno_such_library.so");
}

TEST_P(CustomCall, BySymbolOfALibrary) {
  // double ldexp(double, int) is no tensor function, but returns nothing that is looked at.
  tw_custom_call call = make_call("m", nullptr, {}, 1, 1);
  call.library = "libm.so.6";
  call.symbol = "ldexp";
  session.register_custom_call(call);
}

TEST_P(CustomCall, GradientsAreCustomCalls) {
  const auto cube = +[](const float* x, float* y, int64_t count) {
    for (int64_t at = 0; at < count; ++at) y[at] = x[at] * x[at] * x[at];
  };
  const auto gradient = +[](const float* x, const float* g, float* dx, int64_t count) {
    for (int64_t at = 0; at < count; ++at) dx[at] = 3 * x[at] * x[at] * g[at];
  };
  session.register_custom_call(make_call(
      "cube", erase(cube),
      {argument(TW_ARGUMENT_DATA, 0), argument(TW_ARGUMENT_DATA, 1), argument(TW_ARGUMENT_ELEMENTS, 0)}, 1,
      1));
  session.register_custom_call(make_call("cube_gradient", erase(gradient),
                                         {argument(TW_ARGUMENT_DATA, 0), argument(TW_ARGUMENT_DATA, 2),
                                          argument(TW_ARGUMENT_DATA, 3), argument(TW_ARGUMENT_ELEMENTS, 0)},
                                         3, 1));
  const tw::Graph graph = tw::Graph::parse(R"(graph @c[N in 1..9](%x: f32[N]) -> (f32[]) {
  %0 = custom_call %x {target="cube", result_types=[f32[N]], gradient="cube_gradient"} : f32[N]
  %1 = reduce_sum %0 {dims=[0]} : f32[]
  return %1
}
)");
  tw::GradientOptions options;
  options.implicit_one = true;
  const tw::Tensor x = floats({1, 2, 3}, {3});
  const std::vector<tw::Tensor> out = session.compile(graph.gradient_joint(options))({&x});
  EXPECT_EQ(out[0].item<float>(), 36);
  EXPECT_EQ(values(out[1]), (std::vector<float>{3, 12, 27}));
}

}  // namespace
}  // namespace capi_test
