// f32 matrix products through the whole runtime beside OpenBLAS, interleaved in one process; one JSON line a
// case.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "base/text.h"
#include "bench/support/machine_limits.h"
#include "ir/text.h"
#include "runtime/compile.h"
#include "runtime/session.h"

namespace tilewright::bench {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

// OpenBLAS picks an old kernel on chips that it does not know: tell it what the chip has.
void choose_openblas_core() {
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")) {
    setenv("OPENBLAS_CORETYPE", "SkylakeX", 1);
  } else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    setenv("OPENBLAS_CORETYPE", "Haswell", 1);
  }
}

struct OpenBlas {
  using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int, float,
                         float*, int);
  Sgemm sgemm = nullptr;
  const char* core = "none";
  void set_threads(int count) {
    if (set_threads_) set_threads_(count);
  }
  OpenBlas() {
    choose_openblas_core();
    void* library = nullptr;
    for (const char* name : {"libopenblas.so.0", "libopenblas.so"}) {
      if (!library) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
    if (!library) return;
    sgemm = reinterpret_cast<Sgemm>(dlsym(library, "cblas_sgemm"));
    set_threads_ = reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads"));
    auto name = reinterpret_cast<char* (*)()>(dlsym(library, "openblas_get_corename"));
    if (name) core = name();
  }

 private:
  void (*set_threads_)(int) = nullptr;
};

struct Case {
  int m, n, k;
  bool transpose_b;
};

struct Ours {
  std::shared_ptr<Session> session;
  std::shared_ptr<Executable> executable;
};

Result<Ours> make_ours(const Case& c, int threads) {
  Flags flags;
  TW_RETURN_IF_ERROR(flags.set("threads", cat(threads)));
  TW_RETURN_IF_ERROR(flags.set("cache", "off"));
  TW_ASSIGN_OR_RETURN(std::shared_ptr<Session> session, Session::create(std::move(flags)));
  std::string b = c.transpose_b ? cat("f32[", c.n, ",", c.k, "]") : cat("f32[", c.k, ",", c.n, "]");
  std::string out = cat("f32[", c.m, ",", c.n, "]");
  TW_ASSIGN_OR_RETURN(Graph graph,
                      parse_graph(cat("graph @gemm(%a: f32[", c.m, ",", c.k, "], %b: ", b, ") -> (", out,
                                      ") {\n  %c = dot_general %a, %b {lhs_contract=[1], rhs_contract=[",
                                      c.transpose_b ? 1 : 0, "]} : ", out, "\n  return %c\n}\n")));
  TW_ASSIGN_OR_RETURN(std::shared_ptr<Executable> executable, compile(session, std::move(graph), {}));
  return Ours{session, executable};
}

TensorView view_of(std::vector<float>& data, std::vector<int64_t>& sizes) {
  TensorView view;
  view.dtype = DType::F32;
  view.rank = static_cast<int>(sizes.size());
  view.sizes = sizes.data();
  view.data = data.data();
  return view;
}

Status run_case(const Case& c, int threads, OpenBlas& blas, double peak) {
  TW_ASSIGN_OR_RETURN(Ours ours, make_ours(c, threads));
  blas.set_threads(threads);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  auto fill = [&](size_t count) {
    std::vector<float> values(count);
    for (float& value : values) value = normal(random);
    return values;
  };
  size_t m = static_cast<size_t>(c.m), n = static_cast<size_t>(c.n), k = static_cast<size_t>(c.k);
  std::vector<float> a = fill(m * k), b = fill(k * n), got(m * n), wanted(m * n);
  std::vector<int64_t> a_sizes{c.m, c.k}, b_sizes{c.k, c.n}, c_sizes{c.m, c.n};
  if (c.transpose_b) b_sizes = {c.n, c.k};
  TensorView av = view_of(a, a_sizes), bv = view_of(b, b_sizes), cv = view_of(got, c_sizes);
  const TensorView* inputs[] = {&av, &bv};
  const TensorView* outputs[] = {&cv};
  std::vector<AskedTensor> asked(1);
  RunRequest request;
  request.inputs = inputs;
  request.given = outputs;
  request.asked = asked;
  double flops = 2.0 * c.m * c.n * c.k;
  int repeat = static_cast<int>(std::clamp(2e8 / flops, 1.0, 1000.0));
  auto blas_once = [&] {
    // Row major 101, no transpose 111, transpose 112.
    blas.sgemm(101, 111, c.transpose_b ? 112 : 111, c.m, c.n, c.k, 1, a.data(), c.k, b.data(),
               c.transpose_b ? c.k : c.n, 0, wanted.data(), c.n);
  };
  std::vector<double> our_times, peer_times;
  for (int round = 0; round < 15; ++round) {
    double start = now();
    for (int i = 0; i < repeat; ++i) TW_RETURN_IF_ERROR(ours.executable->run(request));
    double middle = now();
    if (blas.sgemm) {
      for (int i = 0; i < repeat; ++i) blas_once();
    }
    double end = now();
    if (round == 0) continue;  // warm-up
    our_times.push_back((middle - start) / repeat);
    peer_times.push_back((end - middle) / repeat);
  }
  double error = 0;
  for (size_t i = 0; blas.sgemm && i < got.size(); ++i)
    error = std::max(error, static_cast<double>(std::abs(got[i] - wanted[i])));
  double bound = 1e-5 * c.k;
  if (error > bound)
    return Status::internal(cat("gemm ", c.m, "x", c.n, "x", c.k, " differs from OpenBLAS by ", error));
  double our_time = median(our_times), peer_time = median(peer_times);
  std::printf(
      "{\"suite\":\"gemm\",\"case\":\"f32 %dx%dx%d%s "
      "threads=%d\",\"ours\":%.6g,\"peer\":%.6g,\"peer_name\":\"OpenBLAS "
      "%s\",\"ratio\":%.3f,\"limit_pct\":%.1f,\"gflops\":%.1f,\"peer_gflops\":%.1f,\"precision\":\"strict\"}"
      "\n",
      c.m, c.n, c.k, c.transpose_b ? " b transposed" : "", threads, our_time, peer_time, blas.core,
      peer_time / our_time, 100 * flops / our_time / (peak * threads), flops / our_time / 1e9,
      flops / peer_time / 1e9);
  std::fflush(stdout);
  return Status::ok();
}

}  // namespace

int run() {
  OpenBlas blas;
  int cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  double peak = 0;
  for (int i = 0; i < 50; ++i)
    peak = std::max(peak, measure_fma_flops(__builtin_cpu_supports("avx512f") ? 64 : 32));
  for (int threads : {1, cores}) {
    for (const Case& c :
         {Case{64, 64, 64, false}, Case{256, 256, 256, false}, Case{1024, 1024, 1024, false},
          Case{1024, 1024, 1024, true}, Case{512, 3072, 768, false}, Case{16, 4096, 4096, false}}) {
      Status status = run_case(c, threads, blas, peak);
      if (!status.is_ok()) return std::fprintf(stderr, "bench_gemm: %s\n", status.to_string().c_str()), 1;
    }
  }
  return 0;
}

}  // namespace tilewright::bench

int main() { return tilewright::bench::run(); }
