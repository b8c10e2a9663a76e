// Machine: a kernel prepared for interpretation, and the state of one instance: symbols and tiles.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "codegen/tile/dim_program.h"
#include "codegen/tile/tile.h"

namespace tilewright::tile {

// The storage of one value: elements as in memory, row-major.
struct TileData {
  DType dtype = DType::F32;
  int64_t width = 4;
  int64_t elements = 1;
  const std::vector<int64_t>* shape = nullptr;
  std::byte* data = nullptr;

  std::byte* at(int64_t element) const { return data + element * width; }
};

// A buffer parameter with its sizes bound.
struct BoundParam {
  std::byte* data = nullptr;
  int64_t width = 4;
  std::vector<int64_t> extents;
  std::vector<int64_t> strides;
};

// An instruction with its expressions compiled.
struct Step {
  const Instruction* instruction = nullptr;
  std::vector<CompiledDim> bases;                  // one a buffer dim of the access
  std::vector<std::vector<int64_t>> coefficients;  // [buffer dim][tile axis]
  std::vector<std::vector<int64_t>> tile_strides;  // [buffer dim][tile axis] of its index tile; empty: affine
  std::vector<CompiledDim> limits;
  CompiledDim from, to, step, condition;
  int slot = -1;  // of the symbol that it sets
  std::vector<std::vector<Step>> blocks;
};

inline void copy_element(std::byte* to, const std::byte* from, int64_t width) {
  switch (width) {
    case 1: *to = *from; break;
    case 2: __builtin_memcpy(to, from, 2); break;
    case 4: __builtin_memcpy(to, from, 4); break;
    default: __builtin_memcpy(to, from, 8); break;
  }
}

class Machine {
 public:
  explicit Machine(const Kernel& kernel) : kernel_(kernel) {}

  Status prepare(std::span<void* const> buffers, std::span<const int64_t> scalars);
  Status run(int64_t first, int64_t last);
  const std::vector<int64_t>& grid() const { return grid_; }

 private:
  Status bind_scalars(std::span<const int64_t> scalars);
  Status bind_params(std::span<void* const> buffers);
  void allocate_tiles();
  void add_slots(const Block& block);
  Result<std::vector<Step>> prepare_block(const Block& block);
  Result<Step> prepare_step(const Instruction& instruction);
  Status prepare_access(const Instruction& instruction, Step& step);

  const TileData& tile(ValueId id) const { return tiles_[id.index]; }
  Result<int64_t> evaluate(const CompiledDim& dim) const;
  Status fail(const Instruction& instruction, const std::string& what) const;

  Status run_block(const std::vector<Step>& steps);
  Status run_step(const Step& step);
  Status run_for(const Step& step);
  Status run_if(const Step& step);
  void copy_values(const std::vector<ValueId>& from, const std::vector<ValueId>& to);

  // Memory (machine_memory.cpp)
  template <class Visit>
  Status walk(const Step& step, const std::vector<int64_t>& shape, Visit visit);
  Status run_load(const Step& step);
  Status run_store(const Step& step);
  Status run_load_scalar(const Step& step);
  Status run_index(const Step& step);
  Status run_report(const Step& step);

  // Tiles (machine_compute.cpp, machine_reduce.cpp)
  Status run_elementwise(const Instruction& instruction);
  void run_const(const Instruction& instruction);
  void run_rearrange(const Instruction& instruction);
  void run_rng_bits(const Instruction& instruction);
  Status run_dot(const Instruction& instruction);
  Status run_reduce(const Step& step);
  template <class Wide>
  void reduce_widely(const Instruction& reduce, const std::vector<int64_t>& limits);
  Status run_scan(const Step& step);
  Status combine_into(const Step& step, const std::vector<std::byte*>& left,
                      const std::vector<const std::byte*>& right, const std::vector<std::byte*>& out);

  const Kernel& kernel_;
  SlotTable slot_table_;
  std::vector<int64_t> slots_;
  std::vector<int64_t> grid_;
  std::vector<BoundParam> params_;
  int64_t* error_word_ = nullptr;
  std::vector<TileData> tiles_;
  std::unique_ptr<std::byte[]> storage_;
  std::vector<Step> body_;
  std::vector<std::byte> copy_buffer_;
  int64_t instance_ = 0;
};

}  // namespace tilewright::tile
