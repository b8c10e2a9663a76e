// What the library calls back may call the library; what the system refuses does not end the host.
#include <dlfcn.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>

#include "tests/capi/support.h"

namespace {
std::atomic<int> threads_left{1 << 30};
}

// Stands before the system's for the whole program, so that a test can say how many threads there are.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*),
                              void* argument) {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const Create real = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  if (threads_left.fetch_sub(1) <= 0) return EAGAIN;
  return real(thread, attributes, body, argument);
}

namespace capi_test {
namespace {

// A call that waits for a lock of its own thread ends the program instead of the test run.
class WithinSeconds {
 public:
  WithinSeconds() { alarm(120); }
  ~WithinSeconds() { alarm(0); }
};

const char* const kTanh = "graph @f(%x: f32[4]) -> (f32[4]) {\n  %0 = tanh %x\n  return %0\n}\n";

struct Owned {
  DLManagedTensorVersioned tensor = {};
  std::vector<float> values;
  int64_t size = 0;
  std::function<void()> on_delete;

  explicit Owned(std::vector<float> from)
      : values(std::move(from)), size(static_cast<int64_t>(values.size())) {
    tensor.version = {1, 0};
    tensor.manager_ctx = this;
    tensor.deleter = [](DLManagedTensorVersioned* self) {
      auto* owner = static_cast<Owned*>(self->manager_ctx);
      if (owner->on_delete) owner->on_delete();
    };
    tensor.dl_tensor.data = values.data();
    tensor.dl_tensor.device = {kDLCPU, 0};
    tensor.dl_tensor.ndim = 1;
    tensor.dl_tensor.dtype = {kDLFloat, 32, 1};
    tensor.dl_tensor.shape = &size;
  }
};

class Reentry : public BothModes {};
BOTH_MODES(Reentry);

TEST_P(Reentry, DeleterOfAReplacedTensorRunsTheExecutable) {
  const WithinSeconds limit;
  Owned first({1, 2, 3, 4}), second({5, 6, 7, 8});
  std::vector<float> seen;
  {
    tw::Executable executable =
        compile("graph @f(%x: f32[4], %w: f32[4] frozen) -> (f32[4]) {\n  %0 = add %x, %w\n  return %0\n}\n");
    const tw::Tensor x = floats({0, 0, 0, 0}, {4});
    first.on_delete = [&] { seen = values(executable({&x, nullptr})[0]); };
    executable.bind(1, &first.tensor);
    executable.bind(1, &second.tensor);
    EXPECT_EQ(seen, second.values);
  }
}

// Asks the session for its report from inside the log callback.
struct Listener {
  tw_session* session = nullptr;
  std::atomic<int> calls{0};
  bool is_inside = false;

