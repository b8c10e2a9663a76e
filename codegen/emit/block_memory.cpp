// Memory as a thread sees it: whole vectors where they are aligned, single elements elsewhere, no masks.
#include "codegen/emit/block_emitter.h"

namespace tilewright {

namespace {
constexpr const char* kZeros = "tw_zeros";
}

// A place to read that always exists.
llvm::Value* BlockEmitter::safe_pointer() {
  llvm::GlobalVariable* zeros = context_.module.getGlobalVariable(kZeros, true);
  if (!zeros) {
    llvm::Type* type = llvm::ArrayType::get(b_.getInt64Ty(), 8);
    zeros = new llvm::GlobalVariable(context_.module, type, true, llvm::GlobalValue::InternalLinkage,
                                     llvm::Constant::getNullValue(type), kZeros, nullptr,
                                     llvm::GlobalValue::NotThreadLocal, ops_.is_ptx() ? 1 : 0);
    zeros->setAlignment(llvm::Align(64));
  }
  return ops_.is_ptx() ? b_.CreateAddrSpaceCast(zeros, b_.getPtrTy()) : static_cast<Value*>(zeros);
}

// Whether the kernel may write the memory of the param.
bool BlockEmitter::may_change(int scope) const {
  if (scope >= static_cast<int>(kernel_.params.size())) return true;
  const tile::Param& own = kernel_.params[static_cast<size_t>(scope)];
  if (own.mode != tile::AccessMode::Read) return true;
  for (const tile::Param& other : kernel_.params) {
    if (other.mode != own.mode && other.dtype == own.dtype && other.dims == own.dims) return true;
  }
  return false;
}

llvm::Value* BlockEmitter::load_one(llvm::Type* stored, Value* pointer, uint64_t align, int scope) {
  llvm::LoadInst* load = b_.CreateAlignedLoad(stored, pointer, llvm::Align(align));
  tag_param(load, scope);
  if (!may_change(scope)) {
    load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(b_.getContext(), {}));
  }
  return load;
}

llvm::Value* BlockEmitter::load_from(Value* base, DType dtype, int scope, const Address& at,
                                     const Point& point, const tile::Literal& outside, bool proven) {
  const uint64_t bytes = static_cast<uint64_t>(dtype_bytes(dtype));
  llvm::Type* element = storage_type(context_, dtype, 0);
  Value* inside = proven ? nullptr : at.inside;
  Value* fill = literal(outside, dtype);
  const bool by_lane = inside && inside->getType()->isVectorTy();
  if (at.unit == 0 || (at.unit == 1 && at.is_aligned && !by_lane)) {
    const bool is_vector = at.unit == 1;
    llvm::Type* stored = is_vector ? storage_type(context_, dtype, point.lanes) : element;
    Value* pointer = element_pointer(base, dtype, at.offset);
    Value* any = by_lane ? b_.CreateOrReduce(inside) : inside;
    if (any) pointer = b_.CreateSelect(any, pointer, safe_pointer());
    Value* value = to_register(context_, dtype,
                               load_one(stored, pointer, is_vector ? bytes * point.lanes : bytes, scope));
    if (!inside) return value;
    if (!by_lane && !is_vector) return b_.CreateSelect(inside, value, fill);
    return b_.CreateSelect(inside, splat(value, point.lanes), splat(fill, point.lanes));
  }
  Value* gathered = llvm::PoisonValue::get(storage_type(context_, dtype, point.lanes));
  for (unsigned lane = 0; lane < point.lanes; ++lane) {
    Value* offset = at.unit == 1 ? b_.CreateAdd(at.offset, i64(lane))
                                 : b_.CreateExtractElement(at.lane_offsets, uint64_t{lane});
    Value* pointer = element_pointer(base, dtype, offset);
    if (inside) {
      Value* own = by_lane ? b_.CreateExtractElement(inside, uint64_t{lane}) : inside;
      pointer = b_.CreateSelect(own, pointer, safe_pointer());
    }
    gathered = b_.CreateInsertElement(gathered, load_one(element, pointer, bytes, scope), uint64_t{lane});
  }
  Value* value = to_register(context_, dtype, gathered);
  return inside ? b_.CreateSelect(inside, value, splat(fill, point.lanes)) : value;
}

