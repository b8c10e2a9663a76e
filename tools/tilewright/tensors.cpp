// Random tensors, element access by dtype, statistics of results.
#include "tools/tilewright/tensors.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tools/tilewright/commands.h"

namespace command {
namespace {

constexpr size_t kFirstElements = 8;

float from_bits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// A float of `exponent_bits` and `mantissa_bits`, rounded to nearest even.  f8e4m3fn has no infinities.
uint32_t pack_float(double value, int exponent_bits, int mantissa_bits, bool has_infinity) {
  const uint32_t sign = std::signbit(value) ? 1u << (exponent_bits + mantissa_bits) : 0;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const uint32_t top = (1u << exponent_bits) - 1;
  const uint32_t nan = has_infinity ? top << mantissa_bits | 1u << (mantissa_bits - 1)
                                    : (1u << (exponent_bits + mantissa_bits)) - 1;
  if (std::isnan(value)) return sign | nan;
  const uint32_t infinity = has_infinity ? top << mantissa_bits : nan;
  value = std::fabs(value);
  if (std::isinf(value)) return sign | infinity;
  if (value == 0) return sign;
  const int exponent = std::max(std::ilogb(value), 1 - bias);
  const double scaled = std::nearbyint(std::ldexp(value, mantissa_bits - exponent));
  const auto significand = static_cast<uint64_t>(scaled);
  // The hidden bit carries into the exponent by itself.
  const uint64_t bits = (static_cast<uint64_t>(exponent + bias - 1) << mantissa_bits) + significand;
  return sign | static_cast<uint32_t>(std::min<uint64_t>(bits, infinity));
}

double unpack_float(uint32_t bits, int exponent_bits, int mantissa_bits, bool has_infinity) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const uint32_t top = (1u << exponent_bits) - 1;
  const uint32_t exponent = bits >> mantissa_bits & top, mantissa = bits & ((1u << mantissa_bits) - 1);
  const double sign = bits >> (exponent_bits + mantissa_bits) & 1 ? -1.0 : 1.0;
  const bool all_ones = exponent == top && (has_infinity || mantissa == (1u << mantissa_bits) - 1);
  if (all_ones) return has_infinity && mantissa == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign *
         std::ldexp(mantissa + (1u << mantissa_bits), static_cast<int>(exponent) - bias - mantissa_bits);
}

template <class T>
void put(void* address, T value) {
  std::memcpy(address, &value, sizeof value);
}
template <class T>
T get(const void* address) {
  T value;
  std::memcpy(&value, address, sizeof value);
  return value;
}

}  // namespace

uint64_t Random::next() {
  state_ += 0x9e3779b97f4a7c15;
  uint64_t z = state_;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}
double Random::uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
double Random::normal() {
  const double radius = std::sqrt(-2 * std::log(1 - uniform()));
  return radius * std::cos(2 * M_PI * uniform());
}
int64_t Random::integer(int64_t low, int64_t high) {
  return low + static_cast<int64_t>(next() % static_cast<uint64_t>(high - low + 1));
}

bool is_float(tw::DType dtype) {
  switch (dtype) {
    case tw::f16:
    case tw::bf16:
    case tw::f32:
    case tw::f64:
    case tw::f8e4m3fn:
    case tw::f8e5m2: return true;
    default: return false;
  }
}

void store_integer(tw::DType dtype, void* address, int64_t number) {
  switch (dtype) {
    case tw::boolean: return put<uint8_t>(address, number != 0);
    case tw::i8:
    case tw::u8: return put<uint8_t>(address, static_cast<uint8_t>(number));
    case tw::i16:
    case tw::u16: return put<uint16_t>(address, static_cast<uint16_t>(number));
    case tw::i32:
    case tw::u32: return put<uint32_t>(address, static_cast<uint32_t>(number));
    case tw::i64:
    case tw::u64: return put<int64_t>(address, number);
    default: return store_number(dtype, address, static_cast<double>(number));
  }
}

