// What has an order: running values along an axis, stores that may meet, reports.
#include <algorithm>
#include <bit>

#include "codegen/emit/block_emitter.h"
#include "codegen/emit/loops.h"

namespace tilewright {

using tile::Instruction;
using tile::Opcode;

namespace {

constexpr int64_t kMaxChunks = 64;  // of a row: each thread folds the totals before its own
constexpr int64_t kMinChunk = 4;    // elements

}  // namespace

// ---- scans
// ------------------------------------------------------------------------------------------------------------------

// A thread takes a chunk of a row: first its total, then, from the totals before it, its elements.
void BlockEmitter::emit_scan(const Instruction& instruction) {
  const size_t width = instruction.operands.size() / 2;
  const std::vector<int64_t>& shape = type(instruction.operands[0]).shape;
  const int axis = static_cast<int>(instruction.axes[0]);
  const int64_t size = shape[static_cast<size_t>(axis)];
  Resources read, written;
  std::vector<ScratchTile> results;
  for (ValueId operand : instruction.operands) add_reads(operand, read);
  for (ValueId result : instruction.results) {
    results.push_back(new_scratch(type(result)));
    written.insert(results.back().data);
  }
  synchronize(read, written);
  std::vector<int64_t> kept = shape;
  kept[static_cast<size_t>(axis)] = 1;
  int64_t rows = 1;
  for (int64_t each : kept) rows *= each;
  const auto power = [](int64_t value) {
    return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(value, 1))));
  };
  const int64_t chunks = std::clamp<int64_t>(
      std::min(threads_ / std::min<int64_t>(power(rows), threads_), power(size) / kMinChunk), 1, kMaxChunks);
  const int64_t length = (size + chunks - 1) / chunks, together = threads_ / chunks;
  Limits limits = axis_limits(instruction);
  Value* limit = limits.count(axis) ? limits[axis].end : i64(size);
  std::vector<llvm::AllocaInst*> cells;
  for (size_t i = 0; i < width; ++i) {
    cells.push_back(entry_alloca(register_type(context_, type(instruction.operands[i]).dtype, 0)));
  }
  auto read_cells = [&] {
    std::vector<Value*> values;
    for (llvm::AllocaInst* cell : cells) values.push_back(b_.CreateLoad(cell->getAllocatedType(), cell));
    return values;
  };
  auto write_cells = [&](const std::vector<Value*>& values) {
    for (size_t i = 0; i < width; ++i) b_.CreateStore(values[i], cells[i]);
  };
  auto point_at = [&](const Point& row, Value* position) {
    Point point = row;
    if (instruction.reverse) position = b_.CreateSub(b_.CreateSub(limit, i64(1)), position);
    point.axis[static_cast<size_t>(axis)] = position;
    return point;
  };
  auto elements_at = [&](const Point& point) {
    memo_.clear();
    std::vector<Value*> values;
    for (size_t i = 0; i < width; ++i) values.push_back(eval(instruction.operands[i], point));
    return values;
  };
  auto carry_point = [&](const Point& point) {
    Point out = point;
    out.axis.erase(out.axis.begin() + axis);
    return out;
  };
  PartialArea area;
  if (chunks > 1) {
    Partial like;
    for (llvm::AllocaInst* cell : cells) like.push_back(llvm::PoisonValue::get(cell->getAllocatedType()));
    area = new_area(like, threads_);
  }
  Value* chunk = b_.CreateAnd(thread_, b_.getInt32(static_cast<uint32_t>(chunks - 1)));
  Value* own_row = b_.CreateUDiv(thread_, b_.getInt32(static_cast<uint32_t>(chunks)));
  Value* begin = b_.CreateMul(b_.CreateZExt(chunk, b_.getInt64Ty()), i64(length));
  Value* past = b_.CreateAdd(begin, i64(length));
  Value* end = b_.CreateSelect(b_.CreateICmpSLT(past, limit), past, limit);
  auto run = [&](Value* first_row) {
    memo_.clear();
    Value* row = b_.CreateAdd(first_row, own_row);
    Value* exists = b_.CreateICmpSLT(row, b_.getInt32(static_cast<uint32_t>(rows)));
    Point outer;
    outer.axis.assign(shape.size(), i64(0));
    place(row, kept, walk_order(kept, -1), 0, -1, outer);
    Value* slot = b_.CreateZExt(thread_, b_.getInt64Ty());
    if (chunks > 1) {
      Value* has_elements = b_.CreateAnd(exists, b_.CreateICmpSLT(begin, end));
      if_then(has_elements, [&] {
        write_cells(elements_at(point_at(outer, begin)));
        for_loop(b_.CreateAdd(begin, i64(1)), end, i64(1), [&](Value* position) {
          std::vector<Value*> fresh = elements_at(point_at(outer, position));
          write_cells(combine(instruction, read_cells(), fresh));
        });
        write_area(area, slot, read_cells());
      });
      ops_.barrier();
    }
    if_then(exists, [&] {
      memo_.clear();
      std::vector<Value*> carries;
      for (size_t i = 0; i < width; ++i) {
        carries.push_back(eval(instruction.operands[width + i], carry_point(outer)));
      }
      write_cells(carries);
      if (chunks > 1) {
        Value* first_slot = b_.CreateSub(slot, b_.CreateZExt(chunk, b_.getInt64Ty()));
        for_loop(b_.getInt32(0), chunk, b_.getInt32(1), [&](Value* before) {
          Value* number = b_.CreateZExt(before, b_.getInt64Ty());
          Value* counts = b_.CreateICmpSLT(b_.CreateMul(number, i64(length)), limit);
          if_then(counts, [&] {
            Partial total = read_area(area, b_.CreateAdd(first_slot, number));
            write_cells(combine(instruction, read_cells(), total));
          });
        });
      }
      for_loop(begin, end, i64(1), [&](Value* position) {
        Point point = point_at(outer, position);
        std::vector<Value*> fresh = elements_at(point), old = read_cells();
        std::vector<Value*> joined = combine(instruction, old, fresh);
        for (size_t i = 0; i < width; ++i) {
          write_scratch(results[i], instruction.results[i], point,
                        instruction.exclusive ? old[i] : joined[i]);
        }
        write_cells(joined);
      });
      // The chunk in which the row ends carries out; the first one where the row is empty.
      Value* is_last = b_.CreateAnd(b_.CreateICmpSLT(begin, limit), b_.CreateICmpSGE(past, limit));
      Value* is_empty = b_.CreateAnd(b_.CreateICmpSLE(limit, i64(0)), b_.CreateICmpEQ(begin, i64(0)));
      if_then(b_.CreateOr(is_last, is_empty), [&] {
        std::vector<Value*> last = read_cells();
        for (size_t i = 0; i < width; ++i) {
          write_scratch(results[width + i], instruction.results[width + i], carry_point(outer), last[i]);
        }
      });
      memo_.clear();
    });
    if (chunks > 1 && rows > together) ops_.barrier();
  };
  if (rows <= together) {
    run(b_.getInt32(0));
  } else {
    for_loop(b_.getInt32(0), b_.getInt32(static_cast<uint32_t>(rows)),
             b_.getInt32(static_cast<uint32_t>(together)), run);
  }
  memo_.clear();
  for (size_t i = 0; i < instruction.results.size(); ++i) {
    scratch_tiles_[instruction.results[i].index] = results[i];
  }
}

