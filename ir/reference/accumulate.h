// Accumulators of sums, products and extremes, and how their results are rounded: once, from the accumulation
// type.
#pragma once

#include "ir/accumulation.h"
#include "ir/reference/attributes.h"
#include "ir/reference/element.h"

namespace tilewright::reference {

// Rounds a sum to the accumulation type, then stores it as `dtype`.  Integers wrap to both.
void store_sum(DType accumulate, DType dtype, void* base, int64_t offset, double sum);
void store_sum(DType accumulate, DType dtype, void* base, int64_t offset, uint64_t sum);

// f16, bf16, f8 and f32 accumulate in double: the oracle for every order of summation in f32.
struct SumInDouble {
  double sum = 0;
  void add(double value) { sum += value; }
  double result() const { return sum; }
};

// f64 keeps what each addition loses (Neumaier).
struct CompensatedSum {
  double sum = 0, lost = 0;
  void add(double value) {
    double next = sum + value;
    lost += std::fabs(sum) >= std::fabs(value) ? (sum - next) + value : (value - next) + sum;
    sum = next;
  }
  // After an infinity `lost` is NaN and means nothing.
  double result() const { return std::isfinite(sum) && std::isfinite(lost) ? sum + lost : sum; }
};

struct WrappingSum {
  uint64_t sum = 0;
  template <class C>
  void add(C value) {
    sum += wide_bits(value);
  }
  uint64_t result() const { return sum; }
};

struct ProductInDouble {
  double product = 1;
  void add(double value) { product *= value; }
  double result() const { return product; }
};

struct WideProduct {
  long double product = 1;
  void add(double value) { product *= value; }
  double result() const { return static_cast<double>(product); }
};

struct WrappingProduct {
  uint64_t product = 1;
  template <class C>
  void add(C value) {
    product *= wide_bits(value);
  }
  uint64_t result() const { return product; }
};

template <class T>
using Sum = std::conditional_t<!kIsFloat<T>, WrappingSum,
                               std::conditional_t<std::is_same_v<T, double>, CompensatedSum, SumInDouble>>;
template <class T>
using Product =
    std::conditional_t<!kIsFloat<T>, WrappingProduct,
                       std::conditional_t<std::is_same_v<T, double>, WideProduct, ProductInDouble>>;

}  // namespace tilewright::reference
