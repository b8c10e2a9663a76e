// Reference kernels of reduce_window and select_and_scatter_add.
#include "ir/reference/window.h"

#include "ir/reference/accumulate.h"

namespace tilewright {

using namespace reference;

namespace {

std::vector<WindowSpec> read_windows(const KernelCall& call, bool has_base_dilation) {
  const Ints& window = call.attributes.get_ints("window");
  std::vector<WindowSpec> specs(window.size());
  for (size_t dim = 0; dim < specs.size(); ++dim) {
    specs[dim].window = window[dim];
    specs[dim].stride = entry_or(call.attributes.get_ints("strides"), dim, 1);
    specs[dim].dilation = entry_or(call.attributes.get_ints("dilation"), dim, 1);
    specs[dim].pad_lo = entry_or(call.attributes.get_ints("pad_lo"), dim, 0);
    if (has_base_dilation)
      specs[dim].base_dilation = entry_or(call.attributes.get_ints("base_dilation"), dim, 1);
  }
  return specs;
}

// Offsets in x of the taps of one window that lie inside, in row-major window order.
class WindowOffsets {
 public:
  WindowOffsets(const TensorRef& x, const std::vector<WindowSpec>& specs,
                const std::vector<int64_t>& outputs) {
    taps_.resize(specs.size());
    for (size_t dim = 0; dim < specs.size(); ++dim) {
      for (int64_t output = 0; output < outputs[dim]; ++output) {
        std::vector<int64_t> inside;
        for (int64_t tap = 0; tap < specs[dim].window; ++tap) {
          int64_t position = window_position(specs[dim], x.sizes[dim], output, tap);
          if (position >= 0) inside.push_back(position * x.strides[dim]);
        }
        taps_[dim].push_back(std::move(inside));
      }
    }
  }

  const std::vector<int64_t>& at(const std::vector<int64_t>& output) {
    offsets_.assign(1, 0);
    for (size_t dim = 0; dim < output.size(); ++dim) {
      next_.clear();
      for (int64_t offset : offsets_) {
        for (int64_t tap : taps_[dim][output[dim]]) next_.push_back(offset + tap);
      }
      offsets_.swap(next_);
    }
    return offsets_;
  }

 private:
  std::vector<std::vector<std::vector<int64_t>>> taps_;  // by dim, by output position
  std::vector<int64_t> offsets_, next_;
};

template <class T, class Function>
void fold_windows(const TensorRef& x, const TensorRef& out, WindowOffsets& offsets, ComputeType<T> identity) {
  int64_t position = 0;
  for_each_index(out.sizes, [&](const std::vector<int64_t>& index) {
    ComputeType<T> value = identity;
    for (int64_t offset : offsets.at(index)) {
      value = Function::apply(value, Element<T>::load(elements_of<const T>(x)[offset]));
    }
    elements_of<T>(out)[position++] = Element<T>::store(value);
  });
}

template <class T>
void sum_windows(const TensorRef& x, const TensorRef& out, WindowOffsets& offsets) {
  int64_t position = 0;
  for_each_index(out.sizes, [&](const std::vector<int64_t>& index) {
    Sum<T> sum;
    for (int64_t offset : offsets.at(index)) sum.add(Element<T>::load(elements_of<const T>(x)[offset]));
    store_sum(accumulation_type(out.dtype), out.dtype, out.data, position++, sum.result());
  });
}

}  // namespace

Status reference_reduce_window(KernelCall& call) {
  const TensorRef &x = call.in(0), &out = call.out();
  WindowOffsets offsets(x, read_windows(call, true), out.sizes);
  const std::string& kind = call.attributes.get_string("kind");
  return visit<kNumber>(x.dtype, [&]<class T>(Tag<T>) {
    using C = ComputeType<T>;
    if (kind == "max")
      fold_windows<T, Maximum>(x, out, offsets, lowest_value<C>());
    else if (kind == "min")
      fold_windows<T, Minimum>(x, out, offsets, highest_value<C>());
    else
      sum_windows<T>(x, out, offsets);
    return Status::ok();
  });
}

namespace {

// The position among `offsets` of the first extreme tap, the first NaN before all; -1 when there is no tap.
template <class T>
int64_t select_tap(const T* x, const std::vector<int64_t>& offsets, bool largest) {
  int64_t chosen = -1;
  ComputeType<T> best{};
  for (size_t tap = 0; tap < offsets.size(); ++tap) {
    ComputeType<T> value = Element<T>::load(x[offsets[tap]]);
    bool better = largest ? value > best : value < best;
    if constexpr (kIsFloat<T>) better = better || (value != value && best == best);
    if (chosen >= 0 && !better) continue;
    chosen = static_cast<int64_t>(tap);
    best = value;
  }
  return chosen;
}

}  // namespace

Status reference_select_and_scatter_add(KernelCall& call) {
  const TensorRef &x = call.in(0), &source = call.in(1), &out = call.out();
  WindowOffsets offsets(x, read_windows(call, false), source.sizes);
  // Offsets of the dense output, parallel to those of x.
  TensorRef dense{x.dtype, x.sizes, TensorRef::dense_strides(x.sizes), nullptr};
  WindowOffsets out_offsets(dense, read_windows(call, false), source.sizes);
  bool largest = call.attributes.get_string("kind") == "max";
  return visit<kNumber>(x.dtype, [&]<class T>(Tag<T>) {
    std::vector<Sum<T>> sums(out.elements());
    for_each_index(source.sizes, [&](const std::vector<int64_t>& index) {
      int64_t tap = select_tap(elements_of<const T>(x), offsets.at(index), largest);
      if (tap < 0) return;  // all of the window is padding
      int64_t target = out_offsets.at(index)[tap];
      sums[target].add(Element<T>::load(elements_of<const T>(source)[offset_of(index, source.strides)]));
    });
    for (size_t i = 0; i < sums.size(); ++i) {
      store_sum(accumulation_type(out.dtype), out.dtype, out.data, i, sums[i].result());
    }
    return Status::ok();
  });
}

}  // namespace tilewright
