// MemoryStore: recently used entries in memory, bounded in bytes; thread-safe.
#pragma once

#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "cache/cache.h"

namespace tilewright {

class MemoryStore {
 public:
  explicit MemoryStore(int64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  std::optional<std::string> get(CacheKind kind, const Hash128& key);
  void put(CacheKind kind, const Hash128& key, std::string_view bytes);
  void clear();

 private:
  struct Key {
    CacheKind kind;
    Hash128 hash;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const { return key.hash.low ^ static_cast<size_t>(key.kind); }
  };
  struct Entry {
    Key key;
    std::string bytes;
  };
  using Entries = std::list<Entry>;  // most recently used first

  std::mutex mutex_;
  int64_t limit_bytes_;
  int64_t bytes_ = 0;
  Entries entries_;
  std::unordered_map<Key, Entries::iterator, KeyHash> index_;
};

}  // namespace tilewright
