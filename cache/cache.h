// Cache: key -> bytes on disk and in memory; verified on load, published atomically, never the cause of a
// failed job.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/hash.h"
#include "base/status.h"

namespace tilewright {

enum class CacheMode : int32_t {
  ReadWrite,
  ReadOnly,
  Off,    // memory only
  Check,  // every get misses; put compares with the stored entry
};
Result<CacheMode> parse_cache_mode(std::string_view text);  // rw ro off check

// What an entry holds. A failure is keyed like the kernel that could not be compiled; its bytes are the
// reason.
// Linked: kernels joined to what a driver loads at once.
enum class CacheKind : uint32_t { Kernel = 1, Image = 2, Failure = 3, Linked = 4 };

enum class CacheFault : uint32_t {
#define FAULT(id, name, meaning) id,
#include "cache/faults.def"
#undef FAULT
};
inline constexpr size_t kCacheFaultCount = 0
#define FAULT(id, name, meaning) +1
#include "cache/faults.def"
#undef FAULT
    ;
const char* cache_fault_name(CacheFault fault);

struct CacheOptions {
  std::string directory;          // empty: $XDG_CACHE_HOME/tilewright, else $HOME/.cache/tilewright
  std::string compiler_identity;  // build id and LLVM version; empty: nothing is kept on disk
  std::string target;             // cache identity of the target, checked on load; may be empty
  CacheMode mode = CacheMode::ReadWrite;
  int64_t memory_bytes = 64 << 20;  // bound of the layer in memory, least recently used first
  // For tests: errno to fail the named step with, 0 to go on. Steps: open_directory open read write sync
  // rename.
  std::function<int(std::string_view step)> inject;
};

struct CacheStats {
  int64_t memory_hits = 0;
  int64_t disk_hits = 0;
  int64_t misses = 0;
  int64_t writes = 0;
  int64_t bytes_read = 0;     // payload bytes of disk hits
  int64_t bytes_written = 0;  // payload bytes of writes
  std::array<int64_t, kCacheFaultCount> faults{};

  int64_t fault(CacheFault kind) const { return faults[static_cast<size_t>(kind)]; }
  int64_t fault_total() const;
};

// Thread-safe, safe with any number of processes on one directory and with deletion under it, usable in a
// forked child.
class Cache {
 public:
  // Fails only for options that no directory could satisfy; an unusable directory gives a cache in memory
  // with a reason.
  static Result<std::unique_ptr<Cache>> open(CacheOptions options);
  ~Cache();
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  // The bytes last put under this kind and key, or nothing. Any fault is a miss.
  std::optional<std::string> get(CacheKind kind, const Hash128& key);
  // Keeps bytes in memory and, where the mode allows, on disk.
  void put(CacheKind kind, const Hash128& key, std::string_view bytes);
  // Forgets the layer in memory, so that the next get reads the disk.
  void drop_memory();

  CacheStats stats() const;
  CacheMode mode() const;
  // Where the entries are; empty when nothing is kept on disk.
  std::string directory() const;
  // Why nothing is kept on disk, or why writing is off; empty when all is well.
  std::string disabled_reason() const;

 private:
  struct State;
  explicit Cache(std::unique_ptr<State> state);
  State& state() const;
  mutable std::atomic<State*> state_;
};

}  // namespace tilewright
