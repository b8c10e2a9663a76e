// Lowering of dot_general: a grid over output blocks, a loop over the contracted dim, one `dot` a step.
#include <algorithm>

#include "base/text.h"
#include "codegen/lower/epilogue.h"
#include "codegen/lower/product_block.h"
#include "ir/accumulation.h"
#include "ir/inference.h"

namespace tilewright {

using tile::AccessMode;
using tile::Stage;
using tile::TileType;

namespace {

// Operand dims of one kind that lie next to each other, as one merged dim.
struct Run {
  std::vector<int> lhs, rhs;  // operand dims (one side empty for free dims)
  Dim size{1};
};

// How one operand is indexed: merged dims of its buffer, each a batch, free or contracted run.
struct Role {
  enum Kind : uint8_t { Batch, Free, Contract } kind;
  int index;
};

class Contraction {
 public:
  Contraction(ProgramBuilder& builder, NodeId id)
      : builder_(builder), graph_(builder.graph()), id_(id), node_(graph_.node(id)), kernel_("") {
    AttributeReader attributes(node_.op, node_.attributes);
    lhs_contract_ = attributes.get_ints("lhs_contract");
    rhs_contract_ = attributes.get_ints("rhs_contract");
    lhs_batch_ = attributes.get_ints("lhs_batch");
    rhs_batch_ = attributes.get_ints("rhs_batch");
  }

  // Free dims stay apart when the group that follows needs them so.
  void forbid_merging() { merge_free_ = false; }

  // The domain runs that the kernel's axes are: batch dims, free runs of lhs, free runs of rhs.
  std::vector<std::vector<int>> result_runs() {
    find_runs();
    std::vector<std::vector<int>> runs;
    int dim = 0;
    auto add = [&](size_t count) {
      runs.emplace_back();
      for (size_t i = 0; i < count; ++i) runs.back().push_back(dim++);
    };
    for (size_t i = 0; i < batch_.size(); ++i) add(1);
    for (const Run& run : free_lhs_) add(run.lhs.size());
    for (const Run& run : free_rhs_) add(run.rhs.size());
    return runs;
  }

  Status emit() {
    find_runs();
    ValueId product = emit_product();
    store(kernel_.convert(product, graph_.type(node_.results[0]).dtype));
    builder_.launch_kernel(kernel_.take(),
                           {builder_.buffer_of(node_.operands[0]), builder_.buffer_of(node_.operands[1]),
                            builder_.buffer_of(node_.results[0])},
                           "dot_general", {id_.index});
    return Status::ok();
  }

  // The product, then the group's nodes on the accumulated tile, then its stores.
  Status emit_with_group(const Grouping& grouping, const Group& group) {
    MergedDomain domain(builder_, grouping, group, result_runs());
    ValueId product = kernel_.convert(emit_product(), graph_.type(node_.results[0]).dtype);
    std::vector<Axis> axes = result_axes();
    std::vector<int64_t> shape;
    for (const Axis& axis : axes) shape.push_back(axis.tile);
    product = kernel_.reshape(product, std::move(shape));
    return emit_epilogue(
        builder_, kernel_, domain, group,
        Product{id_,
                std::move(axes),
                product,
                {builder_.buffer_of(node_.operands[0]), builder_.buffer_of(node_.operands[1])}});
  }

 private:
  std::vector<Axis> result_axes() const {
    std::vector<Axis> axes;
    auto add = [&](const Dim& size, int64_t tile, const Dim& base) {
      axes.push_back({size, AxisKind::Grid, tile, base, false});
    };
    for (size_t i = 0; i < batch_.size(); ++i) add(batch_[i].size, 1, batch_at_[i]);
    for (size_t i = 0; i < free_lhs_.size(); ++i) {
      add(free_lhs_[i].size, static_cast<int>(i) == row_run_ ? rows_ : 1, lhs_at_[i]);
    }
    for (size_t i = 0; i < free_rhs_.size(); ++i) {
      add(free_rhs_[i].size, static_cast<int>(i) == column_run_ ? columns_ : 1, rhs_at_[i]);
    }
    return axes;
  }

