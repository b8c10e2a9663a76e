// Options of a compile, its thread, and the steps from graph to executable.
#include "runtime/compile.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/deep_thread.h"
#include "base/float_environment.h"
#include "base/log.h"
#include "codegen/passes.h"
#include "ir/verifier.h"
#include "runtime/eager_program.h"
#include "runtime/kernel_build.h"
#include "runtime/override.h"

namespace tilewright {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Options that say how one graph is compiled and run; the others belong to the session.
bool is_graph_option(Flag flag) {
  switch (flag) {
    case Flag::mode:
    case Flag::fallback:
    case Flag::precision:
    case Flag::tune:
    case Flag::dump:
    case Flag::dump_dir:
    case Flag::override_dir:
    case Flag::check:
    case Flag::profile:
    case Flag::verify_ir:
    case Flag::skip:
    case Flag::fuel:
    case Flag::compile_timeout: return true;
    default: return false;
  }
}

Result<Flags> effective_flags(const Session& session, const CompileRequest& request) {
  Flags flags = session.flags();
  for (const auto& [name, value] : request.options) {
    const FlagInfo* info = find_flag(name);
    if (!info) return Status::invalid(cat("compile: no option ", name));
    if (!is_graph_option(info->flag))
      return Status::invalid(
          cat("compile: option ", name, " belongs to the session, expected one of a graph"));
    TW_RETURN_IF_ERROR(flags.set(name, value));
  }
  TW_RETURN_IF_ERROR(check_stages(flags.words(Flag::dump)));
  TW_RETURN_IF_ERROR(check_stages(request.stages));
  TW_RETURN_IF_ERROR(check_skipped(flags.words(Flag::skip)));
  if (flags.is(Flag::mode, "async"))
    TW_LOG_ONCE(Runtime, Warn, "mode async has no effect yet: graphs are compiled before they run");
  return flags;
}

PlanOptions plan_options(const Flags& flags) {
  PlanOptions options;
  if (flags.is(Flag::precision, "fused")) options.precision = PlanOptions::Precision::Fused;
  if (flags.is(Flag::precision, "fast")) options.precision = PlanOptions::Precision::Fast;
  options.skip_passes = flags.words(Flag::skip);
  options.fuel = flags.integer(Flag::fuel);
  options.verify_level = static_cast<int>(flags.integer(Flag::verify_ir));
  return options;
}

// Stages that somebody wants as text: of this request, and those that go to files.
std::vector<std::string> wanted_stages(const Flags& flags, const CompileRequest& request) {
  std::vector<std::string> stages = flags.words(Flag::dump);
  stages.insert(stages.end(), request.stages.begin(), request.stages.end());
  return stages;
}

bool wants(const std::vector<std::string>& stages, std::string_view stage) {
  return std::find(stages.begin(), stages.end(), stage) != stages.end();
}

void write_dumps(const Flags& flags, const std::string& graph, const CompileRecord& record) {
  const std::vector<std::string> stages = flags.words(Flag::dump);
  if (stages.empty()) return;
  std::error_code error;
  const std::filesystem::path folder(flags.text(Flag::dump_dir));
  std::filesystem::create_directories(folder, error);
  std::map<std::string, std::string> files;
  for (const auto& [stage, text] : record.dumps) {
    if (wants(stages, stage)) files[stage] += text;
  }
  for (const auto& [stage, text] : files) {
    std::string name = cat(graph, ".", stage, ".txt");
    std::replace(name.begin(), name.end(), ':', '-');
    std::ofstream file(folder / name, std::ios::binary);
    file << text;
    if (!file.flush()) TW_LOG_ONCE(Runtime, Warn, "cannot write dump ", (folder / name).string());
  }
}

// Why no further kernel is compiled: the job was cancelled or its time is over.
std::function<Status()> stop_condition(double seconds, std::chrono::steady_clock::time_point start,
                                       const std::atomic<bool>& cancelled) {
  return [=, &cancelled] {
    if (cancelled) return Status(Code::Cancelled, "compile was cancelled");
    if (seconds > 0 && seconds_since(start) > seconds)
      return Status(Code::DeadlineExceeded,
                    cat("the compile timeout of ", seconds, " s was over before it began"));
    return Status::ok();
  };
}

// The fallbacks of a program, judged by the policy.
Status judge_fallbacks(const Graph& graph, const Program& program, const Flags& flags) {
  if (program.fallbacks.empty() || flags.is(Flag::fallback, "allow")) return Status::ok();
  const Fallback& first = program.fallbacks[0];
  const std::string text =
      cat("graph @", graph.name, ": ", program.fallbacks.size(), " nodes are not compiled, the first ",
          op_name(first.op), ": ", first.sentence);
  if (flags.is(Flag::fallback, "error")) return Status::unimplemented(text).with_op(op_name(first.op));
  TW_LOG(Runtime, Warn, text);
  return Status::ok();
}

// Nothing is compiled for a target that does not run here: each node is a fallback, for that reason.
void list_all_as_fallbacks(const Graph& graph, const TargetInfo& target, Program& program) {
  for (uint32_t index = 0; index < graph.node_count(); ++index) {
    program.node_names.push_back(node_name(graph, NodeId{index}));
    const Op op = graph.node(NodeId{index}).op;
    if (op == Op::Constant) continue;
    program.fallbacks.push_back({index, op, FallbackReason::Disabled,
                                 cat("target ", target.name, " does not run here",
                                     target.host_reason.empty() ? "" : ": ", target.host_reason)});
  }
}

// Asked for by the mode, or all that the target leaves.
Result<std::shared_ptr<Executable>> compile_eagerly(const std::shared_ptr<Session>& session, Graph graph,
                                                    CompileRecord record, const Flags& flags) {
  const auto start = std::chrono::steady_clock::now();
  record.mode = "eager";
  TW_ASSIGN_OR_RETURN(Program program, plan_eager_program(graph));
  if (!flags.is(Flag::mode, "eager")) {
    list_all_as_fallbacks(graph, session->target().info(), program);
    TW_RETURN_IF_ERROR(judge_fallbacks(graph, program, flags));
    session->counters().fallback_nodes += static_cast<int64_t>(program.fallbacks.size());
  }
  record.plan_seconds = seconds_since(start);
  return Executable::create(session, std::move(graph), std::move(program), {}, std::move(record));
}

// The image of an earlier compile of the same graph, loaded; null when there is none that fits.
std::shared_ptr<Executable> find_image(const std::shared_ptr<Session>& session, const Graph& graph,
                                       const Hash128& key, CompileRecord record) {
  Cache* cache = session->cache();
  if (!cache) return nullptr;
  const auto start = std::chrono::steady_clock::now();
  const int64_t disk_before = cache->stats().disk_hits;
  std::optional<std::string> bytes = cache->get(CacheKind::Image, key);
  if (!bytes) return nullptr;
  const bool from_disk = cache->stats().disk_hits > disk_before;
  Result<Image> image = deserialize_image(*bytes, graph);
  if (!image.is_ok()) return nullptr;
  const KernelOrigin origin = from_disk ? KernelOrigin::Disk : KernelOrigin::Memory;
  Result<std::vector<LoadedKernel>> kernels = load_image_kernels(*session, *image, origin);
  if (!kernels.is_ok()) return nullptr;
  record.graph_cache_hit = true;
  record.load_seconds = seconds_since(start);
  const int64_t count = static_cast<int64_t>(kernels->size());
  (from_disk ? session->counters().graph_hits_disk : session->counters().graph_hits_memory) += 1;
  (from_disk ? session->counters().kernel_hits_disk : session->counters().kernel_hits_memory) += count;
  Result<std::shared_ptr<Executable>> made = Executable::create(
      session, graph, std::move(image->program), std::move(kernels).value(), std::move(record));
  return made.is_ok() ? std::move(made).value() : nullptr;
}

Result<std::shared_ptr<Executable>> compile_here(const std::shared_ptr<Session>& session, Graph graph,
                                                 const CompileRequest& request,
                                                 const std::atomic<bool>& cancelled) {
  const auto start = std::chrono::steady_clock::now();
  TW_ASSIGN_OR_RETURN(Flags flags, effective_flags(*session, request));
  TW_RETURN_IF_ERROR(verify(graph));
  const std::string& override_dir = flags.text(Flag::override_dir);
  bool edited_graph = false;
  if (!override_dir.empty()) {
    TW_ASSIGN_OR_RETURN(graph, override_graph(override_dir, std::move(graph), &edited_graph));
  }
  CompileRecord record;
  record.profile = flags.text(Flag::profile);
  record.precision = flags.text(Flag::precision);
  session->counters().graphs_compiled += 1;
  const TargetInfo& target = session->target().info();
  const std::vector<std::string> stages = wanted_stages(flags, request);
  // Where code cannot run, a stage of the compilation may still be looked at.
  const bool looks_only = !target.is_runnable() && !stages.empty() && !target.limits.triple.empty();
  if (flags.is(Flag::mode, "eager") || (!target.is_runnable() && !looks_only))
    return compile_eagerly(session, std::move(graph), std::move(record), flags);
  record.mode = "sync";
  record.check = flags.boolean(Flag::check);
  BuildSettings settings = build_settings(*session, flags);
  settings.stop = stop_condition(
      request.timeout_seconds > 0 ? request.timeout_seconds : flags.seconds(Flag::compile_timeout), start,
      cancelled);
  settings.keep_llvm = wants(stages, "llvm");
  settings.keep_asm = wants(stages, "asm");
  const Hash128 key = graph_key(graph, settings.options, settings.target, settings.limits, settings.build_id);
  record.graph_key = key.to_hex();
  // Edited tile programs are in no graph key.
  const bool cacheable = !settings.build_id.empty() && override_dir.empty();
  // A check needs the lowered graph, which images do not keep.
  if (cacheable && stages.empty() && !record.check && flags.is(Flag::fallback, "allow")) {
    if (std::shared_ptr<Executable> found = find_image(session, graph, key, record)) return found;
  }
  session->counters().graph_misses += 1;
  PlanOptions options = plan_options(flags);
  options.wants_dump = [&](const std::string& stage) { return wants(stages, stage); };
  options.dump = [&](const std::string& stage, const std::string& text) {
    record.dumps.emplace_back(stage, text);
  };
  if (record.check) options.lowered = std::make_shared<LoweredGraph>();
  TW_ASSIGN_OR_RETURN(Program program, plan_program(graph, session->target().info().limits, options));
  record.lowered = options.lowered;
  int edited_kernels = 0;
  if (!override_dir.empty()) TW_RETURN_IF_ERROR(override_kernels(override_dir, program, &edited_kernels));
  record.plan_seconds = seconds_since(start);
  if (wants(stages, "tile")) {
    for (const KernelEntry& entry : program.kernels)
      record.dumps.emplace_back("tile", tile::print(entry.kernel));
  }
  TW_ASSIGN_OR_RETURN(BuiltKernels built, build_kernels(*session, program, settings, record));
  record.dumps.insert(record.dumps.end(), built.dumps.begin(), built.dumps.end());
  write_dumps(flags, graph.name, record);
  if (looks_only) return compile_eagerly(session, std::move(graph), std::move(record), flags);
  TW_RETURN_IF_ERROR(judge_fallbacks(graph, program, flags));
  session->counters().fallback_nodes += static_cast<int64_t>(program.fallbacks.size());
  const bool complete = std::all_of(built.loaded.begin(), built.loaded.end(),
                                    [](const LoadedKernel& kernel) { return kernel.entry != nullptr; });
  if (cacheable && complete && session->cache()) {
    Image image{program, built.artifacts, {}};
    Result<std::string> bytes = serialize_image(image, graph);
    if (bytes.is_ok()) session->cache()->put(CacheKind::Image, key, *bytes);
  }
  record.total_seconds = seconds_since(start);
  session->counters().compile_nanoseconds += static_cast<int64_t>(record.total_seconds * 1e9);
  return Executable::create(session, std::move(graph), std::move(program), std::move(built.loaded),
                            std::move(record));
}

}  // namespace

