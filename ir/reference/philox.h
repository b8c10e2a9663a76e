// Philox4x32-10: a counter-based random generator, bit exact everywhere.
#pragma once

#include <array>
#include <cstdint>

namespace tilewright {

// The four words for a 128-bit counter (low word first) and a 64-bit key.
std::array<uint32_t, 4> philox4x32_10(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

}  // namespace tilewright
