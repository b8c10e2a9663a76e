// Every function of the C API with null handles and nonsense.
#include <functional>
#include <map>

#include "tests/capi/support.h"
#include "tilewright/api.h"

namespace capi_test {
namespace {

TEST(Misuse, NullHandlesAreInvalidArguments) {
  tw::Session session = session_for("eager");
  tw::Graph graph("g");
  tw_options* options = nullptr;
  ASSERT_OK(tw_options_create(&options));
  tw_text* text;
  tw_dim dim;
  tw_value value;
  tw_graph* made;
  tw_executable* executable;
  tw_compile_job* job;
  tw_constant* constant;
  DLManagedTensorVersioned* tensor;
  int32_t number;
  const char* word;
  uint64_t hash[2];
  const std::map<std::string, std::function<tw_status*()>> calls = {
      {"tw_targets", [&] { return tw_targets(nullptr); }},
      {"tw_target_describe", [&] { return tw_target_describe(nullptr, &text); }},
      {"tw_op_find", [&] { return tw_op_find(nullptr, &number); }},
      {"tw_op_describe", [&] { return tw_op_describe(TW_OP_ADD, nullptr); }},
      {"tw_dtype_find", [&] { return tw_dtype_find("f32", nullptr); }},
      {"tw_dtype_from_dlpack", [&] { return tw_dtype_from_dlpack({2, 32, 1}, nullptr); }},
      {"tw_dtype_to_dlpack", [&] { return tw_dtype_to_dlpack(TW_DTYPE_F32, nullptr); }},
      {"tw_option_describe", [&] { return tw_option_describe(0, nullptr); }},
      {"tw_options_create", [&] { return tw_options_create(nullptr); }},
      {"tw_options_set", [&] { return tw_options_set(nullptr, "mode", "eager"); }},
      {"tw_options_get", [&] { return tw_options_get(options, nullptr, &word, nullptr); }},
      {"tw_session_create", [&] { return tw_session_create(options, nullptr, nullptr); }},
      {"tw_session_option", [&] { return tw_session_option(nullptr, "mode", &word, nullptr); }},
      {"tw_session_report", [&] { return tw_session_report(nullptr, &text); }},
      {"tw_session_allocate",
       [&] { return tw_session_allocate(nullptr, TW_DTYPE_F32, nullptr, 0, &tensor); }},
      {"tw_session_allocate_on_device",
       [&] { return tw_session_allocate_on_device(nullptr, TW_DTYPE_F32, nullptr, 0, nullptr, &tensor); }},
      {"tw_session_copy", [&] { return tw_session_copy(session.get(), nullptr, nullptr, nullptr); }},
      {"tw_session_synchronize", [&] { return tw_session_synchronize(nullptr, nullptr); }},
      {"tw_session_trim", [&] { return tw_session_trim(nullptr); }},
      {"tw_session_cache_stats", [&] { return tw_session_cache_stats(session.get(), nullptr); }},
      {"tw_session_cache_directory", [&] { return tw_session_cache_directory(nullptr, &text, nullptr); }},
      {"tw_session_register_custom_call",
       [&] { return tw_session_register_custom_call(session.get(), nullptr); }},
      {"tw_constant_create", [&] { return tw_constant_create(nullptr, &constant); }},
      {"tw_constant_take", [&] { return tw_constant_take(nullptr, &constant); }},
      {"tw_graph_create", [&] { return tw_graph_create("g", nullptr); }},
      {"tw_graph_clone", [&] { return tw_graph_clone(nullptr, &made); }},
      {"tw_graph_symbol", [&] { return tw_graph_symbol(nullptr, "N", 1, 2, -1, &dim); }},
      {"tw_graph_dim", [&] { return tw_graph_dim(nullptr, TW_DIM_ADD, 1, 2, &dim); }},
      {"tw_graph_dim_parse", [&] { return tw_graph_dim_parse(graph.get(), nullptr, &dim); }},
      {"tw_graph_dim_print", [&] { return tw_graph_dim_print(nullptr, 1, &text); }},
      {"tw_graph_dim_evaluate", [&] { return tw_graph_dim_evaluate(nullptr, 1, nullptr, nullptr, 0, &dim); }},
      {"tw_graph_input", [&] { return tw_graph_input(nullptr, "x", TW_DTYPE_F32, nullptr, 0, &value); }},
      {"tw_graph_clear_outputs", [&] { return tw_graph_clear_outputs(nullptr); }},
      {"tw_graph_input_bound", [&] { return tw_graph_input_bound(graph.get(), 0, nullptr); }},
      {"tw_graph_input_layout",
       [&] { return tw_graph_input_layout(nullptr, 0, TW_LAYOUT_ANY, nullptr, nullptr); }},
      {"tw_graph_input_frozen", [&] { return tw_graph_input_frozen(nullptr, 0, 1); }},
      {"tw_graph_output", [&] { return tw_graph_output(nullptr, 0, nullptr); }},
      {"tw_graph_alias", [&] { return tw_graph_alias(nullptr, 0, 0); }},
      {"tw_graph_append", [&] { return tw_graph_append(graph.get(), nullptr, nullptr, 0, nullptr); }},
      {"tw_graph_constant", [&] { return tw_graph_constant(graph.get(), nullptr, &value); }},
      {"tw_graph_splat", [&] { return tw_graph_splat(nullptr, TW_DTYPE_F32, nullptr, 0, 1, &value); }},
      {"tw_graph_splat_integer",
       [&] { return tw_graph_splat_integer(nullptr, TW_DTYPE_I32, nullptr, 0, 1, &value); }},
      {"tw_graph_value_type", [&] { return tw_graph_value_type(nullptr, 0, nullptr, nullptr, nullptr, 0); }},
      {"tw_graph_value_name", [&] { return tw_graph_value_name(nullptr, 0, &text); }},
      {"tw_graph_input_at", [&] { return tw_graph_input_at(nullptr, 0, &value, nullptr); }},
      {"tw_graph_output_at", [&] { return tw_graph_output_at(nullptr, 0, &value, nullptr, nullptr); }},
      {"tw_graph_symbol_at",
       [&] { return tw_graph_symbol_at(nullptr, 0, nullptr, nullptr, nullptr, nullptr); }},
      {"tw_graph_node_at",
       [&] { return tw_graph_node_at(nullptr, 0, nullptr, nullptr, 0, nullptr, nullptr); }},
      {"tw_graph_parse", [&] { return tw_graph_parse(nullptr, 0, &made); }},
      {"tw_graph_parse_all", [&] { return tw_graph_parse_all("", 0, nullptr, 0, nullptr); }},
      {"tw_graph_print", [&] { return tw_graph_print(nullptr, &text); }},
      {"tw_graph_verify", [&] { return tw_graph_verify(nullptr); }},
      {"tw_graph_hash", [&] { return tw_graph_hash(nullptr, hash); }},
      {"tw_graph_expand", [&] { return tw_graph_expand(nullptr, &made); }},
      {"tw_graph_gradient_joint", [&] { return tw_graph_gradient_joint(nullptr, nullptr, &made); }},
      {"tw_graph_gradient_pair",
       [&] { return tw_graph_gradient_pair(graph.get(), nullptr, &made, nullptr); }},
      {"tw_graph_compare",
       [&] { return tw_graph_compare(graph.get(), nullptr, 0, nullptr, nullptr, 1, nullptr, &text); }},
      {"tw_compile", [&] { return tw_compile(session.get(), nullptr, nullptr, &executable); }},
      {"tw_compile_start", [&] { return tw_compile_start(nullptr, graph.get(), nullptr, &job); }},
      {"tw_compile_wait", [&] { return tw_compile_wait(nullptr, 0, &executable); }},
      {"tw_executable_graph", [&] { return tw_executable_graph(nullptr, &made); }},
      {"tw_executable_report", [&] { return tw_executable_report(nullptr, &text); }},
      {"tw_executable_dump", [&] { return tw_executable_dump(nullptr, "graph", &text); }},
      {"tw_executable_bind", [&] { return tw_executable_bind(nullptr, 0, nullptr); }},
      {"tw_run", [&] { return tw_run(nullptr, nullptr, 0, nullptr, nullptr, 0, nullptr); }},
      {"tw_executable_output_sizes",
       [&] { return tw_executable_output_sizes(nullptr, nullptr, 0, nullptr, 0, nullptr, 0, nullptr); }},
  };
  for (const auto& [name, call] : calls) {
    SCOPED_TRACE(name);
    expect_code(call(), TW_INVALID_ARGUMENT, name + ": ");
  }
  // A function that is added to the API is added here: all that return a status, but for tw_status_create.
  int64_t with_status = 0;
  const tw_api* api = tw_get_api(TW_API_MAJOR, sizeof(tw_api));
  ASSERT_NE(api, nullptr);
  const int64_t without_status = 38;
  with_status =
      static_cast<int64_t>((sizeof(tw_api) - sizeof api->struct_size) / sizeof(void (*)())) - without_status;
  EXPECT_EQ(static_cast<int64_t>(calls.size()), with_status);
  tw_options_release(options);
}

TEST(Misuse, ReleasingNullDoesNothing) {
  tw_status_release(nullptr);
  tw_text_release(nullptr);
  tw_options_release(nullptr);
  tw_session_release(nullptr);
  tw_graph_release(nullptr);
  tw_constant_release(nullptr);
  tw_executable_release(nullptr);
  tw_compile_job_release(nullptr);
  tw_compile_cancel(nullptr);
  tw_tensor_release(nullptr);
  EXPECT_EQ(tw_session_retain(nullptr), nullptr);
  EXPECT_EQ(tw_graph_retain(nullptr), nullptr);
  EXPECT_EQ(tw_constant_retain(nullptr), nullptr);
  EXPECT_EQ(tw_executable_retain(nullptr), nullptr);
  EXPECT_EQ(tw_graph_name(nullptr), nullptr);
  EXPECT_EQ(tw_graph_input_count(nullptr), 0);
  EXPECT_EQ(tw_graph_output_count(nullptr), 0);
  EXPECT_EQ(tw_graph_node_count(nullptr), 0);
  EXPECT_EQ(tw_graph_symbol_count(nullptr), 0);
  EXPECT_STREQ(tw_text_data(nullptr), "");
  EXPECT_EQ(tw_text_size(nullptr), 0);
}

TEST(Misuse, StatusOfNullIsOk) {
  EXPECT_EQ(tw_status_code(nullptr), TW_OK);
  EXPECT_STREQ(tw_status_message(nullptr), "");
  EXPECT_STREQ(tw_status_op(nullptr), "");
  EXPECT_STREQ(tw_status_text(nullptr), "");
  EXPECT_EQ(tw_status_cause(nullptr), nullptr);
  EXPECT_EQ(tw_status_create(TW_OK, "fine"), nullptr);
  expect_code(tw_status_create(TW_DATA_LOSS, "torn"), TW_DATA_LOSS, "torn");
  expect_code(tw_status_create(12345, nullptr), TW_UNKNOWN, "");
  EXPECT_STREQ(tw_status_code_name(TW_UNIMPLEMENTED), "UNIMPLEMENTED");
  EXPECT_STREQ(tw_status_code_name(-7), "UNKNOWN");
}

TEST(Misuse, StructSizesAreChecked) {
  tw::Graph graph("g");
  tw_node node = {};
  node.op = TW_OP_ADD;
  expect_code(tw_graph_append(graph.get(), &node, nullptr, 0, nullptr), TW_INVALID_ARGUMENT, "struct_size 0");
  tw_gradient_options options = {};
  tw_graph* joint;
  expect_code(tw_graph_gradient_joint(graph.get(), &options, &joint), TW_INVALID_ARGUMENT, "struct_size 0");
  tw_option_info info = {};
  expect_code(tw_option_describe(0, &info), TW_INVALID_ARGUMENT, "struct_size 0");
}

TEST(Misuse, AnOlderCallersStructIsReadAsFarAsItGoes) {
  tw::Session session = session_for("eager");
  const tw::Graph graph = tw::Graph::parse("graph @g(%x: f32[2]) -> (f32[2]) {\n  return %x\n}\n");
  // Before `stages` were there; what follows in memory is not read.
  tw_compile_options options;
  std::memset(static_cast<void*>(&options), 0xff, sizeof options);
  options.struct_size = offsetof(tw_compile_options, stages);
  options.next = nullptr;
  options.timeout_seconds = 0;
  options.option_names = options.option_values = nullptr;
  options.option_count = 0;
  tw_executable* executable = nullptr;
  EXPECT_OK(tw_compile(session.get(), graph.get(), &options, &executable));
  tw_executable_release(executable);
}

TEST(Misuse, UnknownExtensionsAreRefused) {
  tw_extension extension = {sizeof(tw_extension), nullptr, 4711, 0};
  tw_session_info info = {sizeof info, &extension};
  tw_session* session;
  expect_code(tw_session_create(nullptr, &info, &session), TW_INVALID_ARGUMENT,
              "unknown extension kind 4711");
}

TEST(Misuse, CountsAreChecked) {
  tw::Graph graph("g");
  tw_value value;
  expect_code(tw_graph_input(graph.get(), "x", TW_DTYPE_F32, nullptr, 2, &value), TW_INVALID_ARGUMENT,
              "dims is null, but has count 2");
  const tw_dim dims[] = {2, 3};
  expect_code(tw_graph_input(graph.get(), "x", TW_DTYPE_F32, dims, -1, &value), TW_INVALID_ARGUMENT,
              "count -1");
  expect_code(tw_graph_input(graph.get(), "x", 99, dims, 2, &value), TW_INVALID_ARGUMENT, "unknown dtype 99");
  expect_code(tw_graph_input(graph.get(), "a b", TW_DTYPE_F32, dims, 2, &value), TW_INVALID_ARGUMENT, "name");
  const tw_dim negative[] = {2, -3};
  expect_code(tw_graph_input(graph.get(), "x", TW_DTYPE_F32, negative, 2, &value), TW_INVALID_ARGUMENT,
              "size -3");
  const tw_dim foreign[] = {INT64_MIN + 5};
  expect_code(tw_graph_input(graph.get(), "x", TW_DTYPE_F32, foreign, 1, &value), TW_INVALID_ARGUMENT,
              "dim handle 5");
  expect_code(tw_graph_output(graph.get(), 3, nullptr), TW_INVALID_ARGUMENT, "value 3");
  expect_code(tw_graph_output(graph.get(), TW_NO_VALUE, nullptr), TW_INVALID_ARGUMENT, "no value");
  expect_code(tw_graph_input_frozen(graph.get(), 0, 1), TW_INVALID_ARGUMENT, "input 0 of 0");
  EXPECT_EQ(graph.input_count(), 0);
}

TEST(Misuse, TablesOfFunctionsAreVersioned) {
  EXPECT_EQ(tw_get_api(TW_API_MAJOR + 1, sizeof(tw_api)), nullptr);
  EXPECT_EQ(tw_get_api(TW_API_MAJOR, sizeof(tw_api) + 8), nullptr);
  const tw_api* api = tw_get_api(TW_API_MAJOR, 64);
  ASSERT_NE(api, nullptr);
  EXPECT_EQ(api->struct_size, sizeof(tw_api));
  EXPECT_EQ(api->version, &tw_version);
  EXPECT_EQ(api->run, &tw_run);
}

}  // namespace
}  // namespace capi_test
