// DiskStore: the files of one cache directory; safe with many writers and with deletion under it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "cache/cache.h"

namespace tilewright {

// Why an operation on the directory did not work.
struct DiskFault {
  CacheFault kind;
  std::string reason;
  int error = 0;  // errno, where there was one
};

// A file's bytes, or nothing because there is no such file, or nothing because of a fault.
struct DiskRead {
  std::optional<std::string> bytes;
  std::optional<DiskFault> fault;
};

// Holds no descriptors and no locks between calls: usable from any thread and in a forked child.
class DiskStore {
 public:
  using Inject = std::function<int(std::string_view step)>;

  // `root` is absolute; entries lie in `root`/`folder`, unfinished files in its `tmp`.
  DiskStore(std::string root, std::string folder, std::string identity, Inject inject);

  const std::string& path() const { return path_; }

  // Makes the directories where they are missing and sweeps what dead writers left; a fault says why not.
  std::optional<DiskFault> prepare() const;
  DiskRead read(const std::string& name, bool touch) const;
  std::optional<DiskFault> write(const std::string& name, std::string_view bytes) const;

 private:
  class Directory;
  std::optional<DiskFault> open_folder(bool create, Directory& folder) const;
  std::optional<DiskFault> open_temporary(const Directory& folder, Directory& temporary) const;
  std::optional<DiskFault> write_once(const std::string& name, std::string_view bytes) const;
  DiskRead read_once(const std::string& name, bool touch) const;
  bool fails(std::string_view step) const;  // injected: sets errno

  std::string root_, folder_, identity_, path_;
  Inject inject_;
};

// $XDG_CACHE_HOME/tilewright, else $HOME/.cache/tilewright, else empty.
std::string default_cache_root();

}  // namespace tilewright
