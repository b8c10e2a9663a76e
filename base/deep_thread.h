// DeepThread: a thread of ours inside a host: stack enough for deep graphs, none of the host's signals.
#pragma once

#include <pthread.h>

#include <functional>
#include <optional>

namespace tilewright {

// To be joined or detached exactly once.
class DeepThread {
 public:
  // Runs `body`, which may not throw, on a new thread with a 16 MB stack.  Nothing when the system has no
  // thread to give: the caller does the work itself.
  static std::optional<DeepThread> start(std::function<void()> body);

  void join() { pthread_join(thread_, nullptr); }
  void detach() { pthread_detach(thread_); }

 private:
  explicit DeepThread(pthread_t thread) : thread_(thread) {}
  pthread_t thread_;
};

}  // namespace tilewright