// ---- stores
// -----------------------------------------------------------------------------------------------------------------

// Elements that may meet are stored by one thread, in row-major order; others by all.
void BlockEmitter::emit_ordered_store(const Instruction& store) {
  const std::vector<int64_t>& shape = type(store.operands[0]).shape;
  Resources read, written;
  add_reads(store.operands[0], read);
  for (const tile::DimIndex& index : store.access.index) {
    if (index.tile.is_valid()) add_reads(index.tile, read);
  }
  add_param(store.access.param, written);
  if (store.store != tile::StoreKind::Set) add_param(store.access.param, read);
  synchronize(read, written);
  std::vector<int64_t> apart = shape, in_order = shape;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const bool is_apart =
        std::any_of(store.access.index.begin(), store.access.index.end(), [&](const tile::DimIndex& index) {
          return !index.tile.is_valid() && index.terms.size() == 1 && index.terms[0].coefficient != 0 &&
                 index.terms[0].axis == static_cast<int>(axis);
        });
    (is_apart ? in_order : apart)[axis] = 1;
  }
  const bool is_free = std::all_of(in_order.begin(), in_order.end(), [](int64_t size) { return size == 1; });
  Point origin;
  origin.axis.assign(shape.size(), i64(0));
  auto one = [&](const Point& point) { emit_store(store, point, eval(store.operands[0], point)); };
  if (is_free) {
    for_groups_at(origin, shape, last_axis(shape), {}, Reads{{store.operands[0]}, {&store}}, 1,
                  [&](const std::vector<Point>& group) { one(group[0]); });
    return;
  }
  int64_t count = 1;
  for (int64_t size : apart) count *= size;
  for_own(count, [&](Value* number) {
    Point start = origin;
    place(number, apart, walk_order(apart, -1), 0, -1, start);
    serial_ = true;
    for_points_at(start, in_order, -1, {}, {}, one);
    serial_ = false;
  });
}

// ---- reports
// ----------------------------------------------------------------------------------------------------------------

// The first element in row-major order that is wrong: threads find it together, one reports it.
void BlockEmitter::emit_report(const Instruction& instruction) {
  const std::vector<int64_t>& shape = type(instruction.operands[0]).shape;
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  Value* first = new_scratch_bytes(4);
  Resources read;
  for (ValueId operand : instruction.operands) add_reads(operand, read);
  synchronize(read, {first});
  llvm::IntegerType* word = b_.getInt32Ty();
  Value *none = b_.getInt32(~0u), *is_first_thread = b_.CreateICmpEQ(thread_, b_.getInt32(0));
  if_then(is_first_thread, [&] { b_.CreateStore(none, first); });
  ops_.barrier();
  auto point_of = [&](Value* number) {
    Point point;
    point.axis.assign(shape.size(), i64(0));
    place(number, shape, walk_order(shape, -1), 0, -1, point);
    return point;
  };
  for_own(count, [&](Value* number) {
    if_then(eval(instruction.operands[0], point_of(number)), [&] {
      b_.CreateAtomicRMW(llvm::AtomicRMWInst::UMin, first, number, llvm::MaybeAlign(4),
                         llvm::AtomicOrdering::Monotonic);
    });
  });
  ops_.barrier();
  Value* found = b_.CreateLoad(word, first);
  if_then(b_.CreateAnd(is_first_thread, b_.CreateICmpNE(found, none)), [&] {
    memo_.clear();
    Value* value = eval(instruction.operands[1], point_of(found));
    Value* exchange =
        b_.CreateAtomicCmpXchg(error_word_, i64(0), i64(instruction.site + 1), llvm::MaybeAlign(8),
                               llvm::AtomicOrdering::Monotonic, llvm::AtomicOrdering::Monotonic);
    if_then(b_.CreateExtractValue(exchange, {1u}),
            [&] { b_.CreateStore(value, b_.CreateConstInBoundsGEP1_64(b_.getInt64Ty(), error_word_, 1)); });
    memo_.clear();
  });
  memo_.clear();
}

}  // namespace tilewright
