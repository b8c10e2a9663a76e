// The only file that includes xxHash, with all of it inlined.
#include "base/hash.h"

#include <new>

#define XXH_INLINE_ALL
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

namespace tilewright {
namespace {

Hash128 from_xxh(XXH128_hash_t hash) { return {hash.high64, hash.low64}; }

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

struct Hasher::State {
  XXH3_state_t xxh;
};

std::string Hash128::to_hex() const {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  text.reserve(32);
  for (uint64_t half : {high, low})
    for (int shift = 60; shift >= 0; shift -= 4) text.push_back(digits[(half >> shift) & 15]);
  return text;
}

std::optional<Hash128> Hash128::from_hex(std::string_view text) {
  if (text.size() != 32) return std::nullopt;
  Hash128 hash;
  for (size_t i = 0; i < 32; ++i) {
    int digit = hex_digit(text[i]);
    if (digit < 0) return std::nullopt;
    uint64_t& half = i < 16 ? hash.high : hash.low;
    half = half << 4 | static_cast<uint64_t>(digit);
  }
  return hash;
}

Hash128 hash_bytes(const void* data, size_t size) { return from_xxh(XXH3_128bits(data, size)); }

Hasher::Hasher() : state_(new State) { XXH3_128bits_reset(&state_->xxh); }
Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;

Hasher& Hasher::add(std::string_view text) {
  uint64_t size = text.size();
  return add_raw(&size, sizeof size).add_raw(text.data(), text.size());
}

Hasher& Hasher::add_raw(const void* data, size_t size) {
  if (size) XXH3_128bits_update(&state_->xxh, data, size);
  return *this;
}

Hash128 Hasher::finish() const { return from_xxh(XXH3_128bits_digest(&state_->xxh)); }

}  // namespace tilewright
