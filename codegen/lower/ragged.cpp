// Lowering of ragged_dot: a table of where groups end, then blocks of rows that never cross a group.
#include "codegen/lower/program_builder.h"
#include "codegen/lower/tile_sizes.h"
#include "ir/accumulation.h"
#include "ir/inference.h"

namespace tilewright {

using tile::AccessMode;
using tile::Stage;
using tile::TileType;

namespace {

constexpr int64_t kMaxBlockRows = 128;
constexpr int64_t kMinBlockRows = 8;
constexpr int64_t kBlockColumns = 256;
constexpr int64_t kBlockDepth = 256;
constexpr int64_t kGroupsTogether = 256;  // of the table, a trip

class RaggedDot {
 public:
  RaggedDot(ProgramBuilder& builder, NodeId id)
      : builder_(builder), graph_(builder.graph()), id_(id), node_(graph_.node(id)) {
    const Shape &lhs = graph_.type(node_.operands[0]).shape, &rhs = graph_.type(node_.operands[1]).shape;
    m_ = lhs[0], k_ = lhs[1], n_ = rhs[2], groups_ = rhs[0];
    int64_t n = hint_of(n_, graph_.symbols), k = hint_of(k_, graph_.symbols);
    columns_ = clip_tile(n_, n, even_block(n_, kBlockColumns, 32));
    depth_ = clip_tile(k_, k, even_block(k_, kBlockDepth, 8));
    int64_t each = hint_of(m_, graph_.symbols) / hint_of(groups_, graph_.symbols);
    rows_ = kMinBlockRows;
    while (rows_ < each && rows_ < kMaxBlockRows) rows_ *= 2;
    table_type_ = TensorType{DType::I64, {groups_ + Dim(1), Dim(2)}};
    table_ = builder_.add_temporary(table_type_, "ends of groups");
  }

  Status emit() {
    emit_table();
    emit_product();
    return Status::ok();
  }

 private:
  // Row e of the table: the rows and the blocks of the groups before e.  Sizes that are negative or go past
  // the last row are cut.
  void emit_table() {
    tile::KernelBuilder kernel("");
    const TensorType& sizes_type = graph_.type(node_.operands[2]);
    int sizes =
        kernel.add_param(tile::Param{"sizes", sizes_type.dtype, sizes_type.shape, {}, AccessMode::Read});
    int table = kernel.add_param(tile::Param{"table", DType::I64, table_type_.shape, {}, AccessMode::Write});
    int64_t width = clip_tile(groups_, hint_of(groups_, graph_.symbols), kGroupsTogether);
    TileType line{DType::I64, {width}}, one{DType::I64, {}}, pair{DType::I64, {2}};
    kernel.store(kernel.integer(0, pair),
                 tile::Access{table, {{Dim(0), {}, {}}, {Dim(0), {{0, 1}}, {}}}, true});
    Dim at = kernel.begin_for(Dim(0), groups_, Dim(width), {kernel.integer(0, one), kernel.integer(0, one)});
    std::vector<ValueId> carried = kernel.loop_carries();
    auto binary = [&](Op op, ValueId a, ValueId b) { return kernel.elementwise(op, {a, b}); };
    ValueId zero = kernel.integer(0, line), most = kernel.index({m_, {}, {}}, line);
    ValueId wanted = kernel.convert(
        kernel.load(tile::Access{sizes, {{at, {{0, 1}}, {}}}, false}, TileType{sizes_type.dtype, {width}}),
        DType::I64);
    wanted = binary(Op::Minimum, binary(Op::Maximum, wanted, zero), most);
    auto running_sum = [&](ValueId value, ValueId carry) {
      return kernel.scan(tile::Combine::Sum, {value}, {carry}, 0, false, false, {groups_ - at});
    };
    std::vector<ValueId> sums = running_sum(wanted, carried[0]);
    ValueId end = binary(Op::Minimum, sums[0], most);
    ValueId begin = binary(Op::Minimum, binary(Op::Subtract, sums[0], wanted), most);
    ValueId padded = binary(Op::Add, binary(Op::Subtract, end, begin), kernel.integer(rows_ - 1, line));
    std::vector<ValueId> blocks =
        running_sum(binary(Op::Divide, padded, kernel.integer(rows_, line)), carried[1]);
    auto write = [&](ValueId value, int64_t column) {
      kernel.store(value, tile::Access{table, {{at + Dim(1), {{0, 1}}, {}}, {Dim(column), {}, {}}}, false});
    };
    write(end, 0);
    write(blocks[0], 1);
    kernel.end_block({sums[1], blocks[1]});
    builder_.launch_kernel(kernel.take(), {builder_.buffer_of(node_.operands[2]), table_},
                           "ragged_dot: groups", {id_.index});
  }

  int add_param(tile::KernelBuilder& kernel, const char* name, ValueId value, AccessMode mode) const {
    const TensorType& type = graph_.type(value);
    return kernel.add_param(tile::Param{name, type.dtype, type.shape, {}, mode});
  }

