// Reference kernels of activation functions and their gradients, from their formulas in long double.
#include <algorithm>
#include <numbers>

#include "ir/reference/composite.h"

namespace tilewright {

using namespace reference;
namespace {

using Real = long double;

template <class Function>
Status map1(KernelCall& call, Function function) {
  Numbers x(call.in(0));
  for (int64_t i = 0; i < x.count(); ++i)
    put(call.out(), i, static_cast<double>(function(static_cast<Real>(x[i]))));
  return Status::ok();
}

template <class Function>
Status map2(KernelCall& call, Function function) {
  Numbers x(call.in(0)), y(call.in(1));
  for (int64_t i = 0; i < x.count(); ++i) {
    put(call.out(), i, static_cast<double>(function(static_cast<Real>(x[i]), static_cast<Real>(y[i]))));
  }
  return Status::ok();
}

Real logistic(Real x) { return 1 / (1 + std::exp(-x)); }
Real softplus(Real x) { return std::max<Real>(x, 0) + std::log1p(std::exp(-std::fabs(x))); }
Real silu(Real x) { return x * logistic(x); }

// The limits at +-inf are 1 and 0.
Real silu_slope(Real x) {
  if (std::isinf(x)) return x > 0;
  Real s = logistic(x);
  return s * (1 + x * logistic(-x));
}

Real elu(Real x, Real alpha, Real scale, Real input_scale) {
  return x > 0 ? scale * x : scale * alpha * std::expm1(input_scale * x);
}

constexpr Real kTanhScale = 0.7978845608028654L;

Real gelu_erf(Real x) { return x * std::erfc(-x / std::numbers::sqrt2_v<Real>) / 2; }
Real gelu_tanh(Real x) { return x * logistic(2 * kTanhScale * (x + 0.044715L * x * x * x)); }

Real gelu_erf_slope(Real x) {
  if (std::isinf(x)) return x > 0;
  Real density = std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi_v<Real>);
  return std::erfc(-x / std::numbers::sqrt2_v<Real>) / 2 + x * density;
}

Real gelu_tanh_slope(Real x) {
  if (std::isinf(x)) return x > 0;
  // 1/2 (1 + tanh(u)) = logistic(2u), which keeps its digits where tanh(u) is near -1
  Real twice = 2 * kTanhScale * (x + 0.044715L * x * x * x);
  Real s = logistic(twice), slope = 2 * kTanhScale * (1 + 3 * 0.044715L * x * x);
  return s * (1 + x * logistic(-twice) * slope);
}

}  // namespace

Status reference_relu(KernelCall& call) {
  Numbers x(call.in(0));
  for (int64_t i = 0; i < x.count(); ++i) {
    if (is_float(x.dtype())) {
      put(call.out(), i, x[i] <= 0 ? 0 : x[i]);  // NaN passes
    } else {
      bool negative = is_signed_integer(x.dtype()) && x.integer(i) < 0;
      put_integer(call.out(), i, negative ? 0 : x.integer(i));
    }
  }
  return Status::ok();
}

Status reference_leaky_relu(KernelCall& call) {
  Numbers x(call.in(0));
  double slope = round_to_work(x.dtype(), call.attributes.get_float("slope"));
  for (int64_t i = 0; i < x.count(); ++i) put(call.out(), i, x[i] > 0 ? x[i] : slope * x[i]);
  return Status::ok();
}

Status reference_elu(KernelCall& call) {
  Real alpha = call.attributes.get_float("alpha"), scale = call.attributes.get_float("scale");
  Real input_scale = call.attributes.get_float("input_scale");
  return map1(call, [&](Real x) { return elu(x, alpha, scale, input_scale); });
}

Status reference_selu(KernelCall& call) {
  return map1(call, [](Real x) { return elu(x, 1.6732632423543772L, 1.0507009873554805L, 1); });
}

Status reference_softplus(KernelCall& call) {
  Real beta = call.attributes.get_float("beta"), threshold = call.attributes.get_float("threshold");
  return map1(call, [&](Real x) {
    if (std::isnan(x)) return x;
    return beta * x > threshold ? x : softplus(beta * x) / beta;
  });
}

Status reference_gelu(KernelCall& call) {
  return map1(call, call.attributes.get_string("approximate") == "none" ? gelu_erf : gelu_tanh);
}

Status reference_gelu_grad(KernelCall& call) {
  auto slope = call.attributes.get_string("approximate") == "none" ? gelu_erf_slope : gelu_tanh_slope;
  return map2(call, [&](Real g, Real x) { return g * slope(x); });
}

Status reference_silu(KernelCall& call) { return map1(call, silu); }
Status reference_silu_grad(KernelCall& call) {
  return map2(call, [](Real g, Real x) { return g * silu_slope(x); });
}

Status reference_mish(KernelCall& call) {
  return map1(call, [](Real x) { return std::isnan(x) ? x : x * std::tanh(softplus(x)); });
}

Status reference_hardtanh(KernelCall& call) {
  Numbers x(call.in(0));
  double lo = call.attributes.get_float("lo"), hi = call.attributes.get_float("hi");
  if (is_float(x.dtype())) {
    TensorRef out = call.out();
    for (int64_t i = 0; i < x.count(); ++i) {
      double value = x[i];
      if (value < lo) value = lo;
      if (value > hi) value = hi;
      put(out, i, value);
    }
    return Status::ok();
  }
  for (int64_t i = 0; i < x.count(); ++i) {
    // Comparisons with whole bounds; the value itself is kept where it is inside.
    Real value = x.dtype() == DType::U64 ? static_cast<Real>(static_cast<uint64_t>(x.integer(i)))
                                         : static_cast<Real>(x.integer(i));
    bool is_below =
        value<static_cast<Real>(lo), is_above = (is_below ? static_cast<Real>(lo) : value)> static_cast<Real>(
            hi);
    int64_t kept = x.integer(i);
    auto whole = [&](double bound) {
      return bound < 0 && is_unsigned_integer(x.dtype()) ? 0 : static_cast<int64_t>(bound);
    };
    if (is_below) kept = whole(lo);
    if (is_above) kept = whole(hi);
    put_integer(call.out(), i, kept);
  }
  return Status::ok();
}

Status reference_hardswish(KernelCall& call) {
  return map1(call, [](Real x) { return std::isnan(x) ? x : x * std::clamp<Real>(x + 3, 0, 6) / 6; });
}

Status reference_hardsigmoid(KernelCall& call) {
  return map1(call, [](Real x) { return std::isnan(x) ? x : std::clamp<Real>(x + 3, 0, 6) / 6; });
}

Status reference_swiglu(KernelCall& call) {
  return map2(call, [](Real gate, Real up) { return silu(gate) * up; });
}

Status reference_swiglu_grad(KernelCall& call) {
  Numbers g(call.in(0)), gate(call.in(1)), up(call.in(2));
  for (int64_t i = 0; i < g.count(); ++i) {
    Real cotangent = g[i], x = gate[i];
    put(call.out(0), i, static_cast<double>(cotangent * static_cast<Real>(up[i]) * silu_slope(x)));
    put(call.out(1), i, static_cast<double>(cotangent * silu(x)));
  }
  return Status::ok();
}

}  // namespace tilewright
