// Reference kernels of floor_divide and modulo.
#include "ir/reference/composite.h"

namespace tilewright {

using namespace reference;
namespace {

// C's fmod and one step where the signs differ; then the quotient to the nearest whole number.
template <class Real>
Real floor_quotient(Real x, Real y) {
  if (y == 0) return x / y;
  Real remainder = std::fmod(x, y), quotient = (x - remainder) / y;
  if (remainder != 0 && (y < 0) != (remainder < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(Real(0), x / y);
  Real down = std::floor(quotient);
  return quotient - down > Real(0.5) ? down + 1 : down;
}

template <class Real>
Real modulo(Real x, Real y) {
  Real remainder = std::fmod(x, y);
  return remainder != 0 && (y < 0) != (remainder < 0) ? remainder + y : remainder;
}

// The value as a 128-bit integer, so that nothing overflows.
__extension__ typedef __int128 Wide;
Wide wide(const Numbers& x, int64_t i) {
  if (x.dtype() == DType::U64) return static_cast<Wide>(static_cast<uint64_t>(x.integer(i)));
  return x.integer(i);
}

struct Division {
  Wide quotient, remainder;
};
// Rounded down; a zero divisor gives all ones and the dividend.
Division divide_down(Wide x, Wide y) {
  if (y == 0) return {-1, x};
  Wide quotient = x / y, remainder = x % y;
  if (remainder != 0 && (remainder < 0) != (y < 0)) --quotient, remainder += y;
  return {quotient, remainder};
}

}  // namespace

Status reference_floor_divide(KernelCall& call) {
  Numbers x(call.in(0)), y(call.in(1));
  for (int64_t i = 0; i < x.count(); ++i) {
    if (x.dtype() == DType::F64) {
      put(call.out(), i, floor_quotient(x[i], y[i]));
    } else if (is_float(x.dtype())) {
      put(call.out(), i,
          static_cast<double>(floor_quotient(static_cast<float>(x[i]), static_cast<float>(y[i]))));
    } else {
      put_integer(call.out(), i, static_cast<int64_t>(divide_down(wide(x, i), wide(y, i)).quotient));
    }
  }
  return Status::ok();
}

Status reference_modulo(KernelCall& call) {
  Numbers x(call.in(0)), y(call.in(1));
  for (int64_t i = 0; i < x.count(); ++i) {
    if (x.dtype() == DType::F64) {
      put(call.out(), i, modulo(x[i], y[i]));
    } else if (is_float(x.dtype())) {
      put(call.out(), i, static_cast<double>(modulo(static_cast<float>(x[i]), static_cast<float>(y[i]))));
    } else {
      put_integer(call.out(), i, static_cast<int64_t>(divide_down(wide(x, i), wide(y, i)).remainder));
    }
  }
  return Status::ok();
}

}  // namespace tilewright
