// Log levels, lines to a file and to a host.
#include "base/log.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

namespace tilewright {
namespace {

class LogTest : public testing::Test {
 protected:
  void TearDown() override {
    set_log_sink(nullptr, nullptr);
    EXPECT_TRUE(configure_log({}).is_ok());
    unlink(path().c_str());
  }
  static std::string path() { return testing::TempDir() + "tilewright_log_test." + std::to_string(getpid()); }
  static std::string content() {
    std::ifstream file(path());
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
};

TEST_F(LogTest, LevelsByComponent) {
  ASSERT_TRUE(configure_log({"error,cache=debug", path()}).is_ok());
  EXPECT_TRUE(log_enabled(LogComponent::Cache, LogLevel::Debug));
  EXPECT_FALSE(log_enabled(LogComponent::Cache, LogLevel::Trace));
  EXPECT_FALSE(log_enabled(LogComponent::Runtime, LogLevel::Warn));
  EXPECT_TRUE(log_enabled(LogComponent::Runtime, LogLevel::Error));
  EXPECT_FALSE(configure_log({"chatty"}).is_ok());
}

TEST_F(LogTest, OffEvaluatesNothing) {
  ASSERT_TRUE(configure_log({"off", path()}).is_ok());
  int evaluated = 0;
  TW_LOG(Base, Error, ++evaluated);
  EXPECT_EQ(evaluated, 0);
  EXPECT_EQ(content(), "");
}

TEST_F(LogTest, TextAndJsonLines) {
  ASSERT_TRUE(configure_log({"info", path()}).is_ok());
  TW_LOG(Cache, Info, "hit ", 3, " of {} ", 1.5);
  EXPECT_NE(content().find("cache info: hit 3 of {} 1.5\n"), std::string::npos) << content();
  ASSERT_TRUE(configure_log({"info", path(), true}).is_ok());
  TW_LOG(Cache, Warn, "a \"quoted\"\nline");
  std::string line = content().substr(content().find('\n') + 1);
  EXPECT_EQ(line.front(), '{');
  EXPECT_NE(line.find(R"("component":"cache","level":"warn","message":"a \"quoted\"\nline"})"),
            std::string::npos)
      << line;
}

TEST_F(LogTest, OnceAPlace) {
  ASSERT_TRUE(configure_log({"info", path()}).is_ok());
  for (int i = 0; i < 5; ++i) TW_LOG_ONCE(Base, Warn, "round ", i);
  EXPECT_NE(content().find("round 0"), std::string::npos);
  EXPECT_EQ(content().find("round 1"), std::string::npos);
}

TEST_F(LogTest, HostTakesLines) {
  std::vector<std::string> lines;
  set_log_sink(
      [](void* context, LogComponent component, LogLevel, std::string_view message) {
        static_cast<std::vector<std::string>*>(context)->push_back(
            cat(log_component_name(component), ":", message));
      },
      &lines);
  TW_LOG(Codegen, Error, "x");
  EXPECT_EQ(lines, std::vector<std::string>{"codegen:x"});
}

TEST_F(LogTest, UnwritableFileIsNoFailure) {
  testing::internal::CaptureStderr();
  EXPECT_TRUE(configure_log({"warn", "/proc/no/such/file"}).is_ok());
  EXPECT_NE(testing::internal::GetCapturedStderr().find("cannot log to /proc/no/such/file"),
            std::string::npos);
}

TEST_F(LogTest, ForkedChildCanLog) {
  ASSERT_TRUE(configure_log({"info", path()}).is_ok());
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop) TW_LOG(Base, Info, "parent");
  });
  for (int i = 0; i < 10; ++i) {
    pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      TW_LOG(Base, Info, "child");
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  stop = true;
  busy.join();
}

}  // namespace
}  // namespace tilewright
