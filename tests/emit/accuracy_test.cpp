// Errors of the emitted functions in units of the last place, over dense sweeps of all floats, against long
// double.
#include <gtest/gtest.h>
#include <math.h>

#include <cstring>
#include <functional>
#include <random>

#include "base/text.h"
#include "ir/reference/functions.h"
#include "tests/emit/kernels.h"

namespace tilewright {
namespace {

using Unary = std::function<long double(long double)>;
using Binary = std::function<long double(long double, long double)>;

long double exact_unary(Op op, long double x) {
  switch (op) {
    case Op::Exponential: return expl(x);
    case Op::ExponentialMinusOne: return expm1l(x);
    case Op::Log: return logl(x);
    case Op::LogPlusOne: return log1pl(x);
    case Op::Sqrt: return sqrtl(x);
    case Op::Rsqrt: return 1 / sqrtl(x);
    case Op::Sine: return sinl(x);
    case Op::Cosine: return cosl(x);
    case Op::Tan: return tanl(x);
    case Op::Tanh: return tanhl(x);
    case Op::Logistic: return 1 / (1 + expl(-x));
    case Op::Erf: return erfl(x);
    case Op::ErfInv: return reference::erf_inv(x);
    case Op::Lgamma: return reference::log_gamma(x);
    case Op::Digamma: return reference::digamma(x);
    case Op::Cbrt: return cbrtl(x);
    default: return 0;
  }
}

long double exact_binary(Op op, long double x, long double y) {
  return op == Op::Power ? powl(x, y) : atan2l(x, y);
}

double allowed_ulps(Op op) {
  switch (op_info(op).accuracy) {
    case Accuracy::Rounded: return 0.5;
    case Accuracy::Ulp1: return 1;
    case Accuracy::Ulp2: return 2;
    default: return 4;
  }
}

// Distance in units of the last place of T at the exact value; special values must agree in kind.
template <class T>
double error_in_ulps(T got, long double exact) {
  T rounded = static_cast<T>(exact);
  if (std::isnan(exact)) return std::isnan(got) ? 0 : 1e30;
  if (std::isinf(rounded) || std::isinf(got)) {
    if (got == rounded) return 0;
    T largest = std::numeric_limits<T>::max();
    bool is_close = std::isinf(rounded) ? std::fabs(got) == largest : std::fabs(rounded) == largest;
    return is_close && std::signbit(got) == std::signbit(rounded) ? 0.5 : 1e30;
  }
  if (got == 0 && rounded == 0) return std::signbit(got) == std::signbit(rounded) ? 0 : 1e30;
  int exponent = std::numeric_limits<T>::min_exponent;
  if (rounded != 0) exponent = std::max(ilogbl(exact) + 1, exponent);
  long double ulp = ldexpl(1.0L, exponent - std::numeric_limits<T>::digits);
  return static_cast<double>(fabsl(static_cast<long double>(got) - exact) / ulp);
}

template <class T>
using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;

// Every n-th float of both signs, special values, and a dense middle.
template <class T>
std::vector<T> sweep(size_t count) {
  std::vector<T> points;
  std::mt19937_64 random(20240607);
  for (size_t i = 0; i < count; ++i) {
    auto bits = static_cast<Bits<T>>(i * ((~uint64_t{0} >> (64 - 8 * sizeof(T))) / count) + random() % 1000);
    points.push_back(std::bit_cast<T>(bits));
  }
  std::uniform_real_distribution<double> wide(-1000, 1000), near(-12, 12), unit(-1, 1);
  for (size_t i = 0; i < count / 2; ++i) {
    points.push_back(static_cast<T>(wide(random)));
    points.push_back(static_cast<T>(near(random)));
    points.push_back(static_cast<T>(unit(random)));
    points.push_back(static_cast<T>(1 + unit(random) * 1e-4));
  }
  using L = std::numeric_limits<T>;
  for (T x : {T(0),
              T(1),
              T(2),
              T(3),
              T(0.5),
              T(1.5),
              T(4),
              T(10),
              L::min(),
              L::denorm_min(),
              L::max(),
              L::infinity(),
              L::quiet_NaN(),
              L::epsilon(),
              T(1) + L::epsilon(),
              T(1) - L::epsilon() / 2,
              T(88.8),
              T(709.8),
              T(103.9),
              T(1e30),
              T(1e10),
              T(1048576),
              T(1.5707963267948966),
              T(3.1415926535897931)}) {
    points.push_back(x);
    points.push_back(-x);
    points.push_back(std::nextafter(x, T(-1e38)));
    points.push_back(std::nextafter(x, T(1e38)));
  }
  while (points.size() % 16) points.push_back(T(1));
  return points;
}

// Near a zero of lgamma and digamma the relative error of any formula grows: an absolute bound of the same
// size.
bool is_excused(Op op, double x, double got, long double exact, double epsilon) {
  if (op != Op::Lgamma && op != Op::Digamma) return false;
  double terms = 1 + std::fabs(std::log(std::fabs(x) + 1));  // what cancels
  return std::fabs(static_cast<double>(static_cast<long double>(got) - exact)) <= 4 * epsilon * terms;
}

struct Worst {
  double ulps = 0, at = 0, at2 = 0, got = 0, exact = 0;
};

template <class T>
Worst measure_unary(Op op, KernelFunction kernel, const std::vector<T>& points) {
  std::vector<T> out(points.size());
  void* buffers[] = {const_cast<T*>(points.data()), out.data()};
  kernel(buffers, nullptr, 0, static_cast<int64_t>(points.size()), nullptr);
  Worst worst;
  for (size_t i = 0; i < points.size(); ++i) {
    long double exact = exact_unary(op, points[i]);
    if (is_excused(op, points[i], out[i], exact, std::numeric_limits<T>::epsilon())) continue;
    double error = error_in_ulps(out[i], exact);
    if (!(error <= worst.ulps)) worst = {error, double(points[i]), 0, double(out[i]), double(exact)};
  }
  return worst;
}

template <class T>
Worst measure_binary(Op op, KernelFunction kernel, const std::vector<T>& x, const std::vector<T>& y) {
  std::vector<T> out(x.size());
  void* buffers[] = {const_cast<T*>(x.data()), const_cast<T*>(y.data()), out.data()};
  kernel(buffers, nullptr, 0, static_cast<int64_t>(x.size()), nullptr);
  Worst worst;
  for (size_t i = 0; i < x.size(); ++i) {
    long double exact = exact_binary(op, x[i], y[i]);
    double error = error_in_ulps(out[i], exact);
    if (!(error <= worst.ulps)) worst = {error, double(x[i]), double(y[i]), double(out[i]), double(exact)};
  }
  return worst;
}

constexpr Op kUnary[] = {Op::Exponential, Op::ExponentialMinusOne,
                         Op::Log,         Op::LogPlusOne,
                         Op::Sqrt,        Op::Rsqrt,
                         Op::Sine,        Op::Cosine,
                         Op::Tan,         Op::Tanh,
                         Op::Logistic,    Op::Erf,
                         Op::ErfInv,      Op::Lgamma,
                         Op::Digamma,     Op::Cbrt};
constexpr Op kBinary[] = {Op::Power, Op::Atan2};

template <class T>
void check_functions(DType dtype, size_t count) {
  std::vector<ElementwiseCase> cases;
  for (Op op : kUnary) cases.push_back({op, {dtype}, dtype, {}});
  for (Op op : kBinary) cases.push_back({op, {dtype, dtype}, dtype, {}});
  std::vector<T> points = sweep<T>(count);
  std::vector<T> x = points, y = points;
  std::shuffle(y.begin(), y.end(), std::mt19937(1));
  for (size_t i = 0; i < x.size(); i += 3) {  // powers of moderate size, and integers
    x[i] = std::fabs(std::fmod(x[i], T(50)));
    y[i] = i % 2 ? std::nearbyint(std::fmod(y[i], T(40))) : std::fmod(y[i], T(40));
  }
  for (const std::shared_ptr<Target>& target : runnable_targets()) {
    Result<ElementwiseKernels> kernels = compile_elementwise(target, cases);
    ASSERT_TRUE(kernels.is_ok()) << kernels.status().to_string();
    for (size_t i = 0; i < cases.size(); ++i) {
      Op op = cases[i].op;
      KernelFunction kernel = kernels->function(i);
      Worst worst =
          i < std::size(kUnary) ? measure_unary<T>(op, kernel, points) : measure_binary<T>(op, kernel, x, y);
      std::string text = cat(target->info().name, " ", op_name(op), " ", dtype_name(dtype), ": ", worst.ulps,
                             " ulp at ", worst.at, ", ", worst.at2, ": ", worst.got, " for ", worst.exact);
      if (getenv("TW_PRINT_ACCURACY")) printf("%s\n", text.c_str());
      EXPECT_LE(worst.ulps, allowed_ulps(op)) << text;
    }
  }
}

TEST(Accuracy, F32) { check_functions<float>(DType::F32, 200000); }
TEST(Accuracy, F64) { check_functions<double>(DType::F64, 100000); }

}  // namespace
}  // namespace tilewright
