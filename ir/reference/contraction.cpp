// Reference kernels of dot_general and ragged_dot.
#include "ir/reference/contraction.h"

#include <algorithm>

#include "ir/reference/accumulate.h"

namespace tilewright {

using namespace reference;

namespace reference {

std::vector<int64_t> offsets_of(const TensorRef& tensor, const Ints& dims) {
  std::vector<int64_t> offsets{0};
  for (int64_t dim : dims) {
    std::vector<int64_t> extended;
    extended.reserve(offsets.size() * static_cast<size_t>(tensor.sizes[dim]));
    for (int64_t offset : offsets) {
      for (int64_t i = 0; i < tensor.sizes[dim]; ++i) extended.push_back(offset + i * tensor.strides[dim]);
    }
    offsets = std::move(extended);
  }
  return offsets;
}

namespace {

// sums[m][n] += a[m][k] * b[k][n] over one block of k; rows of four share each line of b.
template <class S>
void multiply_block(const S* a, const S* b, S* sums, int64_t m, int64_t k, int64_t n) {
  int64_t i = 0;
  for (; i + 4 <= m; i += 4) {
    S *s0 = sums + i * n, *s1 = s0 + n, *s2 = s1 + n, *s3 = s2 + n;
    const S* row = a + i * k;
    for (int64_t t = 0; t < k; ++t) {
      S a0 = row[t], a1 = row[k + t], a2 = row[2 * k + t], a3 = row[3 * k + t];
      const S* line = b + t * n;
#ifndef __clang__
#pragma GCC ivdep
#endif
      for (int64_t j = 0; j < n; ++j) {
        s0[j] += a0 * line[j];
        s1[j] += a1 * line[j];
        s2[j] += a2 * line[j];
        s3[j] += a3 * line[j];
      }
    }
  }
  for (; i < m; ++i) {
    for (int64_t t = 0; t < k; ++t) {
      S factor = a[i * k + t];
      for (int64_t j = 0; j < n; ++j) sums[i * n + j] += factor * b[t * n + j];
    }
  }
}

template <class T, class S>
void pack(const T* data, const int64_t* rows, int64_t row_count, const int64_t* columns, int64_t column_count,
          S* packed) {
  for (int64_t i = 0; i < row_count; ++i) {
    for (int64_t j = 0; j < column_count; ++j) {
      packed[i * column_count + j] = static_cast<S>(Element<T>::load(data[rows[i] + columns[j]]));
    }
  }
}

}  // namespace

template <class T>
void multiply(const MatrixView<T>& a, const MatrixView<T>& b, const StoreSums& store) {
  using S = SumType<T>;
  // Blocks are summed on their own and then added, which bounds the error of long f64 sums.
  constexpr int64_t kRows = 64, kDepth = 128, kColumns = 512;
  int64_t m = a.rows.size(), k = a.columns.size(), n = b.columns.size();
  std::vector<S> packed_a(kRows * kDepth), packed_b(kDepth * kColumns), block(kRows * kColumns), totals;
  for (int64_t column = 0; column < n; column += kColumns) {
    int64_t width = std::min(kColumns, n - column);
    totals.assign(m * width, S(0));
    for (int64_t depth = 0; depth < k; depth += kDepth) {
      int64_t deep = std::min(kDepth, k - depth);
      pack(b.data, b.rows.data() + depth, deep, b.columns.data() + column, width, packed_b.data());
      for (int64_t row = 0; row < m; row += kRows) {
        int64_t high = std::min(kRows, m - row);
        pack(a.data, a.rows.data() + row, high, a.columns.data() + depth, deep, packed_a.data());
        std::fill(block.begin(), block.begin() + high * width, S(0));
        multiply_block(packed_a.data(), packed_b.data(), block.data(), high, deep, width);
        for (int64_t i = 0; i < high * width; ++i) totals[row * width + i] += block[i];
      }
    }
    for (int64_t row = 0; row < m; ++row) store(row, column, width, &totals[row * width]);
  }
}

#define TW_INSTANTIATE(T) \
  template void multiply<T>(const MatrixView<T>&, const MatrixView<T>&, const StoreSums&);
TW_INSTANTIATE(int8_t)
TW_INSTANTIATE(int16_t)
TW_INSTANTIATE(int32_t)
TW_INSTANTIATE(int64_t)
TW_INSTANTIATE(uint8_t)
TW_INSTANTIATE(uint16_t)
TW_INSTANTIATE(uint32_t)
TW_INSTANTIATE(uint64_t)
TW_INSTANTIATE(F16)
TW_INSTANTIATE(BF16)
TW_INSTANTIATE(float)
TW_INSTANTIATE(double)
TW_INSTANTIATE(F8E4M3FN)
TW_INSTANTIATE(F8E5M2)
#undef TW_INSTANTIATE

StoreSums store_rows(const TensorRef& out, DType accumulate, int64_t base, const std::vector<int64_t>& rows,
                     const std::vector<int64_t>& columns) {
  return [&out, accumulate, base, &rows, &columns](int64_t row, int64_t column, int64_t count,
                                                   const void* sums) {
    if (accumulate == DType::F32 && out.dtype == DType::F32) {
      const double* values = static_cast<const double*>(sums);
      float* target = elements_of<float>(out) + base + rows[row];
      for (int64_t j = 0; j < count; ++j) target[columns[column + j]] = static_cast<float>(values[j]);
      return;
    }
    for (int64_t j = 0; j < count; ++j) {
      int64_t offset = base + rows[row] + columns[column + j];
      if (is_integer(out.dtype))
        store_sum(accumulate, out.dtype, out.data, offset, static_cast<const uint64_t*>(sums)[j]);
      else
        store_sum(accumulate, out.dtype, out.data, offset, static_cast<const double*>(sums)[j]);
    }
  };
}

}  // namespace reference

namespace {

// Dims that are neither batch nor contracted, in order.
Ints free_dims(int rank, const Ints& batch, const Ints& contract) {
  Ints dims;
  for (int64_t dim = 0; dim < rank; ++dim) {
    if (std::find(batch.begin(), batch.end(), dim) != batch.end()) continue;
    if (std::find(contract.begin(), contract.end(), dim) != contract.end()) continue;
    dims.push_back(dim);
  }
  return dims;
}

// 0, step, 2 * step, ..
std::vector<int64_t> steps_of(int64_t count, int64_t step) {
  std::vector<int64_t> steps(count);
  for (int64_t i = 0; i < count; ++i) steps[i] = i * step;
  return steps;
}

}  // namespace

Status reference_dot_general(KernelCall& call) {
  const TensorRef &lhs = call.in(0), &rhs = call.in(1), &out = call.out();
  const Ints &lhs_batch = call.attributes.get_ints("lhs_batch"),
             &rhs_batch = call.attributes.get_ints("rhs_batch");
  const Ints &lhs_contract = call.attributes.get_ints("lhs_contract"),
             &rhs_contract = call.attributes.get_ints("rhs_contract");
  if (out.elements() == 0) return Status::ok();
  std::vector<int64_t> lhs_batches = offsets_of(lhs, lhs_batch), rhs_batches = offsets_of(rhs, rhs_batch);
  std::vector<int64_t> lhs_rows = offsets_of(lhs, free_dims(lhs.rank(), lhs_batch, lhs_contract));
  std::vector<int64_t> rhs_columns = offsets_of(rhs, free_dims(rhs.rank(), rhs_batch, rhs_contract));
  std::vector<int64_t> lhs_depth = offsets_of(lhs, lhs_contract), rhs_depth = offsets_of(rhs, rhs_contract);
  int64_t m = lhs_rows.size(), n = rhs_columns.size();
  std::vector<int64_t> out_rows = steps_of(m, n), out_columns = steps_of(n, 1);
  DType accumulate = accumulate_type_of(call.attributes, lhs.dtype, out.dtype);
  return visit<kDot>(lhs.dtype, [&]<class T>(Tag<T>) {
    for (size_t batch = 0; batch < lhs_batches.size(); ++batch) {
      multiply<T>({elements_of<const T>(lhs) + lhs_batches[batch], lhs_rows, lhs_depth},
                  {elements_of<const T>(rhs) + rhs_batches[batch], rhs_depth, rhs_columns},
                  store_rows(out, accumulate, static_cast<int64_t>(batch) * m * n, out_rows, out_columns));
    }
    return Status::ok();
  });
}

Status reference_ragged_dot(KernelCall& call) {
  const TensorRef &lhs = call.in(0), &rhs = call.in(1), &group_sizes = call.in(2), &out = call.out();
  fill_zero(out);
  std::vector<int64_t> depth = offsets_of(lhs, {1}), rhs_depth = offsets_of(rhs, {1}),
                       columns = offsets_of(rhs, {2});
  std::vector<int64_t> out_columns = steps_of(out.sizes[1], 1);
  DType accumulate = accumulate_type_of(call.attributes, lhs.dtype, out.dtype);
  return visit<kFloat>(lhs.dtype, [&]<class T>(Tag<T>) {
    int64_t start = 0;
    for (int64_t group = 0; group < rhs.sizes[0]; ++group) {
      // Sizes that are negative or go past the last row are cut: no memory outside is touched.
      int64_t wanted = index_at(group_sizes, group * group_sizes.strides[0]);
      int64_t count = std::clamp<int64_t>(wanted, 0, lhs.sizes[0] - start);
      std::vector<int64_t> rows = steps_of(count, lhs.strides[0]), out_rows = steps_of(count, out.sizes[1]);
      multiply<T>({elements_of<const T>(lhs) + start * lhs.strides[0], rows, depth},
                  {elements_of<const T>(rhs) + group * rhs.strides[0], rhs_depth, columns},
                  store_rows(out, accumulate, start * out.sizes[1], out_rows, out_columns));
      start += count;
    }
    return Status::ok();
  });
}

}  // namespace tilewright
