// ForkMutex: a leaf lock that a forked child finds unlocked, whatever other threads of the parent were doing.
#pragma once

#include <mutex>

namespace tilewright {

// Held for short, never while another ForkMutex is taken: fork() takes all of them at once.
class ForkMutex {
 public:
  ForkMutex();
  ~ForkMutex();
  ForkMutex(const ForkMutex&) = delete;
  ForkMutex& operator=(const ForkMutex&) = delete;

  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }
  bool try_lock() { return mutex_.try_lock(); }

 private:
  friend struct ForkMutexRegistry;
  std::mutex mutex_;
  ForkMutex* next_ = nullptr;
  ForkMutex* previous_ = nullptr;
};

}  // namespace tilewright
