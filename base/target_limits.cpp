// The text form of TargetLimits: one `name=value` a field, in declaration order.
#include "base/target_limits.h"

#include "base/text.h"

namespace tilewright {

static const char* kind_name(TargetKind kind) {
  switch (kind) {
    case TargetKind::Null: return "null";
    case TargetKind::Cpu: return "cpu";
    case TargetKind::Simt: return "simt";
  }
  return "unknown";
}

std::string TargetLimits::to_text() const {
  return cat("kind=", kind_name(kind), " vector_bytes=", vector_bytes, " vector_registers=", vector_registers,
             " has_fma=", has_fma, " has_masks=", has_masks, " has_gather=", has_gather,
             " has_f16_convert=", has_f16_convert, " has_f16_arithmetic=", has_f16_arithmetic,
             " has_bf16_dot=", has_bf16_dot, " has_int8_dot=", has_int8_dot, " fma_per_cycle=", fma_per_cycle,
             " cache_line_bytes=", cache_line_bytes, " l1_bytes=", l1_bytes, " l2_bytes=", l2_bytes,
             " l3_bytes=", l3_bytes, " page_bytes=", page_bytes,
             " shared_bytes_per_block=", shared_bytes_per_block, " warp_threads=", warp_threads,
             " max_threads_per_block=", max_threads_per_block, " multiprocessors=", multiprocessors,
             " registers_per_thread=", registers_per_thread, " triple=", triple,
             " data_layout=", data_layout);
}

}  // namespace tilewright