// No exception may leave a thread of ours: it would end the host.
static Result<std::shared_ptr<Executable>> compile_or_fail(const std::shared_ptr<Session>& session,
                                                           Graph graph, const CompileRequest& request,
                                                           const std::atomic<bool>& cancelled) {
  try {
    return compile_here(session, std::move(graph), request, cancelled);
  } catch (const std::bad_alloc&) {
    return Status::exhausted("compile: out of memory");
  } catch (const std::exception& error) {
    return Status::internal(cat("compile: ", error.what()));
  }
}

void CompileJob::work() {
  const DefaultFloatEnvironment environment;
  Result<std::shared_ptr<Executable>> made =
      compile_or_fail(session_, std::move(graph_), request_, cancelled_);
  std::lock_guard lock(mutex_);
  if (cancelled_) {
    status_ = Status(Code::Cancelled, "compile was cancelled");
  } else if (made.is_ok()) {
    executable_ = std::move(made).value();
  } else {
    status_ = made.status();
  }
  session_.reset();
  done_ = true;
  done_condition_.notify_all();
}

Result<std::shared_ptr<CompileJob>> CompileJob::start(std::shared_ptr<Session> session, Graph graph,
                                                      CompileRequest request) {
  std::shared_ptr<CompileJob> job(new CompileJob);
  job->session_ = std::move(session);
  job->graph_ = std::move(graph);
  job->request_ = std::move(request);
  job->process_ = getpid();
  // Deep graphs recurse deeply in places: a host's thread may have far less stack.
  std::optional<DeepThread> thread = DeepThread::start([job] { job->work(); });
  if (thread) {
    thread->detach();
  } else {
    TW_LOG(Runtime, Warn, "no thread to compile on: compiling on the caller's");
    job->work();
  }
  return job;
}

