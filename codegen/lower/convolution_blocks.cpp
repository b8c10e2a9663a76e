// How a dense convolution is cut: blocks of outputs and positions, depth of a step, parts of the sum.
#include <algorithm>
#include <utility>

#include "codegen/lower/convolution.h"
#include "codegen/lower/tile_sizes.h"

namespace tilewright {

namespace {

// Rows and columns of an output block; the first that gives enough instances.  Columns are the last to
// shrink: they are what a register block runs along.
constexpr std::pair<int64_t, int64_t> kBlocks[] = {{192, 256}, {96, 256}, {96, 128}, {48, 128}, {48, 64}};
constexpr int64_t kBlockDepth = 192;  // channels times taps a step
constexpr int64_t kWantedInstances = 16;
constexpr int64_t kDepthOfPart = 512;
constexpr double kWorkOfParts = 1 << 22;  // products

class BlockChoice {
 public:
  BlockChoice(const Convolution& problem, const std::vector<Symbol>& symbols)
      : problem_(problem), symbols_(symbols) {}

  ConvolutionBlocks choose() {
    size_t spatial = problem_.spatial.size();
    blocks_.place.tap.resize(spatial);
    blocks_.place.position.resize(spatial);
    blocks_.place.residue.assign(spatial, Dim(0));
    blocks_.outputs_are_rows = problem_.y_order.back() != kFeatureRole;
    blocks_.is_filter_gradient = has_more_taps_than_positions();
    choose_depth();
    int64_t most_parts = largest_number_of_parts();
    for (const auto& [rows, columns] : kBlocks) {
      const Dim& outputs = problem_.outputs;
      int64_t output_budget = blocks_.outputs_are_rows ? rows : columns;
      blocks_.place.output.tile = clip_tile(
          outputs, hint(outputs), even_block(outputs, output_budget, blocks_.outputs_are_rows ? 12 : 32));
      choose_positions(blocks_.outputs_are_rows ? columns : rows, blocks_.outputs_are_rows ? 32 : 12);
      if (instances() * most_parts >= kWantedInstances) break;
    }
    blocks_.parts = std::clamp<int64_t>((kWantedInstances + instances() - 1) / instances(), 1, most_parts);
    blocks_.part_inputs =
        Dim::ceil_div(Dim::ceil_div(problem_.inputs, Dim(blocks_.place.input.tile)), Dim(blocks_.parts)) *
        Dim(blocks_.place.input.tile);
    return std::move(blocks_);
  }

 private:
  int64_t hint(const Dim& size) const { return hint_of(size, symbols_); }

  void choose_positions(int64_t budget, int64_t multiple) {
    std::vector<int> roles = position_roles(problem_);
    for (size_t i = roles.size(); i-- > 0;) {
      // A filter gradient has few positions, each a product of its own over long runs of x.
      if (blocks_.is_filter_gradient && roles[i] != kBatchRole) continue;
      Dim count = position_count(problem_, roles[i]);
      int64_t tile = clip_tile(count, hint(count), even_block(count, budget, multiple));
      position_of(blocks_.place, roles[i]).tile = tile;
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
    int64_t count = problem_.groups() * blocks_of(problem_.outputs, blocks_.place.output.tile);
    for (int role : position_roles(problem_)) {
      count *= blocks_of(position_count(problem_, role), position_of(blocks_.place, role).tile);
      if (role >= kSpatialRole)
        count *= ResidueClasses(problem_.spatial[static_cast<size_t>(role - kSpatialRole)]).count;
    }
    return count;
  }
  int64_t blocks_of(const Dim& size, int64_t tile) const { return (hint(size) + tile - 1) / tile; }

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
    int64_t trips = blocks_of(problem_.inputs, blocks_.place.input.tile);
    return std::clamp<int64_t>(static_cast<int64_t>(depth) / kDepthOfPart, 1, trips);
  }

  // Channels first, then whole runs of taps, the last dim first; of a filter gradient taps first.
  void choose_depth() {
    int64_t rest = kBlockDepth;
    if (!blocks_.is_filter_gradient) rest = take_inputs(rest);
    for (size_t i = problem_.spatial.size(); i-- > 0;) {
      const SpatialDim& dim = problem_.spatial[i];
      blocks_.place.tap[i].tile = tap_block(dim, rest);
      rest = std::max<int64_t>(1, rest / blocks_.place.tap[i].tile);
      if (!dim.w.is_constant(blocks_.place.tap[i].tile)) rest = 1;
    }
    if (blocks_.is_filter_gradient) take_inputs(rest);
  }

  int64_t take_inputs(int64_t rest) {
    const Dim& inputs = problem_.inputs;
    blocks_.place.input.tile = clip_tile(inputs, hint(inputs), even_block(inputs, rest, 8));
    return rest / blocks_.place.input.tile;
  }

  // The largest part of the taps that divides them: a block must not reach over the end, where x is not zero.
  int64_t tap_block(const SpatialDim& dim, int64_t most) const {
    if (dim.spread > 1) return 1;
    if (!dim.w.is_constant()) return blocks_.is_filter_gradient ? clip_tile(dim.w, hint(dim.w), most) : 1;
    int64_t tile = 1;
    for (int64_t t = 1; t <= std::min(most, dim.w.constant()); ++t) {
      if (dim.w.constant() % t == 0) tile = t;
    }
    return tile;
  }

  const Convolution& problem_;
  const std::vector<Symbol>& symbols_;
  ConvolutionBlocks blocks_;
};

}  // namespace

ConvolutionBlocks choose_blocks(const Convolution& problem, const std::vector<Symbol>& symbols) {
  return BlockChoice(problem, symbols).choose();
}

std::vector<int> position_roles(const Convolution& problem) {
  std::vector<int> roles;
  for (int role : problem.y_order) {
    if (role != kFeatureRole) roles.push_back(role);
  }
  return roles;
}

Dim position_count(const Convolution& problem, int role) {
  if (role == kBatchRole) return problem.images;
  const SpatialDim& dim = problem.spatial[static_cast<size_t>(role - kSpatialRole)];
  return Dim::ceil_div(dim.y, Dim(ResidueClasses(dim).count));
}

bool convolution_takes_group(const Graph& graph, NodeId id) {
  if (graph.node(id).op != Op::Convolution) return false;
  Convolution problem = read_convolution(graph, id);
  if (problem.groups() > 1) return false;
  for (const SpatialDim& dim : problem.spatial) {
    if (dim.spread > 1) return false;  // positions of one class do not lie side by side
  }
  return choose_blocks(problem, graph.symbols).parts == 1;
}

}  // namespace tilewright
