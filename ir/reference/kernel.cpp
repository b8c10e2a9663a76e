// The table of reference kernels, tensor references and the sticky error.
#include "ir/reference/kernel.h"

#include "base/text.h"

namespace tilewright {

int64_t TensorRef::elements() const {
  int64_t count = 1;
  for (int64_t size : sizes) count *= size;
  return count;
}

bool TensorRef::is_dense() const {
  int64_t expected = 1;
  for (int dim = rank() - 1; dim >= 0; --dim) {
    if (sizes[dim] == 0) return true;
    if (sizes[dim] == 1) continue;
    if (strides[dim] != expected) return false;
    expected *= sizes[dim];
  }
  return true;
}

std::vector<int64_t> TensorRef::dense_strides(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t step = 1;
  for (size_t dim = sizes.size(); dim-- > 0;) {
    strides[dim] = step;
    step *= sizes[dim];
  }
  return strides;
}

void StickyError::set(Status status) {
  std::lock_guard lock(mutex_);
  if (set_.load(std::memory_order_relaxed) || status.is_ok()) return;
  status_ = std::move(status);
  set_.store(true, std::memory_order_release);
}

Status StickyError::get() const {
  std::lock_guard lock(mutex_);
  return status_;
}

Result<std::vector<int64_t>> KernelCall::sizes(std::string_view name) const {
  std::vector<int64_t> values;
  for (const Dim& dim : attributes.get_dims(name)) {
    TW_ASSIGN_OR_RETURN(int64_t value, dim.evaluate(bindings));
    values.push_back(value);
  }
  return values;
}

ReferenceKernel reference_kernel(Op op) {
  switch (op) {
#define OP(name, Enum, ...) \
  case Op::Enum: return &reference_##name;
#define COMPOSITE OP
#include "ir/ops.def"
#undef OP
#undef COMPOSITE
  }
  return nullptr;
}

}  // namespace tilewright
