// Lowering of scatters: a copy of the operand, then updates applied in row-major order, in parallel only over
// window dims that no start index moves.
#include <algorithm>

#include "base/text.h"
#include "codegen/lower/program_builder.h"
#include "ir/inference.h"

namespace tilewright {

using tile::StoreKind;
using tile::TileType;

namespace {

constexpr int64_t kLanes = 256;  // elements of a window row in one tile

StoreKind store_kind(const std::string& kind) {
  if (kind == "add") return StoreKind::Add;
  if (kind == "mul") return StoreKind::Multiply;
  if (kind == "min") return StoreKind::Min;
  if (kind == "max") return StoreKind::Max;
  return StoreKind::Set;
}

int64_t fit(const Dim& size, int64_t limit) {
  return size.is_constant() ? std::max<int64_t>(1, std::min(size.constant(), limit)) : limit;
}

// An elementwise copy between buffers of one shape, converting: sums of 16-bit values are rounded once, at
// the end.
void launch_convert(ProgramBuilder& builder, BufferId from, BufferId to, std::vector<uint32_t> nodes) {
  const TensorType source = builder.program().buffers[from.index].type,
                   target = builder.program().buffers[to.index].type;
  tile::KernelBuilder kernel("");
  Dim count = target.elements();
  int64_t lanes = fit(count, 4096);
  kernel.set_grid({Dim::ceil_div(count, Dim(lanes))});
  auto access = [&](DType dtype, const char* name, tile::AccessMode mode) {
    tile::Access out;
    out.param = kernel.add_param(tile::Param{name, dtype, {count}, {}, mode});
    out.index = {{tile::KernelBuilder::grid_id(0) * Dim(lanes), {{0, 1}}, {}}};
    return out;
  };
  ValueId loaded =
      kernel.load(access(source.dtype, "from", tile::AccessMode::Read), TileType{source.dtype, {lanes}});
  kernel.store(kernel.convert(loaded, target.dtype), access(target.dtype, "to", tile::AccessMode::Write));
  builder.launch_kernel(kernel.take(), {from, to}, "convert", std::move(nodes));
}

class ScatterKernel {
 public:
  ScatterKernel(ProgramBuilder& builder, NodeId id)
      : builder_(builder),
        graph_(builder.graph()),
        id_(id),
        node_(graph_.node(id)),
        attributes_(node_.op, node_.attributes),
        kernel_(""),
        shape_(graph_.type(node_.operands[0]).shape) {}

  Status emit() {
    DType dtype = graph_.type(node_.results[0]).dtype;
    kind_ = store_kind(attributes_.get_string("kind"));
    // Sums and products of narrow floats are rounded once; f8 has no arithmetic of its own.
    bool rounds = kind_ == StoreKind::Add || kind_ == StoreKind::Multiply || is_float8(dtype);
    bool widen = kind_ != StoreKind::Set && rounds && accumulation_type(dtype) != dtype;
    BufferId result = builder_.buffer_of(node_.results[0]), operand = builder_.buffer_of(node_.operands[0]);
    target_dtype_ = widen ? accumulation_type(dtype) : dtype;
    target_ = widen ? builder_.add_temporary(TensorType{target_dtype_, shape_}, "scatter sums") : result;
    if (widen) {
      launch_convert(builder_, operand, target_, {id_.index});
    } else {
      builder_.launch_copy(operand, result);
    }
    if (node_.op == Op::Scatter) {
      scatter();
    } else {
      scatter_elements();
    }
    builder_.launch_kernel(kernel_.take(), buffers_, op_name(node_.op), {id_.index});
    if (widen) launch_convert(builder_, target_, result, {id_.index});
    return Status::ok();
  }

 private:
  static bool contains(const Ints& list, int64_t value) {
    return std::find(list.begin(), list.end(), value) != list.end();
  }

