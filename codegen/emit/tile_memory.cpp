// Buffers: addresses of accesses, checks, loads and stores.
#include <algorithm>

#include "base/text.h"
#include "codegen/emit/partial_memory.h"
#include "codegen/emit/tile_emitter.h"

namespace tilewright {

using tile::Instruction;
using tile::Opcode;

static uint64_t vector_bytes(DType dtype, unsigned lanes) {
  return static_cast<uint64_t>(dtype_bytes(dtype)) * lanes;
}

void TileEmitter::tag_param(llvm::Instruction* access, int scope) {
  llvm::LLVMContext& llvm = b_.getContext();
  access->setMetadata(llvm::LLVMContext::MD_alias_scope, llvm::MDNode::get(llvm, {scopes_[scope]}));
  access->setMetadata(llvm::LLVMContext::MD_noalias, other_scopes_[scope]);
}

llvm::Value* TileEmitter::element_pointer(Value* base, DType dtype, Value* offset) {
  return b_.CreateGEP(storage_type(context_, dtype, 0), base, offset);
}

llvm::Value* TileEmitter::literal(const tile::Literal& value, DType dtype) {
  llvm::Type* type = register_type(context_, dtype, 0);
  if (type->isFloatingPointTy()) return llvm::ConstantFP::get(type, value.f);
  return llvm::ConstantInt::get(type, static_cast<uint64_t>(value.i), true);
}

llvm::Value* TileEmitter::safe_pointer() { return scratch_; }

bool TileEmitter::proven_inside(const tile::Access& access, const std::vector<int64_t>& shape) const {
  bool is_simple = true;
  return plan_.access_limits(access, shape, is_simple).empty() && is_simple;
}

bool TileEmitter::proven_at(const tile::Access& access, const std::vector<int64_t>& shape,
                            const Point& point) const {
  bool is_simple = true;
  std::map<int, Dim> limits = plan_.access_limits(access, shape, is_simple);
  if (!is_simple) return false;
  return std::all_of(limits.begin(), limits.end(), [&](const auto& limit) {
    auto end = index_limits_.find(point.axis[limit.first]);
    return end != index_limits_.end() && end->second == limit.second;
  });
}

TileEmitter::Address TileEmitter::address(const tile::Access& access, const Point& point, bool proven) {
  const ParamInfo& param = params_[access.param];
  const bool is_whole = point.is_whole && whole_accesses_.count(&access);
  Address out;
  out.offset = i64(0);
  Value* lane_step = nullptr;  // elements a lane, from affine parts
  Value* lane_part = nullptr;  // from index tiles
  bool constant_step = true;
  int64_t step = 0;
  auto require = [&](Value* condition) {
    if (out.inside && out.inside->getType() != condition->getType()) {
      out.inside = splat(out.inside, point.lanes);
      condition = splat(condition, point.lanes);
    }
    out.inside = out.inside ? b_.CreateAnd(out.inside, condition) : condition;
  };
  for (size_t d = 0; d < access.index.size(); ++d) {
    const tile::DimIndex& index = access.index[d];
    Value* first = dim(index.base);
    int64_t lanes_coefficient = 0;
    for (const tile::AxisTerm& term : index.terms) {
      Value* part = point.axis[term.axis];
      if (term.coefficient != 1) part = b_.CreateMul(part, i64(term.coefficient));
      first = b_.CreateAdd(first, part);
      if (term.axis == point.vector_axis) lanes_coefficient += term.coefficient;
    }
    Value* gathered = nullptr;  // vector of indices from an index tile
    if (index.tile.is_valid()) {
      Point at;
      at.lanes = point.lanes;
      at.mask = point.mask;
      at.inside = point.inside;
      at.is_whole = point.is_whole;
      at.axis = point.axis;
      at.vector_axis = point.vector_axis;
      Value* tile_index = eval(index.tile, at);
      DType dtype = type(index.tile).dtype;
      if (dtype != DType::I64) tile_index = emit_convert(context_, tile_index, dtype, DType::I64);
      if (tile_index->getType()->isVectorTy()) {
        gathered = tile_index;
      } else {
        first = b_.CreateAdd(first, tile_index);
      }
    }
    out.offset = b_.CreateAdd(out.offset, b_.CreateMul(first, param.strides[d]));
    if (lanes_coefficient != 0) {
      if (auto* stride = llvm::dyn_cast<llvm::ConstantInt>(param.strides[d])) {
        step += lanes_coefficient * stride->getSExtValue();
      } else {
        constant_step = false;
      }
      Value* part = b_.CreateMul(i64(lanes_coefficient), param.strides[d]);
      lane_step = lane_step ? b_.CreateAdd(lane_step, part) : part;
    }
    if (gathered) {
      Value* part = b_.CreateMul(gathered, splat(param.strides[d], point.lanes));
      lane_part = lane_part ? b_.CreateAdd(lane_part, part) : part;
    }
    bool checked = proven || (point.inside && !index.tile.is_valid());
    if (checked) continue;
    Value* at = first;
    const bool by_lane = lanes_coefficient != 0 && !is_whole;
    if (by_lane || gathered) {
      at = splat(first, point.lanes);
      if (by_lane) {
        at = b_.CreateAdd(at,
                          b_.CreateMul(lane_iota(point.lanes), splat(i64(lanes_coefficient), point.lanes)));
      }
      if (gathered) at = b_.CreateAdd(at, gathered);
    }
    Value* size = at->getType()->isVectorTy() ? splat(param.dims[d], point.lanes) : param.dims[d];
    require(b_.CreateICmpULT(at, size));
  }
  if (!lane_step && !lane_part) return out;
  if (!lane_part && constant_step && step == 1) {
    out.unit = 1;
    out.is_aligned = is_whole;
    return out;
  }
  if (!lane_part && constant_step && step == 0) return out;
  out.unit = 2;
  out.lane_offsets = splat(out.offset, point.lanes);
  if (lane_step) {
    Value* steps = b_.CreateMul(lane_iota(point.lanes), splat(lane_step, point.lanes));
    out.lane_offsets = b_.CreateAdd(out.lane_offsets, steps);
  }
  if (lane_part) out.lane_offsets = b_.CreateAdd(out.lane_offsets, lane_part);
  return out;
}

llvm::Value* TileEmitter::load_from(Value* base, DType dtype, int scope, const Address& at,
                                    const Point& point, const tile::Literal& outside, bool proven) {
  llvm::Type* element = storage_type(context_, dtype, 0);
  auto align = llvm::Align(static_cast<uint64_t>(dtype_bytes(dtype)));
  Value* inside = proven ? nullptr : at.inside;
  Value* fill = literal(outside, dtype);
  if (at.unit == 0) {  // one element for all lanes
    Value* pointer = element_pointer(base, dtype, at.offset);
    bool by_lane = inside && inside->getType()->isVectorTy();
    if (inside && !by_lane) pointer = b_.CreateSelect(inside, pointer, safe_pointer());
    if (by_lane) pointer = b_.CreateSelect(b_.CreateOrReduce(inside), pointer, safe_pointer());
    llvm::LoadInst* load = b_.CreateAlignedLoad(element, pointer, llvm::Align(1));
    if (!inside) tag_param(load, scope);
    Value* value = to_register(context_, dtype, load);
    if (!inside) return value;
    if (by_lane) return b_.CreateSelect(inside, splat(value, point.lanes), splat(fill, point.lanes));
    return b_.CreateSelect(inside, value, fill);
  }
  llvm::Type* vector = storage_type(context_, dtype, point.lanes);
  if (at.unit == 1) {
    Value* pointer = element_pointer(base, dtype, at.offset);
    Value* mask = point.mask;
    if (inside) {
      Value* lanes_inside = splat(inside, point.lanes);
      mask = mask ? b_.CreateAnd(mask, lanes_inside) : lanes_inside;
    }
    if (!mask) {
      llvm::LoadInst* load = b_.CreateAlignedLoad(vector, pointer, align);
      tag_param(load, scope);
      return to_register(context_, dtype, load);
    }
    Value* passthru = to_storage(context_, dtype, splat(fill, point.lanes));
    Value* load = load_partial(context_, vector, pointer, mask, passthru);
    return to_register(context_, dtype, load);
  }
  Value* gathered = llvm::PoisonValue::get(vector);
  Value* mask = point.mask;
  if (inside) {
    Value* lanes_inside = splat(inside, point.lanes);
    mask = mask ? b_.CreateAnd(mask, lanes_inside) : lanes_inside;
  }
  for (unsigned lane = 0; lane < point.lanes; ++lane) {
    Value* pointer = element_pointer(base, dtype, b_.CreateExtractElement(at.lane_offsets, lane));
    if (mask) pointer = b_.CreateSelect(b_.CreateExtractElement(mask, lane), pointer, safe_pointer());
    llvm::LoadInst* load = b_.CreateAlignedLoad(element, pointer, llvm::Align(1));
    if (!mask) tag_param(load, scope);
    gathered = b_.CreateInsertElement(gathered, load, lane);
  }
  Value* value = to_register(context_, dtype, gathered);
  return mask ? b_.CreateSelect(mask, value, splat(fill, point.lanes)) : value;
}

llvm::Value* TileEmitter::load_elements(int param, const Address& at, const Point& point,
                                        const tile::Literal& outside) {
  return load_from(params_[param].data, kernel_.params[param].dtype, param, at, point, outside, false);
}

llvm::Value* TileEmitter::eval_load(const Instruction& instruction, const Point& point) {
  bool proven = proven_at(instruction.access, type(instruction.results[0]).shape, point);
  Address at = address(instruction.access, point, proven);
  if (instruction.depth > 1) fetch_ahead(instruction, at, point);
  return load_elements(instruction.access.param, at, point, instruction.literal);
}

// Asks for what the same point reads in a later pass of the innermost loop that moves the block, or in a
// later instance: in the first step that reads the load.  Those lines need not exist.
void TileEmitter::fetch_ahead(const Instruction& load, const Address& at, const Point& point) {
  bool is_affine = std::none_of(load.access.index.begin(), load.access.index.end(),
                                [](const tile::DimIndex& index) { return index.tile.is_valid(); });
  if (!in_step_ || fetched_.count(&load) || at.unit != 1 || !is_affine || !point.inside) return;
  fetched_now_.insert(&load);
  std::vector<std::string> names;
  for (const tile::DimIndex& index : load.access.index) index.base.collect_symbols(names);
  for (size_t i = moves_.size(); i-- > 0;) {
    const auto& [symbol, step] = moves_[i];
    if (std::find(names.begin(), names.end(), symbol) == names.end()) continue;
    Value* here = symbols_.at(symbol);
    symbols_[symbol] = b_.CreateAdd(here, b_.CreateMul(step, i64(load.depth - 1)));
    Address later = address(load.access, point, true);
    symbols_[symbol] = here;
    DType dtype = kernel_.params[load.access.param].dtype;
    Value* pointer = element_pointer(params_[load.access.param].data, dtype, later.offset);
    int64_t bytes = static_cast<int64_t>(vector_bytes(dtype, point.lanes));
    for (int64_t offset = 0; offset < bytes; offset += context_.limits.cache_line_bytes) {
      Value* line = b_.CreateConstGEP1_64(b_.getInt8Ty(), pointer, static_cast<uint64_t>(offset));
      b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {b_.getPtrTy()},
                         {line, b_.getInt32(0), b_.getInt32(2), b_.getInt32(1)});
    }
    return;
  }
}

