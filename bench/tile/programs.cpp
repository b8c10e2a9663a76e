// Reads, compiles and times the programs; the limit is measured in turns with them.
#include "bench/tile/programs.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <random>
#include <sstream>

#include "base/cpu_count.h"
#include "base/json.h"
#include "base/text.h"
#include "base/thread_pool.h"
#include "bench/support/machine_limits.h"
#include "codegen/emit/emit.h"
#include "codegen/tile/interpreter.h"

namespace tilewright::bench {
namespace {

struct ProgramCase {
  const char* name;
  double flops;  // that the result needs; 0: bound by memory
};

// A causal score is needed for half of all pairs; two products of 128 each.
constexpr ProgramCase kPrograms[] = {
    {"product_gelu", 2.0 * 512 * 3072 * 768},
    {"layer_norm_backward", 0},
    {"attention_forward", 2.0 * 2 * 8 * 128 * 2048 * 2049 / 2},
};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double middle(std::vector<double> values) {
  auto at = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

void write_file(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

// A program with its code and buffers.
class Loaded {
 public:
  Status load(const Target& target, const std::string& name) {
    std::string path = cat("tests/tile/programs/", name, ".tw");
    std::ifstream file(path);
    if (!file) return Status::invalid(cat("no file ", path, ": run from the root of the repository"));
    std::stringstream text;
    text << file.rdbuf();
    TW_ASSIGN_OR_RETURN(tile::Kernel kernel, tile::parse_kernel(text.str()));
    Result<EmittedKernel> emitted = emit_kernel(kernel, target.info().limits, {});
    if (!emitted.is_ok()) return emitted.status();
    EmittedKernel code = std::move(emitted).value();
    scratch_bytes_ = (code.scratch_bytes + 127) / 64 * 64;
    CompileOptions options;
    options.ir_passes = IrPasses::Lean;
    std::string assembly;
    const char* folder = std::getenv("TW_BENCH_DUMP");
    if (folder) options.asm_text = &assembly;
    double start = now();
    TW_ASSIGN_OR_RETURN(std::string object, target.compile(std::move(code.module), options));
    if (std::getenv("TW_BENCH_KERNELS"))
      std::printf("  program %s: compile %.1f ms, object %zu, scratch %lld\n", name.c_str(),
                  (now() - start) * 1e3, object.size(), static_cast<long long>(scratch_bytes_));
    if (folder) write_file(cat(folder, "/", name, ".s"), assembly);
    TW_ASSIGN_OR_RETURN(code_, target.load(object, std::vector<std::string>{code.entry}));
    function_ = reinterpret_cast<KernelFunction>(code_->symbol(code.entry));
    if (folder)
      write_file(cat(folder, "/", name, ".address"), cat(reinterpret_cast<uintptr_t>(function_), "\n"));
    TW_ASSIGN_OR_RETURN(instances_, tile::grid_size(kernel, {}));
    std::mt19937 random(1);
    for (const tile::Param& param : kernel.params) {
      int64_t elements = 1;
      for (const Dim& size : param.dims) elements *= size.constant();
      bytes_ += static_cast<double>(elements * dtype_bytes(param.dtype));
      buffers_.emplace_back(elements * dtype_bytes(param.dtype), Pages::Large);
      auto* data = reinterpret_cast<float*>(buffers_.back().data());
      for (int64_t i = 0; i < elements; ++i) data[i] = static_cast<float>(random()) / 4294967296.0f - 0.5f;
      pointers_.push_back(data);
    }
    return Status::ok();
  }

  void run(ThreadPool& pool) {
    size_t threads = static_cast<size_t>(pool.thread_count());
    while (scratch_.size() < threads) scratch_.emplace_back(scratch_bytes_, Pages::Usual);
    pool.parallel_for(instances_, 0, [&](int64_t begin, int64_t end, int worker) {
      function_(pointers_.data(), nullptr, begin, end, scratch_[static_cast<size_t>(worker)].data());
    });
  }
  double bytes() const { return bytes_; }

 private:
  std::shared_ptr<const LoadedCode> code_;
  KernelFunction function_ = nullptr;
  int64_t scratch_bytes_ = 0, instances_ = 0;
  double bytes_ = 0;  // of all buffers
  std::vector<Area> buffers_;
  std::vector<void*> pointers_;
  std::vector<Area> scratch_;
};

void measure(const ProgramCase& test, Loaded& program, CopyProbe* copy, int64_t vector_bytes,
             ThreadPool& pool) {
  std::vector<double> times, speeds;
  double spent = 0;
  while (times.size() < 7 || (spent < 0.5 && times.size() < 1000)) {
    speeds.push_back(copy ? copy->measure(pool) : measure_fma_flops(vector_bytes, pool));
    double start = now();
    program.run(pool);
    times.push_back(now() - start);
    spent += times.back();
  }
  double ours = middle(times), limit = (copy ? program.bytes() : test.flops) / middle(speeds);
  JsonWriter json;
  json.begin_object().key("suite").value("tile");
  json.key("case").value(cat("program_", test.name, "_threads_", pool.thread_count()));
  json.key("ours").value(ours).key("peer").value(limit);
  json.key("peer_name").value(copy ? "copy" : "multiply-adds").key("ratio").value(limit / ours);
  json.key("limit_pct").value(100 * limit / ours).end_object();
  std::printf("%s\n", json.text().c_str());
  std::fflush(stdout);
}

}  // namespace

int run_programs(const Target& target, const std::vector<std::string>& words) {
  int failures = 0;
  ThreadPool one(1), all(available_cpus());
  for (const ProgramCase& test : kPrograms) {
    bool wanted = words.empty();
    for (const std::string& word : words)
      wanted |= std::string("program_").append(test.name).find(word) != std::string::npos;
    if (!wanted) continue;
    Loaded program;
    Status loaded = program.load(target, test.name);
    if (!loaded.is_ok()) {
      std::fprintf(stderr, "%s: %s\n", test.name, loaded.to_string().c_str());
      ++failures;
      continue;
    }
    std::unique_ptr<CopyProbe> copy;
    if (test.flops == 0)
      copy = std::make_unique<CopyProbe>(static_cast<int64_t>(program.bytes() / 2), Pages::Large);
    measure(test, program, copy.get(), target.info().limits.vector_bytes, one);
    if (all.thread_count() > 1) measure(test, program, copy.get(), target.info().limits.vector_bytes, all);
  }
  return failures;
}

}  // namespace tilewright::bench
