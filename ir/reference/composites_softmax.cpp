// Reference kernels of softmax, log_softmax, logsumexp and their gradients: one line at a time, in double.
#include <algorithm>

#include "ir/reference/composite.h"

namespace tilewright {

using namespace reference;
namespace {

// The largest of a line; NaN wins.
double largest(const Numbers& x, int64_t start, const Axis& axis) {
  double max = -HUGE_VAL;
  for (int64_t k = 0; k < axis.size; ++k) {
    double value = x[start + k * axis.inner];
    if (value > max || std::isnan(value)) max = value;
    if (std::isnan(max)) break;
  }
  return max;
}

}  // namespace

Status reference_softmax(KernelCall& call) {
  Numbers x(call.in(0));
  Axis axis(x.sizes(), call.attributes.get_int("dim"));
  bool safe = call.attributes.get_bool("safe");
  axis.lines([&](int64_t start) {
    double max = largest(x, start, axis), sum = 0;
    bool empty = safe && max == -HUGE_VAL;
    for (int64_t k = 0; k < axis.size; ++k) sum += std::exp(x[start + k * axis.inner] - max);
    for (int64_t k = 0; k < axis.size; ++k) {
      int64_t at = start + k * axis.inner;
      put(call.out(), at, empty ? 0 : std::exp(x[at] - max) / sum);
    }
  });
  return Status::ok();
}

Status reference_softmax_grad(KernelCall& call) {
  Numbers g(call.in(0)), y(call.in(1));
  Axis axis(g.sizes(), call.attributes.get_int("dim"));
  axis.lines([&](int64_t start) {
    double sum = 0;
    for (int64_t k = 0; k < axis.size; ++k) sum += g[start + k * axis.inner] * y[start + k * axis.inner];
    for (int64_t k = 0; k < axis.size; ++k) {
      int64_t at = start + k * axis.inner;
      put(call.out(), at, y[at] * (g[at] - sum));
    }
  });
  return Status::ok();
}

Status reference_log_softmax(KernelCall& call) {
  Numbers x(call.in(0));
  Axis axis(x.sizes(), call.attributes.get_int("dim"));
  axis.lines([&](int64_t start) {
    double max = largest(x, start, axis), sum = 0;
    for (int64_t k = 0; k < axis.size; ++k) sum += std::exp(x[start + k * axis.inner] - max);
    for (int64_t k = 0; k < axis.size; ++k) {
      int64_t at = start + k * axis.inner;
      put(call.out(), at, x[at] - max - std::log(sum));
    }
  });
  return Status::ok();
}

Status reference_log_softmax_grad(KernelCall& call) {
  Numbers g(call.in(0)), y(call.in(1));
  Axis axis(g.sizes(), call.attributes.get_int("dim"));
  axis.lines([&](int64_t start) {
    double sum = 0;
    for (int64_t k = 0; k < axis.size; ++k) sum += g[start + k * axis.inner];
    for (int64_t k = 0; k < axis.size; ++k) {
      int64_t at = start + k * axis.inner;
      put(call.out(), at, g[at] - std::exp(y[at]) * sum);
    }
  });
  return Status::ok();
}

Status reference_logsumexp(KernelCall& call) {
  Numbers x(call.in(0));
  const Ints& dims = call.attributes.get_ints("dims");
  // Where each input element goes among the results.
  std::vector<int64_t> kept = x.sizes();
  for (int64_t dim : dims) kept[static_cast<size_t>(dim)] = 1;
  std::vector<int64_t> strides = TensorRef::dense_strides(kept), cell(static_cast<size_t>(x.count()));
  int64_t cells = product(kept), next = 0;
  for (int64_t dim : dims) strides[static_cast<size_t>(dim)] = 0;
  for_each_index(x.sizes(),
                 [&](const std::vector<int64_t>& index) { cell[next++] = offset_of(index, strides); });
  std::vector<double> max(cells, -HUGE_VAL), sum(cells, 0);
  for (int64_t i = 0; i < x.count(); ++i) {
    double& m = max[cell[i]];
    if (x[i] > m || std::isnan(x[i])) m = std::isnan(m) ? m : x[i];
  }
  for (int64_t i = 0; i < x.count(); ++i) {
    double m = max[cell[i]];
    sum[cell[i]] += std::exp(x[i] - (std::isfinite(m) ? m : 0));
  }
  for (int64_t c = 0; c < cells; ++c)
    put(call.out(), c, std::log(sum[c]) + (std::isfinite(max[c]) ? max[c] : 0));
  return Status::ok();
}

}  // namespace tilewright