// ---- checks
// ---------------------------------------------------------------------------------------------------------------

void TileEmitter::add_access_inside(const tile::Access& access, const std::vector<int64_t>& shape,
                                    const Point& point, Value*& inside) {
  if (proven_at(access, shape, point)) return;
  auto require = [&](Value* condition) { inside = inside ? b_.CreateAnd(inside, condition) : condition; };
  for (size_t d = 0; d < access.index.size(); ++d) {
    const tile::DimIndex& index = access.index[d];
    if (index.tile.is_valid()) continue;  // checked lane by lane
    Value* first = dim(index.base);
    int64_t lanes_coefficient = 0;
    for (const tile::AxisTerm& term : index.terms) {
      Value* part = point.axis[term.axis];
      if (term.coefficient != 1) part = b_.CreateMul(part, i64(term.coefficient));
      first = b_.CreateAdd(first, part);
      if (term.axis == point.vector_axis) lanes_coefficient += term.coefficient;
    }
    require(b_.CreateICmpULT(first, params_[access.param].dims[d]));
    if (lanes_coefficient == 0) continue;
    Value* last = b_.CreateAdd(first, i64(lanes_coefficient * (static_cast<int64_t>(point.lanes) - 1)));
    require(b_.CreateICmpULT(last, params_[access.param].dims[d]));
  }
}

