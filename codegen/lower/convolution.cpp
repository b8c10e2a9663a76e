// Lowering of convolution: a grid over blocks of outputs and positions, a loop over channels and taps, one
// `dot` of a window a step.
#include "codegen/lower/convolution.h"

#include <algorithm>

#include "codegen/lower/epilogue.h"
#include "codegen/lower/tile_sizes.h"

namespace tilewright {

using tile::Stage;
using tile::TileType;

namespace {

class ConvolutionKernel {
 public:
  ConvolutionKernel(ProgramBuilder& builder, NodeId id, Convolution problem)
      : builder_(builder),
        graph_(builder.graph()),
        id_(id),
        node_(graph_.node(id)),
        problem_(std::move(problem)),
        kernel_(""),
        blocks_(choose_blocks(problem_, graph_.symbols)),
        place_(blocks_.place) {}

  // The axes of the kernel are the dims of the result.
  const std::vector<std::vector<int>>& result_runs() const { return problem_.y_dims; }

  Status emit() {
    ValueId sums = emit_product();
    BufferId result = builder_.buffer_of(node_.results[0]);
    if (blocks_.parts > 1) result = add_parts();
    store(sums);
    builder_.launch_kernel(
        kernel_.take(),
        {builder_.buffer_of(node_.operands[0]), builder_.buffer_of(node_.operands[1]), result}, "convolution",
        {id_.index});
    if (blocks_.parts > 1) sum_parts(result);
    return Status::ok();
  }

  Status emit_with_group(const Grouping& grouping, const Group& group) {
    MergedDomain domain(builder_, grouping, group, result_runs());
    blocks_.parts = 1;
    ValueId sums = kernel_.convert(emit_product(), problem_.dtype);
    return emit_epilogue(
        builder_, kernel_, domain, group,
        Product{id_,
                result_axes(),
                in_order_of_result(sums),
                {builder_.buffer_of(node_.operands[0]), builder_.buffer_of(node_.operands[1])}});
  }

 private:
  // Grid, loops and dot; answers the accumulated [rows, columns] tile.
  ValueId emit_product() {
    make_grid();
    int x = kernel_.add_param(convolution_param(problem_, 0)),
        w = kernel_.add_param(convolution_param(problem_, 1));
    std::vector<ValueId> acc{
        kernel_.integer(0, TileType{problem_.accumulate, {product(row_axes()), product(column_axes())}})};
    int blocks = open_loops(acc);
    ValueId lhs = load(blocks_.outputs_are_rows ? w : x, true),
            rhs = load(blocks_.outputs_are_rows ? x : w, false);
    ValueId next = kernel_.dot(lhs, rhs, acc[0], tile::DotDims{{1}, {0}, {}, {}});
    for (int i = 0; i < blocks; ++i) next = kernel_.end_block({next})[0];
    return next;
  }

  std::vector<Axis> result_axes() {
    std::vector<Axis> axes;
    for (int role : problem_.y_order) {
      const Coordinate& at = role == kFeatureRole ? place_.output : position_of(place_, role);
      const Dim& size = role == kFeatureRole ? problem_.outputs : position_count(problem_, role);
      axes.push_back({size, AxisKind::Grid, at.tile, at.base, false});
    }
    return axes;
  }

  // The accumulated tile with an axis for each dim of the result.
  ValueId in_order_of_result(ValueId block) {
    std::vector<int64_t> shape = number_axes(row_axes(), column_axes()), full;
    Ints order;
    for (int role : problem_.y_order) {
      const Coordinate& at = role == kFeatureRole ? place_.output : position_of(place_, role);
      full.push_back(at.tile);
      if (at.axis >= 0) order.push_back(at.axis);
    }
    if (!std::is_sorted(order.begin(), order.end()))
      block = kernel_.transpose(kernel_.reshape(block, std::move(shape)), std::move(order));
    return kernel_.reshape(block, std::move(full));
  }

