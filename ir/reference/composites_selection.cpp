// Reference kernels of data selection: mixtures of experts, distinct values, masks, permutations, sampling,
// buckets.
#include <algorithm>
#include <numeric>

#include "ir/reference/composite.h"

namespace tilewright {

using namespace reference;
namespace {

// 0 .. n-1 in stable order of `less`.
template <class Less>
std::vector<int64_t> stable_order(int64_t n, Less less) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), less);
  return order;
}

void write(const TensorRef& out, const std::vector<int64_t>& values) {
  for (size_t i = 0; i < values.size(); ++i) put_integer(out, static_cast<int64_t>(i), values[i]);
}

void copy(const TensorRef& out, int64_t to, const Numbers& in, int64_t from, int64_t count = 1) {
  size_t bytes = static_cast<size_t>(dtype_bytes(out.dtype));
  std::memcpy(static_cast<char*>(out.data) + static_cast<size_t>(to) * bytes,
              static_cast<const char*>(in.data()) + static_cast<size_t>(from) * bytes,
              bytes * static_cast<size_t>(count));
}

// a before b in the order of sort: NaN last, -0 equal to 0.
bool before(const Numbers& x, int64_t a, int64_t b) {
  if (is_float(x.dtype())) return x[a] < x[b] || (!std::isnan(x[a]) && std::isnan(x[b]));
  if (x.dtype() == DType::U64)
    return static_cast<uint64_t>(x.integer(a)) < static_cast<uint64_t>(x.integer(b));
  return x.integer(a) < x.integer(b);
}

std::vector<int64_t> permutation(PhiloxWords& words, int64_t n) {
  std::vector<uint64_t> keys;
  for (int64_t i = 0; i < n; ++i) keys.push_back(words.wide_word(i));
  return stable_order(
      n, [&](int64_t a, int64_t b) { return keys[static_cast<size_t>(a)] < keys[static_cast<size_t>(b)]; });
}

}  // namespace

Status reference_moe_route(KernelCall& call) {
  Numbers logits(call.in(0));
  int64_t experts = logits.sizes().back(), k = call.attributes.get_int("k");
  for (int64_t row = 0; row * experts < logits.count(); ++row) {
    std::vector<double> p;
    double max = -HUGE_VAL, sum = 0, kept = 0;
    for (int64_t e = 0; e < experts; ++e) max = std::fmax(max, logits[row * experts + e]);
    for (int64_t e = 0; e < experts; ++e)
      p.push_back(std::exp(logits[row * experts + e] - max)), sum += p.back();
    // Ties of the rounded probabilities take the lowest expert.
    for (double& value : p) value = round_to_work(logits.dtype(), value / sum);
    std::vector<int64_t> order = stable_order(experts, [&](int64_t a, int64_t b) { return p[a] > p[b]; });
    for (int64_t j = 0; j < k; ++j) kept += p[order[j]];
    for (int64_t j = 0; j < k; ++j) {
      put(call.out(0), row * k + j,
          call.attributes.get_bool("renormalize") ? p[order[j]] / kept : p[order[j]]);
      put_integer(call.out(1), row * k + j, order[j]);
    }
  }
  return Status::ok();
}

Status reference_moe_dispatch(KernelCall& call) {
  Numbers x(call.in(0)), experts(call.in(1));
  int64_t k = experts.size(1), d = x.size(1);
  std::vector<int64_t> order = stable_order(
      experts.count(), [&](int64_t a, int64_t b) { return experts.integer(a) < experts.integer(b); });
  std::vector<int64_t> sizes(static_cast<size_t>(call.attributes.get_int("num_experts")));
  for (size_t i = 0; i < order.size(); ++i) {
    copy(call.out(0), static_cast<int64_t>(i) * d, x, order[i] / k * d, d);
    int64_t expert = experts.integer(static_cast<int64_t>(i));
    if (expert >= 0 && expert < static_cast<int64_t>(sizes.size())) ++sizes[static_cast<size_t>(expert)];
  }
  write(call.out(1), order);
  write(call.out(2), sizes);
  return Status::ok();
}

Status reference_moe_combine(KernelCall& call) {
  Numbers rows(call.in(0)), order(call.in(1)), weights(call.in(2));
  int64_t n = weights.size(0), k = weights.size(1), d = rows.size(1);
  std::vector<double> y(static_cast<size_t>(n * d));
  for (int64_t i = 0; i < n * k; ++i) {
    int64_t source = order.integer(i);
    if (source < 0 || source >= n * k) continue;
    for (int64_t c = 0; c < d; ++c) y[source / k * d + c] += weights[source] * rows[i * d + c];
  }
  put_all(call.out(), y);
  return Status::ok();
}

Status reference_unique(KernelCall& call) {
  Numbers x(call.in(0));
  int64_t bound = call.out(0).sizes[0], count = 0, last = -1;
  std::vector<int64_t> order = stable_order(x.count(), [&](int64_t a, int64_t b) { return before(x, a, b); });
  std::vector<int64_t> inverse(order.size()), counts(static_cast<size_t>(bound));
  fill_zero(call.out(0));
  for (size_t i = 0; i < order.size(); ++i) {
    // NaN differs from itself.
    bool same = i > 0 && (is_float(x.dtype()) ? x[order[i]] == x[order[i - 1]]
                                              : x.integer(order[i]) == x.integer(order[i - 1]));
    if (!same) {
      if (count < bound) copy(call.out(0), count, x, last = order[i]);
      ++count;
    }
    inverse[static_cast<size_t>(order[i])] = count - 1;
    if (count <= bound) ++counts[static_cast<size_t>(count - 1)];
  }
  for (int64_t i = count; i < bound && last >= 0; ++i) copy(call.out(0), i, x, last);
  write(call.out(1), inverse);
  write(call.out(2), counts);
  put_integer(call.out(3), 0, count);
  return Status::ok();
}

