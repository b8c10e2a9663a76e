// Makes a module of elementwise loops straight from the emitter of lanes, and compiles it.
#include "tests/emit/kernels.h"

#include "base/text.h"
#include "codegen/emit/elementwise.h"

namespace tilewright {
namespace {

constexpr unsigned kLanes = 16;

void emit_loop(EmitContext& context, const ElementwiseCase& test, llvm::Function* function) {
  auto& b = context.builder;
  auto* entry = llvm::BasicBlock::Create(b.getContext(), "entry", function);
  auto* loop = llvm::BasicBlock::Create(b.getContext(), "loop", function);
  auto* done = llvm::BasicBlock::Create(b.getContext(), "done", function);
  b.SetInsertPoint(entry);
  std::vector<llvm::Value*> pointers;
  for (size_t i = 0; i <= test.operands.size(); ++i) {
    llvm::Value* slot = b.CreateConstInBoundsGEP1_64(b.getPtrTy(), function->getArg(0), i);
    pointers.push_back(b.CreateLoad(b.getPtrTy(), slot));
  }
  b.CreateBr(loop);
  b.SetInsertPoint(loop);
  llvm::PHINode* index = b.CreatePHI(b.getInt64Ty(), 2);
  index->addIncoming(function->getArg(2), entry);
  std::vector<llvm::Value*> operands;
  for (size_t i = 0; i < test.operands.size(); ++i) {
    DType dtype = test.operands[i];
    llvm::Value* address = b.CreateInBoundsGEP(storage_type(context, dtype, 0), pointers[i], {index});
    llvm::Value* stored = b.CreateAlignedLoad(storage_type(context, dtype, kLanes), address, llvm::Align(1));
    operands.push_back(to_register(context, dtype, stored));
  }
  llvm::Value* result = emit_elementwise(context, test.op, AttributeReader(test.op, test.attributes),
                                         operands, test.operands.back(), test.result);
  llvm::Value* address = b.CreateInBoundsGEP(storage_type(context, test.result, 0), pointers.back(), {index});
  b.CreateAlignedStore(to_storage(context, test.result, result), address, llvm::Align(1));
  llvm::Value* next = b.CreateAdd(index, b.getInt64(kLanes));
  index->addIncoming(next, b.GetInsertBlock());
  b.CreateCondBr(b.CreateICmpSLT(next, function->getArg(3)), loop, done);
  b.SetInsertPoint(done);
  b.CreateRetVoid();
}

}  // namespace

KernelFunction ElementwiseKernels::function(size_t index) const {
  return reinterpret_cast<KernelFunction>(code->symbol(cat("k", index)));
}

Result<ElementwiseKernels> compile_elementwise(std::shared_ptr<Target> target,
                                               const std::vector<ElementwiseCase>& cases) {
  const TargetLimits& limits = target->info().limits;
  EmittedModule emitted;
  emitted.context = std::make_shared<llvm::LLVMContext>();
  emitted.module = std::make_shared<llvm::Module>("elementwise", *emitted.context);
  emitted.module->setTargetTriple(llvm::Triple(limits.triple));
  emitted.module->setDataLayout(limits.data_layout);
  llvm::IRBuilder<> builder(*emitted.context);
  EmitContext context{*emitted.module, builder, limits, EmitPrecision::Strict};
  llvm::Type* pointer = builder.getPtrTy();
  llvm::Type* i64 = builder.getInt64Ty();
  auto* type = llvm::FunctionType::get(builder.getVoidTy(), {pointer, pointer, i64, i64, pointer}, false);
  std::vector<std::string> names;
  for (size_t i = 0; i < cases.size(); ++i) {
    names.push_back(cat("k", i));
    emit_loop(context, cases[i],
              llvm::Function::Create(type, llvm::Function::ExternalLinkage, names.back(), *emitted.module));
  }
  TW_ASSIGN_OR_RETURN(std::string object, target->compile(std::move(emitted), {}));
  ElementwiseKernels kernels{target, nullptr};
  TW_ASSIGN_OR_RETURN(kernels.code, target->load(object, names));
  return kernels;
}

std::vector<std::shared_ptr<Target>> runnable_targets() {
  std::vector<std::shared_ptr<Target>> targets;
  for (const char* spelling : {"native", "x86-64-v3", "x86-64-v2"}) {
    Result<std::shared_ptr<Target>> target = create_target(spelling);
    if (target.is_ok() && target.value()->info().is_runnable()) targets.push_back(target.value());
  }
  return targets;
}

}  // namespace tilewright
