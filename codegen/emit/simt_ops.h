// SimtOps: what a thread of a block can ask its chip for: who it is, barriers, shuffles, tensor products,
// copies to shared memory.
//
// Two spellings, chosen by the module's triple: intrinsics of PTX, or calls of the functions of a simulator.
#pragma once

#include <array>
#include <functional>
#include <span>

#include "codegen/emit/emit_context.h"

namespace tilewright {

// Products of one warp on 16x8 accumulators in f32.
enum class MmaKind : int32_t { BF16 = 0, F16 = 1, TF32 = 2 };  // depth 16, 16, 8

class SimtOps {
 public:
  using Value = llvm::Value;
  explicit SimtOps(EmitContext& context);

  bool is_ptx() const { return is_ptx_; }
  Value* thread_id();    // i32
  Value* block_id();     // i64
  Value* block_count();  // i64
  Value* shared_base();  // pointer to the block's dynamic shared memory, aligned to 16 bytes
  // All threads of the block: memory written before is seen after.
  void barrier();

  // All lanes of a warp take part.  Values of 8 to 64 bits, or vectors of them; lanes beyond the warp wrap.
  Value* shuffle_xor(Value* value, uint32_t lanes);
  Value* shuffle_up(Value* value, uint32_t lanes);  // lanes below `lanes` keep their own
  Value* shuffle_index(Value* value, Value* lane);  // lane: i32

  // c += a * b with fragments as PTX lays them out: a: four i32, b: two i32, c: four floats.
  std::array<Value*, 4> mma(MmaKind kind, const std::array<Value*, 4>& a, const std::array<Value*, 2>& b,
                            const std::array<Value*, 4>& c);
  // Four 8x8 matrices of 16-bit elements; `row`: this lane's row of 16 bytes in shared memory.
  std::array<Value*, 4> load_matrix(Value* row, bool transposed);

  // 4, 8 or 16 bytes from global to shared memory; bytes from `valid` (i32) on become zeros.  In effect after
  // copy_wait and a barrier.
  void copy_async(Value* shared, Value* global, int bytes, Value* valid);
  void copy_commit();
  void copy_wait(int pending_groups);

 private:
  Value* shuffle_word(Value* word, Value* source_lane);
  // Calls `word` for each 32-bit piece of a value.
  Value* by_words(Value* value, const std::function<Value*(Value*)>& word);
  Value* call(const char* name, llvm::Type* result, std::span<Value* const> arguments);
  Value* lane_id();
  llvm::AllocaInst* entry_array(llvm::Type* element, unsigned count);

  EmitContext& context_;
  llvm::IRBuilder<>& b_;
  bool is_ptx_;
};

}  // namespace tilewright
