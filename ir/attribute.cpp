// Constants and attribute comparison.
#include "ir/attribute.h"

#include <cstring>

#include "base/text.h"
#include "ir/reference/scalar.h"

namespace tilewright {

Hash128 Constant::content_hash() const {
  Hasher hasher;
  hasher.add(type.to_string()).add(splat);
  hasher.add(std::string_view(static_cast<const char*>(data), static_cast<size_t>(bytes)));
  return hasher.finish();
}

static Status check_constant(const TensorType& type, bool splat, int64_t bytes) {
  int64_t count = 1;
  if (!splat) {
    if (!type.is_static())
      return Status::invalid(
          cat("constant of type ", type.to_string(), ": only a splat may have symbolic dims"));
    TW_ASSIGN_OR_RETURN(count, type.elements().evaluate({}));
  }
  int64_t expected = 0;
  if (count < 0 || __builtin_mul_overflow(count, dtype_bytes(type.dtype), &expected)) {
    return Status::invalid(cat("constant of type ", type.to_string(), ": size does not fit 64 bits"));
  }
  if (bytes != expected) {
    return Status::invalid(
        cat("constant of type ", type.to_string(), ": found ", bytes, " bytes, expected ", expected));
  }
  return Status::ok();
}

Result<ConstantRef> make_constant(TensorType type, bool splat, const void* data, int64_t bytes) {
  TW_RETURN_IF_ERROR(check_constant(type, splat, bytes));
  auto copy = std::make_shared<std::vector<char>>(static_cast<size_t>(bytes));
  if (bytes > 0) std::memcpy(copy->data(), data, static_cast<size_t>(bytes));
  const void* address = copy->data();
  return ConstantRef(std::make_shared<Constant>(Constant{std::move(type), splat, address, bytes, copy}));
}

Result<ConstantRef> borrow_constant(TensorType type, const void* data, int64_t bytes,
                                    std::shared_ptr<const void> owner) {
  TW_RETURN_IF_ERROR(check_constant(type, false, bytes));
  return ConstantRef(
      std::make_shared<Constant>(Constant{std::move(type), false, data, bytes, std::move(owner)}));
}

static ConstantRef splat_of(const Scalar& value, Shape shape) {
  auto storage = std::make_shared<std::vector<char>>(8);
  store_scalar(value, storage->data());
  const void* address = storage->data();
  return std::make_shared<Constant>(
      Constant{TensorType{value.dtype, std::move(shape)}, true, address, dtype_bytes(value.dtype), storage});
}

ConstantRef make_splat(double value, DType dtype, Shape shape) {
  if (is_float(dtype) || is_float8(dtype)) return splat_of(Scalar::of_float(dtype, value), std::move(shape));
  return splat_of(convert_scalar(Scalar::of_float(DType::F64, value), dtype), std::move(shape));
}

ConstantRef make_integer_splat(int64_t value, DType dtype, Shape shape) {
  return splat_of(convert_scalar(Scalar::of_integer(DType::I64, value), dtype), std::move(shape));
}

double element_as_double(const Constant& constant, int64_t index) {
  int64_t at = constant.splat ? 0 : index;
  Scalar value = load_scalar(constant.type.dtype,
                             static_cast<const char*>(constant.data) + at * dtype_bytes(constant.type.dtype));
  if (is_float(value.dtype) || is_float8(value.dtype)) return value.f;
  return value.dtype == DType::U64 ? static_cast<double>(static_cast<uint64_t>(value.i))
                                   : static_cast<double>(value.i);
}

int64_t element_as_integer(const Constant& constant, int64_t index) {
  int64_t at = constant.splat ? 0 : index;
  Scalar value = load_scalar(constant.type.dtype,
                             static_cast<const char*>(constant.data) + at * dtype_bytes(constant.type.dtype));
  return convert_scalar(value, DType::I64).i;
}

static bool equal_constants(const ConstantRef& a, const ConstantRef& b) {
  if (a == b) return true;
  if (!a || !b || !(a->type == b->type) || a->splat != b->splat || a->bytes != b->bytes) return false;
  return std::memcmp(a->data, b->data, static_cast<size_t>(a->bytes)) == 0;
}

bool equal(const Attribute& a, const Attribute& b) {
  if (a.index() != b.index()) return false;
  if (const auto* constant = std::get_if<ConstantRef>(&a))
    return equal_constants(*constant, std::get<ConstantRef>(b));
  if (const auto* number = std::get_if<double>(&a))
    return std::memcmp(number, &std::get<double>(b), sizeof(double)) == 0;
  return a == b;
}

}  // namespace tilewright