void store_number(tw::DType dtype, void* address, double number) {
  switch (dtype) {
    case tw::f16: return put<uint16_t>(address, static_cast<uint16_t>(pack_float(number, 5, 10, true)));
    case tw::bf16: return put<uint16_t>(address, static_cast<uint16_t>(pack_float(number, 8, 7, true)));
    case tw::f8e4m3fn: return put<uint8_t>(address, static_cast<uint8_t>(pack_float(number, 4, 3, false)));
    case tw::f8e5m2: return put<uint8_t>(address, static_cast<uint8_t>(pack_float(number, 5, 2, true)));
    case tw::f32: return put<float>(address, static_cast<float>(number));
    case tw::f64: return put<double>(address, number);
    default: break;
  }
  const bool fits = std::isfinite(number) && std::fabs(number) < 0x1p63;
  store_integer(dtype, address, fits ? static_cast<int64_t>(number) : 0);
}

double load_number(tw::DType dtype, const void* address) {
  switch (dtype) {
    case tw::boolean: return get<uint8_t>(address) != 0;
    case tw::i8: return get<int8_t>(address);
    case tw::u8: return get<uint8_t>(address);
    case tw::i16: return get<int16_t>(address);
    case tw::u16: return get<uint16_t>(address);
    case tw::i32: return get<int32_t>(address);
    case tw::u32: return get<uint32_t>(address);
    case tw::i64: return static_cast<double>(get<int64_t>(address));
    case tw::u64: return static_cast<double>(get<uint64_t>(address));
    case tw::f16: return unpack_float(get<uint16_t>(address), 5, 10, true);
    case tw::bf16: return from_bits(static_cast<uint32_t>(get<uint16_t>(address)) << 16);
    case tw::f8e4m3fn: return unpack_float(get<uint8_t>(address), 4, 3, false);
    case tw::f8e5m2: return unpack_float(get<uint8_t>(address), 5, 2, true);
    case tw::f32: return get<float>(address);
    case tw::f64: return get<double>(address);
  }
  return 0;
}

void fill_random(const tw::Tensor& tensor, Random& random, int64_t bound) {
  const tw::DType dtype = tensor.dtype();
  const int64_t width = tw_dtype_size(dtype);
  // Chosen things are all chosen from, up to what a byte holds; other integers are small.
  const int64_t largest = bound == INT64_MAX ? 7 : std::clamp<int64_t>(bound - 1, 0, 127);
  for (int64_t at = 0; at < tensor.elements(); ++at) {
    void* address = tensor.data<char>() + at * width;
    if (is_float(dtype))
      store_number(dtype, address, random.normal());
    else if (dtype == tw::u64 && bound == INT64_MAX)
      store_integer(dtype, address, static_cast<int64_t>(random.next()));
    else
      store_integer(dtype, address, random.integer(0, dtype == tw::boolean ? 1 : largest));
  }
}

void default_symbols(const tw::Graph& graph, std::map<std::string, int64_t>* values) {
  for (int64_t at = 0; at < tw_graph_symbol_count(graph.get()); ++at) {
    const char* name;
    int64_t min, max, hint;
    tw::check(tw_graph_symbol_at(graph.get(), at, &name, &min, &max, &hint));
    values->try_emplace(name, hint >= 0 ? hint : std::min(std::max<int64_t>(min, 4), max));
  }
}

namespace {

int64_t evaluate(const tw::Graph& graph, tw_dim dim, const std::map<std::string, int64_t>& symbols) {
  std::vector<const char*> names;
  tw::Sizes values;
  for (const auto& [name, value] : symbols) {
    names.push_back(name.c_str());
    values.push_back(value);
  }
  int64_t size;
  tw::check(tw_graph_dim_evaluate(graph.get(), dim, names.data(), values.data(),
                                  static_cast<int64_t>(names.size()), &size));
  return size;
}

}  // namespace

tw::Sizes concrete_sizes(const tw::Graph& graph, tw::Value value,
                         const std::map<std::string, int64_t>& symbols) {
  tw::Sizes sizes;
  for (const tw::Dim& dim : value.shape()) sizes.push_back(evaluate(graph, dim.handle(), symbols));
  return sizes;
}

int64_t input_bound(const tw::Graph& graph, int64_t input, const std::map<std::string, int64_t>& symbols) {
  tw_dim bound;
  tw::check(tw_graph_input_bound(graph.get(), input, &bound));
  return bound == TW_UNBOUNDED ? INT64_MAX : evaluate(graph, bound, symbols);
}

