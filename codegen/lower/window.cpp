// Lowering of windowed reductions: a tile of output elements, a loop over the cells of the window.
#include <algorithm>

#include "base/text.h"
#include "codegen/lower/program_builder.h"
#include "ir/inference.h"
#include "ir/reference/scalar.h"

namespace tilewright {

using tile::TileType;

namespace {

constexpr int64_t kLanes = 256;

int64_t fit(const Dim& size, int64_t limit) {
  return size.is_constant() ? std::max<int64_t>(1, std::min(size.constant(), limit)) : limit;
}

int64_t entry(const Ints& list, int dim, int64_t fallback) { return list.empty() ? fallback : list[dim]; }

// Window geometry of reduce_window and select_and_scatter_add.
struct Window {
  Ints size, strides, dilation, base_dilation, lo;

  explicit Window(const AttributeReader& attributes)
      : size(attributes.get_ints("window")),
        strides(attributes.get_ints("strides")),
        dilation(attributes.get_ints("dilation")),
        base_dilation(attributes.get_ints("base_dilation")),
        lo(attributes.get_ints("pad_lo")) {}
  int64_t stride(int dim) const { return entry(strides, dim, 1); }
  int64_t step(int dim) const { return entry(dilation, dim, 1); }
  int64_t spread(int dim) const { return entry(base_dilation, dim, 1); }
  int64_t low(int dim) const { return entry(lo, dim, 0); }
};

class WindowKernel {
 public:
  WindowKernel(ProgramBuilder& builder, NodeId id)
      : builder_(builder),
        graph_(builder.graph()),
        id_(id),
        node_(graph_.node(id)),
        attributes_(node_.op, node_.attributes),
        window_(attributes_),
        kernel_("") {}

  Status emit_reduce() {
    const TensorType &in = graph_.type(node_.operands[0]), &out = graph_.type(node_.results[0]);
    const std::string& kind = attributes_.get_string("kind");
    Op combine = kind == "sum" ? Op::Add : kind == "max" ? Op::Maximum : Op::Minimum;
    Op reduction = kind == "sum" ? Op::ReduceSum : kind == "max" ? Op::ReduceMax : Op::ReduceMin;
    DType accumulate = kind == "sum" ? accumulation_type(in.dtype) : in.dtype;
    make_grid(out.shape);
    int source = param(node_.operands[0], tile::AccessMode::Read),
        target = param(node_.results[0], tile::AccessMode::Write);
    Scalar identity = reduction_identity(reduction, in.dtype);
    tile::Literal outside{identity.f, identity.i};
    ValueId acc = splat(reduction_identity(reduction, accumulate));
    int loops = 0;
    std::vector<Dim> cell(rank_, Dim(0));
    for (int dim = 0; dim < rank_; ++dim) {
      if (window_.size[dim] == 1) continue;
      cell[dim] = kernel_.begin_for(Dim(0), Dim(window_.size[dim]), Dim(1), {acc});
      acc = kernel_.loop_carries()[0];
      ++loops;
    }
    ValueId x = kernel_.load(input_access(source, in.shape, cell), TileType{in.dtype, tile_}, outside);
    ValueId next = kernel_.elementwise(combine, {acc, kernel_.convert(x, accumulate)});
    for (int i = 0; i < loops; ++i) next = kernel_.end_block({next})[0];
    kernel_.store(kernel_.convert(next, out.dtype), output_access(target));
    return launch();
  }

