// Memory: a caching allocator of host tensors; pages once touched are kept for the next call.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "runtime/fork_mutex.h"

namespace tilewright {

class Memory;

// A block on loan; goes back when destroyed, from any thread, also when the session is gone.
class Block {
 public:
  Block() = default;
  Block(Block&& other) noexcept { swap(other); }
  Block& operator=(Block&& other) noexcept {
    Block(std::move(other)).swap(*this);
    return *this;
  }
  ~Block();

  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  bool is_recycled() const { return recycled_; }  // its pages were used before
  explicit operator bool() const { return data_ != nullptr; }

 private:
  friend class Memory;
  void swap(Block& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(size_class_, other.size_class_);
    std::swap(recycled_, other.recycled_);
    owner_.swap(other.owner_);
  }

  void* data_ = nullptr;
  int64_t bytes_ = 0;
  int size_class_ = 0;
  bool recycled_ = false;
  std::shared_ptr<Memory> owner_;
};

struct MemoryStats {
  int64_t bytes_fresh = 0;     // asked for and taken from the system
  int64_t bytes_recycled = 0;  // asked for and served from kept blocks
  int64_t bytes_used = 0;      // in blocks on loan
  int64_t bytes_idle = 0;      // in kept blocks
  int64_t bytes_peak = 0;      // largest bytes_used
};

// The host's own allocator; both functions or none.
struct HostAllocator {
  void* context = nullptr;
  std::shared_ptr<const void> owner;  // kept as long as a block lives
  bool is_exact = false;              // blocks are neither rounded up nor kept
  void* (*allocate)(void* context, int64_t bytes, int64_t alignment) = nullptr;
  void (*deallocate)(void* context, void* memory, int64_t bytes) = nullptr;
};

// Thread-safe, usable in a forked child.  Blocks are aligned to 64 bytes, large ones to 2 MB with huge pages
// advised. Idle blocks are kept up to the largest amount that was ever in use at once.
class Memory : public std::enable_shared_from_this<Memory> {
 public:
  static std::shared_ptr<Memory> create(HostAllocator host = {});
  ~Memory();

  static constexpr int64_t kAlignment = 64;
  static constexpr int64_t kHugeBytes = int64_t{2} << 20;

  Result<Block> allocate(int64_t bytes);
  // Gives idle blocks back to the system.
  void trim();
  MemoryStats stats() const;

 private:
  friend class Block;
  static constexpr int kSmallClasses = 16;  // multiples of 64 up to 1 KB
  static constexpr int kClasses = kSmallClasses + 8 * 38;

  explicit Memory(HostAllocator host) : host_(host) {}
  static int class_of(int64_t bytes);
  static int64_t class_bytes(int size_class);
  void* take_from_system(int64_t bytes) const;
  void give_to_system(void* data, int64_t bytes) const;
  void release(Block& block);

  const HostAllocator host_;
  mutable ForkMutex mutex_;
  std::array<std::vector<void*>, kClasses> idle_;
  MemoryStats stats_;
};

}  // namespace tilewright
