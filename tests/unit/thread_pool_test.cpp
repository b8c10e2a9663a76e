// ThreadPool covers every index once, nests, survives fork and concurrent callers.
#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "base/float_environment.h"

namespace tilewright {
namespace {

// How often each index was visited, and whether every range kept its bounds.
bool covers_once(ThreadPool& pool, int64_t count, int64_t max_chunk) {
  std::vector<std::atomic<int>> visits(count);
  std::atomic<bool> in_bounds{true};
  pool.parallel_for(count, max_chunk, [&](int64_t begin, int64_t end, int worker) {
    if (begin >= end || end > count || worker < 0 || worker >= pool.thread_count()) in_bounds = false;
    if (max_chunk > 0 && end - begin > max_chunk) in_bounds = false;
    for (int64_t i = begin; i < end; ++i) ++visits[i];
  });
  for (auto& visit : visits)
    if (visit != 1) return false;
  return in_bounds;
}

TEST(ThreadPool, CoversEveryIndexOnce) {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (int64_t count : {0, 1, 2, 3, 7, 64, 1000, 4099})
      for (int64_t max_chunk : {0, 1, 3, 100000})
        EXPECT_TRUE(covers_once(pool, count, max_chunk)) << threads << ' ' << count;
  }
}

TEST(ThreadPool, WorkerIndexIsExclusive) {
  ThreadPool pool(4);
  std::atomic<int> inside[4] = {};
  std::atomic<bool> shared{false};
  for (int round = 0; round < 200; ++round)
    pool.parallel_for(64, 1, [&](int64_t, int64_t, int worker) {
      if (inside[worker].fetch_add(1) != 0) shared = true;
      inside[worker].fetch_sub(1);
    });
  EXPECT_FALSE(shared);
}

TEST(ThreadPool, NestedCallRunsInline) {
  ThreadPool pool(4);
  std::atomic<int64_t> sum{0};
  EXPECT_FALSE(ThreadPool::inside_body());
  pool.parallel_for(16, 1, [&](int64_t, int64_t, int outer) {
    EXPECT_TRUE(ThreadPool::inside_body());
    auto thread = std::this_thread::get_id();
    pool.parallel_for(10, 3, [&](int64_t begin, int64_t end, int inner) {
      EXPECT_EQ(std::this_thread::get_id(), thread);
      EXPECT_EQ(inner, outer);
      sum += end - begin;
    });
  });
  EXPECT_FALSE(ThreadPool::inside_body());
  EXPECT_EQ(sum, 160);
}

TEST(ThreadPool, ConcurrentCallersAllFinish) {
  ThreadPool pool(3);
  std::vector<std::thread> callers;
  std::atomic<int> failures{0};
  for (int i = 0; i < 4; ++i)
    callers.emplace_back([&] {
      for (int round = 0; round < 100; ++round)
        if (!covers_once(pool, 97, 5)) ++failures;
    });
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(failures, 0);
}

TEST(ThreadPool, WakesSleepingWorkersAndWaitsForSlowOnes) {
  ThreadPool pool(2);
  for (int round = 0; round < 3; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::atomic<int> done{0};
    pool.parallel_for(2, 1, [&](int64_t, int64_t, int) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ++done;
    });
    EXPECT_EQ(done, 2);
  }
}

TEST(ThreadPool, WorksInForkedChild) {
  ThreadPool pool(3);
  ASSERT_TRUE(covers_once(pool, 1000, 1));
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    bool good = true;
    for (int round = 0; round < 20; ++round) good = good && covers_once(pool, 1000, 1);
    _exit(good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(covers_once(pool, 1000, 1));
}

TEST(ThreadPool, ForkWhileAnotherThreadIsInALoop) {
  ThreadPool pool(2);
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop) covers_once(pool, 1000, 1);
  });
  for (int i = 0; i < 5; ++i) {
    pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) _exit(covers_once(pool, 100, 1) ? 0 : 1);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  stop = true;
  busy.join();
}

TEST(ThreadPool, DestructionWithoutUse) { ThreadPool pool(8); }

#if defined(__x86_64__)
TEST(ThreadPool, WorkersIgnoreTheHostsFloatMode) {
  uint32_t host = _mm_getcsr();
  _mm_setcsr(host | 0x8040);  // flush to zero, denormals are zero
  ThreadPool pool(3);
  std::atomic<bool> flushed{false};
  pool.parallel_for(64, 1, [&](int64_t, int64_t, int worker) {
    if (worker != 0 && (_mm_getcsr() & 0x8040)) flushed = true;
  });
  {
    DefaultFloatEnvironment standard;
    EXPECT_EQ(_mm_getcsr() & 0x8040, 0u);
  }
  EXPECT_EQ(_mm_getcsr() & 0x8040, 0x8040u);
  _mm_setcsr(host);
  EXPECT_FALSE(flushed);
}
#endif

}  // namespace
}  // namespace tilewright
