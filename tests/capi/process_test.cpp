// The library inside a host's process: threads, forks, float environment, memory, options, logs.
#include <dlfcn.h>
#include <fenv.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "tests/capi/support.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace capi_test {
namespace {

class Process : public BothModes {};
BOTH_MODES(Process);

const char* const kGraph = R"(graph @work[N in 1..64 hint 8](%x: f32[N,17], %w: f32[17,5]) -> (f32[N,5]) {
  %0 = dot_general %x, %w {lhs_contract=[1], rhs_contract=[0]} : f32[N,5]
  %1 = tanh %0 : f32[N,5]
  %2 = softmax %1 {dim=1} : f32[N,5]
  return %2
}
)";

tw::Tensor counting(tw::Sizes sizes) {
  tw::Tensor tensor(tw::f32, std::move(sizes));
  for (int64_t at = 0; at < tensor.elements(); ++at)
    tensor.data<float>()[at] = 0.01f * static_cast<float>(at % 31);
  return tensor;
}

TEST_P(Process, ManyThreadsCompileAndRun) {
  const tw::Tensor w = counting({17, 5});
  const tw::Executable shared = compile(kGraph);
  const tw::Tensor x = counting({8, 17});
  const std::vector<float> expected = values(shared({&x, &w})[0]);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int worker = 0; worker < 8; ++worker) {
    threads.emplace_back([&, worker] {
      try {
        const tw::Executable own = session.compile(tw::Graph::parse(kGraph));
        for (int turn = 0; turn < 20; ++turn) {
          const tw::Tensor mine = counting({1 + (turn + worker) % 8, 17});
          const std::vector<float> a = values(own({&mine, &w})[0]), b = values(shared({&mine, &w})[0]);
          if (a != b || !std::equal(a.begin(), a.end(), expected.begin())) ++wrong;
        }
      } catch (const std::exception&) {
        ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_P(Process, AForkedChildGoesOn) {
  const tw::Tensor w = counting({17, 5}), x = counting({64, 17});
  const tw::Executable run = compile(kGraph);
  const std::vector<float> expected = values(run({&x, &w})[0]);
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    bool good = values(run({&x, &w})[0]) == expected;
    const tw::Executable fresh = session.compile(tw::Graph::parse(kGraph));
    good = good && values(fresh({&x, &w})[0]) == expected;
    _exit(good ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(values(run({&x, &w})[0]), expected);
}

TEST_P(Process, HostStateIsLeftAlone) {
  const tw::Tensor w = counting({17, 5}), x = counting({3, 17});
  const tw::Executable run = compile(kGraph);
  const std::vector<float> expected = values(run({&x, &w})[0]);
  fesetround(FE_UPWARD);
  errno = 1234;
  const std::vector<float> found = values(run({&x, &w})[0]);
  const tw::Executable again = compile(kGraph);
  EXPECT_EQ(fegetround(), FE_UPWARD);
  EXPECT_EQ(errno, 1234);
  fesetround(FE_TONEAREST);
  errno = 0;
  EXPECT_EQ(found, expected);  // computed with the default rounding all the same
}

// What reading, folding and gradients make of numbers, printed.
std::string read_numbers() {
  const tw::Graph graph = tw::Graph::parse(R"(graph @numbers(%x: f32[2]) -> (f32[2]) {
  %0 = constant {value=0.1} : f32[2]
  %1 = constant {value=1e-40} : f32[2]
  %2 = constant {value=[0.3,1e-42]} : f16[2]
  %3 = add %x, %0 : f32[2]
  %4 = multiply %3, %1 : f32[2]
  return %4
}
)");
  return graph.text();
}

TEST(HostFloats, TextsMeanTheSameInEveryEnvironment) {
  const std::string expected = read_numbers();
  EXPECT_NE(expected.find("1e-40"), std::string::npos) << expected;
  for (int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    fesetround(mode);
    const std::string found = read_numbers();
    EXPECT_EQ(fegetround(), mode);
    fesetround(FE_TONEAREST);
    EXPECT_EQ(found, expected) << "rounding mode " << mode;
  }
#if defined(__x86_64__)
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);  // flush to zero, denormals are zero
  const std::string flushed = read_numbers();
  EXPECT_EQ(_mm_getcsr() & 0x8040u, 0x8040u);
  _mm_setcsr(before);
  EXPECT_EQ(flushed, expected);
  feclearexcept(FE_ALL_EXCEPT);
  feenableexcept(FE_ALL_EXCEPT);
  const std::string trapped = read_numbers();  // an inexact number would end the process
  EXPECT_EQ(fegetexcept(), FE_ALL_EXCEPT);
  fedisableexcept(FE_ALL_EXCEPT);
  EXPECT_EQ(trapped, expected);
#endif
}

int64_t resident_kilobytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word)
    if (word == "VmRSS:") {
      int64_t kilobytes;
      status >> kilobytes;
      return kilobytes;
    }
  return 0;
}

TEST_P(Process, MemoryStaysFlat) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers keep freed memory";
#endif
  const tw::Tensor w = counting({17, 5});
  const tw::Executable run = compile(kGraph);
  const auto work = [&](int runs, int compiles) {
    for (int turn = 0; turn < runs; ++turn) {
      const tw::Tensor x = counting({1 + turn % 64, 17});
      run({&x, &w});
    }
    for (int turn = 0; turn < compiles; ++turn) compile(kGraph);
  };
  work(300, 30);
  const int64_t before = resident_kilobytes();
  work(5000, 100);
  EXPECT_LT(resident_kilobytes() - before, 8 * 1024);
}

