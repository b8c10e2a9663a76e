// SimtOps in PTX and as calls of a simulator.
#include "codegen/emit/simt_ops.h"

#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/TargetParser/Triple.h>

#include <functional>

namespace tilewright {

using llvm::Value;
using llvm::Intrinsic::ID;
namespace Intrinsic = llvm::Intrinsic;

SimtOps::SimtOps(EmitContext& context)
    : context_(context), b_(context.builder), is_ptx_(llvm::Triple(context.limits.triple).isNVPTX()) {}

llvm::Value* SimtOps::call(const char* name, llvm::Type* result, std::span<Value* const> arguments) {
  llvm::Function* function = context_.module.getFunction(name);
  if (!function) {
    std::vector<llvm::Type*> types;
    for (Value* argument : arguments) types.push_back(argument->getType());
    function = llvm::Function::Create(llvm::FunctionType::get(result, types, false),
                                      llvm::Function::ExternalLinkage, name, context_.module);
    function->addFnAttr(llvm::Attribute::NoUnwind);
  }
  return b_.CreateCall(function, std::vector<Value*>(arguments.begin(), arguments.end()));
}

llvm::AllocaInst* SimtOps::entry_array(llvm::Type* element, unsigned count) {
  llvm::BasicBlock& entry = b_.GetInsertBlock()->getParent()->getEntryBlock();
  llvm::IRBuilder<> at(&entry, entry.begin());
  return at.CreateAlloca(llvm::ArrayType::get(element, count));
}

llvm::Value* SimtOps::thread_id() {
  if (is_ptx_) return b_.CreateIntrinsic(Intrinsic::nvvm_read_ptx_sreg_tid_x, {});
  return call("tw_simt_thread", b_.getInt32Ty(), {});
}

llvm::Value* SimtOps::lane_id() { return b_.CreateAnd(thread_id(), b_.getInt32(31)); }

llvm::Value* SimtOps::block_id() {
  if (!is_ptx_) return call("tw_simt_block", b_.getInt64Ty(), {});
  return b_.CreateZExt(b_.CreateIntrinsic(Intrinsic::nvvm_read_ptx_sreg_ctaid_x, {}), b_.getInt64Ty());
}

llvm::Value* SimtOps::block_count() {
  if (!is_ptx_) return call("tw_simt_block_count", b_.getInt64Ty(), {});
  return b_.CreateZExt(b_.CreateIntrinsic(Intrinsic::nvvm_read_ptx_sreg_nctaid_x, {}), b_.getInt64Ty());
}

llvm::Value* SimtOps::shared_base() {
  if (!is_ptx_) return call("tw_simt_shared", b_.getPtrTy(), {});
  llvm::GlobalVariable* shared = context_.module.getGlobalVariable("tw_shared");
  if (!shared) {
    shared = new llvm::GlobalVariable(context_.module, llvm::ArrayType::get(b_.getInt8Ty(), 0), false,
                                      llvm::GlobalValue::ExternalLinkage, nullptr, "tw_shared", nullptr,
                                      llvm::GlobalValue::NotThreadLocal, /*AddressSpace=*/3);
    shared->setAlignment(llvm::Align(128));
  }
  return b_.CreateAddrSpaceCast(shared, b_.getPtrTy());
}

void SimtOps::barrier() {
  if (is_ptx_) {
    b_.CreateIntrinsic(Intrinsic::nvvm_barrier_cta_sync_aligned_all, {b_.getInt32(0)});
  } else {
    call("tw_simt_barrier", b_.getVoidTy(), {});
  }
}

// ---- shuffles
// ---------------------------------------------------------------------------------------------------------------

llvm::Value* SimtOps::shuffle_word(Value* word, Value* source_lane) {
  if (!is_ptx_) {
    Value* arguments[] = {word, source_lane};
    return call("tw_simt_shuffle", b_.getInt32Ty(), arguments);
  }
  return b_.CreateIntrinsic(Intrinsic::nvvm_shfl_sync_idx_i32,
                            {b_.getInt32(~0u), word, source_lane, b_.getInt32(31)});
}

llvm::Value* SimtOps::by_words(Value* value, const std::function<Value*(Value*)>& word) {
  llvm::Type* type = value->getType();
  if (auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type)) {
    Value* out = llvm::PoisonValue::get(type);
    for (unsigned i = 0; i < vector->getNumElements(); ++i) {
      Value* lane = by_words(b_.CreateExtractElement(value, uint64_t{i}), word);
      out = b_.CreateInsertElement(out, lane, uint64_t{i});
    }
    return out;
  }
  unsigned bits = static_cast<unsigned>(type->getPrimitiveSizeInBits().getFixedValue());
  llvm::Type* integer = b_.getIntNTy(bits);
  Value* whole = b_.CreateBitCast(value, integer);
  if (bits <= 32) {
    Value* moved = word(b_.CreateZExt(whole, b_.getInt32Ty()));
    return b_.CreateBitCast(b_.CreateTrunc(moved, integer), type);
  }
  Value* low = word(b_.CreateTrunc(whole, b_.getInt32Ty()));
  Value* high = word(b_.CreateTrunc(b_.CreateLShr(whole, 32), b_.getInt32Ty()));
  Value* joined =
      b_.CreateOr(b_.CreateZExt(low, integer), b_.CreateShl(b_.CreateZExt(high, integer), uint64_t{32}));
  return b_.CreateBitCast(joined, type);
}

llvm::Value* SimtOps::shuffle_xor(Value* value, uint32_t lanes) {
  if (is_ptx_) {
    return by_words(value, [&](Value* word) {
      return b_.CreateIntrinsic(Intrinsic::nvvm_shfl_sync_bfly_i32,
                                {b_.getInt32(~0u), word, b_.getInt32(lanes), b_.getInt32(31)});
    });
  }
  return shuffle_index(value, b_.CreateXor(lane_id(), b_.getInt32(lanes)));
}

