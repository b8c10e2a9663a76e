// Declared tolerances: how far a compiled result may be from its reference, by the accuracy column of the op
// table.
#include <algorithm>
#include <cmath>

#include "ir/reference/kernel.h"

namespace tilewright {

namespace {

// Half the distance from 1 to the next larger number.
double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::F64: return 0x1p-53;
    case DType::F32: return 0x1p-24;
    case DType::F16: return 0x1p-11;
    case DType::BF16: return 0x1p-8;
    case DType::F8E4M3FN: return 0x1p-4;
    case DType::F8E5M2: return 0x1p-3;
    default: return 0;
  }
}

// Rounding steps on the longest path of a blocked summation tree.
double summation_steps(int64_t terms) {
  constexpr double kBlock = 16;
  return 2 * std::ceil(std::log2(static_cast<double>(std::max<int64_t>(terms, 1)))) + kBlock;
}

}  // namespace

Tolerance tolerance(Op op, DType dtype, int64_t terms) {
  Tolerance result;
  bool narrow = is_narrow_float(dtype);
  if (!is_float(dtype) && !narrow) return result;  // integers and bool are exact
  double accumulated = unit_roundoff(accumulation_type(dtype));
  switch (op_info(op).accuracy) {
    case Accuracy::Exact:
    case Accuracy::Rounded: break;
    // A narrow result is rounded from f32, where a last-bit difference can at most move it to a neighbour.
    case Accuracy::Ulp1: result.ulps = 1; break;
    case Accuracy::Ulp2: result.ulps = narrow ? 1 : 2; break;
    case Accuracy::Ulp4: result.ulps = narrow ? 1 : 4; break;
    case Accuracy::Sum:
      result.ulps = 1;
      result.relative = summation_steps(terms) * accumulated;
      result.absolute = result.relative * static_cast<double>(std::max<int64_t>(terms, 1));
      break;
    case Accuracy::Mixed:
      result.ulps = narrow ? 2 : 4;
      result.relative = 2 * (summation_steps(terms) + 16) * accumulated;
      result.absolute = result.relative;
      break;
  }
  // Terms of size 1 cancel at the roots of these two: there only the absolute error is bounded.
  if (op == Op::Lgamma || op == Op::Digamma) result.absolute = 8 * unit_roundoff(dtype);
  return result;
}

}  // namespace tilewright