void TileEmitter::add_inside(ValueId value, const Point& point, Value*& inside,
                             std::set<std::vector<const void*>>& seen) {
  const Instruction* source = plan_.definition(value);
  if (!source || !plan_.is_lazy(*source) || scratch_tiles_.count(value.index) || bound_.count(value.index))
    return;
  std::vector<const void*> key{reinterpret_cast<const void*>(static_cast<uintptr_t>(value.index) + 1),
                               reinterpret_cast<const void*>(static_cast<intptr_t>(point.vector_axis))};
  key.insert(key.end(), point.axis.begin(), point.axis.end());
  if (!seen.insert(std::move(key)).second) return;
  if (source->opcode == Opcode::Load) add_access_inside(source->access, type(value).shape, point, inside);
  for (ValueId operand : TilePlan::read_values(*source)) {
    if (source->opcode == Opcode::RngBits && operand == source->operands[0]) continue;
    add_inside(operand, operand_point(*source, operand, point), inside, seen);
  }
}

llvm::Value* TileEmitter::all_inside(const Reads& reads, const Point& point) {
  Value* inside = nullptr;
  std::set<std::vector<const void*>> seen;
  for (ValueId value : reads.values) add_inside(value, point, inside, seen);
  for (const Instruction* store : reads.stores) {
    add_access_inside(store->access, type(store->operands[0]).shape, point, inside);
    for (const tile::DimIndex& index : store->access.index) {
      if (index.tile.is_valid()) add_inside(index.tile, point, inside, seen);
    }
  }
  return inside;
}

