// Reference kernels of elementwise ops with two and three operands.
#include "ir/reference/attributes.h"
#include "ir/reference/strided.h"

namespace tilewright {

using namespace reference;

namespace {

template <class Function, uint32_t kMask>
Status binary(KernelCall& call) {
  return visit<kMask>(call.in(0).dtype, [&]<class T>(Tag<T>) {
    map<T, T, T>(call.out(), call.in(0), call.in(1), [](T x, T y) {
      return Element<T>::store(Function::apply(Element<T>::load(x), Element<T>::load(y)));
    });
    return Status::ok();
  });
}

template <class T, Direction kDirection>
void compare_all(KernelCall& call) {
  map<Boolean, T, T>(call.out(), call.in(0), call.in(1), [](T x, T y) {
    return Element<Boolean>::store(compare_values(kDirection, Element<T>::load(x), Element<T>::load(y)));
  });
}

template <class T>
void compare_by_direction(KernelCall& call, Direction direction) {
  switch (direction) {
    case Direction::EQ: return compare_all<T, Direction::EQ>(call);
    case Direction::NE: return compare_all<T, Direction::NE>(call);
    case Direction::GE: return compare_all<T, Direction::GE>(call);
    case Direction::GT: return compare_all<T, Direction::GT>(call);
    case Direction::LE: return compare_all<T, Direction::LE>(call);
    case Direction::LT: return compare_all<T, Direction::LT>(call);
  }
}

}  // namespace

#define TW_KERNEL(name, Enum, mask) \
  Status reference_##name(KernelCall& call) { return binary<reference::Enum, mask>(call); }
TW_BINARY_FUNCTIONS(TW_KERNEL)
#undef TW_KERNEL

Status reference_compare(KernelCall& call) {
  CompareSpec spec = read_compare(call.attributes, call.in(0).dtype);
  return visit<kArith>(spec.dtype, [&]<class T>(Tag<T>) {
    if constexpr (kIsFloat<T>) {
      if (spec.total_order) {
        map<Boolean, T, T>(call.out(), call.in(0), call.in(1), [&](T x, T y) {
          auto key_x = total_order_key(Element<T>::load(x)), key_y = total_order_key(Element<T>::load(y));
          return Element<Boolean>::store(compare_values(spec.direction, key_x, key_y));
        });
        return Status::ok();
      }
    }
    compare_by_direction<T>(call, spec.direction);
    return Status::ok();
  });
}

Status reference_select(KernelCall& call) {
  TensorRef pred = repeated(call.in(0), call.out().sizes);
  return visit_width(call.out().dtype, [&]<class T>(Tag<T>) {
    map<T, Boolean, T, T>(call.out(), pred, call.in(1), call.in(2),
                          [](Boolean choose, T x, T y) { return choose.bits ? x : y; });
    return Status::ok();
  });
}

Status reference_clamp(KernelCall& call) {
  TensorRef lo = repeated(call.in(0), call.out().sizes), hi = repeated(call.in(2), call.out().sizes);
  return visit<kNumber>(call.out().dtype, [&]<class T>(Tag<T>) {
    map<T, T, T, T>(call.out(), lo, call.in(1), hi, [](T low, T x, T high) {
      return Element<T>::store(
          Clamp::apply(Element<T>::load(low), Element<T>::load(x), Element<T>::load(high)));
    });
    return Status::ok();
  });
}

}  // namespace tilewright