  int param(BufferId buffer, const char* name, const TensorType& type, tile::AccessMode mode) {
    buffers_.push_back(buffer);
    return kernel_.add_param(tile::Param{name, type.dtype, type.shape, {}, mode});
  }

  ValueId i64_tile(const Dim& value, std::vector<int64_t> shape) {
    return kernel_.index({value, {}, {}}, TileType{DType::I64, std::move(shape)});
  }

  // Reports an index outside [0, last]; `index` is an i64 tile.
  void report_outside(ValueId index, const Dim& last, const Dim& bound) {
    std::vector<int64_t> shape = kernel_.type(index).shape;
    ValueId below = kernel_.compare(index, i64_tile(Dim(0), shape), "LT");
    ValueId above = kernel_.compare(index, i64_tile(last, shape), "GT");
    int site = builder_.add_site(
        ErrorSite{node_.op, tagged_name(graph_, id_),
                  cat("index out of range, expected 0 <= index < ", bound.to_string()), bound});
    kernel_.report(kernel_.elementwise(Op::Or, {below, above}), index, site);
  }

  // ---- scatter: one update window at a time
  // ------------------------------------------------------------------------------
  void scatter() {
    const Ints &window_dims = attributes_.get_ints("update_window_dims"),
               &inserted = attributes_.get_ints("inserted");
    const Ints &batching = attributes_.get_ints("input_batching"),
               &index_batching = attributes_.get_ints("indices_batching");
    const Ints& map = attributes_.get_ints("scatter_map");
    const TensorType& index_type = graph_.type(node_.operands[1]);
    const TensorType& update_type = graph_.type(node_.operands[2]);
    int64_t vector_dim = attributes_.get_int("index_vector_dim");
    const std::string& policy = attributes_.get_string("oob");
    int rank = static_cast<int>(shape_.size()), update_rank = update_type.rank();
    // The window dim of the updates for each operand dim; -1 for inserted and batching dims.
    std::vector<int> window_of(rank, -1);
    size_t next = 0;
    for (int dim = 0; dim < rank; ++dim) {
      if (!contains(inserted, dim) && !contains(batching, dim))
        window_of[dim] = static_cast<int>(window_dims[next++]);
    }
    // Grid: window dims that no index moves.  The last one is cut into tiles of lanes.
    std::vector<Dim> grid, update_at(update_rank, Dim(0));
    std::vector<int64_t> update_tile(update_rank, 1);
    std::vector<int> free_dims;
    for (int dim = 0; dim < rank; ++dim) {
      if (window_of[dim] >= 0 && !contains(map, dim)) free_dims.push_back(dim);
    }
    for (int dim : free_dims) {
      const Dim& window = update_type.shape[window_of[dim]];
      int64_t lanes = dim == free_dims.back() && dim == rank - 1 ? window_lanes(window, shape_[dim]) : 1;
      update_tile[window_of[dim]] = lanes;
      update_at[window_of[dim]] = tile::KernelBuilder::grid_id(static_cast<int>(grid.size())) * Dim(lanes);
      grid.push_back(Dim::ceil_div(update_type.shape[window_of[dim]], Dim(lanes)));
    }
    kernel_.set_grid(std::move(grid));
    int indices = param(builder_.buffer_of(node_.operands[1]), "indices", index_type, tile::AccessMode::Read);
    int updates =
        param(builder_.buffer_of(node_.operands[2]), "updates", update_type, tile::AccessMode::Read);
    int out = param(target_, "out", TensorType{target_dtype_, shape_}, tile::AccessMode::ReadWrite);
    // Loops over the scatter dims of the updates, then over window dims that an index moves.
    int loops = 0;
    std::vector<Dim> scatter_at;
    for (int dim = 0; dim < update_rank; ++dim) {
      if (contains(window_dims, dim)) continue;
      update_at[dim] = kernel_.begin_for(Dim(0), update_type.shape[dim], Dim(1), {});
      scatter_at.push_back(update_at[dim]);
      ++loops;
    }
    auto index_dims = [&](int64_t component) {
      std::vector<tile::DimIndex> index;
      size_t batch = 0;
      for (int dim = 0; dim < index_type.rank(); ++dim) {
        index.push_back({dim == vector_dim ? Dim(component) : scatter_at[batch++], {}, {}});
      }
      return index;
    };
    std::vector<Dim> start(rank, Dim(0));
    Dim all_inside(1);
    int conditions = 0;
    for (size_t i = 0; i < map.size(); ++i) {
      int dim = static_cast<int>(map[i]);
      Dim window = window_of[dim] >= 0 ? update_type.shape[window_of[dim]] : Dim(1),
          last = shape_[dim] - window;
      start[dim] = kernel_.load_scalar(tile::Access{indices, index_dims(static_cast<int64_t>(i)), true});
      if (policy == "clamp") {
        start[dim] = Dim::max(Dim::min(start[dim], last), Dim(0));
        continue;
      }
      if (policy == "error") report_outside(i64_tile(start[dim], {}), last, shape_[dim]);
      if (policy == "promise" || window.is_constant(1)) continue;  // a store outside is dropped anyway
      kernel_.begin_if(start[dim] + Dim(1), {});
      kernel_.begin_if(last - start[dim] + Dim(1), {});
      conditions += 2;
    }
    for (size_t i = 0; i < batching.size(); ++i) {
      int64_t among = index_batching[i] - (vector_dim < index_batching[i] ? 1 : 0);
      start[batching[i]] = scatter_at[static_cast<size_t>(among)];
    }
    for (int dim : map_window_dims(window_of, map)) {
      update_at[window_of[dim]] = kernel_.begin_for(Dim(0), update_type.shape[window_of[dim]], Dim(1), {});
      ++loops;
    }
    tile::Access read{updates, {}, false}, write{out, {}, false};
    for (int dim = 0; dim < update_rank; ++dim) {
      tile::DimIndex index{update_at[dim], {}, {}};
      if (update_tile[dim] > 1) index.terms.push_back({dim, 1});
      read.index.push_back(std::move(index));
    }
    for (int dim = 0; dim < rank; ++dim) {
      tile::DimIndex index{start[dim], {}, {}};
      if (window_of[dim] >= 0) {
        index.base = index.base + update_at[window_of[dim]];
        if (update_tile[window_of[dim]] > 1) index.terms.push_back({window_of[dim], 1});
      }
      write.index.push_back(std::move(index));
    }
    ValueId update = kernel_.load(std::move(read), TileType{update_type.dtype, update_tile});
    kernel_.store(kernel_.convert(update, target_dtype_), std::move(write), kind_);
    int moved = static_cast<int>(map_window_dims(window_of, map).size());
    for (int i = 0; i < moved; ++i) kernel_.end_block({});
    for (int i = 0; i < conditions; ++i) kernel_.end_block({});
    for (int i = 0; i < loops - moved; ++i) kernel_.end_block({});
  }

