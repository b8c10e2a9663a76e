// EmitContext: where instructions go, what the chip can do and how exact results must be.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <cstdint>

#include "base/target_limits.h"

namespace tilewright {

enum class EmitPrecision : uint8_t {
  Strict,  // narrow floats are rounded after each op
  Fused,   // intermediate rounding of narrow floats is skipped
  Fast,    // as Fused; functions may be off by 4 ulp
};

struct EmitContext {
  llvm::Module& module;
  llvm::IRBuilder<>& builder;
  const TargetLimits& limits;
  EmitPrecision precision = EmitPrecision::Strict;

  llvm::LLVMContext& llvm() const { return module.getContext(); }
  bool is_cpu() const { return limits.kind != TargetKind::Simt; }
};

}  // namespace tilewright
