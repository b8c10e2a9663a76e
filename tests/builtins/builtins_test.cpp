// Builtins of the processor against the reference kernels, bit for bit, over dtypes, dims and sizes.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "base/text.h"
#include "base/thread_pool.h"
#include "codegen/builtins.h"
#include "ir/reference/interpreter.h"
#include "ir/text.h"
#include "targets/target.h"

namespace tilewright {
namespace {

// Random bits with many ties, NaNs, infinities and zeros of both signs.
void fill(const TensorRef& tensor, std::mt19937_64& random) {
  static constexpr double kSpecial[] = {0.0, -0.0, 1.0, -1.0, INFINITY, -INFINITY, NAN, 2.5};
  int64_t width = dtype_bytes(tensor.dtype);
  auto* bytes = static_cast<uint8_t*>(tensor.data);
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    uint64_t bits = random();
    if (tensor.dtype == DType::Bool) bits &= 1;
    if (tensor.dtype == DType::F32 && bits % 2 == 0) {
      float value = static_cast<float>(kSpecial[random() % 8]);
      std::memcpy(&bits, &value, 4);
    }
    if (tensor.dtype == DType::F64 && bits % 2 == 0) std::memcpy(&bits, &kSpecial[random() % 8], 8);
    std::memcpy(bytes + i * width, &bits, static_cast<size_t>(width));
  }
}

void check(const std::string& text, bool sorted_sequence = false) {
  SCOPED_TRACE(text);
  Result<Graph> graph = parse_graph(text);
  ASSERT_TRUE(graph.is_ok()) << graph.status().to_string();
  std::mt19937_64 random(7);
  std::vector<OwnedTensor> inputs;
  std::vector<TensorRef> refs;
  for (const Input& input : graph->inputs) {
    const TensorType& type = graph->type(input.value);
    inputs.push_back(allocate_tensor(type.dtype, static_sizes(type.shape)));
    fill(inputs.back().ref, random);
    refs.push_back(inputs.back().ref);
  }
  if (sorted_sequence) {
    Result<Graph> sort = parse_graph(
        cat("graph @s(%x: ", graph->type(graph->inputs[0].value).to_string(), ") -> (",
            graph->type(graph->inputs[0].value).to_string(), ") {\n %y = sort %x {dim=", refs[0].rank() - 1,
            "} : ", graph->type(graph->inputs[0].value).to_string(), "\n return %y\n}"));
    ASSERT_TRUE(sort.is_ok()) << sort.status().to_string();
    auto sorted = interpret(*sort, std::span(refs).first(1), {});
    ASSERT_TRUE(sorted.is_ok());
    inputs[0] = sorted.value()[0];
    refs[0] = inputs[0].ref;
  }
  auto expected = interpret(*graph, refs, {});
  ASSERT_TRUE(expected.is_ok()) << expected.status().to_string();
  std::vector<void*> buffers;
  for (const TensorRef& ref : refs) buffers.push_back(ref.data);
  std::vector<OwnedTensor> outputs;
  for (const OwnedTensor& tensor : expected.value()) {
    outputs.push_back(allocate_tensor(tensor.ref.dtype, tensor.ref.sizes));
    if (tensor.ref.bytes() > 0)
      std::memset(outputs.back().ref.data, 0x5A, static_cast<size_t>(tensor.ref.bytes()));
    buffers.push_back(outputs.back().ref.data);
  }
  const BuiltinInfo* builtin = builtin_for(graph->nodes()[0].op);
  ASSERT_NE(builtin, nullptr);
  auto call = make_builtin_call(builtin->launch_name(), *graph, {}, buffers);
  ASSERT_TRUE(call.is_ok()) << call.status().to_string();
  static ThreadPool pool(3);
  auto parallel_for = [&](int64_t count, int64_t chunk, FunctionRef<void(int64_t, int64_t)> body) {
    pool.parallel_for(count, chunk, [&](int64_t begin, int64_t end, int) { body(begin, end); });
  };
  auto target = create_target("native");
  ASSERT_TRUE(target.is_ok()) << target.status().to_string();
  Status status = target.value()->run_builtin(*call, parallel_for);
  ASSERT_TRUE(status.is_ok()) << status.to_string();
  for (size_t i = 0; i < outputs.size(); ++i) {
    size_t bytes = static_cast<size_t>(outputs[i].ref.bytes());
    EXPECT_EQ(std::string_view(static_cast<char*>(outputs[i].ref.data), bytes),
              std::string_view(static_cast<char*>(expected.value()[i].ref.data), bytes))
        << "output " << i;
  }
}

const std::vector<std::string>& dtypes(bool with_f8) {
  static const std::vector<std::string> kAll = {"bool", "i8",  "i16", "i32",      "i64",
                                                "u8",   "u16", "u32", "u64",      "f16",
                                                "bf16", "f32", "f64", "f8e4m3fn", "f8e5m2"};
  static const std::vector<std::string> kArith(kAll.begin(), kAll.end() - 2);
  return with_f8 ? kAll : kArith;
}

void check_sort(const std::string& type, int dim, const std::string& options) {
  check(cat("graph @f(%x: ", type, ") -> (", type, ") {\n %y = sort %x {dim=", dim, options, "} : ", type,
            "\n return %y\n}"));
}

TEST(Builtins, SortsEveryDtypeAlongEveryDim) {
  for (const std::string& dtype : dtypes(true)) {
    for (const char* options : {"", ", descending=true"}) {
      check_sort(dtype + "[5,37]", 1, options);
      check_sort(dtype + "[37,21]", 0, options);
      check_sort(dtype + "[3,19,2]", 1, options);
      check_sort(dtype + "[1500]", 0, options);
    }
  }
}

TEST(Builtins, SortsLongLines) {
  check_sort("f32[200000]", 0, "");
  check_sort("f64[100000]", 0, ", descending=true");
  check_sort("i32[70000,2]", 0, "");
  check_sort("bf16[2,70001]", 1, "");
}

TEST(Builtins, SortsNothing) {
  check_sort("f32[0,4]", 0, "");
  check_sort("f32[0,4]", 1, "");
  check_sort("f32[1]", 0, "");
}

TEST(Builtins, SortsByManyKeysWithPayload) {
  for (int keys = 1; keys <= 3; ++keys) {
    for (const char* size : {"[3,50]", "[2,2000]", "[50,3]"}) {
      int dim = std::string(size) == "[50,3]" ? 0 : 1;
      check(cat("graph @f(%a: bool", size, ", %b: i8", size, ", %c: f64", size, ", %d: u16", size,
                ") -> (bool", size, ", i8", size, ", f64", size, ", u16", size,
                ") {\n %0, %1, %2, %3 = sort %a, %b, %c, %d {dim=", dim, ", num_keys=", keys, "} : bool",
                size, ", i8", size, ", f64", size, ", u16", size, "\n return %0, %1, %2, %3\n}"));
    }
  }
}

void check_top_k(const std::string& dtype, const std::string& in, const std::string& out, int dim, int k,
                 const std::string& options, const std::string& index = "i64") {
  check(cat("graph @f(%x: ", dtype, in, ") -> (", dtype, out, ", ", index, out,
            ") {\n %y, %i = top_k %x {dim=", dim, ", k=", k, options, "} : ", dtype, out, ", ", index, out,
            "\n return %y, %i\n}"));
}

TEST(Builtins, TakesTheTopOfEveryDtype) {
  for (const std::string& dtype : dtypes(false)) {
    check_top_k(dtype, "[4,300]", "[4,7]", 1, 7, "");
    check_top_k(dtype, "[40,3]", "[5,3]", 0, 5, ", largest=false");
    check_top_k(dtype, "[9]", "[9]", 0, 9, "");
  }
  check_top_k("f32", "[50000]", "[100]", 0, 100, "");
  check_top_k("f32", "[50000]", "[20000]", 0, 20000, ", largest=false");
  check_top_k("f32", "[2,5]", "[2,0]", 1, 0, "");
  check_top_k("f32", "[3,64]", "[3,2]", 1, 2, ", index_type=i32", "i32");
}

TEST(Builtins, SearchesSortedSequences) {
  for (const std::string& dtype : dtypes(false)) {
    for (const char* side : {"left", "right"}) {
      auto search = [&](const char* sequence, const char* values) {
        check(cat("graph @f(%s: ", dtype, sequence, ", %v: ", dtype, values, ") -> (i64", values,
                  ") {\n %y = searchsorted %s, %v {side=", side, "} : i64", values, "\n return %y\n}"),
              true);
      };
      search("[33]", "[2,50]");
      search("[2,3,17]", "[2,3,5]");
      search("[0]", "[4]");
      search("[8]", "[]");
    }
  }
}

TEST(Builtins, CompactsMasks) {
  for (const char* size : {"[200000]", "[3,5,7]", "[0]", "[]"}) {
    for (int bound : {0, 10, 150000}) {
      check(cat("graph @f(%m: bool", size, ") -> (i32[", bound,
                "], i64[]) {\n %i, %c = compact_indices %m {bound=", bound, ", index_type=i32} : i32[", bound,
                "], i64[]\n return %i, %c\n}"));
    }
  }
}

TEST(Builtins, RejectsUnknownNamesAndWrongCounts) {
  auto target = create_target("native");
  ASSERT_TRUE(target.is_ok());
  auto alone = [](int64_t count, int64_t, FunctionRef<void(int64_t, int64_t)> body) { body(0, count); };
  BuiltinCall call;
  call.name = "bogosort@1";
  EXPECT_EQ(target.value()->run_builtin(call, alone).code(), Code::NotFound);
  call.name = "sort@1";
  EXPECT_EQ(target.value()->run_builtin(call, alone).code(), Code::InvalidArgument);
}

TEST(Builtins, EveryRowHasAnImplementation) {
  auto target = create_target("native");
  ASSERT_TRUE(target.is_ok());
  auto alone = [](int64_t count, int64_t, FunctionRef<void(int64_t, int64_t)> body) { body(0, count); };
  for (const BuiltinInfo& info : all_builtins()) {
    BuiltinCall call;
    std::string name = info.launch_name();
    call.name = name;
    EXPECT_NE(target.value()->run_builtin(call, alone).code(), Code::NotFound) << name;
  }
}

}  // namespace
}  // namespace tilewright
