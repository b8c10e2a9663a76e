// Parses LLVM text into a module with a context of its own.
#include "tests/targets/modules.h"

#include <llvm/AsmParser/Parser.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/SourceMgr.h>

#include "base/text.h"

namespace tilewright {

EmittedModule module_of_text(std::string_view text, std::string* error) {
  EmittedModule out;
  out.context = std::make_shared<llvm::LLVMContext>();
  llvm::SMDiagnostic diagnostic;
  std::unique_ptr<llvm::Module> module =
      llvm::parseAssemblyString(llvm::StringRef(text), diagnostic, *out.context);
  if (!module && error) *error = cat(diagnostic.getLineNo(), ": ", std::string(diagnostic.getMessage()));
  out.module = std::move(module);
  return out;
}

std::string affine_kernel(std::string_view name) {
  return cat("define void @", name, R"((ptr %buffers, ptr %scalars, i64 %first, i64 %last, ptr %scratch) {
entry:
  %in = load ptr, ptr %buffers
  %slot = getelementptr ptr, ptr %buffers, i64 1
  %out = load ptr, ptr %slot
  %any = icmp slt i64 %first, %last
  br i1 %any, label %loop, label %done
loop:
  %i = phi i64 [ %first, %entry ], [ %next, %loop ]
  %from = getelementptr float, ptr %in, i64 %i
  %x = load float, ptr %from, align 4
  %y = call float @llvm.fmuladd.f32(float %x, float 2.0, float 1.0)
  %to = getelementptr float, ptr %out, i64 %i
  store float %y, ptr %to, align 4
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %last
  br i1 %more, label %loop, label %done
done:
  ret void
}
declare float @llvm.fmuladd.f32(float, float, float)
)");
}

std::string affine_block_kernel(std::string_view name, std::string_view triple) {
  const bool is_ptx = triple.starts_with("nvptx");
  const std::string head =
      is_ptx ? cat("define ptx_kernel void @", name, "(ptr byval([4 x i64]) align 8 %slots)")
             : cat("define void @", name, "(ptr %slots)");
  const std::string ids = is_ptx ? R"(
  %block32 = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %count32 = call i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
  %first = zext i32 %block32 to i64
  %step = zext i32 %count32 to i64)"
                                 : R"(
  %first = call i64 @tw_simt_block()
  %step = call i64 @tw_simt_block_count())";
  return cat(head, R"( {
entry:
  %in = load ptr, ptr %slots
  %out_at = getelementptr i64, ptr %slots, i64 1
  %out = load ptr, ptr %out_at
  %grid_at = getelementptr i64, ptr %slots, i64 2
  %grid = load i64, ptr %grid_at)",
             ids, R"(
  br label %head
head:
  %i = phi i64 [ %first, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %grid
  br i1 %more, label %body, label %done
body:
  %from = getelementptr float, ptr %in, i64 %i
  %x = load float, ptr %from
  %y = call float @llvm.fmuladd.f32(float %x, float 2.0, float 1.0)
  %to = getelementptr float, ptr %out, i64 %i
  store float %y, ptr %to
  %next = add i64 %i, %step
  br label %head
done:
  ret void
}
declare float @llvm.fmuladd.f32(float, float, float)
)",
             is_ptx ? R"(declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
)"
                    : R"(declare i64 @tw_simt_block()
declare i64 @tw_simt_block_count()
)");
}

}  // namespace tilewright
