// Reference kernels of optimizer steps, element by element in double.
#include <algorithm>

#include "ir/reference/composite.h"

namespace tilewright {

using namespace reference;
namespace {

double scalar(const KernelCall& call, int operand) { return Numbers(call.in(operand))[0]; }

Status adam_step(KernelCall& call, bool decoupled) {
  Numbers p(call.in(0)), g(call.in(1)), m(call.in(2)), v(call.in(3));
  double step = scalar(call, 5), lr = scalar(call, 6);
  const AttributeReader& a = call.attributes;
  double beta1 = a.get_float("beta1"), beta2 = a.get_float("beta2"), decay = a.get_float("weight_decay");
  std::optional<Numbers> vmax = optional_input(call, 4);
  double correction1 = 1 - std::pow(beta1, step), correction2 = 1 - std::pow(beta2, step);
  for (int64_t i = 0; i < p.count(); ++i) {
    double value = p[i], gradient = a.get_bool("maximize") ? -g[i] : g[i];
    if (decoupled)
      value *= 1 - lr * decay;
    else
      gradient += decay * value;
    double m_out = beta1 * m[i] + (1 - beta1) * gradient,
           v_out = beta2 * v[i] + (1 - beta2) * gradient * gradient;
    double largest = v_out;
    if (vmax) {
      double before = (*vmax)[i];
      largest = before > v_out || std::isnan(before) ? before : v_out;
    }
    // In this order: what a step below 1 gives is a NaN in either definition.
    double denominator = std::sqrt(largest) / std::sqrt(correction2) + a.get_float("eps");
    put(call.out(0), i, value - lr * (m_out / correction1) / denominator);
    put(call.out(1), i, m_out);
    put(call.out(2), i, v_out);
    put(call.out(3), i, largest);
  }
  return Status::ok();
}

}  // namespace

Status reference_adam(KernelCall& call) { return adam_step(call, false); }
Status reference_adamw(KernelCall& call) { return adam_step(call, true); }

Status reference_sgd_momentum(KernelCall& call) {
  Numbers p(call.in(0)), g(call.in(1)), buf(call.in(2));
  double lr = scalar(call, 3);
  const AttributeReader& a = call.attributes;
  double momentum = a.get_float("momentum");
  for (int64_t i = 0; i < p.count(); ++i) {
    double gradient = (a.get_bool("maximize") ? -g[i] : g[i]) + a.get_float("weight_decay") * p[i];
    double buf_out = momentum * buf[i] + (1 - a.get_float("dampening")) * gradient;
    double update = a.get_bool("nesterov") ? gradient + momentum * buf_out : buf_out;
    put(call.out(0), i, p[i] - lr * update);
    put(call.out(1), i, buf_out);
  }
  return Status::ok();
}

Status reference_lion(KernelCall& call) {
  Numbers p(call.in(0)), g(call.in(1)), m(call.in(2));
  double lr = scalar(call, 3);
  const AttributeReader& a = call.attributes;
  double beta1 = a.get_float("beta1"), beta2 = a.get_float("beta2");
  for (int64_t i = 0; i < p.count(); ++i) {
    double mix = beta1 * m[i] + (1 - beta1) * g[i];
    double sign = mix > 0 ? 1 : mix < 0 ? -1 : mix;
    put(call.out(0), i, p[i] - lr * (sign + a.get_float("weight_decay") * p[i]));
    put(call.out(1), i, beta2 * m[i] + (1 - beta2) * g[i]);
  }
  return Status::ok();
}

namespace {

// A plain matrix of doubles.
struct Matrix {
  int64_t rows, columns;
  std::vector<double> values;
  Matrix(int64_t r, int64_t c) : rows(r), columns(c), values(static_cast<size_t>(r * c)) {}
  double& at(int64_t i, int64_t j) { return values[static_cast<size_t>(i * columns + j)]; }
  double at(int64_t i, int64_t j) const { return values[static_cast<size_t>(i * columns + j)]; }
};

Matrix transpose(const Matrix& a) {
  Matrix t(a.columns, a.rows);
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t j = 0; j < a.columns; ++j) t.at(j, i) = a.at(i, j);
  }
  return t;
}

Matrix multiply(const Matrix& a, const Matrix& b) {
  Matrix c(a.rows, b.columns);
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t k = 0; k < a.columns; ++k) {
      for (int64_t j = 0; j < b.columns; ++j) c.at(i, j) += a.at(i, k) * b.at(k, j);
    }
  }
  return c;
}

void round_all(Matrix& x, DType type) {
  for (double& value : x.values) value = round_to_stored(type, value);
}

Matrix orthogonalized(Matrix x, int64_t steps, DType type) {
  bool tall = x.rows > x.columns;
  if (tall) x = transpose(x);
  round_all(x, type);
  double square = 0;
  for (double value : x.values) square += value * value;
  for (double& value : x.values) value /= std::sqrt(square) + 1e-7;
  round_all(x, type);
  for (int64_t step = 0; step < steps; ++step) {
    Matrix a = multiply(x, transpose(x));
    round_all(a, type);
    Matrix aa = multiply(a, a);
    for (size_t i = 0; i < a.values.size(); ++i) a.values[i] = -4.7750 * a.values[i] + 2.0315 * aa.values[i];
    round_all(a, type);
    Matrix ax = multiply(a, x);
    for (size_t i = 0; i < x.values.size(); ++i) x.values[i] = 3.4445 * x.values[i] + ax.values[i];
    round_all(x, type);
  }
  return tall ? transpose(x) : x;
}

}  // namespace

Status reference_muon(KernelCall& call) {
  Numbers p(call.in(0)), g(call.in(1)), buf(call.in(2));
  double lr = scalar(call, 3);
  const AttributeReader& a = call.attributes;
  double momentum = a.get_float("momentum");
  Matrix x(p.size(0), p.size(1));
  for (int64_t i = 0; i < p.count(); ++i) {
    double buf_out = momentum * buf[i] + (1 - momentum) * g[i];
    put(call.out(1), i, buf_out);
    x.values[static_cast<size_t>(i)] =
        a.get_bool("nesterov") ? momentum * buf_out + (1 - momentum) * g[i] : buf_out;
  }
  x = orthogonalized(std::move(x), a.get_int("steps"), a.get_dtype("iteration_type", DType::BF16));
  double shape = std::sqrt(
      std::max(1.0, static_cast<double>(x.rows) / static_cast<double>(std::max<int64_t>(x.columns, 1))));
  for (int64_t i = 0; i < p.count(); ++i) {
    double kept = p[i] * (1 - lr * a.get_float("weight_decay"));
    put(call.out(0), i, kept - lr * shape * x.values[static_cast<size_t>(i)]);
  }
  return Status::ok();
}

Status reference_global_norm_clip(KernelCall& call) {
  int count = static_cast<int>(call.inputs.size()) - 1;
  double square = 0;
  for (int t = 0; t < count; ++t) {
    Numbers x(call.in(t));
    for (int64_t i = 0; i < x.count(); ++i) square += x[i] * x[i];
  }
  double norm = std::sqrt(square), factor = scalar(call, count) / (norm + call.attributes.get_float("eps"));
  if (factor > 1) factor = 1;
  for (int t = 0; t < count; ++t) {
    Numbers x(call.in(t));
    for (int64_t i = 0; i < x.count(); ++i) put(call.out(t), i, x[i] * factor);
  }
  put(call.out(count), 0, norm);
  return Status::ok();
}

}  // namespace tilewright
