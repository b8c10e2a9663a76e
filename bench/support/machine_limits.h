// What one core of this machine can do at most: measured, not looked up.
#pragma once

#include <cstdint>
#include <vector>

namespace tilewright::bench {

// Multiply-adds of f32 a second, times two, with vectors of `vector_bytes`: one short burst.
double measure_fma_flops(int64_t vector_bytes);

// Bytes read plus bytes written a second by copies between two areas that are in the page tables already.
class CopyProbe {
 public:
  explicit CopyProbe(int64_t bytes);
  double measure();

 private:
  std::vector<char> from_, to_;
  int64_t bytes_;
};

}  // namespace tilewright::bench
