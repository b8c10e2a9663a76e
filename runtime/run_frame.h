// RunFrame: the memory and pointers of one run; frames are kept and used again, so that a run allocates
// nothing itself.
#pragma once

#include <vector>

#include "ir/reference/kernel.h"
#include "runtime/memory.h"

namespace tilewright {

// An output computed elsewhere and copied to the caller's tensor at the end.
struct OutputCopy {
  TensorRef from, to;
};

struct RunFrame {
  std::vector<void*> pointers;                      // one a buffer
  std::vector<std::vector<int64_t>> input_strides;  // of the memory that `pointers` names, one an input
  std::vector<void*> arguments;                     // of the launch that runs
  std::vector<Block> blocks;                        // copies of inputs, outputs that are copied at the end
  std::vector<OutputCopy> output_copies;
  Block arena;
  Block scratch;
  int64_t scratch_stride = 0;
  int64_t error_word[3] = {0, 0, 0};
  // Counted here, added to the totals when the run ends.
  int64_t input_copies = 0, bytes_fresh = 0, bytes_recycled = 0;
  int64_t kernel_launches = 0, reference_launches = 0, other_launches = 0;

  void reset() {
    blocks.clear();
    output_copies.clear();
    arena = Block();
    error_word[0] = 0;
    input_copies = bytes_fresh = bytes_recycled = 0;
    kernel_launches = reference_launches = other_launches = 0;
  }
};

}  // namespace tilewright
