// Reference kernels of layer, RMS, group and batch normalization and their gradients, in double.
#include "ir/reference/composite.h"

namespace tilewright {

using namespace reference;
namespace {

// Which statistic and which parameter element i belongs to: i / step % count.
struct Cells {
  int64_t step, count;
  int64_t operator()(int64_t i) const { return i / step % count; }
};
struct Grouping {
  Cells statistic, parameter;
};

// The last `count` axes are normalised and have parameters.
Grouping trailing(const std::vector<int64_t>& sizes, size_t count) {
  std::vector<int64_t> outer(sizes.begin(), sizes.end() - static_cast<int64_t>(count));
  std::vector<int64_t> inner(sizes.end() - static_cast<int64_t>(count), sizes.end());
  return {{product(inner), product(outer)}, {1, product(inner)}};
}

// x is [n, c, ..]: groups of neighbouring channels share a statistic, each channel has a parameter.
Grouping grouped(const std::vector<int64_t>& sizes, int64_t groups) {
  int64_t rest = product({sizes.begin() + 2, sizes.end()});
  return {{sizes[1] / groups * rest, sizes[0] * groups}, {rest, sizes[1]}};
}

// One statistic and one parameter a feature.
Grouping featured(const std::vector<int64_t>& sizes, int64_t axis) {
  Axis shape(sizes, axis);
  return {{shape.inner, shape.size}, {shape.inner, shape.size}};
}

// Mean and biased variance of each statistic, and how many elements it has.
struct Moments {
  std::vector<double> mean, var, count;
};
Moments moments(const Numbers& x, const Grouping& grouping) {
  size_t n = static_cast<size_t>(grouping.statistic.count);
  Moments r{std::vector<double>(n), std::vector<double>(n), std::vector<double>(n)};
  for (int64_t i = 0; i < x.count(); ++i) {
    r.mean[grouping.statistic(i)] += x[i];
    r.count[grouping.statistic(i)] += 1;
  }
  for (size_t s = 0; s < n; ++s) r.mean[s] /= r.count[s];
  for (int64_t i = 0; i < x.count(); ++i) {
    double d = x[i] - r.mean[grouping.statistic(i)];
    r.var[grouping.statistic(i)] += d * d;
  }
  for (size_t s = 0; s < n; ++s) r.var[s] /= r.count[s];
  return r;
}

// y = (x - mean) rstd w + b with w and b at operands 1 and 2.
void write_normalized(KernelCall& call, const Grouping& grouping, const std::vector<double>& mean,
                      const std::vector<double>& rstd) {
  Numbers x(call.in(0));
  std::optional<Numbers> w = optional_input(call, 1), bias = optional_input(call, 2);
  for (int64_t i = 0; i < x.count(); ++i) {
    int64_t s = grouping.statistic(i), k = grouping.parameter(i);
    double normal = (x[i] - mean[s]) * rstd[s];
    put(call.out(), i, normal * (w ? (*w)[k] : 1) + (bias ? (*bias)[k] : 0));
  }
}

std::vector<double> inverse_root(const std::vector<double>& var, double eps) {
  std::vector<double> rstd;
  for (double v : var) rstd.push_back(1 / std::sqrt(v + eps));
  return rstd;
}

Status normalize(KernelCall& call, const Grouping& grouping) {
  Moments m = moments(Numbers(call.in(0)), grouping);
  std::vector<double> rstd = inverse_root(m.var, call.attributes.get_float("eps"));
  write_normalized(call, grouping, m.mean, rstd);
  put_all(call.out(1), m.mean);
  put_all(call.out(2), rstd);
  return Status::ok();
}

// dx, dw, db from g, x, and the operands that hold the statistics and an optional weight; RMS norms have no
// mean
// (-1) and do not centre.
Status gradients(KernelCall& call, const Grouping& grouping, int mean_operand, int rstd_operand,
                 int w_operand) {
  Numbers g(call.in(0)), x(call.in(1)), rstd(call.in(rstd_operand));
  std::optional<Numbers> mean, w = optional_input(call, w_operand);
  if (mean_operand >= 0) mean.emplace(call.in(mean_operand));
  size_t statistics = static_cast<size_t>(grouping.statistic.count),
         parameters = static_cast<size_t>(grouping.parameter.count);
  std::vector<double> sum(statistics), along(statistics), count(statistics), dw(parameters), db(parameters);
  auto normal = [&](int64_t i) {
    int64_t s = grouping.statistic(i);
    return (x[i] - (mean ? (*mean)[s] : 0)) * rstd[s];
  };
  auto weighted = [&](int64_t i) { return g[i] * (w ? (*w)[grouping.parameter(i)] : 1); };
  for (int64_t i = 0; i < x.count(); ++i) {
    int64_t s = grouping.statistic(i), k = grouping.parameter(i);
    count[s] += 1;
    sum[s] += weighted(i);
    along[s] += weighted(i) * normal(i);
    dw[k] += g[i] * normal(i);
    db[k] += g[i];
  }
  for (int64_t i = 0; i < x.count(); ++i) {
    int64_t s = grouping.statistic(i);
    double centre = mean ? sum[s] / count[s] : 0;
    put(call.out(0), i, (weighted(i) - centre - normal(i) * along[s] / count[s]) * rstd[s]);
  }
  put_all(call.out(1), dw);
  if (mean) put_all(call.out(2), db);
  return Status::ok();
}

size_t axis_count(const KernelCall& call) { return call.attributes.get_ints("axes").size(); }

}  // namespace

Status reference_layer_norm(KernelCall& call) {
  return normalize(call, trailing(call.in(0).sizes, axis_count(call)));
}

Status reference_layer_norm_grad(KernelCall& call) {
  return gradients(call, trailing(call.in(1).sizes, axis_count(call)), 2, 3, 4);
}

Status reference_rms_norm(KernelCall& call) {
  Numbers x(call.in(0));
  std::optional<Numbers> w = optional_input(call, 1);
  Grouping grouping = trailing(x.sizes(), axis_count(call));
  std::vector<double> square(static_cast<size_t>(grouping.statistic.count)), count = square;
  for (int64_t i = 0; i < x.count(); ++i) {
    square[grouping.statistic(i)] += x[i] * x[i];
    count[grouping.statistic(i)] += 1;
  }
  for (size_t s = 0; s < square.size(); ++s) square[s] /= count[s];
  std::vector<double> rstd = inverse_root(square, call.attributes.get_float("eps"));
  bool cast_first = call.attributes.get_bool("cast_first");
  for (int64_t i = 0; i < x.count(); ++i) {
    double normal = x[i] * rstd[grouping.statistic(i)];
    if (w && cast_first) normal = round_to_stored(x.dtype(), normal);
    put(call.out(), i, normal * (w ? (*w)[grouping.parameter(i)] : 1));
  }
  put_all(call.out(1), rstd);
  return Status::ok();
}

Status reference_rms_norm_grad(KernelCall& call) {
  return gradients(call, trailing(call.in(1).sizes, axis_count(call)), -1, 2, 3);
}

Status reference_group_norm(KernelCall& call) {
  return normalize(call, grouped(call.in(0).sizes, call.attributes.get_int("groups")));
}

Status reference_group_norm_grad(KernelCall& call) {
  return gradients(call, grouped(call.in(1).sizes, call.attributes.get_int("groups")), 2, 3, 4);
}

Status reference_batch_norm_train(KernelCall& call) {
  Grouping grouping = featured(call.in(0).sizes, call.attributes.get_int("feature_dim"));
  Moments m = moments(Numbers(call.in(0)), grouping);
  std::vector<double> rstd = inverse_root(m.var, call.attributes.get_float("eps"));
  write_normalized(call, grouping, m.mean, rstd);
  put_all(call.out(1), m.mean);
  put_all(call.out(2), rstd);
  Numbers old_mean(call.in(3)), old_var(call.in(4));
  double momentum = call.attributes.get_float("momentum");
  for (int64_t k = 0; k < grouping.statistic.count; ++k) {
    double unbiased = m.var[k] * m.count[k] / (m.count[k] - 1);
    put(call.out(3), k, (1 - momentum) * old_mean[k] + momentum * m.mean[k]);
    put(call.out(4), k, (1 - momentum) * old_var[k] + momentum * unbiased);
  }
  return Status::ok();
}

Status reference_batch_norm_infer(KernelCall& call) {
  Grouping grouping = featured(call.in(0).sizes, call.attributes.get_int("feature_dim"));
  Numbers mean(call.in(3)), var(call.in(4));
  std::vector<double> means, vars;
  for (int64_t k = 0; k < grouping.statistic.count; ++k) means.push_back(mean[k]), vars.push_back(var[k]);
  write_normalized(call, grouping, means, inverse_root(vars, call.attributes.get_float("eps")));
  return Status::ok();
}

Status reference_batch_norm_grad(KernelCall& call) {
  return gradients(call, featured(call.in(1).sizes, call.attributes.get_int("feature_dim")), 3, 4, 2);
}

}  // namespace tilewright
