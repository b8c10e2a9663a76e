// Keys with the positions they came from, and their stable sort.
#pragma once

#include <algorithm>
#include <vector>

#include "targets/cpu/builtins/lines.h"

namespace tilewright::builtins {

// A key of up to 32 bits above its position: sorting the numbers sorts stably.
struct NarrowKeyed {
  uint64_t bits;
  static constexpr int kKeyBits = 32;
  static NarrowKeyed of(uint64_t key, uint32_t position) { return {key << 32 | position}; }
  uint64_t key() const { return bits >> 32; }
  uint32_t position() const { return static_cast<uint32_t>(bits); }
  friend bool operator<(NarrowKeyed a, NarrowKeyed b) { return a.bits < b.bits; }
};

struct WideKeyed {
  uint64_t bits;
  uint32_t at;
  static constexpr int kKeyBits = 64;
  static WideKeyed of(uint64_t key, uint32_t position) { return {key, position}; }
  uint64_t key() const { return bits; }
  uint32_t position() const { return at; }
  friend bool operator<(const WideKeyed& a, const WideKeyed& b) {
    return a.bits != b.bits ? a.bits < b.bits : a.at < b.at;
  }
};

template <class Order>
using KeyedFor = std::conditional_t<sizeof(typename Order::Bits) == 8, WideKeyed, NarrowKeyed>;

template <class Order>
typename Order::Bits directed_key(typename Order::Bits bits, bool descending) {
  using Bits = typename Order::Bits;
  Bits key = Order::key(bits);
  return descending ? Bits(~key) : key;
}

// Below this length comparisons beat counting digits.
inline constexpr int64_t kRadixLength = 768;
// A part of a long line that one thread counts and moves.
inline constexpr int64_t kRadixPart = 1 << 15;

// One stable counting pass over digit [shift, shift + digit_bits) from `from` to `to`.  Answers false, and
// moves nothing, when all digits are equal.
template <class Keyed>
bool counting_pass(ParallelFor parallel_for, const std::vector<Keyed>& from, std::vector<Keyed>& to,
                   int shift, int digit_bits, std::vector<uint32_t>& counts) {
  int64_t length = static_cast<int64_t>(from.size());
  int64_t parts = std::clamp<int64_t>(length / kRadixPart, 1, 64), each = (length + parts - 1) / parts;
  size_t digits = size_t{1} << digit_bits, mask = digits - 1;
  counts.assign(digits * static_cast<size_t>(parts), 0);
  auto range_end = [&](int64_t part) { return std::min(length, (part + 1) * each); };
  auto count = [&](int64_t first, int64_t last) {
    for (int64_t part = first; part < last; ++part) {
      uint32_t* mine = counts.data() + digits * static_cast<size_t>(part);
      for (int64_t i = part * each; i < range_end(part); ++i) ++mine[from[i].key() >> shift & mask];
    }
  };
  parallel_for(parts, 1, count);
  uint32_t offset = 0;
  for (size_t digit = 0; digit < digits; ++digit) {
    uint32_t before = offset;
    for (int64_t part = 0; part < parts; ++part) {
      uint32_t& slot = counts[digits * static_cast<size_t>(part) + digit];
      uint32_t here = slot;
      slot = offset;
      offset += here;
    }
    if (offset - before == from.size()) return false;
  }
  auto move = [&](int64_t first, int64_t last) {
    for (int64_t part = first; part < last; ++part) {
      uint32_t* mine = counts.data() + digits * static_cast<size_t>(part);
      for (int64_t i = part * each; i < range_end(part); ++i)
        to[mine[from[i].key() >> shift & mask]++] = from[i];
    }
  };
  parallel_for(parts, 1, move);
  return true;
}

template <class Keyed>
struct KeyedScratch {
  std::vector<Keyed> keyed, spare;
  std::vector<uint32_t> counts;
};

// Sorts scratch.keyed by key, then position; `key_bits` of each key are in use.
template <class Keyed>
void sort_keyed(ParallelFor parallel_for, KeyedScratch<Keyed>& scratch, int key_bits) {
  if (static_cast<int64_t>(scratch.keyed.size()) < kRadixLength) {
    std::sort(scratch.keyed.begin(), scratch.keyed.end());
    return;
  }
  int digit_bits = key_bits >= 32 ? 11 : 8;
  scratch.spare.resize(scratch.keyed.size());
  for (int shift = 0; shift < key_bits; shift += digit_bits) {
    if (counting_pass(parallel_for, scratch.keyed, scratch.spare, shift, digit_bits, scratch.counts))
      scratch.keyed.swap(scratch.spare);
  }
}

}  // namespace tilewright::builtins
