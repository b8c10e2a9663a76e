// Reference kernels over 2-d windows: im2col, convolution, pooling and resizing, each as loops over output
// and window.
#include <algorithm>

#include "ir/reference/composite.h"
#include "ir/reference/scalar.h"

namespace tilewright {

using namespace reference;
namespace {

// Where window (oh, ow) puts its cell (i, j) in a plane of h x w.
struct Plane {
  int64_t kernel[2], stride[2], dilation[2] = {1, 1}, pad[2], size[2];

  Plane(const KernelCall& call, const Ints& kernels, int64_t h, int64_t w, bool stride_is_kernel) {
    const AttributeReader& a = call.attributes;
    const AttributeInfo* dilates = op_info(call.op).attribute("dilation");
    for (size_t i = 0; i < 2; ++i) {
      kernel[i] = kernels[i];
      const Ints &strides = a.get_ints("strides"), &pads = a.get_ints("pad");
      stride[i] = strides.empty() ? (stride_is_kernel ? kernel[i] : 1) : strides[i];
      pad[i] = pads.empty() ? 0 : pads[i];
      if (dilates && !a.get_ints("dilation").empty()) dilation[i] = a.get_ints("dilation")[i];
    }
    size[0] = h, size[1] = w;
  }
  int64_t position(int axis, int64_t output, int64_t cell) const {
    return output * stride[axis] + cell * dilation[axis] - pad[axis];
  }
  // The flat position in the plane, or -1 in the padding.
  int64_t cell(int64_t oh, int64_t ow, int64_t i, int64_t j) const {
    int64_t y = position(0, oh, i), x = position(1, ow, j);
    bool inside = y >= 0 && y < size[0] && x >= 0 && x < size[1];
    return inside ? y * size[1] + x : -1;
  }
  // visit(i, j, flat position) for the cells of a window inside the plane, in row-major order.
  template <class Visit>
  void cells(int64_t oh, int64_t ow, Visit&& visit) const {
    for (int64_t i = 0; i < kernel[0]; ++i) {
      for (int64_t j = 0; j < kernel[1]; ++j) {
        int64_t at = cell(oh, ow, i, j);
        if (at >= 0) visit(i, j, at);
      }
    }
  }
};

Ints spatial(const std::vector<int64_t>& sizes) { return {sizes[2], sizes[3]}; }

void copy(const TensorRef& out, int64_t to, const Numbers& in, int64_t from) {
  size_t bytes = static_cast<size_t>(dtype_bytes(out.dtype));
  std::memcpy(static_cast<char*>(out.data) + static_cast<size_t>(to) * bytes,
              static_cast<const char*>(in.data()) + static_cast<size_t>(from) * bytes, bytes);
}

}  // namespace

Status reference_unfold(KernelCall& call) {
  Numbers x(call.in(0));
  Plane plane(call, call.attributes.get_ints("kernel"), x.size(2), x.size(3), false);
  int64_t span = plane.dilation[1] * (plane.kernel[1] - 1) + 1;
  int64_t ow = (x.size(3) + 2 * plane.pad[1] - span) / plane.stride[1] + 1, positions = call.out().sizes[2];
  int64_t cells = plane.kernel[0] * plane.kernel[1], area = x.size(2) * x.size(3);
  fill_zero(call.out());
  for (int64_t nc = 0; nc < x.size(0) * x.size(1); ++nc) {
    for (int64_t at = 0; at < positions; ++at) {
      plane.cells(at / ow, at % ow, [&](int64_t i, int64_t j, int64_t from) {
        copy(call.out(), (nc * cells + i * plane.kernel[1] + j) * positions + at, x, nc * area + from);
      });
    }
  }
  return Status::ok();
}

Status reference_fold(KernelCall& call) {
  Numbers x(call.in(0));
  const Ints &kernel = call.attributes.get_ints("kernel"), &size = call.attributes.get_ints("size");
  Plane plane(call, kernel, size[0], size[1], false);
  int64_t span = plane.dilation[1] * (kernel[1] - 1) + 1;
  int64_t ow = (size[1] + 2 * plane.pad[1] - span) / plane.stride[1] + 1, positions = x.size(2);
  int64_t cells = kernel[0] * kernel[1], area = size[0] * size[1];
  std::vector<double> sum(static_cast<size_t>(call.out().elements()));
  for (int64_t nc = 0; nc < x.size(0) * x.size(1) / cells; ++nc) {
    for (int64_t at = 0; at < positions; ++at) {
      plane.cells(at / ow, at % ow, [&](int64_t i, int64_t j, int64_t to) {
        sum[nc * area + to] += x[(nc * cells + i * kernel[1] + j) * positions + at];
      });
    }
  }
  put_all(call.out(), sum);
  return Status::ok();
}

namespace {

// visit(x offset, w offset, y offset) for every product of a grouped convolution of x [n, c, h, w].
template <class Visit>
void products(const Plane& plane, const std::vector<int64_t>& x, const std::vector<int64_t>& w,
              const std::vector<int64_t>& y, int64_t groups, Visit&& visit) {
  int64_t inputs = x[1] / groups, outputs = y[1] / groups;
  for (int64_t n = 0; n < y[0]; ++n) {
    for (int64_t o = 0; o < y[1]; ++o) {
      for (int64_t at = 0; at < y[2] * y[3]; ++at) {
        for (int64_t c = 0; c < inputs; ++c) {
          int64_t channel = n * x[1] + o / outputs * inputs + c;
          plane.cells(at / y[3], at % y[3], [&](int64_t i, int64_t j, int64_t from) {
            visit(channel * x[2] * x[3] + from, ((o * inputs + c) * w[2] + i) * w[3] + j,
                  (n * y[1] + o) * y[2] * y[3] + at);
          });
        }
      }
    }
  }
}

}  // namespace

Status reference_conv2d(KernelCall& call) {
  std::vector<double> x = doubles_of(call.in(0)), w = doubles_of(call.in(1));
  const TensorRef& out = call.out();
  const std::vector<int64_t>&sizes = call.in(0).sizes, &window = call.in(1).sizes;
  Plane plane(call, spatial(window), sizes[2], sizes[3], false);
  std::vector<double> y(static_cast<size_t>(out.elements()));
  products(plane, sizes, window, out.sizes, call.attributes.get_int("groups"),
           [&](int64_t ix, int64_t iw, int64_t iy) { y[iy] += x[ix] * w[iw]; });
  if (std::optional<Numbers> bias = optional_input(call, 2)) {
    int64_t area = out.sizes[2] * out.sizes[3];
    for (size_t i = 0; i < y.size(); ++i) y[i] += (*bias)[static_cast<int64_t>(i) / area % out.sizes[1]];
  }
  put_all(out, y);
  return Status::ok();
}

Status reference_conv2d_input_grad(KernelCall& call) {
  std::vector<double> g = doubles_of(call.in(0)), w = doubles_of(call.in(1));
  const TensorRef& out = call.out();
  const std::vector<int64_t>& window = call.in(1).sizes;
  Plane plane(call, spatial(window), out.sizes[2], out.sizes[3], false);
  std::vector<double> dx(static_cast<size_t>(out.elements()));
  products(plane, out.sizes, window, call.in(0).sizes, call.attributes.get_int("groups"),
           [&](int64_t ix, int64_t iw, int64_t iy) { dx[ix] += g[iy] * w[iw]; });
  put_all(out, dx);
  return Status::ok();
}

Status reference_conv2d_weight_grad(KernelCall& call) {
  std::vector<double> g = doubles_of(call.in(0)), x = doubles_of(call.in(1));
  const TensorRef& out = call.out();
  const std::vector<int64_t>& sizes = call.in(1).sizes;
  Plane plane(call, spatial(out.sizes), sizes[2], sizes[3], false);
  std::vector<double> dw(static_cast<size_t>(out.elements()));
  products(plane, sizes, out.sizes, call.in(0).sizes, call.attributes.get_int("groups"),
           [&](int64_t ix, int64_t iw, int64_t iy) { dw[iw] += g[iy] * x[ix]; });
  put_all(out, dw);
  return Status::ok();
}

Status reference_max_pool2d(KernelCall& call) {
  Numbers x(call.in(0));
  const TensorRef& out = call.out(0);
  Plane plane(call, call.attributes.get_ints("kernel"), x.size(2), x.size(3), true);
  int64_t area = x.size(2) * x.size(3), windows = out.sizes[2] * out.sizes[3];
  bool is_integer_type = !is_float(x.dtype());
  // Integers compare exactly; u64 by its unsigned value.
  auto greater = [&](int64_t a, int64_t b) {
    if (!is_integer_type) return x[a] > x[b] || (std::isnan(x[a]) && !std::isnan(x[b]));
    if (x.dtype() == DType::U64)
      return static_cast<uint64_t>(x.integer(a)) > static_cast<uint64_t>(x.integer(b));
    return x.integer(a) > x.integer(b);
  };
  for (int64_t i = 0; i < out.elements(); ++i) {
    int64_t nc = i / windows, at = i % windows, best = -1;
    plane.cells(at / out.sizes[3], at % out.sizes[3], [&](int64_t, int64_t, int64_t cell) {
      if (best < 0 || greater(nc * area + cell, nc * area + best)) best = cell;
    });
    // Dilation may step over a whole small input: such a window has no maximum.
    if (best >= 0)
      copy(out, i, x, nc * area + best);
    else
      store_scalar(reduction_identity(Op::ReduceMax, x.dtype()),
                   static_cast<char*>(out.data) + i * dtype_bytes(x.dtype()));
    put_integer(call.out(1), i, best);
  }
  return Status::ok();
}

Status reference_max_pool2d_grad(KernelCall& call) {
  Numbers g(call.in(0)), indices(call.in(1));
  const TensorRef& out = call.out();
  int64_t area = out.sizes[2] * out.sizes[3], windows = g.size(2) * g.size(3);
  std::vector<double> dx(static_cast<size_t>(out.elements()));
  for (int64_t i = 0; i < g.count(); ++i) {
    int64_t at = indices.integer(i);
    if (at >= 0 && at < area) dx[i / windows * area + at] += g[i];
  }
  put_all(out, dx);
  return Status::ok();
}

namespace {

// What a window's sum is divided by.
double divisor_of(const KernelCall& call, const Plane& plane, int64_t oh, int64_t ow) {
  if (int64_t fixed = call.attributes.get_int("divisor"); fixed != 0) return static_cast<double>(fixed);
  bool include = call.attributes.get_bool("count_include_pad");
  int64_t output[2] = {oh, ow};
  double count = 1;
  for (int axis = 0; axis < 2; ++axis) {
    int64_t counted = 0;
    for (int64_t k = 0; k < plane.kernel[axis]; ++k) {
      int64_t at = plane.position(axis, output[axis], k), border = include ? plane.pad[axis] : 0;
      counted += at >= -border && at < plane.size[axis] + border;
    }
    count *= static_cast<double>(counted);
  }
  return count;
}

}  // namespace

Status reference_avg_pool2d(KernelCall& call) {
  Numbers x(call.in(0));
  const TensorRef& out = call.out();
  Plane plane(call, call.attributes.get_ints("kernel"), x.size(2), x.size(3), true);
  int64_t area = x.size(2) * x.size(3), windows = out.sizes[2] * out.sizes[3];
  for (int64_t i = 0; i < out.elements(); ++i) {
    int64_t oh = i % windows / out.sizes[3], ow = i % out.sizes[3];
    double sum = 0;
    plane.cells(oh, ow, [&](int64_t, int64_t, int64_t cell) { sum += x[i / windows * area + cell]; });
    put(out, i, sum / divisor_of(call, plane, oh, ow));
  }
  return Status::ok();
}

Status reference_avg_pool2d_grad(KernelCall& call) {
  Numbers g(call.in(0));
  const TensorRef& out = call.out();
  Plane plane(call, call.attributes.get_ints("kernel"), out.sizes[2], out.sizes[3], true);
  int64_t area = out.sizes[2] * out.sizes[3], windows = g.size(2) * g.size(3);
  std::vector<double> dx(static_cast<size_t>(out.elements()));
  for (int64_t i = 0; i < g.count(); ++i) {
    int64_t oh = i % windows / g.size(3), ow = i % g.size(3);
    double share = g[i] / divisor_of(call, plane, oh, ow);
    plane.cells(oh, ow, [&](int64_t, int64_t, int64_t cell) { dx[i / windows * area + cell] += share; });
  }
  put_all(out, dx);
  return Status::ok();
}

Status reference_adaptive_avg_pool2d(KernelCall& call) {
  Numbers x(call.in(0));
  const TensorRef& out = call.out();
  int64_t h = x.size(2), w = x.size(3), rows = out.sizes[2], columns = out.sizes[3];
  auto start = [](int64_t i, int64_t n, int64_t m) { return i * n / m; };
  auto end = [](int64_t i, int64_t n, int64_t m) { return ((i + 1) * n + m - 1) / m; };
  for (int64_t i = 0; i < out.elements(); ++i) {
    int64_t nc = i / (rows * columns), oh = i / columns % rows, ow = i % columns;
    double sum = 0, count = 0;
    for (int64_t y = start(oh, h, rows); y < end(oh, h, rows); ++y) {
      for (int64_t c = start(ow, w, columns); c < end(ow, w, columns); ++c)
        sum += x[(nc * h + y) * w + c], ++count;
    }
    put(out, i, sum / count);
  }
  return Status::ok();
}

}  // namespace tilewright
