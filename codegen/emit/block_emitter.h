// BlockEmitter: one tile program as one LLVM function that the threads of a block run together.
//
// An instance is a block's.  `for` and `if` are uniform; the points of a step are dealt to the threads, each
// of which takes groups of consecutive lanes, neighbours next to neighbours.  Tiles between steps lie in
// shared memory; barriers stand between steps of which one writes what another reads or writes.
#pragma once

#include <memory>

#include "codegen/emit/simt_ops.h"
#include "codegen/emit/tile_emitter.h"

namespace tilewright {

// The entry point `out->entry` in the context's module, and what a launch of it needs.
Status emit_block_kernel(const tile::Kernel& kernel, EmitContext context, EmittedKernel* out);

class BlockProduct;

class BlockEmitter final : public TileEmitter {
 public:
  BlockEmitter(const tile::Kernel& kernel, EmitContext context, llvm::Function* function);
  Status emit() override;
  int32_t threads() const { return threads_; }
  int64_t shared_bytes() const { return shared_bytes_; }
  // Blocks that should share a multiprocessor, so that one computes while another waits.
  int blocks_together() const;
  int64_t global_scratch_bytes() const { return global_bytes_; }

 private:
  friend class BlockProduct;
  // What a step reads or writes: scratch memory by its address, buffers by their params.
  using Resources = std::set<const void*>;

  // ---- frame (block_emitter.cpp) ----
  int32_t choose_threads() const;
  Value* buffer_pointer(Value* data) override;
  Status emit_instruction(const tile::Instruction& instruction) override;
  Status emit_for(const tile::Instruction& loop) override;
  Status emit_if(const tile::Instruction& branch) override;
  void emit_yield(const tile::Instruction& yield, const std::vector<ValueId>& params) override;
  void fill_tiles(const std::vector<ValueId>& values, const std::vector<ScratchTile>& targets) override;
  Value* new_scratch_bytes(int64_t bytes) override;
  // A barrier, if what comes reads what was written since the last one, or writes what was read or written.
  void synchronize(const Resources& reads, const Resources& writes);
  void barrier();
  void add_reads(ValueId value, Resources& reads) const;
  void add_definition_reads(const tile::Instruction& instruction, Resources& reads) const;
  void add_param(int param, Resources& resources) const;
  int64_t known_multiple(const Dim& value) const;

  // ---- points (block_points.cpp) ----
  // Calls the body for the numbers below `count` (or the run-time `end`) that are this thread's; the body
  // gets an i32.
  void for_own(int64_t count, const Body& body);
  void for_steps(Value* from, int64_t count, int64_t stride, int unroll,
                 const std::function<void(const std::vector<Value*>&)>& body);
  void for_groups_at(const Point& origin, const std::vector<int64_t>& shape, int vector_axis,
                     const Limits& limits, const Reads& reads, int unroll, const GroupBody& body) override;
  // How many lanes a thread takes at once, and when that is right; without lanes: never.
  struct Vectors {
    unsigned lanes = 0;
    Value* condition = nullptr;  // null: always
  };
  Vectors choose_lanes(const std::vector<int64_t>& shape, int vector_axis, const Limits& limits,
                       const Reads& reads, int64_t wanted_points);
  bool is_whole_access(const tile::Access& access, const Point& at, const Point& probe, int vector_axis,
                       unsigned lanes, bool& moves, Value*& condition);
  void require_multiple(const Dim& value, unsigned lanes, Value*& condition);
  // The body in both versions, where both can be needed: with lanes and without.
  void by_version(const Vectors& vectors, const std::function<void(unsigned lanes)>& body);
  // Axis indices of a point from its number, `axes` from the fastest on; an axis in lanes counts groups.
  void place(Value* number, const std::vector<int64_t>& shape, const std::vector<int>& axes, unsigned lanes,
             int vector_axis, Point& point);
  // Whether the point is within the limits; null: always.  Notes which indices those bound.
  Value* within(const Point& point, const Limits& limits);
  static std::vector<int> walk_order(const std::vector<int64_t>& shape, int fastest);

  // ---- memory (block_memory.cpp) ----
  Value* load_from(Value* base, DType dtype, int scope, const Address& address, const Point& point,
                   const tile::Literal& outside, bool proven) override;
  Value* load_one(llvm::Type* stored, Value* pointer, uint64_t align, int scope);
  void store_elements(int param, const Address& address, const Point& point, Value* value,
                      tile::StoreKind kind, bool is_streaming) override;
  void write_scratch_as(const ScratchTile& tile, DType dtype, const Point& point, Value* data) override;
  Value* safe_pointer() override;
  bool may_change(int scope) const;

