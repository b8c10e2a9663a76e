// Reference kernels of attention and its gradient, one row of scores at a time, and of rotary embedding.
#include "ir/reference/composite.h"

namespace tilewright {

using namespace reference;
namespace {

// Everything that forward and backward read; q stands at operand `first`.
struct Attending {
  std::vector<double> q, k, v;
  int64_t b, h, hk, s, t, d, dv;
  double scale, softcap, dropout;
  bool causal, safe;
  int64_t window;
  const KernelCall& call;
  int first;

  Attending(const KernelCall& call, int first)
      : q(doubles_of(call.in(first))),
        k(doubles_of(call.in(first + 1))),
        v(doubles_of(call.in(first + 2))),
        call(call),
        first(first) {
    const std::vector<int64_t>&qs = call.in(first).sizes, &ks = call.in(first + 1).sizes;
    b = qs[0], h = qs[1], s = qs[2], d = qs[3];
    hk = ks[1], t = ks[2], dv = call.in(first + 2).sizes[3];
    const AttributeReader& a = call.attributes;
    scale = a.has("scale") ? a.get_float("scale") : 1 / std::sqrt(static_cast<double>(d));
    softcap = a.get_float("softcap"), dropout = a.get_float("dropout");
    causal = a.get_bool("causal"), safe = a.get_bool("safe"), window = a.get_int("window");
  }
  int64_t q_row(int64_t ib, int64_t ih, int64_t i) const { return (ib * h + ih) * s + i; }
  int64_t k_row(int64_t ib, int64_t ih, int64_t j) const { return (ib * hk + ih / (h / hk)) * t + j; }

