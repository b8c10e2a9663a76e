// compile_module: a module becomes bytes or a status; shared by every target that LLVM generates code for.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/emitted_module.h"
#include "base/status.h"
#include "targets/target.h"

namespace tilewright {

// What LLVM must know about the chip; plain text, so that it can be part of a key.
struct MachineSpec {
  std::string triple;
  std::string cpu;       // base architecture only: every feature is explicit
  std::string tune_cpu;  // cost tables and scheduling; may be empty
  std::string features;  // "+avx2,-avx512f,..."
  int vector_bits = 0;   // preferred width; 0: LLVM's default
  bool is_text = false;  // assembly is the product (PTX), not an object
  // Runs after the verifier, before code generation; may be empty.
  std::function<Status(const llvm::Module&)> check_module;
  // Changes the module right before code generation, when IR passes ran; may be empty.
  std::function<void(llvm::Module&)> finish_module;
  // Runs on the product; may be empty.
  std::function<Status(std::string_view bytes)> check_product;
};

Result<std::string> compile_module(EmittedModule module, const MachineSpec& spec,
                                   const CompileOptions& options);

// LLVM's data layout for a triple, empty if this build has no code generator for it.
std::string data_layout_of(const MachineSpec& spec);

// Removes redundancy that an emitter leaves; keeps the bits of every result.
void run_lean_passes(llvm::Module& module, void* target_machine);

}  // namespace tilewright
