// Tile programs: a kernel as a grid of independent instances over tiles of static shape.  The same on every
// chip.
//
// kernel @softmax_rows[N](%x: f32[M,N], %y: out f32[M,N]) grid (M) { ... }
//
// Integers that address memory are Dim expressions over: graph symbols, grid ids `p0`, `p1`, .. , loop
// variables and loaded scalars.  Tile values are SSA, typed by dtype and static shape; `for` carries tiles.
// Rules that make instances independent: of a buffer that is written, an instance reads only elements that no
// other instance writes; inside an instance, accesses to one buffer take effect in program order.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"

namespace tilewright::tile {

using tilewright::ValueId;

enum class AccessMode : uint8_t { Read, Write, ReadWrite };

// A buffer parameter.  Strides are in elements (empty: dense row-major) and may be symbols.
struct Param {
  std::string name;
  DType dtype = DType::F32;
  Shape dims;
  std::vector<Dim> strides;
  AccessMode mode = AccessMode::Read;
};

struct TileType {
  DType dtype = DType::F32;
  std::vector<int64_t> shape;  // empty: one element
  int64_t elements() const;
  std::string to_string() const;  // "f32 tile[8,128]"
  friend bool operator==(const TileType&, const TileType&) = default;
};

struct TileValue {
  TileType type;
  std::string name;  // text name, or empty: numbered
};

// One buffer dim of an access: base + sum of coefficient * tile axis + value of the index tile.
struct AxisTerm {
  int axis;
  int64_t coefficient;
};
struct DimIndex {
  Dim base;
  std::vector<AxisTerm> terms;
  ValueId tile;  // i32 or i64 tile, each dim equal to the accessed tile's or 1; invalid: affine
};

// Where the loaded block lives until it is used.  Set by the cost model, printed, never another op.
enum class Stage : uint8_t { Registers, Direct, Packed };

struct Access {
  int param = 0;
  std::vector<DimIndex> index;  // one a buffer dim; each is checked against that dim's extent
  bool in_bounds = false;       // proven: no check needed
};

enum class Opcode : uint8_t {
  Elementwise,  // `op` of kind Elementwise on tiles of one shape; attributes as at graph level
  Const,        // splat of `literal`
  Index,        // integer tile: base + sum of coefficient * axis (access.index[0])
  Load,         // block of a buffer; elements outside the buffer are `literal`
  Store,  // block to a buffer; elements outside are dropped.  With index tiles: a scatter in row-major order
  LoadScalar,  // one integer element of a buffer, named `symbol`, usable in later expressions
  Broadcast,   // operand axis i becomes result axis axes[i]; missing axes and size-1 axes are repeated
  Transpose,   // result axis i is operand axis axes[i]
  Reshape,     // row-major regrouping of adjacent axes
  Reduce,      // over `axes`, which go away; k operands, k results, combined by `combine`
  Scan,  // along axes[0]: k operands then k carry-in tiles (without the axis); k results then k carry-outs
  Dot,   // a, b, acc: dimension numbers as in dot_general; result: batch, free of a, free of b (= acc's type)
  RngBits,  // state (u64 tile[2]), index (i64 tile): word index%4 of Philox4x32-10 at counter state[1] +
            // index/4, u32
  For,      // `symbol` = from, from+step, .. < to; operands are the initial carries; block 0 with one param a
            // carry
  If,       // operands and block as For, run once when condition > 0, else the carries pass through
  Yield,    // ends a block
  Report,  // pred (bool tile), value (i64 tile): where pred holds, records `site` and the first such value in
           // the error word
};

enum class Combine : uint8_t { Sum, Product, Max, Min, And, Or, Xor, Custom };
// How Store combines with what is there, element by element in row-major order of the tile.
enum class StoreKind : uint8_t { Set, Add, Multiply, Min, Max };

struct DotDims {
  Ints lhs_contract, rhs_contract, lhs_batch, rhs_batch;
  friend bool operator==(const DotDims&, const DotDims&) = default;
};

struct Literal {
  double f = 0;   // float dtypes
  int64_t i = 0;  // integer dtypes and bool
};

struct Instruction;
struct Block {
  std::vector<ValueId> params;
  std::vector<Instruction> body;  // ends with Yield when the block yields
};

struct Instruction {
  Opcode opcode = Opcode::Elementwise;
  Op op = Op::Add;
  std::vector<ValueId> operands;
  std::vector<ValueId> results;
  AttributeMap attributes;         // Elementwise
  Literal literal;                 // Const; Load: the value outside
  Access access;                   // Load, Store, LoadScalar, Index
  Stage stage = Stage::Registers;  // Load
  int depth = 1;                   // Load: buffers in flight
  bool streaming = false;          // Store: nobody reads it soon
  StoreKind store = StoreKind::Set;
  Ints axes;  // Broadcast, Transpose, Reduce, Scan
  // Reduce: one an axis of `axes`; Scan: one.  Elements at that index and beyond take no part (a scan's
  // results there are unspecified); empty: all take part.  How a tile that reaches over the end of a buffer
  // is reduced.
  std::vector<Dim> limits;
  bool reverse = false;    // Scan
  bool exclusive = false;  // Scan
  Combine combine =
      Combine::Sum;  // Reduce, Scan; Custom: block 0 takes k left then k right elements (0-d tiles), yields k
  DotDims dot;
  Ints micro;  // Dot: rows and columns of the register block; empty: the emitter's choice for the chip
  bool epilogue_micro = false;  // Dot in the last k step: what follows is emitted a micro-tile at a time
  std::string symbol;           // For, LoadScalar
  Dim from, to, step;           // For
  Dim condition;                // If
  int site = 0;                 // Report: index into the program's error sites
  std::vector<Block> blocks;    // For, If, custom combines
};

struct Kernel {
  std::string name;
  std::vector<Symbol>
      symbols;                // run-time integers, in the order of the scalar arguments, with range and hint
  std::vector<Param> params;  // in the order of the buffer arguments
  bool reports =
      false;  // takes the error word as one more buffer behind the params: i64[3] = {site + 1, value, unused}
  std::vector<Dim> grid;  // instances are numbered row-major; an empty grid is one instance
  std::vector<TileValue> values;
  Block body;

