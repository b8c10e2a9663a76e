// Lowering of depthwise convolution: tiles of the output, one multiply-add a filter tap.
#include "codegen/lower/convolution.h"
#include "codegen/lower/tile_sizes.h"

namespace tilewright {

using tile::TileType;

namespace {

constexpr int64_t kTileElements = 512;
constexpr int64_t kUnrolledTaps = 32;  // small filters are written out, so that the sum stays in registers

class DepthwiseKernel {
 public:
  DepthwiseKernel(ProgramBuilder& builder, NodeId id, const Convolution& problem)
      : builder_(builder),
        graph_(builder.graph()),
        id_(id),
        node_(graph_.node(id)),
        problem_(problem),
        kernel_("") {}

  Status emit() {
    size_t spatial = problem_.spatial.size();
    place_.tap.resize(spatial);
    place_.position.resize(spatial);
    place_.residue.assign(spatial, Dim(0));
    make_axes();
    x_ = kernel_.add_param(convolution_param(problem_, 0));
    w_ = kernel_.add_param(convolution_param(problem_, 1));
    int y = kernel_.add_param(convolution_param(problem_, 2));
    std::vector<ValueId> acc{kernel_.integer(0, TileType{problem_.accumulate, shape_})};
    acc[0] = taps_are_few() ? unrolled(acc[0], 0) : looped(acc);
    number_axes();
    kernel_.store(kernel_.convert(acc[0], problem_.dtype), tile::Access{y, y_index(problem_, place_), false});
    builder_.launch_kernel(kernel_.take(),
                           {builder_.buffer_of(node_.operands[0]), builder_.buffer_of(node_.operands[1]),
                            builder_.buffer_of(node_.results[0])},
                           "depthwise convolution", {id_.index});
    return Status::ok();
  }

 private:
  // The axes of every tile are the dims of y, channels as group and output.  The fastest fill the tile.
  void make_axes() {
    std::vector<Dim> sizes;
    for (int role : problem_.y_order) {
      if (role == kBatchRole) add_axis(place_.image, problem_.images, sizes);
      if (role == kFeatureRole) {
        add_axis(place_.group, Dim(problem_.groups()), sizes);
        add_axis(place_.output, problem_.outputs, sizes);
      }
      if (role >= kSpatialRole) {
        size_t i = static_cast<size_t>(role - kSpatialRole);
        const SpatialDim& dim = problem_.spatial[i];
        add_axis(place_.position[i], Dim::ceil_div(dim.y, Dim(ResidueClasses(dim).count)), sizes);
      }
    }
    int64_t budget = kTileElements;
    for (size_t i = axes_.size(); i-- > 0;) {
      axes_[i]->tile =
          clip_tile(sizes[i], hint_of(sizes[i], graph_.symbols), even_block(sizes[i], budget, 16));
      budget = std::max<int64_t>(1, budget / axes_[i]->tile);
    }
    std::vector<Dim> grid;
    for (size_t i = 0; i < problem_.spatial.size(); ++i) {
      int64_t classes = ResidueClasses(problem_.spatial[i]).count;
      if (classes == 1) continue;
      place_.residue[i] = tile::KernelBuilder::grid_id(static_cast<int>(grid.size()));
      grid.push_back(Dim(classes));
    }
    for (size_t i = 0; i < axes_.size(); ++i) {
      axes_[i]->base = tile::KernelBuilder::grid_id(static_cast<int>(grid.size())) * Dim(axes_[i]->tile);
      grid.push_back(Dim::ceil_div(sizes[i], Dim(axes_[i]->tile)));
      shape_.push_back(axes_[i]->tile);
    }
    kernel_.set_grid(std::move(grid));
  }

  void add_axis(Coordinate& coordinate, const Dim& size, std::vector<Dim>& sizes) {
    axes_.push_back(&coordinate);
    sizes.push_back(size);
  }

  void number_axes() {
    for (size_t i = 0; i < axes_.size(); ++i) axes_[i]->axis = shape_[i] > 1 ? static_cast<int>(i) : -1;
  }

  bool taps_are_few() const {
    int64_t taps = 1;
    for (const SpatialDim& dim : problem_.spatial) {
      if (!dim.w.is_constant() || dim.spread > 1) return false;
      taps *= dim.w.constant();
    }
    return taps <= kUnrolledTaps;
  }

  ValueId unrolled(ValueId acc, size_t dim) {
    if (dim == problem_.spatial.size()) return add_product(acc);
    for (int64_t tap = 0; tap < problem_.spatial[dim].w.constant(); ++tap) {
      place_.tap[dim].base = Dim(tap);
      acc = unrolled(acc, dim + 1);
    }
    return acc;
  }

  ValueId looped(std::vector<ValueId> acc) {
    int blocks = 0;
    for (size_t i = 0; i < problem_.spatial.size(); ++i)
      blocks += open_tap_loop(kernel_, problem_.spatial[i], place_.residue[i], place_.tap[i], acc);
    ValueId next = add_product(acc[0]);
    for (int i = 0; i < blocks; ++i) next = kernel_.end_block({next})[0];
    return next;
  }

  ValueId add_product(ValueId acc) {
    ValueId x = load(x_, x_index_of_tile(), {&place_.output});
    std::vector<Coordinate*> absent{&place_.image};
    for (Coordinate& at : place_.position) absent.push_back(&at);
    number_axes();
    ValueId w = load(w_, w_index(problem_, place_), absent);
    return kernel_.elementwise(Op::Add, {acc, kernel_.elementwise(Op::Multiply, {x, w})});
  }

  std::vector<tile::DimIndex> x_index_of_tile() {
    number_axes();
    return x_index(problem_, place_);
  }

  // A tile of one element along the axes that the tensor lacks.
  ValueId load(int param, std::vector<tile::DimIndex> index, const std::vector<Coordinate*>& absent) {
    std::vector<int64_t> shape = shape_;
    for (size_t i = 0; i < axes_.size(); ++i) {
      for (const Coordinate* missing : absent) shape[i] = axes_[i] == missing ? 1 : shape[i];
    }
    ValueId tile =
        kernel_.load(tile::Access{param, std::move(index), false}, TileType{problem_.dtype, shape});
    return kernel_.convert(tile, problem_.accumulate);
  }

  ProgramBuilder& builder_;
  const Graph& graph_;
  NodeId id_;
  const Node& node_;
  const Convolution& problem_;
  tile::KernelBuilder kernel_;
  ConvolutionPlace place_;
  std::vector<Coordinate*> axes_;
  std::vector<int64_t> shape_;
  int x_ = 0, w_ = 0;
};

}  // namespace

Status lower_depthwise(ProgramBuilder& builder, NodeId id, const Convolution& problem) {
  return DepthwiseKernel(builder, id, problem).emit();
}

}  // namespace tilewright
