// Reference kernels of layer, RMS, group and batch normalization and their gradients, in double.
#include "ir/reference/composite.h"

namespace tilewright {

using namespace reference;
namespace {

// Which statistic and which parameter each element belongs to.
struct Grouping {
  int64_t statistics = 0, parameters = 0;
  std::vector<int64_t> statistic, parameter;
};

// The last `count` axes are normalised and have parameters.
Grouping trailing(const std::vector<int64_t>& sizes, size_t count) {
  int64_t inner = 1, total = product(sizes);
  for (size_t i = sizes.size() - count; i < sizes.size(); ++i) inner *= sizes[i];
  Grouping r;
  r.statistics = 1;
  for (size_t i = 0; i < sizes.size() - count; ++i) r.statistics *= sizes[i];
  r.parameters = inner;
  for (int64_t i = 0; i < total; ++i) {
    r.statistic.push_back(i / inner);
    r.parameter.push_back(i % inner);
  }
  return r;
}

// x is [n, c, ..]: groups of channels share a statistic, each channel has a parameter.
Grouping grouped(const std::vector<int64_t>& sizes, int64_t groups) {
  int64_t n = sizes[0], c = sizes[1], rest = 1, total = product(sizes);
  for (size_t i = 2; i < sizes.size(); ++i) rest *= sizes[i];
  Grouping r;
  r.statistics = n * groups, r.parameters = c;
  for (int64_t i = 0; i < total; ++i) {
    int64_t channel = i / rest % c;
    r.statistic.push_back(i / rest / c * groups + channel / (c / groups));
    r.parameter.push_back(channel);
  }
  return r;
}

// One statistic and one parameter a feature.
Grouping featured(const std::vector<int64_t>& sizes, int64_t axis) {
  Axis shape(sizes, axis);
  Grouping r;
  r.statistics = r.parameters = shape.size;
  for (int64_t i = 0; i < product(sizes); ++i) r.statistic.push_back(i / shape.inner % shape.size);
  r.parameter = r.statistic;
  return r;
}

// Mean and biased variance of each statistic, and how many elements it has.
struct Moments {
  std::vector<double> mean, var, count;
};
Moments moments(const Numbers& x, const Grouping& grouping) {
  size_t n = static_cast<size_t>(grouping.statistics);
  Moments r{std::vector<double>(n), std::vector<double>(n), std::vector<double>(n)};
  for (int64_t i = 0; i < x.count(); ++i) {
    r.mean[grouping.statistic[i]] += x[i];
    r.count[grouping.statistic[i]] += 1;
  }
  for (size_t s = 0; s < n; ++s) r.mean[s] /= r.count[s];
  for (int64_t i = 0; i < x.count(); ++i) {
    double d = x[i] - r.mean[grouping.statistic[i]];
    r.var[grouping.statistic[i]] += d * d;
  }
  for (size_t s = 0; s < n; ++s) r.var[s] /= r.count[s];
  return r;
}

double parameter(const KernelCall& call, const std::vector<Numbers>& all, int which, int64_t at,
                 double absent) {
  return call.has(which) ? all[static_cast<size_t>(which)][at] : absent;
}

std::vector<Numbers> read_all(const KernelCall& call) {
  std::vector<Numbers> all;
  static const TensorRef kNone{DType::F32, {0}, {1}, nullptr};
  for (const TensorRef* input : call.inputs) all.emplace_back(input ? *input : kNone);
  return all;
}

// y = (x - mean) rstd w + b with w and b at operands 1 and 2.
void write_normalized(KernelCall& call, const Grouping& grouping, const std::vector<double>& mean,
                      const std::vector<double>& rstd) {
  std::vector<Numbers> in = read_all(call);
  for (int64_t i = 0; i < in[0].count(); ++i) {
    int64_t s = grouping.statistic[i], k = grouping.parameter[i];
    double normal = (in[0][i] - mean[s]) * rstd[s];
    put(call.out(), i, normal * parameter(call, in, 1, k, 1) + parameter(call, in, 2, k, 0));
  }
}

std::vector<double> inverse_root(const std::vector<double>& var, double eps) {
  std::vector<double> rstd;
  for (double v : var) rstd.push_back(1 / std::sqrt(v + eps));
  return rstd;
}

void write(const TensorRef& out, const std::vector<double>& values) {
  for (size_t i = 0; i < values.size(); ++i) put(out, static_cast<int64_t>(i), values[i]);
}

Status normalize(KernelCall& call, const Grouping& grouping) {
  Moments m = moments(Numbers(call.in(0)), grouping);
  std::vector<double> rstd = inverse_root(m.var, call.attributes.get_float("eps"));
  write_normalized(call, grouping, m.mean, rstd);
  write(call.out(1), m.mean);
  write(call.out(2), rstd);
  return Status::ok();
}

// dx, dw, db from g, x, the statistics and an optional weight; `mean` is null for RMS norms, which do not
// centre.
void gradients(KernelCall& call, const Grouping& grouping, const Numbers* mean, const Numbers& rstd,
               const Numbers* w) {
  Numbers g(call.in(0)), x(call.in(1));
  size_t statistics = static_cast<size_t>(grouping.statistics),
         parameters = static_cast<size_t>(grouping.parameters);
  std::vector<double> sum(statistics), along(statistics), count(statistics), dw(parameters), db(parameters);
  auto normal = [&](int64_t i) {
    int64_t s = grouping.statistic[i];
    return (x[i] - (mean ? (*mean)[s] : 0)) * rstd[s];
  };
  auto weighted = [&](int64_t i) { return g[i] * (w ? (*w)[grouping.parameter[i]] : 1); };
  for (int64_t i = 0; i < x.count(); ++i) {
    int64_t s = grouping.statistic[i], k = grouping.parameter[i];
    count[s] += 1;
    sum[s] += weighted(i);
    along[s] += weighted(i) * normal(i);
    dw[k] += g[i] * normal(i);
    db[k] += g[i];
  }
  for (int64_t i = 0; i < x.count(); ++i) {
    int64_t s = grouping.statistic[i];
    double centre = mean ? sum[s] / count[s] : 0;
    put(call.out(0), i, (weighted(i) - centre - normal(i) * along[s] / count[s]) * rstd[s]);
  }
  write(call.out(1), dw);
  if (mean) write(call.out(2), db);
}

size_t axis_count(const KernelCall& call) { return call.attributes.get_ints("axes").size(); }

}  // namespace

Status reference_layer_norm(KernelCall& call) {
  return normalize(call, trailing(call.in(0).sizes, axis_count(call)));
}

Status reference_layer_norm_grad(KernelCall& call) {
  std::vector<Numbers> in = read_all(call);
  gradients(call, trailing(in[1].sizes(), axis_count(call)), &in[2], in[3], call.has(4) ? &in[4] : nullptr);
  return Status::ok();
}

Status reference_rms_norm(KernelCall& call) {
  std::vector<Numbers> in = read_all(call);
  const Numbers& x = in[0];
  Grouping grouping = trailing(x.sizes(), axis_count(call));
  std::vector<double> square(static_cast<size_t>(grouping.statistics)), count = square;
  for (int64_t i = 0; i < x.count(); ++i) {
    square[grouping.statistic[i]] += x[i] * x[i];
    count[grouping.statistic[i]] += 1;
  }
  for (size_t s = 0; s < square.size(); ++s) square[s] /= count[s];
  std::vector<double> rstd = inverse_root(square, call.attributes.get_float("eps"));
  bool cast_first = call.attributes.get_bool("cast_first");
  for (int64_t i = 0; i < x.count(); ++i) {
    put(call.out(), i, x[i] * rstd[grouping.statistic[i]]);
    if (!call.has(1)) continue;
    double normal = cast_first ? Numbers(call.out())[i] : x[i] * rstd[grouping.statistic[i]];
    put(call.out(), i, normal * in[1][grouping.parameter[i]]);
  }
  write(call.out(1), rstd);
  return Status::ok();
}

Status reference_rms_norm_grad(KernelCall& call) {
  std::vector<Numbers> in = read_all(call);
  gradients(call, trailing(in[1].sizes(), axis_count(call)), nullptr, in[2], call.has(3) ? &in[3] : nullptr);
  return Status::ok();
}

Status reference_group_norm(KernelCall& call) {
  return normalize(call, grouped(call.in(0).sizes, call.attributes.get_int("groups")));
}

Status reference_group_norm_grad(KernelCall& call) {
  std::vector<Numbers> in = read_all(call);
  gradients(call, grouped(in[1].sizes(), call.attributes.get_int("groups")), &in[2], in[3],
            call.has(4) ? &in[4] : nullptr);
  return Status::ok();
}

Status reference_batch_norm_train(KernelCall& call) {
  Grouping grouping = featured(call.in(0).sizes, call.attributes.get_int("feature_dim"));
  Moments m = moments(Numbers(call.in(0)), grouping);
  std::vector<double> rstd = inverse_root(m.var, call.attributes.get_float("eps"));
  write_normalized(call, grouping, m.mean, rstd);
  write(call.out(1), m.mean);
  write(call.out(2), rstd);
  Numbers old_mean(call.in(3)), old_var(call.in(4));
  double momentum = call.attributes.get_float("momentum");
  for (int64_t k = 0; k < grouping.statistics; ++k) {
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
  for (int64_t k = 0; k < grouping.statistics; ++k) means.push_back(mean[k]), vars.push_back(var[k]);
  write_normalized(call, grouping, means, inverse_root(vars, call.attributes.get_float("eps")));
  return Status::ok();
}

Status reference_batch_norm_grad(KernelCall& call) {
  std::vector<Numbers> in = read_all(call);
  gradients(call, featured(in[1].sizes(), call.attributes.get_int("feature_dim")), &in[3], in[4],
            call.has(2) ? &in[2] : nullptr);
  return Status::ok();
}

}  // namespace tilewright
