// One kernel for a group: merges domain dims, chooses the kind and tile of each axis, lowers the roots and
// stores them.
#include <algorithm>

#include "base/text.h"
#include "codegen/lower/merged_domain.h"
#include "codegen/lower/tile_lowering.h"

namespace tilewright {

namespace {

constexpr int64_t kTileElements = 4096;  // elements of a grid tile: a few L1-resident tiles of f32
constexpr int64_t kFullElements = 8192;  // a reduced row up to here is kept whole
constexpr int64_t kSmallAxis = 32;       // a reduced axis that is not the fastest is kept whole up to here
constexpr int64_t kLoopChunk = 1024;     // elements of the fastest axis a trip
constexpr int64_t kLoopRows = 64;        // of any other axis
constexpr int64_t kTransposeTile = 32;   // both axes of a tile that is read across

// The largest divisor of `size` in [limit/2, limit], else `limit` rounded down to a power of two, at most
// `size`.
int64_t tile_for(const Dim& size, int64_t hint, int64_t limit) {
  limit = std::max<int64_t>(limit, 1);
  if (size.is_constant()) {
    if (size.constant() <= limit) return std::max<int64_t>(size.constant(), 1);
    for (int64_t tile = limit; tile * 2 >= limit && tile > 0; --tile) {
      if (size.constant() % tile == 0) return tile;
    }
  }
  int64_t tile = 1;
  while (tile * 2 <= limit && tile < hint) tile *= 2;
  return tile;
}

class GroupKernel {
 public:
  GroupKernel(ProgramBuilder& builder, const Grouping& grouping, const Group& group)
      : builder_(builder), group_(group), domain_(builder, grouping, group), kernel_("") {}

  Status emit() {
    std::vector<Axis> axes = choose_axes();
    std::vector<Dim> grid;
    for (Axis& axis : axes) {
      if (axis.kind != AxisKind::Grid) continue;
      bool one = axis.size.is_constant() && axis.size.constant() <= axis.tile;
      if (one) continue;
      axis.base = tile::KernelBuilder::grid_id(static_cast<int>(grid.size())) * Dim(axis.tile);
      grid.push_back(Dim::ceil_div(axis.size, Dim(axis.tile)));
    }
    kernel_.set_grid(std::move(grid));
    TileLowering lowering(
        builder_, kernel_, std::move(axes), [this](ValueId value) { return domain_.computed(value); },
        [this](NodeId node) { return *domain_.map_of(group_.reduce_dims.at(node.index)); });
    TW_RETURN_IF_ERROR(store_roots(lowering));
    builder_.launch_kernel(kernel_.take(), lowering.buffers(), description(), node_list());
    return Status::ok();
  }

 private:
  std::vector<Axis> choose_axes() {
    const std::vector<Symbol>& symbols = builder_.graph().symbols;
    std::vector<Axis> axes;
    std::vector<bool> reduced;
    for (const std::vector<int>& run : domain_.runs()) {
      Axis axis;
      axis.size = Dim(1);
      for (int dim : run) axis.size = axis.size * group_.dims[dim].size;
      reduced.push_back(group_.dims[run[0]].reduced);
      axes.push_back(std::move(axis));
    }
    int64_t full = 1;
    size_t last = axes.size();
    for (size_t i = axes.size(); i-- > 0;) {
      if (!reduced[i]) continue;
      bool fastest = i + 1 == last;
      int64_t limit = fastest ? kFullElements / full : std::min(kSmallAxis, kFullElements / full);
      Axis& axis = axes[i];
      if (axis.size.is_constant() && axis.size.constant() <= limit) {
        axis.kind = AxisKind::Full;
        axis.tile = std::max<int64_t>(axis.size.constant(), 1);
        full *= axis.tile;
      } else {
        axis.kind = AxisKind::Looped;
        axis.tile = tile_for(axis.size, axis.size.hint(symbols), fastest ? kLoopChunk : kLoopRows);
        full *= axis.tile;
      }
    }
    int64_t budget = std::max<int64_t>(1, kTileElements / full);
    if (full > 1) budget = std::min<int64_t>(budget, last > 0 && reduced[last - 1] ? 8 : 64);
    int across = axis_read_across();
    for (size_t i = axes.size(); i-- > 0;) {
      if (axes[i].kind != AxisKind::Grid) continue;
      int64_t limit = budget;
      if (across >= 0 && (i + 1 == last || static_cast<int>(i) == across))
        limit = std::min(limit, kTransposeTile);
      axes[i].tile = tile_for(axes[i].size, axes[i].size.hint(symbols), limit);
      budget = std::max<int64_t>(1, budget / axes[i].tile);
      // Outer axes are tiled too only while the inner ones are short.
      if (axes[i].tile >= 256 && across < 0) budget = 1;
    }
    if (across >= 0 && axes[across].kind == AxisKind::Grid) {
      axes[across].tile = tile_for(axes[across].size, axes[across].size.hint(symbols), kTransposeTile);
    }
    return axes;
  }