  // Grid, loop and dot; answers the accumulated [rows, columns] tile.
  ValueId emit_product() {
    DType in = graph_.type(node_.operands[0]).dtype;
    DType accumulate = accumulate_type_of(AttributeReader(node_.op, node_.attributes), product_type(in),
                                          graph_.type(node_.results[0]).dtype);
    choose_block(product_block(builder_.limits(), in, accumulate));
    make_grid();
    ValueId acc = kernel_.integer(0, TileType{accumulate, {rows_, columns_}});
    std::vector<Dim> at(contract_.size());
    for (size_t i = 0; i < contract_.size(); ++i) {
      int64_t step = i + 1 == contract_.size() ? depth_ : 1;
      at[i] = kernel_.begin_for(Dim(0), contract_[i].size, Dim(step), {acc});
      acc = kernel_.loop_carries()[0];
    }
    ValueId a = load(true, at), b = load(false, at);
    ValueId next = kernel_.dot(a, b, acc, tile::DotDims{{1}, {0}, {}, {}});
    for (size_t i = 0; i < contract_.size(); ++i) next = kernel_.end_block({next})[0];
    return next;
  }

  static DType product_type(DType in) {
    if (in == DType::I8 || in == DType::U8) return DType::I32;
    return accumulation_type(in);
  }

  static bool contains(const Ints& list, int64_t value) {
    return std::find(list.begin(), list.end(), value) != list.end();
  }

  // Free dims in runs of neighbours; contracted pairs in runs that are neighbours on both sides.
  std::vector<Run> free_runs(bool lhs) const {
    const Shape& shape = graph_.type(node_.operands[lhs ? 0 : 1]).shape;
    const Ints &contract = lhs ? lhs_contract_ : rhs_contract_, &batch = lhs ? lhs_batch_ : rhs_batch_;
    std::vector<Run> runs;
    for (int dim = 0; dim < static_cast<int>(shape.size()); ++dim) {
      if (contains(contract, dim) || contains(batch, dim)) continue;
      std::vector<int>* last = runs.empty() ? nullptr : (lhs ? &runs.back().lhs : &runs.back().rhs);
      if (!last || last->back() != dim - 1 || !merge_free_) {
        runs.emplace_back();
        last = lhs ? &runs.back().lhs : &runs.back().rhs;
      }
      last->push_back(dim);
      runs.back().size = runs.back().size * shape[dim];
    }
    return runs;
  }

  void find_runs() {
    batch_.clear();
    contract_.clear();
    const Shape& lhs = graph_.type(node_.operands[0]).shape;
    for (size_t i = 0; i < lhs_batch_.size(); ++i) {
      batch_.push_back(
          Run{{static_cast<int>(lhs_batch_[i])}, {static_cast<int>(rhs_batch_[i])}, lhs[lhs_batch_[i]]});
    }
    free_lhs_ = free_runs(true);
    free_rhs_ = free_runs(false);
    for (size_t i = 0; i < lhs_contract_.size(); ++i) {
      int l = static_cast<int>(lhs_contract_[i]), r = static_cast<int>(rhs_contract_[i]);
      bool joins =
          !contract_.empty() && contract_.back().lhs.back() == l - 1 && contract_.back().rhs.back() == r - 1;
      if (!joins) contract_.push_back(Run{});
      contract_.back().lhs.push_back(l);
      contract_.back().rhs.push_back(r);
      contract_.back().size = contract_.back().size * lhs[l];
    }
    // The longest run is the one worth a tile; it is walked innermost.
    auto by_size = [&](const Run& a, const Run& b) { return hint(a.size) < hint(b.size); };
    std::stable_sort(contract_.begin(), contract_.end(), by_size);
    if (contract_.empty()) contract_.push_back(Run{});
    row_run_ = longest(free_lhs_);
    column_run_ = longest(free_rhs_);
  }

  int64_t hint(const Dim& size) const { return std::max<int64_t>(1, size.hint(graph_.symbols)); }
  int longest(const std::vector<Run>& runs) const {
    int best = -1;
    for (size_t i = 0; i < runs.size(); ++i) {
      if (best < 0 || hint(runs[i].size) > hint(runs[best].size)) best = static_cast<int>(i);
    }
    return best;
  }
  Dim row_size() const { return row_run_ < 0 ? Dim(1) : free_lhs_[row_run_].size; }
  Dim column_size() const { return column_run_ < 0 ? Dim(1) : free_rhs_[column_run_].size; }

