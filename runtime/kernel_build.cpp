// Building the kernels of a program.
#include "runtime/kernel_build.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <map>

#include "base/build_id.h"
#include "base/cpu_count.h"
#include "base/deep_thread.h"
#include "base/log.h"
#include "base/text.h"
#include "codegen/emit/emit.h"

namespace tilewright {

namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

constexpr const char* kEntry = "kernel";

CompileOptions compile_options() {
  CompileOptions options;
  options.ir_passes = IrPasses::Lean;  // the emitter leaves registers to SROA and invariants to LICM
  return options;
}

// Payload of a cached kernel: what a launch needs to know, then the object.
struct LaunchFacts {
  int64_t scratch_bytes, threads_per_block, shared_bytes;
};

std::string pack(const KernelArtifact& artifact) {
  const LaunchFacts facts{artifact.scratch_bytes, artifact.threads_per_block, artifact.shared_bytes};
  std::string bytes(sizeof facts, '\0');
  std::memcpy(bytes.data(), &facts, sizeof facts);
  return bytes + artifact.object;
}

bool unpack(const std::string& bytes, KernelArtifact* artifact) {
  LaunchFacts facts;
  if (bytes.size() <= sizeof facts) return false;
  std::memcpy(&facts, bytes.data(), sizeof facts);
  artifact->scratch_bytes = facts.scratch_bytes;
  artifact->threads_per_block = static_cast<int32_t>(facts.threads_per_block);
  artifact->shared_bytes = facts.shared_bytes;
  artifact->object = bytes.substr(sizeof facts);
  return facts.scratch_bytes >= 0 && facts.threads_per_block >= 0 && facts.shared_bytes >= 0;
}

// One kernel on its way: equal kernels of a program share one.
struct Job {
  const tile::Kernel* kernel = nullptr;
  KernelArtifact artifact;
  LoadedKernel loaded;
  Status status;
  double emit_seconds = 0, compile_seconds = 0, load_seconds = 0;
  std::string llvm_text, asm_text;
};

Status compile_kernel(const Session& session, const BuildSettings& settings, Job& job) {
  const auto start = Clock::now();
  EmitOptions emit_options;
  emit_options.fused_precision = settings.fused_precision;
  emit_options.fast_precision = settings.fast_precision;
  EmittedKernel code;
  TW_RETURN_IF_ERROR(session.target().guard([&] {
    TW_ASSIGN_OR_RETURN(code, emit_kernel(*job.kernel, session.target().info().limits, emit_options));
    return Status::ok();
  }));
  job.emit_seconds = seconds_since(start);
  const auto compile_start = Clock::now();
  CompileOptions options = compile_options();
  if (settings.keep_llvm) options.llvm_text = &job.llvm_text;
  if (settings.keep_asm) options.asm_text = &job.asm_text;
  job.artifact.scratch_bytes = code.scratch_bytes;
  job.artifact.threads_per_block = code.threads_per_block;
  job.artifact.shared_bytes = code.shared_bytes;
  if (!session.target().info().is_host_callable() && code.threads_per_block == 0)
    return Status::unimplemented("the emitter makes no code for blocks of threads of this kernel");
  Result<std::string> object = session.target().compile(std::move(code.module), options);
  if (!object.is_ok()) return object.status();
  job.artifact.object = std::move(object).value();
  job.compile_seconds = seconds_since(compile_start);
  return Status::ok();
}

// perf names code by /tmp/perf-<pid>.map: address, size and name of each function.
void tell_debuggers(const Session& session, const Job& job) {
  for (const std::string& tool : session.flags().words(Flag::jit_debug)) {
    if (tool != "perf") {
      TW_LOG_ONCE(Runtime, Warn, "jit_debug: ", tool, " has no effect: kernels carry no debug information");
      continue;
    }
    const std::string path = cat("/tmp/perf-", getpid(), ".map");
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    char place[64];
    std::snprintf(place, sizeof place, "%lx %lx",
                  static_cast<unsigned long>(reinterpret_cast<uintptr_t>(job.loaded.entry)),
                  static_cast<unsigned long>(job.loaded.code_bytes));
    const std::string line =
        cat(place, " tilewright::", job.kernel ? job.kernel->name : job.loaded.key, "\n");
    if (fd < 0 || write(fd, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
      TW_LOG_ONCE(Runtime, Warn, "jit_debug: cannot write ", path);
    if (fd >= 0) close(fd);
  }
}

void adopt(Job& job, std::shared_ptr<const LoadedCode> code, std::string_view symbol) {
  job.artifact.entry = kEntry;
  job.loaded.code = std::move(code);
  job.loaded.entry = job.loaded.code->symbol(symbol);
  job.loaded.scratch_bytes = job.artifact.scratch_bytes;
  job.loaded.threads_per_block = job.artifact.threads_per_block;
  job.loaded.shared_bytes = job.artifact.shared_bytes;
  job.loaded.code_bytes = static_cast<int64_t>(job.loaded.code->code_bytes());
  job.loaded.key = job.artifact.key.to_hex();
}

// Where code cannot run, compiling it is all that is asked for: its text is wanted.
Status load_kernel(const Session& session, Job& job) {
  if (!session.target().info().is_runnable()) return Status::ok();
  const auto start = Clock::now();
  TW_ASSIGN_OR_RETURN(std::shared_ptr<const LoadedCode> code,
                      session.target().load(job.artifact.object, std::vector<std::string>{kEntry}));
  adopt(job, std::move(code), kEntry);
  job.load_seconds = seconds_since(start);
  tell_debuggers(session, job);
  return Status::ok();
}

// Kernels of one module: enough to share what a module costs, few enough that a refused one costs little.
constexpr size_t kBatch = 48;

// Loads the jobs as one module; its bytes come from the cache where they are there.
Status load_batch(Session& session, Cache* cache, std::span<Job* const> jobs) {
  const Target& target = session.target();
  std::vector<std::string_view> objects;
  std::vector<std::string> names;
  std::string key_text = cat(build_id(), "\n", target.link_identity());
  for (Job* job : jobs) {
    objects.push_back(job->artifact.object);
    names.push_back(cat("k", job->artifact.key.to_hex()));
    key_text += cat("\n", names.back());
  }
  const Hash128 key = hash_bytes(key_text);
  std::optional<std::string> bytes = cache ? cache->get(CacheKind::Linked, key) : std::nullopt;
  if (!bytes) {
    TW_ASSIGN_OR_RETURN(bytes, target.link(objects, kEntry, names));
    if (cache) cache->put(CacheKind::Linked, key, *bytes);
  }
  TW_ASSIGN_OR_RETURN(std::shared_ptr<const LoadedCode> code, target.load(*bytes, names));
  for (size_t i = 0; i < jobs.size(); ++i) adopt(*jobs[i], code, names[i]);
  return Status::ok();
}

// Every job that was compiled; one by one where a batch is refused, so that only the kernel at fault is lost.
void load_jobs(Session& session, Cache* cache, const std::vector<Job*>& jobs) {
  std::vector<Job*> waiting;
  for (Job* job : jobs)
    if (job->status.is_ok() && !job->loaded.code) waiting.push_back(job);
  for (size_t at = 0; at < waiting.size(); at += kBatch) {
    const std::span<Job* const> batch =
        std::span<Job* const>(waiting).subspan(at, std::min(kBatch, waiting.size() - at));
    const auto start = Clock::now();
    const Status status = session.target().links() ? load_batch(session, cache, batch)
                                                   : Status::unimplemented("kernels are loaded one by one");
    batch.front()->load_seconds += seconds_since(start);
    if (status.is_ok()) continue;
    if (session.target().links())
      TW_LOG(Runtime, Warn, "kernels are loaded one by one: ", status.to_string());
    for (Job* job : batch) job->status = load_kernel(session, *job);
  }
}

// Worth telling later processes: the kernel is at fault, not the moment.
bool is_lasting(const Status& failure) {
  switch (failure.code()) {
    case Code::ResourceExhausted:
    case Code::Cancelled:
    case Code::DeadlineExceeded:
    case Code::Aborted:
    case Code::Unavailable: return false;
    default: return true;
  }
}

void build(Session& session, Cache* cache, const BuildSettings& settings, Job& job) {
  const bool always = settings.keep_llvm || settings.keep_asm;
  if (cache && !always) {
    const int64_t disk_before = cache->stats().disk_hits;
    std::optional<std::string> bytes = cache->get(CacheKind::Kernel, job.artifact.key);
    if (bytes && unpack(*bytes, &job.artifact)) {
      job.loaded.origin = cache->stats().disk_hits > disk_before ? KernelOrigin::Disk : KernelOrigin::Memory;
      if (session.target().links()) return;
      job.status = load_kernel(session, job);
      if (job.status.is_ok()) return;
    }
    std::optional<std::string> failure = cache->get(CacheKind::Failure, job.artifact.key);
    if (failure) {
      job.status = Status(Code::Unavailable, cat("failed before: ", *failure));
      return;
    }
  }
  // One compile cannot be stopped once it runs, and its time is no fault of the kernel's: nothing is
  // recorded.
  job.status = settings.stop ? settings.stop() : Status::ok();
  if (!job.status.is_ok()) return;
  job.status = compile_kernel(session, settings, job);
  if (!job.status.is_ok()) {
    if (cache && is_lasting(job.status))
      cache->put(CacheKind::Failure, job.artifact.key, job.status.to_string());
    return;
  }
  if (cache) cache->put(CacheKind::Kernel, job.artifact.key, pack(job.artifact));
  job.loaded.origin = KernelOrigin::Compiled;
  job.loaded.compile_seconds = job.emit_seconds + job.compile_seconds;
  if (!session.target().links()) job.status = load_kernel(session, job);
}

// Runs all jobs on at most `threads` threads, the caller's among them; on fewer where the system has no more.
void run_jobs(std::vector<Job*>& jobs, int threads, const std::function<void(Job&)>& work) {
  std::atomic<size_t> next{0};
  auto drain = [&] {
    for (size_t at = next.fetch_add(1); at < jobs.size(); at = next.fetch_add(1)) {
      try {
        work(*jobs[at]);
      } catch (const std::bad_alloc&) {
        jobs[at]->status = Status::exhausted("out of memory");
      } catch (const std::exception& error) {
        jobs[at]->status = Status::internal(error.what());
      }
    }
  };
  std::vector<DeepThread> helpers;
  helpers.reserve(static_cast<size_t>(std::max(threads, 1)));
  for (int i = 1; i < threads && i < static_cast<int>(jobs.size()); ++i) {
    std::optional<DeepThread> helper = DeepThread::start(drain);
    if (!helper) break;
    helpers.push_back(*helper);
  }
  drain();
  for (DeepThread& helper : helpers) helper.join();
}

}  // namespace

BuildSettings build_settings(const Session& session, const Flags& flags) {
  BuildSettings settings;
  settings.options = cat(flags.cache_key_text(), " ", compile_options().key_text());
  settings.target = session.target().info().cache_identity;
  settings.limits = session.target().info().limits.to_text();
  settings.build_id = build_id();
  settings.fast_precision = flags.is(Flag::precision, "fast");
  settings.fused_precision = settings.fast_precision || flags.is(Flag::precision, "fused");
  return settings;
}

Result<BuiltKernels> build_kernels(Session& session, Program& program, const BuildSettings& settings,
                                   CompileRecord& record) {
  std::map<Hash128, Job> jobs;
  std::vector<Job*> order, of_kernel;
  for (const KernelEntry& entry : program.kernels) {
    const Hash128 key =
        kernel_key(entry.kernel, settings.options, settings.target, settings.limits, settings.build_id);
    auto [job, fresh] = jobs.try_emplace(key);
    if (fresh) {
      job->second.kernel = &entry.kernel;
      job->second.artifact.key = key;
      order.push_back(&job->second);
    }
    of_kernel.push_back(&job->second);
  }
  Cache* cache = settings.build_id.empty() ? nullptr : session.cache();
  int threads = static_cast<int>(session.flags().integer(Flag::compile_threads));
  if (threads <= 0) threads = session.thread_count();
  run_jobs(order, threads, [&](Job& job) { build(session, cache, settings, job); });
  if (session.target().links()) load_jobs(session, cache, order);
  BuiltKernels built;
  for (Job* job : order)
    if (job->status.code() == Code::Cancelled) return job->status;
  for (Job* job : order) {
    record.emit_seconds += job->emit_seconds;
    record.compile_seconds += job->compile_seconds;
    record.load_seconds += job->load_seconds;
    if (!job->llvm_text.empty())
      built.dumps.emplace_back("llvm", cat("; kernel @", job->kernel->name, "\n", job->llvm_text));
    if (!job->asm_text.empty())
      built.dumps.emplace_back("asm", cat("# kernel @", job->kernel->name, "\n", job->asm_text));
  }
  for (size_t i = 0; i < of_kernel.size(); ++i) {
    Job& job = *of_kernel[i];
    built.artifacts.push_back(job.artifact);
    built.loaded.push_back(job.loaded);
    if (job.status.is_ok()) {
      switch (job.loaded.origin) {
        case KernelOrigin::Memory: session.counters().kernel_hits_memory += 1; break;
        case KernelOrigin::Disk: session.counters().kernel_hits_disk += 1; break;
        default: session.counters().kernel_misses += 1; break;
      }
      continue;
    }
    const KernelEntry& entry = program.kernels[i];
    TW_LOG(Runtime, Warn, "kernel @", entry.kernel.name, " (", entry.description,
           ") is interpreted: ", job.status.to_string());
    Fallback fallback;
    fallback.node = entry.nodes.empty() ? 0 : entry.nodes[0];
    fallback.op = Op::Call;
    fallback.reason = FallbackReason::CompileFailed;
    fallback.sentence = cat("kernel of ", entry.description, " did not compile: ", job.status.message());
    program.fallbacks.push_back(std::move(fallback));
  }
  return built;
}

Result<std::vector<LoadedKernel>> load_image_kernels(Session& session, const Image& image,
                                                     KernelOrigin origin) {
  std::map<Hash128, Job> jobs;
  std::vector<Job*> order;
  for (const KernelArtifact& artifact : image.kernels) {
    auto [known, fresh] = jobs.try_emplace(artifact.key);
    if (!fresh) continue;
    if (artifact.object.empty()) return Status(Code::DataLoss, "image without the object of a kernel");
    known->second.artifact = artifact;
    known->second.loaded.origin = origin;
    order.push_back(&known->second);
  }
  load_jobs(session, session.cache(), order);
  std::vector<LoadedKernel> all;
  for (const KernelArtifact& artifact : image.kernels) {
    const Job& job = jobs.at(artifact.key);
    TW_RETURN_IF_ERROR(job.status);
    all.push_back(job.loaded);
  }
  return all;
}

}  // namespace tilewright
