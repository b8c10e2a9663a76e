// The .npy format, versions 1 to 3: a header that is a Python literal, then the elements.
#include "tools/tilewright/npy.h"

#include <cstring>
#include <fstream>

#include "tools/tilewright/commands.h"

namespace command {
namespace {

// "<f4" and friends; raw bytes for what numpy has no type for.
const char* descriptor(tw::DType dtype) {
  switch (dtype) {
    case tw::boolean: return "|b1";
    case tw::i8: return "|i1";
    case tw::i16: return "<i2";
    case tw::i32: return "<i4";
    case tw::i64: return "<i8";
    case tw::u8: return "|u1";
    case tw::u16: return "<u2";
    case tw::u32: return "<u4";
    case tw::u64: return "<u8";
    case tw::f16: return "<f2";
    case tw::f32: return "<f4";
    case tw::f64: return "<f8";
    case tw::bf16: return "<V2";
    case tw::f8e4m3fn:
    case tw::f8e5m2: return "|V1";
  }
  return "";
}

bool has_no_numpy_type(tw::DType dtype) {
  return dtype == tw::bf16 || dtype == tw::f8e4m3fn || dtype == tw::f8e5m2;
}

// The text after "'key':" in the header.
std::string field(const std::string& header, const std::string& key, const std::string& path) {
  const size_t at = header.find("'" + key + "'");
  if (at == std::string::npos) throw InputError(path + ": the header has no field " + key);
  const size_t colon = header.find(':', at);
  return colon == std::string::npos ? "" : header.substr(colon + 1);
}

bool descriptor_fits(const std::string& found, tw::DType expected) {
  const std::string wanted = descriptor(expected);
  // Little-endian has several spellings, and none for single bytes.
  if (found.size() == 3 && found.substr(1) == wanted.substr(1) &&
      (found[0] == '<' || found[0] == '|' || found[0] == '='))
    return true;
  if (!has_no_numpy_type(expected) || found.size() != 3) return false;
  return (found[1] == 'V' || found[1] == 'u') && found[2] == wanted[2];
}

tw::Sizes parse_shape(const std::string& text, const std::string& path) {
  const size_t open = text.find('('), close = text.find(')');
  if (open == std::string::npos || close == std::string::npos)
    throw InputError(path + ": the header has no shape");
  tw::Sizes sizes;
  const char* at = text.c_str() + open + 1;
  const char* end = text.c_str() + close;
  while (at < end) {
    char* next = nullptr;
    const long long size = std::strtoll(at, &next, 10);
    if (next == at)
      throw InputError(path + ": found shape (" + text.substr(open + 1, close - open - 1) +
                       "), expected integers");
    if (size < 0) throw InputError(path + ": negative size in the header");
    sizes.push_back(size);
    at = next;
    while (at < end && (*at == ',' || *at == ' ' || *at == 'L')) ++at;
  }
  return sizes;
}

// Column-major elements put into row-major order.
void from_column_major(const std::string& bytes, size_t start, const tw::Tensor& tensor) {
  const size_t width = static_cast<size_t>(tw_dtype_size(tensor.dtype()));
  const tw::Sizes& sizes = tensor.sizes();
  for (int64_t flat = 0; flat < tensor.elements(); ++flat) {
    int64_t rest = flat, offset = 0;
    tw::Sizes index(sizes.size());
    for (size_t dim = sizes.size(); dim-- > 0;) {
      index[dim] = rest % sizes[dim];
      rest /= sizes[dim];
    }
    for (size_t dim = sizes.size(); dim-- > 0;) offset = offset * sizes[dim] + index[dim];
    std::memcpy(tensor.data<char>() + static_cast<size_t>(flat) * width,
                bytes.data() + start + static_cast<size_t>(offset) * width, width);
  }
}

}  // namespace

tw::Tensor read_npy(const std::string& path, tw::DType expected) {
  const std::string bytes = read_file(path);
  if (bytes.size() < 10 || bytes.compare(0, 6, "\x93NUMPY") != 0) throw InputError(path + ": no .npy file");
  const auto byte = [&](size_t at) { return static_cast<size_t>(static_cast<unsigned char>(bytes[at])); };
  const bool wide = byte(6) >= 2;
  if (wide && bytes.size() < 12) throw InputError(path + ": the header is cut off");
  const size_t length =
      wide ? byte(8) | byte(9) << 8 | byte(10) << 16 | byte(11) << 24 : byte(8) | byte(9) << 8;
  const size_t start = (wide ? 12 : 10) + length;
  if (start > bytes.size()) throw InputError(path + ": the header is cut off");
  const std::string header = bytes.substr(wide ? 12 : 10, length);
  const std::string type = field(header, "descr", path);
  const size_t quote = type.find('\'');
  const std::string found =
      quote == std::string::npos ? "" : type.substr(quote + 1, type.find('\'', quote + 1) - quote - 1);
  if (!descriptor_fits(found, expected))
    throw InputError(path + ": holds " + found + ", expected " + descriptor(expected) + " for " +
                     tw_dtype_name(expected));
  tw::Sizes sizes = parse_shape(field(header, "shape", path), path);
  int64_t size = tw_dtype_size(expected);
  for (int64_t each : sizes)
    if (__builtin_mul_overflow(size, each, &size)) throw InputError(path + ": the shape is too large");
  // Before memory is taken for what a damaged header claims.
  if (bytes.size() - start != static_cast<size_t>(size))
    throw InputError(path + ": holds " + std::to_string(bytes.size() - start) + " bytes of data, expected " +
                     std::to_string(size));
  tw::Tensor tensor(expected, std::move(sizes));
  if (field(header, "fortran_order", path).find("True") < 3) {
    from_column_major(bytes, start, tensor);
  } else if (tensor.bytes() > 0) {
    std::memcpy(tensor.raw(), bytes.data() + start, static_cast<size_t>(tensor.bytes()));
  }
  return tensor;
}

void write_npy(const std::string& path, const tw::Tensor& tensor) {
  std::string header =
      std::string("{'descr': '") + descriptor(tensor.dtype()) + "', 'fortran_order': False, 'shape': (";
  for (int64_t size : tensor.sizes()) header += std::to_string(size) + ", ";
  if (tensor.sizes().size() > 1) header.resize(header.size() - 2);
  header += "), }";
  // The data starts at a multiple of 64 bytes.
  header.append(64 - (10 + header.size() + 1) % 64, ' ');
  header += '\n';
  std::ofstream file(path, std::ios::binary);
  file.write("\x93NUMPY\x01\x00", 8);
  const char length[2] = {static_cast<char>(header.size() & 255), static_cast<char>(header.size() >> 8)};
  file.write(length, 2);
  file << header;
  file.write(tensor.data<char>(), tensor.bytes());
  if (!file.flush()) throw InputError("cannot write " + path);
}

}  // namespace command
