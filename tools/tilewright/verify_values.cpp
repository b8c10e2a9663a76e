// Input values of verified calls, by the fill of each operand.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "tools/tilewright/verify_cases.h"

namespace command {
namespace {

constexpr double kSpecial[] = {0.0, -0.0, 1.0,  -1.0, INFINITY, -INFINITY, NAN,   0.5,    -0.5,
                               1.5, 2.5,  -2.5, 3.0,  -3.0,     1e-3,      -1e-3, 88.7,   -88.7,
                               1e4, -1e4, 5e-5, 6e-8, 1e-40,    -1e-40,    3e38,  0.4999, 7.0};
constexpr double kEdges[] = {0.0,       -0.0, 1.0,    INFINITY, -0.0, 0.0,  -2.0, 1e-40, 0.5,
                             -INFINITY, 3.0,  -1e-40, 2.5,      NAN,  -1.0, 4.0,  0.25};
constexpr int64_t kExtreme[] = {0,  1,   -1,   INT64_MIN, INT64_MAX, 7,
                                -7, 127, -128, 32767,     INT32_MIN, INT32_MAX};

bool starts_with(const std::string& text, const char* prefix) { return text.rfind(prefix, 0) == 0; }

int64_t argument(const std::string& fill) {
  return std::strtoll(fill.c_str() + fill.find('(') + 1, nullptr, 10);
}

// Bits where the extremes of a dtype come from the low end of 64-bit ones.
int64_t extreme(tw::DType dtype, int64_t at) {
  const int64_t value = kExtreme[static_cast<size_t>(at) % std::size(kExtreme)];
  const int64_t width = 8 * tw_dtype_size(dtype);
  if (width == 64 || (value != INT64_MIN && value != INT64_MAX)) return value;
  return value == INT64_MIN ? int64_t{1} << (width - 1) : (int64_t{1} << (width - 1)) - 1;
}

class Filler {
 public:
  explicit Filler(uint64_t seed) : random_(seed) {}

  void fill(const std::string& fill, const tw::Tensor& tensor) {
    const int64_t count = tensor.elements();
    const int64_t last = tensor.sizes().empty() ? 1 : tensor.sizes().back();
    std::vector<double> sorted;
    if (starts_with(fill, "offsets(")) {
      for (int64_t at = 0; at < count; ++at)
        sorted.push_back(at == 0 ? 0 : static_cast<double>(random_.integer(0, argument(fill))));
      std::sort(sorted.begin(), sorted.end());
    } else if (fill == "permutation") {
      for (int64_t at = 0; at < count; ++at) sorted.push_back(static_cast<double>(at));
      for (int64_t at = count - 1; at > 0; --at)
        std::swap(sorted[static_cast<size_t>(at)], sorted[static_cast<size_t>(random_.integer(0, at))]);
    }
    for (int64_t at = 0; at < count; ++at) {
      void* address = tensor.data<char>() + at * tw_dtype_size(tensor.dtype());
      if (!sorted.empty())
        store_number(tensor.dtype(), address, sorted[static_cast<size_t>(at)]);
      else
        store(fill, tensor.dtype(), address, at, last);
    }
  }

 private:
  double uniform(double low, double high) { return low + (high - low) * random_.uniform(); }

  // Additive or bool masks whose first row is shut, or whose first column is open.
  double mask(const std::string& fill, bool is_bool, int64_t at, int64_t last) {
    if (fill == "masked_rows" && at < last) return is_bool ? 0 : -INFINITY;
    if (fill == "open_mask" && at % last == 0) return is_bool ? 1 : 0.5;
    if (is_bool) return static_cast<double>(random_.integer(0, 1));
    return random_.integer(0, 3) ? uniform(-1, 1) : -INFINITY;
  }

  void store(const std::string& fill, tw::DType dtype, void* address, int64_t at, int64_t last) {
    const bool real = is_float(dtype);
    const auto put = [&](double value) { store_number(dtype, address, value); };
    const auto put_integer = [&](int64_t low, int64_t high) {
      store_integer(dtype, address, random_.integer(low, high));
    };
    if (fill == "normal") {
      if (real) return put(uniform(-2, 2));
      if (dtype == tw::boolean) return put_integer(0, 1);
      const bool is_unsigned = dtype == tw::u8 || dtype == tw::u16 || dtype == tw::u32 || dtype == tw::u64;
      return is_unsigned ? put_integer(0, 20) : put_integer(-20, 20);
    }
    if (fill == "special") {
      const double value = kSpecial[static_cast<size_t>(at) % std::size(kSpecial)];
      // The largest number below one half rounds to 0, not to 1.
      const double below_half = dtype == tw::f64   ? 0.49999999999999994
                                : dtype == tw::f32 ? 0.49999997
                                                   : value;
      if (real) return put(value == 0.4999 ? below_half : value);
      return store_integer(dtype, address, extreme(dtype, at));
    }
    if (fill == "edges") {
      if (real) return put(kEdges[static_cast<size_t>(random_.integer(0, std::size(kEdges) - 1))]);
      return store_integer(dtype, address, extreme(dtype, random_.integer(0, std::size(kExtreme) - 1)));
    }
    if (fill == "wide") {
      if (real) return put(uniform(-2, 2) * std::exp2(uniform(-30, 7)));
      return store_integer(dtype, address, static_cast<int64_t>(random_.next()));
    }
    if (fill == "unit") return put(uniform(-1, 1));
    if (fill == "positive") return put(uniform(0.1, 3));
    if (fill == "probability") return put(uniform(0.05, 0.95));
    if (fill == "mask") return put_integer(0, 1);
    if (fill == "bits") return put_integer(0, 255);
    if (fill == "state") return put_integer(0, 1 << 30);
    if (fill == "repeat") return put_integer(0, 3);
    if (fill == "lengths") return put_integer(0, 40);
    if (starts_with(fill, "index(")) return put_integer(0, argument(fill) - 1);
    if (fill == "masked_rows" || fill == "open_mask") return put(mask(fill, dtype == tw::boolean, at, last));
    put(std::strtod(fill.c_str(), nullptr));
  }

  Random random_;
};

}  // namespace

std::vector<tw::Tensor> make_tensors(const Instance& instance, const tw::Graph& graph, int64_t n,
                                     uint64_t seed) {
  Filler filler(seed * 1000003 + static_cast<uint64_t>(n));
  std::vector<tw::Tensor> tensors;
  std::map<std::string, int64_t> symbols;
  if (is_symbolic(*instance.line)) symbols["N"] = n;
  int64_t index = 0;
  for (const OperandSpec& operand : instance.line->operands) {
    if (operand.absent) continue;
    const tw::Value value = graph.input_value(index++);
    tensors.emplace_back(value.dtype(), concrete_sizes(graph, value, symbols));
    filler.fill(operand.fill, tensors.back());
  }
  return tensors;
}

}  // namespace command