  const TileType& type(ValueId id) const { return values[id.index].type; }
};

// Symbol of a grid id: "p0", "p1", ...
inline std::string grid_symbol(int axis) { return "p" + std::to_string(axis); }

// Appends instructions to nested blocks; types of results are computed, mistakes are found by verify().
class KernelBuilder {
 public:
  explicit KernelBuilder(std::string name);

  Kernel& kernel() { return kernel_; }
  Kernel take() { return std::move(kernel_); }
  int add_param(Param param);
  void set_grid(std::vector<Dim> grid) { kernel_.grid = std::move(grid); }
  static Dim grid_id(int axis) { return Dim::symbol(grid_symbol(axis)); }
  const TileType& type(ValueId id) const { return kernel_.type(id); }

  ValueId elementwise(Op op, std::vector<ValueId> operands, AttributeMap attributes = {});
  ValueId constant(double value, TileType type);  // rounded to the dtype
  ValueId integer(int64_t value, TileType type);
  ValueId index(DimIndex value, TileType type);
  ValueId load(Access access, TileType type, Literal outside = {}, Stage stage = Stage::Registers);
  void store(ValueId value, Access access, StoreKind kind = StoreKind::Set, bool streaming = false);
  Dim load_scalar(Access access);  // the new symbol
  ValueId broadcast(ValueId value, std::vector<int64_t> shape, Ints axes);
  ValueId transpose(ValueId value, Ints perm);
  ValueId reshape(ValueId value, std::vector<int64_t> shape);
  ValueId reduce(Combine combine, ValueId value, Ints axes, std::vector<Dim> limits = {});
  std::vector<ValueId> scan(Combine combine, std::vector<ValueId> values, std::vector<ValueId> carries,
                            int64_t axis, bool reverse, bool exclusive, std::vector<Dim> limits = {});
  ValueId dot(ValueId a, ValueId b, ValueId acc, DotDims dims);
  ValueId rng_bits(ValueId state, ValueId index);
  void report(ValueId pred, ValueId value, int site);
  ValueId convert(ValueId value, DType dtype);  // the value itself when already right
  ValueId compare(ValueId a, ValueId b, const char* direction);

  // For / If: begin, use loop_carries() inside, end with the values to yield; returns the results.
  Dim begin_for(Dim from, Dim to, Dim step, std::vector<ValueId> carries);
  void begin_if(Dim condition, std::vector<ValueId> carries);
  const std::vector<ValueId>& loop_carries() const { return open_.back().blocks[0].params; }
  std::vector<ValueId> end_block(std::vector<ValueId> yields);
  // Reduce or Scan with a custom combine: begin, build on combine_params() (k left, k right, 0-d), end.
  void begin_custom(Opcode opcode, std::vector<ValueId> operands, Ints axes, bool reverse, bool exclusive,
                    std::vector<Dim> limits = {});
  std::vector<ValueId> combine_params() const { return open_.back().blocks[0].params; }
  std::vector<ValueId> end_custom(std::vector<ValueId> yields);

  ValueId add_value(TileType type);
  void append(Instruction instruction);

 private:
  Kernel kernel_;
  std::vector<Instruction> open_;  // enclosing For, If and combines, outermost first
  int next_symbol_ = 0;
};

// Element type of the results of an elementwise op on operands of these types.
DType elementwise_dtype(Op op, const AttributeMap& attributes, const std::vector<DType>& operands);

// Text form (codegen/tile/printer.cpp, parser.cpp): exact round trip; the canonical text is what a kernel key
// hashes.
std::string print(const Kernel& kernel);
// Values and loop symbols renumbered in order, the name dropped: equal for kernels that do the same.
std::string canonical_text(const Kernel& kernel);
Result<Kernel> parse_kernel(std::string_view text);  // verified

// Names of all symbols that the kernel's expressions mention, loop variables and grid ids included.
void collect_symbols(const Kernel& kernel, std::vector<std::string>& names);

// Shapes, dtypes, dominance, access ranks, symbols, block structure; all violations joined.
Status verify(const Kernel& kernel);

}  // namespace tilewright::tile
