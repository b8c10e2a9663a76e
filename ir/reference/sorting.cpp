// Reference kernels of sort, top_k, searchsorted and compact_indices, on one total order of elements.
#include <algorithm>
#include <numeric>
#include <optional>

#include "ir/reference/strided.h"

namespace tilewright {

using namespace reference;

namespace {

// An unsigned number with the order of the elements: -inf < .. < inf < NaN, -0 equal to +0, all NaNs equal.
template <class T>
uint64_t order_key(T stored) {
  constexpr uint64_t kTop = uint64_t{1} << 63;
  auto value = Element<T>::load(stored);
  if constexpr (kIsFloat<T>) {
    if (value != value) return UINT64_MAX;
    uint64_t bits = std::bit_cast<uint64_t>(static_cast<double>(value) + 0.0);  // -0 + 0 is +0
    return bits & kTop ? ~bits : bits | kTop;
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<uint64_t>(value) ^ kTop;
  } else {
    return static_cast<uint64_t>(value);
  }
}

// Keys of one line of `count` elements.
void read_keys(const TensorRef& tensor, int64_t offset, int64_t count, int64_t step, bool descending,
               std::vector<uint64_t>& keys) {
  keys.resize(count);
  (void)visit<kAny>(tensor.dtype, [&]<class T>(Tag<T>) {
    const T* line = elements_of<const T>(tensor) + offset;
    for (int64_t i = 0; i < count; ++i)
      keys[i] = descending ? ~order_key(line[i * step]) : order_key(line[i * step]);
    return Status::ok();
  });
}

std::vector<int64_t> without_entry(std::vector<int64_t> entries, int64_t dim) {
  entries.erase(entries.begin() + dim);
  return entries;
}

void permute_line(const TensorRef& out, int64_t to, const TensorRef& x, int64_t from, int64_t dim,
                  const std::vector<int64_t>& order) {
  (void)visit_width(out.dtype, [&]<class T>(Tag<T>) {
    for (size_t i = 0; i < order.size(); ++i) {
      elements_of<T>(out)[to + static_cast<int64_t>(i) * out.strides[dim]] =
          elements_of<const T>(x)[from + order[i] * x.strides[dim]];
    }
    return Status::ok();
  });
}

}  // namespace

Status reference_sort(KernelCall& call) {
  int64_t dim = call.attributes.get_int("dim");
  bool descending = call.attributes.get_bool("descending");
  size_t num_keys = static_cast<size_t>(call.attributes.get_int("num_keys"));
  const TensorRef& first = call.in(0);
  std::vector<std::vector<uint64_t>> keys(num_keys);
  std::vector<int64_t> order;
  for_each_index(without_entry(first.sizes, dim), [&](const std::vector<int64_t>& index) {
    for (size_t k = 0; k < num_keys; ++k) {
      const TensorRef& key = call.in(static_cast<int>(k));
      read_keys(key, offset_of(index, without_entry(key.strides, dim)), key.sizes[dim], key.strides[dim],
                descending, keys[k]);
    }
    order.resize(first.sizes[dim]);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      for (const std::vector<uint64_t>& key : keys) {
        if (key[a] != key[b]) return key[a] < key[b];
      }
      return false;
    });
    for (size_t i = 0; i < call.outputs.size(); ++i) {
      const TensorRef &x = *call.inputs[i], &out = call.outputs[i];
      permute_line(out, offset_of(index, without_entry(out.strides, dim)), x,
                   offset_of(index, without_entry(x.strides, dim)), dim, order);
    }
  });
  return Status::ok();
}

Status reference_top_k(KernelCall& call) {
  const TensorRef &x = call.in(0), &values = call.out(0), &indices = call.out(1);
  int64_t dim = call.attributes.get_int("dim"), k = call.attributes.get_int("k"), size = x.sizes[dim];
  bool largest = call.attributes.get_bool("largest");
  if (k > size) return Status::invalid(cat("top_k: k ", k, " exceeds dim ", dim, " of size ", size));
  std::vector<uint64_t> keys;
  std::vector<int64_t> order;
  std::vector<int64_t> x_strides = without_entry(x.strides, dim),
                       out_strides = without_entry(values.strides, dim);
  for_each_index(without_entry(x.sizes, dim), [&](const std::vector<int64_t>& index) {
    int64_t from = offset_of(index, x_strides), to = offset_of(index, out_strides);
    read_keys(x, from, size, x.strides[dim], largest, keys);
    order.resize(size);
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + k, order.end(),
                      [&](int64_t a, int64_t b) { return keys[a] != keys[b] ? keys[a] < keys[b] : a < b; });
    order.resize(k);
    permute_line(values, to, x, from, dim, order);
    for (int64_t i = 0; i < k; ++i) {
      int64_t at = to + i * indices.strides[dim];
      if (indices.dtype == DType::I32)
        elements_of<int32_t>(indices)[at] = static_cast<int32_t>(order[i]);
      else
        elements_of<int64_t>(indices)[at] = order[i];
    }
  });
  return Status::ok();
}

Status reference_searchsorted(KernelCall& call) {
  const TensorRef &sequence = call.in(0), &values = call.in(1), &out = call.out();
  bool right = call.attributes.get_string("side") == "right";
  int last = sequence.rank() - 1;
  int64_t size = sequence.sizes[last], position = 0;
  std::vector<uint64_t> keys, value_key;
  std::optional<int64_t> keys_offset;
  for_each_index(values.sizes, [&](const std::vector<int64_t>& index) {
    // A 1-d sequence serves all values; otherwise the leading dims choose one.
    int64_t offset = 0;
    for (int dim = 0; dim < last; ++dim) offset += index[dim] * sequence.strides[dim];
    if (offset != keys_offset) read_keys(sequence, offset, size, sequence.strides[last], false, keys);
    keys_offset = offset;
    read_keys(values, offset_of(index, values.strides), 1, 1, false, value_key);
    auto found = right ? std::upper_bound(keys.begin(), keys.end(), value_key[0])
                       : std::lower_bound(keys.begin(), keys.end(), value_key[0]);
    int64_t answer = found - keys.begin();
    if (out.dtype == DType::I32)
      elements_of<int32_t>(out)[position] = static_cast<int32_t>(answer);
    else
      elements_of<int64_t>(out)[position] = answer;
    ++position;
  });
  return Status::ok();
}

Status reference_compact_indices(KernelCall& call) {
  const TensorRef &mask = call.in(0), &indices = call.out(0);
  int64_t bound = call.attributes.get_int("bound"), count = 0, flat = 0;
  auto put = [&](int64_t at, int64_t value) {
    if (indices.dtype == DType::I32)
      elements_of<int32_t>(indices)[at] = static_cast<int32_t>(value);
    else
      elements_of<int64_t>(indices)[at] = value;
  };
  for_each_index(mask.sizes, [&](const std::vector<int64_t>& index) {
    if (elements_of<const uint8_t>(mask)[offset_of(index, mask.strides)]) {
      if (count < bound) put(count, flat);
      ++count;
    }
    ++flat;
  });
  for (int64_t at = std::min(count, bound); at < bound; ++at) put(at, mask.elements());
  *elements_of<int64_t>(call.out(1)) = count;  // more than `bound` tells that some were left out
  return Status::ok();
}

}  // namespace tilewright
