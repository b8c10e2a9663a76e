// Reference kernels of gather, scatter, their element forms, and histogram.
#include <algorithm>

#include "ir/reference/accumulate.h"
#include "ir/reference/scalar.h"
#include "ir/reference/strided.h"

namespace tilewright {

using namespace reference;

namespace {

enum class OutOfBounds : uint8_t { Clamp, Drop, Error };

// A promise is kept by the caller; checking it anyway keeps memory safe.
OutOfBounds read_policy(const KernelCall& call, OutOfBounds promise) {
  const std::string& word = call.attributes.get_string("oob");
  if (word == "clamp") return OutOfBounds::Clamp;
  if (word == "drop") return OutOfBounds::Drop;
  if (word == "error") return OutOfBounds::Error;
  return promise;
}

// Brings an index into [0, limit] or answers false: the window is left out.
bool admit(const KernelCall& call, OutOfBounds policy, int64_t dim, int64_t limit, int64_t& index) {
  if (index >= 0 && index <= limit) return true;
  if (policy == OutOfBounds::Clamp && limit >= 0) {
    index = std::clamp<int64_t>(index, 0, limit);
    return true;
  }
  if (policy == OutOfBounds::Error) {
    call.error.set(Status::out_of_range(cat(op_name(call.op), ": index ", index, " is outside [0, ",
                                            std::max<int64_t>(limit + 1, 0), ") in dim ", dim)));
  }
  return false;
}

bool contains(const Ints& dims, int64_t dim) {
  return std::find(dims.begin(), dims.end(), dim) != dims.end();
}

// The element that `drop` puts where an index is out of range.
uint64_t fill_bits(const KernelCall& call, OutOfBounds policy) {
  uint64_t bits = 0;
  if (policy != OutOfBounds::Drop) return bits;
  Scalar value = Scalar::of_float(DType::F64, call.attributes.get_float("fill"));
  store_scalar(convert_scalar(value, call.out().dtype), &bits);
  return bits;
}

// Dim numbers of gather or scatter: `batched` is the result of a gather or the updates of a scatter.
class Windows {
 public:
  Windows(const KernelCall& call, const TensorRef& x, const TensorRef& indices, const TensorRef& batched,
          bool is_gather)
      : call_(call),
        x_(x),
        indices_(indices),
        batched_(batched),
        index_map_(call.attributes.get_ints(is_gather ? "start_index_map" : "scatter_map")),
        operand_batching_(call.attributes.get_ints(is_gather ? "operand_batching" : "input_batching")),
        vector_dim_(call.attributes.get_int("index_vector_dim")),
        policy_(read_policy(call, is_gather ? OutOfBounds::Clamp : OutOfBounds::Drop)) {
    place_window_dims(call.attributes.get_ints(is_gather ? "offset_dims" : "update_window_dims"),
                      call.attributes.get_ints(is_gather ? "collapsed" : "inserted"));
    place_batch_dims(call.attributes.get_ints(is_gather ? "offset_dims" : "update_window_dims"),
                     call.attributes.get_ints("indices_batching"));
  }

  // A window that no start lets fit reads and writes outside.
  Status check_fit() const {
    for (int dim = 0; dim < x_.rank(); ++dim) {
      if (full_sizes_[dim] <= x_.sizes[dim] || contains(index_map_, dim)) continue;
      return too_large(dim);
    }
    for (int64_t dim : index_map_)
      if (full_sizes_[dim] > std::max<int64_t>(x_.sizes[dim], 1)) return too_large(dim);
    return Status::ok();
  }

  OutOfBounds policy() const { return policy_; }
  const std::vector<int64_t>& window_sizes() const { return window_sizes_; }
  const std::vector<int64_t>& x_strides() const { return window_x_strides_; }
  const std::vector<int64_t>& batched_strides() const { return window_batched_strides_; }

