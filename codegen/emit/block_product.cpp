// What a product by a block looks like, its loops and its sums.
#include "codegen/emit/block_product.h"

#include <algorithm>

#include "codegen/emit/lane_math.h"
#include "codegen/emit/loops.h"

namespace tilewright {

using tile::Instruction;
using tile::Opcode;

namespace {

constexpr int64_t kMostSlots = 4;
constexpr int64_t kMostRegisters = 160;     // of a thread, for sums
constexpr int64_t kSpareShared = 8 * 1024;  // for what follows the product
constexpr int64_t kSumsPadding = 16;        // elements between rows, so that rows start in other banks
constexpr int64_t kWarpThreads = 32, kWarpDepth = 16;

int64_t ceil_to(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

}  // namespace

BlockProduct::BlockProduct(BlockEmitter& emitter, const Instruction& dot)
    : e_(emitter), b_(emitter.b_), dot_(dot) {}

llvm::Value* BlockProduct::at(Value* base, Value* offset) {
  return b_.CreateGEP(b_.getInt8Ty(), base, b_.CreateZExt(offset, b_.getInt64Ty()));
}

llvm::Value* BlockProduct::at(Value* base, int64_t offset) {
  return offset == 0 ? base
                     : b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), base, static_cast<uint64_t>(offset));
}

// ---- plan
// ------------------------------------------------------------------------------------------------------------------

// The tile axis along which the value is contiguous where it lies, or -1.
int BlockProduct::contiguous_axis(ValueId value) const {
  const Instruction* source = e_.plan_.definition(value);
  if (!source || e_.scratch_tiles_.count(value.index)) return -1;
  if (source->opcode == Opcode::Elementwise) {
    for (ValueId operand : source->operands) {
      if (int axis = contiguous_axis(operand); axis >= 0) return axis;
    }
    return -1;
  }
  if (source->opcode != Opcode::Load) return -1;
  const BlockEmitter::ParamInfo& param = e_.params_[static_cast<size_t>(source->access.param)];
  for (size_t d = source->access.index.size(); d-- > 0;) {
    const tile::DimIndex& index = source->access.index[d];
    auto* stride = llvm::dyn_cast<llvm::ConstantInt>(param.strides[d]);
    if (!stride || stride->getSExtValue() != 1) continue;
    if (index.terms.size() == 1 && index.terms[0].coefficient == 1) return index.terms[0].axis;
  }
  return -1;
}

void BlockProduct::plan_operand(Operand& operand, ValueId value, int64_t depth_axis, int64_t free,
                                int64_t group) {
  operand.value = value;
  operand.depth_axis = static_cast<int>(depth_axis);
  operand.free_axis = 1 - operand.depth_axis;
  int contiguous = contiguous_axis(value);
  bool along_depth = contiguous < 0 ? depth_axis == 1 : contiguous == depth_axis;
  operand.tile = staged_tile(e_.type(value).dtype, along_depth, free, depth_, group);
}

bool BlockProduct::has_padding(const Operand& operand) const {
  const std::vector<int64_t>& shape = e_.type(operand.value).shape;
  return shape[0] * shape[1] != operand.tile.rows * operand.tile.columns;
}

