// Reference kernels of dropout and of uniform and normal random numbers.
#include <algorithm>
#include <numbers>

#include "ir/reference/composite.h"
#include "ir/reference/functions.h"

namespace tilewright {

using namespace reference;

Status reference_dropout(KernelCall& call) {
  Numbers x(call.in(0));
  PhiloxWords words(call.in(1));
  double p = call.attributes.get_float("p");
  double threshold = round_to_work(DType::F32, p), kept = p == 1 ? 1 : round_to_work(x.dtype(), 1 - p);
  const TensorRef& mask = call.out(1);
  std::fill_n(elements_of<uint8_t>(mask), mask.elements(), uint8_t{0});
  int64_t last = x.rank() == 0 ? 1 : x.sizes().back(), bytes = mask.sizes.back();
  for (int64_t i = 0; i < x.count(); ++i) {
    bool keep = words.uniform(i, DType::F32) >= threshold;
    put(call.out(0), i, keep ? x[i] / kept : 0);
    int64_t row = i / last, column = i % last;
    if (keep)
      elements_of<uint8_t>(mask)[row * bytes + column / 8] |= static_cast<uint8_t>(1u << (column % 8));
  }
  words.write_state(call.out(2), x.count());
  return Status::ok();
}

Status reference_dropout_grad(KernelCall& call) {
  Numbers g(call.in(0)), mask(call.in(1));
  double p = call.attributes.get_float("p"), kept = p == 1 ? 1 : round_to_work(g.dtype(), 1 - p);
  int64_t last = g.rank() == 0 ? 1 : g.sizes().back(), bytes = mask.sizes().back();
  for (int64_t i = 0; i < g.count(); ++i) {
    int64_t row = i / last, column = i % last;
    bool keep = (mask.integer(row * bytes + column / 8) >> (column % 8)) & 1;
    put(call.out(), i, keep ? g[i] / kept : 0);
  }
  return Status::ok();
}

Status reference_random_uniform(KernelCall& call) {
  PhiloxWords words(call.in(0));
  const TensorRef& y = call.out(0);
  double lo = round_to_work(y.dtype, call.attributes.get_float("lo"));
  double width = round_to_work(y.dtype, call.attributes.get_float("hi") - call.attributes.get_float("lo"));
  int64_t count = y.elements();
  for (int64_t i = 0; i < count; ++i) {
    double scaled = round_to_work(y.dtype, words.uniform(i, y.dtype) * width);
    put(y, i, round_to_work(y.dtype, scaled + lo));
  }
  words.write_state(call.out(1), y.dtype == DType::F64 ? 2 * count : count);
  return Status::ok();
}

Status reference_random_normal(KernelCall& call) {
  PhiloxWords words(call.in(0));
  const TensorRef& y = call.out(0);
  double mean = call.attributes.get_float("mean"), std = call.attributes.get_float("std");
  int64_t count = y.elements();
  for (int64_t i = 0; i < count; ++i) {
    long double unit = y.dtype == DType::F64 ? 0x1p-53L : 0x1p-24L;
    long double u = static_cast<long double>(words.uniform(i, y.dtype)) + unit / 2;
    put(y, i, static_cast<double>(mean + std * std::numbers::sqrt2_v<long double> * erf_inv(2 * u - 1)));
  }
  words.write_state(call.out(1), y.dtype == DType::F64 ? 2 * count : count);
  return Status::ok();
}

}  // namespace tilewright
