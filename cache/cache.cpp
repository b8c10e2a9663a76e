// Cache: memory before disk, faults counted and logged once, modes, and a fresh state in a forked child.
#include "cache/cache.h"

#include <limits.h>
#include <unistd.h>

#include <mutex>

#include "base/log.h"
#include "base/text.h"
#include "cache/disk.h"
#include "cache/entry.h"
#include "cache/memory.h"

namespace tilewright {
namespace {

const char* kind_name(CacheKind kind) {
  switch (kind) {
    case CacheKind::Kernel: return "kernel";
    case CacheKind::Image: return "image";
    case CacheKind::Failure: return "failure";
    case CacheKind::Linked: return "linked";
  }
  return "unknown";
}

struct Counters {
  std::atomic<int64_t> memory_hits{0}, disk_hits{0}, misses{0}, writes{0}, bytes_read{0}, bytes_written{0};
  std::array<std::atomic<int64_t>, kCacheFaultCount> faults{};
};

}  // namespace

const char* cache_fault_name(CacheFault fault) {
  switch (fault) {
#define FAULT(id, name, meaning) \
  case CacheFault::id: return name;
#include "cache/faults.def"
#undef FAULT
  }
  return "unknown";
}

Result<CacheMode> parse_cache_mode(std::string_view text) {
  if (text == "rw") return CacheMode::ReadWrite;
  if (text == "ro") return CacheMode::ReadOnly;
  if (text == "off") return CacheMode::Off;
  if (text == "check") return CacheMode::Check;
  return Status::invalid(cat("cache mode '", text, "', expected rw, ro, off or check"));
}

int64_t CacheStats::fault_total() const {
  int64_t total = 0;
  for (int64_t count : faults) total += count;
  return total;
}

// What one process knows; a forked child starts another one, since a lock may have been held at the fork.
struct Cache::State {
  explicit State(CacheOptions given) : options(std::move(given)), memory(options.memory_bytes) {}

  void open_disk();
  std::optional<std::string> read_disk(CacheKind kind, const Hash128& key);
  void write_disk(CacheKind kind, const Hash128& key, std::string_view bytes);
  void note(CacheFault kind, std::string_view reason);
  EntryLabel label(CacheKind kind, const Hash128& key) const { return {kind, key, identity, options.target}; }
  bool may_write() const { return options.mode == CacheMode::ReadWrite || options.mode == CacheMode::Check; }

