// Kernels of small graphs, one thread: time of each against the multiply-adds and the bytes that it cannot
// avoid.
//
// bench_tile [words]: cases whose name has one of the words, then the hand-written programs.  bench_tile
// --graph FILE: the kernels of a graph.  One JSON line a case; per-kernel lines with TW_BENCH_KERNELS.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <random>

#include "base/json.h"
#include "base/text.h"
#include "bench/support/machine_limits.h"
#include "bench/tile/programs.h"
#include "codegen/emit/emit.h"
#include "codegen/run_program.h"
#include "ir/reference/scalar.h"
#include "ir/text.h"
#include "targets/target.h"

namespace tilewright::bench {
namespace {

struct Case {
  const char* name;
  double flops;  // multiply-adds of products, times two; 0: bound by memory
  double bytes;  // read and written at least
  std::string graph;
};

std::string product(int64_t m, int64_t n, int64_t k, const char* dtype, bool transposed) {
  std::string w = transposed ? cat(n, ",", k) : cat(k, ",", n);
  return cat("graph @f(%x: ", dtype, "[", m, ",", k, "], %w: ", dtype, "[", w, "]) -> (", dtype, "[", m, ",",
             n, "]) {\n  %0 = dot_general %x, %w {lhs_contract=[1], rhs_contract=[", transposed ? 1 : 0,
             "]} : ", dtype, "[", m, ",", n, "]\n  return %0\n}\n");
}

Case product_case(const char* name, int64_t m, int64_t n, int64_t k, const char* dtype = "f32",
                  bool transposed = false) {
  double width = std::string(dtype) == "f32" ? 4 : std::string(dtype) == "f64" ? 8 : 2;
  return {name, 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k),
          width * static_cast<double>(m * k + k * n + m * n), product(m, n, k, dtype, transposed)};
}

// A graph over %x: f32[rows, columns] (and more inputs) from its body.
Case rows_case(const char* name, int64_t rows, int64_t columns, const std::string& inputs,
               const std::string& results, std::string body, double tensors) {
  std::string shape = cat("f32[", rows, ",", columns, "]");
  auto fill = [&](std::string text) {
    for (auto& [from, to] :
         {std::pair<std::string, std::string>{"$T", shape}, {"$R", cat(rows)}, {"$C", cat(columns)}}) {
      for (size_t at = text.find(from); at != std::string::npos; at = text.find(from))
        text.replace(at, from.size(), to);
    }
    return text;
  };
  std::string graph =
      cat("graph @f(", fill(inputs), ") -> (", fill(results), ") {\n", fill(std::move(body)), "}\n");
  return {name, 0, tensors * 4 * static_cast<double>(rows * columns), graph};
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  cases.push_back(product_case("product_64", 64, 64, 64));
  cases.push_back(product_case("product_256", 256, 256, 256));
  cases.push_back(product_case("product_512", 512, 512, 512));
  cases.push_back(product_case("product_1024", 1024, 1024, 1024));
  cases.push_back(product_case("product_1024_transposed", 1024, 1024, 1024, "f32", true));
  cases.push_back(product_case("product_512x3072x768", 512, 3072, 768));
  cases.push_back(product_case("product_16x4096x4096", 16, 4096, 4096));
  cases.push_back(product_case("product_1x4096x4096", 1, 4096, 4096));
  cases.push_back(product_case("product_1x4096x4096_transposed", 1, 4096, 4096, "f32", true));
  cases.push_back(product_case("product_512x768x768_bf16", 512, 768, 768, "bf16"));
  cases.push_back(product_case("product_512_f64", 512, 512, 512, "f64"));
  int64_t rows = 16384, columns = 1024;
  cases.push_back(
      rows_case("add", rows, columns, "%x: $T, %z: $T", "$T", "  %0 = add %x, %z : $T\n  return %0\n", 3));
  cases.push_back(
      rows_case("gelu_affine", rows, columns, "%x: $T, %w: f32[$C], %b: f32[$C]", "$T",
                "  %0 = broadcast_in_dim %w {shape=[$R,$C], dims=[1]} : $T\n"
                "  %1 = broadcast_in_dim %b {shape=[$R,$C], dims=[1]} : $T\n"
                "  %2 = multiply %x, %0 : $T\n  %3 = add %2, %1 : $T\n  %4 = gelu %3 : $T\n  return %4\n",
                2));
  cases.push_back(rows_case("softmax", rows, columns, "%x: $T", "$T",
                            "  %0 = softmax %x {dim=1} : $T\n  return %0\n", 2));
  cases.push_back(rows_case("reduce_rows", rows, columns, "%x: $T", "f32[$R]",
                            "  %0 = reduce_sum %x {dims=[1]} : f32[$R]\n  return %0\n", 1));
  cases.push_back(rows_case("reduce_columns", rows, columns, "%x: $T", "f32[$C]",
                            "  %0 = reduce_sum %x {dims=[0]} : f32[$C]\n  return %0\n", 1));
  cases.push_back(
      rows_case("layer_norm", rows, columns, "%x: $T, %w: f32[$C], %b: f32[$C]", "$T",
                "  %0, %1, %2 = layer_norm %x, %w, %b {axes=[1], eps=1e-05} : $T, f32[$R], f32[$R]\n"
                "  return %0\n",
                2));
  cases.push_back(
      rows_case("layer_norm_grad", rows, columns, "%g: $T, %x: $T, %m: f32[$R], %r: f32[$R], %w: f32[$C]",
                "$T, f32[$C], f32[$C]",
                "  %0, %1, %2 = layer_norm_grad %g, %x, %m, %r, %w {axes=[1]} : $T, f32[$C], f32[$C]\n"
                "  return %0, %1, %2\n",
                3));
  cases.push_back(rows_case("transpose", 4096, 4096, "%x: $T", "f32[$C,$R]",
                            "  %0 = transpose %x {perm=[1,0]} : f32[$C,$R]\n  return %0\n", 2));
  std::string q = "f32[1,8,1024,64]";
  cases.push_back({"attention_causal", 4.0 * 8 * 1024 * 1024 * 64 / 2, 0,
                   cat("graph @f(%q: ", q, ", %k: ", q, ", %v: ", q, ") -> (", q,
                       ") {\n  %0, %1, %2 = attention %q, %k, %v ", "{causal=true} : ", q,
                       ", f32[1,8,1024], u64[2]\n  return %0\n}\n")});
  return cases;
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Of the process: compiling has a thread of its own.
double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

class Runner {
 public:
  Runner(std::shared_ptr<Target> target, const Case& test) : target_(std::move(target)), test_(test) {}

  struct Times {
    double ours = 0, limit = 0;
  };
  // Seconds of all kernels of the graph and of what they cannot avoid, measured in turns: medians (the best
  // with TW_BENCH_BEST) of repeated runs.
  Result<Times> run() {
    const Case& test = test_;
    if (test.flops == 0)
      probe_ = std::make_unique<CopyProbe>(std::min<int64_t>(static_cast<int64_t>(test.bytes / 2), 64 << 20));
    TW_ASSIGN_OR_RETURN(Graph graph, parse_graph(test.graph));
    TW_ASSIGN_OR_RETURN(Program program, plan_program(graph, target_->info().limits, {}));
    std::vector<OwnedTensor> inputs;
    std::vector<TensorRef> refs;
    std::mt19937 random(1);
    for (const Input& input : graph.inputs) {
      const TensorType& type = graph.type(input.value);
      inputs.push_back(allocate_tensor(type.dtype, static_sizes(type.shape)));
      TensorRef& ref = inputs.back().ref;
      for (int64_t i = 0; i < ref.elements(); ++i) {
        double value = static_cast<double>(random()) / 4294967296.0 - 0.5;
        bool is_floating = is_float(type.dtype) || is_float8(type.dtype);
        store_scalar(is_floating ? Scalar::of_float(type.dtype, value)
                                 : Scalar::of_integer(type.dtype, static_cast<int64_t>(random() % 64)),
                     static_cast<char*>(ref.data) + i * dtype_bytes(type.dtype));
      }
      refs.push_back(ref);
    }
    double total = 0;
    Status failed;
    RunProgramOptions options;
    options.run_kernel = [&](const tile::Kernel& kernel, std::span<void* const> buffers,
                             std::span<const int64_t> scalars, int64_t count) {
      Result<double> seconds = time_kernel(kernel, buffers, scalars, count);
      if (!seconds.is_ok()) return seconds.status();
      total += *seconds;
      return Status::ok();
    };
    program_ = &program;
    for (const Fallback& fallback : program.fallbacks)
      std::fprintf(stderr, "%s: %s\n", test.name, fallback.sentence.c_str());
    Result<std::vector<OwnedTensor>> outputs = run_program(program, graph, refs, {}, options);
    if (!outputs.is_ok()) return outputs.status();
    for (double speed : speeds_) best_speed_ = std::max(best_speed_, speed);
    double speed = std::getenv("TW_BENCH_BEST") ? best_speed_ : middle(speeds_);
    double work = test.flops > 0 ? test.flops : test.bytes;
    return Times{total, work / speed};
  }

 private:
  Result<double> time_kernel(const tile::Kernel& kernel, std::span<void* const> buffers,
                             std::span<const int64_t> scalars, int64_t count) {
    double start = now();
    Result<EmittedKernel> emitted = emit_kernel(kernel, target_->info().limits, {});
    if (!emitted.is_ok()) return emitted.status();
    double emit_seconds = now() - start;
    EmittedKernel code = std::move(emitted).value();
    CompileOptions options;
    options.ir_passes = std::getenv("TW_BENCH_NO_PASSES") ? IrPasses::None : IrPasses::Lean;
    std::string assembly, llvm;
    const char* folder = std::getenv("TW_BENCH_DUMP");
    if (folder) {
      options.asm_text = &assembly;
      options.llvm_text = &llvm;
    }
    start = cpu_seconds();
    TW_ASSIGN_OR_RETURN(std::string object, target_->compile(std::move(code.module), options));
    double compile_seconds = cpu_seconds() - start;
    if (folder) dump(folder, kernel, assembly, llvm);
    TW_ASSIGN_OR_RETURN(auto loaded, target_->load(object, std::vector<std::string>{code.entry}));
    auto function = reinterpret_cast<KernelFunction>(loaded->symbol(code.entry));
    std::unique_ptr<void, decltype(&std::free)> scratch(
        std::aligned_alloc(64, static_cast<size_t>((code.scratch_bytes + 127) / 64 * 64)), &std::free);
    std::vector<double> times;
    double spent = 0;
    while (times.size() < 5 || (spent < budget_ && times.size() < 1000)) {
      speeds_.push_back(probe_ ? probe_->measure() : measure_fma_flops(target_->info().limits.vector_bytes));
      start = now();
      function(buffers.data(), scalars.data(), 0, count, scratch.get());
      times.push_back(now() - start);
      spent += times.back();
    }
    double median =
        std::getenv("TW_BENCH_BEST") ? *std::min_element(times.begin(), times.end()) : middle(times);
    if (std::getenv("TW_BENCH_KERNELS")) {
      std::printf(
          "  kernel %s: %.3f ms, %lld instances, emit %.1f ms, compile %.1f ms, object %zu, scratch %lld\n",
          kernel.name.c_str(), median * 1e3, static_cast<long long>(count), emit_seconds * 1e3,
          compile_seconds * 1e3, object.size(), static_cast<long long>(code.scratch_bytes));
    }
    return median;
  }

  // What the program says about a kernel, and the rates it reaches.
  std::string work_of(const tile::Kernel& kernel, double seconds) const {
    for (const KernelEntry& entry : program_->kernels) {
      if (&entry.kernel != &kernel) continue;
      return cat("; ", static_cast<int64_t>(static_cast<double>(entry.flops) / seconds / 1e9), " GFLOP/s, ",
                 static_cast<int64_t>(static_cast<double>(entry.bytes) / seconds / 1e9), " GB/s, ",
                 entry.description);
    }
    return {};
  }

  static double middle(std::vector<double> values) {
    auto at = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), at, values.end());
    return *at;
  }

