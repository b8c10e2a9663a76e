// The cache through whole sessions: whatever happens to its directory, runs are right, nothing fails, and the
// report says so once.
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/capi/support.h"

using namespace capi_test;
namespace fs = std::filesystem;

namespace {

constexpr const char* kGraph = R"(graph @cached(%x: f32[3,4], %w: f32[4,2]) -> (f32[3,2]) {
  %0 = dot_general %x, %w {lhs_contract=[1], rhs_contract=[0]} : f32[3,2]
  %1 = tanh %0 : f32[3,2]
  return %1
}
)";

std::atomic<int> warnings{0};

class CacheFaults : public testing::Test {
 protected:
  CacheFaults() {
    char name[] = "/tmp/tilewright_faults_XXXXXX";
    folder_ = mkdtemp(name);
    warnings = 0;
    tw_set_log(
        [](void*, int32_t, const char* component, const char*, int64_t) {
          if (std::string(component) == "cache") ++warnings;
        },
        nullptr);
  }
  ~CacheFaults() override {
    tw_set_log(nullptr, nullptr);
    std::error_code error;
    fs::permissions(folder_, fs::perms::owner_all, error);
    fs::remove_all(folder_, error);
  }

  struct Outcome {
    std::vector<float> values;
    std::string report;         // of the session
    std::string kernel_report;  // of the executable
  };

  // A fresh session compiles and runs.
  Outcome use(const char* mode = "rw") {
    Outcome outcome;
    const tw::Session session(
        {{"mode", "sync"}, {"cache", mode}, {"cache_dir", folder_.c_str()}, {"log", "warn"}});
    const tw::Executable run = session.compile(tw::Graph::parse(kGraph));
    const tw::Tensor x(std::vector<float>(12, 0.25f), {3, 4}), w(std::vector<float>(8, 0.5f), {4, 2});
    outcome.values = values(run({&x, &w})[0]);
    outcome.report = session.report();
    outcome.kernel_report = run.report();
    return outcome;
  }

  void expect_right(const Outcome& outcome) {
    ASSERT_EQ(outcome.values.size(), 6u);
    for (const float each : outcome.values) EXPECT_NEAR(each, 0.46211715726f, 1e-6f);
    EXPECT_NE(outcome.kernel_report.find("\"fallbacks\":[]"), std::string::npos) << outcome.kernel_report;
  }

  static int64_t number(const std::string& report, const std::string& key) {
    const size_t at = report.find("\"" + key + "\":");
    EXPECT_NE(at, std::string::npos) << report;
    return at == std::string::npos ? -1 : std::atoll(report.c_str() + at + key.size() + 3);
  }

  std::vector<fs::path> entries() const {
    std::vector<fs::path> found;
    for (const auto& item : fs::recursive_directory_iterator(folder_))
      if (item.is_regular_file() && item.path().filename() != "identity") found.push_back(item.path());
    return found;
  }

  std::string folder_;
};

TEST_F(CacheFaults, CheckModeComparesWhatItCompiles) {
  expect_right(use());
  ASSERT_GE(entries().size(), 2u);  // the image and a kernel
  const Outcome same = use("check");
  expect_right(same);
  EXPECT_EQ(number(same.report, "faults"), 0) << "the same kernel compiled to other bytes";
  EXPECT_EQ(number(same.report, "kernel_hits_disk"), 0);
  EXPECT_EQ(number(same.report, "graph_hits_disk"), 0);
  EXPECT_EQ(warnings, 0);
}

TEST_F(CacheFaults, DamagedEntriesAreMissesAndRepaired) {
  using Damage = void (*)(const fs::path&);
  const Damage damages[] = {
      [](const fs::path& file) { fs::resize_file(file, fs::file_size(file) / 2); },
      [](const fs::path& file) { fs::resize_file(file, 0); },
      [](const fs::path& file) { fs::resize_file(file, fs::file_size(file) + 100); },
      [](const fs::path& file) {
        std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
        const auto middle = static_cast<std::streamoff>(fs::file_size(file) / 2);
        stream.seekg(middle);
        const char byte = static_cast<char>(stream.get() ^ 1);
        stream.seekp(middle);
        stream.put(byte);
      },
      [](const fs::path& file) {  // the version is in the header
        std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
        stream.seekp(8);
        stream.put(static_cast<char>(0x7f));
      },
      [](const fs::path& file) {
        std::ofstream(file, std::ios::binary | std::ios::trunc) << "not an entry at all";
      },
  };
  for (const Damage damage : damages) {
    expect_right(use());
    warnings = 0;
    for (const fs::path& file : entries()) damage(file);
    const Outcome hurt = use();
    expect_right(hurt);
    EXPECT_GE(number(hurt.report, "faults"), 1);
    EXPECT_EQ(number(hurt.report, "graph_hits_disk"), 0);
    EXPECT_GE(warnings, 1);
    EXPECT_LE(warnings, 3);  // once a kind of fault
    const Outcome healed = use();
    expect_right(healed);
    EXPECT_EQ(number(healed.report, "graph_hits_disk"), 1);
    EXPECT_EQ(number(healed.report, "faults"), 0);
  }
}

