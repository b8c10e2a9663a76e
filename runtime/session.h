// Session: one configured instance: options, target, memory, threads, cache, custom calls, counters.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/flags.h"
#include "base/function_ref.h"
#include "base/thread_pool.h"
#include "cache/cache.h"
#include "runtime/custom_call.h"
#include "runtime/device.h"
#include "runtime/memory.h"
#include "targets/target.h"

namespace tilewright {

// What the host does instead of us; null members are ours.
struct HostServices {
  void* context = nullptr;
  HostAllocator allocator;
  void (*parallel_for)(void* context, int64_t count, int64_t max_chunk,
                       void (*body)(void* body_context, int64_t begin, int64_t end, int32_t worker),
                       void* body_context) = nullptr;
  int32_t thread_count = 0;
  int32_t (*should_abort)(void* context) = nullptr;
};

// Sums over the life of a session.
struct SessionCounters {
  std::atomic<int64_t> graphs_compiled{0}, fallback_nodes{0};
  std::atomic<int64_t> kernel_hits_memory{0}, kernel_hits_disk{0}, kernel_misses{0};
  std::atomic<int64_t> graph_hits_memory{0}, graph_hits_disk{0}, graph_misses{0};
  std::atomic<int64_t> compile_nanoseconds{0};
  std::atomic<int64_t> runs{0}, run_nanoseconds{0}, run_errors{0};
  std::atomic<int64_t> input_copies{0}, output_copies{0};
};

class Session : public std::enable_shared_from_this<Session> {
 public:
  using LoopBody = FunctionRef<void(int64_t begin, int64_t end, int worker)>;

  // Checks the options that depend on the machine: the target, the host services.
  static Result<std::shared_ptr<Session>> create(Flags flags, HostServices services = {});

  const Flags& flags() const { return flags_; }
  const Target& target() const { return *target_; }
  Memory& memory() const { return *memory_; }
  // Null where kernels run on the host or nowhere.
  Device* device() const { return device_.get(); }
  CustomCalls& custom_calls() { return custom_calls_; }
  SessionCounters& counters() { return counters_; }
  // Opened at the first call; null when it could not be, and then `cache_reason` says why.
  Cache* cache();
  std::string cache_reason();
  CacheStats cache_stats();  // zeros when the cache was not needed yet

  int thread_count() const { return thread_count_; }
  // Calls the body for ranges that cover [0, count); see ThreadPool and HostServices.
  void parallel_for(int64_t count, int64_t max_chunk, LoopBody body);
  bool should_abort() const {
    return services_.should_abort && services_.should_abort(services_.context) != 0;
  }

  std::string report_json();

 private:
  Session(Flags flags, HostServices services) : flags_(std::move(flags)), services_(services) {}

  Flags flags_;
  HostServices services_;
  std::shared_ptr<Target> target_;
  std::shared_ptr<Memory> memory_;
  std::unique_ptr<Device> device_;
  CustomCalls custom_calls_;
  SessionCounters counters_;
  int thread_count_ = 1;
  std::unique_ptr<ThreadPool> pool_;
  std::mutex cache_mutex_;
  bool cache_opened_ = false;
  std::unique_ptr<Cache> cache_;
  std::string cache_reason_;
};

}  // namespace tilewright