  static int64_t clip(const Dim& size, int64_t hint, int64_t block) {
    if (size.is_constant()) return std::max<int64_t>(1, std::min(size.constant(), block));
    int64_t tile = 1;
    while (tile < hint && tile < block) tile *= 2;
    return std::min(tile, block);
  }

  // Blocks of equal height rather than full ones and a short rest.
  static int64_t even(const Dim& size, int64_t block, int64_t multiple) {
    if (!size.is_constant() || size.constant() <= block) return block;
    int64_t count = (size.constant() + block - 1) / block;
    int64_t each = (size.constant() + count - 1) / count;
    return std::min(block, (each + multiple - 1) / multiple * multiple);
  }

  void choose_block(const ProductBlock& block) {
    Dim m = row_size(), n = column_size();
    int64_t outer = 1;
    for (const Run& run : batch_) outer *= hint(run.size);
    for (const Run& run : free_lhs_) outer *= &run == &free_lhs_[row_run_] ? 1 : hint(run.size);
    for (const Run& run : free_rhs_) outer *= &run == &free_rhs_[column_run_] ? 1 : hint(run.size);
    int64_t rows = block.rows, columns = block.columns;
    auto blocks = [&](const Dim& size, int64_t each) { return (hint(size) + each - 1) / each; };
    while (outer * blocks(m, rows) * blocks(n, columns) < block.wanted_instances) {
      if (rows > block.min_rows && hint(m) > block.min_rows && (rows >= columns || hint(n) <= columns)) {
        rows /= 2;
      } else if (columns > block.min_columns && hint(n) > block.min_columns) {
        columns /= 2;
      } else if (rows > block.min_rows && hint(m) > block.min_rows) {
        rows /= 2;
      } else {
        break;
      }
    }
    rows_ = clip(m, hint(m), even(m, rows, block.row_multiple));
    columns_ = clip(n, hint(n), even(n, columns, block.column_multiple));
    const Dim& k = contract_.back().size;
    depth_ = clip(k, hint(k), even(k, block.depth, block.depth_multiple));
  }

  void make_grid() {
    std::vector<Dim> grid;
    auto add = [&](const Dim& count) {
      grid.push_back(count);
      return tile::KernelBuilder::grid_id(static_cast<int>(grid.size()) - 1);
    };
    for (const Run& run : batch_) batch_at_.push_back(add(run.size));
    for (size_t i = 0; i < free_lhs_.size(); ++i) {
      bool tiled = static_cast<int>(i) == row_run_;
      lhs_at_.push_back(tiled ? Dim(0) : add(free_lhs_[i].size));
    }
    for (size_t i = 0; i < free_rhs_.size(); ++i) {
      bool tiled = static_cast<int>(i) == column_run_;
      rhs_at_.push_back(tiled ? Dim(0) : add(free_rhs_[i].size));
    }
    if (row_run_ >= 0) lhs_at_[row_run_] = add(Dim::ceil_div(row_size(), Dim(rows_))) * Dim(rows_);
    if (column_run_ >= 0)
      rhs_at_[column_run_] = add(Dim::ceil_div(column_size(), Dim(columns_))) * Dim(columns_);
    kernel_.set_grid(std::move(grid));
  }

