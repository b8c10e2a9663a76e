// Lowering of running sums, products, extremes and recurrences: chunks along the scanned dim with a carried
// state.
#include <algorithm>

#include "base/text.h"
#include "codegen/lower/program_builder.h"
#include "ir/inference.h"
#include "ir/reference/scalar.h"

namespace tilewright {

using tile::Combine;
using tile::TileType;

namespace {

constexpr int64_t kChunk = 256;  // elements of the scanned dim a trip
constexpr int64_t kLanes = 64;   // elements of the last dim, when it is not the scanned one

class ScanKernel {
 public:
  ScanKernel(ProgramBuilder& builder, NodeId id)
      : builder_(builder),
        graph_(builder.graph()),
        id_(id),
        node_(graph_.node(id)),
        attributes_(node_.op, node_.attributes),
        kernel_(""),
        shape_(graph_.type(node_.operands[0]).shape),
        along_(attributes_.get_int("dim")) {}

  Status emit() {
    make_axes();
    dtype_ = graph_.type(node_.operands[0]).dtype;
    accumulate_ =
        node_.op == Op::CumulativeMax || node_.op == Op::CumulativeMin ? dtype_ : accumulation_type(dtype_);
    std::vector<ValueId> carries = initial_carries();
    position_ = kernel_.begin_for(Dim(0), shape_[along_], Dim(tile_[along_]), carries);
    carries = kernel_.loop_carries();
    std::vector<ValueId> elements = load_elements();
    std::vector<ValueId> scanned = scan(elements, carries);
    size_t width = elements.size();
    store(scanned, width);
    kernel_.end_block({scanned.begin() + static_cast<std::ptrdiff_t>(width), scanned.end()});
    builder_.launch_kernel(kernel_.take(), buffers_, op_name(node_.op), {id_.index});
    return Status::ok();
  }

 private:
  void make_axes() {
    int rank = static_cast<int>(shape_.size());
    tile_.assign(rank, 1);
    bases_.assign(rank, Dim(0));
    auto fit = [&](int dim, int64_t limit) {
      return shape_[dim].is_constant() ? std::max<int64_t>(1, std::min(shape_[dim].constant(), limit))
                                       : limit;
    };
    tile_[along_] = fit(static_cast<int>(along_), kChunk);
    if (along_ != rank - 1) {
      tile_[rank - 1] = fit(rank - 1, kLanes);
      tile_[along_] = std::min<int64_t>(tile_[along_], 32);
    }
    std::vector<Dim> grid;
    for (int dim = 0; dim < rank; ++dim) {
      if (dim == along_) continue;
      bases_[dim] = tile::KernelBuilder::grid_id(static_cast<int>(grid.size())) * Dim(tile_[dim]);
      grid.push_back(Dim::ceil_div(shape_[dim], Dim(tile_[dim])));
    }
    kernel_.set_grid(std::move(grid));
  }

  // Reverse scans walk the buffer backwards, so that the scan itself always runs forward.
  tile::Access access(ValueId value, tile::AccessMode mode) {
    tile::Param param;
    param.name = cat("b", buffers_.size());
    param.dtype = graph_.type(value).dtype;
    param.dims = shape_;
    param.mode = mode;
    tile::Access out;
    out.param = kernel_.add_param(std::move(param));
    buffers_.push_back(builder_.buffer_of(value));
    bool reverse = attributes_.get_bool("reverse");
    for (int dim = 0; dim < static_cast<int>(shape_.size()); ++dim) {
      if (dim != along_) {
        out.index.push_back({bases_[dim], {{dim, 1}}, {}});
      } else if (reverse) {
        out.index.push_back({shape_[dim] - Dim(1) - position_, {{dim, -1}}, {}});
      } else {
        out.index.push_back({position_, {{dim, 1}}, {}});
      }
    }
    return out;
  }

  std::vector<int64_t> carry_shape() const {
    std::vector<int64_t> shape = tile_;
    shape.erase(shape.begin() + along_);
    return shape;
  }

  ValueId splat(const Scalar& value) {
    TileType type{value.dtype, carry_shape()};
    return is_float(value.dtype) ? kernel_.constant(value.f, type) : kernel_.integer(value.i, type);
  }

  std::vector<ValueId> initial_carries() {
    switch (node_.op) {
      case Op::CumulativeProduct: return {splat(reduction_identity(Op::ReduceProduct, accumulate_))};
      case Op::CumulativeMax:
      case Op::CumulativeMin: {
        Op op = node_.op == Op::CumulativeMax ? Op::ReduceMax : Op::ReduceMin;
        return {splat(reduction_identity(op, accumulate_)),
                kernel_.integer(0, TileType{DType::I64, carry_shape()})};
      }
      case Op::CumulativeLogsumexp: return {splat(reduction_identity(Op::ReduceMax, accumulate_))};
      case Op::LinearRecurrence: return {splat(Scalar::of_float(accumulate_, 1)), initial_state()};
      default: return {splat(reduction_identity(Op::ReduceSum, accumulate_))};
    }
  }

  ValueId initial_state() {
    if (node_.operands.size() < 3 || !node_.operands[2].is_valid())
      return splat(Scalar::of_float(accumulate_, 0));
    ValueId h0 = node_.operands[2];
    tile::Param param;
    param.name = cat("b", buffers_.size());
    param.dtype = dtype_;
    param.dims = graph_.type(h0).shape;
    tile::Access read;
    read.param = kernel_.add_param(std::move(param));
    buffers_.push_back(builder_.buffer_of(h0));
    int axis = 0;
    for (int dim = 0; dim < static_cast<int>(shape_.size()); ++dim) {
      if (dim != along_) read.index.push_back({bases_[dim], {{axis++, 1}}, {}});
    }
    return kernel_.convert(kernel_.load(std::move(read), TileType{dtype_, carry_shape()}), accumulate_);
  }

