// A convolution as its lowerings see it: sizes and the order of dims, whatever the dim numbers of the node.
#pragma once

#include "codegen/lower/program_builder.h"

namespace tilewright {

// What a dim of x, w or y is: 0 is batch (of w: outputs), 1 features (of w: inputs), 2 + i spatial dim i.
constexpr int kBatchRole = 0, kFeatureRole = 1, kSpatialRole = 2;

struct SpatialDim {
  Dim x, w, y;
  int64_t stride = 1, lo = 0;
  int64_t spread = 1;  // lhs_dilation: distance of input elements
  int64_t step = 1;    // rhs_dilation: distance of filter taps
};

struct Convolution {
  std::vector<int> x_order, w_order, y_order;  // by dim of the buffer: its role
  std::vector<std::vector<int>> y_dims;  // by entry of y_order: the dims of the result that it stands for
  std::vector<SpatialDim> spatial;
  int64_t feature_groups = 1, batch_groups = 1;
  Dim images;   // of y
  Dim inputs;   // of one group
  Dim outputs;  // of one group
  DType dtype = DType::F32, accumulate = DType::F32;

  int64_t groups() const { return feature_groups * batch_groups; }
  bool is_depthwise() const;
};

// Neighbouring spatial dims become one, if asked for, where the filter has one tap and nothing is moved.
Convolution read_convolution(const Graph& graph, NodeId id, bool join_dims = true);

// The residues that output positions of one spatial dim fall into: all positions of a class meet the same
// taps. Without lhs_dilation there is one class.
struct ResidueClasses {
  int64_t count = 1;  // output position = count * q + class
  int64_t pace = 1;   // input elements that q + 1 moves

  explicit ResidueClasses(const SpatialDim& dim);
};

// One dim of the grid or of a tile: the index of the first element, and how many elements.
struct Coordinate {
  Dim base;
  int64_t tile = 1;
  int axis = -1;  // of the tile; -1: no axis
  tile::DimIndex index(int64_t coefficient = 1) const;
};

// Where a kernel stands in the index space of the convolution.
struct ConvolutionPlace {
  Coordinate image, group, input, output;
  std::vector<Coordinate> tap, position;  // by spatial dim; position counts q of a residue class
  std::vector<Dim> residue;
};

// The sizes that the kernel of a dense convolution cuts its index space into.
struct ConvolutionBlocks {
  ConvolutionPlace place;  // with the tiles of all coordinates
  bool outputs_are_rows = true;
  bool is_filter_gradient = false;
  int64_t parts = 1;  // of the sum over inputs, each an instance of its own
  Dim part_inputs;    // inputs of a part
};
ConvolutionBlocks choose_blocks(const Convolution& problem, const std::vector<Symbol>& symbols);

// Images and spatial dims in the order of y: the positions of a block.
std::vector<int> position_roles(const Convolution& problem);
inline Coordinate& position_of(ConvolutionPlace& place, int role) {
  return role == kBatchRole ? place.image : place.position[static_cast<size_t>(role - kSpatialRole)];
}
// Positions of one residue class.
Dim position_count(const Convolution& problem, int role);

// The convolution's kernel may compute, before it stores, the elementwise group that reads its result.
bool convolution_takes_group(const Graph& graph, NodeId id);

// Buffer dims and indices of the three tensors; dims of channels and batch are split by group.
tile::Param convolution_param(const Convolution& problem, int tensor);  // 0 x, 1 w, 2 y
std::vector<tile::DimIndex> x_index(const Convolution& problem, const ConvolutionPlace& place);
std::vector<tile::DimIndex> w_index(const Convolution& problem, const ConvolutionPlace& place);
std::vector<tile::DimIndex> y_index(const Convolution& problem, const ConvolutionPlace& place);

// Opens the loop over the taps of one spatial dim that its residue class meets; `carried` are replaced by the
// carries inside.  Answers how many blocks it opened.
int open_tap_loop(tile::KernelBuilder& kernel, const SpatialDim& dim, const Dim& residue, Coordinate& tap,
                  std::vector<ValueId>& carried);

// One multiply-add a tap on tiles of y, for one input channel a group.
Status lower_depthwise(ProgramBuilder& builder, NodeId id, const Convolution& problem);

}  // namespace tilewright
