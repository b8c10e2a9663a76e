// Lines of a tensor along one dim, and parallel loops that turn a lack of memory into a status.
#pragma once

#include <atomic>
#include <cstring>
#include <new>

#include "base/status.h"
#include "targets/cpu/builtins/element_order.h"

namespace tilewright::builtins {

// A dense tensor seen as [outer, size, inner].
struct Lines {
  int64_t outer = 1, size = 1, inner = 1;

  Lines(const std::vector<int64_t>& sizes, int64_t dim) : size(sizes[static_cast<size_t>(dim)]) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (static_cast<int64_t>(i) < dim) outer *= sizes[i];
      if (static_cast<int64_t>(i) > dim) inner *= sizes[i];
    }
  }
  int64_t count() const { return outer * inner; }
};

// Neighbouring lines are walked together, so that each cache line of a strided tensor is read once.
inline constexpr int64_t kLinesTogether = 16;

// Up to kLinesTogether neighbouring lines of one outer index.
struct Bundle {
  int64_t outer = 0, first = 0, count = 1;
};

inline int64_t bundles_of(const Lines& lines) {
  return lines.outer * ((lines.inner + kLinesTogether - 1) / kLinesTogether);
}

inline Bundle bundle_at(const Lines& lines, int64_t index) {
  int64_t each = (lines.inner + kLinesTogether - 1) / kLinesTogether;
  int64_t first = index % each * kLinesTogether;
  int64_t rest = lines.inner - first;
  return {index / each, first, rest < kLinesTogether ? rest : kLinesTogether};
}

// Copies a bundle of lines of `size` elements to rows, or rows back to the tensor.
template <class Bits>
void read_rows(const Bits* tensor, const Lines& lines, const Bundle& bundle, Bits* rows) {
  const Bits* from = tensor + bundle.outer * lines.size * lines.inner + bundle.first;
  for (int64_t i = 0; i < lines.size; ++i, from += lines.inner) {
    for (int64_t line = 0; line < bundle.count; ++line) rows[line * lines.size + i] = from[line];
  }
}

template <class Bits>
void write_rows(const Bits* rows, const Lines& lines, const Bundle& bundle, Bits* tensor) {
  Bits* to = tensor + bundle.outer * lines.size * lines.inner + bundle.first;
  for (int64_t i = 0; i < lines.size; ++i, to += lines.inner) {
    for (int64_t line = 0; line < bundle.count; ++line) to[line] = rows[line * lines.size + i];
  }
}

// Runs everything on the calling thread.
inline void run_alone(int64_t count, int64_t, FunctionRef<void(int64_t, int64_t)> body) {
  if (count > 0) body(0, count);
}

// No exception may leave a body: bodies allocate their scratch.
template <class Body>
Status parallel(ParallelFor parallel_for, int64_t count, int64_t max_chunk, Body body) {
  std::atomic<bool> exhausted{false};
  auto guarded = [&](int64_t begin, int64_t end) {
    try {
      body(begin, end);
    } catch (const std::bad_alloc&) {
      exhausted.store(true, std::memory_order_relaxed);
    }
  };
  parallel_for(count, max_chunk, guarded);
  if (exhausted.load()) return Status::exhausted("no memory for the scratch of a builtin");
  return Status::ok();
}

template <class T>
T* data_of(const BuiltinTensor& tensor) {
  return static_cast<T*>(tensor.data);
}

inline int64_t elements_of(const BuiltinTensor& tensor) {
  int64_t count = 1;
  for (int64_t size : tensor.sizes) count *= size;
  return count;
}

inline void put_index(const BuiltinTensor& tensor, int64_t at, int64_t value) {
  if (tensor.dtype == ElementCode::I32) {
    data_of<int32_t>(tensor)[at] = static_cast<int32_t>(value);
  } else {
    data_of<int64_t>(tensor)[at] = value;
  }
}

}  // namespace tilewright::builtins