  // Lanes along a window: only the end of the operand cuts a store short, so a window that ends before it is
  // cut into equal parts.
  static int64_t window_lanes(const Dim& window, const Dim& size) {
    if (window == size) return fit(size, kLanes);
    if (!window.is_constant()) return 1;
    int64_t lanes = std::min<int64_t>(kLanes, std::max<int64_t>(window.constant(), 1));
    while (window.constant() % lanes != 0) --lanes;
    return lanes;
  }

  static std::vector<int> map_window_dims(const std::vector<int>& window_of, const Ints& map) {
    std::vector<int> dims;
    for (int dim = 0; dim < static_cast<int>(window_of.size()); ++dim) {
      if (window_of[dim] >= 0 && contains(map, dim)) dims.push_back(dim);
    }
    return dims;
  }

  // ---- scatter_elements: lines along `dim`, each in one instance
  // --------------------------------------------------------
  void scatter_elements() {
    int along = static_cast<int>(attributes_.get_int("dim"));
    const TensorType& index_type = graph_.type(node_.operands[1]);
    const TensorType& update_type = graph_.type(node_.operands[2]);
    const std::string& policy = attributes_.get_string("oob");
    int rank = static_cast<int>(shape_.size());
    std::vector<int64_t> tile(rank, 1);
    std::vector<Dim> grid, at(rank, Dim(0));
    tile[rank - 1] = fit(index_type.shape[rank - 1], kLanes);
    for (int dim = 0; dim < rank; ++dim) {
      if (dim == along) continue;
      at[dim] = tile::KernelBuilder::grid_id(static_cast<int>(grid.size())) * Dim(tile[dim]);
      grid.push_back(Dim::ceil_div(index_type.shape[dim], Dim(tile[dim])));
    }
    kernel_.set_grid(std::move(grid));
    int indices = param(builder_.buffer_of(node_.operands[1]), "indices", index_type, tile::AccessMode::Read);
    int updates =
        param(builder_.buffer_of(node_.operands[2]), "updates", update_type, tile::AccessMode::Read);
    int out = param(target_, "out", TensorType{target_dtype_, shape_}, tile::AccessMode::ReadWrite);
    at[along] = kernel_.begin_for(Dim(0), index_type.shape[along], Dim(tile[along]), {});
    tile::Access read{indices, {}, false}, write{out, {}, false};
    for (int dim = 0; dim < rank; ++dim) {
      tile::DimIndex index{at[dim], {}, {}};
      if (tile[dim] > 1) index.terms.push_back({dim, 1});
      read.index.push_back(std::move(index));
    }
    write.index = read.index;
    tile::Access read_updates = read;
    read_updates.param = updates;
    // Lanes behind the end of the line carry index -1, which no store takes.
    ValueId index = kernel_.load(read, TileType{index_type.dtype, tile}, tile::Literal{0, -1});
    index = kernel_.convert(index, DType::I64);
    ValueId bound = i64_tile(shape_[along] - Dim(1), tile);
    if (policy == "error") report_lanes(index, at, tile, index_type.shape);
    if (policy == "clamp") {
      ValueId clamped = kernel_.elementwise(
          Op::Maximum, {kernel_.elementwise(Op::Minimum, {index, bound}), i64_tile(Dim(0), tile)});
      index = in_line(clamped, at, tile, index_type.shape);
    }
    write.index[along] = tile::DimIndex{Dim(0), {}, index};
    ValueId update = kernel_.load(std::move(read_updates), TileType{update_type.dtype, tile});
    kernel_.store(kernel_.convert(update, target_dtype_), std::move(write), kind_);
    kernel_.end_block({});
  }

