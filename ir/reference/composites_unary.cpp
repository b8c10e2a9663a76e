// Reference kernels of unary composites: each is one formula, evaluated in long double and rounded.
#include <numbers>

#include "ir/reference/composite.h"

namespace tilewright {

using namespace reference;
namespace {

template <class Function>
Status unary(KernelCall& call, Function function) {
  Numbers x(call.in(0));
  for (int64_t i = 0; i < x.count(); ++i)
    put(call.out(), i, static_cast<double>(function(static_cast<long double>(x[i]))));
  return Status::ok();
}

template <class Function>
Status test(KernelCall& call, Function function) {
  Numbers x(call.in(0));
  for (int64_t i = 0; i < x.count(); ++i) put_integer(call.out(), i, function(x[i]));
  return Status::ok();
}

}  // namespace

Status reference_asin(KernelCall& call) {
  return unary(call, [](long double x) { return std::asin(x); });
}
Status reference_acos(KernelCall& call) {
  return unary(call, [](long double x) { return std::acos(x); });
}
Status reference_atan(KernelCall& call) {
  return unary(call, [](long double x) { return std::atan(x); });
}
Status reference_sinh(KernelCall& call) {
  return unary(call, [](long double x) { return std::sinh(x); });
}
Status reference_cosh(KernelCall& call) {
  return unary(call, [](long double x) { return std::cosh(x); });
}
Status reference_asinh(KernelCall& call) {
  return unary(call, [](long double x) { return std::asinh(x); });
}
Status reference_acosh(KernelCall& call) {
  return unary(call, [](long double x) { return std::acosh(x); });
}
Status reference_atanh(KernelCall& call) {
  return unary(call, [](long double x) { return std::atanh(x); });
}
Status reference_exp2(KernelCall& call) {
  return unary(call, [](long double x) { return std::exp2(x); });
}
Status reference_log2(KernelCall& call) {
  return unary(call, [](long double x) { return std::log2(x); });
}
Status reference_log10(KernelCall& call) {
  return unary(call, [](long double x) { return std::log10(x); });
}

Status reference_reciprocal(KernelCall& call) {
  Numbers x(call.in(0));
  for (int64_t i = 0; i < x.count(); ++i) put(call.out(), i, 1 / x[i]);
  return Status::ok();
}

Status reference_square(KernelCall& call) {
  Numbers x(call.in(0));
  for (int64_t i = 0; i < x.count(); ++i) {
    if (is_float(x.dtype())) {
      put(call.out(), i, x[i] * x[i]);
    } else {
      uint64_t value = static_cast<uint64_t>(x.integer(i));
      put_integer(call.out(), i, static_cast<int64_t>(value * value));
    }
  }
  return Status::ok();
}

Status reference_isnan(KernelCall& call) {
  return test(call, [](double x) { return x != x; });
}
Status reference_isinf(KernelCall& call) {
  return test(call, [](double x) { return std::fabs(x) == HUGE_VAL; });
}

Status reference_logit(KernelCall& call) {
  bool clamps = call.attributes.has("eps");
  DType dtype = call.in(0).dtype;
  double eps = clamps ? call.attributes.get_float("eps") : 0;
  long double lo = round_to_work(dtype, eps), hi = round_to_work(dtype, 1 - eps);
  return unary(call, [&](long double x) {
    if (clamps && x < lo) x = lo;
    if (clamps && x > hi) x = hi;
    return std::log(x) - std::log1p(-x);
  });
}

}  // namespace tilewright
