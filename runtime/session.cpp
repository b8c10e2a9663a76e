// Creation of sessions, their cache and their report.
#include "runtime/session.h"

#include "base/build_id.h"
#include "base/cpu_count.h"
#include "base/json.h"
#include "base/log.h"
#include "codegen/passes.h"

namespace tilewright {

Result<std::shared_ptr<Session>> Session::create(Flags flags, HostServices services) {
  if (static_cast<bool>(services.allocator.allocate) != static_cast<bool>(services.allocator.deallocate))
    return Status::invalid("host services: allocate and deallocate must be given together");
  if (services.parallel_for && services.thread_count < 1)
    return Status::invalid(
        cat("host services: thread_count is ", services.thread_count, ", expected 1 or more"));
  TW_RETURN_IF_ERROR(check_stages(flags.words(Flag::dump)));
  TW_RETURN_IF_ERROR(check_skipped(flags.words(Flag::skip)));
  LogSettings log;
  log.levels = flags.text(Flag::log);
  log.file = flags.text(Flag::log_file);
  log.json = flags.is(Flag::log_format, "json");
  TW_RETURN_IF_ERROR(configure_log(log));

  std::shared_ptr<Session> session(new Session(std::move(flags), services));
  TW_ASSIGN_OR_RETURN(session->target_, create_target(session->flags_.text(Flag::target)));
  services.allocator.context = services.context;
  session->memory_ = Memory::create(services.allocator);
  const TargetInfo& info = session->target_->info();
  if (!info.is_host_callable() && info.is_runnable())
    session->device_ = std::make_unique<Device>(session->target_);
  session->thread_count_ =
      services.parallel_for ? services.thread_count
                            : choose_thread_count(static_cast<int>(session->flags_.integer(Flag::threads)));
  if (!services.parallel_for) session->pool_ = std::make_unique<ThreadPool>(session->thread_count_);
  TW_LOG(Runtime, Info, "session: target ", session->target_->info().name, ", ", session->thread_count_,
         " threads");
  return session;
}

void Session::parallel_for(int64_t count, int64_t max_chunk, LoopBody body) {
  if (!services_.parallel_for) return pool_->parallel_for(count, max_chunk, body);
  const auto trampoline = [](void* context, int64_t begin, int64_t end, int32_t worker) {
    (*static_cast<LoopBody*>(context))(begin, end, worker);
  };
  services_.parallel_for(services_.context, count, max_chunk, trampoline, &body);
}

Cache* Session::cache() {
  {
    std::lock_guard lock(cache_mutex_);
    if (cache_opened_) return cache_.get();
  }
  // Opened without the lock: it logs, and the host's log callback may ask for the report.  Of two threads
  // that get here one opens in vain.
  CacheOptions options;
  options.directory = flags_.text(Flag::cache_dir);
  options.compiler_identity = build_id();
  options.target = target_->info().cache_identity;
  Result<CacheMode> mode = parse_cache_mode(flags_.text(Flag::cache));
  if (mode.is_ok()) options.mode = *mode;
  Result<std::unique_ptr<Cache>> opened = Cache::open(std::move(options));
  if (!opened.is_ok()) TW_LOG(Runtime, Warn, "no cache: ", opened.status().to_string());
  std::lock_guard lock(cache_mutex_);
  if (cache_opened_) return cache_.get();
  cache_opened_ = true;
  if (opened.is_ok()) {
    cache_ = std::move(opened).value();
  } else {
    cache_reason_ = opened.status().to_string();
  }
  return cache_.get();
}

std::string Session::cache_reason() {
  Cache* opened = cache();
  if (opened) return opened->disabled_reason();
  std::lock_guard lock(cache_mutex_);
  return cache_reason_;
}

CacheStats Session::cache_stats() {
  std::lock_guard lock(cache_mutex_);
  return cache_ ? cache_->stats() : CacheStats();
}

std::string Session::report_json() {
  JsonWriter json;
  const TargetInfo& target = target_->info();
  json.begin_object().field("version", library_version()).field("build_id", build_id());
  json.field("target", target.name).field("isa", target.isa).field("threads", thread_count_);
  json.key("options").begin_object();
  for (const FlagInfo& info : all_flags())
    if (flags_.origin(info.flag) != FlagOrigin::Default) json.field(info.name, flags_.text(info.flag));
  json.end_object();
  json.field("graphs_compiled", counters_.graphs_compiled.load());
  json.field("fallback_nodes", counters_.fallback_nodes.load());
  json.field("compile_seconds", 1e-9 * static_cast<double>(counters_.compile_nanoseconds.load()));
  json.field("runs", counters_.runs.load()).field("run_errors", counters_.run_errors.load());
  json.field("run_seconds", 1e-9 * static_cast<double>(counters_.run_nanoseconds.load()));
  json.field("input_copies", counters_.input_copies.load());
  json.field("output_copies", counters_.output_copies.load());
  const MemoryStats memory = memory_->stats();
  json.key("memory").begin_object();
  json.field("bytes_fresh", memory.bytes_fresh).field("bytes_recycled", memory.bytes_recycled);
  json.field("bytes_used", memory.bytes_used).field("bytes_idle", memory.bytes_idle);
  json.field("bytes_peak", memory.bytes_peak).end_object();
  json.key("cache").begin_object();
  json.field("kernel_hits_memory", counters_.kernel_hits_memory.load());
  json.field("kernel_hits_disk", counters_.kernel_hits_disk.load());
  json.field("kernel_misses", counters_.kernel_misses.load());
  json.field("graph_hits_memory", counters_.graph_hits_memory.load());
  json.field("graph_hits_disk", counters_.graph_hits_disk.load());
  json.field("graph_misses", counters_.graph_misses.load());
  const CacheStats stats = cache_stats();
  json.field("faults", stats.fault_total()).field("writes", stats.writes);
  json.field("bytes_read", stats.bytes_read).field("bytes_written", stats.bytes_written);
  std::unique_lock lock(cache_mutex_);
  if (cache_)
    json.field("directory", cache_->directory()).field("disabled_reason", cache_->disabled_reason());
  json.end_object().end_object();
  return std::move(json).text();
}

}  // namespace tilewright