  // True for lanes of the tile that lie inside the index tensor.
  ValueId lanes_inside(const std::vector<Dim>& at, const std::vector<int64_t>& tile, const Shape& sizes) {
    ValueId inside;
    for (int dim = 0; dim < static_cast<int>(tile.size()); ++dim) {
      if (tile[dim] == 1) continue;
      ValueId position = kernel_.index({at[dim], {{dim, 1}}, {}}, TileType{DType::I64, tile});
      ValueId below = kernel_.compare(position, i64_tile(sizes[dim], tile), "LT");
      inside = inside.is_valid() ? kernel_.elementwise(Op::And, {inside, below}) : below;
    }
    return inside;
  }

  ValueId in_line(ValueId index, const std::vector<Dim>& at, const std::vector<int64_t>& tile,
                  const Shape& sizes) {
    ValueId inside = lanes_inside(at, tile, sizes);
    return inside.is_valid() ? kernel_.elementwise(Op::Select, {inside, index, i64_tile(Dim(-1), tile)})
                             : index;
  }

  void report_lanes(ValueId index, const std::vector<Dim>& at, const std::vector<int64_t>& tile,
                    const Shape& sizes) {
    int64_t along = attributes_.get_int("dim");
    ValueId inside = lanes_inside(at, tile, sizes);
    ValueId harmless =
        inside.is_valid() ? kernel_.elementwise(Op::Select, {inside, index, i64_tile(Dim(0), tile)}) : index;
    report_outside(harmless, shape_[along] - Dim(1), shape_[along]);
  }

