// DeviceMemory: memory of the simulated device, apart from the host's: each allocation ends at a guard page.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "base/status.h"

namespace tilewright::simt {

// Thread-safe.
class DeviceMemory {
 public:
  // `limit`: bytes that fit; `strict`: host code that touches device memory outside Access faults.
  DeviceMemory(int64_t limit, bool strict) : limit_(limit), strict_(strict) {}
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory();

  // Fresh memory is poisoned.
  Result<void*> allocate(size_t bytes, size_t alignment);
  void free(void* memory);
  // A status that says what is wrong unless [address, address + bytes) lies in one allocation.
  Status check_inside(const void* address, size_t bytes) const;
  bool contains(const void* address) const;
  int64_t bytes_used() const;

  // While one lives, device memory may be touched.
  class Access {
   public:
    explicit Access(DeviceMemory& memory) : memory_(memory) { memory_.open(); }
    ~Access() { memory_.close(); }
    Access(const Access&) = delete;
    Access& operator=(const Access&) = delete;

   private:
    DeviceMemory& memory_;
  };

 private:
  struct Allocation {
    size_t bytes = 0;
    char* region = nullptr;
    size_t region_bytes = 0;  // without the guard page
  };
  void open();
  void close();
  void protect(const Allocation& allocation, int protection) const;

  const int64_t limit_;
  const bool strict_;
  mutable std::mutex mutex_;
  std::map<const char*, Allocation> allocations_;
  int64_t bytes_used_ = 0;
  int open_count_ = 0;
};

}  // namespace tilewright::simt
