// Ranges, contiguity and strided copies of host tensors.
#include "runtime/tensor_view.h"

#include <cstring>

#include "base/text.h"

namespace tilewright {

int64_t TensorView::elements() const {
  int64_t count = 1;
  for (int32_t dim = 0; dim < rank; ++dim) count *= sizes[dim];
  return count;
}

void TensorView::byte_range(uintptr_t* begin, uintptr_t* end) const {
  const uintptr_t start = reinterpret_cast<uintptr_t>(data);
  *begin = *end = start;
  if (elements() == 0) return;
  int64_t low = 0, high = 0;
  if (strides) {
    for (int32_t dim = 0; dim < rank; ++dim)
      (strides[dim] < 0 ? low : high) += strides[dim] * (sizes[dim] - 1);
  } else {
    high = elements() - 1;
  }
  *begin = start + static_cast<uintptr_t>(low * dtype_bytes(dtype));
  *end = start + static_cast<uintptr_t>((high + 1) * dtype_bytes(dtype));
}

bool TensorView::is_row_major() const {
  if (!strides) return true;
  int64_t expected = 1;
  for (int32_t dim = rank - 1; dim >= 0; --dim) {
    if (sizes[dim] == 0) return true;
    if (sizes[dim] > 1 && strides[dim] != expected) return false;
    expected *= sizes[dim];
  }
  return true;
}

TensorRef TensorView::ref() const {
  TensorRef ref;
  ref.dtype = dtype;
  ref.sizes.assign(sizes, sizes + rank);
  ref.strides = strides ? std::vector<int64_t>(strides, strides + rank) : TensorRef::dense_strides(ref.sizes);
  ref.data = data;
  return ref;
}

std::string TensorView::to_string() const {
  return cat(dtype_name(dtype), "[", join(std::vector<int64_t>(sizes, sizes + rank), ","), "]");
}

namespace {

// Elements as bytes: tensors need not be aligned.
template <int Size>
struct Bytes {
  uint8_t bytes[Size];
};

template <class Element>
void copy_rows(const Element* from, Element* to, const TensorRef& a, const TensorRef& b, size_t dim) {
  const int64_t count = a.sizes[dim], from_step = a.strides[dim], to_step = b.strides[dim];
  if (dim + 1 < a.sizes.size()) {
    for (int64_t i = 0; i < count; ++i) copy_rows(from + i * from_step, to + i * to_step, a, b, dim + 1);
  } else if (from_step == 1 && to_step == 1) {
    if (count > 0) std::memcpy(to, from, static_cast<size_t>(count) * sizeof(Element));
  } else {
    for (int64_t i = 0; i < count; ++i) to[i * to_step] = from[i * from_step];
  }
}

template <class Element>
void copy_elements(const TensorRef& from, const TensorRef& to) {
  const auto* source = static_cast<const Element*>(from.data);
  auto* target = static_cast<Element*>(to.data);
  if (from.sizes.empty()) {
    *target = *source;
  } else {
    copy_rows(source, target, from, to, 0);
  }
}

}  // namespace

void copy_strided(const TensorRef& from, const TensorRef& to) {
  if (from.elements() == 0 || from.data == to.data) return;
  switch (dtype_bytes(from.dtype)) {
    case 1: return copy_elements<Bytes<1>>(from, to);
    case 2: return copy_elements<Bytes<2>>(from, to);
    case 4: return copy_elements<Bytes<4>>(from, to);
    default: return copy_elements<Bytes<8>>(from, to);
  }
}

}  // namespace tilewright
