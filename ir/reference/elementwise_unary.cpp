// Reference kernels of one-operand elementwise ops, convert and reduce_precision.
#include "ir/reference/functions.h"
#include "ir/reference/strided.h"

namespace tilewright {

using namespace reference;

namespace {

// Predicates answer bool whatever the operand type.
template <class T, class Answer>
using ResultStorage = std::conditional_t<std::is_same_v<Answer, bool>, Boolean, T>;

template <class Function, uint32_t kMask>
Status unary(KernelCall& call) {
  const TensorRef& x = call.in(0);
  return visit<kMask>(x.dtype, [&]<class T>(Tag<T>) {
    using Answer = decltype(Function::apply(ComputeType<T>{}));
    using R = ResultStorage<T, Answer>;
    map<R, T>(call.out(), x,
              [](T value) { return Element<R>::store(Function::apply(Element<T>::load(value))); });
    return Status::ok();
  });
}

}  // namespace

#define TW_KERNEL(name, Enum, mask) \
  Status reference_##name(KernelCall& call) { return unary<reference::Enum, mask>(call); }
TW_UNARY_FUNCTIONS(TW_KERNEL)
#undef TW_KERNEL

Status reference_convert(KernelCall& call) {
  const TensorRef& x = call.in(0);
  bool saturate = call.attributes.get_bool("saturate");
  return visit<kAny>(x.dtype, [&]<class From>(Tag<From>) {
    return visit<kAny>(call.out().dtype, [&]<class To>(Tag<To>) {
      map<To, From>(call.out(), x, [saturate](From value) { return convert_element<To>(value, saturate); });
      return Status::ok();
    });
  });
}

Status reference_reduce_precision(KernelCall& call) {
  const TensorRef& x = call.in(0);
  int exponent_bits = static_cast<int>(call.attributes.get_int("exponent_bits"));
  int mantissa_bits = static_cast<int>(call.attributes.get_int("mantissa_bits"));
  return visit<kFloat>(x.dtype, [&]<class T>(Tag<T>) {
    map<T, T>(call.out(), x, [=](T value) {
      double wide = static_cast<double>(Element<T>::load(value));
      return round_once<T>(reduce_precision(wide, exponent_bits, mantissa_bits));
    });
    return Status::ok();
  });
}

}  // namespace tilewright
