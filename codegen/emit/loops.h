// Structured control flow for the emitter.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <functional>
#include <vector>

namespace tilewright {

// for (index = from; index < to; index += step) body(index)
void emit_loop(llvm::IRBuilder<>& builder, llvm::Value* from, llvm::Value* to, llvm::Value* step,
               const std::function<void(llvm::Value*)>& body);

// The same with values carried in registers: body(index, values) gives the next values; answers the last
// ones.
using LoopValues = std::vector<llvm::Value*>;
LoopValues emit_carried_loop(llvm::IRBuilder<>& builder, llvm::Value* from, llvm::Value* to,
                             llvm::Value* step, const LoopValues& initial,
                             const std::function<LoopValues(llvm::Value*, const LoopValues&)>& body);

void emit_branch(llvm::IRBuilder<>& builder, llvm::Value* condition, const std::function<void()>& yes,
                 const std::function<void()>& no = {});

}  // namespace tilewright
