// CpuTarget: limits from features, compile through LLVM's X86 code generator, load through ORC, memory from
// the heap.
#include "targets/cpu/cpu_target.h"

#include <llvm/Support/TargetSelect.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <mutex>

#include "base/text.h"
#include "targets/cpu/builtins/builtins.h"
#include "targets/cpu/features.h"
#include "targets/cpu/object_loader.h"
#include "targets/cpu/spelling.h"
#include "targets/llvm/compile_job.h"
#include "targets/llvm/guard.h"

extern "C" {
void LLVMInitializeX86TargetInfo();
void LLVMInitializeX86Target();
void LLVMInitializeX86TargetMC();
void LLVMInitializeX86AsmPrinter();
void LLVMInitializeX86AsmParser();
}

namespace tilewright {
namespace {

constexpr std::string_view kTriple = "x86_64-unknown-linux-gnu";

const FeatureSet& host_features() {
  static const FeatureSet features = detect_features(machine_cpuid());
  return features;
}

bool is_x86_host() {
#if defined(__x86_64__)
  return true;
#else
  return false;
#endif
}

// Portable targets get the sizes of a typical chip of their level, so that a fleet computes the same keys.
void apply_nominal_caches(int level, TargetLimits& limits) {
  limits.l1_bytes = 32 << 10;
  limits.l2_bytes = level >= 4 ? 1 << 20 : level >= 3 ? 512 << 10 : 256 << 10;
  limits.l3_bytes = level >= 4 ? 16 << 20 : 8 << 20;
}

void apply_measured_caches(TargetLimits& limits) {
  CacheSizes sizes = detect_caches(machine_cpuid());
  if (sizes.l1_bytes > 0) limits.l1_bytes = sizes.l1_bytes;
  if (sizes.l2_bytes > 0) limits.l2_bytes = sizes.l2_bytes;
  if (sizes.l1_bytes > 0) limits.l3_bytes = sizes.l3_bytes;
}

// Why this machine cannot run code for those features; empty if it can.
std::string reason_not_runnable(const FeatureSet& features) {
  if (!is_x86_host()) return "this machine is no x86-64";
  FeatureSet missing = features.without(host_features());
  if (missing.empty()) return {};
  return cat("this machine lacks ", join(missing.names(), ", ", [](std::string_view name) { return name; }));
}

class CpuTarget final : public Target {
 public:
  CpuTarget(TargetInfo info, MachineSpec spec) : Target(std::move(info)), spec_(std::move(spec)) {}

  Status guard(const std::function<Status()>& body) const override { return run_guarded(body).status; }
  Result<std::string> compile(EmittedModule module, const CompileOptions& options) const override {
    return compile_module(std::move(module), spec_, options);
  }

  Result<std::shared_ptr<const LoadedCode>> load(std::string_view bytes,
                                                 std::span<const std::string> symbols) const override {
    if (!info_.is_runnable()) {
      return Status::unimplemented(cat("cannot load code for ", info_.name, ": ", info_.host_reason));
    }
    TW_ASSIGN_OR_RETURN(ObjectLoader * loader, ObjectLoader::of_process());
    return loader->load(bytes, symbols);
  }

  Result<void*> allocate(size_t bytes, size_t alignment) const override {
    if (alignment == 0 || (alignment & (alignment - 1)) != 0) {
      return Status::invalid(cat("alignment ", alignment, " is not a power of two"));
    }
    void* memory = nullptr;
    size_t least = alignment < sizeof(void*) ? sizeof(void*) : alignment;
    if (posix_memalign(&memory, least, bytes == 0 ? 1 : bytes) != 0) {
      return Status::exhausted(cat("cannot allocate ", bytes, " bytes"));
    }
    return memory;
  }
  void free(void* memory) const override { std::free(memory); }

  Status copy(void* to, const void* from, size_t bytes, CopyKind, void*) const override {
    if (bytes != 0) std::memmove(to, from, bytes);
    return Status::ok();
  }