bool BlockProduct::plan(const Instruction* loop, const BlockProduct* host) {
  const tile::TileType &left = e_.type(dot_.operands[0]), &right = e_.type(dot_.operands[1]);
  dtype_ = e_.type(dot_.operands[2]).dtype;
  const tile::DotDims& dims = dot_.dot;
  if (left.shape.size() != 2 || right.shape.size() != 2 || dims.lhs_contract.size() != 1 ||
      is_narrow_float(dtype_) || dtype_ == DType::Bool) {
    return false;
  }
  const int64_t rows = left.shape[static_cast<size_t>(1 - dims.lhs_contract[0])],
                columns = right.shape[static_cast<size_t>(1 - dims.rhs_contract[0])];
  depth_ = left.shape[static_cast<size_t>(dims.lhs_contract[0])];
  bool by_warps = left.dtype == right.dtype && (left.dtype == DType::BF16 || left.dtype == DType::F16) &&
                  dtype_ == DType::F32 && e_.threads_ % kWarpThreads == 0;
  if (by_warps) {
    layout_ = warp_layout(rows, columns, e_.threads_ / kWarpThreads);
    depth_step_ = kWarpDepth;
  } else {
    auto neighbours = [](DType dtype) { return StagedTile::kChunkBytes / dtype_bytes(dtype); };
    int64_t group =
        std::min({int64_t{4}, neighbours(left.dtype), neighbours(right.dtype), neighbours(dtype_)});
    layout_ = thread_layout(rows, columns, e_.threads_, group);
    depth_step_ = group;
  }
  if (layout_.registers() * std::max<int64_t>(1, dtype_bytes(dtype_) / 4) > kMostRegisters) return false;
  depth_ = ceil_to(depth_, depth_step_);
  plan_operand(lhs_, dot_.operands[0], dims.lhs_contract[0], layout_.padded_rows(), layout_.row_group);
  plan_operand(rhs_, dot_.operands[1], dims.rhs_contract[0], layout_.padded_columns(), layout_.column_group);
  rhs_.offset = lhs_.tile.bytes();
  slot_bytes_ = ceil_to(rhs_.offset + rhs_.tile.bytes(), 128);
  sums_stride_ = ceil_to(columns, kSumsPadding) + kSumsPadding;
  const int64_t sums_bytes = rows * sums_stride_ * dtype_bytes(dtype_);
  const int64_t free = e_.context_.limits.shared_bytes_per_block - e_.shared_bytes_ - kSpareShared;
  slots_ = 1;
  if (loop) {
    // Three slots if two blocks share a multiprocessor then, else as many as are of use.
    int64_t most = 3 * slot_bytes_ <= free / 2 ? 3 : kMostSlots;
    if (loop->from.is_constant() && loop->to.is_constant() && loop->step.is_constant()) {
      int64_t trips =
          (loop->to.constant() - loop->from.constant() + loop->step.constant() - 1) / loop->step.constant();
      most = std::min(most, std::max<int64_t>(trips, 1));
    }
    slots_ = std::clamp<int64_t>(free / slot_bytes_, 1, most);
  }
  region_bytes_ = std::max(slots_ * slot_bytes_, sums_bytes);
  if (host && region_bytes_ <= host->region_bytes_) {
    host_ = host;
    region_ = host->region_;
    region_bytes_ = host->region_bytes_;
    return true;
  }
  if (region_bytes_ > free) return false;
  region_ = e_.new_scratch_bytes(region_bytes_);
  // Operands take as much again as the sums.
  const int64_t needed = 2 * layout_.registers() * std::max<int64_t>(1, dtype_bytes(dtype_) / 4);
  e_.product_registers_ = std::max(e_.product_registers_, needed);
  return true;
}

// ---- sums
// ------------------------------------------------------------------------------------------------------------------

void BlockProduct::prepare() {
  const int64_t parts = layout_.grid_rows * layout_.grid_columns;
  const bool by_warps = layout_.unit == ProductUnit::Warps;
  const int64_t there = by_warps ? e_.threads_ / kWarpThreads : e_.threads_;
  Value* part = by_warps ? b_.CreateLShr(e_.thread_, i32(5)) : e_.thread_;
  is_active_ = nullptr;
  if (parts < there) {  // the others do the same work again and keep it to themselves
    is_active_ = b_.CreateICmpULT(part, i32(parts));
    part = b_.CreateURem(part, i32(parts));
  }
  part_row_ = b_.CreateUDiv(part, i32(layout_.grid_columns));
  part_column_ = b_.CreateURem(part, i32(layout_.grid_columns));
  if (!by_warps) return;
  prepare_lanes(lhs_, b_.CreateMul(part_row_, i32(layout_.each_rows)), true);
  prepare_lanes(rhs_, b_.CreateMul(part_column_, i32(layout_.each_columns)), false);
}

