// TileLowering: turns graph values into tiles inside one kernel, following index maps down to loads.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "codegen/lower/program_builder.h"

namespace tilewright {

enum class AxisKind : uint8_t {
  Grid,    // cut into instances
  Full,    // whole in every tile
  Looped,  // walked by a loop inside the instance
};

// One axis of the kernel's iteration domain.  Every lowered tile has one axis for each, of size 1 where it
// does not vary.
struct Axis {
  Dim size;
  AxisKind kind = AxisKind::Grid;
  int64_t tile = 1;
  Dim base;           // index of the tile's first element; Looped: set while a loop is open
  bool open = false;  // Looped: a loop over it is open
};

class TileLowering {
 public:
  // `computed(value)`: the kernel computes the value itself; others are loaded from their buffers.
  using Computed = std::function<bool(ValueId)>;
  // The domain axes of a reduction's operand dims, as a map.
  using ReductionMap = std::function<IndexMap(NodeId)>;

  TileLowering(ProgramBuilder& program, tile::KernelBuilder& kernel, std::vector<Axis> axes,
               Computed computed, ReductionMap reduction_map)
      : program_(program),
        kernel_(kernel),
        axes_(std::move(axes)),
        computed_(std::move(computed)),
        reduction_map_(std::move(reduction_map)) {
    scopes_.emplace_back();
  }

  // The value's tile under a map.  Errors are sticky: see status().
  ValueId lower(ValueId value, const IndexMap& map);
  // Gives the tile of a value that the kernel made by other means.
  void preset(ValueId value, const IndexMap& map, ValueId tile) {
    scopes_.back()[memo_key(value, map)] = tile;
  }
  // Computes what does not vary along looped axes, so that a loop opened next does not repeat it.
  void hoist(ValueId value, const IndexMap& map);
  bool varies_in_loops(const IndexMap& map) const;

  // Opens loops over the given looped axes (outermost first), carrying tiles; close_loops yields.
  void open_loops(const std::vector<int>& axes, std::vector<ValueId> carries);
  std::vector<ValueId> close_loops(std::vector<ValueId> yields);

  // Access to a buffer of a value seen with merged dims, and the tile shape that the map gives.
  tile::Access access(BufferId buffer, const TensorType& type, const IndexMap& map, tile::AccessMode mode);
  std::vector<int64_t> tile_shape(const IndexMap& map) const;
  // Integer tile (i64) of an index expression.
  ValueId index_tile(const IndexExpr& expr);
  tile::DimIndex dim_index(const IndexExpr& expr) const;

  const Status& status() const { return status_; }
  void fail(Status status) {
    if (status_.is_ok()) status_ = std::move(status);
  }
  std::vector<Axis>& axes() { return axes_; }
  tile::KernelBuilder& kernel() { return kernel_; }
  // Params that the kernel already has.
  void set_buffers(std::vector<BufferId> buffers) { buffers_ = std::move(buffers); }
  // Buffers in the order of the kernel's params.
  const std::vector<BufferId>& buffers() const { return buffers_; }

 private:
  static std::string memo_key(ValueId value, const IndexMap& map);
  ValueId compute(ValueId value, const IndexMap& map);
  ValueId load(ValueId value, const IndexMap& map);
  ValueId constant(const Node& node);
  ValueId elementwise(const Node& node, const IndexMap& map);
  ValueId pad(const Node& node, const IndexMap& map);
  ValueId concatenate(const Node& node, const IndexMap& map);
  ValueId gather(NodeId id, const IndexMap& map);
  ValueId gather_elements(NodeId id, const IndexMap& map);
  ValueId dynamic_slice(const Node& node, const IndexMap& map);
  ValueId dynamic_update_slice(const Node& node, const IndexMap& map);
  ValueId rng(const Node& node, ValueId value, const IndexMap& map);
  ValueId reduce(NodeId id);
  ValueId arg_reduce(NodeId id);
  std::vector<ValueId> take_better(bool largest, const std::vector<ValueId>& left,
                                   const std::vector<ValueId>& right);

  // One dim of an indexed read: an affine part and, where not invalid, an i64 tile.
  struct IndexPart {
    IndexExpr expr;
    ValueId tile;
  };
  ValueId indexed_load(ValueId value, const std::vector<IndexPart>& parts);
  // Applies the out-of-range policy to a start index tile; gives the usable index and the mask of good ones
  // (or invalid).
  ValueId apply_policy(NodeId id, ValueId start, const Dim& last, const Dim& bound, ValueId& good);
  ValueId real_elements(const std::vector<int64_t>& shape);
  ValueId masked_fill(const Node& node, ValueId loaded, ValueId good);
  std::vector<int64_t> ones() const { return std::vector<int64_t>(axes_.size(), 1); }
  ValueId integer_tile(const Dim& value);  // i64, size 1 in each axis
  Ints all_axes() const;
  struct ReductionAxes {
    Ints tile_axes;           // all reduced axes
    std::vector<int> looped;  // those walked by loops
    std::vector<Dim> limits;  // elements of the current tile that count, one an axis of tile_axes
  };
  ReductionAxes reduction_axes(NodeId id, const IndexMap& operand_map, bool in_loop);

  ProgramBuilder& program_;
  tile::KernelBuilder& kernel_;
  std::vector<Axis> axes_;
  Computed computed_;
  ReductionMap reduction_map_;
  Status status_;
  std::vector<std::map<std::string, ValueId>> scopes_;
  std::vector<std::vector<int>> open_axes_;
  std::vector<BufferId> buffers_;
  std::map<std::string, int> params_;
};

}  // namespace tilewright