  // ---- steps and reductions (block_step.cpp, block_reduce.cpp) ----
  // Running values of one reduction.
  struct Fold {
    const tile::Instruction* instruction = nullptr;
    std::vector<ScratchTile> results;
    std::vector<llvm::AllocaInst*> cells;
    llvm::AllocaInst* filled = nullptr;  // of custom combines: whether there was an element yet
  };
  using Partial = std::vector<Value*>;  // values of a fold, then whether there are any (custom combines)
  int points_in_flight(const TileStep& step) const;
  void emit_step(const TileStep& step) override;
  void emit_reduce(const tile::Instruction& instruction) override;
  // Loops over all points; `visit` evaluates a point and gives the operands of each fold to accumulate.
  void emit_folds(const std::vector<int64_t>& shape, const Ints& reduced, int vector_axis,
                  const Limits& limits, const Reads& reads, int unroll, std::vector<Fold>& folds,
                  const GroupBody& visit);
  // A shape as the axes that stay and those that are folded, each 1 in the other.
  struct SplitAxes {
    std::vector<int64_t> kept;
    Limits kept_limits;
    std::vector<int64_t> walked;
    Limits walked_limits;
  };
  static SplitAxes split_axes(const std::vector<int64_t>& shape, const Ints& reduced, const Limits& limits);
  // A thread's part of the folded points: `first`, and every `sharers`-th behind it.
  struct Share {
    Value* first;
    int64_t sharers, steps;
    int vector_axis;
    unsigned lanes;
  };
  void walk_share(const Share& share, const Point& outer, const std::vector<int64_t>& walked,
                  const Limits& limits, int unroll, const GroupBody& visit);
  void emit_row_folds(const std::vector<int64_t>& shape, const Ints& reduced, int vector_axis, unsigned lanes,
                      const Limits& limits, int unroll, std::vector<Fold>& folds, const GroupBody& visit);
  void emit_column_folds(const std::vector<int64_t>& shape, const Ints& reduced, int vector_axis,
                         unsigned lanes, const Limits& limits, int unroll, std::vector<Fold>& folds,
                         const GroupBody& visit);
  // Whether all threads fold one row and so know its result: it is then a value of each thread.
  bool is_known_to_all(const std::vector<int64_t>& shape, const Ints& reduced, int vector_axis) const;
  ScratchTile new_fold_tile(ValueId result, bool known_to_all);
  void start_folds(std::vector<Fold>& folds, unsigned lanes);
  void accumulate(Fold& fold, std::vector<Value*> values);
  Partial read_partial(const Fold& fold);
  Partial join(const Fold& fold, const Partial& left, const Partial& right);
  Partial fold_lanes_of(const Fold& fold, const Partial& partial, unsigned lanes);
  // Partials in shared memory, one a slot.
  struct PartialArea {
    std::vector<Value*> data;
    std::vector<llvm::Type*> types, stored;  // in registers and in memory
  };
  PartialArea new_area(const Partial& like, int64_t slots);
  void write_area(const PartialArea& area, Value* slot, const Partial& partial);
  Partial read_area(const PartialArea& area, Value* slot);
  void write_results(const Fold& fold, const Point& point, const Ints& reduced, const Partial& partial);

  // ---- what has an order (block_order.cpp) ----
  void emit_scan(const tile::Instruction& instruction) override;
  void emit_ordered_store(const tile::Instruction& store) override;
  void emit_report(const tile::Instruction& instruction) override;

  // ---- contractions (block_dot.cpp; block_tensor.cpp: on tensor cores) ----
  void emit_dot(const tile::Instruction& instruction) override;
  ScratchTile staged_operand(ValueId value);
  // Dots of a loop's body, each of which adds to the one before and the first to what the loop carries, and
  // nobody else reads that: their sums stay in registers.
  struct CarriedProduct {
    struct Link {
      const tile::Instruction* dot = nullptr;
      ValueId before;  // the carry, or the dot before
      std::shared_ptr<BlockProduct> product;
    };
    std::vector<Link> links;
    size_t index = 0;  // of the carry
    std::vector<Value*> sums;
  };
  std::vector<CarriedProduct> find_carried_products(const tile::Instruction& loop);
  // What the dot adds to, element by element: the carry or another dot's result; invalid: something else.
  ValueId added_to(ValueId value, ValueId carry) const;
  // The dot on tensor cores; false, with nothing emitted, where that is not for them.
  bool emit_tensor_dot(const tile::Instruction& dot);
  // A whole loop whose body is one dot into a carried tile; false, with nothing emitted, where that is not
  // the case.
  bool emit_tensor_loop(const tile::Instruction& loop);

  SimtOps ops_;
  int32_t threads_ = 0;
  Value* thread_ = nullptr;                     // i32
  Value* shared_ = nullptr;                     // base of shared memory
  Value* global_ = nullptr;                     // this block's part of the global scratch
  Value* all_aligned_ = nullptr;                // all data pointers are multiples of 16
  llvm::Instruction* global_stride_ = nullptr;  // stands for global_bytes_ until that is known
  int64_t shared_bytes_ = 0, global_bytes_ = 0;
  std::map<const tile::Instruction*, CarriedProduct*> carried_products_;
  int64_t product_registers_ = 0;                          // of a thread, for the sums of the largest product
  bool serial_ = false;                                    // loops over points are one thread's
  Resources read_, written_;                               // since the last barrier
  std::map<std::string, int64_t, std::less<>> multiples_;  // of loop variables
};

}  // namespace tilewright
