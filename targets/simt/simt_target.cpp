// SimtTarget: code through the CPU's generator and loader, blocks through BlockRunner, memory of its own.
#include "targets/simt/simt_target.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "base/text.h"
#include "targets/cpu/cpu_target.h"
#include "targets/cpu/features.h"
#include "targets/cpu/object_loader.h"
#include "targets/llvm/compile_job.h"
#include "targets/llvm/guard.h"
#include "targets/nvptx/chips.h"
#include "targets/simt/block.h"
#include "targets/simt/device_memory.h"
#include "targets/simt/kernel_functions.h"
#include "targets/simt/settings.h"

namespace tilewright {
namespace {

using simt::BlockRunner;
using simt::DeviceMemory;

constexpr std::string_view kTriple = "x86_64-unknown-linux-gnu";
constexpr std::string_view kChip = "sm_90a";  // whose limits it has
constexpr int32_t kExtensionDevice = 12;      // DLPack: memory that no other library knows
constexpr int kLevel = 3;                     // of the host's instructions

class SimtTarget final : public Target {
 public:
  SimtTarget(TargetInfo info, MachineSpec spec, simt::Settings settings)
      : Target(std::move(info)),
        spec_(std::move(spec)),
        settings_(settings),
        memory_(settings.memory, settings.strict) {}

  Status guard(const std::function<Status()>& body) const override { return run_guarded(body).status; }
  Result<std::string> compile(EmittedModule module, const CompileOptions& options) const override {
    return compile_module(std::move(module), spec_, options);
  }

  Result<std::shared_ptr<const LoadedCode>> load(std::string_view bytes,
                                                 std::span<const std::string> symbols) const override {
    TW_RETURN_IF_ERROR(check_runnable("load"));
    TW_ASSIGN_OR_RETURN(ObjectLoader * loader, ObjectLoader::of_process());
    return loader->load(bytes, symbols, simt::kernel_functions());
  }

  Result<void*> allocate(size_t bytes, size_t alignment) const override {
    TW_RETURN_IF_ERROR(check_runnable("allocate"));
    return memory_.allocate(bytes, alignment);
  }
  void free(void* memory) const override { memory_.free(memory); }

  Status copy(void* to, const void* from, size_t bytes, CopyKind kind, void*) const override {
    TW_RETURN_IF_ERROR(broken());
    if (bytes == 0) return Status::ok();
    TW_RETURN_IF_ERROR(check_side(to, bytes, kind != CopyKind::DeviceToHost).because("copy: destination"));
    TW_RETURN_IF_ERROR(check_side(from, bytes, kind != CopyKind::HostToDevice).because("copy: source"));
    DeviceMemory::Access access(memory_);
    std::memmove(to, from, bytes);
    return Status::ok();
  }

  Status launch(const LaunchRequest& request) const override;

  Status synchronize(void*) const override {
    std::lock_guard lock(mutex_);
    if (!broken_.is_ok()) return broken_;
    return std::exchange(fault_, Status::ok());
  }

 private:
  Status check_runnable(std::string_view what) const {
    if (info_.is_runnable()) return Status::ok();
    return Status::unimplemented(cat(what, ": ", info_.host_reason));
  }
  Status check_side(const void* address, size_t bytes, bool on_device) const {
    if (on_device) return memory_.check_inside(address, bytes);
    return memory_.contains(address) ? Status::invalid("host address expected, found one of the device")
                                     : Status::ok();
  }
  Status broken() const {
    std::lock_guard lock(mutex_);
    return broken_;
  }
  Status check_request(const LaunchRequest& request) const;
  // Counts the launch and says what a test wants of it.
  Status take_injected(const LaunchRequest& request, bool* skip) const;
  Status run_blocks(const LaunchRequest& request) const;