  // Block number p0 belongs to the group whose blocks it falls into; the rows behind the last group are a
  // group of zeros.
  void emit_product() {
    tile::KernelBuilder kernel("");
    lhs_ = add_param(kernel, "lhs", node_.operands[0], AccessMode::Read);
    rhs_ = add_param(kernel, "rhs", node_.operands[1], AccessMode::Read);
    int table = kernel.add_param(tile::Param{"table", DType::I64, table_type_.shape, {}, AccessMode::Read});
    out_ = add_param(kernel, "out", node_.results[0], AccessMode::Write);
    kernel.set_grid({Dim::floor_div(m_, Dim(rows_)) + groups_ + Dim(1), Dim::ceil_div(n_, Dim(columns_))});
    Dim block = tile::KernelBuilder::grid_id(0), column = tile::KernelBuilder::grid_id(1) * Dim(columns_);
    auto entry = [&](const Dim& row, int64_t which) {
      return kernel.load_scalar(tile::Access{table, {{row, {}, {}}, {Dim(which), {}, {}}}, true});
    };
    Dim group = kernel.begin_for(Dim(0), groups_, Dim(1), {});
    Dim first_block = entry(group, 1), last_block = entry(group + Dim(1), 1);
    kernel.begin_if(Dim::min(block + Dim(1) - first_block, last_block - block), {});
    Dim first_row = entry(group, 0), last_row = entry(group + Dim(1), 0);
    Dim row = first_row + (block - first_block) * Dim(rows_);
    store(kernel, product(kernel, group, row, column), row, column, last_row);
    kernel.end_block({});
    kernel.end_block({});
    Dim rest = block - entry(groups_, 1);
    kernel.begin_if(rest + Dim(1), {});
    Dim behind = entry(groups_, 0) + rest * Dim(rows_);
    ValueId zeros = kernel.integer(0, TileType{graph_.type(node_.results[0]).dtype, {rows_, columns_}});
    kernel.store(zeros, tile::Access{out_, {{behind, {{0, 1}}, {}}, {column, {{1, 1}}, {}}}, false});
    kernel.end_block({});
    builder_.launch_kernel(kernel.take(),
                           {builder_.buffer_of(node_.operands[0]), builder_.buffer_of(node_.operands[1]),
                            table_, builder_.buffer_of(node_.results[0])},
                           "ragged_dot", {id_.index});
  }

  ValueId product(tile::KernelBuilder& kernel, const Dim& group, const Dim& row, const Dim& column) const {
    DType in = graph_.type(node_.operands[0]).dtype;
    DType accumulate = accumulate_type_of(AttributeReader(node_.op, node_.attributes), in,
                                          graph_.type(node_.results[0]).dtype);
    ValueId acc = kernel.integer(0, TileType{accumulate, {rows_, columns_}});
    Dim depth = kernel.begin_for(Dim(0), k_, Dim(depth_), {acc});
    tile::Access a{lhs_, {{row, {{0, 1}}, {}}, {depth, {{1, 1}}, {}}}, false};
    tile::Access b{rhs_, {{group, {}, {}}, {depth, {{0, 1}}, {}}, {column, {{1, 1}}, {}}}, false};
    ValueId lhs = kernel.load(std::move(a), TileType{in, {rows_, depth_}}, {}, Stage::Packed);
    ValueId rhs = kernel.load(std::move(b), TileType{in, {depth_, columns_}}, {}, Stage::Packed);
    ValueId next = kernel.dot(lhs, rhs, kernel.loop_carries()[0], tile::DotDims{{1}, {0}, {}, {}});
    acc = kernel.end_block({next})[0];
    return kernel.convert(acc, graph_.type(node_.results[0]).dtype);
  }

  // Rows from `last_row` on belong to the next group.
  void store(tile::KernelBuilder& kernel, ValueId block, const Dim& row, const Dim& column,
             const Dim& last_row) const {
    tile::DimIndex columns{column, {{1, 1}}, {}};
    kernel.begin_if(last_row - row - Dim(rows_ - 1), {});
    kernel.store(block, tile::Access{out_, {{row, {{0, 1}}, {}}, columns}, false});
    kernel.end_block({});
    kernel.begin_if(row + Dim(rows_) - last_row, {});
    TileType line{DType::I64, {rows_, 1}};
    ValueId at = kernel.index({row, {{0, 1}}, {}}, line);
    ValueId inside = kernel.compare(at, kernel.index({last_row, {}, {}}, line), "LT");
    ValueId kept = kernel.elementwise(Op::Select, {inside, at, kernel.integer(-1, line)});
    kernel.store(block, tile::Access{out_, {{Dim(0), {}, kept}, columns}, false});
    kernel.end_block({});
  }

  ProgramBuilder& builder_;
  const Graph& graph_;
  NodeId id_;
  const Node& node_;
  Dim m_, k_, n_, groups_;
  int64_t rows_ = 1, columns_ = 1, depth_ = 1;
  TensorType table_type_;
  BufferId table_;
  int lhs_ = 0, rhs_ = 0, out_ = 0;
};

}  // namespace

Result<bool> lower_ragged(ProgramBuilder& builder, NodeId id) {
  if (builder.graph().node(id).op != Op::RaggedDot) return false;
  TW_RETURN_IF_ERROR(RaggedDot(builder, id).emit());
  return true;
}

}  // namespace tilewright
