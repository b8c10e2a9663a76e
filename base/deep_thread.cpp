// Starting threads with their own attributes and signal mask.
#include "base/deep_thread.h"

#include <signal.h>

#include <memory>

namespace tilewright {
namespace {

constexpr size_t kStackBytes = size_t{16} << 20;

void* thread_main(void* argument) {
  std::unique_ptr<std::function<void()>> body(static_cast<std::function<void()>*>(argument));
  (*body)();
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

std::optional<DeepThread> DeepThread::start(std::function<void()> body) {
  auto argument = std::make_unique<std::function<void()>>(std::move(body));
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return std::nullopt;
  pthread_attr_setstacksize(&attributes, kStackBytes);
  sigset_t blocked = asynchronous_signals(), previous;
  pthread_sigmask(SIG_BLOCK, &blocked, &previous);
  pthread_t thread;
  const int error = pthread_create(&thread, &attributes, thread_main, argument.get());
  pthread_sigmask(SIG_SETMASK, &previous, nullptr);
  pthread_attr_destroy(&attributes);
  if (error != 0) return std::nullopt;
  (void)argument.release();
  return DeepThread(thread);
}

}  // namespace tilewright