// Lanes give the rows of four 8x8 matrices: 16 elements of the free axis by 16 of the depth.  Rows and chunks
// that are constants add up outside of the phase, which hangs on the lane alone: they are multiples of 16
// rows.
void BlockProduct::prepare_lanes(Operand& operand, Value* warp_base, bool is_lhs) {
  const StagedTile& tile = operand.tile;
  Value* lane = b_.CreateAnd(e_.thread_, i32(31));
  Value *row, *half;
  if (tile.depth_is_contiguous == is_lhs) {
    row = b_.CreateAnd(lane, i32(15));
    half = b_.CreateLShr(lane, i32(4));
  } else {
    row = b_.CreateOr(b_.CreateAnd(lane, i32(7)), b_.CreateAnd(b_.CreateLShr(lane, i32(1)), i32(8)));
    half = b_.CreateAnd(b_.CreateLShr(lane, i32(3)), i32(1));
  }
  Value* phase = b_.CreateAnd(b_.CreateLShr(row, i32(tile.phase_shift)), i32(tile.phase_mask));
  auto place = [&](Value* chunk) { return b_.CreateShl(b_.CreateXor(chunk, phase), i32(4)); };
  operand.table.clear();
  if (tile.depth_is_contiguous) {
    operand.base = b_.CreateMul(b_.CreateAdd(row, warp_base), i32(tile.pitch_bytes()));
    for (int64_t k = 0; k < depth_; k += kWarpDepth)
      operand.table.push_back(place(b_.CreateAdd(half, i32(k / 8))));
  } else {
    operand.base = b_.CreateMul(row, i32(tile.pitch_bytes()));
    Value* first = b_.CreateAdd(b_.CreateLShr(warp_base, i32(3)), half);
    const int64_t each = is_lhs ? layout_.each_rows : layout_.each_columns;
    for (int64_t i = 0; i < each; i += 16) operand.table.push_back(place(b_.CreateAdd(first, i32(i / 8))));
  }
}

void BlockProduct::for_sums(
    const std::function<void(Value* row, Value* column, size_t first, unsigned count)>& body) {
  size_t first = 0;
  if (layout_.unit == ProductUnit::Warps) {
    Value* lane = b_.CreateAnd(e_.thread_, i32(31));
    Value* row = b_.CreateAdd(b_.CreateMul(part_row_, i32(layout_.each_rows)), b_.CreateLShr(lane, i32(2)));
    Value* column = b_.CreateAdd(b_.CreateMul(part_column_, i32(layout_.each_columns)),
                                 b_.CreateShl(b_.CreateAnd(lane, i32(3)), i32(1)));
    for (int64_t i = 0; i < layout_.each_rows; i += 16) {
      for (int64_t j = 0; j < layout_.each_columns; j += 8) {
        for (int64_t half = 0; half < 2; ++half, first += 2)
          body(b_.CreateAdd(row, i32(i + half * 8)), b_.CreateAdd(column, i32(j)), first, 2);
      }
    }
    return;
  }
  auto place = [&](Value* part, int64_t parts, int64_t index, int64_t group) {
    Value* own = b_.CreateMul(part, i32(group));
    return b_.CreateAdd(own, i32(index / group * parts * group + index % group));
  };
  const auto count = static_cast<unsigned>(layout_.column_group);
  for (int64_t r = 0; r < layout_.each_rows; ++r) {
    Value* row = place(part_row_, layout_.grid_rows, r, layout_.row_group);
    for (int64_t c = 0; c < layout_.each_columns; c += layout_.column_group, first += count)
      body(row, place(part_column_, layout_.grid_columns, c, layout_.column_group), first, count);
  }
}

BlockProduct::Sums BlockProduct::start(ValueId acc, ValueId carry, const Sums* carried) {
  const auto count = static_cast<size_t>(layout_.registers());
  const Instruction* source = e_.plan_.definition(acc);
  if (source && source->opcode == Opcode::Const) return Sums(count, e_.literal(source->literal, dtype_));
  BlockEmitter::Resources reads;
  e_.add_reads(acc, reads);
  e_.synchronize(reads, {});
  Sums sums(count);
  auto clamp = [&](Value* index, int64_t size) {
    Value* last = i32(size - 1);
    return b_.CreateZExt(b_.CreateSelect(b_.CreateICmpULT(index, last), index, last), b_.getInt64Ty());
  };
  for_sums([&](Value* row, Value* column, size_t first, unsigned lanes) {
    for (unsigned lane = 0; lane < lanes; ++lane) {
      Point point;
      point.axis = {clamp(row, layout_.rows), clamp(b_.CreateAdd(column, i32(lane)), layout_.columns)};
      e_.memo_.clear();
      if (carried) e_.bound_[carry.index] = (*carried)[first + lane];
      sums[first + lane] = e_.eval(acc, point);
    }
  });
  e_.memo_.clear();
  if (carried) e_.bound_.erase(carry.index);
  return sums;
}