  void make_grid() {
    std::vector<Dim> grid;
    auto add = [&](const Dim& count) {
      grid.push_back(count);
      return tile::KernelBuilder::grid_id(static_cast<int>(grid.size()) - 1);
    };
    if (blocks_.parts > 1) part_ = add(Dim(blocks_.parts));
    if (problem_.groups() > 1) place_.group.base = add(Dim(problem_.groups()));
    for (size_t i = 0; i < problem_.spatial.size(); ++i) {
      int64_t classes = ResidueClasses(problem_.spatial[i]).count;
      if (classes > 1) place_.residue[i] = add(Dim(classes));
    }
    for (int role : position_roles(problem_)) {
      Coordinate& at = position_of(place_, role);
      at.base = add(Dim::ceil_div(position_count(problem_, role), Dim(at.tile))) * Dim(at.tile);
    }
    place_.output.base =
        add(Dim::ceil_div(problem_.outputs, Dim(place_.output.tile))) * Dim(place_.output.tile);
    kernel_.set_grid(std::move(grid));
  }

  int open_loops(std::vector<ValueId>& acc) {
    int blocks = 0;
    if (!covers(problem_.inputs, place_.input.tile)) {
      Dim from(0), to = problem_.inputs;
      if (blocks_.parts > 1) {
        from = part_ * blocks_.part_inputs;
        to = Dim::min(to, from + blocks_.part_inputs);
      }
      place_.input.base = kernel_.begin_for(from, to, Dim(place_.input.tile), acc);
      acc = kernel_.loop_carries();
      ++blocks;
    }
    for (size_t i = 0; i < problem_.spatial.size(); ++i) {
      const SpatialDim& dim = problem_.spatial[i];
      if (dim.spread == 1 && dim.w.is_constant(place_.tap[i].tile)) continue;
      blocks += open_tap_loop(kernel_, dim, place_.residue[i], place_.tap[i], acc);
    }
    return blocks;
  }

  // Coordinates that are axes of the tiles, slow to fast; those of one element are left out.
  using Axes = std::vector<Coordinate*>;
  static void add_axis(Axes& axes, Coordinate& coordinate) {
    if (coordinate.tile > 1) axes.push_back(&coordinate);
  }
  Axes output_axes() {
    Axes axes;
    add_axis(axes, place_.output);
    return axes;
  }
  Axes position_axes() {
    Axes axes;
    for (int role : position_roles(problem_)) add_axis(axes, position_of(place_, role));
    return axes;
  }
  // In the order of w, whose blocks are then read in one piece.
  Axes depth_axes() {
    Axes axes;
    for (int role : problem_.w_order) {
      if (role == kFeatureRole) add_axis(axes, place_.input);
      if (role >= kSpatialRole) add_axis(axes, place_.tap[static_cast<size_t>(role - kSpatialRole)]);
    }
    return axes;
  }
  Axes row_axes() { return blocks_.outputs_are_rows ? output_axes() : position_axes(); }
  Axes column_axes() { return blocks_.outputs_are_rows ? position_axes() : output_axes(); }
  static int64_t product(const Axes& axes) {
    int64_t count = 1;
    for (const Coordinate* axis : axes) count *= axis->tile;
    return count;
  }

  std::vector<int64_t> number_axes(const Axes& slow, const Axes& fast) {
    for (Coordinate* all : {&place_.image, &place_.group, &place_.input, &place_.output}) all->axis = -1;
    for (Coordinate& tap : place_.tap) tap.axis = -1;
    for (Coordinate& at : place_.position) at.axis = -1;
    std::vector<int64_t> shape;
    for (const Axes* axes : {&slow, &fast}) {
      for (Coordinate* axis : *axes) {
        axis->axis = static_cast<int>(shape.size());
        shape.push_back(axis->tile);
      }
    }
    return shape;
  }

  // A matrix [rows, depth] or [depth, columns] of x or w.
  ValueId load(int param, bool lhs) {
    Axes rows = lhs ? row_axes() : depth_axes(), columns = lhs ? depth_axes() : column_axes();
    std::vector<int64_t> shape = number_axes(rows, columns);
    bool is_x = lhs != blocks_.outputs_are_rows;
    tile::Access access{param, is_x ? x_index(problem_, place_) : w_index(problem_, place_), false};
    ValueId block = kernel_.load(std::move(access), TileType{problem_.dtype, shape}, {}, Stage::Packed);
    if (is_x) block = without_taps_behind(block, shape);
    return kernel_.reshape(block, {product(rows), product(columns)});
  }

