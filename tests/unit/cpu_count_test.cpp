// CPU counting over made-up cgroup trees.
#include "base/cpu_count.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace tilewright {
namespace {

class CgroupTest : public testing::Test {
 protected:
  void SetUp() override { root_ = testing::TempDir() + "tilewright_cgroup_test." + std::to_string(getpid()); }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  int cpus() { return cgroup_cpus(root_ + "/proc", root_ + "/cgroup"); }
  std::string root_;
};

TEST_F(CgroupTest, NoFilesNoLimit) { EXPECT_EQ(cpus(), 0); }

TEST_F(CgroupTest, Version2TakesTheTightestAncestorRoundedUp) {
  write("/proc/self/cgroup", "0::/a/b\n");
  write("/cgroup/a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(cpus(), 0);
  write("/cgroup/a/cpu.max", "150000 100000\n");
  EXPECT_EQ(cpus(), 2);
  write("/cgroup/cpu.max", "100000 100000\n");
  EXPECT_EQ(cpus(), 1);
}

TEST_F(CgroupTest, PathOfAnotherNamespaceFallsBackToTheRoot) {
  write("/proc/self/cgroup", "0::/docker/0123\n");
  write("/cgroup/cpu.max", "400000 100000\n");
  EXPECT_EQ(cpus(), 4);
}

TEST_F(CgroupTest, Version1) {
  write("/proc/self/cgroup", "5:memory:/x\n4:cpu,cpuacct:/job\n");
  write("/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "250000\n");
  write("/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  write("/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  write("/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cpus(), 3);
}

TEST_F(CgroupTest, RubbishIsNoLimit) {
  write("/proc/self/cgroup", "0::/\nrubbish\n::\n");
  write("/cgroup/cpu.max", "many\n");
  EXPECT_EQ(cpus(), 0);
}

TEST(CpuCount, RequestOnlyLowers) {
  int available = available_cpus();
  EXPECT_GE(available, 1);
  EXPECT_LE(available, affinity_cpus());
  EXPECT_EQ(choose_thread_count(0), available);
  EXPECT_EQ(choose_thread_count(1), 1);
  EXPECT_EQ(choose_thread_count(1 << 20), available);
}

}  // namespace
}  // namespace tilewright