ScratchTile BlockProduct::finish(const Sums& sums) {
  ScratchTile tile;
  tile.data = region_;
  tile.strides = {sums_stride_, 1};
  e_.barrier();  // the slots are free
  const bool fits = layout_.padded_rows() == layout_.rows && layout_.padded_columns() == layout_.columns;
  for_sums([&](Value* row, Value* column, size_t first, unsigned count) {
    auto write = [&](Value* at_column, size_t index, unsigned lanes) {
      Value* inside = is_active_;
      if (!fits) {
        Value* exists = b_.CreateAnd(b_.CreateICmpULT(row, i32(layout_.rows)),
                                     b_.CreateICmpULT(at_column, i32(layout_.columns)));
        inside = inside ? b_.CreateAnd(inside, exists) : exists;
      }
      Point point;
      point.axis = {b_.CreateZExt(row, b_.getInt64Ty()), b_.CreateZExt(at_column, b_.getInt64Ty())};
      Value* value = sums[index];
      if (lanes > 1) {
        point.vector_axis = 1, point.lanes = lanes, point.is_whole = true;
        value = llvm::PoisonValue::get(llvm::FixedVectorType::get(value->getType(), lanes));
        for (unsigned i = 0; i < lanes; ++i)
          value = b_.CreateInsertElement(value, sums[index + i], uint64_t{i});
      }
      auto store = [&] { e_.write_scratch_as(tile, dtype_, point, value); };
      if (inside) {
        e_.if_then(inside, store);
      } else {
        store();
      }
    };
    if (count > 1 && layout_.columns % count == 0) {
      write(column, first, count);
      return;
    }
    for (unsigned i = 0; i < count; ++i) write(b_.CreateAdd(column, i32(i)), first + i, 1);
  });
  e_.written_.insert(tile.data);
  return tile;
}

// ---- loops
// ------------------------------------------------------------------------------------------------------------------

ScratchTile BlockProduct::emit() {
  prepare();
  return finish(multiply_staged(start(dot_.operands[2])));
}

BlockProduct::Sums BlockProduct::add(ValueId carry, const Sums& sums) {
  return multiply_staged(start(dot_.operands[2], carry, &sums));
}

void BlockProduct::stage_ahead() {
  const Instruction* source = e_.plan_.definition(rhs_.value);
  const int column_axis = rhs_.tile.depth_is_contiguous ? rhs_.depth_axis : rhs_.free_axis;
  if (!source || source->opcode != Opcode::Load || contiguous_axis(rhs_.value) != column_axis ||
      has_padding(lhs_) || has_padding(rhs_)) {
    return;
  }
  stage(rhs_, region_);
  e_.ops_.copy_commit();
  e_.written_.insert(region_);
  is_rhs_ahead_ = true;
}

bool BlockProduct::is_rhs_there() const {
  if (is_rhs_ahead_) return true;
  return host_ && host_->rhs_.value == rhs_.value && host_->rhs_.offset == rhs_.offset &&
         host_->rhs_.tile == rhs_.tile && host_->lhs_.tile == lhs_.tile;
}

BlockProduct::Sums BlockProduct::multiply_staged(const Sums& sums) {
  BlockEmitter::Resources reads;
  e_.add_reads(lhs_.value, reads);
  e_.add_reads(rhs_.value, reads);
  e_.synchronize(reads, {region_});
  if (!is_rhs_there()) {
    clear_padding();
    stage(rhs_, region_);
  }
  is_rhs_ahead_ = false;
  stage(lhs_, region_);
  e_.ops_.copy_commit();
  e_.ops_.copy_wait(0);
  e_.barrier();
  e_.read_.insert(region_);
  return multiply(region_, sums);
}

ScratchTile BlockProduct::emit_loops(const Instruction& outermost) {
  prepare();
  Sums sums = start(outermost.operands[0]);
  BlockEmitter::Resources reads;
  e_.add_reads(lhs_.value, reads);
  e_.add_reads(rhs_.value, reads);
  e_.synchronize(reads, {region_});
  clear_padding();
  return finish(emit_nest(outermost, sums));
}

