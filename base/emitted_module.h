// EmittedModule: an LLVM module and its private context, passed from the emitter to a target without LLVM
// headers.
#pragma once

#include <memory>

namespace llvm {
class LLVMContext;
class Module;
}  // namespace llvm

namespace tilewright {

// Made with `std::make_shared<llvm::LLVMContext>()` and `std::make_shared<llvm::Module>(name, *context)`.
// One context a module: compiles run in parallel, and a compile that fails half-way keeps both for ever.
struct EmittedModule {
  std::shared_ptr<llvm::LLVMContext> context;
  std::shared_ptr<llvm::Module> module;  // declared last: destroyed first
};

}  // namespace tilewright
