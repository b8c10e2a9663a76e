// Reference kernels of losses, in double.
#include <functional>

#include "ir/reference/composite.h"

namespace tilewright {

using namespace reference;
namespace {

// Logits [n, c] as doubles with their targets.
struct Classification {
  int64_t n = 0, c = 0;
  std::vector<double> logits, weight;  // weight of each class
  std::vector<int64_t> target;         // -1 when ignored
  double smoothing = 0, total = 0;     // total weight of kept rows
};

Classification classify(const KernelCall& call, std::vector<double> logits, int64_t n, int64_t c, int target,
                        int weight) {
  Classification r{n, c, std::move(logits), std::vector<double>(static_cast<size_t>(c), 1), {}, 0, 0};
  Numbers targets(call.in(target));
  int64_t ignored = call.attributes.get_int("ignore_index");
  if (weight >= 0 && call.has(weight)) {
    Numbers weights(call.in(weight));
    for (int64_t k = 0; k < c; ++k) r.weight[static_cast<size_t>(k)] = weights[k];
  }
  for (int64_t i = 0; i < n; ++i) {
    int64_t t = targets.integer(i);
    bool skip = t == ignored;
    if (!skip && (t < 0 || t >= c)) {
      call.error.set(
          Status::out_of_range(cat(op_name(call.op), ": target ", t, " out of range for ", c, " classes")));
      skip = true;
    }
    r.target.push_back(skip ? -1 : t);
    if (!skip) r.total += r.weight[static_cast<size_t>(t)];
  }
  return r;
}

// x [n, d] times w [c, d] transposed.
std::vector<double> project(const TensorRef& input, const TensorRef& weights) {
  std::vector<double> x = doubles_of(input), w = doubles_of(weights);
  int64_t n = input.sizes[0], d = input.sizes[1], c = weights.sizes[0];
  std::vector<double> y(static_cast<size_t>(n * c));
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t k = 0; k < c; ++k) {
      for (int64_t j = 0; j < d; ++j) y[i * c + k] += x[i * d + j] * w[k * d + j];
    }
  }
  return y;
}

struct LineSum {
  double max, log_sum;  // logsumexp is max + log_sum
};
LineSum line_sum(const Classification& r, int64_t i) {
  double max = -HUGE_VAL, sum = 0;
  for (int64_t k = 0; k < r.c; ++k) {
    double x = r.logits[i * r.c + k];
    max = x > max || std::isnan(x) ? x : max;
  }
  if (!std::isfinite(max)) max = 0;
  for (int64_t k = 0; k < r.c; ++k) sum += std::exp(r.logits[i * r.c + k] - max);
  return {max, std::log(sum)};
}

// loss to result 0 and lse to result 1.
void write_entropy(KernelCall& call, const Classification& r) {
  const std::string& reduction = call.attributes.get_string("reduction");
  double sum = 0;
  for (int64_t i = 0; i < r.n; ++i) {
    LineSum line = line_sum(r, i);
    put(call.out(1), i, line.max + line.log_sum);
    auto distance = [&](int64_t k) { return line.log_sum + (line.max - r.logits[i * r.c + k]); };
    double loss = 0;
    if (r.target[static_cast<size_t>(i)] >= 0) {
      int64_t t = r.target[static_cast<size_t>(i)];
      loss = (1 - r.smoothing) * r.weight[static_cast<size_t>(t)] * distance(t);
      for (int64_t k = 0; k < r.c && r.smoothing > 0; ++k) {
        loss += r.smoothing / static_cast<double>(r.c) * r.weight[static_cast<size_t>(k)] * distance(k);
      }
    }
    if (reduction == "none") put(call.out(0), i, loss);
    sum += loss;
  }
  if (reduction != "none") put(call.out(0), 0, reduction == "mean" ? sum / r.total : sum);
}

// d loss / d logits with the cotangent at operand 0.
std::vector<double> entropy_gradient(const KernelCall& call, const Classification& r,
                                     const TensorRef& saved) {
  Numbers g(call.in(0)), lse(saved);
  const std::string& reduction = call.attributes.get_string("reduction");
  double all = 0;
  for (double w : r.weight) all += w;
  std::vector<double> d(r.logits.size());
  for (int64_t i = 0; i < r.n; ++i) {
    int64_t t = r.target[static_cast<size_t>(i)];
    if (t < 0) continue;
    double cotangent = reduction == "none" ? g[i] : reduction == "mean" ? g[0] / r.total : g[0];
    for (int64_t k = 0; k < r.c; ++k) {
      double p = std::exp(r.logits[i * r.c + k] - lse[i]);
      double hit = (1 - r.smoothing) * r.weight[static_cast<size_t>(t)] * (p - (k == t));
      double spread = r.smoothing / static_cast<double>(r.c) * (all * p - r.weight[static_cast<size_t>(k)]);
      d[i * r.c + k] = cotangent * (r.smoothing > 0 ? hit + spread : hit);
    }
  }
  return d;
}

}  // namespace

