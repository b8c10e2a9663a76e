// Ends the kernel of a contraction in the stores of the group that reads it.
#include "codegen/lower/epilogue.h"

#include <algorithm>

#include "base/text.h"

namespace tilewright {

Status emit_epilogue(ProgramBuilder& builder, tile::KernelBuilder& kernel, const MergedDomain& domain,
                     const Group& group, Product product) {
  const Graph& graph = builder.graph();
  const Node& node = graph.node(product.node);
  Ints axis_list;
  for (size_t i = 0; i < product.axes.size(); ++i) axis_list.push_back(static_cast<int64_t>(i));
  TileLowering lowering(
      builder, kernel, std::move(product.axes), [&](ValueId value) { return domain.computed(value); },
      [](NodeId) { return IndexMap{}; });
  lowering.set_buffers(std::move(product.buffers));
  std::vector<int> dims;
  for (int dim = 0; dim < graph.type(node.results[0]).rank(); ++dim) dims.push_back(dim);
  lowering.preset(node.results[0], *domain.map_of(dims), product.tile);
  std::vector<ValueId> roots = group.roots;
  std::sort(roots.begin(), roots.end());
  std::vector<ValueId> tiles;
  for (ValueId root : roots) {
    IndexMap map = *domain.map_of(group.root_dims.at(root.index));
    ValueId tile = lowering.lower(root, map);
    TW_RETURN_IF_ERROR(lowering.status());
    tiles.push_back(kernel.broadcast(tile, lowering.tile_shape(map), axis_list));
  }
  for (size_t i = 0; i < roots.size(); ++i) {
    IndexMap map = *domain.map_of(group.root_dims.at(roots[i].index));
    kernel.store(tiles[i], lowering.access(builder.buffer_of(roots[i]), graph.type(roots[i]), map,
                                           tile::AccessMode::Write));
  }
  std::vector<uint32_t> nodes{product.node.index};
  std::string description = op_name(node.op);
  for (uint32_t member : group.nodes) {
    nodes.push_back(member);
    Op op = graph.node(NodeId{member}).op;
    if (op != Op::Constant) description += cat(", ", op_name(op));
  }
  builder.launch_kernel(kernel.take(), lowering.buffers(), std::move(description), std::move(nodes));
  return Status::ok();
}

Status lower_anchored_group(ProgramBuilder& builder, const Grouping& grouping, const Group& group) {
  if (builder.graph().node(group.anchor).op == Op::Convolution)
    return lower_convolution_with_group(builder, grouping, group);
  return lower_contraction_with_group(builder, grouping, group);
}

}  // namespace tilewright
