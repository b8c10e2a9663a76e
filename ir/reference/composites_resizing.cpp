// Reference kernels of upsampling and its gradient: the source position of each output, then its neighbours.
#include <algorithm>

#include "ir/reference/composite.h"

namespace tilewright {

using namespace reference;
namespace {

struct Tap {
  int64_t at;
  long double weight;
};

long double cubic_weight(long double distance) {
  constexpr long double a = -0.75;
  long double d = std::fabs(distance);
  if (d <= 1) return (a + 2) * d * d * d - (a + 3) * d * d + 1;
  if (d < 2) return a * d * d * d - 5 * a * d * d + 8 * a * d - 4 * a;
  return 0;
}

// The inputs along one axis of n that output i of m reads.
std::vector<Tap> taps(const KernelCall& call, int64_t i, int64_t n, int64_t m) {
  const std::string& mode = call.attributes.get_string("mode");
  if (mode == "nearest") return {{std::min(i * n / m, n - 1), 1}};
  if (mode == "nearest_exact") return {{std::min((2 * i + 1) * n / (2 * m), n - 1), 1}};
  long double position;
  if (call.attributes.get_bool("align_corners")) {
    position = m > 1 ? static_cast<long double>(i * (n - 1)) / static_cast<long double>(m - 1) : 0;
  } else {
    position = static_cast<long double>((2 * i + 1) * n - m) / static_cast<long double>(2 * m);
  }
  if (mode == "bilinear" && position < 0) position = 0;
  int64_t whole = static_cast<int64_t>(std::floor(position));
  long double fraction = position - static_cast<long double>(whole);
  if (mode == "bilinear")
    return {{std::min(whole, n - 1), 1 - fraction}, {std::min(whole + 1, n - 1), fraction}};
  std::vector<Tap> all;
  for (int64_t k = -1; k <= 2; ++k) {
    all.push_back(
        {std::clamp<int64_t>(whole + k, 0, n - 1), cubic_weight(static_cast<long double>(k) - fraction)});
  }
  return all;
}

// visit(input offset, output offset, weight) between planes of `in` and `out`.
template <class Visit>
void resize(const KernelCall& call, const std::vector<int64_t>& in, const std::vector<int64_t>& out,
            Visit&& visit) {
  for (int64_t nc = 0; nc < in[0] * in[1]; ++nc) {
    for (int64_t oh = 0; oh < out[2]; ++oh) {
      std::vector<Tap> rows = taps(call, oh, in[2], out[2]);
      for (int64_t ow = 0; ow < out[3]; ++ow) {
        for (const Tap& row : rows) {
          for (const Tap& column : taps(call, ow, in[3], out[3])) {
            visit((nc * in[2] + row.at) * in[3] + column.at, (nc * out[2] + oh) * out[3] + ow,
                  static_cast<double>(row.weight * column.weight));
          }
        }
      }
    }
  }
}

}  // namespace

Status reference_upsample(KernelCall& call) {
  Numbers x(call.in(0));
  std::vector<double> y(static_cast<size_t>(call.out().elements()));
  resize(call, x.sizes(), call.out().sizes,
         [&](int64_t from, int64_t to, double weight) { y[to] += weight * x[from]; });
  put_all(call.out(), y);
  return Status::ok();
}

Status reference_upsample_grad(KernelCall& call) {
  Numbers g(call.in(0));
  std::vector<double> dx(static_cast<size_t>(call.out().elements()));
  resize(call, call.out().sizes, g.sizes(),
         [&](int64_t to, int64_t from, double weight) { dx[to] += weight * g[from]; });
  put_all(call.out(), dx);
  return Status::ok();
}

}  // namespace tilewright
