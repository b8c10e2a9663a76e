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

}  // namespace tilewright
