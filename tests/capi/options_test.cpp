// Options that change how a graph is compiled and watched: time limits, profiles, edited stages, perf maps.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/capi/support.h"

using namespace capi_test;
namespace fs = std::filesystem;

namespace {

constexpr const char* kGraph = R"(graph @watched(%x: f32[8,4], %w: f32[4,4]) -> (f32[8,4]) {
  %a = dot_general %x, %w {lhs_contract=[1], rhs_contract=[0]} : f32[8,4]
  %b = dot_general %a, %w {lhs_contract=[1], rhs_contract=[0]} : f32[8,4]
  %c = negate %b : f32[8,4]
  return %c
}
)";

class Watched : public testing::Test {
 protected:
  Watched() {
    char name[] = "/tmp/tilewright_options_XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~Watched() override { fs::remove_all(folder_); }

  tw::Session session(std::vector<std::pair<std::string, std::string>> more) {
    more.emplace_back("mode", "sync");
    more.emplace_back("log", "error");
    if (std::none_of(more.begin(), more.end(), [](const auto& each) { return each.first == "cache"; }))
      more.emplace_back("cache", "off");
    return tw::Session(more);
  }

  std::vector<float> run(const tw::Executable& executable) { return values(executable({&x_, &w_})[0]); }

  static std::string read(const std::string& path) {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }

  std::string folder_;
  const tw::Tensor x_{std::vector<float>(32, 1), {8, 4}}, w_{std::vector<float>(16, 0.5f), {4, 4}};
  const std::vector<float> expected_ = std::vector<float>(32, -4);
};

TEST_F(Watched, KernelsNotBegunInTimeAreInterpreted) {
  const tw::Session local =
      session({{"compile_timeout", "0.000000001"}, {"cache", "rw"}, {"cache_dir", folder_}});
  const tw::Executable late = local.compile(tw::Graph::parse(kGraph));
  EXPECT_EQ(run(late), expected_);
  EXPECT_NE(late.report().find("compile timeout of"), std::string::npos) << late.report();
  EXPECT_NE(late.report().find("\"reason\":\"compile_failed\""), std::string::npos);
  // It is no fault of the kernel's: with time, it is compiled.
  const tw::Executable again = local.compile(tw::Graph::parse(kGraph), {{"compile_timeout", "0"}});
  EXPECT_EQ(run(again), expected_);
  EXPECT_NE(again.report().find("\"fallbacks\":[]"), std::string::npos) << again.report();
  // Policy error: the caller wants to know.
  const std::string other = std::string(kGraph).replace(std::string(kGraph).find("negate"), 6, "abs");
  try {
    local.compile(tw::Graph::parse(other), {{"fallback", "error"}});
    FAIL() << "the fallback was silent";
  } catch (const tw::Error& error) {
    EXPECT_EQ(error.code(), TW_UNIMPLEMENTED);
  }
}

TEST_F(Watched, CancellingEndsACompileBetweenKernels) {
  const tw::Session local = session({{"compile_threads", "1"}});
  std::string text = "graph @long(%x: f32[4,4]) -> (f32[4,4]) {\n";
  std::string last = "%x";
  // Kernels that differ: each has to be compiled.
  for (int i = 0; i < 200; ++i) {
    const std::string n = std::to_string(i);
    text += "  %k" + n + " = constant {value=" + std::to_string(i + 2) + ".0} : f32[4,4]\n";
    text += "  %m" + n + " = multiply " + last + ", %k" + n + " : f32[4,4]\n";
    text += "  %d" + n + " = dot_general %m" + n + ", %x {lhs_contract=[1], rhs_contract=[0]} : f32[4,4]\n";
    last = "%d" + n;
  }
  text += "  return " + last + "\n}\n";
  const tw::Graph graph = tw::Graph::parse(text);
  tw_compile_job* job;
  ASSERT_OK(tw_compile_start(local.get(), graph.get(), nullptr, &job));
  tw_compile_cancel(job);
  tw_executable* made = nullptr;
  expect_code(tw_compile_wait(job, -1, &made), TW_CANCELLED, "cancelled");
  tw_compile_job_release(job);
}

TEST_F(Watched, ProfilesAreInTheReportAndInATrace) {
  const std::string trace = folder_ + "/trace.json";
  const tw::Session local = session({{"profile", trace}});
  const tw::Executable executable = local.compile(tw::Graph::parse(kGraph));
  for (int turn = 0; turn < 5; ++turn) EXPECT_EQ(run(executable), expected_);
  const std::string report = executable.report();
  const size_t profile = report.find("\"profile\":[");
  ASSERT_NE(profile, std::string::npos) << report;
  const std::string lines = report.substr(profile, report.find(']', profile) - profile);
  EXPECT_NE(lines.find("\"kind\":\"kernel\""), std::string::npos) << lines;
  EXPECT_NE(lines.find("\"runs\":5"), std::string::npos) << lines;
  EXPECT_NE(lines.find("\"gflop_per_second\":"), std::string::npos) << lines;
  EXPECT_EQ(lines.find("\"seconds\":0,"), std::string::npos) << lines;
  const std::string events = read(trace);
  EXPECT_EQ(events.rfind("[\n{\"name\":\"", 0), 0u) << events;
  EXPECT_EQ(std::count(events.begin(), events.end(), '\n'), 1 + 5 * 2) << events;
  // Off unless asked for.
  const tw::Session plain = session({});
  EXPECT_EQ(plain.compile(tw::Graph::parse(kGraph)).report().find("\"profile\""), std::string::npos);
}

TEST_F(Watched, AnEditedKernelIsUsedAndTheCheckNamesIt) {
  {
    const tw::Session local = session({{"dump", "tile,graph"}, {"dump_dir", folder_}});
    EXPECT_EQ(run(local.compile(tw::Graph::parse(kGraph))), expected_);
  }
  // Unchanged files change nothing.
  EXPECT_EQ(run(session({{"override_dir", folder_}}).compile(tw::Graph::parse(kGraph))), expected_);
  const std::string path = folder_ + "/watched.tile.txt";
  std::string text = read(path);
  const size_t at = text.find("negate");
  ASSERT_NE(at, std::string::npos) << text;
  const std::string kernel = text.substr(text.rfind("kernel @", at) + 7, 3);
  text.replace(at, 6, "abs");
  std::ofstream(path) << text;
  const tw::Session edited = session({{"override_dir", folder_}});
  EXPECT_EQ(run(edited.compile(tw::Graph::parse(kGraph))), std::vector<float>(32, 4));
  const tw::Executable checked = edited.compile(tw::Graph::parse(kGraph), {{"check", "1"}});
  try {
    run(checked);
    FAIL() << "the check let a wrong kernel pass";
  } catch (const tw::Error& error) {
    const std::string message = error.message();
    EXPECT_NE(message.find("kernel " + kernel), std::string::npos) << message;
    EXPECT_NE(message.find("negate %c"), std::string::npos) << message;
    EXPECT_NE(message.find("[0,0]: found 4"), std::string::npos) << message;
    EXPECT_NE(message.find("expected -4"), std::string::npos) << message;
  }
  // The next run of anybody without the directory is not touched by it.
  EXPECT_EQ(run(session({}).compile(tw::Graph::parse(kGraph))), expected_);
}

TEST_F(Watched, AnEditedGraphIsUsedAndCheckedForItsBoundary) {
  const std::string path = folder_ + "/watched.graph.txt";
  std::string text = kGraph;
  text.replace(text.find("negate"), 6, "abs");
  std::ofstream(path) << text;
  const tw::Session edited = session({{"override_dir", folder_}});
  EXPECT_EQ(run(edited.compile(tw::Graph::parse(kGraph))), std::vector<float>(32, 4));
  std::ofstream(path) << "graph @watched(%x: f32[8,4]) -> (f32[8,4]) {\n  return %x\n}\n";
  try {
    edited.compile(tw::Graph::parse(kGraph));
    FAIL() << "a graph of another boundary was taken";
  } catch (const tw::Error& error) {
    EXPECT_NE(std::string(error.what()).find("number of inputs"), std::string::npos) << error.what();
  }
  std::ofstream(path) << "no graph";
  EXPECT_THROW(edited.compile(tw::Graph::parse(kGraph)), tw::Error);
}

TEST_F(Watched, PerfIsToldAboutKernels) {
  const std::string path = "/tmp/perf-" + std::to_string(getpid()) + ".map";
  fs::remove(path);
  const tw::Session local = session({{"jit_debug", "perf"}});
  EXPECT_EQ(run(local.compile(tw::Graph::parse(kGraph))), expected_);
  const std::string map = read(path);
  EXPECT_NE(map.find(" tilewright::k"), std::string::npos) << map;
  fs::remove(path);
}

TEST_F(Watched, SessionsAndExecutablesLeaveNothingBehind) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers keep freed memory";
#endif
  const auto mappings = [] {
    std::ifstream file("/proc/self/maps");
    return static_cast<long>(std::count(std::istreambuf_iterator<char>(file), {}, '\n'));
  };
  const auto kilobytes = [] {
    std::ifstream file("/proc/self/statm");
    long total, resident;
    file >> total >> resident;
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
  };
  const auto work = [&](int count) {
    for (int turn = 0; turn < count; ++turn) {
      const tw::Session local = session({});
      run(local.compile(tw::Graph::parse(kGraph)));
    }
  };
  work(60);
  const long maps = mappings(), memory = kilobytes();
  work(240);
  EXPECT_LE(mappings(), maps + 8);
  EXPECT_LT(kilobytes() - memory, 6 * 1024);
}

}  // namespace
