// Kernel functions over the block that runs on this host thread.
#include "targets/simt/kernel_functions.h"

#include <cstdint>
#include <cstring>

#include "base/text.h"
#include "targets/simt/block.h"

namespace tilewright::simt {
namespace {

int32_t thread_index() { return BlockRunner::current()->thread_index(); }
int64_t block_index() { return BlockRunner::current()->block_index(); }
int64_t block_count() { return BlockRunner::current()->shape().block_count; }
void* shared() { return BlockRunner::current()->shared(); }
void barrier() { BlockRunner::current()->suspend(Wait::Barrier); }

uint32_t shuffle(uint32_t value, int32_t source_lane) {
  BlockRunner* runner = BlockRunner::current();
  Thread& self = runner->thread();
  self.value = value;
  self.source_lane = source_lane;
  runner->suspend(Wait::Shuffle);
  return self.value;
}

void mma(int32_t kind, const uint32_t* a, const uint32_t* b, float* c) {
  BlockRunner* runner = BlockRunner::current();
  Thread& self = runner->thread();
  self.kind = kind;
  self.first = a;
  self.second = b;
  self.result = c;
  runner->suspend(Wait::Mma);
}

void load_matrix(int32_t transposed, const void* row, uint32_t* out4) {
  BlockRunner* runner = BlockRunner::current();
  Thread& self = runner->thread();
  self.kind = transposed;
  self.first = row;
  self.result = out4;
  runner->suspend(Wait::LoadMatrix);
}

bool is_aligned(const void* address, int32_t bytes) {
  return reinterpret_cast<uintptr_t>(address) % static_cast<uintptr_t>(bytes) == 0;
}

void copy_async(void* to, const void* from, int32_t bytes, int32_t valid) {
  BlockRunner* runner = BlockRunner::current();
  const char* target = static_cast<const char*>(to);
  if (bytes != 4 && bytes != 8 && bytes != 16)
    return runner->fail(cat("asynchronous copy of ", bytes, " bytes, expected 4, 8 or 16"));
  if (valid < 0 || valid > bytes)
    return runner->fail(cat("asynchronous copy of ", bytes, " bytes with ", valid, " valid"));
  if (target < runner->shared() || target + bytes > runner->shared() + runner->shape().shared_bytes)
    return runner->fail("asynchronous copy to outside shared memory");
  if (!is_aligned(to, bytes) || (valid > 0 && !is_aligned(from, bytes)))
    return runner->fail(
        cat("asynchronous copy of ", bytes, " bytes at an address that is not aligned to them"));
  Thread& self = runner->thread();
  self.copies.push_back({to, from, bytes, valid, self.committed});
}

void commit() { ++BlockRunner::current()->thread().committed; }

void wait(int32_t pending) {
  Thread& self = BlockRunner::current()->thread();
  const int64_t finished = self.committed - pending;
  size_t kept = 0;
  for (const PendingCopy& copy : self.copies) {
    if (copy.group >= finished) {
      self.copies[kept++] = copy;
      continue;
    }
    std::memcpy(copy.to, copy.from, static_cast<size_t>(copy.valid));
    std::memset(static_cast<char*>(copy.to) + copy.valid, 0, static_cast<size_t>(copy.bytes - copy.valid));
  }
  self.copies.resize(kept);
}

template <class Function>
void* address_of(Function* function) {
  return reinterpret_cast<void*>(function);
}

}  // namespace

std::span<const HostExport> kernel_functions() {
  static const HostExport table[] = {
      {"tw_simt_thread", address_of(thread_index)},
      {"tw_simt_block", address_of(block_index)},
      {"tw_simt_block_count", address_of(block_count)},
      {"tw_simt_shared", address_of(shared)},
      {"tw_simt_barrier", address_of(barrier)},
      {"tw_simt_shuffle", address_of(shuffle)},
      {"tw_simt_mma", address_of(mma)},
      {"tw_simt_ldmatrix", address_of(load_matrix)},
      {"tw_simt_copy_async", address_of(copy_async)},
      {"tw_simt_commit", address_of(commit)},
      {"tw_simt_wait", address_of(wait)},
  };
  return table;
}

}  // namespace tilewright::simt
