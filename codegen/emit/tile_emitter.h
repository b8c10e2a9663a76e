// TileEmitter: one tile program as one LLVM function for a CPU; what BlockEmitter derives for blocks of
// threads.
//
// Tiles are evaluated lazily, a point (16 lanes) at a time, inside the loops of whatever consumes them: a
// store, a reduction, a scan, a dot or a loop carry.  Values that several of these need and that cost
// something are materialised once in scratch memory.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <functional>
#include <map>
#include <optional>
#include <set>

#include "codegen/emit/elementwise.h"
#include "codegen/emit/emit.h"
#include "codegen/emit/product.h"
#include "codegen/emit/tile_plan.h"

namespace tilewright {

// Virtual lanes, the same on every chip: reductions give the same bits everywhere.
inline constexpr unsigned kLanes = 16;

// Where an element (or a row of lanes) of a tile is.
struct Point {
  std::vector<llvm::Value*> axis;  // i64 index of each axis; of the vector axis: the first lane's
  int vector_axis = -1;
  unsigned lanes = 0;           // 0: one element
  llvm::Value* mask = nullptr;  // lanes that exist (i1 vector); null: all
  bool inside = false;          // all affine accesses are known to be inside their buffers
  bool is_streaming = false;    // stores that may go around the caches are aligned for it
  // Accesses of unit stride along the vector axis are aligned to it, and inside as a whole when their first
  // lane is.
  bool is_whole = false;
};

// A tile in scratch memory.
struct ScratchTile {
  llvm::Value* data = nullptr;
  std::vector<int64_t> strides;  // elements
  bool is_padded = false;        // whole vectors along the axis of stride 1 may be read and written
};

// The op with which a store of that kind joins old and new elements.
Op combine_op(tile::StoreKind kind);

class TileEmitter {
 public:
  TileEmitter(const tile::Kernel& kernel, EmitContext context, llvm::Function* function);
  virtual ~TileEmitter() = default;
  virtual Status emit();
  int64_t scratch_bytes() const { return scratch_bytes_; }

 protected:
  using Value = llvm::Value;
  using Body = std::function<void(Value*)>;
  using PointBody = std::function<void(const Point&)>;

  // ---- skeleton (tile_emitter.cpp) ----
  // Symbols and params from arrays of scalars and of data pointers (the error word's last).
  void bind_arguments(Value* buffers, Value* scalars);
  void emit_instance(Value* instance);
  // A data pointer as the chip wants to see it.
  virtual Value* buffer_pointer(Value* data) { return data; }
  Status emit_block(const tile::Block& block);
  virtual Status emit_instruction(const tile::Instruction& instruction);
  virtual Status emit_for(const tile::Instruction& instruction);
  virtual Status emit_if(const tile::Instruction& instruction);
  virtual void emit_yield(const tile::Instruction& yield, const std::vector<ValueId>& params);
  // Evaluates values into tiles; those of one shape in one loop.
  virtual void fill_tiles(const std::vector<ValueId>& values, const std::vector<ScratchTile>& targets);
  // Whether the value is computed from other elements of these carries than its own; of tiles in these
  // places.
  bool reads_moved(ValueId value, const std::set<uint32_t>& params, bool moved) const;
  bool reads_places(ValueId value, const std::set<Value*>& places, bool moved) const;
  void emit_load_scalar(const tile::Instruction& instruction);
  virtual void emit_report(const tile::Instruction& instruction);
  Value* dim(const Dim& value);
  Value* atom(const Dim::Atom& atom);
  Value* i64(int64_t value) { return b_.getInt64(static_cast<uint64_t>(value)); }
  void for_loop(Value* from, Value* to, Value* step, const Body& body);
  void if_then(Value* condition, const std::function<void()>& body);
  llvm::AllocaInst* entry_alloca(llvm::Type* type);