  bool allowed(int64_t i, int64_t j) const {
    if (causal && j > i) return false;
    if (window < 0) return true;
    return causal ? i - window < j : std::abs(i - j) < window;
  }
  // Offset into the mask, whose dims of size 1 repeat.
  int64_t mask_offset(int64_t ib, int64_t ih, int64_t i, int64_t j) const {
    const TensorRef& mask = call.in(first + 3);
    int64_t index[4] = {ib, ih, i, j}, offset = 0;
    for (int dim = 0; dim < mask.rank(); ++dim) {
      int64_t size = mask.sizes[static_cast<size_t>(dim)];
      offset = offset * size + (size == 1 ? 0 : index[4 - mask.rank() + dim]);
    }
    return offset;
  }
};

struct Score {
  double value, cap_slope;
};

// Scores of one row before the softmax, and the slope of the soft cap.
void score_row(const Attending& a, const Numbers* mask, int64_t ib, int64_t ih, int64_t i,
               std::vector<Score>& row) {
  for (int64_t j = 0; j < a.t; ++j) {
    double dot = 0;
    for (int64_t c = 0; c < a.d; ++c)
      dot += a.q[a.q_row(ib, ih, i) * a.d + c] * a.k[a.k_row(ib, ih, j) * a.d + c];
    Score& score = row[static_cast<size_t>(j)];
    score = {dot * a.scale, 1};
    if (a.softcap > 0) {
      double capped = std::tanh(score.value / a.softcap);
      score = {a.softcap * capped, 1 - capped * capped};
    }
    if (mask) {
      int64_t at = a.mask_offset(ib, ih, i, j);
      if (mask->dtype() == DType::Bool) {
        if (!mask->integer(at)) score.value = -HUGE_VAL;
      } else {
        score.value += (*mask)[at];
      }
    }
    if (!a.allowed(i, j)) score.value = -HUGE_VAL;
  }
}

// The factor of a probability under dropout: 0, or 1 / (1 - p).
double drop_factor(const Attending& a, PhiloxWords* words, int64_t ib, int64_t ih, int64_t i, int64_t j) {
  if (!words || a.dropout == 0) return 1;
  bool keep =
      words->uniform(a.q_row(ib, ih, i) * a.t + j, DType::F32) >= round_to_work(DType::F32, a.dropout);
  return keep ? 1 / (1 - a.dropout) : 0;
}

void attend_row(const Attending& a, std::vector<Score>& row, PhiloxWords* words, int64_t ib, int64_t ih,
                int64_t i) {
  double max = -HUGE_VAL, sum = 0;
  for (const Score& score : row) max = score.value > max || std::isnan(score.value) ? score.value : max;
  bool empty = a.safe && max == -HUGE_VAL;
  for (Score& score : row) sum += score.value = std::exp(score.value - max);
  for (int64_t c = 0; c < a.dv; ++c) {
    double o = 0;
    for (int64_t j = 0; j < a.t; ++j) {
      double factor = drop_factor(a, words, ib, ih, i, j);
      if (!empty) o += row[static_cast<size_t>(j)].value / sum * factor * a.v[a.k_row(ib, ih, j) * a.dv + c];
    }
    put(a.call.out(0), a.q_row(ib, ih, i) * a.dv + c, o);
  }
  put(a.call.out(1), a.q_row(ib, ih, i), empty ? -HUGE_VAL : max + std::log(sum));
}

}  // namespace

Status reference_attention(KernelCall& call) {
  Attending a(call, 0);
  std::vector<Numbers> mask;
  std::vector<PhiloxWords> words;
  if (call.has(3)) mask.emplace_back(call.in(3));
  if (call.has(4)) words.emplace_back(call.in(4));
  std::vector<Score> row(static_cast<size_t>(a.t));
  for (int64_t ib = 0; ib < a.b; ++ib) {
    for (int64_t ih = 0; ih < a.h; ++ih) {
      for (int64_t i = 0; i < a.s; ++i) {
        score_row(a, mask.empty() ? nullptr : &mask[0], ib, ih, i, row);
        attend_row(a, row, words.empty() ? nullptr : &words[0], ib, ih, i);
      }
    }
  }
  if (words.empty()) {
    fill_zero(call.out(2));
  } else {
    words[0].write_state(call.out(2), a.b * a.h * a.s * a.t);
  }
  return Status::ok();
}

Status reference_attention_grad(KernelCall& call) {
  Attending a(call, 1);
  Numbers g(call.in(0)), o(call.in(6)), lse(call.in(7));
  std::vector<Numbers> mask;
  std::vector<PhiloxWords> words;
  if (call.has(4)) mask.emplace_back(call.in(4));
  if (call.has(5)) words.emplace_back(call.in(5));
  bool mask_grad = call.attributes.get_bool("mask_grad");
  std::vector<double> dq(a.q.size()), dk(a.k.size());
  std::vector<double> dv(a.v.size()), dmask(mask_grad ? static_cast<size_t>(mask[0].count()) : 0);
  std::vector<Score> row(static_cast<size_t>(a.t));
  for (int64_t ib = 0; ib < a.b; ++ib) {
    for (int64_t ih = 0; ih < a.h; ++ih) {
      for (int64_t i = 0; i < a.s; ++i) {
        score_row(a, mask.empty() ? nullptr : &mask[0], ib, ih, i, row);
        int64_t at = a.q_row(ib, ih, i);
        bool empty = a.safe && lse[at] == -HUGE_VAL;
        double through = 0;
        for (int64_t c = 0; c < a.dv; ++c) through += g[at * a.dv + c] * o[at * a.dv + c];
        for (int64_t j = 0; j < a.t && !empty; ++j) {
          int64_t key = a.k_row(ib, ih, j);
          const Score& score = row[static_cast<size_t>(j)];
          double p = std::exp(score.value - lse[at]), dp = 0;
          double factor = drop_factor(a, words.empty() ? nullptr : &words[0], ib, ih, i, j);
          for (int64_t c = 0; c < a.dv; ++c) {
            dp += g[at * a.dv + c] * a.v[key * a.dv + c] * factor;
            dv[key * a.dv + c] += p * factor * g[at * a.dv + c];
          }
          double dscore = p * (dp - through);
          if (mask_grad) dmask[a.mask_offset(ib, ih, i, j)] += dscore;
          dscore *= score.cap_slope * a.scale;
          for (int64_t c = 0; c < a.d; ++c) {
            dq[at * a.d + c] += dscore * a.k[key * a.d + c];
            dk[key * a.d + c] += dscore * a.q[at * a.d + c];
          }
        }
      }
    }
  }
  const std::vector<double>* results[4] = {&dq, &dk, &dv, &dmask};
  for (int r = 0; r < 4; ++r) put_all(call.out(r), *results[r]);
  return Status::ok();
}

Status reference_rope(KernelCall& call) {
  Numbers x(call.in(0)), cos(call.in(1)), sin(call.in(2));
  int64_t rank = x.rank(), d = x.sizes().back(), half = d / 2;
  bool interleaved = call.attributes.get_bool("interleaved");
  std::vector<int64_t> pairs = x.sizes();
  pairs.back() = half;
  for_each_index(pairs, [&](const std::vector<int64_t>& index) {
    int64_t row = 0, table = 0;
    for (int64_t dim = 0; dim < rank - 1; ++dim)
      row = row * x.size(static_cast<int>(dim)) + index[static_cast<size_t>(dim)];
    int64_t lead = rank - cos.rank();
    for (int dim = 0; dim < cos.rank(); ++dim) {
      table = table * cos.size(dim) + (cos.size(dim) == 1 ? 0 : index[static_cast<size_t>(lead + dim)]);
    }
    int64_t k = index.back();
    int64_t first = row * d + (interleaved ? 2 * k : k),
            second = row * d + (interleaved ? 2 * k + 1 : k + half);
    put(call.out(), first, x[first] * cos[table] - x[second] * sin[table]);
    put(call.out(), second, x[second] * cos[table] + x[first] * sin[table]);
  });
  return Status::ok();
}

}  // namespace tilewright