  const MachineSpec spec_;
  const simt::Settings settings_;
  mutable DeviceMemory memory_;
  mutable std::mutex mutex_;
  mutable int64_t launches_ = 0;
  mutable Status fault_;   // of kernels since the last synchronisation
  mutable Status broken_;  // stays, as on a device whose context is lost
};

Status SimtTarget::check_request(const LaunchRequest& request) const {
  const TargetLimits& limits = info_.limits;
  if (!request.entry) return Status::invalid(cat("launch ", request.name, ": no entry point"));
  if (request.threads_per_block < 1 || request.threads_per_block > limits.max_threads_per_block)
    return Status::invalid(cat("launch ", request.name, ": ", request.threads_per_block,
                               " threads a block, expected 1 to ", limits.max_threads_per_block));
  if (request.shared_bytes < 0 || request.shared_bytes > limits.shared_bytes_per_block)
    return Status::invalid(cat("launch ", request.name, ": ", request.shared_bytes,
                               " bytes of shared memory, expected up to ", limits.shared_bytes_per_block));
  if (request.grid < 0 || request.blocks < 0)
    return Status::invalid(
        cat("launch ", request.name, ": grid ", request.grid, ", blocks ", request.blocks));
  return Status::ok();
}

Status SimtTarget::take_injected(const LaunchRequest& request, bool* skip) const {
  std::lock_guard lock(mutex_);
  if (!broken_.is_ok()) return broken_;
  ++launches_;
  if (launches_ == settings_.fail_launch)
    return Status::runtime(
        cat("launch ", request.name, ": the simulator was told to refuse launch ", launches_));
  if (launches_ == settings_.fail_async) {
    broken_ = Status::internal(
        cat("kernel ", request.name, ": the simulator was told to break at launch ", launches_));
    *skip = true;
  }
  return Status::ok();
}

Status SimtTarget::run_blocks(const LaunchRequest& request) const {
  std::vector<uint64_t> slots;
  for (void* buffer : request.buffers) slots.push_back(reinterpret_cast<uint64_t>(buffer));
  for (int64_t scalar : request.scalars) slots.push_back(static_cast<uint64_t>(scalar));
  slots.push_back(static_cast<uint64_t>(request.grid));
  slots.push_back(reinterpret_cast<uint64_t>(request.scratch));
  simt::BlockShape shape;
  shape.block_count = request.blocks > 0 ? request.blocks : request.grid;
  shape.threads = request.threads_per_block;
  shape.shared_bytes = request.shared_bytes;
  static thread_local std::unique_ptr<BlockRunner> runner;
  if (!runner) runner = std::make_unique<BlockRunner>();
  DeviceMemory::Access access(memory_);
  for (int64_t block = 0; block < shape.block_count; ++block)
    TW_RETURN_IF_ERROR(runner->run(reinterpret_cast<simt::Entry>(request.entry), slots.data(), shape, block));
  return Status::ok();
}

Status SimtTarget::launch(const LaunchRequest& request) const {
  TW_RETURN_IF_ERROR(check_request(request));
  bool skip = false;
  TW_RETURN_IF_ERROR(take_injected(request, &skip));
  if (skip || request.grid == 0) return Status::ok();
  const Status status = run_blocks(request);
  if (status.is_ok()) return status;
  std::lock_guard lock(mutex_);
  if (fault_.is_ok()) fault_ = status.because(cat("kernel ", request.name, " failed"));
  return Status::ok();
}

std::string reason_not_here() {
#if defined(__x86_64__)
  if (detect_features(machine_cpuid()).level() >= kLevel) return {};
#endif
  return cat("the simulator needs an x86-64 processor of level ", kLevel);
}

}  // namespace

bool claims_simt(std::string_view spelling) { return spelling == "simt" || spelling.starts_with("simt:"); }

Result<std::shared_ptr<Target>> create_simt(std::string_view spelling) {
  TW_ASSIGN_OR_RETURN(simt::Settings settings, simt::parse_settings(spelling));
  initialize_cpu_codegen();
  const FeatureSet features = FeatureSet::of_level(kLevel);
  MachineSpec spec;
  spec.triple = kTriple;
  spec.cpu = "x86-64";
  spec.tune_cpu = cat("x86-64-v", kLevel);
  spec.features = features.llvm_text();
  spec.check_product = [](std::string_view object) {
    return check_undefined_symbols(object, simt::kernel_functions());
  };
  TargetInfo info;
  info.family = "simt";
  info.name = spelling;
  info.description = cat("simulated blocks of threads with the limits of ", kChip);
  info.isa = cat("simt:", kChip, "+x86-64-v", kLevel);
  info.cache_identity = info.isa;
  info.host_reason = reason_not_here();
  info.dlpack_device = kExtensionDevice;
  info.checks_allocations = true;
  info.limits = limits_of(*find_chip(kChip));
  info.limits.triple = spec.triple;
  info.limits.data_layout = data_layout_of(spec);
  return std::shared_ptr<Target>(std::make_shared<SimtTarget>(std::move(info), std::move(spec), settings));
}

void list_simt(std::vector<TargetListing>& listings) {
  listings.push_back({"simt", "simt", cat("simulator of blocks of threads, limits of ", kChip, ", for tests"),
                      reason_not_here()});
}

}  // namespace tilewright