  CacheOptions options;
  Hash128 identity;
  pid_t owner = getpid();
  MemoryStore memory;
  std::optional<DiskStore> disk;  // empty: memory only
  std::string off_reason;         // why there is no disk; written once, at open
  Counters counters;
  std::mutex write_reason_mutex;
  std::string write_reason;  // why the last write failed; empty after one that worked
};

void Cache::State::note(CacheFault kind, std::string_view reason) {
  // Once a kind: a broken disk must not fill a log.
  if (counters.faults[static_cast<size_t>(kind)].fetch_add(1) > 0) return;
  LogLevel level = kind == CacheFault::Mismatch ? LogLevel::Error : LogLevel::Warn;
  if (log_enabled(LogComponent::Cache, level)) {
    write_log(LogComponent::Cache, level, cat(cache_fault_name(kind), ": ", reason));
  }
}

void Cache::State::open_disk() {
  if (options.mode == CacheMode::Off) {
    off_reason = "cache mode is off";
    return;
  }
  if (options.compiler_identity.empty()) {
    off_reason = "this build has no build id, so that its objects cannot be told from those of another build";
    TW_LOG(Cache, Warn, "nothing is kept on disk: ", off_reason);
    return;
  }
  if (options.directory.empty()) {
    off_reason = "neither XDG_CACHE_HOME nor HOME names a directory";
    TW_LOG(Cache, Warn, "nothing is kept on disk: ", off_reason);
    return;
  }
  identity = hash_bytes(options.compiler_identity);
  std::string folder = cat("v", kCacheFormat, "-", identity.to_hex().substr(0, 16));
  disk.emplace(options.directory, folder, options.compiler_identity, options.inject);
  if (!may_write()) return;
  std::optional<DiskFault> fault = disk->prepare();
  if (!fault) return;
  note(fault->kind, fault->reason);
  // What others may write is not read either; what merely cannot be written may still be read.
  if (fault->kind == CacheFault::Refused) {
    off_reason = fault->reason;
    disk.reset();
  } else {
    write_reason = fault->reason;
  }
}

std::optional<std::string> Cache::State::read_disk(CacheKind kind, const Hash128& key) {
  if (!disk) return std::nullopt;
  std::string name = cat(key.to_hex(), ".", kind_name(kind));
  DiskRead read = disk->read(name, options.mode == CacheMode::ReadWrite);
  if (read.fault) note(read.fault->kind, read.fault->reason);
  if (!read.bytes) return std::nullopt;
  DecodedEntry entry = decode_entry(label(kind, key), *read.bytes);
  if (!entry.is_valid) {
    note(entry.fault, cat(disk->path(), "/", name, " is not used"));
    return std::nullopt;
  }
  read.bytes->erase(0, read.bytes->size() - entry.payload.size());
  return std::move(read.bytes);
}

void Cache::State::write_disk(CacheKind kind, const Hash128& key, std::string_view bytes) {
  if (!disk || !may_write()) return;
  std::string name = cat(key.to_hex(), ".", kind_name(kind));
  std::optional<DiskFault> fault;
  if (bytes.size() > kMaxEntryBytes / 2) {
    fault = DiskFault{CacheFault::TooLarge, cat("entry ", name, " has ", bytes.size(), " bytes")};
  } else {
    fault = disk->write(name, encode_entry(label(kind, key), bytes));
  }
  // Told without the lock: the host's log callback may ask for the reason.
  if (fault) note(fault->kind, fault->reason);
  {
    std::lock_guard lock(write_reason_mutex);
    write_reason = fault ? fault->reason : std::string();
  }
  if (fault) return;
  counters.writes.fetch_add(1);
  counters.bytes_written.fetch_add(static_cast<int64_t>(bytes.size()));
}

static std::string absolute_path(const std::string& path) {
  if (path.empty()) return default_cache_root();
  std::string out = path;
  char current[PATH_MAX];
  if (out[0] != '/' && getcwd(current, sizeof current)) out = cat(current, "/", out);
  while (out.size() > 1 && out.back() == '/') out.pop_back();
  return out;
}

Result<std::unique_ptr<Cache>> Cache::open(CacheOptions options) {
  if (options.memory_bytes < 0)
    return Status::invalid(cat("cache memory of ", options.memory_bytes, " bytes"));
  options.directory = absolute_path(options.directory);
  auto state = std::make_unique<State>(std::move(options));
  state->open_disk();
  return std::unique_ptr<Cache>(new Cache(std::move(state)));
}

Cache::Cache(std::unique_ptr<State> state) : state_(state.release()) {}

Cache::~Cache() {
  State* state = state_.load();
  if (state->owner == getpid()) delete state;
}

Cache::State& Cache::state() const {
  State* current = state_.load(std::memory_order_acquire);
  while (current->owner != getpid()) {
    auto fresh = std::make_unique<State>(current->options);
    fresh->open_disk();
    if (state_.compare_exchange_strong(current, fresh.get(), std::memory_order_acq_rel))
      return *fresh.release();
  }
  return *current;
}

std::optional<std::string> Cache::get(CacheKind kind, const Hash128& key) {
  State& s = state();
  if (s.options.mode != CacheMode::Check) {
    if (std::optional<std::string> bytes = s.memory.get(kind, key)) {
      s.counters.memory_hits.fetch_add(1);
      return bytes;
    }
    if (std::optional<std::string> bytes = s.read_disk(kind, key)) {
      s.counters.disk_hits.fetch_add(1);
      s.counters.bytes_read.fetch_add(static_cast<int64_t>(bytes->size()));
      s.memory.put(kind, key, *bytes);
      return bytes;
    }
  }
  s.counters.misses.fetch_add(1);
  return std::nullopt;
}

void Cache::put(CacheKind kind, const Hash128& key, std::string_view bytes) {
  State& s = state();
  s.memory.put(kind, key, bytes);
  if (s.options.mode == CacheMode::Check) {
    std::optional<std::string> stored = s.read_disk(kind, key);
    if (stored && *stored != bytes) {
      s.note(CacheFault::Mismatch,
             cat(kind_name(kind), " ", key.to_hex(), " has ", stored->size(),
                 " bytes on disk and differs from the ", bytes.size(), " bytes made now"));
    }
    if (stored) return;  // the stored one stays as evidence
  }
  s.write_disk(kind, key, bytes);
}

void Cache::drop_memory() { state().memory.clear(); }

CacheStats Cache::stats() const {
  const Counters& counters = state().counters;
  CacheStats stats;
  stats.memory_hits = counters.memory_hits;
  stats.disk_hits = counters.disk_hits;
  stats.misses = counters.misses;
  stats.writes = counters.writes;
  stats.bytes_read = counters.bytes_read;
  stats.bytes_written = counters.bytes_written;
  for (size_t i = 0; i < kCacheFaultCount; ++i) stats.faults[i] = counters.faults[i];
  return stats;
}

CacheMode Cache::mode() const { return state().options.mode; }

std::string Cache::directory() const {
  State& s = state();
  return s.disk ? s.disk->path() : std::string();
}

std::string Cache::disabled_reason() const {
  State& s = state();
  if (!s.off_reason.empty()) return s.off_reason;
  if (s.options.mode == CacheMode::ReadOnly) return {};
  std::lock_guard lock(s.write_reason_mutex);
  return s.write_reason;
}

}  // namespace tilewright
