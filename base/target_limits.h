// TargetLimits: what code generation may know about a chip, as plain data.
#pragma once

#include <cstdint>
#include <string>

namespace tilewright {

enum class TargetKind : int32_t {
  Null = 0,  // compiles and runs nothing
  Cpu = 1,   // kernels are host functions over a flattened grid
  Simt = 2,  // kernels are entry points run by blocks of threads
};

// All sizes are bytes unless the name says otherwise; a zero means "does not apply".
struct TargetLimits {
  TargetKind kind = TargetKind::Null;

  // Vector unit.
  int32_t vector_bytes = 16;
  int32_t vector_registers = 16;
  bool has_fma = false;          // without it, multiply then add: other bits
  bool has_masks = false;        // per-lane predicated loads, stores and arithmetic
  bool has_gather = false;       // vector gather that is no slower than scalar loads
  bool has_f16_convert = false;  // f16 <-> f32 in one instruction
  bool has_f16_arithmetic = false;
  bool has_bf16_dot = false;  // bf16 products accumulated in f32
  bool has_int8_dot = false;  // i8 products accumulated in i32
  int32_t fma_per_cycle = 1;  // full-width vector FMAs (or multiply-adds) that start in a cycle

  // Memory.
  int64_t cache_line_bytes = 64;
  int64_t l1_bytes = 32 * 1024;   // data cache of one core
  int64_t l2_bytes = 512 * 1024;  // one core's share
  int64_t l3_bytes = 0;           // shared by the cores of a cluster; 0: none
  int64_t page_bytes = 4096;

  // Devices with blocks of threads.
  int64_t shared_bytes_per_block = 0;
  int32_t warp_threads = 0;
  int32_t max_threads_per_block = 0;
  int32_t multiprocessors = 0;
  int32_t registers_per_thread = 0;

  // What LLVM calls the chip; the emitter gives both to the module it makes.
  std::string triple;
  std::string data_layout;

  // Relocatable text of every field, for keys and dumps.
  std::string to_text() const;
};

}  // namespace tilewright