BlockProduct::Sums BlockProduct::emit_nest(const Instruction& loop, const Sums& sums) {
  e_.multiples_[loop.symbol] = std::min(e_.known_multiple(loop.from), e_.known_multiple(loop.step));
  const Instruction& inner = *e_.plan_.steps(loop.blocks[0])[0].instruction;
  if (&inner == &dot_) return pipeline(loop, sums);
  return emit_carried_loop(b_, e_.dim(loop.from), e_.dim(loop.to), e_.dim(loop.step), sums,
                           [&](Value* index, const LoopValues& now) {
                             e_.symbols_[loop.symbol] = index;
                             return emit_nest(inner, now);
                           });
}

BlockProduct::Sums BlockProduct::pipeline(const Instruction& loop, const Sums& sums) {
  Value *from = e_.dim(loop.from), *to = e_.dim(loop.to), *step = e_.dim(loop.step);
  auto stage_step = [&](Value* index, Value* slot) {
    e_.symbols_[loop.symbol] = index;
    e_.if_then(b_.CreateICmpSLT(index, to), [&] {
      stage(lhs_, slot);
      stage(rhs_, slot);
    });
    e_.ops_.copy_commit();
  };
  auto ahead = [&](Value* index, int64_t steps) {
    return b_.CreateAdd(index, b_.CreateMul(step, e_.i64(steps)));
  };
  e_.barrier();  // slots of an earlier loop are free
  for (int64_t s = 0; s + 1 < slots_; ++s) stage_step(ahead(from, s), at(region_, s * slot_bytes_));
  Sums start = sums;
  start.push_back(i32(0));
  start.push_back(i32((slots_ - 1) * slot_bytes_));
  auto next_slot = [&](Value* slot) {
    Value* next = b_.CreateAdd(slot, i32(slot_bytes_));
    return b_.CreateSelect(b_.CreateICmpEQ(next, i32(slots_ * slot_bytes_)), i32(0), next);
  };
  LoopValues end = emit_carried_loop(b_, from, to, step, start, [&](Value* index, const LoopValues& now) {
    Value *read = now[now.size() - 2], *write = now[now.size() - 1];
    if (slots_ == 1) {
      e_.barrier();
      stage_step(index, region_);
      e_.ops_.copy_wait(0);
      e_.barrier();
    } else {
      e_.ops_.copy_wait(static_cast<int>(slots_ - 2));
      e_.barrier();
      stage_step(ahead(index, slots_ - 1), at(region_, write));
    }
    LoopValues next = multiply(at(region_, read), Sums(now.begin(), now.end() - 2));
    next.push_back(slots_ == 1 ? read : next_slot(read));
    next.push_back(slots_ == 1 ? write : next_slot(write));
    return next;
  });
  e_.ops_.copy_wait(0);
  return Sums(end.begin(), end.end() - 2);
}

// ---- products
// --------------------------------------------------------------------------------------------------------------

BlockProduct::Sums BlockProduct::multiply(Value* slot, const Sums& sums) {
  return layout_.unit == ProductUnit::Warps ? multiply_by_warps(slot, sums) : multiply_by_threads(slot, sums);
}

BlockProduct::Sums BlockProduct::multiply_by_warps(Value* slot, const Sums& sums) {
  const MmaKind kind = lhs_.tile.dtype == DType::BF16 ? MmaKind::BF16 : MmaKind::F16;
  Sums next = sums;
  Value *left = at(at(slot, lhs_.offset), lhs_.base), *right = at(at(slot, rhs_.offset), rhs_.base);
  auto load = [&](const Operand& operand, Value* base, int64_t i, int64_t k) {
    const int64_t pitch = operand.tile.pitch_bytes();
    Value* entry = operand.table[static_cast<size_t>(operand.tile.depth_is_contiguous ? k : i)];
    int64_t constant = (operand.tile.depth_is_contiguous ? i : k) * 16 * pitch;
    return e_.ops_.load_matrix(at(at(base, entry), constant), !operand.tile.depth_is_contiguous);
  };
  const int64_t blocks_down = layout_.each_rows / 16, pairs = layout_.each_columns / 16;
  for (int64_t k = 0; k < depth_ / kWarpDepth; ++k) {
    std::vector<std::array<Value*, 4>> a, b;
    for (int64_t i = 0; i < blocks_down; ++i) a.push_back(load(lhs_, left, i, k));
    for (int64_t j = 0; j < pairs; ++j) b.push_back(load(rhs_, right, j, k));
    for (int64_t i = 0; i < blocks_down; ++i) {
      for (int64_t j = 0; j < 2 * pairs; ++j) {
        const auto first = static_cast<size_t>((i * 2 * pairs + j) * 4);
        const std::array<Value*, 4>& pair = b[static_cast<size_t>(j / 2)];
        const size_t half = static_cast<size_t>(j % 2) * 2;
        std::array<Value*, 4> sum =
            e_.ops_.mma(kind, a[static_cast<size_t>(i)], {pair[half], pair[half + 1]},
                        {next[first], next[first + 1], next[first + 2], next[first + 3]});
        std::copy(sum.begin(), sum.end(), next.begin() + static_cast<std::ptrdiff_t>(first));
      }
    }
  }
  return next;
}

