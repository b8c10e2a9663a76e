// What the reference kernels of composites share: dense reads and rounded writes of numbers, and loops over
// one axis.
#pragma once

#include <optional>
#include <vector>

#include "ir/reference/philox.h"
#include "ir/reference/strided.h"

namespace tilewright::reference {

// An input read as dense row-major numbers.
class Numbers {
 public:
  explicit Numbers(const TensorRef& tensor);

  // Element i as a double (64-bit integers may lose bits).
  double operator[](int64_t i) const;
  // Element i of an integer or bool tensor.
  int64_t integer(int64_t i) const;
  int64_t count() const { return count_; }
  int64_t size(int dim) const { return tensor_.sizes[static_cast<size_t>(dim)]; }
  int rank() const { return tensor_.rank(); }
  const std::vector<int64_t>& sizes() const { return tensor_.sizes; }
  DType dtype() const { return tensor_.dtype; }
  const void* data() const { return tensor_.data; }

 private:
  std::vector<uint64_t> copy_;  // only of a tensor that is not dense
  TensorRef tensor_;
  int64_t count_;
};

// All elements as doubles, for kernels that read each more than once.
std::vector<double> doubles_of(const TensorRef& tensor);
// An operand that may be absent.
std::optional<Numbers> optional_input(const KernelCall& call, int index);

// Writes element i of a dense output: narrow floats are rounded from the f32 result, integers wrap.
void put(const TensorRef& out, int64_t i, double value);
void put_integer(const TensorRef& out, int64_t i, int64_t value);
void put_all(const TensorRef& out, const std::vector<double>& values);
// The value as it would be stored in and read back from the dtype, by way of f32.
double round_to_stored(DType dtype, double value);
// Rounds to the type in which composites of this dtype are computed: f32, or f64 for f64.
double round_to_work(DType dtype, double value);

// A shape around one axis: [outer, size, inner].
struct Axis {
  int64_t outer = 1, size = 1, inner = 1;
  Axis(const std::vector<int64_t>& sizes, int64_t axis) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      (static_cast<int64_t>(i) < axis ? outer : static_cast<int64_t>(i) == axis ? size : inner) *= sizes[i];
    }
  }
  int64_t at(int64_t o, int64_t k, int64_t i) const { return (o * size + k) * inner + i; }
  // visit(offset of element 0) for each line along the axis.
  template <class Visit>
  void lines(Visit&& visit) const {
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t i = 0; i < inner; ++i) visit(at(o, 0, i));
    }
  }
};

// Philox words of a state [key, counter], by index.
class PhiloxWords {
 public:
  explicit PhiloxWords(const TensorRef& state);
  uint32_t word(int64_t i);
  // Words 2i and 2i + 1, low first.
  uint64_t wide_word(int64_t i);
  // The state after `words` words.
  void write_state(const TensorRef& out, int64_t words) const;
  // u in [0, 1) of element i: 24 bits, or 53 for f64.
  double uniform(int64_t i, DType dtype);

 private:
  uint64_t key_, counter_;
  int64_t block_ = -1;
  std::array<uint32_t, 4> words_{};
};

}  // namespace tilewright::reference
