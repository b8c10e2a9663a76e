// Elements of two tensors against each other, and the stages in which a graph's bounds are refined.
#include "ir/reference/compare.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/function_ref.h"
#include "base/text.h"
#include "ir/literal.h"
#include "ir/reference/error_bounds.h"
#include "ir/reference/scalar.h"

namespace tilewright {

namespace {

bool holds_float(DType dtype) { return is_float(dtype) || is_float8(dtype); }

// Digits of the significand with the hidden one, smallest normal and largest exponent.
struct Format {
  int digits, lowest, highest;
};
Format format_of(DType dtype) {
  switch (dtype) {
    case DType::F32: return {24, -126, 127};
    case DType::BF16: return {8, -126, 127};
    case DType::F16: return {11, -14, 15};
    case DType::F8E4M3FN: return {4, -6, 8};
    case DType::F8E5M2: return {3, -14, 15};
    default: return {53, -1022, 1023};
  }
}

std::string index_text(int64_t flat, const std::vector<int64_t>& sizes) {
  std::vector<int64_t> index(sizes.size());
  for (size_t d = sizes.size(); d-- > 0;) {
    index[d] = flat % sizes[d];
    flat /= sizes[d];
  }
  return cat("[", join(index, ","), "]");
}

bool within(const Scalar& found, const Scalar& expected, double bound) {
  if (!holds_float(found.dtype)) {
    const double distance = std::abs(static_cast<double>(found.i) - static_cast<double>(expected.i));
    return found.i == expected.i || (bound > 0 && distance <= bound);
  }
  if (std::isnan(found.f) || std::isnan(expected.f))
    return (std::isnan(found.f) && std::isnan(expected.f)) || std::isinf(bound);
  if (found.f == expected.f) return bound > 0 || std::signbit(found.f) == std::signbit(expected.f);
  if (std::isinf(found.f) && std::isinf(expected.f)) return std::isinf(bound);
  return std::abs(finite_number(found.f, found.dtype) - finite_number(expected.f, found.dtype)) <= bound;
}

std::string types_differ(const TensorRef& found, const TensorRef& expected) {
  if (found.dtype != expected.dtype)
    return cat("found dtype ", dtype_name(found.dtype), ", expected ", dtype_name(expected.dtype));
  if (found.sizes != expected.sizes)
    return cat("found sizes [", join(found.sizes, ","), "], expected [", join(expected.sizes, ","), "]");
  return {};
}

std::string describe(const TensorRef& tensor, int64_t flat, const Scalar& found, const Scalar& expected,
                     double bound) {
  std::string off;
  if (holds_float(found.dtype) && std::isfinite(found.f) && std::isfinite(expected.f)) {
    const double unit = ulp(expected.f, found.dtype);
    off = cat(" (off by ", std::abs(found.f - expected.f) / unit, " ulp",
              bound > 0 ? cat(", allowed ", bound / unit) : std::string(), ")");
  }
  return cat(index_text(flat, tensor.sizes), ": found ", print_scalar(found), ", expected ",
             print_scalar(expected), off);
}

std::string first_difference(const TensorRef& found, const TensorRef& expected,
                             FunctionRef<double(int64_t, double)> bound_of) {
  const int64_t size = dtype_bytes(found.dtype);
  const auto *a = static_cast<const char*>(found.data), *b = static_cast<const char*>(expected.data);
  for (int64_t i = 0; i < found.elements(); ++i) {
    if (std::memcmp(a + i * size, b + i * size, static_cast<size_t>(size)) == 0) continue;
    const Scalar have = load_scalar(found.dtype, a + i * size), want = load_scalar(found.dtype, b + i * size);
    const double bound = bound_of(i, holds_float(found.dtype) ? want.f : 0);
    if (!within(have, want, bound)) return describe(found, i, have, want, bound);
  }
  return {};
}

}  // namespace

double finite_number(double value, DType dtype) {
  if (!std::isinf(value)) return value;
  if (dtype == DType::F64) return std::copysign(std::numeric_limits<double>::max(), value);
  return std::copysign(std::ldexp(1.0, format_of(dtype).highest + 1), value);
}

double ulp(double value, DType dtype) {
  const Format format = format_of(dtype);
  const double size = std::abs(value);
  const int exponent = size == 0 ? format.lowest : std::isinf(size) ? format.highest : std::ilogb(size);
  return std::ldexp(1.0, std::max(exponent, format.lowest) - format.digits + 1);
}

std::string difference(const TensorRef& found, const TensorRef& expected, double ulps) {
  std::string text = types_differ(found, expected);
  if (!text.empty()) return text;
  return first_difference(found, expected,
                          [&](int64_t, double value) { return ulps * ulp(value, found.dtype); });
}

class Comparison::Bounds : public ErrorBounds {
  using ErrorBounds::ErrorBounds;
};

Comparison::Comparison(const Graph& graph, std::span<const TensorRef> inputs, const Bindings& bindings,
                       CustomCallRunner custom_call)
    : bounds_(std::make_unique<Bounds>(graph, inputs, bindings, std::move(custom_call))) {}
Comparison::~Comparison() = default;

std::string Comparison::difference(size_t output, const TensorRef& found, const TensorRef& expected) {
  // Equal bits need no bounds; each stage costs more than the one before and refines the estimate.
  std::string text = tilewright::difference(found, expected);
  for (int stage = 0; !text.empty() && found.sizes == expected.sizes && stage < ErrorBounds::kStages;
       ++stage) {
    if (Status status = bounds_->refine(stage); !status.is_ok())
      return cat(text, "; no bound: ", status.to_string());
    text = first_difference(found, expected, [&](int64_t flat, double value) {
      return bounds_->bound(output, flat, value, found.dtype);
    });
  }
  return text;
}

}  // namespace tilewright
