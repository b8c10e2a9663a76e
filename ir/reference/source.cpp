// Reference kernels of ops that make values from attributes: constant, iota, uninitialized, dim_size.
#include "ir/reference/functions.h"
#include "ir/reference/strided.h"

namespace tilewright {

using namespace reference;

Status reference_constant(KernelCall& call) {
  ConstantRef constant = call.attributes.get_constant("value");
  TW_ASSERT(constant != nullptr);
  const TensorRef& out = call.out();
  if (constant->splat) {
    fill_elements(out, constant->data);
    return Status::ok();
  }
  if (constant->bytes != out.bytes()) {
    return Status::invalid(
        cat("constant: ", constant->bytes, " bytes of data for ", out.bytes(), " bytes of tensor"));
  }
  if (constant->bytes > 0) std::memcpy(out.data, constant->data, static_cast<size_t>(constant->bytes));
  return Status::ok();
}

Status reference_iota(KernelCall& call) {
  const TensorRef& out = call.out();
  int64_t dim = call.attributes.get_int("dim");
  return visit<kAny>(out.dtype, [&]<class T>(Tag<T>) {
    std::vector<T> line;
    for (int64_t i = 0; i < out.sizes[dim]; ++i) line.push_back(convert_element<T>(i, false));
    TensorRef source{out.dtype, out.sizes, std::vector<int64_t>(out.sizes.size(), 0), line.data()};
    source.strides[dim] = 1;
    copy_elements(out, source);
    return Status::ok();
  });
}

Status reference_uninitialized(KernelCall& call) {
  uint64_t pattern = 0xaaaaaaaaaaaaaaaa;
  fill_elements(call.out(), &pattern);
  return Status::ok();
}

Status reference_dim_size(KernelCall& call) {
  *elements_of<int64_t>(call.out()) = call.in(0).sizes[call.attributes.get_int("dim")];
  return Status::ok();
}

}  // namespace tilewright
