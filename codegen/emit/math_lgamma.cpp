// Logarithm of gamma to the last bits of double, for chips without a library: the approximations of Sun's
// fdlibm.
#include "codegen/emit/functions.h"

namespace tilewright {
namespace {

using llvm::Value;

constexpr double kPi = 3.14159265358979323846;

// lgamma(2 - y), in even and odd powers.
constexpr double kNearTwoEven[] = {7.72156649015328655494e-02, 6.73523010531292681824e-02,
                                   7.38555086081402883957e-03, 1.19270763183362067845e-03,
                                   2.20862790713908385557e-04, 2.52144565451257326939e-05};
constexpr double kNearTwoOdd[] = {3.22467033424113591611e-01, 2.05808084325167332806e-02,
                                  2.89051383673415629091e-03, 5.10069792153511336608e-04,
                                  1.08011567247583939954e-04, 4.48640949618915160150e-05};
// About the minimum, in every third power.
constexpr double kMinimumAt = 1.46163214496836224576e+00, kMinimum = -1.21486290535849611461e-01,
                 kMinimumTail = -3.63867699703950536541e-18;
constexpr double kMinimum0[] = {4.83836122723810047042e-01, -3.27885410759859649565e-02,
                                6.10053870246291332635e-03, -1.40346469989232843813e-03,
                                3.15632070903625950361e-04};
constexpr double kMinimum1[] = {-1.47587722994593911752e-01, 1.79706750811820387126e-02,
                                -3.68452016781138256760e-03, 8.81081882437654011382e-04,
                                -3.12754168375120860518e-04};
constexpr double kMinimum2[] = {6.46249402391333854778e-02, -1.03142241298341437450e-02,
                                2.25964780900612472250e-03, -5.38595305356740546715e-04,
                                3.35529192635519073543e-04};
// lgamma(1 + y), a quotient.
constexpr double kNearOneTop[] = {-7.72156649015328655494e-02, 6.32827064025093366517e-01,
                                  1.45492250137234768737e+00,  9.77717527963372745603e-01,
                                  2.28963728064692451092e-01,  1.33810918536787660377e-02};
constexpr double kNearOneBottom[] = {1.0,
                                     2.45597793713041134822e+00,
                                     2.12848976379893395361e+00,
                                     7.69285150456672783825e-01,
                                     1.04222645593369134254e-01,
                                     3.21709242282423911810e-03};
// lgamma(2 + y), a quotient.
constexpr double kAboveTwoTop[] = {-7.72156649015328655494e-02, 2.14982415960608852501e-01,
                                   3.25778796408930981787e-01,  1.46350472652464452805e-01,
                                   2.66422703033638609560e-02,  1.84028451407337715652e-03,
                                   3.19475326584100867617e-05};
constexpr double kAboveTwoBottom[] = {1.0,
                                      1.39200533467621045958e+00,
                                      7.21935547567138069525e-01,
                                      1.71933865632803078993e-01,
                                      1.86459191715652901344e-02,
                                      7.77942496381893596434e-04,
                                      7.32668430744625636189e-06};
// The asymptotic series, after its constant.
constexpr double kSeriesStart = 4.18938533204672725052e-01;
constexpr double kSeries[] = {8.33333333333329678849e-02, -2.77777777728775536470e-03,
                              7.93650558643019558500e-04, -5.95187557450339963135e-04,
                              8.36339918996282139126e-04, -1.63092934096575273989e-03};

// 0 < x <= 2
Value* lgamma_small(const LaneMath& m, Value* x) {
  Value* is_low = m.builder().CreateFCmpOLE(x, m.number(0.9));  // lgamma(x) = lgamma(x + 1) - log(x)
  Value* shifted = m.select(is_low, m.sub(x, m.number(0)), m.sub(x, m.number(1)));
  auto at_least = [&](double low, double high) {
    return m.builder().CreateFCmpOGE(x, m.select(is_low, m.number(low), m.number(high)));
  };
  Value* start = m.select(is_low, m.neg(emit_log(m, x)), m.number(0));
  Value* y = m.select(is_low, m.sub(m.number(1), x), m.sub(m.number(2), x));
  Value* square = m.mul(y, y);
  Value* near_two =
      m.add(m.mul(y, m.polynomial(square, kNearTwoEven)), m.mul(square, m.polynomial(square, kNearTwoOdd)));
  near_two = m.sub(near_two, m.mul(m.number(0.5), y));
  y = m.select(is_low, m.sub(x, m.number(kMinimumAt - 1)), m.sub(x, m.number(kMinimumAt)));
  square = m.mul(y, y);
  Value* cube = m.mul(square, y);
  Value* rest = m.add(m.polynomial(cube, kMinimum1), m.mul(y, m.polynomial(cube, kMinimum2)));
  Value* middle =
      m.sub(m.mul(square, m.polynomial(cube, kMinimum0)), m.sub(m.number(kMinimumTail), m.mul(cube, rest)));
  middle = m.add(m.number(kMinimum), middle);
  y = shifted;
  Value* near_one = m.div(m.mul(y, m.polynomial(y, kNearOneTop)), m.polynomial(y, kNearOneBottom));
  near_one = m.add(m.mul(m.number(-0.5), y), near_one);
  Value* value = m.select(at_least(0.23163998126983643, 1.2316322326660156), middle, near_one);
  value = m.select(at_least(0.7315998077392578, 1.7316312789916992), near_two, value);
  return m.add(start, value);
}

// 2 < x < 8
Value* lgamma_middle(const LaneMath& m, Value* x) {
  auto& b = m.builder();
  Value* whole = b.CreateUnaryIntrinsic(llvm::Intrinsic::floor, x);
  Value* y = m.sub(x, whole);
  Value* top = m.mul(y, m.polynomial(y, kAboveTwoTop));
  Value* sum = m.add(m.mul(m.number(0.5), y), m.div(top, m.polynomial(y, kAboveTwoBottom)));
  Value* product = m.number(1);
  for (int factor = 6; factor >= 2; --factor) {
    Value* counts = b.CreateFCmpOGT(whole, m.number(factor));
    product = m.select(counts, m.mul(product, m.add(y, m.number(factor))), product);
  }
  return m.add(sum, emit_log(m, product));
}

Value* lgamma_large(const LaneMath& m, Value* x) {
  Value* inverse = m.div(m.number(1), x);
  Value* series = m.polynomial(m.mul(inverse, inverse), kSeries);
  Value* rest = m.add(m.number(kSeriesStart), m.mul(inverse, series));
  return m.add(m.mul(m.sub(x, m.number(0.5)), m.sub(emit_log(m, x), m.number(1))), rest);
}

}  // namespace

Value* emit_lgamma_body(const LaneMath& m, Value* x) {
  auto& b = m.builder();
  Value* size = m.abs(x);
  Value* result = m.select(m.less(size, 8.0), lgamma_middle(m, size), lgamma_large(m, size));
  result = m.select(b.CreateFCmpOLE(size, m.number(2)), lgamma_small(m, size), result);
  // gamma(x) gamma(-x) = -pi / (x sin(pi x))
  Value* fraction = m.sub(x, m.rint(x));
  Value* sine = m.abs(emit_sine(m, m.mul(fraction, m.number(kPi))));
  Value* reflected = m.sub(emit_log(m, m.div(m.number(kPi), m.mul(sine, size))), result);
  Value* is_pole = b.CreateAnd(b.CreateFCmpOLE(x, m.number(0)), m.equal(m.rint(x), x));
  result = m.select(m.less(x, 0.0), reflected, result);
  Value* is_infinite = b.CreateOr(is_pole, m.equal(size, m.infinity()));
  return m.select(is_infinite, m.infinity(), m.select(m.is_nan(x), x, result));
}

}  // namespace tilewright
