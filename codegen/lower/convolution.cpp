// Lowering of convolution: a grid over blocks of outputs and positions, a loop over channels and taps, one
// `dot` of a window a step.
#include "codegen/lower/convolution.h"

#include <algorithm>

#include "codegen/lower/tile_sizes.h"

namespace tilewright {

using tile::Stage;
using tile::TileType;

namespace {

constexpr int64_t kBlockRows = 192;
constexpr int64_t kBlockColumns = 256;
constexpr int64_t kBlockDepth = 192;  // channels times taps a step
constexpr int64_t kMinBlockRows = 48;
constexpr int64_t kMinBlockColumns = 64;
constexpr int64_t kWantedInstances = 16;

class ConvolutionKernel {
 public:
  ConvolutionKernel(ProgramBuilder& builder, NodeId id, Convolution problem)
      : builder_(builder),
        graph_(builder.graph()),
        id_(id),
        node_(graph_.node(id)),
        problem_(std::move(problem)),
        kernel_("") {}

  Status emit() {
    choose_blocks();
    make_grid();
    int x = kernel_.add_param(convolution_param(problem_, 0)),
        w = kernel_.add_param(convolution_param(problem_, 1)),
        y = kernel_.add_param(convolution_param(problem_, 2));
    std::vector<ValueId> acc{
        kernel_.integer(0, TileType{problem_.accumulate, {product(row_axes()), product(column_axes())}})};
    int blocks = open_loops(acc);
    ValueId lhs = load(outputs_are_rows_ ? w : x, true), rhs = load(outputs_are_rows_ ? x : w, false);
    ValueId next = kernel_.dot(lhs, rhs, acc[0], tile::DotDims{{1}, {0}, {}, {}});
    for (int i = 0; i < blocks; ++i) next = kernel_.end_block({next})[0];
    store(y, kernel_.convert(next, problem_.dtype));
    builder_.launch_kernel(kernel_.take(),
                           {builder_.buffer_of(node_.operands[0]), builder_.buffer_of(node_.operands[1]),
                            builder_.buffer_of(node_.results[0])},
                           "convolution", {id_.index});
    return Status::ok();
  }

 private:
  // ---- blocks
  // ----------------------------------------------------------------------------------------------------
  int64_t hint(const Dim& size) const { return hint_of(size, graph_.symbols); }

  // Images and spatial dims in the order of y: the positions of a block.
  std::vector<int> position_roles() const {
    std::vector<int> roles;
    for (int role : problem_.y_order) {
      if (role != kFeatureRole) roles.push_back(role);
    }
    return roles;
  }

  Coordinate& position(int role) {
    return role == kBatchRole ? place_.image : place_.position[static_cast<size_t>(role - kSpatialRole)];
  }

  // Positions of one residue class.
  Dim position_count(int role) const {
    if (role == kBatchRole) return problem_.images;
    const SpatialDim& dim = problem_.spatial[static_cast<size_t>(role - kSpatialRole)];
    return Dim::ceil_div(dim.y, Dim(ResidueClasses(dim).count));
  }

  void choose_positions(int64_t budget, int64_t multiple) {
    std::vector<int> roles = position_roles();
    for (size_t i = roles.size(); i-- > 0;) {
      Dim count = position_count(roles[i]);
      int64_t tile = clip_tile(count, hint(count), even_block(count, budget, multiple));
      position(roles[i]).tile = tile;
      budget = std::max<int64_t>(1, budget / tile);
      multiple = 1;
    }
  }

  int64_t instances() {
    int64_t count = problem_.groups() * blocks_of(problem_.outputs, place_.output.tile);
    for (int role : position_roles()) {
      count *= blocks_of(position_count(role), position(role).tile);
      if (role >= kSpatialRole)
        count *= ResidueClasses(problem_.spatial[static_cast<size_t>(role - kSpatialRole)]).count;
    }
    return count;
  }
  int64_t blocks_of(const Dim& size, int64_t tile) const { return (hint(size) + tile - 1) / tile; }

