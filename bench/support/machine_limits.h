// What cores of this machine can do at most: measured, not looked up.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>

#include "base/thread_pool.h"

namespace tilewright::bench {

// Multiply-adds of f32 a second, times two, with vectors of `vector_bytes`: one short burst.
double measure_fma_flops(int64_t vector_bytes);
// The same on all threads of the pool at once.
double measure_fma_flops(int64_t vector_bytes, ThreadPool& pool);

enum class Pages { Usual, Large };

// Memory, written once; in large pages where that is asked for and the system gives them, as in the runtime.
class Area {
 public:
  Area(int64_t bytes, Pages pages, int value = 1);
  char* data() const { return static_cast<char*>(memory_.get()); }

 private:
  std::unique_ptr<void, decltype(&std::free)> memory_;
};

// Bytes read plus bytes written a second by copies between two areas that are in the page tables already.
class CopyProbe {
 public:
  explicit CopyProbe(int64_t bytes, Pages pages = Pages::Usual);
  double measure();
  double measure(ThreadPool& pool);

 private:
  Area from_, to_;
  int64_t bytes_;
};

}  // namespace tilewright::bench
