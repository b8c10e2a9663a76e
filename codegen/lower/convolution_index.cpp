// Reading convolutions, and the indices of their three tensors.
#include <algorithm>
#include <numeric>

#include "codegen/lower/convolution.h"
#include "ir/inference.h"

namespace tilewright {

namespace {

// By dim of the buffer, the role it has; `dims` lists the dim of each role.
std::vector<int> roles_of(const Ints& dims, int rank) {
  std::vector<int> roles(static_cast<size_t>(rank));
  for (int role = 0; role < rank; ++role)
    roles[dims.empty() ? static_cast<size_t>(role) : static_cast<size_t>(dims[role])] = role;
  return roles;
}

int64_t entry(const Ints& list, int dim, int64_t fallback) { return list.empty() ? fallback : list[dim]; }

bool follows(const std::vector<int>& order, int role) {
  for (size_t i = 0; i + 1 < order.size(); ++i) {
    if (order[i] == role) return order[i + 1] == role + 1;
  }
  return false;
}

bool moves_nothing(const SpatialDim& dim) {
  return dim.w.is_constant(1) && dim.stride == 1 && dim.lo == 0 && dim.spread == 1 && dim.x == dim.y;
}

// The window is all of x, as in the filter gradient of a convolution that moves nothing.
bool takes_all(const SpatialDim& dim) {
  return dim.w == dim.x && dim.y.is_constant(1) && dim.lo == 0 && dim.spread == 1 && dim.step == 1;
}

void drop_role(std::vector<int>& order, int role) {
  std::erase(order, role);
  for (int& other : order) other -= other > role ? 1 : 0;
}

// Joins spatial dim i and the next one.
void join(Convolution& problem, int i) {
  for (size_t at = 0; at + 1 < problem.y_order.size(); ++at) {
    if (problem.y_order[at] != kSpatialRole + i || problem.y_order[at + 1] != kSpatialRole + i + 1) continue;
    std::vector<int>& dims = problem.y_dims[at];
    dims.insert(dims.end(), problem.y_dims[at + 1].begin(), problem.y_dims[at + 1].end());
    break;
  }
  // Where the two are no neighbours in y, both have one position.
  auto gone_in_y = std::find(problem.y_order.begin(), problem.y_order.end(), kSpatialRole + i + 1);
  problem.y_dims.erase(problem.y_dims.begin() + (gone_in_y - problem.y_order.begin()));
  SpatialDim &kept = problem.spatial[i], &gone = problem.spatial[i + 1];
  kept.x = kept.x * gone.x;
  kept.w = kept.w * gone.w;
  kept.y = kept.y * gone.y;
  problem.spatial.erase(problem.spatial.begin() + i + 1);
  for (std::vector<int>* order : {&problem.x_order, &problem.w_order, &problem.y_order})
    drop_role(*order, kSpatialRole + i + 1);
}

}  // namespace

bool Convolution::is_depthwise() const {
  return groups() > 1 && inputs.is_constant(1) && outputs.is_constant() && outputs.constant() <= 8;
}

Convolution read_convolution(const Graph& graph, NodeId id, bool join_dims) {
  const Node& node = graph.node(id);
  AttributeReader attributes(node.op, node.attributes);
  const TensorType &x = graph.type(node.operands[0]), &w = graph.type(node.operands[1]),
                   &y = graph.type(node.results[0]);
  Convolution problem;
  int rank = x.rank();
  problem.x_order = roles_of(attributes.get_ints("x_dims"), rank);
  problem.w_order = roles_of(attributes.get_ints("w_dims"), rank);
  problem.y_order = roles_of(attributes.get_ints("y_dims"), rank);
  problem.spatial.resize(static_cast<size_t>(rank) - 2);
  problem.feature_groups = attributes.get_int("feature_groups");
  problem.batch_groups = attributes.get_int("batch_groups");
  problem.dtype = x.dtype;
  problem.accumulate = accumulation_type(x.dtype);
  for (int dim = 0; dim < rank; ++dim) {
    if (problem.x_order[dim] >= kSpatialRole)
      problem.spatial[problem.x_order[dim] - kSpatialRole].x = x.shape[dim];
    if (problem.y_order[dim] >= kSpatialRole)
      problem.spatial[problem.y_order[dim] - kSpatialRole].y = y.shape[dim];
    if (problem.w_order[dim] >= kSpatialRole)
      problem.spatial[problem.w_order[dim] - kSpatialRole].w = w.shape[dim];
    if (problem.w_order[dim] == kBatchRole)
      problem.outputs = Dim::floor_div(w.shape[dim], Dim(problem.groups()));
    if (problem.w_order[dim] == kFeatureRole) problem.inputs = w.shape[dim];
    if (problem.y_order[dim] == kBatchRole) problem.images = y.shape[dim];
  }
  for (int i = 0; i < rank - 2; ++i) {
    SpatialDim& dim = problem.spatial[i];
    dim.stride = entry(attributes.get_ints("strides"), i, 1);
    dim.lo = entry(attributes.get_ints("pad_lo"), i, 0);
    dim.spread = entry(attributes.get_ints("lhs_dilation"), i, 1);
    dim.step = entry(attributes.get_ints("rhs_dilation"), i, 1);
  }
  for (int dim = 0; dim < rank; ++dim) problem.y_dims.push_back({dim});
  for (int i = 0; join_dims && i + 1 < static_cast<int>(problem.spatial.size());) {
    const SpatialDim &a = problem.spatial[i], &b = problem.spatial[i + 1];
    bool follow_in_x = follows(problem.x_order, kSpatialRole + i);
    bool pixels = moves_nothing(a) && moves_nothing(b) && follows(problem.y_order, kSpatialRole + i);
    bool windows = takes_all(a) && takes_all(b) && follows(problem.w_order, kSpatialRole + i);
    if (follow_in_x && (pixels || windows)) {
      join(problem, i);
    } else {
      ++i;
    }
  }
  return problem;
}

ResidueClasses::ResidueClasses(const SpatialDim& dim) {
  // Positions count apart see the same distance to the grid of input elements.
  count = dim.spread / std::gcd(dim.stride, dim.spread);
  pace = count * dim.stride / dim.spread;
}

tile::DimIndex Coordinate::index(int64_t coefficient) const {
  tile::DimIndex index{base * Dim(coefficient), {}, {}};
  if (axis >= 0) index.terms.push_back({axis, coefficient});
  return index;
}

tile::Param convolution_param(const Convolution& problem, int tensor) {
  tile::Param param;
  param.name = tensor == 0 ? "x" : tensor == 1 ? "w" : "y";
  param.dtype = problem.dtype;
  param.mode = tensor == 2 ? tile::AccessMode::Write : tile::AccessMode::Read;
  const std::vector<int>& order = tensor == 0   ? problem.x_order
                                  : tensor == 1 ? problem.w_order
                                                : problem.y_order;
  auto add_split = [&](int64_t groups, const Dim& each) {
    if (groups > 1) param.dims.push_back(Dim(groups));
    param.dims.push_back(each);
  };
  for (int role : order) {
    if (role >= kSpatialRole) {
      const SpatialDim& dim = problem.spatial[role - kSpatialRole];
      param.dims.push_back(tensor == 0 ? dim.x : tensor == 1 ? dim.w : dim.y);
    } else if (tensor == 0) {
      add_split(role == kBatchRole ? problem.batch_groups : problem.feature_groups,
                role == kBatchRole ? problem.images : problem.inputs);
    } else if (tensor == 1) {
      add_split(role == kBatchRole ? problem.groups() : 1,
                role == kBatchRole ? problem.outputs : problem.inputs);
    } else {
      add_split(role == kBatchRole ? 1 : problem.groups(),
                role == kBatchRole ? problem.images : problem.outputs);
    }
  }
  return param;
}

// Position in x of one spatial dim: (stride * y + step * tap - lo) / spread, which a residue class makes
// exact.
static tile::DimIndex x_position(const SpatialDim& dim, const Dim& residue, const Coordinate& position,
                                 const Coordinate& tap) {
  ResidueClasses classes(dim);
  tile::DimIndex index{
      Dim::floor_div(residue * Dim(dim.stride) + tap.base * Dim(dim.step) - Dim(dim.lo), Dim(dim.spread)) +
          position.base * Dim(classes.pace),
      {},
      {}};
  if (position.axis >= 0) index.terms.push_back({position.axis, classes.pace});
  if (tap.axis >= 0) index.terms.push_back({tap.axis, dim.step});
  return index;
}

std::vector<tile::DimIndex> x_index(const Convolution& problem, const ConvolutionPlace& place) {
  std::vector<tile::DimIndex> index;
  for (int role : problem.x_order) {
    if (role == kBatchRole) {
      if (problem.batch_groups > 1) index.push_back(place.group.index());
      index.push_back(place.image.index());
    } else if (role == kFeatureRole) {
      if (problem.feature_groups > 1) index.push_back(place.group.index());
      index.push_back(place.input.index());
    } else {
      size_t i = static_cast<size_t>(role - kSpatialRole);
      index.push_back(x_position(problem.spatial[i], place.residue[i], place.position[i], place.tap[i]));
    }
  }
  return index;
}

std::vector<tile::DimIndex> w_index(const Convolution& problem, const ConvolutionPlace& place) {
  std::vector<tile::DimIndex> index;
  for (int role : problem.w_order) {
    if (role == kBatchRole) {
      if (problem.groups() > 1) index.push_back(place.group.index());
      index.push_back(place.output.index());
    } else if (role == kFeatureRole) {
      index.push_back(place.input.index());
    } else {
      index.push_back(place.tap[static_cast<size_t>(role - kSpatialRole)].index());
    }
  }
  return index;
}

std::vector<tile::DimIndex> y_index(const Convolution& problem, const ConvolutionPlace& place) {
  std::vector<tile::DimIndex> index;
  for (int role : problem.y_order) {
    if (role == kBatchRole) {
      index.push_back(place.image.index());
    } else if (role == kFeatureRole) {
      if (problem.groups() > 1) index.push_back(place.group.index());
      index.push_back(place.output.index());
    } else {
      size_t i = static_cast<size_t>(role - kSpatialRole);
      int64_t count = ResidueClasses(problem.spatial[i]).count;
      tile::DimIndex at = place.position[i].index(count);
      at.base = at.base + place.residue[i];
      index.push_back(std::move(at));
    }
  }
  return index;
}

int open_tap_loop(tile::KernelBuilder& kernel, const SpatialDim& dim, const Dim& residue, Coordinate& tap,
                  std::vector<ValueId>& carried) {
  Dim first(0), pace(tap.tile);
  if (dim.spread > 1 && dim.step == 1) {
    // The taps that meet an element lie `spread` apart.
    first = Dim::mod(Dim(dim.lo) - residue * Dim(dim.stride), Dim(dim.spread));
    pace = Dim(dim.spread);
  }
  tap.base = kernel.begin_for(first, dim.w, pace, carried);
  carried = kernel.loop_carries();
  if (dim.spread == 1 || dim.step == 1) return 1;
  Dim rest = Dim::mod(residue * Dim(dim.stride) + tap.base * Dim(dim.step) - Dim(dim.lo), Dim(dim.spread));
  kernel.begin_if(Dim(1) - rest, carried);
  carried = kernel.loop_carries();
  return 2;
}

}  // namespace tilewright