Status reference_masked_select(KernelCall& call) {
  Numbers x(call.in(0)), mask(call.in(1));
  int64_t bound = call.out(0).sizes[0], count = 0;
  fill_zero(call.out(0));
  for (int64_t i = 0; i < x.count(); ++i) {
    if (!mask.integer(i)) continue;
    if (count < bound) copy(call.out(0), count, x, i);
    ++count;
  }
  put_integer(call.out(1), 0, count);
  return Status::ok();
}

Status reference_randperm(KernelCall& call) {
  PhiloxWords words(call.in(0));
  int64_t n = call.attributes.get_int("n");
  write(call.out(0), permutation(words, n));
  words.write_state(call.out(1), 2 * n);
  return Status::ok();
}

Status reference_shuffle(KernelCall& call) {
  Numbers x(call.in(0));
  PhiloxWords words(call.in(1));
  Axis axis(x.sizes(), call.attributes.get_int("dim"));
  std::vector<int64_t> order = permutation(words, axis.size);
  for (int64_t o = 0; o < axis.outer; ++o) {
    for (int64_t k = 0; k < axis.size; ++k)
      copy(call.out(0), axis.at(o, k, 0), x, axis.at(o, order[k], 0), axis.inner);
  }
  write(call.out(1), order);
  words.write_state(call.out(2), 2 * axis.size);
  return Status::ok();
}

namespace {

// The largest of log w + Gumbel noise, in the precision of the weights.
template <class Real>
std::vector<int64_t> gumbel_order(const Numbers& w, PhiloxWords& words, int64_t row, int64_t n) {
  std::vector<Real> key;
  Real unit = std::is_same_v<Real, double> ? Real(0x1p-54) : Real(0x1p-25);
  for (int64_t i = row * n; i < (row + 1) * n; ++i) {
    double v = 2 * words.uniform(i, w.dtype()) + static_cast<double>(2 * unit) - 1;
    Real log_u = static_cast<Real>(v > 0 ? std::log1p((v - 1) / 2) : std::log((v + 1) / 2));
    key.push_back(std::log(static_cast<Real>(w[i])) - std::log(-log_u));
  }
  auto above = [&](int64_t a, int64_t b) {
    return key[a] > key[b] || (std::isnan(key[a]) && !std::isnan(key[b]));
  };
  return stable_order(n, above);
}

template <class Real>
int64_t draw(const Numbers& w, int64_t row, int64_t n, double u) {
  Real total = 0, running = 0;
  for (int64_t i = 0; i < n; ++i) total += static_cast<Real>(w[row * n + i]);
  Real target = static_cast<Real>(u) * total;
  for (int64_t i = 0; i < n; ++i) {
    running += static_cast<Real>(w[row * n + i]);
    if (running > target) return i;
  }
  return n - 1;
}

}  // namespace

Status reference_multinomial(KernelCall& call) {
  Numbers w(call.in(0));
  PhiloxWords words(call.in(1));
  int64_t n = w.sizes().back(), samples = call.attributes.get_int("samples"),
          rows = n == 0 ? 0 : w.count() / n;
  bool wide = w.dtype() == DType::F64, replacement = call.attributes.get_bool("replacement");
  if (!replacement && samples > n)
    return Status::invalid(
        cat("multinomial: samples is ", samples, " without replacement, expected at most ", n));
  for (int64_t row = 0; row < rows; ++row) {
    std::vector<int64_t> order;
    if (!replacement)
      order = wide ? gumbel_order<double>(w, words, row, n) : gumbel_order<float>(w, words, row, n);
    for (int64_t j = 0; j < samples; ++j) {
      double u = replacement ? words.uniform(row * samples + j, w.dtype()) : 0;
      int64_t drawn = !replacement ? order[j] : wide ? draw<double>(w, row, n, u) : draw<float>(w, row, n, u);
      put_integer(call.out(0), row * samples + j, drawn);
    }
  }
  int64_t drawn = replacement ? rows * samples : w.count();
  words.write_state(call.out(1), wide ? 2 * drawn : drawn);
  return Status::ok();
}

Status reference_split_indices(KernelCall& call) {
  PhiloxWords words(call.in(0));
  int64_t n = call.attributes.get_int("n"), train = call.attributes.get_int("train");
  std::vector<int64_t> order = permutation(words, n);
  write(call.out(0), {order.begin(), order.begin() + train});
  write(call.out(1), {order.begin() + train, order.end()});
  words.write_state(call.out(2), 2 * n);
  return Status::ok();
}

Status reference_bucket_by_length(KernelCall& call) {
  Numbers lengths(call.in(0)), boundaries(call.in(1));
  std::vector<int64_t> bucket;
  for (int64_t i = 0; i < lengths.count(); ++i) {
    int64_t b = 0;
    while (b < boundaries.count() && boundaries.integer(b) <= lengths.integer(i)) ++b;
    bucket.push_back(b);
  }
  std::vector<int64_t> order = stable_order(lengths.count(), [&](int64_t a, int64_t b) {
    return bucket[a] != bucket[b] ? bucket[a] < bucket[b] : lengths.integer(a) < lengths.integer(b);
  });
  write(call.out(0), order);
  write(call.out(1), bucket);
  return Status::ok();
}

}  // namespace tilewright
