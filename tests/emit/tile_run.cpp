// Random buffers, compilation and comparison of tile kernels.
#include "tests/emit/tile_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <random>

#include "base/text.h"
#include "codegen/emit/emit.h"
#include "codegen/tile/interpreter.h"
#include "ir/reference/scalar.h"
#include "tests/emit/kernels.h"

namespace tilewright {
namespace {

constexpr size_t kGuard = 256;  // bytes behind each buffer that nobody may change

bool is_floating(DType dtype) { return is_float(dtype) || is_float8(dtype); }

Result<int64_t> elements_of(const tile::Param& param, const Bindings& bindings) {
  int64_t last = 0;
  bool empty = false;
  Dim dense(1);
  std::vector<Dim> strides = param.strides;
  if (strides.empty()) {
    strides.assign(param.dims.size(), Dim(1));
    for (size_t d = param.dims.size(); d-- > 1;) strides[d - 1] = strides[d] * param.dims[d];
  }
  for (size_t d = 0; d < param.dims.size(); ++d) {
    TW_ASSIGN_OR_RETURN(int64_t size, param.dims[d].evaluate(bindings));
    TW_ASSIGN_OR_RETURN(int64_t stride, strides[d].evaluate(bindings));
    empty |= size == 0;
    last += (size - 1) * stride;
  }
  return empty ? int64_t{0} : last + 1;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

std::vector<void*> TileRun::pointers() {
  std::vector<void*> out;
  for (auto& buffer : buffers) out.push_back(buffer.data());
  return out;
}

Result<TileRun> prepare_run(const tile::Kernel& kernel, const std::map<std::string, int64_t>& symbols,
                            uint64_t seed, int64_t integers) {
  TileRun run;
  Bindings bindings;
  for (const Symbol& symbol : kernel.symbols) {
    auto given = symbols.find(symbol.name);
    int64_t value = given != symbols.end() ? given->second : symbol.hint.value_or(symbol.min);
    run.scalars.push_back(value);
    bindings[symbol.name] = value;
  }
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> real(-1, 1);
  for (const tile::Param& param : kernel.params) {
    TW_ASSIGN_OR_RETURN(int64_t count, elements_of(param, bindings));
    size_t bytes = static_cast<size_t>(dtype_bytes(param.dtype));
    std::vector<unsigned char> buffer(static_cast<size_t>(count) * bytes + kGuard, 0xA5);
    for (int64_t i = 0; i < count; ++i) {
      Scalar value = is_floating(param.dtype)
                         ? Scalar::of_float(param.dtype, real(random))
                         : Scalar::of_integer(
                               param.dtype, static_cast<int64_t>(random() % static_cast<uint64_t>(integers)));
      if (param.dtype == DType::Bool)
        value = Scalar::of_integer(DType::Bool, static_cast<int64_t>(random() & 1));
      store_scalar(value, &buffer[static_cast<size_t>(i) * bytes]);
    }
    run.buffers.push_back(std::move(buffer));
  }
  if (kernel.reports) run.buffers.emplace_back(24, 0);
  TW_ASSIGN_OR_RETURN(run.instances, tile::grid_size(kernel, run.scalars));
  return run;
}

Result<CompiledTile> compile_tile(const Target& target, const tile::Kernel& kernel, bool lean) {
  CompiledTile out;
  auto start = std::chrono::steady_clock::now();
  Result<EmittedKernel> emitted = emit_kernel(kernel, target.info().limits, {});
  if (!emitted.is_ok()) return emitted.status();
  out.emit_seconds = seconds_since(start);
  EmittedKernel code = std::move(emitted).value();
  out.scratch_bytes = code.scratch_bytes;
  out.threads_per_block = code.threads_per_block;
  out.shared_bytes = code.shared_bytes;
  out.entry = code.entry;
  CompileOptions options;
  options.ir_passes = lean ? IrPasses::Lean : IrPasses::None;
  std::string assembly, llvm;
  if (const char* folder = std::getenv("TW_DUMP_TILE")) {
    options.asm_text = &assembly;
    options.llvm_text = &llvm;
    (void)folder;
  }
  start = std::chrono::steady_clock::now();
  TW_ASSIGN_OR_RETURN(std::string object, target.compile(std::move(code.module), options));
  out.compile_seconds = seconds_since(start);
  if (const char* folder = std::getenv("TW_DUMP_TILE")) {
    for (auto& [suffix, text] : {std::pair<const char*, std::string&>{".s", assembly}, {".ll", llvm}}) {
      if (FILE* file = std::fopen(cat(folder, "/", kernel.name, suffix).c_str(), "w")) {
        std::fwrite(text.data(), 1, text.size(), file);
        std::fclose(file);
      }
    }
  }
  TW_ASSIGN_OR_RETURN(out.code, target.load(object, std::vector<std::string>{code.entry}));
  out.function = reinterpret_cast<KernelFunction>(out.code->symbol(code.entry));
  return out;
}

namespace {

// Memory of a target, given back at the end.
class DeviceMemory {
 public:
  explicit DeviceMemory(const Target& target) : target_(target) {}
  ~DeviceMemory() {
    for (void* memory : owned_) target_.free(memory);
  }
  Result<void*> allocate(size_t bytes) {
    TW_ASSIGN_OR_RETURN(void* memory, target_.allocate(std::max<size_t>(bytes, 1), 64));
    owned_.push_back(memory);
    return memory;
  }

 private:
  const Target& target_;
  std::vector<void*> owned_;
};

// Without the guard of the host's buffers: the device's memory has its own.
size_t device_bytes(const std::vector<unsigned char>& buffer) {
  return buffer.size() >= kGuard ? buffer.size() - kGuard : buffer.size();
}

Status run_blocks(const Target& target, const CompiledTile& code, TileRun& run) {
  DeviceMemory memory(target);
  std::vector<void*> buffers;
  for (std::vector<unsigned char>& buffer : run.buffers) {
    TW_ASSIGN_OR_RETURN(void* device, memory.allocate(device_bytes(buffer)));
    TW_RETURN_IF_ERROR(
        target.copy(device, buffer.data(), device_bytes(buffer), CopyKind::HostToDevice, nullptr));
    buffers.push_back(device);
  }
  LaunchRequest request;
  request.entry = reinterpret_cast<void*>(code.function);
  request.name = "test";
  request.buffers = buffers;
  request.scalars = run.scalars;
  request.grid = run.instances;
  request.blocks = std::max<int64_t>(1, (run.instances + 1) / 2);  // blocks walk over more than one instance
  request.threads_per_block = code.threads_per_block;
  request.shared_bytes = code.shared_bytes;
  if (code.scratch_bytes > 0) {
    TW_ASSIGN_OR_RETURN(request.scratch,
                        memory.allocate(static_cast<size_t>(code.scratch_bytes * request.blocks)));
  }
  TW_RETURN_IF_ERROR(target.launch(request));
  TW_RETURN_IF_ERROR(target.synchronize(nullptr));
  for (size_t i = 0; i < buffers.size(); ++i) {
    std::vector<unsigned char>& buffer = run.buffers[i];
    TW_RETURN_IF_ERROR(
        target.copy(buffer.data(), buffers[i], device_bytes(buffer), CopyKind::DeviceToHost, nullptr));
  }
  return Status::ok();
}

}  // namespace

Status run_compiled(const Target& target, const CompiledTile& code, TileRun& run) {
  if (code.threads_per_block > 0) return run_blocks(target, code, run);
  std::unique_ptr<void, decltype(&std::free)> scratch(
      std::aligned_alloc(64, static_cast<size_t>((code.scratch_bytes + 127) / 64 * 64)), &std::free);
  code.function(run.pointers().data(), run.scalars.data(), 0, run.instances, scratch.get());
  return Status::ok();
}

Difference compare_runs(const tile::Kernel& kernel, const TileRun& got, const TileRun& want) {
  Difference worst;
  for (size_t p = 0; p < kernel.params.size(); ++p) {
    DType dtype = kernel.params[p].dtype;
    size_t bytes = static_cast<size_t>(dtype_bytes(dtype));
    size_t count = (want.buffers[p].size() - kGuard) / bytes;
    for (size_t i = 0; i < count; ++i) {
      Scalar a = load_scalar(dtype, &got.buffers[p][i * bytes]),
             b = load_scalar(dtype, &want.buffers[p][i * bytes]);
      double error = a.i == b.i ? 0 : std::fabs(static_cast<double>(a.i - b.i));
      if (is_floating(dtype)) {
        bool same = a.f == b.f || (std::isnan(a.f) && std::isnan(b.f));
        error = same ? 0 : std::fabs(a.f - b.f) / (1 + std::fabs(b.f));
      }
      if (!(error <= worst.error)) {
        worst = {error, cat(kernel.params[p].name, "[", i, "]: got ", a.f + static_cast<double>(a.i),
                            ", expected ", b.f + static_cast<double>(b.i))};
        if (std::isnan(error)) return worst;
      }
    }
    for (size_t i = want.buffers[p].size() - kGuard; i < want.buffers[p].size(); ++i) {
      if (got.buffers[p][i] != 0xA5) return {1e30, cat(kernel.params[p].name, ": written behind its end")};
    }
  }
  return worst;
}

std::string check_tile(const tile::Kernel& kernel, const std::map<std::string, int64_t>& symbols,
                       double tolerance, int64_t integers) {
  Result<TileRun> start = prepare_run(kernel, symbols, 1, integers);
  if (!start.is_ok()) return start.status().to_string();
  TileRun want = *start;
  std::vector<void*> pointers = want.pointers();
  Status interpreted = tile::interpret(kernel, pointers, want.scalars, 0, want.instances);
  if (!interpreted.is_ok()) return interpreted.to_string();
  std::vector<std::shared_ptr<Target>> targets = runnable_targets();
  Result<std::shared_ptr<Target>> simulated = create_target("simt");
  if (!simulated.is_ok()) return simulated.status().to_string();
  if ((*simulated)->info().is_runnable()) targets.push_back(*simulated);
  for (const std::shared_ptr<Target>& target : targets) {
    TileRun got = *start;
    Result<CompiledTile> code = compile_tile(*target, kernel);
    if (!code.is_ok()) return cat(target->info().name, ": ", code.status().to_string());
    Status ran = run_compiled(*target, *code, got);
    if (!ran.is_ok()) return cat(target->info().name, ": ", ran.to_string());
    Difference difference = compare_runs(kernel, got, want);
    if (!(difference.error <= tolerance)) {
      return cat(target->info().name, ": off by ", difference.error, " at ", difference.where);
    }
  }
  return {};
}

}  // namespace tilewright
