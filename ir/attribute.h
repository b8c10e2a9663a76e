// Attribute values of nodes, and the map that holds them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/hash.h"
#include "ir/types.h"

namespace tilewright {

// Immutable bytes of a constant: dense row-major little-endian elements, or one element when `splat`.
// Only a splat may have a symbolic shape.  Shared by all graphs that refer to it.
struct Constant {
  TensorType type;
  bool splat = false;
  const void* data = nullptr;
  int64_t bytes = 0;
  std::shared_ptr<const void> owner;  // keeps `data` alive

  Hash128 content_hash() const;  // over type, splat and bytes
};
using ConstantRef = std::shared_ptr<const Constant>;

// Copies `bytes` bytes; checks that they fit the type.
Result<ConstantRef> make_constant(TensorType type, bool splat, const void* data, int64_t bytes);
// Shares bytes that `owner` keeps alive.
Result<ConstantRef> borrow_constant(TensorType type, const void* data, int64_t bytes,
                                    std::shared_ptr<const void> owner);
// A splat of `value` rounded to the dtype.
ConstantRef make_splat(double value, DType dtype, Shape shape = {});
ConstantRef make_integer_splat(int64_t value, DType dtype, Shape shape = {});
// Element `index` (0 for a splat), widened; integers above 2^53 lose bits as double, use integer_element.
double element_as_double(const Constant& constant, int64_t index);
int64_t element_as_integer(const Constant& constant, int64_t index);

using Ints = std::vector<int64_t>;
using Floats = std::vector<double>;
using Types = std::vector<TensorType>;

enum class AttributeKind : uint8_t {
  Bool,
  Int,
  Float,
  String,
  Enum,
  DType,
  Ints,
  Floats,
  Dims,
  Types,
  Constant
};

// Enum attributes hold their word as a string.
using Attribute =
    std::variant<bool, int64_t, double, std::string, DType, Ints, Floats, Shape, Types, ConstantRef>;

using AttributeMap = std::map<std::string, Attribute, std::less<>>;

bool equal(const Attribute& a, const Attribute& b);

}  // namespace tilewright
