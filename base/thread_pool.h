// ThreadPool: own workers that share one loop at a time; fork and join cost a few hundred nanoseconds while
// they are hot.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/function_ref.h"

namespace tilewright {

// Thread-safe. Two callers at once: the second runs its loop alone, so no call ever waits for another. A call
// from inside a body runs alone as well. Workers start at the first loop that needs them, and start again in
// a forked child. They run with the default float environment and all signals blocked.
class ThreadPool {
 public:
  // body(begin, end, worker): the range [begin, end) is at most max_chunk long. `worker` is in [0,
  // thread_count()) and no two bodies that run at the same time for one call have the same: it selects
  // scratch.
  using Body = FunctionRef<void(int64_t begin, int64_t end, int worker)>;

  explicit ThreadPool(int threads);  // including the caller; at least 1
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int thread_count() const { return thread_count_; }

  // Calls the body for ranges that cover [0, count) once each, in no order; returns when all are done. Ranges
  // are handed out as threads ask for them. max_chunk of 0 or less means no bound.
  void parallel_for(int64_t count, int64_t max_chunk, Body body);

  // True on a thread that is inside a body of any pool.
  static bool inside_body();

 private:
  struct WorkerStart;

  static void* worker_main(void* start);
  void worker_loop(int worker, uint32_t generation);
  bool join_open_job();
  void run_chunks(int worker);
  void run_alone(int64_t count, int64_t max_chunk, Body body, int worker);
  void start_workers();
  void wake_sleepers(int64_t wanted);
  void wait_for_job(uint32_t seen, uint32_t generation);
  void wait_until_left();
  void forget_workers_after_fork();
  static void register_fork_handlers();
  static void before_fork();
  static void after_fork_in_parent();
  static void after_fork_in_child();

  const int thread_count_;
  std::vector<pthread_t> workers_;  // started ones; only touched while busy_ is held
  std::atomic<bool> busy_{false};   // a loop is being shared
  std::atomic<bool> started_{false};
  std::atomic<bool> stopping_{false};
  std::atomic<uint32_t> generation_{0};  // counts forks: a worker of an older one is gone
  ThreadPool* next_pool_ = nullptr;      // registry for the fork handlers
  ThreadPool* previous_pool_ = nullptr;

  // The job: written while the state is closed and nobody is inside.
  const Body* body_ = nullptr;
  int64_t count_ = 0;
  int64_t chunk_ = 0;

  alignas(64) std::atomic<int64_t> next_{0};      // first index not handed out
  alignas(64) std::atomic<uint32_t> state_{0};    // Open and Waiting bits, number of workers inside
  alignas(64) std::atomic<uint32_t> epoch_{0};    // counts jobs; workers spin and sleep on it
  alignas(64) std::atomic<int32_t> sleepers_{0};  // workers asleep on epoch_
  alignas(64) std::atomic<uint32_t> left_{0};     // the caller sleeps on it for the last worker to leave
};

}  // namespace tilewright