  // ---- points (tile_points.cpp) ----
  const tile::TileType& type(ValueId value) const { return kernel_.type(value); }
  // What the body of a loop over points reads and writes in buffers: decides which points need no checks.
  struct Reads {
    std::vector<ValueId> values;
    std::vector<const tile::Instruction*> stores;
  };
  // Where an axis ends early; the expression tells which accesses end there too.
  struct Limit {
    Value* end = nullptr;
    Dim expression;
  };
  using Limits = std::map<int, Limit>;
  // Points that lie next to each other along the vector axis: one, or as many as the loop is unrolled.
  using GroupBody = std::function<void(const std::vector<Point>&)>;
  // All points of a shape: outer axes one by one, the vector axis in lanes; `limits` cut axes short.
  void for_points(const std::vector<int64_t>& shape, int vector_axis, const Limits& limits,
                  const Reads& reads, const PointBody& body);
  // The same from a given point on: axes of size 1 in `shape` stay where they are.
  void for_points_at(const Point& origin, const std::vector<int64_t>& shape, int vector_axis,
                     const Limits& limits, const Reads& reads, const PointBody& body);
  virtual void for_groups_at(const Point& origin, const std::vector<int64_t>& shape, int vector_axis,
                             const Limits& limits, const Reads& reads, int unroll, const GroupBody& body);
  // The body at one point, with and without checks where that is decided at run time.
  void run_point(const Reads& reads, const Point& point, const PointBody& body);
  void branch(Value* condition, const std::function<void()>& yes, const std::function<void()>& no);
  void lane_loop(const std::vector<int64_t>& shape, const Limits& limits, const Reads& reads, Point point,
                 int unroll, const GroupBody& body);
  // Lanes [begin, end) along the vector axis in which every access is inside; null: all of them.
  struct SafeRange {
    Value* begin = nullptr;
    Value* end = nullptr;
    Value* condition = nullptr;  // of the other axes
  };
  void cut_range(const tile::Access& access, const std::vector<int64_t>& shape, const Point& point,
                 SafeRange& range);
  SafeRange safe_range(const Reads& reads, const Point& point, Value* extent);
  static unsigned lane_count(int64_t size);
  static int last_axis(const std::vector<int64_t>& shape);
  Value* eval(ValueId value, const Point& point);
  Value* eval_fresh(ValueId value, const Point& point);
  Value* eval_elementwise(const tile::Instruction& instruction, const Point& point);
  Value* eval_load(const tile::Instruction& instruction, const Point& point);
  Value* eval_index(const tile::DimIndex& index, const Point& point);
  Value* eval_rng(const tile::Instruction& instruction, const Point& point);
  Value* read_scratch(const ScratchTile& tile, ValueId value, const Point& point);
  Value* read_scratch_as(const ScratchTile& tile, DType dtype, const Point& point);
  Point operand_point(const tile::Instruction& instruction, ValueId operand, const Point& point) const;
  Value* splat(Value* value, unsigned lanes);
  Value* lane_iota(unsigned lanes);
  ScratchTile new_scratch(const tile::TileType& type);
  virtual Value* new_scratch_bytes(int64_t bytes);
  static std::vector<int64_t> dense_strides(const std::vector<int64_t>& shape);
  void write_scratch(const ScratchTile& tile, ValueId value, const Point& point, Value* data);
  virtual void write_scratch_as(const ScratchTile& tile, DType dtype, const Point& point, Value* data);

  // ---- memory (tile_memory.cpp) ----
  struct ParamInfo {
    Value* data;
    std::vector<Value*> dims, strides;
  };
  // How an access moves along the vector axis, and where it starts.
  struct Address {
    Value* offset = nullptr;        // elements; of the first lane
    int64_t unit = 0;               // 1, 0 (does not move), or other
    Value* lane_offsets = nullptr;  // i64 vector when unit is neither
    Value* inside = nullptr;        // i1 or i1 vector; null: proven
    bool is_aligned = false;        // of unit 1: the lanes are a whole vector in memory
  };
  Address address(const tile::Access& access, const Point& point, bool proven);
  void fetch_ahead(const tile::Instruction& load, const Address& at, const Point& point);
  bool proven_inside(const tile::Access& access, const std::vector<int64_t>& shape) const;
  // Proven, given where the loops around the point end.
  bool proven_at(const tile::Access& access, const std::vector<int64_t>& shape, const Point& point) const;
  // `scope`: the param, or the number of params for scratch.  `proven`: no lane is outside.
  virtual Value* load_from(Value* base, DType dtype, int scope, const Address& address, const Point& point,
                           const tile::Literal& outside, bool proven);
  Value* load_elements(int param, const Address& address, const Point& point, const tile::Literal& outside);
  virtual void store_elements(int param, const Address& address, const Point& point, Value* value,
                              tile::StoreKind kind, bool is_streaming = false);
  void emit_store(const tile::Instruction& store, const Point& point, Value* value);
  Value* streaming_condition(const TileStep& step, int vector_axis);
  virtual void emit_ordered_store(const tile::Instruction& store);
  Value* element_pointer(Value* base, DType dtype, Value* offset);
  Value* literal(const tile::Literal& value, DType dtype);
  // True where every lane of the point is inside all accesses that are not proven (null: always).
  Value* all_inside(const Reads& reads, const Point& point);
  void add_inside(ValueId value, const Point& point, Value*& inside,
                  std::set<std::vector<const void*>>& seen);
  void add_access_inside(const tile::Access& access, const std::vector<int64_t>& shape, const Point& point,
                         Value*& inside);
  virtual Value* safe_pointer();
  void tag_param(llvm::Instruction* access, int scope);

