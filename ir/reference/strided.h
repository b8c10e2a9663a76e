// Loops over strided tensors of one shape, and views made by changing sizes, strides and the start.
#pragma once

#include <array>
#include <vector>

#include "ir/reference/element.h"
#include "ir/reference/kernel.h"

namespace tilewright::reference {

// A loop nest over N tensors of one shape.  Dims of size 1 are dropped and neighbours merged where all
// tensors allow it, so that dense tensors become a single row.
template <int N>
class Nest {
 public:
  using Offsets = std::array<int64_t, N>;

  Nest(const std::vector<int64_t>& sizes, const std::array<const std::vector<int64_t>*, N>& strides) {
    for (size_t dim = 0; dim < sizes.size(); ++dim) {
      if (sizes[dim] == 0) empty_ = true;
      if (sizes[dim] == 1) continue;
      Offsets steps;
      for (int t = 0; t < N; ++t) steps[t] = (*strides[t])[dim];
      append(sizes[dim], steps);
    }
    if (sizes_.empty()) append(1, Offsets{});
  }

  bool empty() const { return empty_; }

  // row(offsets, count, steps) for each run of the innermost dim; offsets and steps in elements.
  template <class Row>
  void run(Row&& row) const {
    if (empty_) return;
    int outer = static_cast<int>(sizes_.size()) - 1;
    std::vector<int64_t> index(outer, 0);
    Offsets offsets{};
    while (true) {
      row(offsets, sizes_.back(), steps_.back());
      int dim = outer - 1;
      for (; dim >= 0; --dim) {
        for (int t = 0; t < N; ++t) offsets[t] += steps_[dim][t];
        if (++index[dim] < sizes_[dim]) break;
        for (int t = 0; t < N; ++t) offsets[t] -= steps_[dim][t] * sizes_[dim];
        index[dim] = 0;
      }
      if (dim < 0) return;
    }
  }

 private:
  void append(int64_t size, const Offsets& steps) {
    if (!sizes_.empty()) {
      bool mergeable = true;
      for (int t = 0; t < N; ++t) mergeable &= steps_.back()[t] == steps[t] * size;
      if (mergeable) {
        sizes_.back() *= size;
        steps_.back() = steps;
        return;
      }
    }
    sizes_.push_back(size);
    steps_.push_back(steps);
  }

  std::vector<int64_t> sizes_;
  std::vector<Offsets> steps_;
  bool empty_ = false;
};

template <class T>
T* elements_of(const TensorRef& tensor) {
  return static_cast<T*>(tensor.data);
}

// out[i] = function(a[i]) on storage types.
template <class R, class A, class Function>
void map(const TensorRef& out, const TensorRef& a, Function function) {
  Nest<2> nest(out.sizes, {&out.strides, &a.strides});
  nest.run([&](const auto& offsets, int64_t count, const auto& steps) {
    R* result = elements_of<R>(out) + offsets[0];
    const A* x = elements_of<const A>(a) + offsets[1];
    if (steps[0] == 1 && steps[1] == 1) {
      for (int64_t i = 0; i < count; ++i) result[i] = function(x[i]);
      return;
    }
    for (int64_t i = 0; i < count; ++i) result[i * steps[0]] = function(x[i * steps[1]]);
  });
}

template <class R, class A, class B, class Function>
void map(const TensorRef& out, const TensorRef& a, const TensorRef& b, Function function) {
  Nest<3> nest(out.sizes, {&out.strides, &a.strides, &b.strides});
  nest.run([&](const auto& offsets, int64_t count, const auto& steps) {
    R* result = elements_of<R>(out) + offsets[0];
    const A* x = elements_of<const A>(a) + offsets[1];
    const B* y = elements_of<const B>(b) + offsets[2];
    if (steps[0] == 1 && steps[1] == 1 && steps[2] == 1) {
      for (int64_t i = 0; i < count; ++i) result[i] = function(x[i], y[i]);
      return;
    }
    for (int64_t i = 0; i < count; ++i) result[i * steps[0]] = function(x[i * steps[1]], y[i * steps[2]]);
  });
}

template <class R, class A, class B, class D, class Function>
void map(const TensorRef& out, const TensorRef& a, const TensorRef& b, const TensorRef& d,
         Function function) {
  Nest<4> nest(out.sizes, {&out.strides, &a.strides, &b.strides, &d.strides});
  nest.run([&](const auto& offsets, int64_t count, const auto& steps) {
    R* result = elements_of<R>(out) + offsets[0];
    const A* x = elements_of<const A>(a) + offsets[1];
    const B* y = elements_of<const B>(b) + offsets[2];
    const D* z = elements_of<const D>(d) + offsets[3];
    for (int64_t i = 0; i < count; ++i) {
      result[i * steps[0]] = function(x[i * steps[1]], y[i * steps[2]], z[i * steps[3]]);
    }
  });
}

// Reads element `offset` (in elements, from the start) of an index tensor.
inline int64_t index_at(const TensorRef& tensor, int64_t offset) {
  if (tensor.dtype == DType::I32) return elements_of<const int32_t>(tensor)[offset];
  return elements_of<const int64_t>(tensor)[offset];
}

// The tensor seen from `offset` elements further on.
TensorRef moved(const TensorRef& tensor, int64_t offset);
// A 0-d tensor repeated over `sizes`; any other is returned as it is.
TensorRef repeated(const TensorRef& tensor, const std::vector<int64_t>& sizes);
// The tensor without dim `dim`, at index 0 of it.
TensorRef without_dim(const TensorRef& tensor, int64_t dim);
// Part [start, start + size) of one dim.
TensorRef part_of(const TensorRef& tensor, int64_t dim, int64_t start, int64_t size);

// Both have the same sizes and element width.
void copy_elements(const TensorRef& target, const TensorRef& source);
// Every element becomes the one at `element`.
void fill_elements(const TensorRef& target, const void* element);
void fill_zero(const TensorRef& target);

// Walks the index vectors of `sizes` in row-major order: visit(index) for each.
template <class Visit>
void for_each_index(const std::vector<int64_t>& sizes, Visit&& visit) {
  for (int64_t size : sizes) {
    if (size == 0) return;
  }
  std::vector<int64_t> index(sizes.size(), 0);
  while (true) {
    visit(index);
    int dim = static_cast<int>(sizes.size()) - 1;
    for (; dim >= 0; --dim) {
      if (++index[dim] < sizes[dim]) break;
      index[dim] = 0;
    }
    if (dim < 0) return;
  }
}

inline int64_t offset_of(const std::vector<int64_t>& index, const std::vector<int64_t>& strides) {
  int64_t offset = 0;
  for (size_t dim = 0; dim < index.size(); ++dim) offset += index[dim] * strides[dim];
  return offset;
}

inline int64_t product(const std::vector<int64_t>& sizes) {
  int64_t result = 1;
  for (int64_t size : sizes) result *= size;
  return result;
}

}  // namespace tilewright::reference
