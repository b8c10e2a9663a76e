// RunFrame: the memory and pointers of one run; frames are kept and used again, so that a run allocates
// nothing itself.
#pragma once

#include <vector>

#include "ir/reference/kernel.h"
#include "runtime/boundary.h"
#include "runtime/memory.h"
#include "runtime/profile.h"

namespace tilewright {

// An output computed elsewhere and copied to the caller's tensor at the end.
struct OutputCopy {
  TensorRef from, to;
};

// An output computed on the device and copied to where the caller wants it at the end.
struct DeviceOutput {
  void* from = nullptr;
  TensorRef to;
  bool to_device = false;  // strided memory of the device, else of the host
};

struct RunFrame {
  std::vector<const TensorView*> inputs;  // of the call, bound frozen ones filled in
  std::vector<int64_t> symbols;
  std::vector<ByteRange> written, read;             // of the check for overlaps
  std::vector<char> is_alias;                       // one an input
  std::vector<void*> pointers;                      // one a buffer
  std::vector<std::vector<int64_t>> input_strides;  // of the memory that `pointers` names, one an input
  std::vector<void*> arguments;                     // of the launch that runs
  std::vector<Block> blocks;                        // copies of inputs, outputs that are copied at the end
  std::vector<OutputCopy> output_copies;
  std::vector<int> output_inputs;     // one an output: input whose memory the given tensor is; -1: none
  std::vector<LaunchSample> samples;  // when `profiling`
  bool profiling = false;
  Block arena;
  Block scratch;
  Block device_error;  // the error word of kernels on a device
  void* stream = nullptr;
  std::vector<DeviceOutput> device_outputs;
  int64_t scratch_stride = 0;
  int64_t error_word[3] = {0, 0, 0};
  // Counted here, added to the totals when the run ends.
  int64_t input_copies = 0, input_copy_bytes = 0, bytes_fresh = 0, bytes_recycled = 0;
  int64_t kernel_launches = 0, reference_launches = 0, other_launches = 0;
  int64_t host_builtins = 0;  // of a device's program

  void reset() {
    blocks.clear();
    output_copies.clear();
    device_outputs.clear();
    samples.clear();
    arena = Block();
    device_error = Block();
    error_word[0] = 0;
    input_copies = input_copy_bytes = bytes_fresh = bytes_recycled = 0;
    kernel_launches = reference_launches = other_launches = host_builtins = 0;
  }
};

}  // namespace tilewright
