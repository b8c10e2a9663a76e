// What one core of this machine can do at most: measured, not looked up.
#pragma once

#include <cstdint>

namespace tilewright::bench {

// Multiply-adds of f32 a second, times two, with vectors of `vector_bytes`.
double measure_fma_flops(int64_t vector_bytes);
// Bytes read plus bytes written a second by a copy of `bytes` (memory that is in the page tables already).
double measure_copy_bytes(int64_t bytes);

}  // namespace tilewright::bench