Status reference_cross_entropy(KernelCall& call) {
  const TensorRef& logits = call.in(0);
  Classification r = classify(call, doubles_of(logits), logits.sizes[0], logits.sizes[1], 1, 2);
  r.smoothing = call.attributes.get_float("label_smoothing");
  write_entropy(call, r);
  return Status::ok();
}

Status reference_cross_entropy_grad(KernelCall& call) {
  const TensorRef& logits = call.in(1);
  Classification r = classify(call, doubles_of(logits), logits.sizes[0], logits.sizes[1], 2, 3);
  r.smoothing = call.attributes.get_float("label_smoothing");
  std::vector<double> d = entropy_gradient(call, r, call.in(4));
  put_all(call.out(), d);
  return Status::ok();
}

Status reference_linear_cross_entropy(KernelCall& call) {
  Classification r =
      classify(call, project(call.in(0), call.in(1)), call.in(0).sizes[0], call.in(1).sizes[0], 2, -1);
  write_entropy(call, r);
  return Status::ok();
}

Status reference_linear_cross_entropy_grad(KernelCall& call) {
  std::vector<double> x = doubles_of(call.in(1)), w = doubles_of(call.in(2));
  int64_t n = call.in(1).sizes[0], d = call.in(1).sizes[1], c = call.in(2).sizes[0];
  Classification r = classify(call, project(call.in(1), call.in(2)), n, c, 3, -1);
  std::vector<double> dlogits = entropy_gradient(call, r, call.in(4));
  std::vector<double> dx(static_cast<size_t>(n * d)), dw(static_cast<size_t>(c * d));
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t k = 0; k < c; ++k) {
      for (int64_t j = 0; j < d; ++j) {
        dx[i * d + j] += dlogits[i * c + k] * w[k * d + j];
        dw[k * d + j] += dlogits[i * c + k] * x[i * d + j];
      }
    }
  }
  put_all(call.out(0), dx);
  put_all(call.out(1), dw);
  return Status::ok();
}

namespace {

// Reduces loss(i) over all elements of operand 0 as the attribute says.
Status reduce_loss(KernelCall& call, const std::function<double(int64_t)>& loss) {
  const TensorRef& x = call.in(0);
  const std::string& reduction = call.attributes.get_string("reduction");
  int64_t count = x.elements();
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (reduction == "none")
      put(call.out(), i, loss(i));
    else
      sum += loss(i);
  }
  if (reduction == "sum") put(call.out(), 0, sum);
  if (reduction == "mean") put(call.out(), 0, sum / static_cast<double>(count));
  if (reduction == "batchmean") put(call.out(), 0, sum / static_cast<double>(x.sizes[0]));
  return Status::ok();
}

double softplus(double x) { return std::fmax(x, 0) + std::log1p(std::exp(-std::fabs(x))); }

}  // namespace

Status reference_bce_with_logits(KernelCall& call) {
  Numbers x(call.in(0)), target(call.in(1));
  std::optional<Numbers> weight = optional_input(call, 2), positive = optional_input(call, 3);
  return reduce_loss(call, [&](int64_t i) {
    double t = target[i], p = positive ? (*positive)[i] : 1, w = weight ? (*weight)[i] : 1;
    return w * ((1 - t) * x[i] + (1 + (p - 1) * t) * softplus(-x[i]));
  });
}

Status reference_mse_loss(KernelCall& call) {
  Numbers x(call.in(0)), target(call.in(1));
  return reduce_loss(call, [&](int64_t i) { return (x[i] - target[i]) * (x[i] - target[i]); });
}

Status reference_smooth_l1_loss(KernelCall& call) {
  Numbers x(call.in(0)), target(call.in(1));
  double beta = call.attributes.get_float("beta");
  return reduce_loss(call, [&](int64_t i) {
    double d = std::fabs(x[i] - target[i]);
    return d < beta ? 0.5 * d * d / beta : d - 0.5 * beta;
  });
}

Status reference_kl_div(KernelCall& call) {
  Numbers x(call.in(0)), target(call.in(1));
  bool log_target = call.attributes.get_bool("log_target");
  return reduce_loss(call, [&](int64_t i) {
    double t = target[i];
    if (log_target) return std::exp(t) * (t - x[i]);
    return t == 0 ? 0 : t * (std::log(t) - x[i]);
  });
}

}  // namespace tilewright
