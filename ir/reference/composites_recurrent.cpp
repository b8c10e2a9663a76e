// Reference kernels of recurrent cells, their scans and the selective scan, in double.
#include "ir/reference/composite.h"

namespace tilewright {

using namespace reference;
namespace {

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

// Row `row` of w times x plus a bias entry.
double affine(const double* x, const std::vector<double>& w, const std::vector<double>& bias, int64_t row,
              int64_t width) {
  double sum = bias.empty() ? 0 : bias[static_cast<size_t>(row)];
  for (int64_t j = 0; j < width; ++j) sum += x[j] * w[static_cast<size_t>(row * width + j)];
  return sum;
}

// Weights of a cell; operand `w_ih` is the first of them.
struct Cell {
  int64_t batch, inputs, hidden;
  std::vector<double> w_ih, w_hh, b_ih, b_hh;

  Cell(const KernelCall& call, int first, bool second_bias) {
    hidden = call.in(1).sizes[1], batch = call.in(1).sizes[0], inputs = call.in(0).sizes.back();
    w_ih = doubles_of(call.in(first)), w_hh = doubles_of(call.in(first + 1));
    if (call.has(first + 2)) b_ih = doubles_of(call.in(first + 2));
    if (second_bias && call.has(first + 3)) b_hh = doubles_of(call.in(first + 3));
  }
};

// One step in place; `order` gives the position of the gates i, f, g, o.
void lstm_step(const Cell& cell, const double* x, std::vector<double>& h, std::vector<double>& c,
               const int64_t (&order)[4]) {
  std::vector<double> before = h;
  for (int64_t n = 0; n < cell.batch; ++n) {
    for (int64_t k = 0; k < cell.hidden; ++k) {
      double gate[4];
      for (int which = 0; which < 4; ++which) {
        int64_t row = order[which] * cell.hidden + k;
        gate[which] = affine(x + n * cell.inputs, cell.w_ih, cell.b_ih, row, cell.inputs) +
                      affine(before.data() + n * cell.hidden, cell.w_hh, {}, row, cell.hidden);
      }
      double& state = c[static_cast<size_t>(n * cell.hidden + k)];
      state = logistic(gate[1]) * state + logistic(gate[0]) * std::tanh(gate[2]);
      h[static_cast<size_t>(n * cell.hidden + k)] = logistic(gate[3]) * std::tanh(state);
    }
  }
}

void gru_step(const Cell& cell, const double* x, std::vector<double>& h) {
  std::vector<double> before = h;
  for (int64_t n = 0; n < cell.batch; ++n) {
    for (int64_t k = 0; k < cell.hidden; ++k) {
      double from_x[3], from_h[3];
      for (int64_t which = 0; which < 3; ++which) {
        int64_t row = which * cell.hidden + k;
        from_x[which] = affine(x + n * cell.inputs, cell.w_ih, cell.b_ih, row, cell.inputs);
        from_h[which] = affine(before.data() + n * cell.hidden, cell.w_hh, cell.b_hh, row, cell.hidden);
      }
      double r = logistic(from_x[0] + from_h[0]), z = logistic(from_x[1] + from_h[1]);
      double candidate = std::tanh(from_x[2] + r * from_h[2]);
      h[static_cast<size_t>(n * cell.hidden + k)] =
          (1 - z) * candidate + z * before[static_cast<size_t>(n * cell.hidden + k)];
    }
  }
}

// Writes values at an offset and reads them back as stored.
void store(const TensorRef& out, int64_t offset, std::vector<double>& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    put(out, offset + static_cast<int64_t>(i), values[i]);
    values[i] = round_to_stored(out.dtype, values[i]);
  }
}

constexpr int64_t kTorchOrder[4] = {0, 1, 2, 3}, kOnnxOrder[4] = {0, 2, 3, 1};

}  // namespace

Status reference_lstm_cell(KernelCall& call) {
  Cell cell(call, 3, false);
  std::vector<double> x = doubles_of(call.in(0)), h = doubles_of(call.in(1)), c = doubles_of(call.in(2));
  bool torch_order = call.attributes.get_string("order") == "ifgo";
  lstm_step(cell, x.data(), h, c, torch_order ? kTorchOrder : kOnnxOrder);
  store(call.out(0), 0, h);
  store(call.out(1), 0, c);
  return Status::ok();
}

Status reference_gru_cell(KernelCall& call) {
  Cell cell(call, 2, true);
  std::vector<double> x = doubles_of(call.in(0)), h = doubles_of(call.in(1));
  gru_step(cell, x.data(), h);
  store(call.out(0), 0, h);
  return Status::ok();
}

Status reference_lstm(KernelCall& call) {
  Cell cell(call, 3, false);
  std::vector<double> x = doubles_of(call.in(0)), h = doubles_of(call.in(1)), c = doubles_of(call.in(2));
  int64_t steps = call.in(0).sizes[0];
  for (int64_t k = 0; k < steps; ++k) {
    int64_t t = call.attributes.get_bool("reverse") ? steps - 1 - k : k;
    lstm_step(cell, x.data() + t * cell.batch * cell.inputs, h, c, kTorchOrder);
    store(call.out(0), t * cell.batch * cell.hidden, h);
    store(call.out(2), 0, c);
  }
  store(call.out(1), 0, h);
  store(call.out(2), 0, c);
  return Status::ok();
}

Status reference_gru(KernelCall& call) {
  Cell cell(call, 2, true);
  std::vector<double> x = doubles_of(call.in(0)), h = doubles_of(call.in(1));
  int64_t steps = call.in(0).sizes[0];
  for (int64_t k = 0; k < steps; ++k) {
    int64_t t = call.attributes.get_bool("reverse") ? steps - 1 - k : k;
    gru_step(cell, x.data() + t * cell.batch * cell.inputs, h);
    store(call.out(0), t * cell.batch * cell.hidden, h);
  }
  store(call.out(1), 0, h);
  return Status::ok();
}

Status reference_selective_scan(KernelCall& call) {
  Numbers u(call.in(0)), delta(call.in(1)), a(call.in(2)), b(call.in(3)), c(call.in(4));
  int64_t n = u.size(0), length = u.size(1), width = u.size(2), states = a.size(1);
  std::optional<Numbers> skip = optional_input(call, 5);
  bool softplus = call.attributes.get_bool("softplus");
  for (int64_t in = 0; in < n; ++in) {
    for (int64_t e = 0; e < width; ++e) {
      std::vector<double> h(static_cast<size_t>(states));
      for (int64_t t = 0; t < length; ++t) {
        int64_t at = (in * length + t) * width + e, row = (in * length + t) * states;
        double step = delta[at], y = 0;
        if (softplus && step <= 20) step = std::fmax(step, 0) + std::log1p(std::exp(-std::fabs(step)));
        for (int64_t s = 0; s < states; ++s) {
          double& state = h[static_cast<size_t>(s)];
          state = std::exp(step * a[e * states + s]) * state + step * b[row + s] * u[at];
          y += state * c[row + s];
        }
        put(call.out(), at, skip ? y + (*skip)[e] * u[at] : y);
      }
    }
  }
  return Status::ok();
}

}  // namespace tilewright
