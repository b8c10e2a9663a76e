// BlockProduct: a matrix product by all threads of a block, operands staged in shared memory, sums in
// registers.
//
// Warps multiply by tensor instructions where operands are 16-bit floats and sums f32; else each thread
// multiplies sums of its own.  In a loop over the depth, operands of later steps are on their way while one
// is multiplied.
#pragma once

#include "codegen/emit/block_emitter.h"
#include "codegen/emit/block_layout.h"

namespace tilewright {

class BlockProduct {
 public:
  BlockProduct(BlockEmitter& emitter, const tile::Instruction& dot);

  // Whether the dot is a product of this kind and fits; `loop`: the innermost loop around it, or null.
  // `host`: one whose shared memory will do, as the two multiply one after the other and only the last
  // finishes.
  bool plan(const tile::Instruction* loop, const BlockProduct* host = nullptr);
  // The dot on its own.
  ScratchTile emit();
  // The dot in a loop that carries its sums: before the loop prepare and start, in its body add, after it
  // finish.
  using Sums = std::vector<llvm::Value*>;
  void prepare();
  // The values of acc; `carry`, which it may read in place, has the given ones.
  Sums start(ValueId acc, ValueId carry = {}, const Sums* carried = nullptr);
  // At the start of the body: the right operand on its way, where it is a plain load.
  void stage_ahead();
  Sums add(ValueId carry, const Sums& sums);
  // Sums go to shared memory, where whatever follows reads them.
  ScratchTile finish(const Sums& sums);
  int64_t register_count() const { return layout_.registers(); }
  bool has_sums_of(const BlockProduct& other) const {
    return dtype_ == other.dtype_ && layout_ == other.layout_;
  }
  // Loops around nothing but the dot.
  ScratchTile emit_loops(const tile::Instruction& outermost);

 private:
  using Value = llvm::Value;
  // One side of the product.
  struct Operand {
    ValueId value;
    int free_axis = 0, depth_axis = 1;
    StagedTile tile;
    int64_t offset = 0;  // in a slot
    bool is_evaluated = false;
    // Warps: where this lane reads, as base + table[i] + constant; see prepare_lanes().
    Value* base = nullptr;
    std::vector<Value*> table;
  };

  int contiguous_axis(ValueId value) const;
  void plan_operand(Operand& operand, ValueId value, int64_t depth_axis, int64_t free, int64_t group);
  bool has_padding(const Operand& operand) const;

  // ---- staging ----
  void stage(const Operand& operand, Value* slot);
  void stage_view(const Operand& operand, const BlockEmitter::TileView& view, Value* to);
  void copy_chunks(const Operand& operand, const BlockEmitter::TileView& view, Value* to);
  void gather_chunks(const Operand& operand, const BlockEmitter::TileView& view, Value* to);
  void stage_evaluated(const Operand& operand, Value* to);
  void clear_padding();
  Value* chunk_offset(const StagedTile& tile, Value* row, Value* chunk);

  // ---- sums ----
  void prepare_lanes(Operand& operand, Value* warp_base, bool is_lhs);
  // Calls the body for each run of neighbouring sums of this thread: where it is, its registers.
  void for_sums(const std::function<void(Value* row, Value* column, size_t first, unsigned count)>& body);
  // The product before in a loop's body has left the right operand where it is wanted.
  bool is_rhs_there() const;
  Sums multiply_staged(const Sums& sums);
  Sums emit_nest(const tile::Instruction& loop, const Sums& sums);
  Sums pipeline(const tile::Instruction& loop, const Sums& sums);
  Sums multiply(Value* slot, const Sums& sums);
  Sums multiply_by_warps(Value* slot, const Sums& sums);
  Sums multiply_by_threads(Value* slot, const Sums& sums);
  std::vector<Value*> read_share(const Operand& operand, Value* slot, Value* thread, int64_t threads,
                                 int64_t each, int64_t group, Value* step);

  Value* i32(int64_t value) { return b_.getInt32(static_cast<uint32_t>(value)); }
  Value* at(Value* base, Value* offset);
  Value* at(Value* base, int64_t offset);

  BlockEmitter& e_;
  llvm::IRBuilder<>& b_;
  const tile::Instruction& dot_;
  DType dtype_ = DType::F32;  // of the sums
  SumLayout layout_;
  Operand lhs_, rhs_;
  int64_t depth_ = 1, depth_step_ = 1;  // padded; multiplied at once
  int64_t slot_bytes_ = 0, slots_ = 1, sums_stride_ = 1, region_bytes_ = 0;
  bool is_rhs_ahead_ = false;
  const BlockProduct* host_ = nullptr;                  // whose region this is, if not its own
  Value* region_ = nullptr;                             // the slots, then the sums
  Value *part_row_ = nullptr, *part_column_ = nullptr;  // of the grid of warps or threads
  Value* is_active_ = nullptr;                          // null: always
};

}  // namespace tilewright