  // visit(offset in batched, offset in x, admitted) for each index vector in row-major order.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for_each_index(batch_sizes_, [&](const std::vector<int64_t>& batch) {
      int64_t offset = 0;
      bool admitted = start_offset(batch, offset);
      visit(offset_of(batch, batch_batched_strides_), offset, admitted);
    });
  }

 private:
  Status too_large(int64_t dim) const {
    return Status::invalid(cat(op_name(call_.op), ": window size ", full_sizes_[dim], " of dim ", dim,
                               " exceeds ", x_.sizes[dim]));
  }

  void place_window_dims(const Ints& window_dims, const Ints& collapsed) {
    full_sizes_.assign(x_.sizes.size(), 1);
    size_t next = 0;
    for (int dim = 0; dim < x_.rank(); ++dim) {
      if (contains(collapsed, dim) || contains(operand_batching_, dim)) continue;
      int64_t batched_dim = window_dims[next++];
      full_sizes_[dim] = batched_.sizes[batched_dim];
      window_sizes_.push_back(batched_.sizes[batched_dim]);
      window_x_strides_.push_back(x_.strides[dim]);
      window_batched_strides_.push_back(batched_.strides[batched_dim]);
    }
  }

  void place_batch_dims(const Ints& window_dims, const Ints& indices_batching) {
    for (int dim = 0; dim < batched_.rank(); ++dim) {
      if (contains(window_dims, dim)) continue;
      batch_sizes_.push_back(batched_.sizes[dim]);
      batch_batched_strides_.push_back(batched_.strides[dim]);
    }
    batch_x_strides_.assign(batch_sizes_.size(), 0);
    size_t next = 0;
    for (int dim = 0; dim < indices_.rank(); ++dim) {
      if (dim == vector_dim_) continue;
      batch_indices_strides_.push_back(indices_.strides[dim]);
      for (size_t i = 0; i < indices_batching.size(); ++i) {
        if (indices_batching[i] == dim) batch_x_strides_[next] = x_.strides[operand_batching_[i]];
      }
      ++next;
    }
  }

  bool start_offset(const std::vector<int64_t>& batch, int64_t& offset) const {
    int64_t at = offset_of(batch, batch_indices_strides_);
    offset = offset_of(batch, batch_x_strides_);
    for (size_t k = 0; k < index_map_.size(); ++k) {
      int64_t step = vector_dim_ < indices_.rank() ? indices_.strides[vector_dim_] : 0;
      int64_t index = index_at(indices_, at + static_cast<int64_t>(k) * step), dim = index_map_[k];
      if (!admit(call_, policy_, dim, x_.sizes[dim] - full_sizes_[dim], index)) return false;
      offset += index * x_.strides[dim];
    }
    return true;
  }

  const KernelCall& call_;
  const TensorRef &x_, &indices_, &batched_;
  const Ints &index_map_, &operand_batching_;
  int64_t vector_dim_;
  OutOfBounds policy_;
  std::vector<int64_t> full_sizes_;  // window size of each dim of x
  std::vector<int64_t> window_sizes_, window_x_strides_, window_batched_strides_;
  std::vector<int64_t> batch_sizes_, batch_batched_strides_, batch_indices_strides_, batch_x_strides_;
};

}  // namespace

Status reference_gather(KernelCall& call) {
  const TensorRef &x = call.in(0), &out = call.out();
  if (out.elements() == 0) return Status::ok();
  Windows windows(call, x, call.in(1), out, true);
  TW_RETURN_IF_ERROR(windows.check_fit());
  uint64_t fill = fill_bits(call, windows.policy());
  Nest<2> nest(windows.window_sizes(), {&windows.batched_strides(), &windows.x_strides()});
  return visit_width(out.dtype, [&]<class T>(Tag<T>) {
    T fill_value;
    std::memcpy(&fill_value, &fill, sizeof fill_value);
    windows.for_each([&](int64_t out_offset, int64_t x_offset, bool admitted) {
      T* target = elements_of<T>(out) + out_offset;
      const T* source = elements_of<const T>(x) + x_offset;
      nest.run([&](const auto& offsets, int64_t count, const auto& steps) {
        T* to = target + offsets[0];
        for (int64_t i = 0; i < count; ++i) {
          to[i * steps[0]] = admitted ? source[offsets[1] + i * steps[1]] : fill_value;
        }
      });
    });
    return Status::ok();
  });
}

