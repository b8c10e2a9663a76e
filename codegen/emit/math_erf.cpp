// Error function and its inverse.
#include "base/text.h"
#include "codegen/emit/functions.h"
#include "codegen/emit/math_coefficients.h"

namespace tilewright {
namespace {

using llvm::Value;

// x p(-log(1 - x^2)), and in the tail r q(r) with r = sqrt(-log((1 - x) / 2)): slowly varying p and q.
Value* erf_inv_body(const LaneMath& m, Value* x) {
  Value* magnitude = m.abs(x);
  Value* w = m.neg(emit_log_core(m, m.mul(m.sub(m.number(1), magnitude), m.add(m.number(1), magnitude))));
  Value* middle = m.mul(magnitude, m.polynomial(m.sub(w, m.number(2)), kErfInvF64));
  Value* probability = m.mul(m.sub(m.number(1), magnitude), m.number(0.5));
  Value* root = m.sqrt(m.neg(emit_log_core(m, probability)));
  Value* tail = m.mul(root, m.polynomial(m.sub(root, m.number(4)), kErfInvTailF64));
  Value* result = m.select(m.less(magnitude, 0.996), middle, tail);
  result = m.select(m.equal(magnitude, 1.0), m.infinity(), result);
  result = m.select(m.builder().CreateFCmpUGT(magnitude, m.number(1)), m.nan(), result);
  return m.copysign(result, x);
}

}  // namespace

// x (1 + polynomial of x^2) up to 1 (f64: 1.2), then 1 - e^-h with h a polynomial.
Value* emit_erf(const LaneMath& m, Value* x) {
  Value* magnitude = m.abs(x);
  Value* z = m.mul(x, x);
  Value* small = m.is_single() ? m.polynomial(z, kErfSmallF32) : m.polynomial(z, kErfSmallF64);
  small = m.fma(x, small, x);
  Value* limit = m.number(m.is_single() ? 4 : 6);
  Value* bounded = m.select(m.greater(magnitude, limit), limit, magnitude);
  Value* u = m.sub(bounded, m.number(m.is_single() ? 1.5 : 2.0));
  Value* h = m.is_single() ? m.polynomial(u, kErfTailF32) : m.polynomial(u, kErfTailF64);
  Value* large = m.sub(m.number(1), emit_exponential(m, m.neg(h)));
  return m.select(m.less(magnitude, m.is_single() ? 1.0 : 1.2), small, m.copysign(large, x));
}

Value* emit_erf_inv(const LaneMath& m, Value* x) {
  Value* arguments[] = {x};
  return call_outlined(m.context(), cat("tw.erf_inv.", lane_type_name(m.type())), m.type(), arguments,
                       [&](EmitContext& inner, std::span<Value* const> a) {
                         LaneMath im(inner, m.type());
                         return im.is_single() ? in_double(im, erf_inv_body, a[0]) : erf_inv_body(im, a[0]);
                       });
}

}  // namespace tilewright
