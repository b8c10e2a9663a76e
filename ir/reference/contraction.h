// A matrix product over gathered rows and columns, the core of dot_general, ragged_dot and convolution.
#pragma once

#include <functional>

#include "ir/reference/strided.h"

namespace tilewright::reference {

// Element (i, j) is data[rows[i] + columns[j]].
template <class T>
struct MatrixView {
  const T* data;
  const std::vector<int64_t>& rows;
  const std::vector<int64_t>& columns;
};

// Floats are summed in double, integers modulo 2^64.
template <class T>
using SumType = std::conditional_t<kIsFloat<T>, double, uint64_t>;

// Takes `count` finished sums (of SumType) of row `row` from column `column` on.
using StoreSums = std::function<void(int64_t row, int64_t column, int64_t count, const void* sums)>;

// The product of a[m,k] and b[k,n].
template <class T>
void multiply(const MatrixView<T>& a, const MatrixView<T>& b, const StoreSums& store);

// Rounds sums and puts them at base + rows[row] + columns[column]; the arguments outlive the result.
StoreSums store_rows(const TensorRef& out, DType accumulate, int64_t base, const std::vector<int64_t>& rows,
                     const std::vector<int64_t>& columns);

// Offsets of all index vectors over `dims`, in row-major order.
std::vector<int64_t> offsets_of(const TensorRef& tensor, const Ints& dims);

}  // namespace tilewright::reference
