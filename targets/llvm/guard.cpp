// The process-wide fatal-error handler of our private LLVM, and the thread that compiles run on.
#include "targets/llvm/guard.h"

#include <llvm/Support/ErrorHandling.h>
#include <pthread.h>
#include <signal.h>

#include <mutex>
#include <new>
#include <string>

#include "base/text.h"

namespace tilewright {
namespace {

struct FatalError {
  std::string reason;
};

thread_local int guard_depth = 0;

// LLVM aborts when this returns, so that outside a guard nothing changes.
void on_fatal_error(void*, const char* reason, bool) {
  if (guard_depth > 0) throw FatalError{reason};
}

void on_bad_alloc(void*, const char*, bool) {
  if (guard_depth > 0) throw std::bad_alloc();
}

void install_handlers() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::remove_fatal_error_handler();
    llvm::install_fatal_error_handler(on_fatal_error);
    llvm::remove_bad_alloc_error_handler();
    llvm::install_bad_alloc_error_handler(on_bad_alloc);
  });
}

// LLVM ends some of its messages in a full stop or a line break; ours have neither.
std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '.' || text.back() == ' ')) text.pop_back();
  return text;
}

struct ThreadJob {
  const std::function<Status()>* body;
  GuardOutcome outcome;
};

void* thread_main(void* argument) {
  auto* job = static_cast<ThreadJob*>(argument);
  job->outcome = run_guarded(*job->body);
  return nullptr;
}

// The host's signals are for the host's threads; faults of our own code still arrive.
sigset_t asynchronous_signals() {
  sigset_t set;
  sigfillset(&set);
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, SIGPROF})
    sigdelset(&set, signal);
  return set;
}

}  // namespace

GuardOutcome run_guarded(const std::function<Status()>& body) {
  install_handlers();
  GuardOutcome outcome;
  ++guard_depth;
  try {
    outcome.status = body();
  } catch (const FatalError& error) {
    outcome = {Status::internal(cat("fatal error in LLVM: ", trimmed(error.reason))), true};
  } catch (const std::bad_alloc&) {
    outcome = {Status::exhausted("out of memory in LLVM"), true};
  } catch (const std::exception& error) {
    outcome = {Status::internal(cat("exception in LLVM: ", error.what())), true};
  }
  --guard_depth;
  return outcome;
}

GuardOutcome run_guarded_on_deep_stack(const std::function<Status()>& body) {
  constexpr size_t kStackBytes = 16 << 20;
  ThreadJob job{&body, {}};
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  sigset_t blocked = asynchronous_signals(), previous;
  pthread_sigmask(SIG_BLOCK, &blocked, &previous);
  pthread_t thread;
  int error = pthread_create(&thread, &attributes, thread_main, &job);
  pthread_sigmask(SIG_SETMASK, &previous, nullptr);
  pthread_attr_destroy(&attributes);
  if (error != 0) return run_guarded(body);  // no thread to be had: the caller's stack has to do
  pthread_join(thread, nullptr);
  return std::move(job.outcome);
}

}  // namespace tilewright