  Status launch(const LaunchRequest& request) const override {
    if (!request.entry) return Status::invalid("launch without an entry point");
    auto* kernel = reinterpret_cast<KernelFunction>(request.entry);
    kernel(request.buffers.data(), request.scalars.data(), 0, request.grid, nullptr);
    return Status::ok();
  }

  Status synchronize(void*) const override { return Status::ok(); }  // launches are over when they return

  Status run_builtin(const BuiltinCall& call, ParallelFor parallel_for) const override {
    return builtins::run(call, parallel_for);
  }

 private:
  MachineSpec spec_;
};

MachineSpec spec_of(const FeatureSet& features, const TargetLimits& limits) {
  MachineSpec spec;
  spec.triple = kTriple;
  spec.cpu = "x86-64";  // no features by name: llvm_text() has all of them
  spec.tune_cpu = cat("x86-64-v", std::max(features.level(), 2));
  spec.features = features.llvm_text();
  spec.vector_bits = 8 * limits.vector_bytes;
  spec.check_product = [](std::string_view object) { return check_undefined_symbols(object); };
  return spec;
}

std::string other_architecture(std::string_view base) {
  for (std::string_view name : {"aarch64", "riscv64", "loongarch64"}) {
    if (base == name) return std::string(name);
  }
  return {};
}

}  // namespace

void initialize_cpu_codegen() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86AsmParser();
  });
}

bool claims_cpu(std::string_view spelling) {
  std::string_view base = spelling_base(spelling);
  return base.empty() || base == "native" || base.starts_with("x86-64") ||
         !other_architecture(base).empty() || is_x86_cpu_name(base);
}

Result<std::shared_ptr<Target>> create_cpu(std::string_view spelling) {
  initialize_cpu_codegen();
  if (spelling.empty()) spelling = "native";
  std::string_view base = spelling_base(spelling);
  if (std::string other = other_architecture(base); !other.empty()) {
    return Status::unimplemented(
        cat("target '", spelling, "': this build has no code generator for ", other));
  }
  if (base == "native" && !is_x86_host()) {
    return Status::unimplemented("target 'native': this build generates code for x86-64 only");
  }
  TW_ASSIGN_OR_RETURN(CpuSpelling parsed, parse_cpu_spelling(spelling, host_features()));
  TargetInfo info;
  info.family = "cpu";
  info.name = parsed.base + parsed.changes;
  info.limits.kind = TargetKind::Cpu;
  apply_features(parsed.features, info.limits);
  apply_nominal_caches(parsed.features.level(), info.limits);
  if (parsed.is_native) apply_measured_caches(info.limits);
  MachineSpec spec = spec_of(parsed.features, info.limits);
  info.limits.triple = kTriple;
  info.limits.data_layout = data_layout_of(spec);
  info.isa =
      cat("x86-64", join(parsed.features.names(), "", [](std::string_view name) { return cat('+', name); }));
  info.cache_identity =
      cat(info.isa, ";triple=", spec.triple, ";tune=", spec.tune_cpu, ";bits=", spec.vector_bits);
  info.description =
      parsed.is_native ? detect_brand(machine_cpuid()) : cat("x86-64 level ", parsed.features.level());
  info.host_reason = reason_not_runnable(parsed.features);
  return std::shared_ptr<Target>(std::make_shared<CpuTarget>(std::move(info), std::move(spec)));
}

void list_cpu(std::vector<TargetListing>& listings) {
  if (is_x86_host()) {
    listings.push_back({"native", "cpu", cat("this processor: ", detect_brand(machine_cpuid())), {}});
  }
  for (int level = 2; level <= 4; ++level) {
    FeatureSet features = FeatureSet::of_level(level);
    TargetLimits limits;
    apply_features(features, limits);
    listings.push_back({cat("x86-64-v", level), "cpu",
                        cat(8 * limits.vector_bytes, "-bit vectors, ", limits.vector_registers, " registers",
                            limits.has_fma ? ", FMA" : ", no FMA"),
                        reason_not_runnable(features)});
  }
}

}  // namespace tilewright