  // Zeros in x where a block of taps of unknown number reaches over their end.
  ValueId without_taps_behind(ValueId block, const std::vector<int64_t>& shape) {
    for (size_t i = 0; i < problem_.spatial.size(); ++i) {
      const Coordinate& tap = place_.tap[i];
      if (tap.tile == 1 || problem_.spatial[i].w.is_constant()) continue;
      TileType type{DType::I32, shape};
      ValueId behind = kernel_.index({tap.base - problem_.spatial[i].w, {{tap.axis, 1}}, {}}, type);
      ValueId inside = kernel_.compare(behind, kernel_.integer(0, type), "LT");
      ValueId zeros = kernel_.integer(0, TileType{problem_.dtype, shape});
      block = kernel_.elementwise(Op::Select, {inside, block, zeros});
    }
    return block;
  }

  void store(ValueId block) {
    tile::Param param = convolution_param(problem_, 2);
    std::vector<int64_t> shape = number_axes(row_axes(), column_axes());
    std::vector<tile::DimIndex> index = y_index(problem_, place_);
    if (blocks_.parts > 1) {
      param.dims.insert(param.dims.begin(), Dim(blocks_.parts));
      param.dtype = problem_.accumulate;
      index.insert(index.begin(), tile::DimIndex{part_, {}, {}});
    }
    DType dtype = param.dtype;
    int y = kernel_.add_param(std::move(param));
    kernel_.store(kernel_.reshape(kernel_.convert(block, dtype), std::move(shape)),
                  tile::Access{y, std::move(index), false});
  }

  BufferId add_parts() {
    TensorType type{problem_.accumulate, graph_.type(node_.results[0]).shape};
    type.shape.insert(type.shape.begin(), Dim(blocks_.parts));
    return builder_.add_temporary(std::move(type), "partial sums");
  }

  void sum_parts(BufferId parts) {
    tile::KernelBuilder kernel("");
    Dim count = graph_.type(node_.results[0]).elements();
    int64_t lanes = clip_tile(count, hint_of(count, graph_.symbols), 1024);
    kernel.set_grid({Dim::ceil_div(count, Dim(lanes))});
    tile::DimIndex line{tile::KernelBuilder::grid_id(0) * Dim(lanes), {{0, 1}}, {}};
    int from = kernel.add_param(
        tile::Param{"parts", problem_.accumulate, {Dim(blocks_.parts), count}, {}, tile::AccessMode::Read});
    int to = kernel.add_param(tile::Param{"y", problem_.dtype, {count}, {}, tile::AccessMode::Write});
    TileType type{problem_.accumulate, {lanes}};
    ValueId sum;
    for (int64_t part = 0; part < blocks_.parts; ++part) {
      ValueId value = kernel.load(tile::Access{from, {{Dim(part), {}, {}}, line}, false}, type);
      sum = part == 0 ? value : kernel.elementwise(Op::Add, {sum, value});
    }
    kernel.store(kernel.convert(sum, problem_.dtype), tile::Access{to, {line}, false});
    builder_.launch_kernel(kernel.take(), {parts, builder_.buffer_of(node_.results[0])},
                           "convolution: sum of parts", {id_.index});
  }

  ProgramBuilder& builder_;
  const Graph& graph_;
  NodeId id_;
  const Node& node_;
  Convolution problem_;
  tile::KernelBuilder kernel_;
  ConvolutionBlocks blocks_;
  ConvolutionPlace& place_;
  Dim part_;
};

}  // namespace

Result<bool> lower_convolution(ProgramBuilder& builder, NodeId id) {
  if (builder.graph().node(id).op != Op::Convolution) return false;
  Convolution problem = read_convolution(builder.graph(), id);
  if (problem.is_depthwise()) {
    TW_RETURN_IF_ERROR(lower_depthwise(builder, id, problem));
  } else {
    TW_RETURN_IF_ERROR(ConvolutionKernel(builder, id, std::move(problem)).emit());
  }
  return true;
}

Status lower_convolution_with_group(ProgramBuilder& builder, const Grouping& grouping, const Group& group) {
  Convolution problem = read_convolution(builder.graph(), group.anchor);
  size_t dims = 0;
  for (const std::vector<int>& run : problem.y_dims) dims += run.size();
  bool whole = dims == builder.graph().type(builder.graph().node(group.anchor).results[0]).shape.size();
  if (!whole || !MergedDomain(builder, grouping, group, problem.y_dims).is_feasible())
    problem = read_convolution(builder.graph(), group.anchor, false);
  return ConvolutionKernel(builder, group.anchor, std::move(problem)).emit_with_group(grouping, group);
}

}  // namespace tilewright