  static void hear(void* context, int32_t, const char*, const char*, int64_t) {
    auto* self = static_cast<Listener*>(context);
    if (self->is_inside || !self->session) return;
    self->is_inside = true;
    tw_text* report = nullptr;
    if (tw_status* status = tw_session_report(self->session, &report)) tw_status_release(status);
    tw_text_release(report);
    self->calls += 1;
    self->is_inside = false;
  }
};

void compile_with_listener(const std::filesystem::path& folder, const std::function<void()>& before_compile) {
  const WithinSeconds limit;
  Listener listener;
  tw::Session session({{"mode", "sync"}, {"cache", "rw"}, {"cache_dir", folder.c_str()}});
  listener.session = session.get();
  before_compile();
  tw_set_log(Listener::hear, &listener);
  const tw::Executable executable = session.compile(tw::Graph::parse(kTanh));
  const tw::Tensor x = floats({0, 0, 0, 0}, {4});
  EXPECT_EQ(values(executable({&x})[0]), (std::vector<float>{0, 0, 0, 0}));
  tw_set_log(nullptr, nullptr);
  EXPECT_GE(listener.calls, 1);
  std::filesystem::remove_all(folder);
}

std::filesystem::path fresh_folder(const char* name) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / (std::string(name) + std::to_string(getpid()));
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

TEST(ReentryOfLog, WhileTheCacheIsRefused) {
  const std::filesystem::path folder = fresh_folder("tw_refused_");
  compile_with_listener(folder, [&] { chmod(folder.c_str(), 0777); });
}

TEST(ReentryOfLog, WhileACacheWriteFails) {
  const std::filesystem::path folder = fresh_folder("tw_unwritable_");
  {
    // Made once, so that the folder of temporary files is there to be replaced by a file.
    tw::Session session({{"mode", "sync"}, {"cache", "rw"}, {"cache_dir", folder.c_str()}});
    (void)session.compile(
        tw::Graph::parse("graph @g(%x: f32[4]) -> (f32[4]) {\n  %0 = abs %x\n  return %0\n}\n"));
  }
  compile_with_listener(folder, [&] {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      std::filesystem::remove_all(entry.path() / "tmp");
      std::ofstream(entry.path() / "tmp") << "not a folder";
    }
  });
}

TEST_P(Reentry, FewerThreadsThanAskedFor) {
  for (int left = 0; left < 4; ++left) {
    threads_left = left;
    std::vector<float> found;
    std::string problem;
    try {
      tw::Session own({{"mode", GetParam()}, {"cache", "off"}, {"threads", "4"}, {"compile_threads", "4"}});
      const tw::Executable executable = own.compile(tw::Graph::parse(
          "graph @f(%x: f32[4096], %y: f32[8,8]) -> (f32[4096], f32[8]) {\n  %0 = negate %x\n"
          "  %1 = reduce_sum %y {dims=[1]}\n  return %0, %1\n}\n"));
      const tw::Tensor x = floats(std::vector<float>(4096, 2), {4096}),
                       y = floats(std::vector<float>(64, 1), {8, 8});
      found = values(executable({&x, &y})[1]);
    } catch (const std::exception& error) {
      problem = error.what();
    }
    threads_left = 1 << 30;
    EXPECT_EQ(problem, "") << left << " threads left";
    EXPECT_EQ(found, std::vector<float>(8, 8)) << left << " threads left";
  }
}

TEST(Fork, ChildIsToldThatItsJobRunsElsewhere) {
  const WithinSeconds limit;
  tw::Session session = session_for("sync");
  const tw::Graph graph = tw::Graph::parse(kTanh);
  tw_compile_job* job = nullptr;
  ASSERT_OK(tw_compile_start(session.get(), graph.get(), nullptr, &job));
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    tw_executable* executable = nullptr;
    tw_status* status = tw_compile_wait(job, -1, &executable);
    _exit(tw_status_code(status) == TW_ABORTED ? 0 : 1);
  }
  int outcome = -1;
  waitpid(child, &outcome, 0);
  EXPECT_TRUE(WIFEXITED(outcome) && WEXITSTATUS(outcome) == 0) << outcome;
  tw_executable* executable = nullptr;
  EXPECT_OK(tw_compile_wait(job, -1, &executable));
  tw_executable_release(executable);
  tw_compile_job_release(job);
}

TEST_P(Reentry, OutputsThatOverlapThemselvesAreRefused) {
  const tw::Executable executable =
      compile("graph @f(%x: f32[2,2]) -> (f32[2,2]) {\n  %0 = negate %x\n  return %0\n}\n");
  const tw::Tensor x = floats({1, 2, 3, 4}, {2, 2});
  float memory[8] = {};
  int64_t shape[2] = {2, 2};
  const auto run = [&](int64_t outer, int64_t inner) {
    int64_t strides[2] = {outer, inner};
    DLTensor out = {};
    out.data = memory;
    out.device = {kDLCPU, 0};
    out.ndim = 2;
    out.dtype = {kDLFloat, 32, 1};
    out.shape = shape;
    out.strides = strides;
    const DLTensor* in[] = {x.get()};
    const DLTensor* given[] = {&out};
    DLManagedTensorVersioned* asked[1] = {};
    return tw_run(executable.get(), in, 1, given, asked, 1, nullptr);
  };
  for (const auto& [outer, inner] : {std::pair{1, 1}, {0, 1}, {1, 0}, {0, 0}})
    expect_code(run(outer, inner), TW_INVALID_ARGUMENT, "distinct elements");
  for (const auto& [outer, inner] : {std::pair{2, 1}, {1, 2}, {4, 1}, {3, 2}}) EXPECT_OK(run(outer, inner));
}

}  // namespace
}  // namespace capi_test
