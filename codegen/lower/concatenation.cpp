// Concatenations of many operands: one launch an operand into its part of the result.
//
// Fused, each element would choose among all operands, and compiling that grows faster than their number.
#include <map>

#include "base/text.h"
#include "codegen/lower/program_builder.h"
#include "codegen/lower/tile_sizes.h"
#include "ir/inference.h"

namespace tilewright {

namespace {

constexpr int64_t kLanes = 4096;  // elements of a line in one tile

Dim product(const Shape& shape, size_t from, size_t to) {
  Dim all(1);
  for (size_t i = from; i < to; ++i) all = all * shape[i];
  return all;
}

// Copies lines of `length` elements into lines that lie `pitch` apart.
tile::Kernel copy_lines(DType dtype, const Dim& lines, const Dim& length, const Dim& pitch,
                        const std::vector<Symbol>& symbols) {
  tile::KernelBuilder kernel("");
  int64_t lanes = clip_tile(length, hint_of(length, symbols), kLanes);
  kernel.set_grid({lines, Dim::ceil_div(length, Dim(lanes))});
  int from = kernel.add_param(tile::Param{"from", dtype, {lines, length}, {}, tile::AccessMode::Read});
  int to =
      kernel.add_param(tile::Param{"to", dtype, {lines, length}, {pitch, Dim(1)}, tile::AccessMode::Write});
  std::vector<tile::DimIndex> index{{tile::KernelBuilder::grid_id(0), {}, {}},
                                    {tile::KernelBuilder::grid_id(1) * Dim(lanes), {{0, 1}}, {}}};
  ValueId line = kernel.load(tile::Access{from, index, false}, tile::TileType{dtype, {lanes}});
  kernel.store(line, tile::Access{to, index, false});
  return kernel.take();
}

}  // namespace

Result<bool> lower_concatenation(ProgramBuilder& builder, NodeId id) {
  const Graph& graph = builder.graph();
  const Node& node = graph.node(id);
  if (node.op != Op::Concatenate) return false;
  const TensorType& out = graph.type(node.results[0]);
  size_t dim = static_cast<size_t>(AttributeReader(node.op, node.attributes).get_int("dim"));
  Dim lines = product(out.shape, 0, dim), inner = product(out.shape, dim + 1, out.shape.size());
  BufferId result = builder.buffer_of(node.results[0]);
  Dim offset(0);
  std::map<std::string, size_t> known;  // launches by length of their lines
  std::vector<Launch>& launches = builder.program().launches;
  for (ValueId operand : node.operands) {
    Dim length = graph.type(operand).shape[dim] * inner;
    BufferId source = builder.buffer_of(operand);
    auto [entry, is_new] = known.emplace(length.to_string(), launches.size());
    if (is_new) {
      builder.launch_kernel(copy_lines(out.dtype, lines, length, out.shape[dim] * inner, graph.symbols),
                            {source, result}, "concatenate", {id.index});
    } else {
      Launch again = launches[entry->second];
      again.buffers[0].buffer = source;
      launches.push_back(std::move(again));
    }
    launches.back().buffers[1].offset = offset;
    offset = offset + length;
  }
  return true;
}

}  // namespace tilewright
