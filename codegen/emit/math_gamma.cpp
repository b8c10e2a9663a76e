// Logarithm of gamma and its derivative.
#include "base/text.h"
#include "codegen/emit/functions.h"

namespace tilewright {
namespace {

using llvm::Value;

constexpr double kPi = 3.14159265358979323846;

// Bernoulli numbers B(2k) / 2k of digamma's asymptotic series and B(2k) / (2k (2k-1)) of lgamma's.
constexpr double kDigammaSeries[] = {1.0 / 12,  -1.0 / 120,     1.0 / 252, -1.0 / 240,
                                     1.0 / 132, -691.0 / 32760, 1.0 / 12,  -3617.0 / 8160};
constexpr double kLgammaSeries[] = {1.0 / 12,   -1.0 / 360,        1.0 / 1260, -1.0 / 1680,
                                    1.0 / 1188, -691.0 / 360360.0, 1.0 / 156};

// The root of digamma in three parts, and a quotient for digamma(x) / (x - root) - kOffset on [1, 2].
constexpr double kRoot1 = 1569415565.0 / 1073741824, kRoot2 = 381566830.0 / 1073741824 / 1073741824;
constexpr double kRoot3 = 0.9016312093258695918615325266959189453125e-19;
constexpr double kOffset = 0.99558162689208984375;
constexpr double kRootTop[] = {0.254798510611315515235,   -0.314628554532916496608,
                               -0.665836341559876230295,  -0.314767657147375752913,
                               -0.0541156266153505273939, -0.00289268368333918761452};
constexpr double kRootBottom[] = {1.0,
                                  2.1195759927055347547,
                                  1.54350554664961128724,
                                  0.486986018231042975162,
                                  0.0660481487173569812846,
                                  0.00298999662592323990972,
                                  -0.165079794012604905639e-5,
                                  0.317940243105952177571e-7};

// Double lanes, x > 0.
Value* digamma_of_positive(const LaneMath& m, Value* x) {
  Value* is_large = m.greater(x, 10.0);
  Value* inverse = m.div(m.number(1), x);
  Value* square = m.mul(inverse, inverse);
  Value* series = m.mul(square, m.polynomial(square, kDigammaSeries));
  Value* large = m.sub(emit_log_core(m, x), m.fma(inverse, 0.5, series));
  // Into [1, 2] by digamma(x + 1) = digamma(x) + 1/x.
  Value* is_below = m.less(x, 1.0);
  Value* sum = m.select(is_below, m.neg(inverse), m.number(0));
  Value* y = m.select(is_below, m.add(x, m.number(1)), m.select(is_large, m.number(1.5), x));
  for (int i = 0; i < 8; ++i) {
    Value* is_above = m.greater(y, 2.0);
    y = m.select(is_above, m.sub(y, m.number(1)), y);
    sum = m.select(is_above, m.add(sum, m.div(m.number(1), y)), sum);
  }
  Value* from_root = m.sub(m.sub(m.sub(y, m.number(kRoot1)), m.number(kRoot2)), m.number(kRoot3));
  Value* z = m.sub(y, m.number(1));
  Value* ratio = m.div(m.polynomial(z, kRootTop), m.polynomial(z, kRootBottom));
  Value* small = m.fma(from_root, m.add(ratio, m.number(kOffset)), sum);
  return m.select(is_large, large, small);
}

Value* digamma_body(const LaneMath& m, Value* x) {
  auto& b = m.builder();
  Value* is_reflected = b.CreateFCmpOLE(x, m.number(0));
  Value* positive = m.select(is_reflected, m.sub(m.number(1), x), x);
  Value* result = digamma_of_positive(m, positive);
  result = m.select(m.equal(positive, m.infinity()), m.infinity(), result);
  Value* fraction = m.sub(x, m.rint(x));
  Value* tangent = emit_tan_body(m, m.mul(m.select(is_reflected, fraction, m.number(0.25)), m.number(kPi)));
  Value* reflected = m.sub(result, m.div(m.number(kPi), tangent));
  reflected = m.select(m.equal(m.rint(x), x), m.nan(), reflected);  // poles, and -inf
  return m.select(is_reflected, reflected, result);
}

// Double lanes; good to about 1e-15, absolutely, which f32 results need near the roots.
Value* lgamma_body(const LaneMath& m, Value* x) {
  constexpr double kHalfLog2Pi = 0.91893853320467274178;
  auto& b = m.builder();
  Value* is_reflected = m.less(x, 0.5);
  Value* y = m.select(is_reflected, m.sub(m.number(1), x), x);
  Value* product = m.number(1);
  for (int i = 0; i < 9; ++i) {
    Value* is_low = m.less(y, 9.0);
    product = m.select(is_low, m.mul(product, y), product);
    y = m.select(is_low, m.add(y, m.number(1)), y);
  }
  Value* inverse = m.div(m.number(1), y);
  Value* series = m.mul(inverse, m.polynomial(m.mul(inverse, inverse), kLgammaSeries));
  Value* log_y = emit_log_core(m, y);
  Value* main = m.sub(m.mul(m.sub(y, m.number(0.5)), m.sub(log_y, m.number(1))), m.number(0.5));
  Value* result = m.add(main, m.add(m.number(kHalfLog2Pi), series));
  result = m.sub(result, emit_log_core(m, product));
  Value* is_infinite = m.equal(m.abs(x), m.infinity());
  result = m.select(is_infinite, m.infinity(), result);
  Value* fraction = m.sub(x, m.rint(x));
  Value* sine = m.abs(emit_sine(m, m.mul(fraction, m.number(kPi))));
  Value* reflected = m.sub(emit_log(m, m.div(m.number(kPi), sine)), result);
  reflected = m.select(b.CreateOr(is_infinite, m.equal(m.rint(x), x)), m.infinity(), reflected);
  return m.select(is_reflected, reflected, result);
}

// The host's lgamma, a lane at a time.
Value* call_library_lgamma(const LaneMath& m, Value* x) {
  auto& b = m.builder();
  llvm::FunctionCallee callee = m.context().module.getOrInsertFunction(
      "lgamma", llvm::FunctionType::get(b.getDoubleTy(), {b.getDoubleTy()}, false));
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(m.type());
  if (!vector) return b.CreateCall(callee, {x});
  Value* result = llvm::PoisonValue::get(m.type());
  for (unsigned lane = 0; lane < vector->getNumElements(); ++lane) {
    result = b.CreateInsertElement(result, b.CreateCall(callee, {b.CreateExtractElement(x, lane)}), lane);
  }
  return result;
}

using Body = Value* (*)(const LaneMath&, Value*);

Value* outlined(const LaneMath& m, const char* name, Value* x, Body single_body, Body double_body) {
  Value* arguments[] = {x};
  return call_outlined(m.context(), cat("tw.", name, ".", lane_type_name(m.type())), m.type(), arguments,
                       [&](EmitContext& inner, std::span<Value* const> a) {
                         LaneMath im(inner, m.type());
                         return im.is_single() ? in_double(im, single_body, a[0]) : double_body(im, a[0]);
                       });
}

}  // namespace

Value* emit_lgamma(const LaneMath& m, Value* x) {
  return outlined(m, "lgamma", x, lgamma_body, m.context().is_cpu() ? call_library_lgamma : emit_lgamma_body);
}

Value* emit_digamma(const LaneMath& m, Value* x) {
  return outlined(m, "digamma", x, digamma_body, digamma_body);
}

}  // namespace tilewright
