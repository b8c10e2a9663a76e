// Entry layout, little-endian: magic, format, kind, key, identity, sizes, payload hash, header hash; then
// target, payload.
#include "cache/entry.h"

#include <bit>
#include <cstring>

namespace tilewright {
namespace {

static_assert(std::endian::native == std::endian::little, "entries are written as they lie in memory");

constexpr char kMagic[8] = {'T', 'W', 'C', 'A', 'C', 'H', 'E', '\n'};

struct Header {
  char magic[8];
  uint32_t format;
  uint32_t kind;
  Hash128 key;
  Hash128 identity;
  uint64_t payload_bytes;
  uint64_t target_bytes;
  Hash128 payload_hash;
  Hash128 header_hash;  // of everything above and the target; last
};
static_assert(sizeof(Header) == 96 + 0 && std::has_unique_object_representations_v<Header>);

Hash128 hash_of_header(const Header& header, std::string_view target) {
  Hasher hasher;
  hasher.add_raw(&header, offsetof(Header, header_hash));
  hasher.add(target);
  return hasher.finish();
}

DecodedEntry fault(CacheFault kind) { return {{}, false, kind}; }

}  // namespace

std::string encode_entry(const EntryLabel& label, std::string_view payload) {
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.format = kCacheFormat;
  header.kind = static_cast<uint32_t>(label.kind);
  header.key = label.key;
  header.identity = label.identity;
  header.payload_bytes = payload.size();
  header.target_bytes = label.target.size();
  header.payload_hash = hash_bytes(payload);
  header.header_hash = hash_of_header(header, label.target);
  std::string file;
  file.reserve(sizeof header + label.target.size() + payload.size());
  file.append(reinterpret_cast<const char*>(&header), sizeof header);
  file.append(label.target);
  file.append(payload);
  return file;
}

DecodedEntry decode_entry(const EntryLabel& label, std::string_view file) {
  Header header;
  if (file.size() < sizeof header) return fault(CacheFault::Torn);
  std::memcpy(&header, file.data(), sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) return fault(CacheFault::Foreign);
  if (header.format != kCacheFormat) return fault(CacheFault::Version);
  std::string_view rest = file.substr(sizeof header);
  if (header.target_bytes > rest.size()) return fault(CacheFault::Torn);
  std::string_view target = rest.substr(0, header.target_bytes);
  if (header.header_hash != hash_of_header(header, target)) return fault(CacheFault::Corrupt);
  // From here on the header says what its writer meant.
  if (header.identity != label.identity) return fault(CacheFault::Version);
  if (header.kind != static_cast<uint32_t>(label.kind) || header.key != label.key)
    return fault(CacheFault::WrongKey);
  if (target != label.target) return fault(CacheFault::WrongTarget);
  std::string_view payload = rest.substr(target.size());
  if (payload.size() != header.payload_bytes) return fault(CacheFault::Torn);
  if (hash_bytes(payload) != header.payload_hash) return fault(CacheFault::Corrupt);
  return {payload, true, CacheFault::Corrupt};
}

}  // namespace tilewright
