// NvptxTarget: compiles to PTX and refuses what PTX cannot call; load and launch answer unimplemented.
#include "targets/nvptx/nvptx_target.h"

#include <llvm/IR/Function.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/Module.h>

#include <mutex>

#include "base/text.h"
#include "targets/llvm/compile_job.h"
#include "targets/nvptx/chips.h"

extern "C" {
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

namespace tilewright {
namespace {

constexpr std::string_view kReason = "this build generates PTX and cannot run it yet";

void initialize_llvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
}

// LLVM takes an unknown llvm.nvvm name for an external function and prints PTX that no assembler reads.
Status check_calls(const llvm::Module& module) {
  for (const llvm::Function& function : module) {
    if (!function.isDeclaration() || function.getIntrinsicID() != llvm::Intrinsic::not_intrinsic) continue;
    return Status::unimplemented(cat("code calls ", std::string_view(function.getName()),
                                     ", which is neither defined nor an intrinsic of this LLVM"));
  }
  return Status::ok();
}

class NvptxTarget final : public Target {
 public:
  NvptxTarget(TargetInfo info, MachineSpec spec) : Target(std::move(info)), spec_(std::move(spec)) {}

  Result<std::string> compile(EmittedModule module, const CompileOptions& options) const override {
    return compile_module(std::move(module), spec_, options);
  }
  Result<std::shared_ptr<const LoadedCode>> load(std::string_view,
                                                 std::span<const std::string>) const override {
    return unimplemented("load");
  }
  Result<void*> allocate(size_t, size_t) const override { return unimplemented("allocate"); }
  void free(void*) const override {}
  Status copy(void*, const void*, size_t, CopyKind, void*) const override { return unimplemented("copy"); }
  Status launch(const LaunchRequest&) const override { return unimplemented("launch"); }
  Status synchronize(void*) const override { return unimplemented("synchronize"); }

 private:
  static Status unimplemented(std::string_view what) {
    return Status::unimplemented(cat(what, ": ", kReason));
  }
  MachineSpec spec_;
};

}  // namespace

bool claims_nvptx(std::string_view spelling) { return spelling == "nvptx" || spelling.starts_with("nvptx:"); }

Result<std::shared_ptr<Target>> create_nvptx(std::string_view spelling) {
  initialize_llvm();
  std::string_view wanted = spelling.starts_with("nvptx:") ? spelling.substr(6) : "";
  for (const Chip& chip : all_chips()) {
    if (chip.name != wanted) continue;
    MachineSpec spec;
    spec.triple = "nvptx64-nvidia-cuda";
    spec.cpu = chip.name;
    spec.features = cat('+', chip.ptx);
    spec.is_text = true;
    spec.check_module = check_calls;
    TargetInfo info;
    info.family = "nvptx";
    info.name = cat("nvptx:", chip.name);
    info.description = chip.summary;
    info.isa = cat("nvptx:", chip.name, "+", chip.ptx);
    info.cache_identity = info.isa;
    info.host_reason = kReason;
    info.limits = limits_of(chip);
    info.limits.triple = spec.triple;
    info.limits.data_layout = data_layout_of(spec);
    return std::shared_ptr<Target>(std::make_shared<NvptxTarget>(std::move(info), std::move(spec)));
  }
  return Status::invalid(cat("target '", spelling, "': unknown chip '", wanted,
                             "', expected nvptx:CHIP with one of ",
                             join(all_chips(), " ", [](const Chip& chip) { return chip.name; })));
}

void list_nvptx(std::vector<TargetListing>& listings) {
  for (const Chip& chip : all_chips()) {
    listings.push_back({cat("nvptx:", chip.name), "nvptx", std::string(chip.summary), std::string(kReason)});
  }
}

}  // namespace tilewright
