// ThreadPool: one shared loop at a time; late workers miss a job instead of delaying it.
#include "base/thread_pool.h"

#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <memory>
#include <mutex>

#include "base/float_environment.h"

namespace tilewright {
namespace {

// Bits of ThreadPool::state_. A worker may enter only while Open; the owner sets Waiting before it sleeps for
// the last one.
constexpr uint32_t Open = 1u << 31;
constexpr uint32_t Waiting = 1u << 30;
constexpr uint32_t InsideMask = Waiting - 1;

// Long enough to bridge the gap between two launches, short enough not to be seen in a profile.
constexpr int64_t SpinNanoseconds = 50'000;
constexpr int64_t ChunksPerThread = 4;
constexpr size_t WorkerStackBytes = 8u << 20;

struct CurrentBody {
  const ThreadPool* pool;
  int worker;
};
constinit thread_local CurrentBody current_body = {nullptr, 0};

class EnterBody {
 public:
  EnterBody(const ThreadPool* pool, int worker) : saved_(current_body) { current_body = {pool, worker}; }
  ~EnterBody() { current_body = saved_; }

 private:
  CurrentBody saved_;
};

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

int64_t now_ns() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// Spins until `done()` or the spin time is over; says whether it was done.
template <class Done>
bool spin_until(Done done) {
  int64_t deadline = 0;
  while (true) {
    for (int i = 0; i < 64; ++i) {
      if (done()) return true;
      pause_briefly();
    }
    int64_t now = now_ns();
    if (deadline == 0) deadline = now + SpinNanoseconds;
    if (now >= deadline) return false;
  }
}

void futex_wait(std::atomic<uint32_t>& word, uint32_t expected) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}
void futex_wake(std::atomic<uint32_t>& word, int count) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

constinit std::mutex registry_mutex;
constinit ThreadPool* registry_head = nullptr;

}  // namespace

struct ThreadPool::WorkerStart {
  ThreadPool* pool;
  int worker;
  uint32_t generation;
};

ThreadPool::ThreadPool(int threads) : thread_count_(std::clamp(threads, 1, 4096)) {
  register_fork_handlers();
  std::lock_guard lock(registry_mutex);
  next_pool_ = registry_head;
  if (registry_head) registry_head->previous_pool_ = this;
  registry_head = this;
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(registry_mutex);
    if (next_pool_) next_pool_->previous_pool_ = previous_pool_;
    (previous_pool_ ? previous_pool_->next_pool_ : registry_head) = next_pool_;
  }
  stopping_.store(true);
  epoch_.fetch_add(1);
  futex_wake(epoch_, INT_MAX);
  for (pthread_t worker : workers_) pthread_join(worker, nullptr);
}

bool ThreadPool::inside_body() { return current_body.pool != nullptr; }

void ThreadPool::parallel_for(int64_t count, int64_t max_chunk, Body body) {
  if (count <= 0) return;
  if (max_chunk <= 0) max_chunk = count;
  if (current_body.pool)
    return run_alone(count, max_chunk, body, current_body.pool == this ? current_body.worker : 0);
  if (thread_count_ == 1 || count == 1 || busy_.exchange(true, std::memory_order_acquire))
    return run_alone(count, max_chunk, body, 0);

  if (!started_.load(std::memory_order_relaxed)) start_workers();
  body_ = &body;
  count_ = count;
  chunk_ = std::clamp<int64_t>(count / (thread_count_ * ChunksPerThread), 1, max_chunk);
  next_.store(0, std::memory_order_relaxed);
  state_.store(Open, std::memory_order_release);
  epoch_.fetch_add(1, std::memory_order_seq_cst);
  wake_sleepers((count + chunk_ - 1) / chunk_ - 1);

  {
    EnterBody enter(this, 0);
    run_chunks(0);
  }
  state_.fetch_and(~Open, std::memory_order_acq_rel);
  wait_until_left();
  busy_.store(false, std::memory_order_release);
}

void ThreadPool::run_alone(int64_t count, int64_t max_chunk, Body body, int worker) {
  EnterBody enter(this, worker);
  for (int64_t begin = 0; begin < count; begin += max_chunk)
    body(begin, std::min(count, begin + max_chunk), worker);
}

