// The IR passes for code that was not emitted with care; registered by hand, since PassBuilder would bring 11
// MB along.
#include <llvm/Analysis/AliasAnalysis.h>
#include <llvm/Analysis/AssumptionCache.h>
#include <llvm/Analysis/BasicAliasAnalysis.h>
#include <llvm/Analysis/BlockFrequencyInfo.h>
#include <llvm/Analysis/BranchProbabilityInfo.h>
#include <llvm/Analysis/CGSCCPassManager.h>
#include <llvm/Analysis/LastRunTrackingAnalysis.h>
#include <llvm/Analysis/LoopAnalysisManager.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/MemorySSA.h>
#include <llvm/Analysis/OptimizationRemarkEmitter.h>
#include <llvm/Analysis/PostDominators.h>
#include <llvm/Analysis/ProfileSummaryInfo.h>
#include <llvm/Analysis/ScalarEvolution.h>
#include <llvm/Analysis/ScopedNoAliasAA.h>
#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/PassInstrumentation.h>
#include <llvm/IR/PassManager.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Scalar/LoopPassManager.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>
#include <llvm/Transforms/Utils/LCSSA.h>
#include <llvm/Transforms/Utils/LoopSimplify.h>

#include "targets/llvm/compile_job.h"

namespace tilewright {
namespace {

struct Analyses {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::ModuleAnalysisManager modules;
};

void register_function_analyses(Analyses& analyses, llvm::TargetMachine& machine,
                                const llvm::Triple& triple) {
  llvm::FunctionAnalysisManager& functions = analyses.functions;
  // A kernel calls no C library by name: nothing may be recognised as one or turned into one.
  llvm::TargetLibraryInfoImpl library(triple);
  library.disableAllFunctions();
  functions.registerPass([library] { return llvm::TargetLibraryAnalysis(library); });
  functions.registerPass([&machine] { return machine.getTargetIRAnalysis(); });
  functions.registerPass([] {
    llvm::AAManager aliases;
    aliases.registerFunctionAnalysis<llvm::BasicAA>();
    aliases.registerFunctionAnalysis<llvm::ScopedNoAliasAA>();
    return aliases;
  });
  functions.registerPass([] { return llvm::PassInstrumentationAnalysis(); });
  functions.registerPass([] { return llvm::AssumptionAnalysis(); });
  functions.registerPass([] { return llvm::DominatorTreeAnalysis(); });
  functions.registerPass([] { return llvm::PostDominatorTreeAnalysis(); });
  functions.registerPass([] { return llvm::LoopAnalysis(); });
  functions.registerPass([] { return llvm::BasicAA(); });
  functions.registerPass([] { return llvm::ScopedNoAliasAA(); });
  functions.registerPass([] { return llvm::MemorySSAAnalysis(); });
  functions.registerPass([] { return llvm::ScalarEvolutionAnalysis(); });
  functions.registerPass([] { return llvm::OptimizationRemarkEmitterAnalysis(); });
  functions.registerPass([] { return llvm::BlockFrequencyAnalysis(); });
  functions.registerPass([] { return llvm::BranchProbabilityAnalysis(); });
  functions.registerPass([] { return llvm::LastRunTrackingAnalysis(); });
}

void register_analyses(Analyses& analyses, llvm::TargetMachine& machine, const llvm::Triple& triple) {
  register_function_analyses(analyses, machine, triple);
  auto& [loops, functions, modules] = analyses;
  loops.registerPass([] { return llvm::PassInstrumentationAnalysis(); });
  modules.registerPass([] { return llvm::PassInstrumentationAnalysis(); });
  modules.registerPass([] { return llvm::ProfileSummaryAnalysis(); });
  modules.registerPass([&functions] { return llvm::FunctionAnalysisManagerModuleProxy(functions); });
  functions.registerPass([&modules] { return llvm::ModuleAnalysisManagerFunctionProxy(modules); });
  functions.registerPass([&loops] { return llvm::LoopAnalysisManagerFunctionProxy(loops); });
  loops.registerPass([&functions] { return llvm::FunctionAnalysisManagerLoopProxy(functions); });
}

}  // namespace

void run_lean_passes(llvm::Module& module, void* target_machine) {
  auto& machine = *static_cast<llvm::TargetMachine*>(target_machine);
  Analyses analyses;
  register_analyses(analyses, machine, module.getTargetTriple());
  llvm::FunctionPassManager passes;
  passes.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  passes.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/false));
  passes.addPass(llvm::SimplifyCFGPass());
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(
      llvm::createFunctionToLoopPassAdaptor(llvm::LICMPass(llvm::LICMOptions()), /*UseMemorySSA=*/true));
  passes.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/false));
  passes.addPass(llvm::SimplifyCFGPass());
  llvm::ModulePassManager pipeline;
  pipeline.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(passes)));
  pipeline.run(module, analyses.modules);
}

}  // namespace tilewright