  // Sequential in the windows that share an input element: the grid runs over dims whose windows do not
  // overlap at all.
  Status emit_select_and_scatter() {
    const TensorType &in = graph_.type(node_.operands[0]), &source_type = graph_.type(node_.operands[1]);
    DType dtype = in.dtype, accumulate = accumulation_type(dtype);
    BufferId result = builder_.buffer_of(node_.results[0]);
    bool widen = accumulate != dtype;
    BufferId sums = widen ? builder_.add_temporary(TensorType{accumulate, in.shape}, "window sums") : result;
    launch_fill(sums, accumulate, in.elements());
    rank_ = in.rank();
    tile_.assign(rank_, 1);
    at_.assign(rank_, Dim(0));
    std::vector<Dim> grid;
    std::vector<int> walked;
    for (int dim = 0; dim < rank_; ++dim) {
      bool alone = window_.size[dim] == 1 && window_.stride(dim) == 1 && window_.low(dim) == 0;
      if (!alone) {
        walked.push_back(dim);
        continue;
      }
      at_[dim] = tile::KernelBuilder::grid_id(static_cast<int>(grid.size()));
      grid.push_back(source_type.shape[dim]);
    }
    kernel_.set_grid(std::move(grid));
    int x = param(node_.operands[0], tile::AccessMode::Read),
        source = param(node_.operands[1], tile::AccessMode::Read);
    buffers_.push_back(sums);
    int target = kernel_.add_param(tile::Param{"out", accumulate, in.shape, {}, tile::AccessMode::ReadWrite});
    for (int dim : walked) at_[dim] = kernel_.begin_for(Dim(0), source_type.shape[dim], Dim(1), {});
    std::vector<ValueId> best = select_cell(x, in);
    // The flat position of the winner, taken apart into one index a dim.
    tile::Access write{target, {}, false};
    ValueId rest = best[1];
    std::vector<ValueId> parts(rank_);
    for (int dim = rank_; dim-- > 0;) {
      ValueId size = kernel_.index({in.shape[dim], {}, {}}, TileType{DType::I64, tile_});
      parts[dim] = kernel_.elementwise(Op::Remainder, {rest, size});
      rest = kernel_.elementwise(Op::Divide, {rest, size});
    }
    // A window that lies in the padding alone chose nothing: its index, -1, is outside of every size but 1.
    if (rank_ > 0) {
      ValueId none = kernel_.integer(-1, TileType{DType::I64, tile_});
      parts[0] = kernel_.elementwise(Op::Select, {kernel_.compare(best[1], none, "EQ"), none, parts[0]});
    }
    for (int dim = 0; dim < rank_; ++dim) write.index.push_back({Dim(0), {}, parts[dim]});
    ValueId update = kernel_.load(output_access(source), TileType{dtype, tile_});
    kernel_.store(kernel_.convert(update, accumulate), std::move(write), tile::StoreKind::Add);
    for (size_t i = 0; i < walked.size(); ++i) kernel_.end_block({});
    TW_RETURN_IF_ERROR(launch());
    if (widen) launch_round(sums, result, accumulate, dtype, in.elements());
    return Status::ok();
  }

 private:
  void make_grid(const Shape& shape) {
    rank_ = static_cast<int>(shape.size());
    tile_.assign(rank_, 1);
    at_.assign(rank_, Dim(0));
    std::vector<Dim> grid;
    for (int dim = 0; dim < rank_; ++dim) {
      if (dim == rank_ - 1) tile_[dim] = fit(shape[dim], kLanes);
      at_[dim] = tile::KernelBuilder::grid_id(dim) * Dim(tile_[dim]);
      grid.push_back(Dim::ceil_div(shape[dim], Dim(tile_[dim])));
    }
    kernel_.set_grid(std::move(grid));
  }

  int param(ValueId value, tile::AccessMode mode) {
    const TensorType& type = graph_.type(value);
    buffers_.push_back(builder_.buffer_of(value));
    return kernel_.add_param(tile::Param{cat("b", buffers_.size() - 1), type.dtype, type.shape, {}, mode});
  }

  ValueId splat(const Scalar& value) {
    TileType type{value.dtype, tile_};
    return is_float(value.dtype) ? kernel_.constant(value.f, type) : kernel_.integer(value.i, type);
  }

  tile::Access output_access(int target) {
    tile::Access out{target, {}, false};
    for (int dim = 0; dim < rank_; ++dim) {
      tile::DimIndex index{at_[dim], {}, {}};
      if (tile_[dim] > 1) index.terms.push_back({dim, 1});
      out.index.push_back(std::move(index));
    }
    return out;
  }

  // Position in the dilated, padded input: output * stride + cell * dilation - pad.
  tile::DimIndex position(int dim, const Dim& cell) const {
    tile::DimIndex index{
        at_[dim] * Dim(window_.stride(dim)) + cell * Dim(window_.step(dim)) - Dim(window_.low(dim)), {}, {}};
    if (tile_[dim] > 1) index.terms.push_back({dim, window_.stride(dim)});
    return index;
  }

  tile::Access input_access(int source, const Shape& shape, const std::vector<Dim>& cell) {
    (void)shape;
    tile::Access out{source, {}, false};
    for (int dim = 0; dim < rank_; ++dim) {
      tile::DimIndex index = position(dim, cell[dim]);
      if (window_.spread(dim) > 1) {
        // Between the spread elements lies nothing: such positions become -1, which reads the identity.
        ValueId at = kernel_.index(std::move(index), TileType{DType::I64, tile_});
        ValueId step = kernel_.integer(window_.spread(dim), TileType{DType::I64, tile_});
        ValueId rest = kernel_.elementwise(Op::Remainder, {at, step});
        ValueId hit = kernel_.compare(rest, kernel_.integer(0, TileType{DType::I64, tile_}), "EQ");
        ValueId quotient = kernel_.elementwise(Op::Divide, {at, step});
        index = tile::DimIndex{
            Dim(0),
            {},
            kernel_.elementwise(Op::Select,
                                {hit, quotient, kernel_.integer(-1, TileType{DType::I64, tile_})})};
      }
      out.index.push_back(std::move(index));
    }
    return out;
  }

