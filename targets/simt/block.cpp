// The scheduler of a block's threads.
#include "targets/simt/block.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "base/text.h"

namespace tilewright::simt {
namespace {

constexpr size_t kPage = 4096;
constexpr int64_t kSharedAlignment = 1024;
constexpr int kPoison = 0xff;  // NaN in every float type, minus one in every integer type

thread_local BlockRunner* current_runner = nullptr;

int64_t round_up(int64_t bytes, int64_t to) { return (bytes + to - 1) / to * to; }

}  // namespace

const char* wait_name(Wait wait) {
  switch (wait) {
    case Wait::Nothing: return "nothing";
    case Wait::Barrier: return "a barrier";
    case Wait::Shuffle: return "a shuffle";
    case Wait::Mma: return "a matrix product";
    case Wait::LoadMatrix: return "a matrix load";
  }
  return "";
}

BlockRunner* BlockRunner::current() { return current_runner; }

BlockRunner::~BlockRunner() {
  if (shared_region_) munmap(shared_region_, shared_region_bytes_);
}

// Shared memory ends at a page that nobody may touch.
Status BlockRunner::prepare_shared() {
  const int64_t bytes = round_up(shape_.shared_bytes, kSharedAlignment);
  const size_t wanted = static_cast<size_t>(round_up(bytes, kPage)) + kPage;
  if (shared_region_bytes_ < wanted) {
    if (shared_region_) munmap(shared_region_, shared_region_bytes_);
    shared_region_bytes_ = 0;
    void* region = mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    shared_region_ = region == MAP_FAILED ? nullptr : static_cast<char*>(region);
    if (!shared_region_) return Status::exhausted(cat("no ", bytes, " bytes of simulated shared memory"));
    shared_region_bytes_ = wanted;
    mprotect(shared_region_ + wanted - kPage, kPage, PROT_NONE);
  }
  shared_ = shared_region_ + shared_region_bytes_ - kPage - bytes;
  std::memset(shared_, kPoison, static_cast<size_t>(bytes));
  return Status::ok();
}

void BlockRunner::thread_main() {
  BlockRunner* runner = current_runner;
  runner->entry_(runner->slots_);
  runner->thread().done = true;
  runner->suspend(Wait::Nothing);
}

void BlockRunner::suspend(Wait wait) {
  Thread& self = thread();
  self.wait = wait;
  tw_simt_switch_stack(&self.stack_pointer, scheduler_);
}

void BlockRunner::fail(std::string message) {
  fault_ = cat("thread ", running_, " of block ", block_, ": ", message);
  suspend(Wait::Nothing);
}

void BlockRunner::resume(int32_t index) {
  running_ = index;
  Thread& next = threads_[static_cast<size_t>(index)];
  next.wait = Wait::Nothing;
  tw_simt_switch_stack(&scheduler_, next.stack_pointer);
}

void BlockRunner::complete_warp(int32_t warp, Wait wait) {
  Thread* first = &threads_[static_cast<size_t>(warp) * kWarp];
  std::string fault;
  if (wait == Wait::Shuffle) fault = run_shuffle(first);
  if (wait == Wait::Mma) fault = run_mma(first);
  if (wait == Wait::LoadMatrix) fault = run_load_matrix(first, shared_, shape_.shared_bytes);
  if (!fault.empty()) fault_ = cat("warp ", warp, " of block ", block_, ": ", fault);
  for (int32_t lane = 0; lane < kWarp; ++lane) first[lane].wait = Wait::Nothing;
}

void BlockRunner::run_warp(int32_t warp) {
  const int32_t begin = warp * kWarp, end = std::min(begin + kWarp, shape_.threads);
  while (fault_.empty()) {
    for (int32_t index = begin; index < end && fault_.empty(); ++index) {
      const Thread& thread = threads_[static_cast<size_t>(index)];
      if (!thread.done && thread.wait == Wait::Nothing) resume(index);
    }
    if (!fault_.empty()) return;
    const Wait wait = threads_[static_cast<size_t>(begin)].wait;
    const bool done = threads_[static_cast<size_t>(begin)].done;
    for (int32_t index = begin + 1; index < end; ++index) {
      const Thread& thread = threads_[static_cast<size_t>(index)];
      if (thread.done != done || thread.wait != wait) {
        fault_ = cat("threads of a warp take different ways: ", describe_threads());
        return;
      }
    }
    if (done || wait == Wait::Barrier) return;
    if (end - begin != kWarp) {
      fault_ =
          cat("a warp of ", end - begin, " threads waits for ", wait_name(wait), ", which needs all ", kWarp);
      return;
    }
    complete_warp(warp, wait);
  }
}

std::string BlockRunner::describe_threads() const {
  std::string text = cat("block ", block_);
  const Thread* previous = nullptr;
  int32_t shown = 0;
  for (int32_t index = 0; index < shape_.threads && shown < 6; ++index) {
    const Thread& thread = threads_[static_cast<size_t>(index)];
    if (previous && previous->done == thread.done && previous->wait == thread.wait) continue;
    text += cat(previous ? ", thread " : ": thread ", index, thread.done ? " has returned" : " waits for ",
                thread.done ? "" : wait_name(thread.wait));
    previous = &thread;
    ++shown;
  }
  return text;
}

// After every warp has run: all threads are done, or all are at the barrier.
Status BlockRunner::check_finished_or_release() {
  for (const Thread& thread : threads_) {
    if (thread.done != threads_[0].done)
      return Status::internal(
          cat("threads wait for a barrier that others never reach: ", describe_threads()));
  }
  for (Thread& thread : threads_) thread.wait = Wait::Nothing;
  return Status::ok();
}

Status BlockRunner::run(Entry entry, const void* slots, const BlockShape& shape, int64_t block) {
  entry_ = entry;
  slots_ = slots;
  shape_ = shape;
  block_ = block;
  fault_.clear();
  if (!stacks_.reserve(static_cast<size_t>(shape.threads)))
    return Status::exhausted(cat("no stacks for ", shape.threads, " simulated threads"));
  TW_RETURN_IF_ERROR(prepare_shared());
  threads_.resize(static_cast<size_t>(shape.threads));
  for (size_t index = 0; index < threads_.size(); ++index) {
    Thread& thread = threads_[index];
    thread.done = false;
    thread.wait = Wait::Nothing;
    thread.committed = 0;
    thread.copies.clear();
    thread.stack_pointer = stacks_.prepare(index, thread_main);
  }
  BlockRunner* const outer = current_runner;
  current_runner = this;
  const int32_t warps = (shape.threads + kWarp - 1) / kWarp;
  Status status = Status::ok();
  while (status.is_ok() && !threads_[0].done) {
    for (int32_t step = 0; step < warps && fault_.empty(); ++step)
      run_warp(block % 2 == 0 ? step : warps - 1 - step);
    status = fault_.empty() ? check_finished_or_release() : Status::internal(fault_);
  }
  current_runner = outer;
  return status;
}

}  // namespace tilewright::simt
