// One compile job: verify, set attributes, optional IR passes, code generation; every failure is a status.
#include "targets/llvm/compile_job.h"

#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Target/TargetOptions.h>
#include <llvm/Transforms/Utils/Cloning.h>

#include <memory>
#include <utility>

#include "base/text.h"
#include "targets/llvm/guard.h"

namespace tilewright {
namespace {

// Everything a job owns; leaked as a whole when LLVM was left half-way.
struct Work {
  EmittedModule module;
  std::unique_ptr<llvm::TargetMachine> machine;
  llvm::legacy::PassManager* passes = nullptr;  // at work: not destroyed after a fatal error
  std::string diagnostics;                      // errors that LLVM reported through the context
  std::string bytes;
};

void on_diagnostic(const llvm::DiagnosticInfo* info, void* context) {
  if (info->getSeverity() != llvm::DS_Error) return;
  auto* work = static_cast<Work*>(context);
  llvm::raw_string_ostream stream(work->diagnostics);
  llvm::DiagnosticPrinterRawOStream printer(stream);
  if (!work->diagnostics.empty()) stream << "; ";
  info->print(printer);
}

llvm::CodeGenOptLevel level_of(CodegenEffort effort) {
  switch (effort) {
    case CodegenEffort::None: return llvm::CodeGenOptLevel::None;
    case CodegenEffort::Less: return llvm::CodeGenOptLevel::Less;
    case CodegenEffort::Default: return llvm::CodeGenOptLevel::Default;
    case CodegenEffort::Aggressive: return llvm::CodeGenOptLevel::Aggressive;
  }
  return llvm::CodeGenOptLevel::Less;
}

Result<std::unique_ptr<llvm::TargetMachine>> make_machine(const MachineSpec& spec, CodegenEffort effort) {
  llvm::Triple triple(spec.triple);
  std::string error;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target) return Status::unimplemented(cat("this build has no code generator for ", spec.triple));
  llvm::TargetOptions options;
  // The small model and PIC: kernels are linked wherever there is room, external calls go through stubs.
  std::unique_ptr<llvm::TargetMachine> machine(
      target->createTargetMachine(triple, spec.cpu, spec.features, options, llvm::Reloc::PIC_,
                                  llvm::CodeModel::Small, level_of(effort), /*JIT=*/false));
  if (!machine) return Status::internal(cat("LLVM makes no target machine for ", spec.triple));
  return machine;
}

void set_attributes(llvm::Module& module, const MachineSpec& spec) {
  for (llvm::Function& function : module) {
    if (function.isDeclaration()) continue;
    function.addFnAttr("target-cpu", spec.cpu);
    function.addFnAttr("target-features", spec.features);
    if (!spec.tune_cpu.empty()) function.addFnAttr("tune-cpu", spec.tune_cpu);
    if (spec.vector_bits > 0) {
      function.addFnAttr("prefer-vector-width", cat(spec.vector_bits));
      function.addFnAttr("min-legal-vector-width", cat(spec.vector_bits));
    }
    function.addFnAttr(llvm::Attribute::NoUnwind);  // no unwind tables: nothing throws through a kernel
    function.setUWTableKind(llvm::UWTableKind::None);
  }
}

Status verify(const llvm::Module& module) {
  std::string message;
  llvm::raw_string_ostream stream(message);
  if (!llvm::verifyModule(module, &stream)) return Status::ok();
  while (!message.empty() && message.back() == '\n') message.pop_back();
  return Status::internal(cat("emitted module is malformed: ", message));
}

Status generate(Work& work, llvm::Module& module, llvm::CodeGenFileType type, std::string& bytes) {
  llvm::SmallVector<char, 0> buffer;
  llvm::raw_svector_ostream stream(buffer);
  auto passes = std::make_unique<llvm::legacy::PassManager>();
  if (work.machine->addPassesToEmitFile(*passes, stream, nullptr, type)) {
    return Status::internal("LLVM cannot emit this kind of file");
  }
  work.passes = passes.release();
  work.passes->run(module);
  delete std::exchange(work.passes, nullptr);
  if (!work.diagnostics.empty()) return Status::internal(cat("LLVM reports: ", work.diagnostics));
  bytes.assign(buffer.data(), buffer.size());
  return Status::ok();
}

Status run_job(Work& work, const MachineSpec& spec, const CompileOptions& options) {
  llvm::Module& module = *work.module.module;
  llvm::LLVMContext& context = module.getContext();
  context.setDiagnosticHandlerCallBack(on_diagnostic, &work);
  TW_ASSIGN_OR_RETURN(work.machine, make_machine(spec, options.effort));
  module.setTargetTriple(work.machine->getTargetTriple());
  module.setDataLayout(work.machine->createDataLayout());
  // The name of the source is part of the object: bytes must not depend on who compiles.
  module.setModuleIdentifier("kernel");
  module.setSourceFileName("kernel");
  TW_RETURN_IF_ERROR(verify(module));
  if (spec.check_module) TW_RETURN_IF_ERROR(spec.check_module(module));
  set_attributes(module, spec);
  if (options.ir_passes == IrPasses::Lean) {
    run_lean_passes(module, work.machine.get());
    if (spec.finish_module) spec.finish_module(module);
  }
  if (options.llvm_text) {
    llvm::raw_string_ostream stream(*options.llvm_text);
    module.print(stream, nullptr);
  }
  if (options.asm_text && !spec.is_text) {
    std::unique_ptr<llvm::Module> copy = llvm::CloneModule(module);
    TW_RETURN_IF_ERROR(generate(work, *copy, llvm::CodeGenFileType::AssemblyFile, *options.asm_text));
  }
  auto type = spec.is_text ? llvm::CodeGenFileType::AssemblyFile : llvm::CodeGenFileType::ObjectFile;
  TW_RETURN_IF_ERROR(generate(work, module, type, work.bytes));
  if (options.asm_text && spec.is_text) *options.asm_text = work.bytes;
  return spec.check_product ? spec.check_product(work.bytes) : Status::ok();
}

}  // namespace

Result<std::string> compile_module(EmittedModule module, const MachineSpec& spec,
                                   const CompileOptions& options) {
  if (!module.context || !module.module) return Status::invalid("no module to compile");
  auto work = std::make_unique<Work>();
  work->module = std::move(module);
  GuardOutcome outcome = run_guarded_on_deep_stack([&] { return run_job(*work, spec, options); });
  if (outcome.was_fatal) {
    work.release();  // passes and analyses that point into the module may still be linked to it
    return outcome.status;
  }
  work->module.context->setDiagnosticHandlerCallBack(nullptr);
  if (!outcome.status.is_ok()) return outcome.status;
  return std::move(work->bytes);
}

std::string data_layout_of(const MachineSpec& spec) {
  Result<std::unique_ptr<llvm::TargetMachine>> machine = make_machine(spec, CodegenEffort::Less);
  if (!machine.is_ok()) return {};
  return machine.value()->createDataLayout().getStringRepresentation();
}

}  // namespace tilewright
