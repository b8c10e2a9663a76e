// Numbers and constants in the text form.
#include "ir/literal.h"

#include <cmath>
#include <cstring>

#include "base/text.h"

namespace tilewright {

namespace {

constexpr int64_t kMaxListed = 256;  // larger constants are written as bytes

bool holds_float(DType dtype) { return is_float(dtype) || is_float8(dtype); }

// Whether the element is exactly what its decimal text reads back to: NaNs with another payload or sign are
// not, nor bools other than 0 and 1.
bool has_exact_text(DType dtype, const char* address) {
  int64_t size = dtype_bytes(dtype);
  char canonical[8];
  Scalar value = load_scalar(dtype, address);
  if (holds_float(dtype)) {
    if (!std::isnan(value.f)) return true;
    store_scalar(Scalar::of_float(dtype, std::nan("")), canonical);
    return std::memcmp(canonical, address, static_cast<size_t>(size)) == 0;
  }
  return dtype != DType::Bool || static_cast<unsigned char>(*address) <= 1;
}

std::string hex_text(const char* data, int64_t bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out = "0x";
  out.reserve(2 + 2 * static_cast<size_t>(bytes));
  for (int64_t i = 0; i < bytes; ++i) {
    auto byte = static_cast<unsigned char>(data[i]);
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

// Nested lists in row-major order; opening and closing brackets follow from the index.
std::string list_text(const Constant& constant, int64_t count) {
  std::vector<int64_t> sizes = static_sizes(constant.type.shape);
  if (count == 0) return "[]";
  if (sizes.empty()) sizes.push_back(1);
  int64_t size = dtype_bytes(constant.type.dtype);
  const char* data = static_cast<const char*>(constant.data);
  std::string out;
  for (int64_t i = 0; i < count; ++i) {
    if (i > 0) out += ',';
    int64_t block = 1;
    std::string open;
    for (size_t d = sizes.size(); d-- > 0;) {
      block *= sizes[d];
      if (i % block == 0) open += '[';
    }
    out += open + print_scalar(load_scalar(constant.type.dtype, data + i * size));
    block = 1;
    for (size_t d = sizes.size(); d-- > 0;) {
      block *= sizes[d];
      if ((i + 1) % block == 0) out += ']';
    }
  }
  return out;
}

}  // namespace

std::string print_float(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  return cat(value);
}

std::string print_scalar(const Scalar& value) {
  if (value.dtype == DType::Bool) return value.i ? "true" : "false";
  if (value.dtype == DType::U64) return cat(static_cast<uint64_t>(value.i));
  if (!holds_float(value.dtype)) return cat(value.i);
  if (value.dtype == DType::F64 || !std::isfinite(value.f)) return print_float(value.f);
  if (value.dtype == DType::F32) return cat(static_cast<float>(value.f));
  if (value.f == std::trunc(value.f) && std::abs(value.f) < 1e6) return cat(value.f);
  char buffer[48];
  for (int digits = 1; digits < 10; ++digits) {
    auto end = std::to_chars(buffer, buffer + sizeof buffer, value.f, std::chars_format::general, digits);
    std::string_view text(buffer, static_cast<size_t>(end.ptr - buffer));
    double back = 0;
    std::from_chars(text.data(), text.data() + text.size(), back);
    if (Scalar::of_float(value.dtype, back).f == value.f) return cat(back);
  }
  return cat(value.f);
}

Result<double> parse_float(std::string_view text) {
  if (text == "nan") return std::nan("");
  double value = 0;
  auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault == std::errc::result_out_of_range) {
    // from_chars leaves the value alone: tiny ones are zero, huge ones infinite.
    size_t exponent = text.find_first_of("eE");
    bool tiny = exponent != std::string_view::npos && text.substr(exponent + 1).starts_with('-');
    value = tiny ? 0.0 : HUGE_VAL;
    return text.starts_with('-') ? -value : value;
  }
  if (fault != std::errc() || end != text.data() + text.size()) {
    return Status::invalid(cat("found `", text.substr(0, 40), "`, expected a number"));
  }
  return value;
}

Result<int64_t> parse_integer(std::string_view text) {
  int64_t value = 0;
  auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault == std::errc::result_out_of_range) {
    return Status::invalid(cat("integer ", text.substr(0, 40), " does not fit 64 bits"));
  }
  if (fault != std::errc() || end != text.data() + text.size()) {
    return Status::invalid(cat("found `", text.substr(0, 40), "`, expected an integer"));
  }
  return value;
}

Result<Scalar> parse_scalar(std::string_view text, DType dtype) {
  if (dtype == DType::Bool) {
    if (text == "true" || text == "1") return Scalar::of_integer(dtype, 1);
    if (text == "false" || text == "0") return Scalar::of_integer(dtype, 0);
    return Status::invalid(cat("found `", text.substr(0, 40), "`, expected true or false"));
  }
  if (holds_float(dtype)) {
    TW_ASSIGN_OR_RETURN(double value, parse_float(text));
    return Scalar::of_float(dtype, value);
  }
  Status misfit = Status::invalid(cat("integer ", text.substr(0, 40), " does not fit ", dtype_name(dtype)));
  if (dtype == DType::U64 && !text.starts_with('-')) {
    uint64_t value = 0;
    auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (fault == std::errc::result_out_of_range) return misfit;
    if (fault != std::errc() || end != text.data() + text.size()) {
      return Status::invalid(cat("found `", text.substr(0, 40), "`, expected an integer"));
    }
    return Scalar::of_integer(dtype, static_cast<int64_t>(value));
  }
  TW_ASSIGN_OR_RETURN(int64_t value, parse_integer(text));
  Scalar scalar = Scalar::of_integer(dtype, value);
  if (scalar.i != value || (dtype == DType::U64 && value < 0)) return misfit;
  return scalar;
}

std::string print_constant(const Constant& constant) {
  const char* data = static_cast<const char*>(constant.data);
  int64_t size = dtype_bytes(constant.type.dtype);
  if (constant.splat) {
    if (has_exact_text(constant.type.dtype, data))
      return print_scalar(load_scalar(constant.type.dtype, data));
    return "splat " + hex_text(data, size);
  }
  int64_t count = constant.bytes / size;
  bool listed = count <= kMaxListed;
  for (int64_t i = 0; listed && i < count; ++i) listed = has_exact_text(constant.type.dtype, data + i * size);
  return listed ? list_text(constant, count) : hex_text(data, constant.bytes);
}

namespace {

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

Result<std::vector<char>> parse_hex(std::string_view text) {
  text.remove_prefix(2);
  if (text.size() % 2 != 0) return Status::invalid("hex constant has an odd number of digits");
  std::vector<char> bytes(text.size() / 2);
  for (size_t i = 0; i < bytes.size(); ++i) {
    int high = hex_value(text[2 * i]), low = hex_value(text[2 * i + 1]);
    if (high < 0 || low < 0) return Status::invalid("hex constant has a character that is no hex digit");
    bytes[i] = static_cast<char>(high * 16 + low);
  }
  return bytes;
}

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

// Reads a list, flat or nested as the shape says, without recursion.
class ListReader {
 public:
  ListReader(std::string_view text, const TensorType& type)
      : text_(text), type_(type), sizes_(static_sizes(type.shape)) {}

