// The bytes of one cache file: header, target, payload; written and verified.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/hash.h"
#include "cache/cache.h"

namespace tilewright {

inline constexpr uint32_t kCacheFormat = 1;
inline constexpr size_t kMaxEntryBytes = size_t{1} << 30;

// What a file must be for its payload to be taken.
struct EntryLabel {
  CacheKind kind;
  Hash128 key;
  Hash128 identity;  // of the compiler
  std::string_view target;
};

std::string encode_entry(const EntryLabel& label, std::string_view payload);

struct DecodedEntry {
  std::string_view payload;  // points into the file's bytes
  bool is_valid = false;
  CacheFault fault = CacheFault::Corrupt;  // where not valid
};
DecodedEntry decode_entry(const EntryLabel& label, std::string_view file);

}  // namespace tilewright
