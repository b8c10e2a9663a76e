// Device: the memory of a session's device, by stream, and what is kept there: constants, uploaded once.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "ir/attribute.h"
#include "ir/reference/interpreter.h"
#include "runtime/memory.h"
#include "runtime/tensor_view.h"
#include "targets/target.h"

namespace tilewright {

// Thread-safe.
class Device {
 public:
  explicit Device(std::shared_ptr<Target> target) : target_(std::move(target)) {}

  // A block for work that is ordered on the stream: it may be used again there as soon as it is given back.
  // When memory is short, idle blocks of all streams go first.
  Result<Block> allocate(int64_t bytes, void* stream);

  // Copies of dense memory.
  Status upload(void* to, const void* from, int64_t bytes, void* stream) const;
  Status download(void* to, const void* from, int64_t bytes, void* stream) const;
  Status move(void* to, const void* from, int64_t bytes, void* stream) const;
  // A tensor of the device, of any strides, as a dense one of the host, and back.
  Result<OwnedTensor> fetch(const TensorRef& from, void* stream) const;
  Status store(const TensorRef& from, const TensorRef& to, void* stream) const;

  // The constant's `bytes` (repeated if it is a splat) on the device; one copy as long as anybody holds it.
  Result<std::shared_ptr<const Block>> constant(const ConstantRef& constant, int64_t bytes);

  Status synchronize(void* stream) const { return target_->synchronize(stream); }
  MemoryStats stats() const;
  // Gives idle blocks back to the device.
  void trim();

 private:
  std::shared_ptr<Memory> memory_of(void* stream);

  const std::shared_ptr<Target> target_;
  mutable std::mutex mutex_;
  std::map<void*, std::shared_ptr<Memory>> memories_;
  std::map<std::pair<const Constant*, int64_t>, std::weak_ptr<const Block>> constants_;
};

}  // namespace tilewright