TEST_F(CacheFaults, ClocksMayBeWrong) {
  expect_right(use());
  for (const int hours : {-24 * 365 * 30, 24 * 365 * 30}) {
    for (const fs::path& file : entries())
      fs::last_write_time(file, fs::file_time_type::clock::now() + std::chrono::hours(hours));
    const Outcome outcome = use();
    expect_right(outcome);
    EXPECT_EQ(number(outcome.report, "graph_hits_disk"), 1);
    EXPECT_EQ(number(outcome.report, "faults"), 0);
  }
}

TEST_F(CacheFaults, ReadOnlyDirectoryStillServes) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  expect_right(use());
  for (const auto& item : fs::recursive_directory_iterator(folder_))
    if (item.is_directory()) fs::permissions(item.path(), fs::perms::owner_read | fs::perms::owner_exec);
  const Outcome outcome = use();
  expect_right(outcome);
  EXPECT_EQ(number(outcome.report, "graph_hits_disk"), 1);
}

// In a child: limits are for a whole process.
template <class Body>
int in_child(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

TEST_F(CacheFaults, FullDiskIsSaidOnceAndHarmless) {
  const int status = in_child([&] {
    rlimit limit{256, 256};
    setrlimit(RLIMIT_FSIZE, &limit);
    const Outcome outcome = use();
    expect_right(outcome);
    EXPECT_GE(number(outcome.report, "faults"), 1);
    EXPECT_EQ(warnings, 1);
    EXPECT_NE(outcome.report.find("cannot write"), std::string::npos) << outcome.report;
  });
  EXPECT_EQ(status, 0);
  const Outcome after = use();
  expect_right(after);
  EXPECT_EQ(number(after.report, "faults"), 0);  // nothing half-written was left
}

TEST_F(CacheFaults, KilledWhilePublishing) {
  for (int round = 0; round < 12; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      for (int turn = 0;; ++turn) {
        std::error_code error;
        for (const auto& item : fs::recursive_directory_iterator(folder_, error))
          if (item.is_regular_file(error)) fs::remove(item.path(), error);
        use();
      }
    }
    usleep(static_cast<useconds_t>(3000 + 7000 * round));
    kill(child, SIGKILL);
    int status;
    waitpid(child, &status, 0);
    const Outcome outcome = use();
    expect_right(outcome);
    EXPECT_EQ(number(outcome.report, "faults"), 0);
  }
}

TEST_F(CacheFaults, DirectoryVanishesInMidRun) {
  const tw::Session session(
      {{"mode", "sync"}, {"cache", "rw"}, {"cache_dir", folder_.c_str()}, {"log", "warn"}});
  const tw::Tensor x(std::vector<float>(12, 0.25f), {3, 4}), w(std::vector<float>(8, 0.5f), {4, 2});
  const tw::Executable first = session.compile(tw::Graph::parse(kGraph));
  fs::remove_all(folder_);
  std::string other = kGraph;
  other.replace(other.find("tanh"), 4, "sqrt");
  const tw::Executable second = session.compile(tw::Graph::parse(other));
  EXPECT_NEAR(values(first({&x, &w})[0])[0], 0.46211715726f, 1e-6f);
  EXPECT_NEAR(values(second({&x, &w})[0])[0], 0.70710678f, 1e-6f);
}

TEST_F(CacheFaults, ProcessesAndThreadsWriteAtOnce) {
  std::vector<pid_t> children;
  for (int worker = 0; worker < 4; ++worker) {
    const pid_t child = fork();
    if (child == 0) {
      for (int turn = 0; turn < 5; ++turn) {
        const Outcome outcome = use();
        for (const float each : outcome.values)
          if (std::abs(each - 0.46211715726f) > 1e-6f) _exit(1);
      }
      _exit(0);
    }
    children.push_back(child);
  }
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int worker = 0; worker < 3; ++worker)
    threads.emplace_back([&] {
      for (const float each : use().values)
        if (std::abs(each - 0.46211715726f) > 1e-6f) ++wrong;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  for (const pid_t child : children) {
    int status = 1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  const Outcome after = use();
  expect_right(after);
  EXPECT_EQ(number(after.report, "graph_hits_disk"), 1);
  EXPECT_EQ(number(after.report, "faults"), 0);
}

}  // namespace
