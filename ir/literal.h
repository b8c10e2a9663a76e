// Literals of the text form: numbers, constants and attribute values, as printed and as read.
#pragma once

#include <string>
#include <string_view>

#include "ir/attribute.h"
#include "ir/reference/scalar.h"

namespace tilewright {

// Shortest decimal text that reads back to the same double; "inf", "-inf", "nan".
std::string print_float(double value);
// Shortest text that reads back to the same element.
std::string print_scalar(const Scalar& value);

// Decimal, inf, -inf, nan; nothing may follow.
Result<double> parse_float(std::string_view text);
Result<int64_t> parse_integer(std::string_view text);
// One element of a dtype: rounds floats, refuses integers that do not fit and anything but true, false, 0, 1
// for bool.
Result<Scalar> parse_scalar(std::string_view text, DType dtype);

// The literal without its type: `1.5`, `splat 0x..`, `[[1,2],[3,4]]` or `0x..` (bytes in memory order).
std::string print_constant(const Constant& constant);
// Reads what print_constant writes; a list may also be flat.
Result<ConstantRef> parse_constant(std::string_view text, const TensorType& type);

}  // namespace tilewright
