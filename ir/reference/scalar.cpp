// Scalar semantics on one element at a time, for the constant folder and the tile interpreter.
#include "ir/reference/scalar.h"

#include "ir/reference/attributes.h"
#include "ir/reference/functions.h"

namespace tilewright {

using namespace reference;

uint16_t f32_to_bf16_bits(float value) { return f32_to_bf16(value); }
float bf16_bits_to_f32(uint16_t bits) { return bf16_to_f32(bits); }
uint16_t f32_to_f16_bits(float value) { return f32_to_f16(value); }
float f16_bits_to_f32(uint16_t bits) { return f16_to_f32(bits); }
uint8_t f32_to_f8_bits(DType dtype, float value, bool saturate) {
  return f32_to_f8(dtype == DType::F8E5M2 ? kE5M2 : kE4M3FN, value, saturate);
}
float f8_bits_to_f32(DType dtype, uint8_t bits) {
  return f8_to_f32(dtype == DType::F8E5M2 ? kE5M2 : kE4M3FN, bits);
}

namespace {

// The status of visit() only tells of dtypes outside the mask, which callers exclude.
void ignore(const Status&) {}

template <class T>
ComputeType<T> get(const Scalar& value) {
  if constexpr (kIsFloat<T>)
    return static_cast<ComputeType<T>>(value.f);
  else
    return static_cast<ComputeType<T>>(value.i);
}

template <class T>
Scalar wrap(DType dtype, T stored) {
  Scalar result;
  result.dtype = dtype;
  if constexpr (kIsFloat<T>)
    result.f = static_cast<double>(Element<T>::load(stored));
  else
    result.i = static_cast<int64_t>(Element<T>::load(stored));
  return result;
}

// A result of arithmetic in ComputeType<T>: bool answers of predicates become Bool scalars.
template <class T, class R>
Scalar finish(DType dtype, R value) {
  if constexpr (kIsBool<R>)
    return wrap(DType::Bool, Element<Boolean>::store(value));
  else
    return wrap(dtype, Element<T>::store(value));
}

template <class Function, uint32_t kMask>
Scalar unary(const Scalar& x) {
  Scalar result;
  ignore(visit<kMask>(x.dtype, [&]<class T>(Tag<T>) {
    result = finish<T>(x.dtype, Function::apply(get<T>(x)));
    return Status::ok();
  }));
  return result;
}

template <class Function, uint32_t kMask>
Scalar binary(const Scalar& x, const Scalar& y) {
  Scalar result;
  ignore(visit<kMask>(x.dtype, [&]<class T>(Tag<T>) {
    result = finish<T>(x.dtype, Function::apply(get<T>(x), get<T>(y)));
    return Status::ok();
  }));
  return result;
}

Scalar of_bool(bool value) { return wrap(DType::Bool, Element<Boolean>::store(value)); }

Scalar compare(const AttributeReader& attributes, const Scalar& x, const Scalar& y) {
  CompareSpec spec = read_compare(attributes, x.dtype);
  bool answer = false;
  ignore(visit<kArith>(spec.dtype, [&]<class T>(Tag<T>) {
    if constexpr (kIsFloat<T>) {
      if (spec.total_order) {
        answer = compare_values(spec.direction, total_order_key(get<T>(x)), total_order_key(get<T>(y)));
        return Status::ok();
      }
    }
    answer = compare_values(spec.direction, get<T>(x), get<T>(y));
    return Status::ok();
  }));
  return of_bool(answer);
}

Scalar clamp(const Scalar* operands) {
  Scalar result;
  ignore(visit<kNumber>(operands[1].dtype, [&]<class T>(Tag<T>) {
    result = finish<T>(operands[1].dtype,
                       Clamp::apply(get<T>(operands[0]), get<T>(operands[1]), get<T>(operands[2])));
    return Status::ok();
  }));
  return result;
}

}  // namespace

Scalar Scalar::of_float(DType dtype, double value) {
  Scalar result;
  result.dtype = dtype;
  result.f = round_to(dtype, value);
  return result;
}

Scalar Scalar::of_integer(DType dtype, int64_t value) {
  Scalar result;
  result.dtype = dtype;
  ignore(visit<kLogical>(dtype, [&]<class T>(Tag<T>) {
    result.i = static_cast<int64_t>(static_cast<ComputeType<T>>(value));
    return Status::ok();
  }));
  return result;
}

Scalar load_scalar(DType dtype, const void* address) {
  Scalar result;
  ignore(visit<kAny>(dtype, [&]<class T>(Tag<T>) {
    T stored;
    std::memcpy(&stored, address, sizeof stored);
    result = wrap(dtype, stored);
    return Status::ok();
  }));
  return result;
}

void store_scalar(const Scalar& value, void* address) {
  ignore(visit<kAny>(value.dtype, [&]<class T>(Tag<T>) {
    T stored = Element<T>::store(get<T>(value));
    std::memcpy(address, &stored, sizeof stored);
    return Status::ok();
  }));
}

double round_to(DType dtype, double value) {
  double result = value;
  ignore(visit<kFloat | kFloat8>(dtype, [&]<class T>(Tag<T>) {
    result = static_cast<double>(Element<T>::load(round_once<T>(value)));
    return Status::ok();
  }));
  return result;
}

Scalar convert_scalar(const Scalar& value, DType dtype, bool saturate) {
  Scalar result;
  ignore(visit<kAny>(value.dtype, [&]<class From>(Tag<From>) {
    From stored = Element<From>::store(get<From>(value));
    return visit<kAny>(dtype, [&]<class To>(Tag<To>) {
      result = wrap(dtype, convert_element<To>(stored, saturate));
      return Status::ok();
    });
  }));
  return result;
}

Scalar evaluate_elementwise(Op op, const AttributeReader& attributes, const Scalar* operands, int) {
  switch (op) {
#define TW_CASE(name, Enum, mask) \
  case Op::Enum: return unary<reference::Enum, mask>(operands[0]);
    TW_UNARY_FUNCTIONS(TW_CASE)
#undef TW_CASE
#define TW_CASE(name, Enum, mask) \
  case Op::Enum: return binary<reference::Enum, mask>(operands[0], operands[1]);
    TW_BINARY_FUNCTIONS(TW_CASE)
#undef TW_CASE
    case Op::Compare: return compare(attributes, operands[0], operands[1]);
    case Op::Select: return operands[0].is_true() ? operands[1] : operands[2];
    case Op::Clamp: return tilewright::clamp(operands);
    case Op::Convert:
      return convert_scalar(operands[0], attributes.get_dtype("dtype", operands[0].dtype),
                            attributes.get_bool("saturate"));
    case Op::ReducePrecision:
      return Scalar::of_float(
          operands[0].dtype,
          reduce_precision(operands[0].f, static_cast<int>(attributes.get_int("exponent_bits")),
                           static_cast<int>(attributes.get_int("mantissa_bits"))));
    default: return Scalar{};  // not elementwise: excluded by the caller
  }
}

namespace {

enum class Combine : uint8_t { Sum, Product, Maximum, Minimum, And, Or, Xor };

// The combine step that an elementwise, reduction or scan op stands for.
Combine combine_of(Op op) {
  switch (op) {
    case Op::Multiply:
    case Op::ReduceProduct:
    case Op::CumulativeProduct: return Combine::Product;
    case Op::Maximum:
    case Op::ReduceMax:
    case Op::CumulativeMax: return Combine::Maximum;
    case Op::Minimum:
    case Op::ReduceMin:
    case Op::CumulativeMin: return Combine::Minimum;
    case Op::And:
    case Op::ReduceAnd: return Combine::And;
    case Op::Or:
    case Op::ReduceOr: return Combine::Or;
    case Op::Xor:
    case Op::ReduceXor: return Combine::Xor;
    default: return Combine::Sum;
  }
}

}  // namespace

Scalar combine(Op op, const Scalar& a, const Scalar& b) {
  switch (combine_of(op)) {
    case Combine::Sum: return binary<Add, kArith>(a, b);
    case Combine::Product: return binary<Multiply, kArith>(a, b);
    case Combine::Maximum: return binary<Maximum, kArith>(a, b);
    case Combine::Minimum: return binary<Minimum, kArith>(a, b);
    case Combine::And: return binary<And, kLogical>(a, b);
    case Combine::Or: return binary<Or, kLogical>(a, b);
    case Combine::Xor: return binary<Xor, kLogical>(a, b);
  }
  return Scalar{};
}

Scalar reduction_identity(Op op, DType dtype) {
  Scalar result;
  Combine kind = combine_of(op);
  ignore(visit<kArith>(dtype, [&]<class T>(Tag<T>) {
    using C = ComputeType<T>;
    C value = C(0);
    if (kind == Combine::Product) value = C(1);
    if (kind == Combine::Maximum) value = lowest_value<C>();
    if (kind == Combine::Minimum) value = highest_value<C>();
    if constexpr (!kIsReal<C>) {
      if (kind == Combine::And) value = static_cast<C>(~uint64_t{0});
    }
    result = wrap(dtype, Element<T>::store(value));
    return Status::ok();
  }));
  return result;
}

}  // namespace tilewright
