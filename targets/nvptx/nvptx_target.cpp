// NvptxTarget: compiles to PTX and refuses what PTX cannot call; loads and runs through the driver where
// there is one.
#include "targets/nvptx/nvptx_target.h"

#include <llvm/IR/Function.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/Module.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "base/text.h"
#include "targets/llvm/compile_job.h"
#include "targets/llvm/guard.h"
#include "targets/nvptx/chips.h"
#include "targets/nvptx/driver.h"
#include "targets/nvptx/ptx_text.h"
#include "targets/nvptx/staging.h"

extern "C" {
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

namespace tilewright {
namespace {

using cuda::Context;
using cuda::DevicePointer;
using cuda::Driver;

// Behind a spelling: memory is allocated to 16 bytes and not kept, for tools that watch accesses.
constexpr std::string_view kExact = ",exact";
constexpr int32_t kCudaDevice = 2;  // DLPack
constexpr int64_t kSharedWithoutAsking = 48 << 10;
constexpr int64_t kMaximumBlocks = (int64_t{1} << 31) - 1;

void initialize_llvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
}

// bf16 to f32 by a shift: the instruction for it is slower.  After the passes that look for conversions.
void widen_by_shifts(llvm::Module& module) {
  std::vector<llvm::FPExtInst*> found;
  for (llvm::Function& function : module) {
    for (llvm::Instruction& instruction : llvm::instructions(function)) {
      auto* widens = llvm::dyn_cast<llvm::FPExtInst>(&instruction);
      if (widens && widens->getSrcTy()->getScalarType()->isBFloatTy() &&
          widens->getDestTy()->getScalarType()->isFloatTy()) {
        found.push_back(widens);
      }
    }
  }
  for (llvm::FPExtInst* widens : found) {
    llvm::IRBuilder<> b(widens);
    llvm::Type* narrow = widens->getSrcTy()->getWithNewType(b.getInt16Ty());
    llvm::Type* wide = widens->getDestTy()->getWithNewType(b.getInt32Ty());
    llvm::Value* bits = b.CreateZExt(b.CreateBitCast(widens->getOperand(0), narrow), wide);
    widens->replaceAllUsesWith(
        b.CreateBitCast(b.CreateShl(bits, llvm::ConstantInt::get(wide, 16)), widens->getDestTy()));
    widens->eraseFromParent();
  }
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

DevicePointer to_pointer(const void* memory) { return reinterpret_cast<DevicePointer>(memory); }

// A loaded module; unloaded with the last handle.
class CudaCode final : public LoadedCode {
 public:
  CudaCode(const Driver& driver, void* module, size_t bytes)
      : driver_(driver), module_(module), bytes_(bytes), owner_(getpid()) {}
  ~CudaCode() override {
    if (owner_ != getpid()) return;
    Result<Context> context = Context::enter(driver_);
    if (context.is_ok()) driver_.unload_module(module_);
  }
  Status find(const std::string& name) {
    void* function = nullptr;
    TW_RETURN_IF_ERROR(driver_.check(driver_.get_function(&function, module_, name.c_str()),
                                     cat("the module has no kernel ", name)));
    functions_[name] = function;
    return Status::ok();
  }
  void* symbol(std::string_view name) const override {
    const auto found = functions_.find(name);
    return found == functions_.end() ? nullptr : found->second;
  }
  size_t code_bytes() const override { return bytes_; }

 private:
  const Driver& driver_;
  void* const module_;
  const size_t bytes_;
  const pid_t owner_;
  std::map<std::string, void*, std::less<>> functions_;
};

// A log that the driver fills, as text without its end.
class DriverLog {
 public:
  char* data() { return text_.data(); }
  void* bytes() const { return reinterpret_cast<void*>(text_.size() - 1); }
  std::string text() const {
    std::string found(text_.c_str());
    while (!found.empty() && (found.back() == '\n' || found.back() == ' ')) found.pop_back();
    return found;
  }

 private:
  std::string text_ = std::string(16 << 10, '\0');
};

class NvptxTarget final : public Target {
 public:
  // `driver`: null where code cannot run.
  NvptxTarget(TargetInfo info, MachineSpec spec, const Driver* driver)
      : Target(std::move(info)), spec_(std::move(spec)), driver_(driver) {
    if (driver_) staging_ = std::make_unique<cuda::Staging>(*driver_);
  }

  Status guard(const std::function<Status()>& body) const override { return run_guarded(body).status; }
  Result<std::string> compile(EmittedModule module, const CompileOptions& options) const override {
    return compile_module(std::move(module), spec_, options);
  }
  Result<std::shared_ptr<const LoadedCode>> load(std::string_view bytes,
                                                 std::span<const std::string> symbols) const override;
  bool links() const override { return info_.is_runnable(); }
  std::string link_identity() const override {
    return driver_ ? cat(info_.isa, ";driver=", driver_->version) : std::string();
  }
  Result<std::string> link(std::span<const std::string_view> objects, std::string_view entry,
                           std::span<const std::string> names) const override;

  Result<void*> allocate(size_t bytes, size_t alignment) const override;
  void free(void* memory) const override;
  Status copy(void* to, const void* from, size_t bytes, CopyKind kind, void* stream) const override;
  Status launch(const LaunchRequest& request) const override;
  Status synchronize(void* stream) const override;

 private:
  Result<Context> enter(std::string_view what) const {
    if (!driver_) return Status::unimplemented(cat(what, ": ", info_.host_reason));
    std::lock_guard lock(mutex_);
    if (!broken_.is_ok()) return broken_;
    return Context::enter(*driver_);
  }
  Status check_request(const LaunchRequest& request) const;
  Status allow_shared(const LaunchRequest& request) const;
  // Names the kernels that a failure of the stream may come from; the device's own failures stay.
  Status explain(Status status, void* stream) const;
  void note_launch(const LaunchRequest& request) const;

  const MachineSpec spec_;
  const Driver* const driver_;
  std::unique_ptr<cuda::Staging> staging_;
  mutable std::mutex mutex_;
  mutable std::map<void*, std::vector<std::string>> launched_;  // a stream's kernels since it was waited for
  mutable std::map<void*, int64_t> shared_allowed_;             // a function's
  mutable Status broken_;
};

Result<std::shared_ptr<const LoadedCode>> NvptxTarget::load(std::string_view bytes,
                                                            std::span<const std::string> symbols) const {
  TW_ASSIGN_OR_RETURN(Context context, enter("load"));
  const std::string image(bytes);  // the driver wants PTX to end with a zero
  DriverLog log;
  int options[] = {cuda::kErrorLog, cuda::kErrorLogBytes};
  void* values[] = {log.data(), log.bytes()};
  void* module = nullptr;
  const Status loaded = driver_->check(driver_->load_module(&module, image.c_str(), 2, options, values),
                                       "cannot load a module");
  if (!loaded.is_ok())
    return log.text().empty() ? loaded : Status(loaded.code(), cat(loaded.message(), "; ", log.text()));
  auto code = std::make_shared<CudaCode>(*driver_, module, bytes.size());
  for (const std::string& name : symbols) {
    TW_RETURN_IF_ERROR(code->find(name));
    // The driver may give a function the address of one that is gone, and what was allowed that one.
    std::lock_guard lock(mutex_);
    shared_allowed_.erase(code->symbol(name));
  }
  return std::shared_ptr<const LoadedCode>(std::move(code));
}

Result<std::string> NvptxTarget::link(std::span<const std::string_view> objects, std::string_view entry,
                                      std::span<const std::string> names) const {
  TW_ASSIGN_OR_RETURN(Context context, enter("link"));
  std::string ptx = cuda::join_ptx(objects, entry, names);
  DriverLog log;
  int options[] = {cuda::kErrorLog, cuda::kErrorLogBytes};
  void* values[] = {log.data(), log.bytes()};
  void* state = nullptr;
  TW_RETURN_IF_ERROR(driver_->check(driver_->link_create(2, options, values, &state), "cannot start a link"));
  void* image = nullptr;
  size_t bytes = 0;
  Status status = driver_->check(
      driver_->link_add(state, cuda::kInputPtx, ptx.data(), ptx.size() + 1, "kernels", 0, nullptr, nullptr),
      "the driver refuses PTX");
  if (status.is_ok())
    status = driver_->check(driver_->link_complete(state, &image, &bytes), "the driver cannot link PTX");
  std::string cubin;
  if (status.is_ok()) cubin.assign(static_cast<const char*>(image), bytes);
  driver_->link_destroy(state);
  if (!status.is_ok())
    return log.text().empty() ? status : Status(status.code(), cat(status.message(), "; ", log.text()));
  return cubin;
}

Result<void*> NvptxTarget::allocate(size_t bytes, size_t alignment) const {
  constexpr size_t kMaximumAlignment = 4096, kGuaranteed = 256;
  if (alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment > kMaximumAlignment)
    return Status::invalid(
        cat("alignment ", alignment, ", expected a power of two up to ", kMaximumAlignment));
  TW_ASSIGN_OR_RETURN(Context context, enter("allocate"));
  // Tools take an asynchronous copy of 16 bytes that is told to read fewer for one of 16.
  constexpr size_t kCopyBytes = 16;
  if (info_.checks_allocations) bytes = (bytes + kCopyBytes - 1) / kCopyBytes * kCopyBytes;
  DevicePointer memory = 0;
  TW_RETURN_IF_ERROR(driver_->check(driver_->allocate(&memory, std::max<size_t>(bytes, 1)),
                                    cat("cannot allocate ", bytes, " bytes on ", info_.name)));
  // Allocations of the driver lie on pages of the device in practice, at multiples of 256 by contract.
  if (memory % std::max<size_t>(alignment, kGuaranteed) != 0) {
    driver_->free(memory);
    return Status::runtime(cat("the driver gave memory that is not aligned to ", alignment));
  }
  return reinterpret_cast<void*>(memory);
}

void NvptxTarget::free(void* memory) const {
  if (!driver_ || !memory) return;
  Result<Context> context = Context::enter(*driver_);
  if (context.is_ok()) driver_->free(to_pointer(memory));
}

Status NvptxTarget::copy(void* to, const void* from, size_t bytes, CopyKind kind, void* stream) const {
  if (bytes == 0) return Status::ok();
  TW_ASSIGN_OR_RETURN(Context context, enter("copy"));
  Status status;
  switch (kind) {
    case CopyKind::HostToDevice: status = staging_->upload(to_pointer(to), from, bytes, stream); break;
    case CopyKind::DeviceToHost: status = staging_->download(to, to_pointer(from), bytes, stream); break;
    case CopyKind::DeviceToDevice:
      status = driver_->check(driver_->copy_on_device(to_pointer(to), to_pointer(from), bytes, stream),
                              "cannot copy on the device");
      break;
  }
  return explain(std::move(status), stream);
}

Status NvptxTarget::check_request(const LaunchRequest& request) const {
  const TargetLimits& limits = info_.limits;
  if (!request.entry) return Status::invalid(cat("launch ", request.name, ": no entry point"));
  if (request.threads_per_block < 1 || request.threads_per_block > limits.max_threads_per_block)
    return Status::invalid(cat("launch ", request.name, ": ", request.threads_per_block,
                               " threads a block, expected 1 to ", limits.max_threads_per_block));
  if (request.shared_bytes < 0 || request.shared_bytes > limits.shared_bytes_per_block)
    return Status::invalid(cat("launch ", request.name, ": ", request.shared_bytes,
                               " bytes of shared memory, expected up to ", limits.shared_bytes_per_block));
  if (request.grid < 0 || request.blocks < 0 || request.blocks > kMaximumBlocks)
    return Status::invalid(
        cat("launch ", request.name, ": grid ", request.grid, ", blocks ", request.blocks));
  return Status::ok();
}

// More than 48 KB must be asked for, once a function.
Status NvptxTarget::allow_shared(const LaunchRequest& request) const {
  if (request.shared_bytes <= kSharedWithoutAsking) return Status::ok();
  std::lock_guard lock(mutex_);
  int64_t& allowed = shared_allowed_[request.entry];
  if (allowed >= request.shared_bytes) return Status::ok();
  TW_RETURN_IF_ERROR(driver_->check(
      driver_->set_function_attribute(request.entry, cuda::kMaximumDynamicShared,
                                      static_cast<int>(request.shared_bytes)),
      cat("kernel ", request.name, " cannot have ", request.shared_bytes, " bytes of shared memory")));
  allowed = request.shared_bytes;
  return Status::ok();
}

void NvptxTarget::note_launch(const LaunchRequest& request) const {
  constexpr size_t kKept = 8;
  std::lock_guard lock(mutex_);
  std::vector<std::string>& names = launched_[request.stream];
  if (names.size() == kKept) names.erase(names.begin());
  names.emplace_back(request.name);
}

Status NvptxTarget::launch(const LaunchRequest& request) const {
  TW_RETURN_IF_ERROR(check_request(request));
  if (request.grid == 0) return Status::ok();
  TW_ASSIGN_OR_RETURN(Context context, enter("launch"));
  TW_RETURN_IF_ERROR(allow_shared(request));
  std::vector<uint64_t> slots;
  slots.reserve(request.buffers.size() + request.scalars.size() + 2);
  for (void* buffer : request.buffers) slots.push_back(reinterpret_cast<uint64_t>(buffer));
  for (int64_t scalar : request.scalars) slots.push_back(static_cast<uint64_t>(scalar));
  slots.push_back(static_cast<uint64_t>(request.grid));
  slots.push_back(reinterpret_cast<uint64_t>(request.scratch));
  void* parameters[] = {slots.data()};
  const int64_t blocks = request.blocks > 0 ? request.blocks : std::min(request.grid, kMaximumBlocks);
  const int error = driver_->launch(
      request.entry, static_cast<unsigned>(blocks), 1, 1, static_cast<unsigned>(request.threads_per_block), 1,
      1, static_cast<unsigned>(request.shared_bytes), request.stream, parameters, nullptr);
  if (error != cuda::kSuccess)
    return explain(driver_->check(error, cat("cannot launch kernel ", request.name)), request.stream);
  note_launch(request);
  return Status::ok();
}

Status NvptxTarget::explain(Status status, void* stream) const {
  if (status.is_ok() || status.code() == Code::ResourceExhausted) return status;
  std::lock_guard lock(mutex_);
  const std::vector<std::string>& names = launched_[stream];
  if (names.empty()) return status;
  Status explained(Code::Internal, cat(status.message(), "; kernels launched before, the last first: ",
                                       join(std::vector<std::string>(names.rbegin(), names.rend()), ", ")));
  // What a kernel breaks stays broken: the driver refuses the context from then on.
  if (broken_.is_ok()) broken_ = explained;
  return explained;
}

Status NvptxTarget::synchronize(void* stream) const {
  TW_ASSIGN_OR_RETURN(Context context, enter("synchronize"));
  const int error = driver_->synchronize_stream(stream);
  if (error != cuda::kSuccess) return explain(driver_->check(error, "work on the device failed"), stream);
  std::lock_guard lock(mutex_);
  launched_.erase(stream);
  return Status::ok();
}

// The device of this machine, looked for once.
struct Found {
  const Driver* driver = nullptr;
  cuda::DeviceFacts facts;
  std::string chip;    // row of the table
  std::string reason;  // why there is no device
};

// The closest row below the device's number.
std::string chip_of(int major, int minor) {
  std::string best;
  int best_minor = -1;
  for (const Chip& chip : all_chips()) {
    std::string_view digits = chip.name.substr(3);
    if (digits.ends_with('a')) digits.remove_suffix(1);
    const int row_minor = digits.back() - '0';
    int row_major = 0;
    for (char c : digits.substr(0, digits.size() - 1)) row_major = 10 * row_major + (c - '0');
    // Rows with an `a` run on exactly their chip; they come behind the portable ones.
    const bool exact = chip.name.ends_with('a');
    if (row_major != major || row_minor > minor || (exact && row_minor != minor)) continue;
    if (row_minor < best_minor) continue;
    best = chip.name;
    best_minor = row_minor;
  }
  return best;
}

const Found& device_here() {
  static const Found* const once = [] {
    auto* found = new Found;
    Result<const Driver*> driver = cuda::open_driver();
    if (!driver.is_ok()) {
      found->reason = driver.status().message();
      return found;
    }
    Result<cuda::DeviceFacts> facts = cuda::detect_device(**driver);
    if (!facts.is_ok()) {
      found->reason = facts.status().message();
      return found;
    }
    found->facts = *facts;
    found->chip = chip_of(facts->major, facts->minor);
    if (found->chip.empty()) {
      found->reason = cat(facts->name, " of compute capability ", facts->major, ".", facts->minor,
                          " is older than every chip of the table");
      return found;
    }
    found->driver = *driver;
    return found;
  }();
  return *once;
}

// Why code for the chip does not run here; empty: it does.
std::string reason_not_here(const Chip& chip) {
  const Found& here = device_here();
  if (!here.driver) return here.reason;
  const bool fits = chip.name == here.chip || cat(chip.name, "a") == here.chip;
  if (!fits) return cat("device 0 is ", here.facts.name, ", which wants nvptx:", here.chip);
  const int ptx = cuda::ptx_version_of(here.driver->version);
  int wanted = 0;
  for (char c : chip.ptx.substr(3)) wanted = 10 * wanted + (c - '0');
  if (ptx < wanted)
    return cat("the driver reads PTX up to ", ptx / 10, ".", ptx % 10, ", code for ", chip.name, " needs ",
               wanted / 10, ".", wanted % 10);
  if (here.facts.shared_opt_in < chip.shared_bytes)
    return cat("device 0 gives a block ", here.facts.shared_opt_in, " bytes of shared memory, code for ",
               chip.name, " may need ", chip.shared_bytes);
  return {};
}

}  // namespace

bool claims_nvptx(std::string_view spelling) {
  return spelling == "nvptx" || spelling.starts_with("nvptx:") || spelling.starts_with("nvptx,");
}

Result<std::shared_ptr<Target>> create_nvptx(std::string_view spelling) {
  initialize_llvm();
  const bool exact = spelling.ends_with(kExact);
  if (exact) spelling.remove_suffix(kExact.size());
  std::string wanted(spelling.starts_with("nvptx:") ? spelling.substr(6) : "");
  if (spelling == "nvptx") {
    if (!device_here().driver)
      return Status::runtime(
          cat("target 'nvptx': ", device_here().reason, "; nvptx:CHIP compiles without a device"));
    wanted = device_here().chip;
  }
  const Chip* chip = find_chip(wanted);
  if (!chip)
    return Status::invalid(cat("target '", spelling, "': unknown chip '", wanted,
                               "', expected nvptx, or nvptx:CHIP with one of ",
                               join(all_chips(), " ", [](const Chip& row) { return row.name; })));
  MachineSpec spec;
  spec.triple = "nvptx64-nvidia-cuda";
  spec.cpu = chip->name;
  spec.features = cat('+', chip->ptx);
  spec.is_text = true;
  spec.check_module = check_calls;
  spec.finish_module = widen_by_shifts;
  TargetInfo info;
  info.family = "nvptx";
  info.name = cat("nvptx:", chip->name, exact ? kExact : "");
  info.checks_allocations = exact;
  info.description = chip->summary;
  info.isa = cat("nvptx:", chip->name, "+", chip->ptx);
  info.cache_identity = info.isa;
  info.host_reason = reason_not_here(*chip);
  info.dlpack_device = kCudaDevice;
  info.limits = limits_of(*chip);
  info.limits.triple = spec.triple;
  info.limits.data_layout = data_layout_of(spec);
  const Driver* driver = info.is_runnable() ? device_here().driver : nullptr;
  if (driver)
    info.description =
        cat(device_here().facts.name, ", driver ", driver->version / 1000, ".", driver->version % 1000 / 10);
  return std::shared_ptr<Target>(std::make_shared<NvptxTarget>(std::move(info), std::move(spec), driver));
}

void list_nvptx(std::vector<TargetListing>& listings) {
  for (const Chip& chip : all_chips())
    listings.push_back({cat("nvptx:", chip.name), "nvptx", std::string(chip.summary), reason_not_here(chip)});
}

}  // namespace tilewright
