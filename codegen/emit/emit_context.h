// EmitContext: where instructions go, what the chip can do and how exact results must be.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/TargetParser/Triple.h>

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
  // Whether the module is in the chip's own instructions, not for a simulator of it.
  bool is_ptx() const { return module.getTargetTriple().isNVPTX(); }
  bool is_cpu() const { return limits.kind != TargetKind::Simt; }
  // The instructions of AVX-512 with its extensions for floats.
  bool has_avx512() const {
    return limits.kind == TargetKind::Cpu && limits.has_masks && limits.triple.rfind("x86_64", 0) == 0;
  }
};

}  // namespace tilewright