  void choose_blocks() {
    size_t spatial = problem_.spatial.size();
    place_.tap.resize(spatial);
    place_.position.resize(spatial);
    place_.residue.assign(spatial, Dim(0));
    outputs_are_rows_ = problem_.y_order.back() != kFeatureRole;
    int64_t rows = kBlockRows, columns = kBlockColumns;
    while (true) {
      const Dim& outputs = problem_.outputs;
      int64_t output_budget = outputs_are_rows_ ? rows : columns;
      place_.output.tile =
          clip_tile(outputs, hint(outputs), even_block(outputs, output_budget, outputs_are_rows_ ? 12 : 32));
      choose_positions(outputs_are_rows_ ? columns : rows, outputs_are_rows_ ? 32 : 12);
      if (instances() >= kWantedInstances || (rows <= kMinBlockRows && columns <= kMinBlockColumns)) break;
      if (rows > kMinBlockRows && rows * kMinBlockColumns >= columns * kMinBlockRows) {
        rows /= 2;
      } else {
        columns /= 2;
      }
    }
    choose_depth();
  }

  // Channels first, then whole runs of taps, the last dim first.
  void choose_depth() {
    const Dim& inputs = problem_.inputs;
    place_.input.tile = clip_tile(inputs, hint(inputs), even_block(inputs, kBlockDepth, 8));
    int64_t rest = kBlockDepth / place_.input.tile;
    for (size_t i = problem_.spatial.size(); i-- > 0;) {
      const SpatialDim& dim = problem_.spatial[i];
      int64_t tile = 1;
      if (dim.w.is_constant() && dim.spread == 1) {
        // A block of taps must not reach over the end: x there is not zero.
        for (int64_t t = 1; t <= std::min(rest, dim.w.constant()); ++t) {
          if (dim.w.constant() % t == 0) tile = t;
        }
      }
      place_.tap[i].tile = tile;
      if (!dim.w.is_constant(tile)) break;
      rest /= tile;
    }
  }

  // ---- kernel
  // ----------------------------------------------------------------------------------------------------
  void make_grid() {
    std::vector<Dim> grid;
    auto add = [&](const Dim& count) {
      grid.push_back(count);
      return tile::KernelBuilder::grid_id(static_cast<int>(grid.size()) - 1);
    };
    if (problem_.groups() > 1) place_.group.base = add(Dim(problem_.groups()));
    for (size_t i = 0; i < problem_.spatial.size(); ++i) {
      int64_t classes = ResidueClasses(problem_.spatial[i]).count;
      if (classes > 1) place_.residue[i] = add(Dim(classes));
    }
    for (int role : position_roles()) {
      Coordinate& at = position(role);
      at.base = add(Dim::ceil_div(position_count(role), Dim(at.tile))) * Dim(at.tile);
    }
    place_.output.base =
        add(Dim::ceil_div(problem_.outputs, Dim(place_.output.tile))) * Dim(place_.output.tile);
    kernel_.set_grid(std::move(grid));
  }

  int open_loops(std::vector<ValueId>& acc) {
    int blocks = 0;
    if (!covers(problem_.inputs, place_.input.tile)) {
      place_.input.base = kernel_.begin_for(Dim(0), problem_.inputs, Dim(place_.input.tile), acc);
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
    for (int role : position_roles()) add_axis(axes, position(role));
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
  Axes row_axes() { return outputs_are_rows_ ? output_axes() : position_axes(); }
  Axes column_axes() { return outputs_are_rows_ ? position_axes() : output_axes(); }
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
    bool is_x = lhs != outputs_are_rows_;
    tile::Access access{param, is_x ? x_index(problem_, place_) : w_index(problem_, place_), false};
    ValueId block =
        kernel_.load(std::move(access), TileType{problem_.dtype, std::move(shape)}, {}, Stage::Packed);
    return kernel_.reshape(block, {product(rows), product(columns)});
  }

  void store(int param, ValueId block) {
    std::vector<int64_t> shape = number_axes(row_axes(), column_axes());
    kernel_.store(kernel_.reshape(block, std::move(shape)),
                  tile::Access{param, y_index(problem_, place_), false});
  }

  ProgramBuilder& builder_;
  const Graph& graph_;
  NodeId id_;
  const Node& node_;
  Convolution problem_;
  tile::KernelBuilder kernel_;
  ConvolutionPlace place_;
  bool outputs_are_rows_ = true;
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

}  // namespace tilewright