  // ---- steps (tile_step.cpp) ----
  struct StepState;
  virtual void emit_step(const TileStep& step);
  int choose_vector_axis(const TileStep& step);
  int choose_unroll(const TileStep& step, int vector_axis) const;
  void visit_loads(ValueId value, const Point& probe,
                   const std::function<void(const tile::Instruction&, const Point&)>& found,
                   std::set<std::vector<const void*>>& seen);
  void stage_transposed_loads(const TileStep& step, int vector_axis);
  void emit_transposed_load(const tile::Instruction& load, int vector_axis, int contiguous_axis);
  void run_roots(StepState& state, const std::vector<Point>& group);
  void start_sums(StepState& state);
  void finish_sums(StepState& state, const std::vector<Point>& group);
  void emit_loops(StepState& state, const Limits& limits, const Reads& reads);
  void emit_row_sums(StepState& state, const Limits& limits, const Reads& reads);
  void emit_column_sums(StepState& state, const Limits& limits, const Reads& reads);
  Limits limit_values(const std::map<int, Dim>& limits, const std::vector<int64_t>& shape);

  // ---- reductions (tile_reduce.cpp) ----
  virtual void emit_reduce(const tile::Instruction& instruction);
  virtual void emit_scan(const tile::Instruction& instruction);
  std::vector<Value*> combine(const tile::Instruction& instruction, const std::vector<Value*>& left,
                              const std::vector<Value*>& right);
  // Folds the lanes of each accumulator in a fixed tree.
  std::vector<Value*> fold_lanes(const tile::Instruction& instruction, std::vector<Value*> lanes,
                                 unsigned count);
  // As fold_lanes, where lanes that never saw an element take no part.
  std::vector<Value*> fold_filled(const tile::Instruction& instruction, std::vector<Value*> lanes,
                                  Value* filled, unsigned count);
  Limits axis_limits(const tile::Instruction& instruction);
  // What a combine starts from: combining it with x gives x.
  Value* identity(tile::Combine combine, DType dtype);

  // ---- contractions (tile_dot.cpp) ----
  virtual void emit_dot(const tile::Instruction& instruction);
  // A tile where it lies, in a buffer or in scratch.
  struct TileView {
    DType dtype = DType::F32;
    Value* data = nullptr;
    std::vector<Value*> strides, sizes;  // sizes: that exist
    bool is_padded = false;
    int scope = 0;
  };
  TileView view_of(ValueId value);
  bool view_of_load(ValueId value, TileView& view);
  ScratchTile kept_tile(ValueId value);
  void emit_products(const tile::Instruction& instruction, const TileView& lhs, const TileView& rhs,
                     const ScratchTile& acc, DType dtype, bool is_fresh);
  bool starts_at_zero(const tile::Instruction& dot, const TileView& lhs, const TileView& rhs) const;
  std::optional<ScratchTile> carry_to_reuse(ValueId value) const;

  void fail(Status status) {
    if (status_.is_ok()) status_ = std::move(status);
  }

  const tile::Kernel& kernel_;
  EmitContext context_;
  llvm::IRBuilder<>& b_;
  llvm::Function* function_;
  Status status_;
  TilePlan plan_;
  std::map<uint32_t, ScratchTile> scratch_tiles_;
  std::set<uint32_t> carries_;  // of the loop whose body is being emitted
  std::map<std::string, Value*, std::less<>> symbols_;
  std::vector<std::pair<std::string, Value*>> moves_;  // grid id and loop variables, with their steps
  bool in_step_ = false;
  std::set<const tile::Instruction*> fetched_, fetched_now_;  // loads fetched ahead: before, in this step
  std::vector<ParamInfo> params_;
  Value* scratch_ = nullptr;
  Value* error_word_ = nullptr;
  int64_t scratch_bytes_ = 64;                       // the first line is a safe address for lanes outside
  std::map<std::vector<const void*>, Value*> memo_;  // values at points, inside one body
  std::map<Value*, Dim> index_limits_;               // of loop indices: where their loops end
  std::map<uint32_t, Value*> bound_;                 // block params of custom combines
  std::set<const tile::Access*> whole_accesses_;     // those that Point::is_whole is about
  llvm::MDNode* scope_domain_ = nullptr;
  std::vector<llvm::MDNode*> scopes_, other_scopes_;
};

}  // namespace tilewright
