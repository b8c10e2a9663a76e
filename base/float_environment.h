// DefaultFloatEnvironment: round to nearest, no flushing of subnormals, no traps, while it lives; then the
// host's own again.
#pragma once

#include <cfenv>
#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace tilewright {

class DefaultFloatEnvironment {
 public:
#if defined(__x86_64__)
  DefaultFloatEnvironment() : saved_(_mm_getcsr()) {
    _mm_setcsr(0x1f80);
    asm volatile("fnstcw %0" : "=m"(x87_));
    if (x87_ != kX87) set_x87(kX87);
  }
  ~DefaultFloatEnvironment() {
    if (x87_ != kX87) set_x87(x87_);
    _mm_setcsr(saved_);
  }

 private:
  // What the legacy unit, used for long double, starts with: extended precision, all exceptions masked.
  static constexpr uint16_t kX87 = 0x37f;
  // Flags raised meanwhile would trap at the host's next instruction of that unit.
  static void set_x87(uint16_t word) { asm volatile("fnclex\n\tfldcw %0" : : "m"(word)); }

  uint32_t saved_;
  uint16_t x87_;
#else
  DefaultFloatEnvironment() {
    fegetenv(&saved_);
    fesetenv(FE_DFL_ENV);
  }
  ~DefaultFloatEnvironment() { fesetenv(&saved_); }

 private:
  fenv_t saved_;
#endif
 public:
  DefaultFloatEnvironment(const DefaultFloatEnvironment&) = delete;
  DefaultFloatEnvironment& operator=(const DefaultFloatEnvironment&) = delete;
};

}  // namespace tilewright