  // Walks the window in row-major order and keeps the first extreme: value and flat input position.
  std::vector<ValueId> select_cell(int x, const TensorType& in) {
    bool largest = attributes_.get_string("kind") == "max";
    Op reduction = largest ? Op::ReduceMax : Op::ReduceMin;
    ValueId none = kernel_.integer(-1, TileType{DType::I64, tile_});
    std::vector<ValueId> best{splat(reduction_identity(reduction, in.dtype)), none};
    std::vector<Dim> cell(rank_, Dim(0));
    int blocks = 0;
    for (int dim = 0; dim < rank_; ++dim) {
      if (window_.size[dim] > 1) {
        cell[dim] = kernel_.begin_for(Dim(0), Dim(window_.size[dim]), Dim(1), best);
        best = kernel_.loop_carries();
        ++blocks;
      }
      // Cells in the padding are never chosen.
      Dim at = position(dim, cell[dim]).base;
      for (const Dim& inside : {at + Dim(1), in.shape[dim] - at}) {
        if (inside.is_constant() && inside.constant() > 0) continue;
        kernel_.begin_if(inside, best);
        best = kernel_.loop_carries();
        ++blocks;
      }
    }
    Dim flat(0);
    for (int dim = 0; dim < rank_; ++dim) flat = flat * in.shape[dim] + position(dim, cell[dim]).base;
    ValueId value = kernel_.load(input_access(x, in.shape, cell), TileType{in.dtype, tile_});
    ValueId here = kernel_.index({flat, {}, {}}, TileType{DType::I64, tile_});
    ValueId take = kernel_.compare(value, best[0], largest ? "GT" : "LT");
    ValueId first = kernel_.compare(best[1], none, "EQ");
    if (is_float(in.dtype)) {
      ValueId fresh_nan = kernel_.elementwise(
          Op::And, {kernel_.compare(value, value, "NE"), kernel_.compare(best[0], best[0], "EQ")});
      take = kernel_.elementwise(Op::Or, {take, fresh_nan});
    }
    take = kernel_.elementwise(Op::Or, {take, first});
    best = {kernel_.elementwise(Op::Select, {take, value, best[0]}),
            kernel_.elementwise(Op::Select, {take, here, best[1]})};
    for (int i = 0; i < blocks; ++i) best = kernel_.end_block(best);
    return best;
  }

  Status launch() {
    builder_.launch_kernel(kernel_.take(), buffers_, op_name(node_.op), {id_.index});
    return Status::ok();
  }

  void launch_fill(BufferId buffer, DType dtype, const Dim& count) {
    tile::KernelBuilder fill("");
    int64_t lanes = fit(count, 4096);
    fill.set_grid({Dim::ceil_div(count, Dim(lanes))});
    int out = fill.add_param(tile::Param{"out", dtype, {count}, {}, tile::AccessMode::Write});
    tile::Access access{out, {{tile::KernelBuilder::grid_id(0) * Dim(lanes), {{0, 1}}, {}}}, false};
    fill.store(fill.integer(0, TileType{dtype, {lanes}}), std::move(access));
    builder_.launch_kernel(fill.take(), {buffer}, "fill", {id_.index});
  }

  void launch_round(BufferId from, BufferId to, DType wide, DType narrow, const Dim& count) {
    tile::KernelBuilder round("");
    int64_t lanes = fit(count, 4096);
    round.set_grid({Dim::ceil_div(count, Dim(lanes))});
    tile::DimIndex line{tile::KernelBuilder::grid_id(0) * Dim(lanes), {{0, 1}}, {}};
    int in = round.add_param(tile::Param{"from", wide, {count}, {}, tile::AccessMode::Read});
    int out = round.add_param(tile::Param{"to", narrow, {count}, {}, tile::AccessMode::Write});
    ValueId value = round.load(tile::Access{in, {line}, false}, TileType{wide, {lanes}});
    round.store(round.convert(value, narrow), tile::Access{out, {line}, false});
    builder_.launch_kernel(round.take(), {from, to}, "convert", {id_.index});
  }

  ProgramBuilder& builder_;
  const Graph& graph_;
  NodeId id_;
  const Node& node_;
  AttributeReader attributes_;
  Window window_;
  tile::KernelBuilder kernel_;
  int rank_ = 0;
  std::vector<int64_t> tile_;
  std::vector<Dim> at_;
  std::vector<BufferId> buffers_;
};

}  // namespace

Result<bool> lower_window(ProgramBuilder& builder, NodeId id) {
  Op op = builder.graph().node(id).op;
  if (op == Op::ReduceWindow) {
    TW_RETURN_IF_ERROR(WindowKernel(builder, id).emit_reduce());
    return true;
  }
  if (op == Op::SelectAndScatterAdd) {
    TW_RETURN_IF_ERROR(WindowKernel(builder, id).emit_select_and_scatter());
    return true;
  }
  return false;
}

}  // namespace tilewright
