// TensorView: a borrowed host tensor as a caller describes it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/reference/kernel.h"
#include "ir/types.h"

namespace tilewright {

struct TensorView {
  DType dtype = DType::F32;
  int32_t rank = 0;
  const int64_t* sizes = nullptr;
  const int64_t* strides = nullptr;  // in elements; null: row-major without gaps
  void* data = nullptr;
  bool on_device = false;  // in the memory of the session's device

  int64_t elements() const;
  // The bytes it spans: [begin, end); empty for a tensor without elements.
  void byte_range(uintptr_t* begin, uintptr_t* end) const;
  bool is_row_major() const;  // without gaps; strides of dims below 2 do not count
  TensorRef ref() const;
  std::string to_string() const;  // "f32[2,3]"
};

// Copies element by element between tensors of one dtype and shape, whatever their strides.
void copy_strided(const TensorRef& from, const TensorRef& to);

}  // namespace tilewright
