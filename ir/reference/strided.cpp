// Views, copies and fills of strided tensors.
#include "ir/reference/strided.h"

namespace tilewright::reference {

TensorRef moved(const TensorRef& tensor, int64_t offset) {
  TensorRef view = tensor;
  view.data = static_cast<char*>(tensor.data) + offset * dtype_bytes(tensor.dtype);
  return view;
}

TensorRef repeated(const TensorRef& tensor, const std::vector<int64_t>& sizes) {
  if (tensor.rank() != 0 || sizes.empty()) return tensor;
  return TensorRef{tensor.dtype, sizes, std::vector<int64_t>(sizes.size(), 0), tensor.data};
}

TensorRef without_dim(const TensorRef& tensor, int64_t dim) {
  TensorRef view = tensor;
  view.sizes.erase(view.sizes.begin() + dim);
  view.strides.erase(view.strides.begin() + dim);
  return view;
}

TensorRef part_of(const TensorRef& tensor, int64_t dim, int64_t start, int64_t size) {
  TensorRef view = moved(tensor, start * tensor.strides[dim]);
  view.sizes[dim] = size;
  return view;
}

namespace {

template <class T>
void copy_row(T* target, const T* source, int64_t count, int64_t target_step, int64_t source_step) {
  if (target_step == 1 && source_step == 1) {
    std::memmove(target, source, static_cast<size_t>(count) * sizeof(T));
    return;
  }
  for (int64_t i = 0; i < count; ++i) target[i * target_step] = source[i * source_step];
}

}  // namespace

void copy_elements(const TensorRef& target, const TensorRef& source) {
  Nest<2> nest(target.sizes, {&target.strides, &source.strides});
  (void)visit_width(target.dtype, [&]<class T>(Tag<T>) {
    nest.run([&](const auto& offsets, int64_t count, const auto& steps) {
      copy_row(elements_of<T>(target) + offsets[0], elements_of<const T>(source) + offsets[1], count,
               steps[0], steps[1]);
    });
    return Status::ok();
  });
}

void fill_elements(const TensorRef& target, const void* element) {
  Nest<1> nest(target.sizes, {&target.strides});
  (void)visit_width(target.dtype, [&]<class T>(Tag<T>) {
    T value;
    std::memcpy(&value, element, sizeof value);
    nest.run([&](const auto& offsets, int64_t count, const auto& steps) {
      T* start = elements_of<T>(target) + offsets[0];
      for (int64_t i = 0; i < count; ++i) start[i * steps[0]] = value;
    });
    return Status::ok();
  });
}

void fill_zero(const TensorRef& target) {
  uint64_t zero = 0;
  fill_elements(target, &zero);
}

}  // namespace tilewright::reference
