// Size classes, free lists, and how blocks are taken from the system.
#include "runtime/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <mutex>

#include "base/text.h"

namespace tilewright {
namespace {

constexpr int64_t kMinimumIdle = int64_t{64} << 20;
constexpr int64_t kMaximumBytes = int64_t{1} << 46;

// Over-maps and cuts, so that the block starts on a huge page.
void* map_huge(int64_t bytes) {
  const size_t size = static_cast<size_t>(bytes);
  const size_t huge = static_cast<size_t>(Memory::kHugeBytes);
  void* mapped =
      mmap(nullptr, size + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  const uintptr_t start = reinterpret_cast<uintptr_t>(mapped);
  const uintptr_t aligned = (start + huge - 1) / huge * huge;
  const uintptr_t page = 4096;
  const uintptr_t end = (aligned + size + page - 1) / page * page;
  if (aligned > start) munmap(mapped, aligned - start);
  if (start + size + huge > end) munmap(reinterpret_cast<void*>(end), start + size + huge - end);
  madvise(reinterpret_cast<void*>(aligned), size, MADV_HUGEPAGE);
  return reinterpret_cast<void*>(aligned);
}

}  // namespace

Block::~Block() {
  if (owner_) owner_->release(*this);
}

std::shared_ptr<Memory> Memory::create(HostAllocator host) {
  return std::shared_ptr<Memory>(new Memory(host));
}

Memory::~Memory() { trim(); }

int Memory::class_of(int64_t bytes) {
  if (bytes <= 64 * kSmallClasses) return static_cast<int>(std::max<int64_t>(bytes - 1, 0) / 64);
  // Eight steps an octave: at most an eighth is wasted.
  const int octave = std::bit_width(static_cast<uint64_t>(bytes - 1)) - 1;
  const int step = static_cast<int>((bytes - 1) >> (octave - 3)) - 8;
  return kSmallClasses + 8 * (octave - 10) + step;
}

int64_t Memory::class_bytes(int size_class) {
  if (size_class < kSmallClasses) return int64_t{64} * (size_class + 1);
  const int octave = (size_class - kSmallClasses) / 8 + 10;
  const int64_t step = (size_class - kSmallClasses) % 8 + 9;
  return step << (octave - 3);
}

void* Memory::take_from_system(int64_t bytes) const {
  const int64_t alignment = bytes >= kHugeBytes ? kHugeBytes : kAlignment;
  if (host_.allocate) return host_.allocate(host_.context, bytes, kAlignment);
  if (alignment == kHugeBytes) return map_huge(bytes);
  return std::aligned_alloc(static_cast<size_t>(alignment), static_cast<size_t>(bytes));
}

void Memory::give_to_system(void* data, int64_t bytes) const {
  if (host_.allocate) {
    host_.deallocate(host_.context, data, bytes);
  } else if (bytes >= kHugeBytes) {
    munmap(data, static_cast<size_t>((bytes + 4095) / 4096 * 4096));
  } else {
    std::free(data);
  }
}

Result<Block> Memory::allocate(int64_t bytes) {
  if (bytes < 0 || bytes > kMaximumBytes) return Status::exhausted(cat("cannot allocate ", bytes, " bytes"));
  Block block;
  block.size_class_ = class_of(bytes);
  block.bytes_ = bytes;
  const int64_t size = host_.is_exact ? std::max<int64_t>(bytes, 1) : class_bytes(block.size_class_);
  {
    std::lock_guard lock(mutex_);
    auto& kept = idle_[static_cast<size_t>(block.size_class_)];
    if (!kept.empty()) {
      block.data_ = kept.back();
      kept.pop_back();
      block.recycled_ = true;
      stats_.bytes_idle -= size;
    }
  }
  if (!block.data_) block.data_ = take_from_system(size);
  if (!block.data_) {
    trim();
    block.data_ = take_from_system(size);
  }
  if (!block.data_) return Status::exhausted(cat("out of memory: ", bytes, " bytes were refused"));
  block.owner_ = shared_from_this();
  std::lock_guard lock(mutex_);
  (block.recycled_ ? stats_.bytes_recycled : stats_.bytes_fresh) += bytes;
  stats_.bytes_used += size;
  stats_.bytes_peak = std::max(stats_.bytes_peak, stats_.bytes_used);
  return block;
}

void Memory::release(Block& block) {
  const int64_t size = host_.is_exact ? std::max<int64_t>(block.bytes_, 1) : class_bytes(block.size_class_);
  {
    std::lock_guard lock(mutex_);
    stats_.bytes_used -= size;
    if (!host_.is_exact && stats_.bytes_idle + size <= std::max(stats_.bytes_peak, kMinimumIdle)) {
      idle_[static_cast<size_t>(block.size_class_)].push_back(block.data_);
      stats_.bytes_idle += size;
      return;
    }
  }
  give_to_system(block.data_, size);
}

void Memory::trim() {
  std::array<std::vector<void*>, kClasses> given_back;
  {
    std::lock_guard lock(mutex_);
    given_back.swap(idle_);
    stats_.bytes_idle = 0;
  }
  for (int size_class = 0; size_class < kClasses; ++size_class)
    for (void* data : given_back[static_cast<size_t>(size_class)])
      give_to_system(data, class_bytes(size_class));
}

MemoryStats Memory::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

}  // namespace tilewright