namespace {

enum class ScatterKind : uint8_t { Set, Add, Multiply, Minimum, Maximum };

ScatterKind read_kind(const KernelCall& call) {
  const std::string& word = call.attributes.get_string("kind");
  if (word == "add") return ScatterKind::Add;
  if (word == "mul") return ScatterKind::Multiply;
  if (word == "min") return ScatterKind::Minimum;
  if (word == "max") return ScatterKind::Maximum;
  return ScatterKind::Set;
}

struct TakeLast {
  template <class C>
  static C apply(C, C update) {
    return update;
  }
};

// Walk(body) calls body(offset in out, offset in updates) in row-major update order.
// Float sums and products are kept in double and rounded once at the end.
template <class T, class Function, class Walk>
void scatter_wide(const TensorRef& out, const TensorRef& updates, Walk&& walk) {
  T* target = elements_of<T>(out);
  std::vector<double> sums(out.elements());
  for (size_t i = 0; i < sums.size(); ++i) sums[i] = static_cast<double>(Element<T>::load(target[i]));
  walk([&](int64_t to, int64_t from) {
    double update = static_cast<double>(Element<T>::load(elements_of<const T>(updates)[from]));
    sums[to] = Function::apply(sums[to], update);
  });
  for (size_t i = 0; i < sums.size(); ++i)
    target[i] = Element<T>::store(static_cast<ComputeType<T>>(sums[i]));
}

template <class T, class Function, class Walk>
void scatter_direct(const TensorRef& out, const TensorRef& updates, Walk&& walk) {
  T* target = elements_of<T>(out);
  walk([&](int64_t to, int64_t from) {
    auto update = Element<T>::load(elements_of<const T>(updates)[from]);
    target[to] = Element<T>::store(Function::apply(Element<T>::load(target[to]), update));
  });
}

template <class T, class Function, class Walk>
void scatter_combined(const TensorRef& out, const TensorRef& updates, Walk&& walk) {
  if constexpr (kIsFloat<T>)
    scatter_wide<T, Function>(out, updates, walk);
  else
    scatter_direct<T, Function>(out, updates, walk);
}

// `out` holds x already.
template <class Walk>
Status scatter_all(const KernelCall& call, const TensorRef& updates, Walk&& walk) {
  const TensorRef& out = call.out();
  ScatterKind kind = read_kind(call);
  if (kind == ScatterKind::Set) {
    return visit_width(out.dtype, [&]<class T>(Tag<T>) {
      scatter_direct<T, TakeLast>(out, updates, walk);
      return Status::ok();
    });
  }
  return visit<kAny>(out.dtype, [&]<class T>(Tag<T>) {
    if (kind == ScatterKind::Add) scatter_combined<T, Add>(out, updates, walk);
    if (kind == ScatterKind::Multiply) scatter_combined<T, Multiply>(out, updates, walk);
    if (kind == ScatterKind::Minimum) scatter_direct<T, Minimum>(out, updates, walk);
    if (kind == ScatterKind::Maximum) scatter_direct<T, Maximum>(out, updates, walk);
    return Status::ok();
  });
}

}  // namespace

Status reference_scatter(KernelCall& call) {
  const TensorRef &updates = call.in(2), &out = call.out();
  copy_elements(out, call.in(0));
  if (updates.elements() == 0) return Status::ok();
  Windows windows(call, out, call.in(1), updates, false);
  TW_RETURN_IF_ERROR(windows.check_fit());
  Nest<2> nest(windows.window_sizes(), {&windows.x_strides(), &windows.batched_strides()});
  return scatter_all(call, updates, [&](auto&& body) {
    windows.for_each([&](int64_t from, int64_t to, bool admitted) {
      if (!admitted) return;
      nest.run([&](const auto& offsets, int64_t count, const auto& steps) {
        for (int64_t i = 0; i < count; ++i)
          body(to + offsets[0] + i * steps[0], from + offsets[1] + i * steps[1]);
      });
    });
  });
}