llvm::Value* SimtOps::shuffle_up(Value* value, uint32_t lanes) {
  Value* lane = lane_id();
  Value* is_moved = b_.CreateICmpUGE(lane, b_.getInt32(lanes));
  return shuffle_index(value, b_.CreateSelect(is_moved, b_.CreateSub(lane, b_.getInt32(lanes)), lane));
}

llvm::Value* SimtOps::shuffle_index(Value* value, Value* lane) {
  return by_words(value, [&](Value* word) { return shuffle_word(word, lane); });
}

// ---- tensor products
// --------------------------------------------------------------------------------------------------------

std::array<Value*, 4> SimtOps::mma(MmaKind kind, const std::array<Value*, 4>& a,
                                   const std::array<Value*, 2>& b, const std::array<Value*, 4>& c) {
  std::array<Value*, 4> out{};
  if (is_ptx_) {
    ID id = kind == MmaKind::BF16  ? Intrinsic::nvvm_mma_m16n8k16_row_col_bf16
            : kind == MmaKind::F16 ? Intrinsic::nvvm_mma_m16n8k16_row_col_f32_f32
                                   : Intrinsic::nvvm_mma_m16n8k8_row_col_tf32;
    auto operand = [&](Value* word) {
      if (kind != MmaKind::F16) return word;
      return b_.CreateBitCast(word, llvm::FixedVectorType::get(b_.getHalfTy(), 2));
    };
    std::vector<Value*> arguments;
    for (Value* word : a) arguments.push_back(operand(word));
    for (Value* word : b) arguments.push_back(operand(word));
    for (Value* sum : c) arguments.push_back(sum);
    Value* result = b_.CreateIntrinsic(id, arguments);
    for (unsigned i = 0; i < 4; ++i) out[i] = b_.CreateExtractValue(result, {i});
    return out;
  }
  llvm::Type *i32 = b_.getInt32Ty(), *f32 = b_.getFloatTy();
  llvm::AllocaInst *left = entry_array(i32, 4), *right = entry_array(i32, 2), *sums = entry_array(f32, 4);
  for (unsigned i = 0; i < 4; ++i) b_.CreateStore(a[i], b_.CreateConstInBoundsGEP1_64(i32, left, i));
  for (unsigned i = 0; i < 2; ++i) b_.CreateStore(b[i], b_.CreateConstInBoundsGEP1_64(i32, right, i));
  for (unsigned i = 0; i < 4; ++i) b_.CreateStore(c[i], b_.CreateConstInBoundsGEP1_64(f32, sums, i));
  Value* arguments[] = {b_.getInt32(static_cast<uint32_t>(kind)), left, right, sums};
  call("tw_simt_mma", b_.getVoidTy(), arguments);
  for (unsigned i = 0; i < 4; ++i) out[i] = b_.CreateLoad(f32, b_.CreateConstInBoundsGEP1_64(f32, sums, i));
  return out;
}

std::array<Value*, 4> SimtOps::load_matrix(Value* row, bool transposed) {
  std::array<Value*, 4> out{};
  if (is_ptx_) {
    llvm::Type* shared = b_.getPtrTy(3);
    ID id = transposed ? Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_trans_b16
                       : Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_b16;
    Value* result = b_.CreateIntrinsic(id, {shared}, {b_.CreateAddrSpaceCast(row, shared)});
    for (unsigned i = 0; i < 4; ++i) out[i] = b_.CreateExtractValue(result, {i});
    return out;
  }
  llvm::Type* i32 = b_.getInt32Ty();
  llvm::AllocaInst* words = entry_array(i32, 4);
  Value* arguments[] = {b_.getInt32(transposed ? 1 : 0), row, words};
  call("tw_simt_ldmatrix", b_.getVoidTy(), arguments);
  for (unsigned i = 0; i < 4; ++i) out[i] = b_.CreateLoad(i32, b_.CreateConstInBoundsGEP1_64(i32, words, i));
  return out;
}

// ---- copies
// -----------------------------------------------------------------------------------------------------------------

void SimtOps::copy_async(Value* shared, Value* global, int bytes, Value* valid) {
  if (!is_ptx_) {
    Value* arguments[] = {shared, global, b_.getInt32(static_cast<uint32_t>(bytes)), valid};
    call("tw_simt_copy_async", b_.getVoidTy(), arguments);
    return;
  }
  ID id = bytes == 16  ? Intrinsic::nvvm_cp_async_cg_shared_global_16_s
          : bytes == 8 ? Intrinsic::nvvm_cp_async_ca_shared_global_8_s
                       : Intrinsic::nvvm_cp_async_ca_shared_global_4_s;
  b_.CreateIntrinsic(id, {b_.CreateAddrSpaceCast(shared, b_.getPtrTy(3)),
                          b_.CreateAddrSpaceCast(global, b_.getPtrTy(1)), valid});
}

void SimtOps::copy_commit() {
  if (is_ptx_) {
    b_.CreateIntrinsic(Intrinsic::nvvm_cp_async_commit_group, {});
  } else {
    call("tw_simt_commit", b_.getVoidTy(), {});
  }
}

void SimtOps::copy_wait(int pending_groups) {
  Value* pending = b_.getInt32(static_cast<uint32_t>(pending_groups));
  if (is_ptx_) {
    b_.CreateIntrinsic(Intrinsic::nvvm_cp_async_wait_group, {pending});
    return;
  }
  Value* arguments[] = {pending};
  call("tw_simt_wait", b_.getVoidTy(), arguments);
}

}  // namespace tilewright