TEST_P(Process, HostServices) {
  struct Host {
    std::atomic<int> allocations{0}, frees{0}, loops{0}, asked{0};
    std::atomic<bool> stop{false};
  } host;
  tw_host_services services = {};
  services.header.struct_size = sizeof services;
  services.header.kind = TW_EXTENSION_HOST_SERVICES;
  services.context = &host;
  services.allocate = [](void* context, int64_t bytes, int64_t alignment) -> void* {
    ++static_cast<Host*>(context)->allocations;
    return std::aligned_alloc(static_cast<size_t>(alignment),
                              static_cast<size_t>((bytes + alignment - 1) / alignment * alignment));
  };
  services.deallocate = [](void* context, void* memory, int64_t) {
    ++static_cast<Host*>(context)->frees;
    std::free(memory);
  };
  services.parallel_for = [](void* context, int64_t count, int64_t,
                             void (*body)(void*, int64_t, int64_t, int32_t), void* inner) {
    ++static_cast<Host*>(context)->loops;
    for (int64_t at = count; at-- > 0;) body(inner, at, at + 1, static_cast<int32_t>(at % 2));
  };
  services.thread_count = 2;
  services.should_abort = [](void* context) -> int32_t {
    ++static_cast<Host*>(context)->asked;
    return static_cast<Host*>(context)->stop;
  };
  {
    const tw::Session local({{"mode", GetParam()}, {"cache", "off"}}, &services);
    const tw::Executable run =
        local.compile(tw::Graph::parse("graph @big(%x: f32[300000]) -> (f32[300000]) {\n  %0 = exponential "
                                       "%x : f32[300000]\n  return %0\n}\n"));
    const tw::Tensor x(tw::f32, {300000});
    EXPECT_EQ(run({&x})[0].data<float>()[299999], 1);
    EXPECT_GT(host.allocations, 0);
    EXPECT_GT(host.asked, 0);
    if (std::string(GetParam()) == "sync") {
      EXPECT_GT(host.loops, 0);
    }
    host.stop = true;
    try {
      run({&x});
      FAIL() << "the host's wish was ignored";
    } catch (const tw::Error& error) {
      EXPECT_EQ(error.code(), TW_CANCELLED);
    }
  }
  EXPECT_EQ(host.allocations, host.frees);
  services.thread_count = 0;
  tw_session_info info = {sizeof info, &services.header};
  tw_session* made;
  expect_code(tw_session_create(nullptr, &info, &made), TW_INVALID_ARGUMENT, "thread_count is 0");
}

TEST(Options, ValuesAndWhereTheyComeFrom) {
  setenv("TILEWRIGHT_THREADS", "1", 1);
  tw_options* options;
  ASSERT_OK(tw_options_create(&options));
  const char* value;
  int32_t origin;
  ASSERT_OK(tw_options_get(options, "threads", &value, &origin));
  EXPECT_STREQ(value, "1");
  EXPECT_EQ(origin, TW_ORIGIN_ENVIRONMENT);
  ASSERT_OK(tw_options_set(options, "TILEWRIGHT_THREADS", "2"));
  ASSERT_OK(tw_options_get(options, "TILEWRIGHT_THREADS", &value, &origin));
  EXPECT_STREQ(value, "2");
  EXPECT_EQ(origin, TW_ORIGIN_API);
  expect_code(tw_options_set(options, "mode", "turbo"), TW_INVALID_ARGUMENT, "turbo");
  expect_code(tw_options_set(options, "no_such_thing", "1"), TW_NOT_FOUND, "no_such_thing");
  expect_code(tw_options_get(options, "no_such_thing", &value, &origin), TW_NOT_FOUND, "no_such_thing");
  tw_session* session;
  ASSERT_OK(tw_session_create(options, nullptr, &session));
  ASSERT_OK(tw_session_option(session, "threads", &value, &origin));
  EXPECT_STREQ(value, "2");
  tw_session_release(session);
  ASSERT_OK(tw_options_set(options, "target", "sparc-v9"));
  expect_code(tw_session_create(options, nullptr, &session), TW_INVALID_ARGUMENT, "sparc-v9");
  EXPECT_EQ(session, nullptr);
  tw_options_release(options);
  setenv("TILEWRIGHT_THREADS", "many", 1);
  expect_code(tw_options_create(&options), TW_INVALID_ARGUMENT, "TILEWRIGHT_THREADS");
  unsetenv("TILEWRIGHT_THREADS");
  EXPECT_GT(tw_option_count(), 10);
  expect_code(tw_option_describe(-1, nullptr), TW_INVALID_ARGUMENT, "info is null");
}

