// compact_indices@1: flat positions of the true elements in order, padded with the element count.
#include <algorithm>
#include <vector>

#include "targets/cpu/builtins/builtins.h"
#include "targets/cpu/builtins/lines.h"

namespace tilewright::builtins {

static constexpr int64_t kPart = 1 << 16;

Status run_compact_indices(const BuiltinCall& call, ParallelFor parallel_for) {
  const BuiltinTensor &mask = call.inputs[0], &indices = call.outputs[0];
  const uint8_t* flags = data_of<const uint8_t>(mask);
  int64_t length = elements_of(mask), bound = indices.sizes[0], parts = (length + kPart - 1) / kPart;
  // Where the indices of each part begin: counted first, so that parts can be written at the same time.
  std::vector<int64_t> starts(static_cast<size_t>(parts) + 1, 0);
  auto range_end = [&](int64_t part) { return std::min(length, (part + 1) * kPart); };
  TW_RETURN_IF_ERROR(parallel(parallel_for, parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      int64_t count = 0;
      for (int64_t i = part * kPart; i < range_end(part); ++i) count += flags[i] != 0;
      starts[static_cast<size_t>(part) + 1] = count;
    }
  }));
  for (size_t part = 0; part < static_cast<size_t>(parts); ++part) starts[part + 1] += starts[part];
  TW_RETURN_IF_ERROR(parallel(parallel_for, parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      int64_t at = starts[static_cast<size_t>(part)];
      for (int64_t i = part * kPart; i < range_end(part) && at < bound; ++i) {
        if (flags[i]) put_index(indices, at++, i);
      }
    }
  }));
  int64_t count = starts.back();
  for (int64_t at = std::min(count, bound); at < bound; ++at) put_index(indices, at, length);
  *data_of<int64_t>(call.outputs[1]) = count;
  return Status::ok();
}

}  // namespace tilewright::builtins
