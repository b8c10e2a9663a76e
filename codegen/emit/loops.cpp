// Loops are tested at the bottom, behind one check that they run at all.
#include "codegen/emit/loops.h"

namespace tilewright {

using llvm::BasicBlock;

LoopValues emit_carried_loop(llvm::IRBuilder<>& b, llvm::Value* from, llvm::Value* to, llvm::Value* step,
                             const LoopValues& initial,
                             const std::function<LoopValues(llvm::Value*, const LoopValues&)>& body) {
  llvm::Function* function = b.GetInsertBlock()->getParent();
  BasicBlock* before = b.GetInsertBlock();
  BasicBlock* loop = BasicBlock::Create(b.getContext(), "loop", function);
  BasicBlock* after = BasicBlock::Create(b.getContext(), "after", function);
  auto* low = llvm::dyn_cast<llvm::ConstantInt>(from);
  auto* high = llvm::dyn_cast<llvm::ConstantInt>(to);
  bool always = low && high && low->getSExtValue() < high->getSExtValue();
  if (always) {
    b.CreateBr(loop);
  } else {
    b.CreateCondBr(b.CreateICmpSLT(from, to), loop, after);
  }
  b.SetInsertPoint(loop);
  llvm::PHINode* index = b.CreatePHI(from->getType(), 2);
  index->addIncoming(from, before);
  std::vector<llvm::PHINode*> phis;
  LoopValues carried;
  for (llvm::Value* value : initial) {
    phis.push_back(b.CreatePHI(value->getType(), 2));
    phis.back()->addIncoming(value, before);
    carried.push_back(phis.back());
  }
  LoopValues next = body(index, carried);
  llvm::Value* next_index = b.CreateNSWAdd(index, step);
  BasicBlock* end = b.GetInsertBlock();
  index->addIncoming(next_index, end);
  for (size_t i = 0; i < phis.size(); ++i) phis[i]->addIncoming(next[i], end);
  b.CreateCondBr(b.CreateICmpSLT(next_index, to), loop, after);
  b.SetInsertPoint(after);
  if (always) return next;
  LoopValues results;
  for (size_t i = 0; i < next.size(); ++i) {
    llvm::PHINode* phi = b.CreatePHI(next[i]->getType(), 2);
    phi->addIncoming(initial[i], before);
    phi->addIncoming(next[i], end);
    results.push_back(phi);
  }
  return results;
}

void emit_loop(llvm::IRBuilder<>& b, llvm::Value* from, llvm::Value* to, llvm::Value* step,
               const std::function<void(llvm::Value*)>& body) {
  emit_carried_loop(b, from, to, step, {}, [&](llvm::Value* index, const LoopValues&) {
    body(index);
    return LoopValues{};
  });
}

void emit_branch(llvm::IRBuilder<>& b, llvm::Value* condition, const std::function<void()>& yes,
                 const std::function<void()>& no) {
  llvm::Function* function = b.GetInsertBlock()->getParent();
  BasicBlock* then = BasicBlock::Create(b.getContext(), "then", function);
  BasicBlock* after = BasicBlock::Create(b.getContext(), "join", function);
  BasicBlock* otherwise = no ? BasicBlock::Create(b.getContext(), "else", function) : after;
  b.CreateCondBr(condition, then, otherwise);
  b.SetInsertPoint(then);
  yes();
  b.CreateBr(after);
  if (no) {
    b.SetInsertPoint(otherwise);
    no();
    b.CreateBr(after);
  }
  b.SetInsertPoint(after);
}

}  // namespace tilewright
