// BlockRunner: runs the threads of one block as fibers, in turn; a thread runs until it waits for others.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "targets/simt/fiber.h"

namespace tilewright::simt {

inline constexpr int32_t kWarp = 32;

// What a thread waits for.
enum class Wait : uint8_t { Nothing, Barrier, Shuffle, Mma, LoadMatrix };

// A copy to shared memory that has been asked for and takes effect when it is waited for.
struct PendingCopy {
  void* to = nullptr;
  const void* from = nullptr;
  int32_t bytes = 0, valid = 0;
  int64_t group = 0;
};

struct Thread {
  void* stack_pointer = nullptr;
  bool done = false;
  Wait wait = Wait::Nothing;
  // Arguments of the wait.
  int32_t kind = 0;  // Mma; LoadMatrix: transposed
  uint32_t value = 0;
  int32_t source_lane = 0;
  const void* first = nullptr;   // Mma: a.  LoadMatrix: the row
  const void* second = nullptr;  // Mma: b
  void* result = nullptr;        // Mma: c.  LoadMatrix: four registers
  int64_t committed = 0;         // groups of copies
  std::vector<PendingCopy> copies;
};

using Entry = void (*)(const void* slots);

struct BlockShape {
  int64_t block_count = 0;
  int32_t threads = 0;
  int64_t shared_bytes = 0;
};

// One host thread's; blocks run one after the other.  The order of the warps turns from block to block, so
// that a missing barrier shows in one of them.
class BlockRunner {
 public:
  BlockRunner() = default;
  BlockRunner(const BlockRunner&) = delete;
  BlockRunner& operator=(const BlockRunner&) = delete;
  ~BlockRunner();

  Status run(Entry entry, const void* slots, const BlockShape& shape, int64_t block);

  // For the functions that kernels call.
  static BlockRunner* current();
  Thread& thread() { return threads_[static_cast<size_t>(running_)]; }
  int32_t thread_index() const { return running_; }
  int64_t block_index() const { return block_; }
  const BlockShape& shape() const { return shape_; }
  char* shared() const { return shared_; }
  // Gives the processor to others until what the thread waits for is there.
  void suspend(Wait wait);
  // Ends the block with a fault of the kernel; does not return.
  void fail(std::string message);

 private:
  static void thread_main();
  Status prepare_shared();
  void resume(int32_t index);
  // Runs the threads of a warp until each is done or waits for a barrier.
  void run_warp(int32_t warp);
  void complete_warp(int32_t warp, Wait wait);
  Status check_finished_or_release();
  std::string describe_threads() const;

  StackSet stacks_;
  std::vector<Thread> threads_;
  void* scheduler_ = nullptr;
  Entry entry_ = nullptr;
  const void* slots_ = nullptr;
  BlockShape shape_;
  int64_t block_ = 0;
  int32_t running_ = 0;
  char* shared_ = nullptr;
  char* shared_region_ = nullptr;
  size_t shared_region_bytes_ = 0;
  std::string fault_;
};

const char* wait_name(Wait wait);

// The collective operations, over the 32 threads of a warp that all wait for them.  A fault of the arguments
// is returned as text.
std::string run_shuffle(Thread* warp);
std::string run_mma(Thread* warp);
std::string run_load_matrix(Thread* warp, const char* shared, int64_t shared_bytes);

}  // namespace tilewright::simt