void BlockEmitter::store_elements(int param, const Address& at, const Point& point, Value* value,
                                  tile::StoreKind kind, bool) {
  const DType dtype = kernel_.params[static_cast<size_t>(param)].dtype;
  const uint64_t bytes = static_cast<uint64_t>(dtype_bytes(dtype));
  Value* base = params_[static_cast<size_t>(param)].data;
  auto store_at = [&](Value* offset, Value* lanes_value, unsigned lanes) {
    Value* pointer = element_pointer(base, dtype, offset);
    const uint64_t align = bytes * std::max(1u, lanes);
    if (kind != tile::StoreKind::Set) {
      Value* old =
          to_register(context_, dtype, load_one(storage_type(context_, dtype, lanes), pointer, align, param));
      lanes_value = emit_binary(context_, combine_op(kind), old, lanes_value, dtype);
    }
    Value* stored = to_storage(context_, dtype, lanes_value);
    tag_param(b_.CreateAlignedStore(stored, pointer, llvm::Align(align)), param);
  };
  auto guarded = [&](Value* condition, const std::function<void()>& store) {
    if (condition) {
      if_then(condition, store);
    } else {
      store();
    }
  };
  const bool by_lane = at.inside && at.inside->getType()->isVectorTy();
  if (point.lanes == 0) {
    guarded(at.inside, [&] { store_at(at.offset, value, 0); });
    return;
  }
  value = splat(value, point.lanes);
  if (at.unit == 1 && at.is_aligned && !by_lane) {
    guarded(at.inside, [&] { store_at(at.offset, value, point.lanes); });
    return;
  }
  for (unsigned lane = 0; lane < point.lanes; ++lane) {
    Value* offset = at.unit == 1      ? b_.CreateAdd(at.offset, i64(lane))
                    : at.lane_offsets ? b_.CreateExtractElement(at.lane_offsets, uint64_t{lane})
                                      : at.offset;
    Value* own = by_lane ? b_.CreateExtractElement(at.inside, uint64_t{lane}) : at.inside;
    Value* element = b_.CreateExtractElement(value, uint64_t{lane});
    guarded(own, [&] { store_at(offset, element, 0); });
  }
}

void BlockEmitter::write_scratch_as(const ScratchTile& tile, DType dtype, const Point& point, Value* data) {
  const uint64_t bytes = static_cast<uint64_t>(dtype_bytes(dtype));
  const int scope = static_cast<int>(kernel_.params.size());
  Value* offset = i64(0);
  for (size_t i = 0; i < point.axis.size(); ++i) {
    offset = b_.CreateAdd(offset, b_.CreateMul(point.axis[i], i64(tile.strides[i])));
  }
  Value* stored = to_storage(context_, dtype, splat(data, point.lanes));
  auto write = [&](Value* at, Value* part, uint64_t align) {
    tag_param(b_.CreateAlignedStore(part, element_pointer(tile.data, dtype, at), llvm::Align(align)), scope);
  };
  const int64_t unit = point.lanes == 0 ? 0 : tile.strides[static_cast<size_t>(point.vector_axis)];
  if (point.lanes == 0) {
    write(offset, stored, bytes);
  } else if (unit == 1 && point.is_whole) {
    write(offset, stored, bytes * point.lanes);
  } else {
    for (unsigned lane = 0; lane < point.lanes; ++lane) {
      write(b_.CreateAdd(offset, i64(lane * unit)), b_.CreateExtractElement(stored, uint64_t{lane}), bytes);
    }
  }
}

}  // namespace tilewright
