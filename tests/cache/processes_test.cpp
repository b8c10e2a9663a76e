// Many threads and processes on one directory, some of them killed, some deleting: readers see whole entries
// or none.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "tests/cache/scratch.h"

namespace tilewright {
namespace {

class ProcessTest : public CacheTest {
 protected:
  // Bytes that say which key they belong to and differ in length by writer.
  static std::string content(int number, int writer) {
    std::string line = cat("entry ", number, " ");
    std::string out;
    for (int i = 0; i < 200 + 50 * writer; ++i) out += line;
    return out;
  }
  static bool is_whole(const std::string& bytes, int number) {
    for (int writer = 0; writer < 8; ++writer) {
      if (bytes == content(number, writer)) return true;
    }
    return false;
  }
  // Reads and writes 20 keys; exit status 0 unless a read gave something that nobody wrote.
  int hammer(int writer, int rounds) const {
    auto cache = open();
    for (int round = 0; round < rounds; ++round) {
      int number = (round * 7 + writer * 3) % 20;
      cache->drop_memory();
      std::optional<std::string> bytes = cache->get(CacheKind::Kernel, key(number));
      if (bytes && !is_whole(*bytes, number)) return 1;
      cache->put(CacheKind::Kernel, key(number), content(number, writer));
      bytes = cache->get(CacheKind::Kernel, key(number));
      if (!bytes || !is_whole(*bytes, number)) return 2;
    }
    CacheStats stats = cache->stats();
    for (CacheFault fault :
         {CacheFault::Torn, CacheFault::Corrupt, CacheFault::Foreign, CacheFault::WrongKey}) {
      if (stats.fault(fault) != 0) return 3;
    }
    return 0;
  }
  static int wait_for(pid_t child) {
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }
  template <class Body>
  static pid_t start(Body body) {
    pid_t child = fork();
    if (child == 0) _exit(body());
    return child;
  }
};

TEST_F(ProcessTest, ManyWriters) {
  std::vector<pid_t> children;
  for (int writer = 0; writer < 6; ++writer) children.push_back(start([&] { return hammer(writer, 150); }));
  for (pid_t child : children) EXPECT_EQ(wait_for(child), 0);
  auto cache = open();
  for (int number = 0; number < 20; ++number) {
    std::optional<std::string> bytes = cache->get(CacheKind::Kernel, key(number));
    ASSERT_TRUE(bytes.has_value());
    EXPECT_TRUE(is_whole(*bytes, number));
  }
  EXPECT_EQ(cache->stats().fault_total(), 0);
  EXPECT_EQ(temporary_count(*cache), 0u);
}

TEST_F(ProcessTest, DeletionUnderWriters) {
  std::vector<pid_t> children;
  for (int writer = 0; writer < 3; ++writer) children.push_back(start([&] { return hammer(writer, 150); }));
  for (int round = 0; round < 60; ++round) {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
    usleep(2000);
  }
  for (pid_t child : children) EXPECT_EQ(wait_for(child), 0);
}

TEST_F(ProcessTest, KilledWritersLeaveNothingBroken) {
  for (int round = 0; round < 40; ++round) {
    pid_t child = start([&] { return hammer(round % 6, 1 << 30); });
    usleep(1000 + 700 * (round % 13));
    kill(child, SIGKILL);
    EXPECT_EQ(wait_for(child), 1000 + SIGKILL);
    auto cache = open();
    for (int number = 0; number < 20; ++number) {
      std::optional<std::string> bytes = cache->get(CacheKind::Kernel, key(number));
      ASSERT_TRUE(!bytes || is_whole(*bytes, number));
    }
    ASSERT_EQ(cache->stats().fault_total(), 0);
  }
}

TEST_F(ProcessTest, ThreadsShareOneCache) {
  auto cache = open();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int writer = 0; writer < 4; ++writer) {
    threads.emplace_back([&, writer] {
      for (int round = 0; round < 200; ++round) {
        int number = (round + writer) % 20;
        if (round % 3 == 0) cache->put(CacheKind::Kernel, key(number), content(number, writer));
        if (round % 17 == 0) cache->drop_memory();
        std::optional<std::string> bytes = cache->get(CacheKind::Kernel, key(number));
        if (bytes && !is_whole(*bytes, number)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  CacheStats stats = cache->stats();
  EXPECT_EQ(stats.memory_hits + stats.disk_hits + stats.misses, 800);
  EXPECT_EQ(stats.fault_total(), 0);
}

TEST_F(ProcessTest, ForkedChildUsesTheParentsCache) {
  auto cache = open();
  cache->put(CacheKind::Kernel, key(1), "from the parent");
  // Other threads are inside the cache while we fork: their locks must not matter to the child.
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      while (!stop) cache->get(CacheKind::Kernel, key(1));
    });
  }
  for (int round = 0; round < 20; ++round) {
    pid_t child = start([&] {
      alarm(20);
      if (cache->get(CacheKind::Kernel, key(1)) != "from the parent") return 1;
      cache->put(CacheKind::Kernel, key(2), "from the child");
      return cache->stats().writes == 1 ? 0 : 2;
    });
    EXPECT_EQ(wait_for(child), 0);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(cache->get(CacheKind::Kernel, key(2)), "from the child");
}

}  // namespace
}  // namespace tilewright