void TileEmitter::cut_range(const tile::Access& access, const std::vector<int64_t>& shape, const Point& point,
                            SafeRange& range) {
  if (proven_at(access, shape, point)) return;
  auto require = [&](Value* condition) {
    range.condition = range.condition ? b_.CreateAnd(range.condition, condition) : condition;
  };
  auto larger = [&](Value* a, Value* b) { return a ? b_.CreateSelect(b_.CreateICmpSGT(a, b), a, b) : b; };
  auto smaller = [&](Value* a, Value* b) { return a ? b_.CreateSelect(b_.CreateICmpSLT(a, b), a, b) : b; };
  for (size_t d = 0; d < access.index.size(); ++d) {
    const tile::DimIndex& index = access.index[d];
    if (index.tile.is_valid()) continue;  // checked lane by lane
    Value* first = dim(index.base);
    int64_t step = 0;
    for (const tile::AxisTerm& term : index.terms) {
      if (term.axis == point.vector_axis) {
        step += term.coefficient;
        continue;
      }
      Value* part = point.axis[term.axis];
      if (term.coefficient != 1) part = b_.CreateMul(part, i64(term.coefficient));
      first = b_.CreateAdd(first, part);
    }
    Value* size = params_[access.param].dims[d];
    if (step == 0) {
      require(b_.CreateICmpULT(first, size));
    } else if (step > 0) {  // -first <= step * lane < size - first
      auto over_step = [&](Value* a) {
        return step == 1 ? a : b_.CreateSDiv(b_.CreateAdd(a, i64(step - 1)), i64(step));
      };
      range.begin = larger(range.begin, over_step(b_.CreateNeg(first)));
      range.end = smaller(range.end, over_step(b_.CreateSub(size, first)));
    } else if (step == -1) {  // first - size < lane <= first
      range.begin = larger(range.begin, b_.CreateAdd(b_.CreateSub(first, size), i64(1)));
      range.end = smaller(range.end, b_.CreateAdd(first, i64(1)));
    } else {
      require(b_.getFalse());
    }
  }
}

