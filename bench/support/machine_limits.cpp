// Peak multiply-adds in registers, and copies with non-temporal stores.
#include "bench/support/machine_limits.h"

#include <immintrin.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>

namespace tilewright::bench {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

constexpr int64_t kRounds = 100000;

// Twelve independent sums: two units of four cycles each stay busy.
#define TW_PEAK(name, features, vector, set, multiply_add, store, lanes, constraint)                      \
  __attribute__((target(features))) double name() {                                                       \
    vector a = set(0.5f), b = set(0.25f), s0 = a, s1 = b, s2 = a, s3 = b, s4 = a, s5 = b, s6 = a, s7 = b; \
    vector s8 = a, s9 = b, s10 = a, s11 = b;                                                              \
    double start = now();                                                                                 \
    for (int64_t i = 0; i < kRounds; ++i) {                                                               \
      s0 = multiply_add(s0, a, b), s1 = multiply_add(s1, a, b), s2 = multiply_add(s2, a, b);              \
      s3 = multiply_add(s3, a, b), s4 = multiply_add(s4, a, b), s5 = multiply_add(s5, a, b);              \
      s6 = multiply_add(s6, a, b), s7 = multiply_add(s7, a, b), s8 = multiply_add(s8, a, b);              \
      s9 = multiply_add(s9, a, b), s10 = multiply_add(s10, a, b), s11 = multiply_add(s11, a, b);          \
      __asm__ volatile(""                                                                                 \
                       : constraint(s0), constraint(s1), constraint(s2), constraint(s3), constraint(s4),  \
                         constraint(s5));                                                                 \
      __asm__ volatile(""                                                                                 \
                       : constraint(s6), constraint(s7), constraint(s8), constraint(s9), constraint(s10), \
                         constraint(s11));                                                                \
    }                                                                                                     \
    double seconds = now() - start;                                                                       \
    volatile float out[16];                                                                               \
    for (vector sum : {s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11})                                 \
      store(const_cast<float*>(out), sum);                                                                \
    return 2.0 * lanes * 12 * kRounds / seconds;                                                          \
  }
TW_PEAK(run_512, "avx512f", __m512, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_storeu_ps, 16, "+v")
TW_PEAK(run_256, "avx2,fma", __m256, _mm256_set1_ps, _mm256_fmadd_ps, _mm256_storeu_ps, 8, "+x")
#undef TW_PEAK

void stream_copy(char* to, const char* from, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 64) {
    for (int64_t k = 0; k < 64; k += 16) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + i + k),
                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i + k)));
    }
  }
  _mm_sfence();
}

}  // namespace

double measure_fma_flops(int64_t vector_bytes) { return vector_bytes >= 64 ? run_512() : run_256(); }

double measure_fma_flops(int64_t vector_bytes, ThreadPool& pool) {
  constexpr int64_t kBursts = 4;  // a thread
  const int64_t bursts = kBursts * pool.thread_count();
  double start = now();
  pool.parallel_for(bursts, 1, [&](int64_t, int64_t, int) { measure_fma_flops(vector_bytes); });
  double lanes = vector_bytes >= 64 ? 16 : 8;
  return 2.0 * lanes * 12 * kRounds * static_cast<double>(bursts) / (now() - start);
}

Area::Area(int64_t bytes, Pages pages, int value) : memory_(nullptr, &std::free) {
  constexpr size_t kLarge = 2 << 20;
  size_t size = (static_cast<size_t>(bytes) + kLarge) / kLarge * kLarge;
  memory_.reset(std::aligned_alloc(kLarge, size));
  if (!memory_) return;
  madvise(memory_.get(), size, pages == Pages::Large ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  std::memset(memory_.get(), value, size);
}

CopyProbe::CopyProbe(int64_t bytes, Pages pages)
    : from_(bytes, pages, 1), to_(bytes, pages, 2), bytes_(bytes / 64 * 64) {}

double CopyProbe::measure() {
  double start = now();
  if (bytes_ > (8 << 20)) {
    stream_copy(to_.data(), from_.data(), bytes_);
  } else {
    std::memcpy(to_.data(), from_.data(), static_cast<size_t>(bytes_));
  }
  return 2.0 * static_cast<double>(bytes_) / (now() - start);
}

double CopyProbe::measure(ThreadPool& pool) {
  constexpr int64_t kPiece = 1 << 20;
  double start = now();
  pool.parallel_for(bytes_ / kPiece, 0, [&](int64_t begin, int64_t end, int) {
    stream_copy(to_.data() + begin * kPiece, from_.data() + begin * kPiece, (end - begin) * kPiece);
  });
  return 2.0 * static_cast<double>(bytes_ / kPiece * kPiece) / (now() - start);
}

}  // namespace tilewright::bench