  // The block of one operand: [rows, depth] of lhs, [depth, columns] of rhs, whatever the order of its dims.
  ValueId load(bool lhs, const std::vector<Dim>& at) {
    const TensorType& type = graph_.type(node_.operands[lhs ? 0 : 1]);
    std::vector<std::pair<int, tile::DimIndex>> dims;  // first operand dim, index
    std::vector<std::pair<int, Dim>> sizes;
    auto add = [&](const Run& run, tile::DimIndex index) {
      int first = lhs ? run.lhs[0] : run.rhs[0];
      dims.emplace_back(first, std::move(index));
      sizes.emplace_back(first, run.size);
    };
    int free_axis = lhs ? 0 : 1, contract_axis = lhs ? 1 : 0;
    for (size_t i = 0; i < batch_.size(); ++i) add(batch_[i], {batch_at_[i], {}, {}});
    const std::vector<Run>& free = lhs ? free_lhs_ : free_rhs_;
    for (size_t i = 0; i < free.size(); ++i) {
      bool tiled = static_cast<int>(i) == (lhs ? row_run_ : column_run_);
      tile::DimIndex index{lhs ? lhs_at_[i] : rhs_at_[i], {}, {}};
      if (tiled) index.terms.push_back({free_axis, 1});
      add(free[i], std::move(index));
    }
    for (size_t i = 0; i < contract_.size(); ++i) {
      if (contract_[i].lhs.empty()) continue;  // an outer product contracts nothing
      tile::DimIndex index{at[i], {}, {}};
      if (i + 1 == contract_.size()) index.terms.push_back({contract_axis, 1});
      add(contract_[i], std::move(index));
    }
    auto by_first = [](const auto& a, const auto& b) { return a.first < b.first; };
    std::sort(dims.begin(), dims.end(), by_first);
    std::sort(sizes.begin(), sizes.end(), by_first);
    tile::Param param;
    param.name = lhs ? "lhs" : "rhs";
    param.dtype = type.dtype;
    tile::Access access;
    for (size_t i = 0; i < dims.size(); ++i) {
      param.dims.push_back(sizes[i].second);
      access.index.push_back(std::move(dims[i].second));
    }
    access.param = kernel_.add_param(std::move(param));
    std::vector<int64_t> shape =
        lhs ? std::vector<int64_t>{rows_, depth_} : std::vector<int64_t>{depth_, columns_};
    return kernel_.load(std::move(access), TileType{type.dtype, std::move(shape)}, {}, Stage::Packed);
  }

  void store(ValueId tile) {
    const TensorType& type = graph_.type(node_.results[0]);
    tile::Param param;
    param.name = "out";
    param.dtype = type.dtype;
    param.mode = AccessMode::Write;
    tile::Access access;
    auto add = [&](const Dim& size, tile::DimIndex index) {
      param.dims.push_back(size);
      access.index.push_back(std::move(index));
    };
    for (size_t i = 0; i < batch_.size(); ++i) add(batch_[i].size, {batch_at_[i], {}, {}});
    for (size_t i = 0; i < free_lhs_.size(); ++i) {
      tile::DimIndex index{lhs_at_[i], {}, {}};
      if (static_cast<int>(i) == row_run_) index.terms.push_back({0, 1});
      add(free_lhs_[i].size, std::move(index));
    }
    for (size_t i = 0; i < free_rhs_.size(); ++i) {
      tile::DimIndex index{rhs_at_[i], {}, {}};
      if (static_cast<int>(i) == column_run_) index.terms.push_back({1, 1});
      add(free_rhs_[i].size, std::move(index));
    }
    access.param = kernel_.add_param(std::move(param));
    kernel_.store(tile, std::move(access));
  }

  ProgramBuilder& builder_;
  const Graph& graph_;
  NodeId id_;
  const Node& node_;
  tile::KernelBuilder kernel_;
  Ints lhs_contract_, rhs_contract_, lhs_batch_, rhs_batch_;
  std::vector<Run> batch_, free_lhs_, free_rhs_, contract_;
  bool merge_free_ = true;
  int row_run_ = -1, column_run_ = -1;
  int64_t rows_ = 1, columns_ = 1, depth_ = 1;
  std::vector<Dim> batch_at_, lhs_at_, rhs_at_;
};

}  // namespace

Result<bool> lower_contraction(ProgramBuilder& builder, NodeId id) {
  if (builder.graph().node(id).op != Op::DotGeneral) return false;
  TW_RETURN_IF_ERROR(Contraction(builder, id).emit());
  return true;
}

Status lower_contraction_with_group(ProgramBuilder& builder, const Grouping& grouping, const Group& group) {
  Contraction contraction(builder, group.anchor);
  if (!MergedDomain(builder, grouping, group, contraction.result_runs()).is_feasible())
    contraction.forbid_merging();
  return contraction.emit_with_group(grouping, group);
}

}  // namespace tilewright
