// Runs LLVM code on a thread with a deep stack, where a fatal error of LLVM becomes a Status.
#pragma once

#include <functional>

#include "base/status.h"

namespace tilewright {

struct GuardOutcome {
  Status status;
  bool was_fatal = false;  // LLVM's frames were left without unwinding: leak whatever the body held
};

// Calls `body` on a fresh thread with a 16 MB stack and blocked signals, and waits for it.
GuardOutcome run_guarded_on_deep_stack(const std::function<Status()>& body);

// The same on the calling thread, for short work such as linking.
GuardOutcome run_guarded(const std::function<Status()>& body);

}  // namespace tilewright