void ThreadPool::run_chunks(int worker) {
  const Body& body = *body_;
  const int64_t count = count_, chunk = chunk_;
  while (true) {
    int64_t begin = next_.fetch_add(chunk, std::memory_order_relaxed);
    if (begin >= count) return;
    body(begin, std::min(count, begin + chunk), worker);
  }
}

void ThreadPool::wake_sleepers(int64_t wanted) {
  int64_t asleep = sleepers_.load(std::memory_order_seq_cst);
  if (asleep > 0 && wanted > 0) futex_wake(epoch_, static_cast<int>(std::min(asleep, wanted)));
}

void ThreadPool::wait_until_left() {
  auto empty = [&] { return (state_.load(std::memory_order_acquire) & InsideMask) == 0; };
  if (empty() || spin_until(empty)) return;
  state_.fetch_or(Waiting, std::memory_order_acq_rel);
  while (true) {
    uint32_t left = left_.load(std::memory_order_acquire);
    if (empty()) return;
    futex_wait(left_, left);
  }
}

bool ThreadPool::join_open_job() {
  uint32_t state = state_.load(std::memory_order_relaxed);
  while (state & Open) {
    if (state_.compare_exchange_weak(state, state + 1, std::memory_order_acquire, std::memory_order_relaxed))
      return true;
  }
  return false;
}

void ThreadPool::wait_for_job(uint32_t seen, uint32_t generation) {
  auto changed = [&] { return epoch_.load(std::memory_order_acquire) != seen; };
  if (spin_until(changed)) return;
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  while (!changed() && generation_.load(std::memory_order_relaxed) == generation) futex_wait(epoch_, seen);
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

void ThreadPool::worker_loop(int worker, uint32_t generation) {
  DefaultFloatEnvironment float_environment;
  current_body = {this, worker};
  // Epoch 0 precedes the job that started this worker, so that it is looked for at once.
  uint32_t seen = 0;
  while (true) {
    uint32_t epoch = epoch_.load(std::memory_order_acquire);
    if (stopping_.load(std::memory_order_relaxed)) return;
    if (epoch == seen) {
      wait_for_job(seen, generation);
      continue;
    }
    seen = epoch;
    if (!join_open_job()) continue;
    run_chunks(worker);
    // Only in a child that was forked by a body: this thread is now the child's own and must not come back
    // here.
    if (generation_.load(std::memory_order_relaxed) != generation) return;
    uint32_t before = state_.fetch_sub(1, std::memory_order_acq_rel);
    if ((before & InsideMask) == 1 && (before & Waiting)) {
      left_.fetch_add(1, std::memory_order_acq_rel);
      futex_wake(left_, 1);
    }
  }
}

void* ThreadPool::worker_main(void* argument) {
  std::unique_ptr<WorkerStart> start(static_cast<WorkerStart*>(argument));
  start->pool->worker_loop(start->worker, start->generation);
  return nullptr;
}

// A thread that cannot be had is no failure: the loop runs on those that there are.
void ThreadPool::start_workers() {
  sigset_t all, saved;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &saved);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, WorkerStackBytes);
  for (int worker = 1; worker < thread_count_; ++worker) {
    auto start = std::make_unique<WorkerStart>(WorkerStart{this, worker, generation_.load()});
    pthread_t thread;
    if (pthread_create(&thread, &attributes, worker_main, start.get()) != 0) break;
    start.release();
    pthread_setname_np(thread, "tilewright");
    workers_.push_back(thread);
  }
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &saved, nullptr);
  started_.store(true, std::memory_order_relaxed);
}

void ThreadPool::forget_workers_after_fork() {
  workers_.clear();
  generation_.fetch_add(1);
  state_.store(0);
  sleepers_.store(0);
  started_.store(false);
  // A loop that the forking thread itself is in goes on and releases the pool; one of another thread never
  // will.
  if (current_body.pool != this) busy_.store(false);
}

void ThreadPool::register_fork_handlers() {
  static const int registered = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  (void)registered;
}

void ThreadPool::before_fork() { registry_mutex.lock(); }
void ThreadPool::after_fork_in_parent() { registry_mutex.unlock(); }
void ThreadPool::after_fork_in_child() {
  for (ThreadPool* pool = registry_head; pool; pool = pool->next_pool_) pool->forget_workers_after_fork();
  registry_mutex.unlock();
}

}  // namespace tilewright