// This thread's elements of one side for some steps of the depth: [element][step], in the dtype of the sums.
std::vector<llvm::Value*> BlockProduct::read_share(const Operand& operand, Value* slot, Value* thread,
                                                   int64_t threads, int64_t each, int64_t group,
                                                   Value* step) {
  const StagedTile& tile = operand.tile;
  const int64_t chunk = tile.chunk_elements(), size = dtype_bytes(tile.dtype);
  std::vector<Value*> out(static_cast<size_t>(each * depth_step_));
  auto read = [&](Value* row, Value* column, int64_t count) {
    Value* offset = chunk_offset(tile, row, b_.CreateUDiv(column, i32(chunk)));
    offset = b_.CreateAdd(offset, b_.CreateMul(b_.CreateURem(column, i32(chunk)), i32(size)));
    const unsigned lanes = count == 1 ? 0 : static_cast<unsigned>(count);
    llvm::LoadInst* load =
        b_.CreateAlignedLoad(storage_type(e_.context_, tile.dtype, lanes), at(slot, offset),
                             llvm::Align(static_cast<uint64_t>(count * size)));
    Value* value = to_register(e_.context_, tile.dtype, load);
    return emit_convert(e_.context_, value, tile.dtype, dtype_);
  };
  auto element = [&](Value* value, int64_t index) {
    return value->getType()->isVectorTy() ? b_.CreateExtractElement(value, static_cast<uint64_t>(index))
                                          : value;
  };
  Value* own = b_.CreateMul(thread, i32(group));
  for (int64_t r = 0; r < each; r += tile.depth_is_contiguous ? 1 : group) {
    Value* free = b_.CreateAdd(own, i32(r / group * threads * group + r % group));
    if (tile.depth_is_contiguous) {
      Value* values = read(free, step, depth_step_);
      for (int64_t k = 0; k < depth_step_; ++k)
        out[static_cast<size_t>(r * depth_step_ + k)] = element(values, k);
      continue;
    }
    for (int64_t k = 0; k < depth_step_; ++k) {
      Value* values = read(b_.CreateAdd(step, i32(k)), free, group);
      for (int64_t n = 0; n < group; ++n)
        out[static_cast<size_t>((r + n) * depth_step_ + k)] = element(values, n);
    }
  }
  return out;
}

BlockProduct::Sums BlockProduct::multiply_by_threads(Value* slot, const Sums& sums) {
  Value *left = at(slot, lhs_.offset), *right = at(slot, rhs_.offset);
  return emit_carried_loop(
      b_, i32(0), i32(depth_), i32(depth_step_), sums, [&](Value* step, const LoopValues& now) {
        LoopValues next = now;
        std::vector<Value*> a =
            read_share(lhs_, left, part_row_, layout_.grid_rows, layout_.each_rows, layout_.row_group, step);
        std::vector<Value*> b = read_share(rhs_, right, part_column_, layout_.grid_columns,
                                           layout_.each_columns, layout_.column_group, step);
        for (int64_t k = 0; k < depth_step_; ++k) {
          for (int64_t r = 0; r < layout_.each_rows; ++r) {
            for (int64_t c = 0; c < layout_.each_columns; ++c) {
              Value*& sum = next[static_cast<size_t>(r * layout_.each_columns + c)];
              Value *x = a[static_cast<size_t>(r * depth_step_ + k)],
                    *y = b[static_cast<size_t>(c * depth_step_ + k)];
              sum = is_float(dtype_) ? LaneMath(e_.context_, sum->getType()).fma(x, y, sum)
                                     : b_.CreateAdd(b_.CreateMul(x, y), sum);
            }
          }
        }
        return next;
      });
}

}  // namespace tilewright
