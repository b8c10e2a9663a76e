// Plans, compiles and launches one graph a case on device memory; products are checked at random places.
#include "bench/gpu/gemm.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <random>

#include "base/json.h"
#include "base/text.h"
#include "codegen/emit/emit.h"
#include "codegen/program.h"
#include "ir/reference/scalar.h"
#include "ir/text.h"

namespace tilewright::bench {
namespace {

struct Case {
  std::string name, graph;
  double flops = 0;
  int64_t m = 0, n = 0, k = 0;  // a product to check; 0: none
  bool lhs_transposed = false, rhs_transposed = false;
};

Case product(const char* dtype, int64_t m, int64_t n, int64_t k, bool lhs = false, bool rhs = false) {
  Case out;
  out.name = cat("gemm_", dtype, "_", m, "x", n, "x", k, lhs ? "_t" : "_n", rhs ? "t" : "n");
  std::string x = lhs ? cat(k, ",", m) : cat(m, ",", k), w = rhs ? cat(n, ",", k) : cat(k, ",", n);
  out.graph = cat("graph @f(%x: ", dtype, "[", x, "], %w: ", dtype, "[", w, "]) -> (", dtype, "[", m, ",", n,
                  "]) {\n  %0 = dot_general %x, %w {lhs_contract=[", lhs ? 0 : 1, "], rhs_contract=[",
                  rhs ? 1 : 0, "]} : ", dtype, "[", m, ",", n, "]\n  return %0\n}\n");
  out.flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  out.m = m, out.n = n, out.k = k, out.lhs_transposed = lhs, out.rhs_transposed = rhs;
  return out;
}

Case batched(const char* dtype, int64_t b, int64_t m, int64_t n, int64_t k) {
  Case out;
  out.name = cat("gemm_", dtype, "_", b, "x", m, "x", n, "x", k);
  out.graph = cat("graph @f(%x: ", dtype, "[", b, ",", m, ",", k, "], %w: ", dtype, "[", b, ",", k, ",", n,
                  "]) -> (", dtype, "[", b, ",", m, ",", n,
                  "]) {\n  %0 = dot_general %x, %w {lhs_contract=[2], rhs_contract=[1], lhs_batch=[0], "
                  "rhs_batch=[0]} : ",
                  dtype, "[", b, ",", m, ",", n, "]\n  return %0\n}\n");
  out.flops = 2.0 * static_cast<double>(b * m) * static_cast<double>(n) * static_cast<double>(k);
  return out;
}

Case attention(const char* dtype, int64_t heads, int64_t length, int64_t width, bool causal) {
  Case out;
  out.name = cat("attention_", dtype, "_h", heads, "_s", length, "_d", width, causal ? "_causal" : "");
  std::string shape = cat(dtype, "[1,", heads, ",", length, ",", width, "]");
  out.graph = cat("graph @f(%q: ", shape, ", %k: ", shape, ", %v: ", shape, ") -> (", shape,
                  ") {\n  %0, %1, %2 = attention %q, %k, %v {causal=", causal ? "true" : "false",
                  "} : ", shape, ", f32[1,", heads, ",", length, "], u64[2]\n  return %0\n}\n");
  out.flops =
      4.0 * static_cast<double>(heads * length) * static_cast<double>(length * width) * (causal ? 0.5 : 1);
  return out;
}

std::vector<Case> cases(bool small) {
  if (small) {
    return {product("bf16", 128, 256, 192), product("bf16", 17, 127, 100), product("f32", 128, 128, 64),
            product("bf16", 65, 64, 64, true, true), batched("bf16", 2, 64, 64, 64)};
  }
  std::vector<Case> list;
  for (int64_t size : {1024, 2048, 4096, 8192}) list.push_back(product("bf16", size, size, size));
  list.push_back(product("bf16", 4096, 4096, 4096, false, true));
  list.push_back(product("bf16", 4096, 4096, 4096, true, false));
  list.push_back(product("bf16", 4096, 4096, 4096, true, true));
  list.push_back(product("f16", 4096, 4096, 4096));
  list.push_back(product("bf16", 4096, 14336, 4096));
  for (int64_t m : {1, 16, 17, 127}) list.push_back(product("bf16", m, 4096, 4096));
  list.push_back(product("bf16", 4097, 4097, 4097));
  list.push_back(batched("bf16", 64, 512, 512, 512));
  list.push_back(product("f32", 4096, 4096, 4096));
  list.push_back(product("f32", 4096, 4096, 4096, false, true));
  list.push_back(product("f64", 2048, 2048, 2048));
  for (bool causal : {true, false}) list.push_back(attention("bf16", 16, 4096, 128, causal));
  list.push_back(attention("bf16", 16, 4096, 64, true));
  return list;
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// One kernel of a program, ready to launch.
struct Ready {
  std::shared_ptr<const LoadedCode> code;
  LaunchRequest request;
  std::vector<void*> buffers;
  std::vector<int64_t> scalars;
};

class Runner {
 public:
  explicit Runner(const GemmOptions& options) : options_(options), target_(*options.target) {}
  ~Runner() { release(); }

  Status run(const Case& each) {
    release();
    TW_ASSIGN_OR_RETURN(Graph graph, parse_graph(each.graph));
    TW_ASSIGN_OR_RETURN(program_, plan_program(graph, target_.info().limits, {}));
    TW_RETURN_IF_ERROR(compile(each));
    if (!options_.assembly.empty()) return Status::ok();
    TW_RETURN_IF_ERROR(prepare());
    TW_RETURN_IF_ERROR(launch(1));
    double error = -1;
    if (each.m > 0) {
      TW_ASSIGN_OR_RETURN(error, check(each));
    }
    double seconds = 0;
    if (!options_.small) {
      TW_RETURN_IF_ERROR(launch(3));
      int count = 2;
      for (double spent = 0; spent < 0.15 && count < 4000;) {  // until the clock says something
        count = spent > 0 ? static_cast<int>(count * std::clamp(0.2 / spent, 2.0, 50.0)) : count;
        double start = now();
        TW_RETURN_IF_ERROR(launch(count));
        spent = now() - start;
        seconds = spent / count;
      }
    }
    JsonWriter line;
    line.begin_object().field("name", each.name).field("microseconds", seconds * 1e6);
    line.field("tflops", seconds > 0 ? each.flops / seconds * 1e-12 : 0.0).field("error", error);
    std::printf("%s\n", std::move(line.end_object()).text().c_str());
    std::fflush(stdout);
    return Status::ok();
  }

 private:
  Status compile(const Case& each) {
    ready_.clear();
    for (const Launch& launch : program_.launches) {
      if (launch.kind != LaunchKind::Kernel) return Status::invalid(cat(each.name, ": more than kernels"));
      const tile::Kernel& kernel = program_.kernels[static_cast<size_t>(launch.kernel)].kernel;
      TW_ASSIGN_OR_RETURN(EmittedKernel code, emit_kernel(kernel, target_.info().limits, {}));
      CompileOptions compile;
      compile.ir_passes = IrPasses::Lean;
      TW_ASSIGN_OR_RETURN(std::string object, target_.compile(std::move(code.module), compile));
      if (!options_.assembly.empty()) {
        std::string path = cat(options_.assembly, "/", each.name, "_", ready_.size(), ".ptx");
        FILE* file = std::fopen(path.c_str(), "w");
        if (!file) return Status::invalid(cat("cannot write ", path));
        std::fwrite(object.data(), 1, object.find_last_not_of('\0') + 1, file);
        std::fclose(file);
        std::printf("{\"name\":\"%s\",\"threads\":%d,\"shared\":%lld,\"scratch\":%lld}\n", path.c_str(),
                    code.threads_per_block, static_cast<long long>(code.shared_bytes),
                    static_cast<long long>(code.scratch_bytes));
        ready_.emplace_back();
        continue;
      }
      Ready next;
      TW_ASSIGN_OR_RETURN(next.code, target_.load(object, std::vector<std::string>{code.entry}));
      next.request.entry = next.code->symbol(code.entry);
      next.request.name = each.name;
      next.request.threads_per_block = code.threads_per_block;
      next.request.shared_bytes = code.shared_bytes;
      next.request.grid = 1;
      for (const Dim& size : kernel.grid) {
        TW_ASSIGN_OR_RETURN(int64_t count, size.evaluate({}));
        next.request.grid *= count;
      }
      if (code.scratch_bytes > 0) {
        TW_ASSIGN_OR_RETURN(next.request.scratch,
                            allocate(static_cast<size_t>(code.scratch_bytes * next.request.grid)));
      }
      for (const Dim& scalar : launch.scalars) {
        TW_ASSIGN_OR_RETURN(int64_t value, scalar.evaluate({}));
        next.scalars.push_back(value);
      }
      ready_.push_back(std::move(next));
    }
    return Status::ok();
  }

  // Memory for all buffers, inputs with random values.
  Status prepare() {
    std::mt19937_64 random(1);
    std::uniform_real_distribution<float> real(-1, 1);
    device_.clear();
    host_.clear();
    for (const Buffer& buffer : program_.buffers) {
      int64_t count = 1;
      for (const Dim& size : buffer.type.shape) {
        TW_ASSIGN_OR_RETURN(int64_t each, size.evaluate({}));
        count *= each;
      }
      const size_t bytes = static_cast<size_t>(count * dtype_bytes(buffer.type.dtype));
      TW_ASSIGN_OR_RETURN(void* memory, allocate(bytes));
      device_.push_back(memory);
      host_.emplace_back(bytes);
      if (buffer.kind != BufferKind::Input) continue;
      for (int64_t i = 0; i < count; ++i) {
        store_scalar(Scalar::of_float(buffer.type.dtype, real(random)),
                     &host_.back()[static_cast<size_t>(i * dtype_bytes(buffer.type.dtype))]);
      }
      TW_RETURN_IF_ERROR(target_.copy(memory, host_.back().data(), bytes, CopyKind::HostToDevice, nullptr));
    }
    for (size_t i = 0; i < ready_.size(); ++i) {
      for (const BufferUse& use : program_.launches[i].buffers)
        ready_[i].buffers.push_back(device_[static_cast<size_t>(use.buffer.index)]);
      ready_[i].request.buffers = ready_[i].buffers;
      ready_[i].request.scalars = ready_[i].scalars;
    }
    return Status::ok();
  }

  Status launch(int count) {
    for (int i = 0; i < count; ++i) {
      for (const Ready& each : ready_) TW_RETURN_IF_ERROR(target_.launch(each.request));
    }
    return target_.synchronize(nullptr);
  }

  // Largest relative error at some places.
  Result<double> check(const Case& each) {
    size_t out = 0, x = 0, w = 0;
    for (size_t i = 0; i < program_.buffers.size(); ++i) {
      const Buffer& buffer = program_.buffers[i];
      if (buffer.kind == BufferKind::Output) out = i;
      if (buffer.kind == BufferKind::Input) (buffer.index == 0 ? x : w) = i;
    }
    TW_RETURN_IF_ERROR(
        target_.copy(host_[out].data(), device_[out], host_[out].size(), CopyKind::DeviceToHost, nullptr));
    const DType dtype = program_.buffers[out].type.dtype;
    auto at = [&](size_t buffer, int64_t index) {
      return load_scalar(dtype, &host_[buffer][static_cast<size_t>(index * dtype_bytes(dtype))]).f;
    };
    std::mt19937_64 random(2);
    double worst = 0;
    for (int i = 0; i < 500; ++i) {
      const int64_t row =
                        i == 0 ? each.m - 1 : static_cast<int64_t>(random() % static_cast<uint64_t>(each.m)),
                    column =
                        i < 2 ? each.n - 1 : static_cast<int64_t>(random() % static_cast<uint64_t>(each.n));
      double want = 0;
      for (int64_t k = 0; k < each.k; ++k) {
        want += at(x, each.lhs_transposed ? k * each.m + row : row * each.k + k) *
                at(w, each.rhs_transposed ? column * each.k + k : k * each.n + column);
      }
      const double error = std::fabs(at(out, row * each.n + column) - want) / (1 + std::fabs(want));
      if (!(error <= worst)) worst = error;
    }
    return worst;
  }

  Result<void*> allocate(size_t bytes) {
    TW_ASSIGN_OR_RETURN(void* memory, target_.allocate(std::max<size_t>(bytes, 16), 256));
    owned_.push_back(memory);
    return memory;
  }
  void release() {
    for (void* memory : owned_) target_.free(memory);
    owned_.clear();
  }

  const GemmOptions& options_;
  const Target& target_;
  Program program_;
  std::vector<Ready> ready_;
  std::vector<void*> owned_, device_;
  std::vector<std::vector<unsigned char>> host_;
};

}  // namespace

Status run_gemm(const GemmOptions& options) {
  Runner runner(options);
  for (const Case& each : cases(options.small)) {
    if (each.name.find(options.word) == std::string::npos) continue;
    Status done = runner.run(each);
    if (!done.is_ok()) {
      std::printf("{\"name\":\"%s\",\"error\":\"%s\"}\n", each.name.c_str(), done.to_string().c_str());
      std::fflush(stdout);
    }
  }
  return Status::ok();
}

}  // namespace tilewright::bench
