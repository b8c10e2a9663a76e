// Allocations as mappings of their own.
#include "targets/simt/device_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "base/text.h"

namespace tilewright::simt {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kMinimumAlignment = 16;
constexpr int kPoison = 0xff;

size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

}  // namespace

DeviceMemory::~DeviceMemory() {
  for (const auto& [address, allocation] : allocations_)
    munmap(allocation.region, allocation.region_bytes + kPage);
}

void DeviceMemory::protect(const Allocation& allocation, int protection) const {
  mprotect(allocation.region, allocation.region_bytes, protection);
}

Result<void*> DeviceMemory::allocate(size_t bytes, size_t alignment) {
  if (alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment > kPage)
    return Status::invalid(cat("alignment ", alignment, ", expected a power of two up to ", kPage));
  std::lock_guard lock(mutex_);
  if (static_cast<int64_t>(bytes) > limit_ - bytes_used_)
    return Status::exhausted(
        cat("the simulated device has no ", bytes, " bytes: ", bytes_used_, " of ", limit_, " are in use"));
  const size_t padded = round_up(std::max<size_t>(bytes, 1), std::max(alignment, kMinimumAlignment));
  Allocation allocation;
  allocation.bytes = bytes;
  allocation.region_bytes = round_up(padded, kPage);
  void* region = mmap(nullptr, allocation.region_bytes + kPage, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (region == MAP_FAILED)
    return Status::exhausted(cat("the host has no ", bytes, " bytes for the simulated device"));
  allocation.region = static_cast<char*>(region);
  mprotect(allocation.region + allocation.region_bytes, kPage, PROT_NONE);
  char* memory = allocation.region + allocation.region_bytes - padded;
  std::memset(memory, kPoison, padded);
  if (strict_ && open_count_ == 0) protect(allocation, PROT_NONE);
  allocations_[memory] = allocation;
  bytes_used_ += static_cast<int64_t>(bytes);
  return static_cast<void*>(memory);
}

void DeviceMemory::free(void* memory) {
  std::lock_guard lock(mutex_);
  auto found = allocations_.find(static_cast<char*>(memory));
  if (found == allocations_.end()) return;
  munmap(found->second.region, found->second.region_bytes + kPage);
  bytes_used_ -= static_cast<int64_t>(found->second.bytes);
  allocations_.erase(found);
}

Status DeviceMemory::check_inside(const void* address, size_t bytes) const {
  if (bytes == 0) return Status::ok();
  const char* at = static_cast<const char*>(address);
  std::lock_guard lock(mutex_);
  auto next = allocations_.upper_bound(at);
  if (next == allocations_.begin())
    return Status::invalid("address outside the memory of the simulated device");
  const auto& [begin, allocation] = *std::prev(next);
  const size_t offset = static_cast<size_t>(at - begin);
  if (offset >= std::max<size_t>(allocation.bytes, 1))
    return Status::invalid("address outside the memory of the simulated device");
  if (bytes > allocation.bytes - offset)
    return Status::invalid(cat(bytes, " bytes at offset ", offset, " of an allocation of ", allocation.bytes,
                               " bytes on the simulated device"));
  return Status::ok();
}

bool DeviceMemory::contains(const void* address) const { return check_inside(address, 1).is_ok(); }

int64_t DeviceMemory::bytes_used() const {
  std::lock_guard lock(mutex_);
  return bytes_used_;
}

void DeviceMemory::open() {
  if (!strict_) return;
  std::lock_guard lock(mutex_);
  if (open_count_++ > 0) return;
  for (const auto& [address, allocation] : allocations_) protect(allocation, PROT_READ | PROT_WRITE);
}

void DeviceMemory::close() {
  if (!strict_) return;
  std::lock_guard lock(mutex_);
  if (--open_count_ > 0) return;
  for (const auto& [address, allocation] : allocations_) protect(allocation, PROT_NONE);
}

}  // namespace tilewright::simt
