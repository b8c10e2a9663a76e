// The process-wide fatal-error handler of our private LLVM, and the thread that compiles run on.
#include "targets/llvm/guard.h"

#include <llvm/Support/ErrorHandling.h>

#include <mutex>
#include <new>
#include <string>

#include "base/deep_thread.h"
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
  GuardOutcome outcome;
  std::optional<DeepThread> thread = DeepThread::start([&] { outcome = run_guarded(body); });
  if (!thread) return run_guarded(body);  // no thread to be had: the caller's stack has to do
  thread->join();
  return outcome;
}

}  // namespace tilewright
