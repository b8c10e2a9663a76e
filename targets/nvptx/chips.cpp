// The table of chips and their limits.
#include "targets/nvptx/chips.h"

namespace tilewright {
namespace {

constexpr Chip kChips[] = {
#define CHIP(spelling, ptx, shared_kib, multiprocessors, l2_mib, summary) \
  {spelling, ptx, shared_kib << 10, multiprocessors, static_cast<int64_t>(l2_mib) << 20, summary},
#include "targets/nvptx/chips.def"
#undef CHIP
};

}  // namespace

std::span<const Chip> all_chips() { return kChips; }

const Chip* find_chip(std::string_view name) {
  for (const Chip& chip : kChips)
    if (chip.name == name) return &chip;
  return nullptr;
}

TargetLimits limits_of(const Chip& chip) {
  TargetLimits limits;
  limits.kind = TargetKind::Simt;
  limits.vector_bytes = 16;  // widest access of one thread
  limits.vector_registers = 64;
  limits.has_fma = limits.has_masks = limits.has_gather = true;
  limits.has_f16_convert = limits.has_f16_arithmetic = limits.has_bf16_dot = limits.has_int8_dot = true;
  limits.cache_line_bytes = 128;
  limits.l1_bytes = chip.shared_bytes;
  limits.l2_bytes = chip.l2_bytes;
  limits.shared_bytes_per_block = chip.shared_bytes;
  limits.warp_threads = 32;
  limits.max_threads_per_block = 1024;
  limits.multiprocessors = chip.multiprocessors;
  limits.registers_per_thread = 255;
  return limits;
}

}  // namespace tilewright
