// Lowering of convolution: a grid over blocks of outputs and positions, a loop over channels and taps, one
// `dot` of a window a step.
#include "codegen/lower/convolution.h"

#include <algorithm>
#include <utility>

#include "codegen/lower/tile_sizes.h"

namespace tilewright {

using tile::Stage;
using tile::TileType;

namespace {

// Rows and columns of an output block; the first that gives enough instances.  Columns are the last to
// shrink: they are what a register block runs along.
constexpr std::pair<int64_t, int64_t> kBlocks[] = {{192, 256}, {96, 256}, {96, 128}, {48, 128}, {48, 64}};
constexpr int64_t kBlockDepth = 192;  // channels times taps a step
constexpr int64_t kWantedInstances = 16;
constexpr int64_t kDepthOfPart = 512;
constexpr double kWorkOfParts = 1 << 22;  // products

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
        w = kernel_.add_param(convolution_param(problem_, 1));
    std::vector<ValueId> acc{
        kernel_.integer(0, TileType{problem_.accumulate, {product(row_axes()), product(column_axes())}})};
    int blocks = open_loops(acc);
    ValueId lhs = load(outputs_are_rows_ ? w : x, true), rhs = load(outputs_are_rows_ ? x : w, false);
    ValueId next = kernel_.dot(lhs, rhs, acc[0], tile::DotDims{{1}, {0}, {}, {}});
    for (int i = 0; i < blocks; ++i) next = kernel_.end_block({next})[0];
    BufferId result = builder_.buffer_of(node_.results[0]);
    if (parts_ > 1) result = add_parts();
    store(next);
    builder_.launch_kernel(
        kernel_.take(),
        {builder_.buffer_of(node_.operands[0]), builder_.buffer_of(node_.operands[1]), result}, "convolution",
        {id_.index});
    if (parts_ > 1) sum_parts(result);
    return Status::ok();
  }

 private:
  // ---- blocks
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
      // A filter gradient has few positions, each a product of its own over long runs of x.
      if (is_filter_gradient_ && roles[i] != kBatchRole) continue;
      Dim count = position_count(roles[i]);
      int64_t tile = clip_tile(count, hint(count), even_block(count, budget, multiple));
      position(roles[i]).tile = tile;
      budget = std::max<int64_t>(1, budget / tile);
      multiple = 1;
    }
  }

  bool has_more_taps_than_positions() const {
    double taps = 1, positions = 1;
    for (const SpatialDim& dim : problem_.spatial) {
      if (dim.spread > 1) return false;
      taps *= static_cast<double>(hint(dim.w));
      positions *= static_cast<double>(hint(dim.y));
    }
    return taps > 4 * positions;
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
    is_filter_gradient_ = has_more_taps_than_positions();
    choose_depth();
    int64_t most_parts = largest_number_of_parts();
    for (const auto& [rows, columns] : kBlocks) {
      const Dim& outputs = problem_.outputs;
      int64_t output_budget = outputs_are_rows_ ? rows : columns;
      place_.output.tile =
          clip_tile(outputs, hint(outputs), even_block(outputs, output_budget, outputs_are_rows_ ? 12 : 32));
      choose_positions(outputs_are_rows_ ? columns : rows, outputs_are_rows_ ? 32 : 12);
      if (instances() * most_parts >= kWantedInstances) break;
    }
    parts_ = std::clamp<int64_t>((kWantedInstances + instances() - 1) / instances(), 1, most_parts);
    part_inputs_ = Dim::ceil_div(Dim::ceil_div(problem_.inputs, Dim(place_.input.tile)), Dim(parts_)) *
                   Dim(place_.input.tile);
  }

  // The sum over inputs may be cut into parts that are instances of their own, where each is long and there
  // is enough work for the second kernel that adds them.
  int64_t largest_number_of_parts() const {
    double depth = static_cast<double>(hint(problem_.inputs)),
           results = static_cast<double>(hint(problem_.images));
    results *= static_cast<double>(hint(problem_.outputs) * problem_.groups());
    for (const SpatialDim& dim : problem_.spatial) {
      depth *= static_cast<double>(hint(dim.w));
      results *= static_cast<double>(hint(dim.y));
    }
    if (depth * results < kWorkOfParts) return 1;
    int64_t trips = blocks_of(problem_.inputs, place_.input.tile);
    return std::clamp<int64_t>(static_cast<int64_t>(depth) / kDepthOfPart, 1, trips);
  }

  // Channels first, then whole runs of taps, the last dim first; of a filter gradient taps first.
  void choose_depth() {
    int64_t rest = kBlockDepth;
    if (!is_filter_gradient_) rest = take_inputs(rest);
    for (size_t i = problem_.spatial.size(); i-- > 0;) {
      const SpatialDim& dim = problem_.spatial[i];
      place_.tap[i].tile = tap_block(dim, rest);
      rest = std::max<int64_t>(1, rest / place_.tap[i].tile);
      if (!dim.w.is_constant(place_.tap[i].tile)) rest = 1;
    }
    if (is_filter_gradient_) take_inputs(rest);
  }

  int64_t take_inputs(int64_t rest) {
    const Dim& inputs = problem_.inputs;
    place_.input.tile = clip_tile(inputs, hint(inputs), even_block(inputs, rest, 8));
    return rest / place_.input.tile;
  }

  // The largest part of the taps that divides them: a block must not reach over the end, where x is not zero.
  int64_t tap_block(const SpatialDim& dim, int64_t most) const {
    if (dim.spread > 1) return 1;
    if (!dim.w.is_constant()) return is_filter_gradient_ ? clip_tile(dim.w, hint(dim.w), most) : 1;
    int64_t tile = 1;
    for (int64_t t = 1; t <= std::min(most, dim.w.constant()); ++t) {
      if (dim.w.constant() % t == 0) tile = t;
    }
    return tile;
  }

  // ---- kernel
  void make_grid() {
    std::vector<Dim> grid;
    auto add = [&](const Dim& count) {
      grid.push_back(count);
      return tile::KernelBuilder::grid_id(static_cast<int>(grid.size()) - 1);
    };
    if (parts_ > 1) part_ = add(Dim(parts_));
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
      Dim from(0), to = problem_.inputs;
      if (parts_ > 1) {
        from = part_ * part_inputs_;
        to = Dim::min(to, from + part_inputs_);
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
    if (parts_ > 1) {
      param.dims.insert(param.dims.begin(), Dim(parts_));
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
    type.shape.insert(type.shape.begin(), Dim(parts_));
    return builder_.add_temporary(std::move(type), "partial sums");
  }

  void sum_parts(BufferId parts) {
    tile::KernelBuilder kernel("");
    Dim count = graph_.type(node_.results[0]).elements();
    int64_t lanes = clip_tile(count, hint(count), 1024);
    kernel.set_grid({Dim::ceil_div(count, Dim(lanes))});
    tile::DimIndex line{tile::KernelBuilder::grid_id(0) * Dim(lanes), {{0, 1}}, {}};
    int from = kernel.add_param(
        tile::Param{"parts", problem_.accumulate, {Dim(parts_), count}, {}, tile::AccessMode::Read});
    int to = kernel.add_param(tile::Param{"y", problem_.dtype, {count}, {}, tile::AccessMode::Write});
    TileType type{problem_.accumulate, {lanes}};
    ValueId sum;
    for (int64_t part = 0; part < parts_; ++part) {
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
  ConvolutionPlace place_;
  bool outputs_are_rows_ = true, is_filter_gradient_ = false;
  int64_t parts_ = 1;
  Dim part_, part_inputs_;
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