  Result<std::vector<char>> read() {
    counts_.clear();
    do {
      TW_RETURN_IF_ERROR(step());
    } while (depth_ > 0);
    return std::move(bytes_);
  }

 private:
  // One bracket or element, with the comma that follows it.
  Status step() {
    skip_space();
    if (at_ >= text_.size()) return Status::invalid("list constant ends early, expected `]`");
    if (text_[at_] == '[') return open();
    if (text_[at_] == ']') return close();
    if (text_[at_] == ',') {
      ++at_;
      return Status::ok();
    }
    return element();
  }
  Status open() {
    ++at_;
    if (++depth_ > std::max<size_t>(sizes_.size(), 1)) {
      return Status::invalid(cat("list constant is nested ", depth_, " deep, expected at most ",
                                 std::max<size_t>(sizes_.size(), 1)));
    }
    if (depth_ > 1) ++counts_.back();
    counts_.push_back(0);
    deepest_ = std::max(deepest_, depth_);
    return Status::ok();
  }
  Status close() {
    ++at_;
    // A flat list has one level whatever the rank; its length is checked against the type as a whole.
    bool nested = deepest_ > 1;
    if (nested && counts_.back() != sizes_[depth_ - 1]) {
      return Status::invalid(cat("list constant has ", counts_.back(), " entries at depth ", depth_,
                                 ", expected ", sizes_[depth_ - 1]));
    }
    counts_.pop_back();
    --depth_;
    return Status::ok();
  }
  Status element() {
    size_t start = at_;
    while (at_ < text_.size() && text_[at_] != ',' && text_[at_] != ']' && text_[at_] != '[' &&
           !is_space(text_[at_]))
      ++at_;
    if (deepest_ > 1 && depth_ != sizes_.size()) {
      return Status::invalid(
          cat("list constant has an element at depth ", depth_, ", expected depth ", sizes_.size()));
    }
    TW_ASSIGN_OR_RETURN(Scalar value, parse_scalar(text_.substr(start, at_ - start), type_.dtype));
    size_t old = bytes_.size();
    bytes_.resize(old + static_cast<size_t>(dtype_bytes(type_.dtype)));
    store_scalar(value, bytes_.data() + old);
    ++counts_.back();
    return Status::ok();
  }
  void skip_space() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }

  std::string_view text_;
  const TensorType& type_;
  std::vector<int64_t> sizes_;
  std::vector<int64_t> counts_;  // entries seen at each open level
  std::vector<char> bytes_;
  size_t at_ = 0, depth_ = 0, deepest_ = 0;
};

Result<ConstantRef> own(TensorType type, std::vector<char> bytes, bool splat) {
  if (splat) return make_constant(std::move(type), true, bytes.data(), static_cast<int64_t>(bytes.size()));
  auto owner = std::make_shared<std::vector<char>>(std::move(bytes));
  const void* data = owner->data();
  auto size = static_cast<int64_t>(owner->size());
  return borrow_constant(std::move(type), data, size, std::move(owner));
}

}  // namespace

Result<ConstantRef> parse_constant(std::string_view text, const TensorType& type) {
  if (text.starts_with("splat")) {
    text.remove_prefix(5);
    while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
    if (!text.starts_with("0x")) return Status::invalid("found no hex bytes after `splat`, expected `0x..`");
    TW_ASSIGN_OR_RETURN(std::vector<char> bytes, parse_hex(text));
    return own(type, std::move(bytes), true);
  }
  bool list = text.starts_with('['), hex = text.starts_with("0x");
  if ((list || hex) && !type.is_static()) {
    return Status::invalid(
        cat("constant of type ", type.to_string(), ": only a splat may have symbolic dims"));
  }
  if (hex) {
    TW_ASSIGN_OR_RETURN(std::vector<char> bytes, parse_hex(text));
    return own(type, std::move(bytes), false);
  }
  if (list) {
    TW_ASSIGN_OR_RETURN(std::vector<char> bytes, ListReader(text, type).read());
    return own(type, std::move(bytes), false);
  }
  TW_ASSIGN_OR_RETURN(Scalar value, parse_scalar(text, type.dtype));
  char bytes[8] = {};
  store_scalar(value, bytes);
  return make_constant(type, true, bytes, dtype_bytes(type.dtype));
}

}  // namespace tilewright