Result<std::shared_ptr<Executable>> CompileJob::wait(double seconds) {
  // Fork copies no threads, and perhaps a lock that nobody will release.
  if (getpid() != process_)
    return Status(Code::Aborted, "compile: the job belongs to the process that this one was forked from");
  std::unique_lock lock(mutex_);
  const auto is_done = [this] { return done_; };
  if (seconds < 0) {
    done_condition_.wait(lock, is_done);
  } else if (!done_condition_.wait_for(lock, std::chrono::duration<double>(std::min(seconds, 1e9)),
                                       is_done)) {
    return Status(Code::DeadlineExceeded, cat("compile still runs after waiting ", seconds, " s"));
  }
  if (!status_.is_ok()) return status_;
  return executable_;
}

void CompileJob::forget() {
  std::lock_guard lock(mutex_);
  executable_.reset();
}

Result<std::shared_ptr<Executable>> compile(std::shared_ptr<Session> session, Graph graph,
                                            CompileRequest request) {
  TW_ASSIGN_OR_RETURN(std::shared_ptr<CompileJob> job,
                      CompileJob::start(std::move(session), std::move(graph), std::move(request)));
  Result<std::shared_ptr<Executable>> outcome = job->wait(-1);
  // The thread may still be about to drop its job: the executable must not live as long as that takes.
  job->forget();
  return outcome;
}

}  // namespace tilewright