  ProgramBuilder& builder_;
  const Graph& graph_;
  NodeId id_;
  const Node& node_;
  AttributeReader attributes_;
  tile::KernelBuilder kernel_;
  const Shape& shape_;
  StoreKind kind_ = StoreKind::Set;
  DType target_dtype_ = DType::F32;
  BufferId target_;
  std::vector<BufferId> buffers_;
};

// Zeros, then +1 or +weight at each index, in order.
Status emit_histogram(ProgramBuilder& builder, NodeId id) {
  const Graph& graph = builder.graph();
  const Node& node = graph.node(id);
  const TensorType& out_type = graph.type(node.results[0]);
  bool weighted = node.operands.size() > 1 && node.operands[1].is_valid();
  DType sums = accumulation_type(out_type.dtype);
  bool widen = sums != out_type.dtype;
  BufferId result = builder.buffer_of(node.results[0]);
  BufferId target =
      widen ? builder.add_temporary(TensorType{sums, out_type.shape}, "histogram sums") : result;
  tile::KernelBuilder kernel("");
  Dim count = graph.type(node.operands[0]).elements();
  const Dim& bins = out_type.shape[0];
  int64_t lanes = fit(count, 256), width = fit(bins, 1024);
  std::vector<BufferId> buffers{builder.buffer_of(node.operands[0])};
  tile::Param indices{"indices", graph.type(node.operands[0]).dtype, {count}, {}, tile::AccessMode::Read};
  DType index_dtype = indices.dtype;
  int index_param = kernel.add_param(std::move(indices));
  int weight_param = -1;
  DType weight_dtype = out_type.dtype;
  if (weighted) {
    weight_dtype = graph.type(node.operands[1]).dtype;
    weight_param =
        kernel.add_param(tile::Param{"weights", weight_dtype, {count}, {}, tile::AccessMode::Read});
    buffers.push_back(builder.buffer_of(node.operands[1]));
  }
  int out = kernel.add_param(tile::Param{"out", sums, {bins}, {}, tile::AccessMode::ReadWrite});
  buffers.push_back(target);
  Dim bin = kernel.begin_for(Dim(0), bins, Dim(width), {});
  kernel.store(kernel.integer(0, TileType{sums, {width}}), tile::Access{out, {{bin, {{0, 1}}, {}}}, false});
  kernel.end_block({});
  Dim at = kernel.begin_for(Dim(0), count, Dim(lanes), {});
  tile::DimIndex line{at, {{0, 1}}, {}};
  ValueId index = kernel.load(tile::Access{index_param, {line}, false}, TileType{index_dtype, {lanes}},
                              tile::Literal{0, -1});
  ValueId weight =
      weighted ? kernel.load(tile::Access{weight_param, {line}, false}, TileType{weight_dtype, {lanes}})
               : kernel.integer(1, TileType{sums, {lanes}});
  kernel.store(kernel.convert(weight, sums), tile::Access{out, {{Dim(0), {}, index}}, false}, StoreKind::Add);
  kernel.end_block({});
  builder.launch_kernel(kernel.take(), std::move(buffers), "histogram", {id.index});
  if (widen) launch_convert(builder, target, result, {id.index});
  return Status::ok();
}

}  // namespace

Result<bool> lower_scatter(ProgramBuilder& builder, NodeId id) {
  Op op = builder.graph().node(id).op;
  if (op == Op::Histogram) {
    TW_RETURN_IF_ERROR(emit_histogram(builder, id));
    return true;
  }
  if (op != Op::Scatter && op != Op::ScatterElements) return false;
  TW_RETURN_IF_ERROR(ScatterKernel(builder, id).emit());
  return true;
}

}  // namespace tilewright
