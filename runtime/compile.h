// compile(): a graph becomes an executable, on a thread with a stack of its own.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "runtime/executable.h"

namespace tilewright {

struct CompileRequest {
  std::vector<std::pair<std::string, std::string>> options;  // session options overridden for this executable
  double timeout_seconds = 0;                                // 0: the session's
  std::vector<std::string> stages;                           // kept as text for Executable::dump
};

// Runs beside its caller once started.  Thread-safe.
class CompileJob {
 public:
  static Result<std::shared_ptr<CompileJob>> start(std::shared_ptr<Session> session, Graph graph,
                                                   CompileRequest request);

  // Waits at most `seconds`, for ever when negative; DeadlineExceeded while it runs.
  Result<std::shared_ptr<Executable>> wait(double seconds);
  void cancel() { cancelled_ = true; }
  bool is_cancelled() const { return cancelled_; }
  // Drops the outcome; nobody waits any more.
  void forget();

 private:
  struct Outcome;
  CompileJob() = default;
  void work();

  std::shared_ptr<Session> session_;
  Graph graph_;
  CompileRequest request_;
  pid_t process_ = 0;  // that compiles
  std::atomic<bool> cancelled_{false};
  std::mutex mutex_;
  std::condition_variable done_condition_;
  bool done_ = false;
  Status status_;
  std::shared_ptr<Executable> executable_;
};

// Starts a job and waits for it.
Result<std::shared_ptr<Executable>> compile(std::shared_ptr<Session> session, Graph graph,
                                            CompileRequest request);

}  // namespace tilewright
