// A list in order of use and an index into it.
#include "cache/memory.h"

namespace tilewright {

std::optional<std::string> MemoryStore::get(CacheKind kind, const Hash128& key) {
  std::lock_guard lock(mutex_);
  auto found = index_.find(Key{kind, key});
  if (found == index_.end()) return std::nullopt;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->bytes;
}

void MemoryStore::put(CacheKind kind, const Hash128& key, std::string_view bytes) {
  std::lock_guard lock(mutex_);
  auto found = index_.find(Key{kind, key});
  if (found != index_.end()) {
    bytes_ -= static_cast<int64_t>(found->second->bytes.size());
    entries_.erase(found->second);
    index_.erase(found);
  }
  if (static_cast<int64_t>(bytes.size()) > limit_bytes_) return;
  entries_.push_front(Entry{{kind, key}, std::string(bytes)});
  index_[Key{kind, key}] = entries_.begin();
  bytes_ += static_cast<int64_t>(bytes.size());
  while (bytes_ > limit_bytes_) {
    bytes_ -= static_cast<int64_t>(entries_.back().bytes.size());
    index_.erase(entries_.back().key);
    entries_.pop_back();
  }
}

void MemoryStore::clear() {
  std::lock_guard lock(mutex_);
  index_.clear();
  entries_.clear();
  bytes_ = 0;
}

}  // namespace tilewright