TEST(Options, OfOneCompile) {
  const tw::Session session = session_for("sync");
  const tw::Graph graph = tw::Graph::parse(kGraph);
  const std::string report = session.compile(graph, {{"mode", "eager"}}).report();
  EXPECT_NE(report.find("\"mode\":\"eager\""), std::string::npos) << report;
  EXPECT_THROW(session.compile(graph, {{"cache_dir", "/tmp"}}), tw::Error);
  EXPECT_THROW(session.compile(graph, {{"nonsense", "1"}}), tw::Error);
}

TEST(CompileJobs, CanBeWaitedForAndCancelled) {
  const tw::Session session = session_for("sync");
  const tw::Graph graph = tw::Graph::parse(kGraph);
  tw_compile_job* job;
  ASSERT_OK(tw_compile_start(session.get(), graph.get(), nullptr, &job));
  tw_executable *first = nullptr, *second = nullptr;
  EXPECT_OK(tw_compile_wait(job, -1, &first));
  EXPECT_OK(tw_compile_wait(job, 0, &second));
  EXPECT_NE(first, nullptr);
  tw_executable_release(first);
  tw_executable_release(second);
  tw_compile_job_release(job);
  // Cancelled at once: the outcome is either that or, if it was quicker, the executable.
  ASSERT_OK(tw_compile_start(session.get(), graph.get(), nullptr, &job));
  tw_compile_cancel(job);
  tw_status* status = tw_compile_wait(job, -1, &first);
  EXPECT_TRUE(tw_status_code(status) == TW_CANCELLED || first != nullptr) << tw_status_text(status);
  tw_status_release(status);
  tw_executable_release(first);
  tw_compile_job_release(job);
  // Released while it runs.
  ASSERT_OK(tw_compile_start(session.get(), graph.get(), nullptr, &job));
  tw_compile_job_release(job);
}

TEST(Log, GoesToTheHost) {
  static std::atomic<int> lines{0};
  tw_set_log(
      [](void* context, int32_t, const char* component, const char*, int64_t size) {
        EXPECT_EQ(context, &lines);
        EXPECT_NE(component, nullptr);
        EXPECT_GT(size, 0);
        ++lines;
      },
      &lines);
  {
    const tw::Session session({{"log", "info"}, {"cache", "off"}});
  }
  EXPECT_GT(lines, 0);
  tw_set_log(nullptr, nullptr);
  const int before = lines;
  {
    const tw::Session session({{"log", "warn"}, {"cache", "off"}});
  }
  EXPECT_EQ(lines, before);
}

TEST(Cache, CountsHitsAndMisses) {
  char folder[] = "/tmp/tilewright_capi_XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const auto stats = [&](tw_cache_stats* counters) {
    const tw::Session session({{"mode", "sync"}, {"cache", "rw"}, {"cache_dir", folder}});
    session.compile(tw::Graph::parse(kGraph));
    counters->struct_size = sizeof *counters;
    ASSERT_OK(tw_session_cache_stats(session.get(), counters));
  };
  tw_cache_stats cold = {}, warm = {};
  stats(&cold);
  stats(&warm);
  EXPECT_EQ(cold.graph_hits_disk + cold.graph_hits_memory, 0);
  EXPECT_EQ(cold.graph_misses, 1);
  EXPECT_GT(cold.bytes_written, 0);
  EXPECT_EQ(warm.graph_hits_disk, 1);
  EXPECT_EQ(warm.kernel_misses, 0);
  EXPECT_EQ(warm.bytes_written, 0);
  std::system((std::string("rm -rf ") + folder).c_str());
  // A directory that cannot be is a reason, not a failure.
  const tw::Session session({{"mode", "sync"}, {"cache_dir", "/proc/no/such/place"}, {"log", "off"}});
  session.compile(tw::Graph::parse(kGraph));
  tw_text *directory, *reason;
  ASSERT_OK(tw_session_cache_directory(session.get(), &directory, &reason));
  tw_text_release(directory);
  EXPECT_NE(tw::take(reason), "");
}

TEST(Library, LoadsByHandToo) {
  // The host that dlopens looks up one symbol.
  void* library = dlopen(nullptr, RTLD_NOW);
  ASSERT_NE(library, nullptr);
  EXPECT_NE(dlsym(library, "tw_get_api"), nullptr);
  dlclose(library);
  int32_t major = -1, minor = -1;
  tw_api_version(&major, &minor);
  EXPECT_EQ(major, TW_API_MAJOR);
  EXPECT_EQ(minor, TW_API_MINOR);
  tw_api_version(nullptr, nullptr);
  EXPECT_STRNE(tw_version(), "");
  EXPECT_STRNE(tw_build_id(), "");
  EXPECT_NE(tw::targets().find("\"null\""), std::string::npos);
}

}  // namespace
}  // namespace capi_test