  // An axis other than the last along which some buffer is contiguous (a transpose); -1: none.
  int axis_read_across() const {
    int last = static_cast<int>(domain_.runs().size()) - 1;
    for (uint32_t index : group_.nodes) {
      const Node& node = builder_.graph().node(NodeId{index});
      if (node.op != Op::Transpose || domain_.computed(node.operands[0])) continue;
      auto maps = group_.maps.find(node.results[0].index);
      if (maps == group_.maps.end()) continue;
      for (const IndexMap& map : maps->second) {
        std::optional<IndexMap> operand = operand_map(builder_.graph(), node, 0, map);
        if (!operand || operand->segments.empty()) continue;
        int dim = -1;
        if (!operand->segments.back().expr.is_identity(&dim)) continue;
        for (int axis = 0; axis < last; ++axis) {
          const std::vector<int>& run = domain_.runs()[axis];
          if (run.back() == dim) return axis;
        }
      }
    }
    return -1;
  }

  // All roots are computed before the first is stored, the small ones (row statistics) stored first: an
  // output may then take the memory of an input that it replaces.
  Status store_roots(TileLowering& lowering) {
    std::vector<Root> plain, looped;
    for (ValueId root : group_.roots) {
      Root each{root, *domain_.map_of(group_.root_dims.at(root.index)), {}};
      (lowering.varies_in_loops(each.map) ? looped : plain).push_back(std::move(each));
    }
    for (Root& root : looped) lowering.hoist(root.value, root.map);
    TW_RETURN_IF_ERROR(store_all(lowering, plain));
    if (looped.empty()) return Status::ok();
    std::vector<int> axes;
    for (size_t i = 0; i < lowering.axes().size(); ++i) {
      if (lowering.axes()[i].kind == AxisKind::Looped) axes.push_back(static_cast<int>(i));
    }
    lowering.open_loops(axes, {});
    TW_RETURN_IF_ERROR(store_all(lowering, looped));
    lowering.close_loops({});
    return lowering.status();
  }

  struct Root {
    ValueId value;
    IndexMap map;
    ValueId tile;
  };

  Status store_all(TileLowering& lowering, std::vector<Root>& roots) {
    // Producers first: a root that another root reads is computed once.
    std::sort(roots.begin(), roots.end(), [](const Root& a, const Root& b) { return a.value < b.value; });
    Ints axes;
    for (size_t i = 0; i < lowering.axes().size(); ++i) axes.push_back(static_cast<int64_t>(i));
    for (Root& root : roots) {
      root.tile = lowering.lower(root.value, root.map);
      TW_RETURN_IF_ERROR(lowering.status());
      root.tile = kernel_.broadcast(root.tile, lowering.tile_shape(root.map), axes);
    }
    std::stable_sort(roots.begin(), roots.end(), [&](const Root& a, const Root& b) {
      return kernel_.type(a.tile).elements() < kernel_.type(b.tile).elements();
    });
    for (const Root& root : roots) {
      const TensorType& type = builder_.graph().type(root.value);
      tile::Access access =
          lowering.access(builder_.buffer_of(root.value), type, root.map, tile::AccessMode::Write);
      kernel_.store(root.tile, std::move(access));
    }
    return Status::ok();
  }

  std::string description() const {
    std::vector<std::string> names;
    for (uint32_t node : group_.nodes) {
      const Node& member = builder_.graph().node(NodeId{node});
      if (member.op != Op::Constant) names.push_back(op_name(member.op));
    }
    return names.empty() ? op_name(Op::Constant) : join(names, ", ");
  }

  std::vector<uint32_t> node_list() const { return {group_.nodes.begin(), group_.nodes.end()}; }

  ProgramBuilder& builder_;
  const Group& group_;
  MergedDomain domain_;
  tile::KernelBuilder kernel_;
};

}  // namespace

Status lower_group(ProgramBuilder& builder, const Grouping& grouping, const Group& group) {
  return GroupKernel(builder, grouping, group).emit();
}

}  // namespace tilewright
