// BoundPlan: a program under one binding of its symbols: sizes, offsets, scalars and grids as plain numbers.
#pragma once

#include <memory>
#include <vector>

#include "runtime/boundary.h"
#include "runtime/device.h"
#include "runtime/memory.h"
#include "runtime/memory_plan.h"

namespace tilewright {

struct BoundLaunch {
  const Launch* launch = nullptr;
  std::vector<uint32_t> buffers;   // indices
  std::vector<int64_t> offsets;    // bytes, one a buffer
  std::vector<int64_t> scalars;    // Kernel
  int64_t grid = 0;                // Kernel
  bool is_small = false;           // Kernel: not worth a second thread
  double bytes = 0, flops = 0;     // Kernel: estimates, for profiles
  std::vector<TensorRef> tensors;  // Reference, Builtin, Copy: dense views without data, one a buffer
  int64_t count = 0;               // Loop
  std::vector<std::pair<uint32_t, int64_t>> advances;  // Loop: buffer, bytes a trip
  std::vector<BoundLaunch> body;                       // Loop
};

struct BoundPlan {
  BoundSizes sizes;
  std::vector<int64_t> buffer_bytes;
  std::vector<std::vector<int64_t>> buffer_sizes;
  ArenaPlan arena;
  std::vector<Block> filled;                           // splat constants
  std::vector<std::shared_ptr<const Block>> uploaded;  // constants on the device
  std::vector<void*> constants;                        // one a buffer; null where it is none
  std::vector<BoundLaunch> launches;
  int64_t max_arguments = 0;  // pointers of the largest kernel launch
};

// `device`: where the program's buffers lie; null: on the host.
Result<std::shared_ptr<const BoundPlan>> bind_program(const Program& program, const Lifetimes& lifetimes,
                                                      BoundSizes sizes, Memory& memory, Device* device,
                                                      bool keep_temporaries = false);

}  // namespace tilewright
