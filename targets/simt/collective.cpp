// What a warp does together: shuffles, products of fragments, loads of 8x8 matrices; plain loops.
#include <cstring>

#include "base/text.h"
#include "targets/simt/block.h"

namespace tilewright::simt {
namespace {

float f32_of_bits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

float f16_of_bits(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  uint32_t exponent = (bits >> 10) & 31, fraction = bits & 0x3ff;
  if (exponent == 31) return f32_of_bits(sign | 0x7f800000 | (fraction << 13));
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  return f32_of_bits(sign | ((exponent + 112) << 23) | (fraction << 13));
}

enum class Element : int32_t { BF16 = 0, F16 = 1, TF32 = 2 };

float half_of(Element element, uint32_t word, int which) {
  const uint16_t bits = static_cast<uint16_t>(word >> (16 * which));
  return element == Element::BF16 ? f32_of_bits(static_cast<uint32_t>(bits) << 16) : f16_of_bits(bits);
}

// The chip drops the low 13 bits of what it takes for tf32.
float tf32_of(uint32_t word) { return f32_of_bits(word & ~uint32_t{0x1fff}); }

struct Operands {
  int depth = 0;
  float a[16][16], b[16][8];
};

// Fragments of two 16-bit elements a register: m16n8k16.
void gather_halves(const Thread* warp, Element element, Operands& operands) {
  operands.depth = 16;
  for (int lane = 0; lane < kWarp; ++lane) {
    const auto* a = static_cast<const uint32_t*>(warp[lane].first);
    const auto* b = static_cast<const uint32_t*>(warp[lane].second);
    const int group = lane / 4, pair = lane % 4 * 2;
    for (int which = 0; which < 2; ++which) {
      for (int part = 0; part < 4; ++part)
        operands.a[group + part % 2 * 8][pair + part / 2 * 8 + which] = half_of(element, a[part], which);
      for (int part = 0; part < 2; ++part)
        operands.b[pair + part * 8 + which][group] = half_of(element, b[part], which);
    }
  }
}

// Fragments of one element a register: m16n8k8.
void gather_words(const Thread* warp, Operands& operands) {
  operands.depth = 8;
  for (int lane = 0; lane < kWarp; ++lane) {
    const auto* a = static_cast<const uint32_t*>(warp[lane].first);
    const auto* b = static_cast<const uint32_t*>(warp[lane].second);
    const int group = lane / 4, at = lane % 4;
    for (int part = 0; part < 4; ++part)
      operands.a[group + part % 2 * 8][at + part / 2 * 4] = tf32_of(a[part]);
    for (int part = 0; part < 2; ++part) operands.b[at + part * 4][group] = tf32_of(b[part]);
  }
}

}  // namespace

std::string run_shuffle(Thread* warp) {
  uint32_t values[kWarp];
  for (int lane = 0; lane < kWarp; ++lane) values[lane] = warp[lane].value;
  for (int lane = 0; lane < kWarp; ++lane) {
    const int32_t source = warp[lane].source_lane;
    if (source < 0 || source >= kWarp)
      return cat("lane ", lane, " shuffles from lane ", source, ", expected 0 to ", kWarp - 1);
    warp[lane].value = values[source];
  }
  return {};
}

std::string run_mma(Thread* warp) {
  const int32_t kind = warp[0].kind;
  for (int lane = 1; lane < kWarp; ++lane)
    if (warp[lane].kind != kind)
      return cat("lane ", lane, " multiplies as kind ", warp[lane].kind, ", lane 0 as ", kind);
  if (kind < 0 || kind > 2) return cat("matrix product of kind ", kind, ", expected 0, 1 or 2");
  const auto element = static_cast<Element>(kind);
  Operands operands;
  if (element == Element::TF32) {
    gather_words(warp, operands);
  } else {
    gather_halves(warp, element, operands);
  }
  for (int lane = 0; lane < kWarp; ++lane) {
    auto* c = static_cast<float*>(warp[lane].result);
    for (int part = 0; part < 4; ++part) {
      const int row = lane / 4 + part / 2 * 8, column = lane % 4 * 2 + part % 2;
      float sum = c[part];
      for (int k = 0; k < operands.depth; ++k) sum += operands.a[row][k] * operands.b[k][column];
      c[part] = sum;
    }
  }
  return {};
}

std::string run_load_matrix(Thread* warp, const char* shared, int64_t shared_bytes) {
  uint16_t elements[4][8][8];
  for (int lane = 0; lane < kWarp; ++lane) {
    const char* row = static_cast<const char*>(warp[lane].first);
    if (row < shared || row + 16 > shared + shared_bytes)
      return cat("lane ", lane, " loads a matrix row from outside shared memory");
    if ((row - shared) % 16 != 0)
      return cat("lane ", lane, " loads a matrix row at byte ", row - shared, ", expected a multiple of 16");
    std::memcpy(elements[lane / 8][lane % 8], row, 16);
  }
  for (int lane = 0; lane < kWarp; ++lane) {
    auto* out = static_cast<uint32_t*>(warp[lane].result);
    const int row = lane / 4, column = lane % 4 * 2;
    for (int matrix = 0; matrix < 4; ++matrix) {
      const auto& from = elements[matrix];
      const bool transposed = warp[lane].kind != 0;
      const uint32_t low = transposed ? from[column][row] : from[row][column];
      const uint32_t high = transposed ? from[column + 1][row] : from[row][column + 1];
      out[matrix] = low | high << 16;
    }
  }
  return {};
}

}  // namespace tilewright::simt
