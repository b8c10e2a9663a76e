// Emitted elementary functions of float or double lanes; the accuracy of each is that of its row in the op
// table.
#pragma once

#include "codegen/emit/lane_math.h"

namespace tilewright {

// Short enough to be emitted in place.
llvm::Value* emit_exponential(const LaneMath& math, llvm::Value* x);
llvm::Value* emit_exponential_minus_one(const LaneMath& math, llvm::Value* x);
llvm::Value* emit_logistic(const LaneMath& math, llvm::Value* x);
llvm::Value* emit_tanh(const LaneMath& math, llvm::Value* x);
llvm::Value* emit_log(const LaneMath& math, llvm::Value* x);
llvm::Value* emit_log_plus_one(const LaneMath& math, llvm::Value* x);
llvm::Value* emit_erf(const LaneMath& math, llvm::Value* x);
llvm::Value* emit_rsqrt(const LaneMath& math, llvm::Value* x);

// Emitted once a module and called.
llvm::Value* emit_sine(const LaneMath& math, llvm::Value* x);
llvm::Value* emit_cosine(const LaneMath& math, llvm::Value* x);
llvm::Value* emit_tan(const LaneMath& math, llvm::Value* x);
llvm::Value* emit_atan2(const LaneMath& math, llvm::Value* y, llvm::Value* x);
llvm::Value* emit_power(const LaneMath& math, llvm::Value* base, llvm::Value* exponent);
llvm::Value* emit_cbrt(const LaneMath& math, llvm::Value* x);
llvm::Value* emit_erf_inv(const LaneMath& math, llvm::Value* x);
llvm::Value* emit_lgamma(const LaneMath& math, llvm::Value* x);
llvm::Value* emit_digamma(const LaneMath& math, llvm::Value* x);
llvm::Value* emit_float_remainder(const LaneMath& math, llvm::Value* x, llvm::Value* y);

// Parts that several functions share.
// log |gamma(x)| of double lanes.
llvm::Value* emit_lgamma_body(const LaneMath& math, llvm::Value* x);
// e^(x + tail) for |x| <= 745 or so; saturates beyond.
llvm::Value* emit_exp_of_pair(const LaneMath& math, LaneMath::Pair x);
// log of positive normal or subnormal x: exponent times log 2 and log of the mantissa are not yet added.
struct LogParts {
  llvm::Value* exponent;  // as a number
  llvm::Value* mantissa;  // in [sqrt(1/2), sqrt(2))
};
LogParts split_for_log(const LaneMath& math, llvm::Value* x);
// log of positive finite x, without special cases.
llvm::Value* emit_log_core(const LaneMath& math, llvm::Value* x);
// tan of a double-lane angle in [-pi, pi], for reflection formulas.
llvm::Value* emit_tan_body(const LaneMath& math, llvm::Value* x);

// A function computed in double and rounded: for f32 lanes.
template <class Function>
llvm::Value* in_double(const LaneMath& math, Function&& function, llvm::Value* x) {
  LaneMath wide = math.widened();
  llvm::Value* result = function(wide, math.builder().CreateFPExt(x, wide.type()));
  return math.builder().CreateFPTrunc(result, math.type());
}

}  // namespace tilewright
