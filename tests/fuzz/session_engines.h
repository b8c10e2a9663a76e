// Two sessions over one scratch cache directory: one compiles, the other must find everything that the first
// published.
#pragma once

#include <memory>
#include <string>

#include "ir/reference/interpreter.h"
#include "runtime/session.h"

namespace tilewright::fuzz {

class SessionEngines {
 public:
  // Makes the directory; it goes with the engines.
  static Result<std::unique_ptr<SessionEngines>> open();
  ~SessionEngines();

  using Outputs = std::vector<OwnedTensor>;
  // Compiled by a session that keeps what it compiles on disk.
  Result<Outputs> run_fresh(const Graph& graph, std::span<const TensorRef> inputs, const Bindings& bindings);
  // As the disk gives it back: an error if anything was compiled again.
  Result<Outputs> run_cached(const Graph& graph, std::span<const TensorRef> inputs, const Bindings& bindings);

 private:
  SessionEngines() = default;
  std::string directory_;
  std::shared_ptr<Session> fresh_, cached_;
};

}  // namespace tilewright::fuzz
