// Options of a compile, its thread, and the steps from graph to executable.
#include "runtime/compile.h"

#include <pthread.h>
#include <signal.h>

#include <chrono>

#include "base/float_environment.h"
#include "base/log.h"
#include "ir/verifier.h"
#include "runtime/eager_program.h"

namespace tilewright {
namespace {

// Deep graphs recurse deeply in places: a host's thread may have far less.
constexpr size_t kStackBytes = size_t{16} << 20;

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
  return flags;
}

Result<std::shared_ptr<Executable>> compile_here(const std::shared_ptr<Session>& session, Graph graph,
                                                 const CompileRequest& request) {
  const auto start = std::chrono::steady_clock::now();
  TW_ASSIGN_OR_RETURN(Flags flags, effective_flags(*session, request));
  TW_RETURN_IF_ERROR(verify(graph));
  CompileRecord record;
  record.mode = "eager";
  record.precision = flags.text(Flag::precision);
  TW_ASSIGN_OR_RETURN(Program program, plan_eager_program(graph));
  record.total_seconds = seconds_since(start);
  session->counters().graphs_compiled += 1;
  session->counters().compile_nanoseconds += static_cast<int64_t>(record.total_seconds * 1e9);
  return Executable::create(session, std::move(graph), std::move(program), {}, std::move(record));
}

}  // namespace

void CompileJob::work() {
  const DefaultFloatEnvironment environment;
  Result<std::shared_ptr<Executable>> made = compile_here(session_, std::move(graph_), request_);
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

void* CompileJob::thread_main(void* argument) {
  std::unique_ptr<std::shared_ptr<CompileJob>> job(static_cast<std::shared_ptr<CompileJob>*>(argument));
  (*job)->work();
  return nullptr;
}

Result<std::shared_ptr<CompileJob>> CompileJob::start(std::shared_ptr<Session> session, Graph graph,
                                                      CompileRequest request) {
  std::shared_ptr<CompileJob> job(new CompileJob);
  job->session_ = std::move(session);
  job->graph_ = std::move(graph);
  job->request_ = std::move(request);
  auto argument = std::make_unique<std::shared_ptr<CompileJob>>(job);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  // Signals are the host's business: its handlers do not run on our thread.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const int error = pthread_create(&thread, &attributes, thread_main, argument.get());
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  if (error != 0) {
    TW_LOG(Runtime, Warn, "no thread to compile on (error ", error, "): compiling on the caller's");
    job->work();
  } else {
    (void)argument.release();
  }
  return job;
}

Result<std::shared_ptr<Executable>> CompileJob::wait(double seconds) {
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

Result<std::shared_ptr<Executable>> compile(std::shared_ptr<Session> session, Graph graph,
                                            CompileRequest request) {
  TW_ASSIGN_OR_RETURN(std::shared_ptr<CompileJob> job,
                      CompileJob::start(std::move(session), std::move(graph), std::move(request)));
  return job->wait(-1);
}

}  // namespace tilewright
