// Runs a tile kernel on the interpreter and compiled, on the same random buffers.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "codegen/tile/tile.h"
#include "targets/target.h"

namespace tilewright {

// A kernel with values for its symbols and memory for its params.
struct TileRun {
  std::vector<int64_t> scalars;
  std::vector<std::vector<unsigned char>> buffers;
  int64_t instances = 0;
  std::vector<void*> pointers();
};
// Buffers of random values: floats in [-1, 1], integers in [0, `integers`).
Result<TileRun> prepare_run(const tile::Kernel& kernel, const std::map<std::string, int64_t>& symbols,
                            uint64_t seed, int64_t integers = 8);

struct CompiledTile {
  std::shared_ptr<const LoadedCode> code;
  KernelFunction function = nullptr;
  std::string entry;
  int64_t scratch_bytes = 0;
  int32_t threads_per_block = 0;  // 0: host-callable
  int64_t shared_bytes = 0;
  double emit_seconds = 0, compile_seconds = 0;
};
Result<CompiledTile> compile_tile(const Target& target, const tile::Kernel& kernel, bool lean = true);
Status run_compiled(const Target& target, const CompiledTile& code, TileRun& run);

// Largest difference of written buffers, relative to 1 + |want|, and where.
struct Difference {
  double error = 0;
  std::string where;
};
Difference compare_runs(const tile::Kernel& kernel, const TileRun& got, const TileRun& want);

// Interprets, compiles for every runnable target and for simulated blocks of threads, compares; answers what
// is wrong, or nothing.
std::string check_tile(const tile::Kernel& kernel, const std::map<std::string, int64_t>& symbols,
                       double tolerance, int64_t integers = 8);

}  // namespace tilewright
