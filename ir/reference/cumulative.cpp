// Reference kernels of scans along one dim: cumulative ops and linear recurrence.
#include "ir/reference/accumulate.h"
#include "ir/reference/strided.h"

namespace tilewright {

using namespace reference;

namespace {

std::vector<int64_t> without_entry(std::vector<int64_t> entries, int64_t dim) {
  entries.erase(entries.begin() + dim);
  return entries;
}

// line(offset in x, offset in the dense output) for each line along `dim`; both point at the first element
// scanned.
template <class Line>
void for_each_line(const TensorRef& x, const TensorRef& out, int64_t dim, bool reverse, Line&& line) {
  if (x.elements() == 0) return;
  int64_t last = reverse ? x.sizes[dim] - 1 : 0;
  std::vector<int64_t> x_strides = without_entry(x.strides, dim),
                       out_strides = without_entry(out.strides, dim);
  for_each_index(without_entry(x.sizes, dim), [&](const std::vector<int64_t>& index) {
    line(offset_of(index, x_strides) + last * x.strides[dim],
         offset_of(index, out_strides) + last * out.strides[dim]);
  });
}

template <template <class> class StateOf>
Status accumulate_lines(KernelCall& call) {
  const TensorRef &x = call.in(0), &out = call.out();
  int64_t dim = call.attributes.get_int("dim");
  bool reverse = call.attributes.get_bool("reverse"), exclusive = call.attributes.get_bool("exclusive");
  int64_t x_step = reverse ? -x.strides[dim] : x.strides[dim],
          out_step = reverse ? -out.strides[dim] : out.strides[dim];
  DType accumulate = accumulation_type(x.dtype);
  return visit<kNumber>(x.dtype, [&]<class T>(Tag<T>) {
    for_each_line(x, out, dim, reverse, [&](int64_t from, int64_t to) {
      StateOf<T> state;
      for (int64_t i = 0; i < x.sizes[dim]; ++i) {
        if (exclusive) store_sum(accumulate, out.dtype, out.data, to + i * out_step, state.result());
        state.add(Element<T>::load(elements_of<const T>(x)[from + i * x_step]));
        if (!exclusive) store_sum(accumulate, out.dtype, out.data, to + i * out_step, state.result());
      }
    });
    return Status::ok();
  });
}

// An element at least as extreme replaces the best one; NaN replaces all and is replaced only by NaN.
template <bool kLargest, class C>
bool takes_over(C value, C best) {
  if constexpr (kIsReal<C>) {
    if (value != value) return true;
    if (best != best) return false;
  }
  return kLargest ? value >= best : value <= best;
}

template <bool kLargest>
Status extreme_lines(KernelCall& call) {
  const TensorRef &x = call.in(0), &out = call.out();
  int64_t* indices = elements_of<int64_t>(call.out(1));
  int64_t dim = call.attributes.get_int("dim"), size = x.sizes[dim];
  bool reverse = call.attributes.get_bool("reverse");
  int64_t x_step = reverse ? -x.strides[dim] : x.strides[dim],
          out_step = reverse ? -out.strides[dim] : out.strides[dim];
  return visit<kArith>(x.dtype, [&]<class T>(Tag<T>) {
    for_each_line(x, out, dim, reverse, [&](int64_t from, int64_t to) {
      T best = elements_of<const T>(x)[from];
      int64_t best_step = 0;
      for (int64_t i = 0; i < size; ++i) {
        T value = elements_of<const T>(x)[from + i * x_step];
        if (takes_over<kLargest>(Element<T>::load(value), Element<T>::load(best))) {
          best = value;
          best_step = i;
        }
        elements_of<T>(out)[to + i * out_step] = best;
        indices[to + i * out_step] = reverse ? size - 1 - best_step : best_step;
      }
    });
    return Status::ok();
  });
}

// log(sum(exp(x))) as the largest x and a sum relative to it.
struct LogSumExp {
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  void add(double x) {
    if (x == -std::numeric_limits<double>::infinity()) return;
    if (x == largest)
      sum += 1;
    else if (x < largest)
      sum += std::exp(x - largest);
    else if (x > largest)
      sum = sum * std::exp(largest - x) + 1, largest = x;
    else
      sum = largest = std::numeric_limits<double>::quiet_NaN();
  }
  double result() const { return sum == 0 ? largest : largest + std::log(sum); }
};

}  // namespace

Status reference_cumulative_sum(KernelCall& call) { return accumulate_lines<Sum>(call); }
Status reference_cumulative_product(KernelCall& call) { return accumulate_lines<Product>(call); }
Status reference_cumulative_max(KernelCall& call) { return extreme_lines<true>(call); }
Status reference_cumulative_min(KernelCall& call) { return extreme_lines<false>(call); }

Status reference_cumulative_logsumexp(KernelCall& call) {
  const TensorRef &x = call.in(0), &out = call.out();
  int64_t dim = call.attributes.get_int("dim");
  bool reverse = call.attributes.get_bool("reverse");
  int64_t x_step = reverse ? -x.strides[dim] : x.strides[dim],
          out_step = reverse ? -out.strides[dim] : out.strides[dim];
  return visit<kFloat>(x.dtype, [&]<class T>(Tag<T>) {
    for_each_line(x, out, dim, reverse, [&](int64_t from, int64_t to) {
      LogSumExp state;
      for (int64_t i = 0; i < x.sizes[dim]; ++i) {
        state.add(static_cast<double>(Element<T>::load(elements_of<const T>(x)[from + i * x_step])));
        elements_of<T>(out)[to + i * out_step] =
            Element<T>::store(static_cast<ComputeType<T>>(state.result()));
      }
    });
    return Status::ok();
  });
}

Status reference_linear_recurrence(KernelCall& call) {
  const TensorRef &a = call.in(0), &b = call.in(1), &out = call.out();
  int64_t dim = call.attributes.get_int("dim"), size = a.sizes[dim];
  bool reverse = call.attributes.get_bool("reverse");
  int64_t direction = reverse ? -1 : 1;
  std::vector<int64_t> lines = without_entry(a.sizes, dim);
  std::vector<int64_t> no_strides(lines.size(), 0), h_strides = call.has(2) ? call.in(2).strides : no_strides;
  std::vector<int64_t> a_strides = without_entry(a.strides, dim), b_strides = without_entry(b.strides, dim),
                       out_strides = without_entry(out.strides, dim);
  int64_t first = reverse ? size - 1 : 0;
  return visit<kFloat>(a.dtype, [&]<class T>(Tag<T>) {
    for_each_index(lines, [&](const std::vector<int64_t>& index) {
      const T* a_line = elements_of<const T>(a) + offset_of(index, a_strides);
      const T* b_line = elements_of<const T>(b) + offset_of(index, b_strides);
      T* out_line = elements_of<T>(out) + offset_of(index, out_strides);
      double state = 0;
      if (call.has(2)) {
        state = static_cast<double>(
            Element<T>::load(elements_of<const T>(call.in(2))[offset_of(index, h_strides)]));
      }
      for (int64_t i = 0; i < size; ++i) {
        int64_t t = first + direction * i;
        double factor = static_cast<double>(Element<T>::load(a_line[t * a.strides[dim]]));
        state = factor * state + static_cast<double>(Element<T>::load(b_line[t * b.strides[dim]]));
        out_line[t * out.strides[dim]] = Element<T>::store(static_cast<ComputeType<T>>(state));
      }
    });
    return Status::ok();
  });
}

}  // namespace tilewright