tw::Tensor random_input(const tw::Graph& graph, int64_t input, const std::map<std::string, int64_t>& symbols,
                        Random& random) {
  const tw::Value value = graph.input_value(input);
  tw::Tensor tensor(value.dtype(), concrete_sizes(graph, value, symbols));
  fill_random(tensor, random, input_bound(graph, input, symbols));
  return tensor;
}

std::string first_difference(const tw::Graph& graph, const std::vector<const tw::Tensor*>& inputs,
                             const std::vector<tw::Tensor>& found, const std::vector<tw::Tensor>& expected,
                             const std::vector<std::pair<std::string, int64_t>>& symbols) {
  std::vector<const char*> names;
  tw::Sizes values;
  for (const auto& [name, value] : symbols) {
    names.push_back(name.c_str());
    values.push_back(value);
  }
  tw_run_options options = {};
  options.struct_size = sizeof options;
  options.symbol_names = names.data();
  options.symbol_values = values.data();
  options.symbol_count = static_cast<int64_t>(names.size());
  std::vector<const DLTensor*> lists[3];
  for (const tw::Tensor* input : inputs) lists[0].push_back(input->get());
  for (const tw::Tensor& tensor : found) lists[1].push_back(tensor.get());
  for (const tw::Tensor& tensor : expected) lists[2].push_back(tensor.get());
  tw_text* text;
  tw::check(tw_graph_compare(graph.get(), lists[0].data(), static_cast<int64_t>(lists[0].size()),
                             lists[1].data(), lists[2].data(), static_cast<int64_t>(lists[1].size()),
                             &options, &text));
  return tw::take(text);
}

std::string type_text(const tw::Tensor& tensor) {
  std::string text = tw_dtype_name(tensor.dtype());
  text += '[';
  for (size_t dim = 0; dim < tensor.sizes().size(); ++dim)
    text += (dim ? "," : "") + std::to_string(tensor.sizes()[dim]);
  return text + "]";
}

nlohmann::json describe(const tw::Tensor& tensor) {
  nlohmann::json facts;
  facts["dtype"] = tw_dtype_name(tensor.dtype());
  facts["shape"] = tensor.sizes();
  facts["type"] = type_text(tensor);
  const int64_t width = tw_dtype_size(tensor.dtype());
  double low = INFINITY, high = -INFINITY, total = 0;
  int64_t finite = 0;
  std::vector<double> first;
  for (int64_t at = 0; at < tensor.elements(); ++at) {
    const double value = load_number(tensor.dtype(), tensor.data<char>() + at * width);
    if (first.size() < kFirstElements) first.push_back(value);
    if (!std::isfinite(value)) continue;
    ++finite;
    low = std::min(low, value);
    high = std::max(high, value);
    total += value;
  }
  facts["elements"] = tensor.elements();
  facts["finite"] = finite;
  facts["min"] = finite ? nlohmann::json(low) : nlohmann::json();
  facts["max"] = finite ? nlohmann::json(high) : nlohmann::json();
  facts["mean"] = finite ? nlohmann::json(total / static_cast<double>(finite)) : nlohmann::json();
  facts["first"] = nlohmann::json::array();
  // JSON has no infinities.
  for (double value : first)
    facts["first"].push_back(std::isfinite(value) ? nlohmann::json(value) : nlohmann::json());
  uint64_t hash = 14695981039346656037u;
  for (int64_t at = 0; at < tensor.bytes(); ++at)
    hash = (hash ^ static_cast<unsigned char>(tensor.data<char>()[at])) * 1099511628211u;
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  facts["hash"] = text;
  return facts;
}

std::string summary_text(const nlohmann::json& facts) {
  std::string text = facts["type"].get<std::string>();
  if (facts["elements"] == 0) return text + ", empty";
  if (facts["elements"] == 1) return text + " = " + facts["first"][0].dump();
  if (facts["finite"] != facts["elements"])
    text += ", " + facts["finite"].dump() + " of " + facts["elements"].dump() + " finite";
  return text + ", min " + facts["min"].dump() + ", max " + facts["max"].dump() + ", mean " +
         facts["mean"].dump() + ", first " + facts["first"].dump();
}

}  // namespace command
