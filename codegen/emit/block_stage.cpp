// Operands of a product on their way to shared memory.
//
// What lies contiguous and aligned in a buffer is copied asynchronously, chunk by chunk, with zeros beyond
// the end; what is not aligned is gathered element by element; anything else is evaluated at its points and
// written.
#include "codegen/emit/block_product.h"

namespace tilewright {

llvm::Value* BlockProduct::chunk_offset(const StagedTile& tile, Value* row, Value* chunk) {
  Value* place = chunk;
  if (tile.phase_mask > 0) {
    Value* phase = b_.CreateAnd(b_.CreateLShr(row, i32(tile.phase_shift)), i32(tile.phase_mask));
    place = b_.CreateXor(chunk, phase);
  }
  return b_.CreateAdd(b_.CreateMul(row, i32(tile.pitch_bytes())), b_.CreateShl(place, i32(4)));
}

void BlockProduct::stage(const Operand& operand, Value* slot) {
  Value* to = at(slot, operand.offset);
  BlockEmitter::TileView view;
  const int column_axis = operand.tile.depth_is_contiguous ? operand.depth_axis : operand.free_axis;
  if (contiguous_axis(operand.value) == column_axis && e_.view_of_load(operand.value, view)) {
    stage_view(operand, view, to);
  } else {
    stage_evaluated(operand, to);
  }
}

void BlockProduct::stage_view(const Operand& operand, const BlockEmitter::TileView& view, Value* to) {
  const StagedTile& tile = operand.tile;
  const int row_axis = operand.tile.depth_is_contiguous ? operand.free_axis : operand.depth_axis;
  Value* bits = b_.CreatePtrToInt(view.data, b_.getInt64Ty());
  if (e_.type(operand.value).shape[static_cast<size_t>(row_axis)] > 1)
    bits = b_.CreateOr(
        bits, b_.CreateMul(view.strides[static_cast<size_t>(row_axis)], e_.i64(dtype_bytes(tile.dtype))));
  Value* is_aligned = b_.CreateICmpEQ(b_.CreateAnd(bits, e_.i64(StagedTile::kChunkBytes - 1)), e_.i64(0));
  e_.branch(is_aligned, [&] { copy_chunks(operand, view, to); }, [&] { gather_chunks(operand, view, to); });
}

void BlockProduct::copy_chunks(const Operand& operand, const BlockEmitter::TileView& view, Value* to) {
  const StagedTile& tile = operand.tile;
  const int column_axis = tile.depth_is_contiguous ? operand.depth_axis : operand.free_axis;
  const int64_t total = tile.rows * tile.chunks(), threads = e_.threads_, size = dtype_bytes(tile.dtype);
  Value* rows = b_.CreateTrunc(view.sizes[static_cast<size_t>(1 - column_axis)], b_.getInt32Ty());
  Value* row_bytes =
      b_.CreateMul(b_.CreateTrunc(view.sizes[static_cast<size_t>(column_axis)], b_.getInt32Ty()), i32(size));
  Value* stride = b_.CreateMul(view.strides[static_cast<size_t>(1 - column_axis)], e_.i64(size));
  auto known_at_least = [](Value* value, int64_t least) {
    auto* constant = llvm::dyn_cast<llvm::ConstantInt>(value);
    return constant && constant->getSExtValue() >= least;
  };
  auto copy = [&](Value* row, Value* chunk, Value* from) {
    Value* valid = i32(StagedTile::kChunkBytes);
    if (!known_at_least(row_bytes, tile.pitch_bytes())) {
      Value* left = b_.CreateSub(row_bytes, b_.CreateShl(chunk, i32(4)));
      left = b_.CreateSelect(b_.CreateICmpSLT(left, i32(0)), i32(0), left);
      valid = b_.CreateSelect(b_.CreateICmpSLT(left, valid), left, valid);
    }
    if (!known_at_least(rows, tile.rows)) valid = b_.CreateSelect(b_.CreateICmpSLT(row, rows), valid, i32(0));
    e_.ops_.copy_async(at(to, chunk_offset(tile, row, chunk)), from, StagedTile::kChunkBytes, valid);
  };
  auto address = [&](Value* row, Value* chunk) {
    Value* offset = b_.CreateAdd(b_.CreateMul(b_.CreateZExt(row, b_.getInt64Ty()), stride),
                                 b_.CreateZExt(b_.CreateShl(chunk, i32(4)), b_.getInt64Ty()));
    return b_.CreateGEP(b_.getInt8Ty(), view.data, offset);
  };
  Value* first_row = b_.CreateUDiv(e_.thread_, i32(tile.chunks()));
  Value* first_chunk = b_.CreateURem(e_.thread_, i32(tile.chunks()));
  const bool is_even = threads % tile.chunks() == 0;  // every round moves down by the same number of rows
  Value* from = address(first_row, first_chunk);
  for (int64_t done = 0; done < total; done += threads) {
    auto round = [&] {
      if (is_even) {
        const int64_t down = done / tile.chunks();
        Value* moved = b_.CreateGEP(b_.getInt8Ty(), from, b_.CreateMul(stride, e_.i64(down)));
        copy(b_.CreateAdd(first_row, i32(down)), first_chunk, moved);
        return;
      }
      Value* number = b_.CreateAdd(e_.thread_, i32(done));
      Value *row = b_.CreateUDiv(number, i32(tile.chunks())),
            *chunk = b_.CreateURem(number, i32(tile.chunks()));
      copy(row, chunk, address(row, chunk));
    };
    if (done + threads <= total) {
      round();
    } else {
      e_.if_then(b_.CreateICmpULT(e_.thread_, i32(total - done)), round);
    }
  }
}

void BlockProduct::gather_chunks(const Operand& operand, const BlockEmitter::TileView& view, Value* to) {
  const StagedTile& tile = operand.tile;
  const int column_axis = tile.depth_is_contiguous ? operand.depth_axis : operand.free_axis;
  const auto count = static_cast<unsigned>(tile.chunk_elements());
  llvm::Type* element = storage_type(e_.context_, tile.dtype, 0);
  const auto align = llvm::Align(static_cast<uint64_t>(dtype_bytes(tile.dtype)));
  e_.for_own(tile.rows * tile.chunks(), [&](Value* number) {
    Value *row = b_.CreateUDiv(number, i32(tile.chunks())),
          *chunk = b_.CreateURem(number, i32(tile.chunks()));
    Value* wide_row = b_.CreateZExt(row, b_.getInt64Ty());
    Value* column = b_.CreateZExt(b_.CreateMul(chunk, i32(count)), b_.getInt64Ty());
    Value* start =
        b_.CreateAdd(b_.CreateMul(wide_row, view.strides[static_cast<size_t>(1 - column_axis)]), column);
    Value* row_exists = b_.CreateICmpSLT(wide_row, view.sizes[static_cast<size_t>(1 - column_axis)]);
    Value* left = b_.CreateSub(view.sizes[static_cast<size_t>(column_axis)], column);
    Value* elements = llvm::PoisonValue::get(llvm::FixedVectorType::get(element, count));
    for (unsigned i = 0; i < count; ++i) {
      Value* exists = b_.CreateAnd(row_exists, b_.CreateICmpSGT(left, e_.i64(i)));
      Value* pointer = b_.CreateGEP(element, view.data, b_.CreateAdd(start, e_.i64(i)));
      pointer = b_.CreateSelect(exists, pointer, e_.safe_pointer());
      Value* loaded = b_.CreateAlignedLoad(element, pointer, align);
      loaded = b_.CreateSelect(exists, loaded, llvm::Constant::getNullValue(element));
      elements = b_.CreateInsertElement(elements, loaded, uint64_t{i});
    }
    b_.CreateAlignedStore(elements, at(to, chunk_offset(tile, row, chunk)),
                          llvm::Align(StagedTile::kChunkBytes));
  });
}

void BlockProduct::stage_evaluated(const Operand& operand, Value* to) {
  const StagedTile& tile = operand.tile;
  const std::vector<int64_t>& shape = e_.type(operand.value).shape;
  const int column_axis = tile.depth_is_contiguous ? operand.depth_axis : operand.free_axis;
  const int64_t points = shape[0] * shape[1], size = dtype_bytes(tile.dtype);
  BlockEmitter::Reads reads{{operand.value}, {}};
  e_.by_version(e_.choose_lanes(shape, column_axis, {}, reads, points), [&](unsigned lanes) {
    e_.for_own(points / std::max(1u, lanes), [&](Value* number) {
      Point point;
      point.axis.assign(2, e_.i64(0));
      e_.place(number, shape, BlockEmitter::walk_order(shape, column_axis), lanes, column_axis, point);
      Value* value = to_storage(e_.context_, tile.dtype, e_.splat(e_.eval(operand.value, point), lanes));
      auto index = [&](int axis) {
        return b_.CreateTrunc(point.axis[static_cast<size_t>(axis)], b_.getInt32Ty());
      };
      Value *row = index(1 - column_axis), *column = index(column_axis);
      Value* offset = chunk_offset(tile, row, b_.CreateUDiv(column, i32(tile.chunk_elements())));
      offset =
          b_.CreateAdd(offset, b_.CreateMul(b_.CreateURem(column, i32(tile.chunk_elements())), i32(size)));
      b_.CreateAlignedStore(value, at(to, offset),
                            llvm::Align(static_cast<uint64_t>(size * std::max(1u, lanes))));
    });
  });
}

// What is evaluated writes its elements only: the rest of all slots is zero from the start.
void BlockProduct::clear_padding() {
  if (!has_padding(lhs_) && !has_padding(rhs_)) return;
  llvm::Type* chunk = llvm::FixedVectorType::get(b_.getInt32Ty(), 4);
  e_.for_own(slots_ * slot_bytes_ / StagedTile::kChunkBytes, [&](Value* number) {
    b_.CreateAlignedStore(llvm::Constant::getNullValue(chunk), at(region_, b_.CreateShl(number, i32(4))),
                          llvm::Align(StagedTile::kChunkBytes));
  });
  e_.barrier();
}

}  // namespace tilewright