// As all_inside, for lanes from the start of the vector axis on.
TileEmitter::SafeRange TileEmitter::safe_range(const Reads& reads, const Point& point, Value* extent) {
  SafeRange range;
  std::set<std::vector<const void*>> seen;
  std::function<void(ValueId, const Point&)> visit = [&](ValueId value, const Point& at) {
    const Instruction* source = plan_.definition(value);
    if (!source || !plan_.is_lazy(*source) || scratch_tiles_.count(value.index) || bound_.count(value.index))
      return;
    std::vector<const void*> key{reinterpret_cast<const void*>(static_cast<uintptr_t>(value.index) + 1),
                                 reinterpret_cast<const void*>(static_cast<intptr_t>(at.vector_axis))};
    key.insert(key.end(), at.axis.begin(), at.axis.end());
    if (!seen.insert(std::move(key)).second) return;
    if (source->opcode == Opcode::Load) cut_range(source->access, type(value).shape, at, range);
    for (ValueId operand : TilePlan::read_values(*source)) {
      if (source->opcode == Opcode::RngBits && operand == source->operands[0]) continue;
      visit(operand, operand_point(*source, operand, at));
    }
  };
  for (ValueId value : reads.values) visit(value, point);
  for (const Instruction* store : reads.stores) {
    cut_range(store->access, type(store->operands[0]).shape, point, range);
    for (const tile::DimIndex& index : store->access.index) {
      if (index.tile.is_valid()) visit(index.tile, point);
    }
  }
  if (range.condition) {  // nothing is safe unless it holds
    Value* end = range.end ? range.end : extent;
    range.end = b_.CreateSelect(range.condition, end, i64(-1));
  }
  return range;
}

// ---- stores
// ---------------------------------------------------------------------------------------------------------------

Op combine_op(tile::StoreKind kind) {
  switch (kind) {
    case tile::StoreKind::Set: return Op::Add;
    case tile::StoreKind::Add: return Op::Add;
    case tile::StoreKind::Multiply: return Op::Multiply;
    case tile::StoreKind::Min: return Op::Minimum;
    case tile::StoreKind::Max: return Op::Maximum;
  }
  return Op::Add;
}

void TileEmitter::store_elements(int param, const Address& at, const Point& point, Value* value,
                                 tile::StoreKind kind, bool is_streaming) {
  DType dtype = kernel_.params[param].dtype;
  auto align = llvm::Align(static_cast<uint64_t>(dtype_bytes(dtype)));
  Value* base = params_[param].data;
  auto store_one = [&](Value* offset, Value* element) {
    Value* pointer = element_pointer(base, dtype, offset);
    if (kind != tile::StoreKind::Set) {
      llvm::LoadInst* old = b_.CreateAlignedLoad(storage_type(context_, dtype, 0), pointer, align);
      tag_param(old, param);
      element = emit_binary(context_, combine_op(kind), to_register(context_, dtype, old), element, dtype);
    }
    tag_param(b_.CreateAlignedStore(to_storage(context_, dtype, element), pointer, align), param);
  };
  if (point.lanes == 0) {
    if (at.inside) {
      if_then(at.inside, [&] { store_one(at.offset, value); });
    } else {
      store_one(at.offset, value);
    }
    return;
  }
  value = splat(value, point.lanes);
  Value* mask = point.mask;
  if (at.inside) {
    Value* lanes_inside = splat(at.inside, point.lanes);
    mask = mask ? b_.CreateAnd(mask, lanes_inside) : lanes_inside;
  }
  if (at.unit == 1) {
    Value* pointer = element_pointer(base, dtype, at.offset);
    llvm::Type* vector = storage_type(context_, dtype, point.lanes);
    if (kind != tile::StoreKind::Set) {
      Value* old =
          mask ? load_partial(context_, vector, pointer, mask) : b_.CreateAlignedLoad(vector, pointer, align);
      value = emit_binary(context_, combine_op(kind), to_register(context_, dtype, old), value, dtype);
    }
    Value* stored = to_storage(context_, dtype, value);
    if (mask) {
      store_partial(context_, stored, pointer, mask);
    } else {
      if (is_streaming) align = llvm::Align(vector_bytes(dtype, point.lanes));
      llvm::StoreInst* written = b_.CreateAlignedStore(stored, pointer, align);
      tag_param(written, param);
      if (is_streaming) {
        auto* one = llvm::ConstantAsMetadata::get(b_.getInt32(1));
        written->setMetadata(llvm::LLVMContext::MD_nontemporal, llvm::MDNode::get(b_.getContext(), {one}));
      }
    }
    return;
  }
  for (unsigned lane = 0; lane < point.lanes; ++lane) {
    Value* offset = at.lane_offsets ? b_.CreateExtractElement(at.lane_offsets, lane) : at.offset;
    Value* element = b_.CreateExtractElement(value, lane);
    if (mask) {
      if_then(b_.CreateExtractElement(mask, lane), [&] { store_one(offset, element); });
    } else {
      store_one(offset, element);
    }
  }
}

