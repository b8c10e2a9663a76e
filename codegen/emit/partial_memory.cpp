// Chips with masks (and AVX2 for wide elements) have instructions; others walk over the lanes in a shared
// function.
#include "codegen/emit/partial_memory.h"

#include "base/text.h"
#include "codegen/emit/lane_math.h"
#include "codegen/emit/loops.h"

namespace tilewright {
namespace {

using llvm::Value;

bool has_masked_memory(const EmitContext& context, llvm::Type* vector) {
  if (context.limits.has_masks) return true;
  return context.limits.vector_bytes >= 32 && vector->getScalarSizeInBits() >= 32;
}

unsigned lanes_of(llvm::Type* vector) { return llvm::cast<llvm::FixedVectorType>(vector)->getNumElements(); }

llvm::Align element_align(llvm::Type* vector) { return llvm::Align(vector->getScalarSizeInBits() / 8); }

// Calls body(lane) for each lane whose bit is set.
void for_set_lanes(EmitContext& context, Value* mask, const std::function<void(Value*)>& body) {
  auto& b = context.builder;
  unsigned lanes = lanes_of(mask->getType());
  Value* bits = b.CreateZExt(b.CreateBitCast(mask, b.getIntNTy(lanes)), b.getInt64Ty());
  emit_loop(b, b.getInt64(0), b.getInt64(lanes), b.getInt64(1), [&](Value* lane) {
    Value* is_set = b.CreateTrunc(b.CreateLShr(bits, lane), b.getInt1Ty());
    emit_branch(b, is_set, [&] { body(lane); });
  });
}

Value* lane_address(llvm::IRBuilder<>& b, llvm::Type* vector, Value* base, Value* lane) {
  return b.CreateInBoundsGEP(vector->getScalarType(), base, {lane});
}

}  // namespace

Value* load_partial(EmitContext& context, llvm::Type* vector, Value* pointer, Value* mask, Value* otherwise) {
  if (!otherwise) otherwise = llvm::Constant::getNullValue(vector);
  if (has_masked_memory(context, vector)) {
    return context.builder.CreateMaskedLoad(vector, pointer, element_align(vector), mask, otherwise);
  }
  Value* arguments[] = {pointer, mask, otherwise};
  return call_outlined(context, cat("tw.load_partial.", lane_type_name(vector)), vector, arguments,
                       [&](EmitContext& inner, std::span<Value* const> a) {
                         auto& b = inner.builder;
                         Value* buffer = b.CreateAlloca(vector);
                         b.CreateStore(a[2], buffer);
                         for_set_lanes(inner, a[1], [&](Value* lane) {
                           Value* element = b.CreateAlignedLoad(vector->getScalarType(),
                                                                lane_address(b, vector, a[0], lane),
                                                                element_align(vector));
                           b.CreateStore(element, lane_address(b, vector, buffer, lane));
                         });
                         return b.CreateLoad(vector, buffer);
                       });
}

void store_partial(EmitContext& context, Value* value, Value* pointer, Value* mask) {
  llvm::Type* vector = value->getType();
  if (has_masked_memory(context, vector)) {
    context.builder.CreateMaskedStore(value, pointer, element_align(vector), mask);
    return;
  }
  Value* arguments[] = {value, pointer, mask};
  call_outlined(context, cat("tw.store_partial.", lane_type_name(vector)), context.builder.getVoidTy(),
                arguments, [&](EmitContext& inner, std::span<Value* const> a) -> Value* {
                  auto& b = inner.builder;
                  Value* buffer = b.CreateAlloca(vector);
                  b.CreateStore(a[0], buffer);
                  for_set_lanes(inner, a[2], [&](Value* lane) {
                    Value* element =
                        b.CreateLoad(vector->getScalarType(), lane_address(b, vector, buffer, lane));
                    b.CreateAlignedStore(element, lane_address(b, vector, a[1], lane), element_align(vector));
                  });
                  return nullptr;
                });
}

Value* mask_of_first(EmitContext& context, unsigned lanes, Value* count) {
  auto& b = context.builder;
  std::vector<uint64_t> numbers;
  for (unsigned i = 0; i < lanes; ++i) numbers.push_back(i);
  // 32-bit lanes: half the work of 64-bit ones; counts beyond are cut first.
  Value* cut = b.CreateSelect(b.CreateICmpSLT(count, b.getInt64(lanes)), count, b.getInt64(lanes));
  Value* bound = b.CreateVectorSplat(lanes, b.CreateTrunc(cut, b.getInt32Ty()));
  llvm::SmallVector<uint32_t> iota(numbers.begin(), numbers.end());
  return b.CreateICmpSLT(llvm::ConstantDataVector::get(context.llvm(), iota), bound);
}

}  // namespace tilewright
