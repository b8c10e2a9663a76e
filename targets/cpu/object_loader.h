// ObjectLoader: object bytes become callable code through ORC and JITLink, and are gone when the last handle
// goes.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "targets/cpu/exports.h"
#include "targets/target.h"

namespace tilewright {

// One a process, never destroyed; a forked child gets a fresh one. Thread-safe.
class ObjectLoader {
 public:
  static Result<ObjectLoader*> of_process();

  // `extra`: functions that this object may call besides those of the table.
  Result<std::shared_ptr<const LoadedCode>> load(std::string_view object,
                                                 std::span<const std::string> symbols,
                                                 std::span<const HostExport> extra = {});

 private:
  class Session;
  friend class CpuCode;
  explicit ObjectLoader(std::unique_ptr<Session> session);
  ~ObjectLoader() = delete;
  std::unique_ptr<Session> session_;
};

// Functions that an object calls and the host does not export, as a status.
Status check_undefined_symbols(std::string_view object, std::span<const HostExport> extra = {});

}  // namespace tilewright