void TileEmitter::emit_store(const Instruction& store, const Point& point, Value* value) {
  bool proven = proven_at(store.access, type(store.operands[0]).shape, point);
  Address at = address(store.access, point, proven);
  store_elements(store.access.param, at, point, value, store.store,
                 store.streaming && point.is_streaming && point.inside);
}

// Whether all streaming stores of the step start at whole vectors, as far as the run decides that; null: some
// never do.
llvm::Value* TileEmitter::streaming_condition(const TileStep& step, int vector_axis) {
  Value* condition = nullptr;
  if (vector_axis < 0) return nullptr;
  unsigned lanes = lane_count(step.shape[vector_axis]);
  for (const TileRoot& root : step.roots) {
    const Instruction& store = *root.instruction;
    if (root.is_kept || store.opcode != Opcode::Store || !store.streaming) continue;
    DType dtype = type(root.value).dtype;
    if (lanes < kLanes) return nullptr;
    const ParamInfo& param = params_[store.access.param];
    bool is_contiguous = false;
    Value* offset = i64(0);
    for (size_t d = 0; d < store.access.index.size(); ++d) {
      const tile::DimIndex& index = store.access.index[d];
      auto* stride = llvm::dyn_cast<llvm::ConstantInt>(param.strides[d]);
      if (!stride) return nullptr;
      offset = b_.CreateAdd(offset, b_.CreateMul(dim(index.base), param.strides[d]));
      for (const tile::AxisTerm& term : index.terms) {
        int64_t step_size = term.coefficient * stride->getSExtValue();
        if (term.axis == vector_axis && step_size == 1) {
          is_contiguous = true;
        } else if (step_size % kLanes != 0 && type(root.value).shape[term.axis] > 1) {
          return nullptr;  // rows start anywhere
        }
      }
    }
    if (!is_contiguous) return nullptr;
    Value* address = b_.CreatePtrToInt(element_pointer(param.data, dtype, offset), b_.getInt64Ty());
    Value* low_bits = b_.CreateAnd(address, i64(static_cast<int64_t>(vector_bytes(dtype, lanes)) - 1));
    Value* is_aligned = b_.CreateICmpEQ(low_bits, i64(0));
    condition = condition ? b_.CreateAnd(condition, is_aligned) : is_aligned;
  }
  return condition;
}

// Elements in row-major order: later ones win, sums add up in that order.
void TileEmitter::emit_ordered_store(const Instruction& store) {
  const std::vector<int64_t>& shape = type(store.operands[0]).shape;
  Reads reads{{store.operands[0]}, {&store}};
  for_points(shape, last_axis(shape), {}, reads,
             [&](const Point& point) { emit_store(store, point, eval(store.operands[0], point)); });
}

}  // namespace tilewright
