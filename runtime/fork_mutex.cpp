// The list of all fork mutexes, and the handlers that hold them across fork().
#include "runtime/fork_mutex.h"

#include <pthread.h>

namespace tilewright {

struct ForkMutexRegistry {
  std::mutex mutex;
  ForkMutex* first = nullptr;

  // Leaked: handlers may run while the process exits.
  static ForkMutexRegistry& get() {
    static ForkMutexRegistry* registry = [] {
      auto* made = new ForkMutexRegistry;
      pthread_atfork(before_fork, after_fork, after_fork);
      return made;
    }();
    return *registry;
  }

  static void before_fork() {
    ForkMutexRegistry& registry = get();
    registry.mutex.lock();
    for (ForkMutex* each = registry.first; each; each = each->next_) each->mutex_.lock();
  }

  static void after_fork() {
    ForkMutexRegistry& registry = get();
    for (ForkMutex* each = registry.first; each; each = each->next_) each->mutex_.unlock();
    registry.mutex.unlock();
  }

  void add(ForkMutex* added) {
    std::lock_guard lock(mutex);
    added->next_ = first;
    if (first) first->previous_ = added;
    first = added;
  }

  void remove(ForkMutex* removed) {
    std::lock_guard lock(mutex);
    (removed->previous_ ? removed->previous_->next_ : first) = removed->next_;
    if (removed->next_) removed->next_->previous_ = removed->previous_;
  }
};

ForkMutex::ForkMutex() { ForkMutexRegistry::get().add(this); }
ForkMutex::~ForkMutex() { ForkMutexRegistry::get().remove(this); }

}  // namespace tilewright
