// Memory by stream, copies between host and device, constants.
#include "runtime/device.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/text.h"

namespace tilewright {
namespace {

// Vector accesses and asynchronous copies of 16 bytes want this much; drivers give more.
constexpr size_t kExactAlignment = 16, kAlignment = 256;

// First and last byte of a strided tensor, from its data pointer.
struct Span {
  int64_t low = 0, high = 0;
};

Span span_of(const TensorRef& tensor) {
  Span span;
  for (size_t dim = 0; dim < tensor.sizes.size(); ++dim) {
    const int64_t reach = tensor.strides[dim] * (tensor.sizes[dim] - 1);
    (reach < 0 ? span.low : span.high) += reach;
  }
  const int64_t element = dtype_bytes(tensor.dtype);
  return {span.low * element, (span.high + 1) * element};
}

}  // namespace

std::shared_ptr<Memory> Device::memory_of(void* stream) {
  std::lock_guard lock(mutex_);
  std::shared_ptr<Memory>& memory = memories_[stream];
  if (memory) return memory;
  HostAllocator allocator;
  allocator.owner = target_;
  allocator.context = target_.get();
  allocator.is_exact = target_->info().checks_allocations;
  allocator.allocate = [](void* context, int64_t bytes, int64_t) -> void* {
    const Target& target = *static_cast<const Target*>(context);
    const size_t alignment = target.info().checks_allocations ? kExactAlignment : kAlignment;
    Result<void*> made = target.allocate(static_cast<size_t>(bytes), alignment);
    return made.is_ok() ? *made : nullptr;
  };
  allocator.deallocate = [](void* context, void* memory, int64_t) {
    static_cast<const Target*>(context)->free(memory);
  };
  memory = Memory::create(std::move(allocator));
  return memory;
}

void Device::trim() {
  std::vector<std::shared_ptr<Memory>> all;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [stream, memory] : memories_) all.push_back(memory);
  }
  for (const auto& memory : all) memory->trim();
}

Result<Block> Device::allocate(int64_t bytes, void* stream) {
  const std::shared_ptr<Memory> memory = memory_of(stream);
  Result<Block> block = memory->allocate(bytes);
  if (block.is_ok() || block.status().code() != Code::ResourceExhausted) return block;
  trim();
  block = memory->allocate(bytes);
  if (block.is_ok()) return block;
  // The allocator asks for memory and no reason: a broken device says another one.
  Result<void*> probe = target_->allocate(static_cast<size_t>(bytes), kExactAlignment);
  if (!probe.is_ok() && probe.status().code() != Code::ResourceExhausted) return probe.status();
  if (probe.is_ok()) target_->free(*probe);
  const MemoryStats used = stats();
  return Status::exhausted(cat(target_->info().name, " is out of memory: ", bytes, " bytes were refused, ",
                               used.bytes_used, " are in use by this session"));
}

MemoryStats Device::stats() const {
  std::lock_guard lock(mutex_);
  MemoryStats sum;
  for (const auto& [stream, memory] : memories_) {
    const MemoryStats one = memory->stats();
    sum.bytes_fresh += one.bytes_fresh;
    sum.bytes_recycled += one.bytes_recycled;
    sum.bytes_used += one.bytes_used;
    sum.bytes_idle += one.bytes_idle;
    sum.bytes_peak += one.bytes_peak;
  }
  return sum;
}

Status Device::upload(void* to, const void* from, int64_t bytes, void* stream) const {
  return target_->copy(to, from, static_cast<size_t>(bytes), CopyKind::HostToDevice, stream);
}
Status Device::download(void* to, const void* from, int64_t bytes, void* stream) const {
  return target_->copy(to, from, static_cast<size_t>(bytes), CopyKind::DeviceToHost, stream);
}
Status Device::move(void* to, const void* from, int64_t bytes, void* stream) const {
  return target_->copy(to, from, static_cast<size_t>(bytes), CopyKind::DeviceToDevice, stream);
}

Result<OwnedTensor> Device::fetch(const TensorRef& from, void* stream) const {
  OwnedTensor to = allocate_tensor(from.dtype, from.sizes);
  if (from.elements() == 0) return to;
  if (from.is_dense()) {
    TW_RETURN_IF_ERROR(download(to.ref.data, from.data, from.bytes(), stream));
    return to;
  }
  const Span span = span_of(from);
  std::vector<char> bytes(static_cast<size_t>(span.high - span.low));
  TW_RETURN_IF_ERROR(download(bytes.data(), static_cast<char*>(from.data) + span.low,
                              static_cast<int64_t>(bytes.size()), stream));
  TensorRef copy = from;
  copy.data = bytes.data() - span.low;
  copy_strided(copy, to.ref);
  return to;
}

Status Device::store(const TensorRef& from, const TensorRef& to, void* stream) const {
  if (from.elements() == 0) return Status::ok();
  if (to.is_dense()) {
    if (from.is_dense()) return upload(to.data, from.data, from.bytes(), stream);
    const OwnedTensor dense = allocate_tensor(from.dtype, from.sizes);
    copy_strided(from, dense.ref);
    return upload(to.data, dense.ref.data, from.bytes(), stream);
  }
  // What lies between the elements is the caller's and stays.
  const Span span = span_of(to);
  std::vector<char> bytes(static_cast<size_t>(span.high - span.low));
  char* begin = static_cast<char*>(to.data) + span.low;
  TW_RETURN_IF_ERROR(download(bytes.data(), begin, static_cast<int64_t>(bytes.size()), stream));
  TensorRef copy = to;
  copy.data = bytes.data() - span.low;
  copy_strided(from, copy);
  return upload(begin, bytes.data(), static_cast<int64_t>(bytes.size()), stream);
}

Result<std::shared_ptr<const Block>> Device::constant(const ConstantRef& constant, int64_t bytes) {
  const std::pair<const Constant*, int64_t> key(constant.get(), bytes);
  {
    std::lock_guard lock(mutex_);
    if (std::shared_ptr<const Block> known = constants_[key].lock()) return known;
  }
  TW_ASSIGN_OR_RETURN(Block block, allocate(bytes, nullptr));
  if (constant->splat) {
    std::vector<char> filled(static_cast<size_t>(bytes));
    const int64_t element = dtype_bytes(constant->type.dtype);
    for (int64_t at = 0; at < bytes; at += element)
      std::memcpy(filled.data() + at, constant->data, static_cast<size_t>(element));
    TW_RETURN_IF_ERROR(upload(block.data(), filled.data(), bytes, nullptr));
  } else {
    TW_RETURN_IF_ERROR(upload(block.data(), constant->data, bytes, nullptr));
  }
  // Every stream may read it from here on.
  TW_RETURN_IF_ERROR(synchronize(nullptr));
  auto made = std::make_shared<const Block>(std::move(block));
  std::lock_guard lock(mutex_);
  constants_[key] = made;
  return made;
}

}  // namespace tilewright