namespace {

std::vector<int64_t> strides_but(const TensorRef& tensor, int64_t dim) {
  std::vector<int64_t> strides = tensor.strides;
  strides[dim] = 0;
  return strides;
}

// Indices fit into x outside `dim`.
Status check_elements_fit(const KernelCall& call) {
  const TensorRef &x = call.in(0), &indices = call.in(1);
  const int64_t along = call.attributes.get_int("dim");
  for (int dim = 0; dim < x.rank(); ++dim) {
    if (dim == along || indices.sizes[dim] <= x.sizes[dim]) continue;
    return Status::invalid(cat(op_name(call.op), ": size ", indices.sizes[dim], " of indices in dim ", dim,
                               " exceeds ", x.sizes[dim]));
  }
  return Status::ok();
}

// visit(offset in `paired`, offset in `indexed`, admitted) for each element of indices in row-major order.
template <class Visit>
void for_each_element(const KernelCall& call, OutOfBounds policy, const TensorRef& paired,
                      const TensorRef& indexed, Visit&& visit) {
  const TensorRef& indices = call.in(1);
  int64_t dim = call.attributes.get_int("dim"), limit = indexed.sizes[dim] - 1;
  std::vector<int64_t> indexed_strides = strides_but(indexed, dim);
  Nest<3> nest(indices.sizes, {&paired.strides, &indices.strides, &indexed_strides});
  nest.run([&](const auto& offsets, int64_t count, const auto& steps) {
    for (int64_t i = 0; i < count; ++i) {
      int64_t index = index_at(indices, offsets[1] + i * steps[1]);
      bool admitted = admit(call, policy, dim, limit, index);
      visit(offsets[0] + i * steps[0],
            offsets[2] + i * steps[2] + (admitted ? index * indexed.strides[dim] : 0), admitted);
    }
  });
}

}  // namespace

Status reference_gather_elements(KernelCall& call) {
  TW_RETURN_IF_ERROR(check_elements_fit(call));
  const TensorRef &x = call.in(0), &out = call.out();
  OutOfBounds policy = read_policy(call, OutOfBounds::Clamp);
  uint64_t fill = fill_bits(call, policy);
  return visit_width(out.dtype, [&]<class T>(Tag<T>) {
    T fill_value;
    std::memcpy(&fill_value, &fill, sizeof fill_value);
    for_each_element(call, policy, out, x, [&](int64_t to, int64_t from, bool admitted) {
      elements_of<T>(out)[to] = admitted ? elements_of<const T>(x)[from] : fill_value;
    });
    return Status::ok();
  });
}

Status reference_scatter_elements(KernelCall& call) {
  TW_RETURN_IF_ERROR(check_elements_fit(call));
  const TensorRef &updates = call.in(2), &out = call.out();
  copy_elements(out, call.in(0));
  OutOfBounds policy = read_policy(call, OutOfBounds::Drop);
  return scatter_all(call, updates, [&](auto&& body) {
    for_each_element(call, policy, updates, out, [&](int64_t from, int64_t to, bool admitted) {
      if (admitted) body(to, from);
    });
  });
}

namespace {

// visit(bin, offset in weights) for each index inside [0, bins).
template <class Visit>
void for_each_bin(const TensorRef& indices, const TensorRef& weights, int64_t bins, Visit&& visit) {
  Nest<2> nest(indices.sizes, {&indices.strides, &weights.strides});
  nest.run([&](const auto& offsets, int64_t count, const auto& steps) {
    for (int64_t i = 0; i < count; ++i) {
      int64_t bin = index_at(indices, offsets[0] + i * steps[0]);
      if (bin >= 0 && bin < bins) visit(bin, offsets[1] + i * steps[1]);
    }
  });
}

}  // namespace

Status reference_histogram(KernelCall& call) {
  const TensorRef &indices = call.in(0), &out = call.out();
  int64_t bins = call.attributes.get_int("bins");
  if (!call.has(1)) {
    fill_zero(out);
    for_each_bin(indices, indices, bins, [&](int64_t bin, int64_t) { ++elements_of<int64_t>(out)[bin]; });
    return Status::ok();
  }
  const TensorRef& weights = call.in(1);
  return visit<kNumber>(out.dtype, [&]<class T>(Tag<T>) {
    std::vector<Sum<T>> sums(bins);
    for_each_bin(indices, weights, bins, [&](int64_t bin, int64_t from) {
      sums[bin].add(Element<T>::load(elements_of<const T>(weights)[from]));
    });
    for (int64_t bin = 0; bin < bins; ++bin) {
      store_sum(accumulation_type(out.dtype), out.dtype, out.data, bin, sums[bin].result());
    }
    return Status::ok();
  });
}

}  // namespace tilewright
