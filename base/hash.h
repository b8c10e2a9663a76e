// Hash128: XXH3-128, the hash of every key in the library. Not for secrets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace tilewright {

struct Hash128 {
  uint64_t high = 0;
  uint64_t low = 0;

  bool operator==(const Hash128&) const = default;
  auto operator<=>(const Hash128&) const = default;

  std::string to_hex() const;  // 32 lower-case digits, high half first
  static std::optional<Hash128> from_hex(std::string_view text);
};

Hash128 hash_bytes(const void* data, size_t size);
inline Hash128 hash_bytes(std::string_view bytes) { return hash_bytes(bytes.data(), bytes.size()); }

// Hashes a sequence of parts. Text and bytes are preceded by their length, so that parts cannot run into each
// other.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;

  Hasher& add(std::string_view text);
  Hasher& add(const char* text) { return add(std::string_view(text)); }
  Hasher& add(const Hash128& hash) { return add_raw(&hash.high, 8).add_raw(&hash.low, 8); }
  template <class T>
    requires(std::is_arithmetic_v<T> || std::is_enum_v<T>)
  Hasher& add(T value) {
    return add_raw(&value, sizeof value);
  }
  // The bytes alone, without their length.
  Hasher& add_raw(const void* data, size_t size);

  Hash128 finish() const;  // of all parts so far; more may follow

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tilewright

template <>
struct std::hash<tilewright::Hash128> {
  size_t operator()(const tilewright::Hash128& hash) const noexcept { return hash.low; }
};