  std::vector<ValueId> load_elements() {
    auto load = [&](int operand) {
      ValueId value = node_.operands[operand];
      return kernel_.convert(kernel_.load(access(value, tile::AccessMode::Read), TileType{dtype_, tile_}),
                             accumulate_);
    };
    if (node_.op == Op::LinearRecurrence) return {load(0), load(1)};
    if (node_.op != Op::CumulativeMax && node_.op != Op::CumulativeMin) return {load(0)};
    bool reverse = attributes_.get_bool("reverse");
    tile::DimIndex position{reverse ? shape_[along_] - Dim(1) - position_ : position_,
                            {{static_cast<int>(along_), reverse ? -1 : 1}},
                            {}};
    return {load(0), kernel_.index(std::move(position), TileType{DType::I64, tile_})};
  }

  std::vector<ValueId> scan(const std::vector<ValueId>& elements, const std::vector<ValueId>& carries) {
    std::vector<Dim> limits;
    bool exact = shape_[along_].is_constant() && shape_[along_].constant() % tile_[along_] == 0;
    if (!exact) limits = {Dim::min(Dim(tile_[along_]), shape_[along_] - position_)};
    bool exclusive = attributes_.get_bool("exclusive");
    if (node_.op == Op::CumulativeSum || node_.op == Op::CumulativeProduct) {
      Combine combine = node_.op == Op::CumulativeSum ? Combine::Sum : Combine::Product;
      return kernel_.scan(combine, elements, carries, along_, false, exclusive, std::move(limits));
    }
    std::vector<ValueId> operands = elements;
    operands.insert(operands.end(), carries.begin(), carries.end());
    kernel_.begin_custom(tile::Opcode::Scan, std::move(operands), {along_}, false, exclusive,
                         std::move(limits));
    return kernel_.end_custom(combine(kernel_.combine_params()));
  }

  // The combine step on 0-d tiles: the left side comes first.
  std::vector<ValueId> combine(const std::vector<ValueId>& sides) {
    auto emit = [&](Op op, std::vector<ValueId> operands) {
      return kernel_.elementwise(op, std::move(operands));
    };
    if (node_.op == Op::LinearRecurrence) {
      ValueId a = emit(Op::Multiply, {sides[0], sides[2]});
      return {a, emit(Op::Add, {emit(Op::Multiply, {sides[2], sides[1]}), sides[3]})};
    }
    if (node_.op == Op::CumulativeLogsumexp) {
      ValueId top = emit(Op::Maximum, {sides[0], sides[1]});
      ValueId gap = emit(Op::Negate, {emit(Op::Abs, {emit(Op::Subtract, {sides[0], sides[1]})})});
      ValueId sum = emit(Op::Add, {top, emit(Op::LogPlusOne, {emit(Op::Exponential, {gap})})});
      return {emit(Op::Select, {emit(Op::IsFinite, {top}), sum, top})};
    }
    // Extremes with their index: a tie or a NaN on the right takes over, a NaN on the left stays.
    ValueId take = kernel_.compare(sides[2], sides[0], node_.op == Op::CumulativeMax ? "GE" : "LE");
    if (is_float(accumulate_)) {
      ValueId left_fine = kernel_.compare(sides[0], sides[0], "EQ"),
              right_nan = kernel_.compare(sides[2], sides[2], "NE");
      take = emit(Op::Or, {right_nan, emit(Op::And, {left_fine, take})});
    }
    return {emit(Op::Select, {take, sides[2], sides[0]}), emit(Op::Select, {take, sides[3], sides[1]})};
  }

  void store(const std::vector<ValueId>& scanned, size_t width) {
    if (node_.op == Op::LinearRecurrence) {
      kernel_.store(kernel_.convert(scanned[1], dtype_), access(node_.results[0], tile::AccessMode::Write));
      return;
    }
    for (size_t i = 0; i < width; ++i) {
      ValueId result = node_.results[i];
      kernel_.store(kernel_.convert(scanned[i], graph_.type(result).dtype),
                    access(result, tile::AccessMode::Write));
    }
  }

  ProgramBuilder& builder_;
  const Graph& graph_;
  NodeId id_;
  const Node& node_;
  AttributeReader attributes_;
  tile::KernelBuilder kernel_;
  const Shape& shape_;
  int64_t along_;
  DType dtype_ = DType::F32, accumulate_ = DType::F32;
  std::vector<int64_t> tile_;
  std::vector<Dim> bases_;
  Dim position_;
  std::vector<BufferId> buffers_;
};

}  // namespace

Result<bool> lower_scan_op(ProgramBuilder& builder, NodeId id) {
  switch (builder.graph().node(id).op) {
    case Op::CumulativeSum:
    case Op::CumulativeProduct:
    case Op::CumulativeMax:
    case Op::CumulativeMin:
    case Op::CumulativeLogsumexp:
    case Op::LinearRecurrence: break;
    default: return false;
  }
  TW_RETURN_IF_ERROR(ScanKernel(builder, id).emit());
  return true;
}

}  // namespace tilewright
