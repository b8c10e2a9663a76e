// Reference kernels of reductions over dims.
#include "ir/reference/accumulate.h"
#include "ir/reference/strided.h"

namespace tilewright {

using namespace reference;

namespace {

// The operand's dims in two groups.
struct Split {
  std::vector<int64_t> kept, kept_strides, reduced, reduced_strides;
};

Split split_dims(const TensorRef& x, const Ints& dims) {
  Split split;
  std::vector<bool> is_reduced(x.sizes.size(), false);
  for (int64_t dim : dims) is_reduced[dim] = true;
  for (int dim = 0; dim < x.rank(); ++dim) {
    (is_reduced[dim] ? split.reduced : split.kept).push_back(x.sizes[dim]);
    (is_reduced[dim] ? split.reduced_strides : split.kept_strides).push_back(x.strides[dim]);
  }
  return split;
}

// Runs State over every group of reduced elements; finish(flat output index, state).
// A line of the innermost kept dim advances together, so that memory is read in order whichever dims are
// reduced.
template <class T, class State, class Finish>
void reduce(const TensorRef& x, const Split& split, const State& start, Finish&& finish) {
  std::vector<int64_t> outer = split.kept, outer_strides = split.kept_strides;
  int64_t line = 1, line_stride = 0;
  if (!outer.empty()) {
    line = outer.back(), line_stride = outer_strides.back();
    outer.pop_back(), outer_strides.pop_back();
  }
  int64_t inner_stride = split.reduced_strides.empty() ? INT64_MAX : std::abs(split.reduced_strides.back());
  bool lines_together = line > 1 && std::abs(line_stride) < inner_stride;
  Nest<1> nest(split.reduced, {&split.reduced_strides});
  int64_t position = 0;
  std::vector<State> states;
  for_each_index(outer, [&](const std::vector<int64_t>& index) {
    const T* base = elements_of<const T>(x) + offset_of(index, outer_strides);
    states.assign(line, start);
    if (lines_together) {
      nest.run([&](const auto& offsets, int64_t count, const auto& steps) {
        for (int64_t i = 0; i < count; ++i) {
          const T* row = base + offsets[0] + i * steps[0];
          for (int64_t j = 0; j < line; ++j) states[j].add(Element<T>::load(row[j * line_stride]));
        }
      });
    } else {
      for (int64_t j = 0; j < line; ++j) {
        State state = start;
        nest.run([&](const auto& offsets, int64_t count, const auto& steps) {
          const T* run = base + j * line_stride + offsets[0];
          for (int64_t i = 0; i < count; ++i) state.add(Element<T>::load(run[i * steps[0]]));
        });
        states[j] = state;
      }
    }
    for (int64_t j = 0; j < line; ++j) finish(position++, states[j]);
  });
}

template <template <class> class StateOf>
Status reduce_accumulating(KernelCall& call) {
  const TensorRef &x = call.in(0), &out = call.out();
  Split split = split_dims(x, call.attributes.get_ints("dims"));
  DType accumulate = accumulate_type_of(call.attributes, x.dtype, out.dtype);
  return visit<kNumber>(x.dtype, [&]<class T>(Tag<T>) {
    using State = StateOf<T>;
    reduce<T>(x, split, State{}, [&](int64_t position, const State& state) {
      store_sum(accumulate, out.dtype, out.data, position, state.result());
    });
    return Status::ok();
  });
}

// Combines values of the operand's own type.
template <class Function, class C>
struct Folding {
  C value;
  void add(C next) { value = Function::apply(value, next); }
};

template <class Function, uint32_t kMask, class Identity>
Status reduce_folding(KernelCall& call, Identity identity) {
  const TensorRef& x = call.in(0);
  Split split = split_dims(x, call.attributes.get_ints("dims"));
  return visit<kMask>(x.dtype, [&]<class T>(Tag<T>) {
    using State = Folding<Function, ComputeType<T>>;
    T* out = elements_of<T>(call.out());
    reduce<T>(x, split, State{identity(ComputeType<T>{})},
              [&](int64_t position, const State& state) { out[position] = Element<T>::store(state.value); });
    return Status::ok();
  });
}

// The first element that no other beats; NaN beats all but an earlier NaN.
template <class C, bool kLargest>
struct BestIndex {
  C best{};
  int64_t index = -1, next = 0;
  void add(C value) {
    bool better = kLargest ? value > best : value < best;
    if constexpr (kIsReal<C>) better = better || (value != value && best == best);
    if (index < 0 || better) {
      best = value;
      index = next;
    }
    ++next;
  }
};

template <bool kLargest>
Status reduce_to_index(KernelCall& call) {
  const TensorRef &x = call.in(0), &out = call.out();
  int64_t dim = call.attributes.get_int("dim");
  if (x.sizes[dim] == 0 && out.elements() > 0) {
    return Status::invalid(
        cat(op_name(call.op), ": axis ", dim, " is empty, so it has no element to choose"));
  }
  Split split = split_dims(x, {dim});
  return visit<kArith>(x.dtype, [&]<class T>(Tag<T>) {
    using State = BestIndex<ComputeType<T>, kLargest>;
    reduce<T>(x, split, State{}, [&](int64_t position, const State& state) {
      if (out.dtype == DType::I32)
        elements_of<int32_t>(out)[position] = static_cast<int32_t>(state.index);
      else
        elements_of<int64_t>(out)[position] = state.index;
    });
    return Status::ok();
  });
}

}  // namespace

Status reference_reduce_sum(KernelCall& call) { return reduce_accumulating<Sum>(call); }
Status reference_reduce_product(KernelCall& call) { return reduce_accumulating<Product>(call); }

Status reference_reduce_max(KernelCall& call) {
  return reduce_folding<Maximum, kArith>(call, []<class C>(C) { return lowest_value<C>(); });
}
Status reference_reduce_min(KernelCall& call) {
  return reduce_folding<Minimum, kArith>(call, []<class C>(C) { return highest_value<C>(); });
}
Status reference_reduce_and(KernelCall& call) {
  return reduce_folding<And, kLogical>(call, []<class C>(C) { return static_cast<C>(~uint64_t{0}); });
}
Status reference_reduce_or(KernelCall& call) {
  return reduce_folding<Or, kLogical>(call, []<class C>(C) { return C(0); });
}
Status reference_reduce_xor(KernelCall& call) {
  return reduce_folding<Xor, kLogical>(call, []<class C>(C) { return C(0); });
}

Status reference_argmax(KernelCall& call) { return reduce_to_index<true>(call); }
Status reference_argmin(KernelCall& call) { return reduce_to_index<false>(call); }

}  // namespace tilewright