  static void dump(const std::string& folder, const tile::Kernel& kernel, const std::string& assembly,
                   const std::string& llvm) {
    std::string text = tile::print(kernel);
    for (auto& [suffix, content] :
         {std::pair<const char*, const std::string&>{".s", assembly}, {".ll", llvm}, {".tw", text}}) {
      if (FILE* file = std::fopen(cat(folder, "/", kernel.name, suffix).c_str(), "w")) {
        std::fwrite(content.data(), 1, content.size(), file);
        std::fclose(file);
      }
    }
  }

  std::shared_ptr<Target> target_;
  const Case& test_;
  const Program* program_ = nullptr;
  std::unique_ptr<CopyProbe> probe_;
  std::vector<double> speeds_;
  double best_speed_ = 0;
  double budget_ = std::getenv("TW_BENCH_SECONDS") ? std::atof(std::getenv("TW_BENCH_SECONDS")) : 0.3;
};

std::string read_file(const char* path) {
  std::string text;
  if (FILE* file = std::fopen(path, "r")) {
    char buffer[4096];
    for (size_t got; (got = std::fread(buffer, 1, sizeof buffer, file)) > 0;) text.append(buffer, got);
    std::fclose(file);
  }
  return text;
}

int run_suite(int count, char** words) {
  const char* spelling = std::getenv("TILEWRIGHT_TARGET");
  Result<std::shared_ptr<Target>> target = create_target(spelling ? spelling : "native");
  if (!target.is_ok()) {
    std::fprintf(stderr, "%s\n", target.status().to_string().c_str());
    return 1;
  }
  int failures = 0;
  std::vector<Case> cases = all_cases();
  if (count == 3 && std::string(words[1]) == "--graph") {
    cases = {Case{words[2], 1, 0, read_file(words[2])}};
    count = 1;
  }
  for (const Case& test : cases) {
    bool wanted = count <= 1;
    for (int i = 1; i < count; ++i) wanted |= std::string(test.name).find(words[i]) != std::string::npos;
    if (!wanted) continue;
    Result<Runner::Times> times = Runner(target.value(), test).run();
    if (!times.is_ok()) {
      std::fprintf(stderr, "%s: %s\n", test.name, times.status().to_string().c_str());
      ++failures;
      continue;
    }
    JsonWriter json;
    json.begin_object().key("suite").value("tile").key("case").value(test.name).key("ours").value(
        times->ours);
    json.key("peer").value(times->limit).key("peer_name").value(test.flops > 0 ? "multiply-adds" : "copy");
    json.key("ratio")
        .value(times->limit / times->ours)
        .key("limit_pct")
        .value(100 * times->limit / times->ours);
    json.end_object();
    std::printf("%s\n", json.text().c_str());
    std::fflush(stdout);
  }
  std::vector<std::string> wanted(words + std::min(count, 1), words + count);
  if (cases.size() > 1) failures += run_programs(*target.value(), wanted);
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tilewright::bench

int main(int count, char** words) { return tilewright::bench::run_suite(count, words); }
