// Inputs and expectations of text tests.
#include "tests/text/values.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/text.h"
#include "ir/literal.h"

namespace tilewright::text_tests {

uint64_t Random::next() {
  uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}
double Random::uniform(double lo, double hi) {
  return lo + (hi - lo) * (static_cast<double>(next() >> 11) * 0x1p-53);
}
int64_t Random::integer(int64_t lo, int64_t hi) {
  uint64_t span = static_cast<uint64_t>(hi) - static_cast<uint64_t>(lo) + 1;
  return static_cast<int64_t>(static_cast<uint64_t>(lo) + (span == 0 ? next() : next() % span));
}

Result<Draw> parse_draw(std::string_view range, std::string_view values) {
  Draw draw;
  draw.special = values == "special";
  if (!draw.special && !values.empty()) return Status::invalid(cat("values=", values, ", expected special"));
  if (range.empty()) return draw;
  size_t dots = range.find("..");
  if (dots == std::string_view::npos) return Status::invalid(cat("range=", range, ", expected lo..hi"));
  TW_ASSIGN_OR_RETURN(draw.lo, parse_float(range.substr(0, dots)));
  TW_ASSIGN_OR_RETURN(draw.hi, parse_float(range.substr(dots + 2)));
  return draw;
}

namespace {

bool holds_float(DType dtype) { return is_float(dtype) || is_float8(dtype); }

Scalar special_scalar(DType dtype, Random& random) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  if (holds_float(dtype)) {
    // the last: subnormal in f16, f32 and f64, and the largest of f16, bf16, f32
    const double values[] = {0.0,   -0.0,  1.0,    -1.0,  0.5,     kInf,    -kInf, std::nan(""), 1e-7,
                             -6e-8, 2e-40, 5e-324, 65504, 3.38e38, -3.4e38, 1e300, 88.0,         -104.0};
    return Scalar::of_float(dtype, values[random.next() % std::size(values)]);
  }
  const int64_t values[] = {0,    1,   -1,        2,         7,         31,        63,       127,
                            -128, 255, INT16_MIN, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN};
  return Scalar::of_integer(dtype, dtype == DType::Bool ? static_cast<int64_t>(random.next() & 1)
                                                        : values[random.next() % std::size(values)]);
}

Scalar random_scalar(DType dtype, Random& random, const Draw& draw) {
  if (draw.special && random.next() % 3 != 0) return special_scalar(dtype, random);
  if (dtype == DType::Bool) return Scalar::of_integer(dtype, static_cast<int64_t>(random.next() & 1));
  if (holds_float(dtype)) return Scalar::of_float(dtype, random.uniform(draw.lo, draw.hi));
  double lo = is_unsigned_integer(dtype) ? std::max(draw.lo, 0.0) : draw.lo;
  return Scalar::of_integer(
      dtype, random.integer(static_cast<int64_t>(lo), static_cast<int64_t>(std::max(lo, draw.hi))));
}

}  // namespace

void fill_random(TensorRef& tensor, Random& random, const Draw& draw) {
  auto* at = static_cast<char*>(tensor.data);
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    store_scalar(random_scalar(tensor.dtype, random, draw), at + i * dtype_bytes(tensor.dtype));
  }
}

std::vector<TensorRef> Inputs::refs() const {
  std::vector<TensorRef> refs;
  for (const OwnedTensor& tensor : tensors) refs.push_back(tensor.ref);
  return refs;
}

Result<OwnedTensor> tensor_of_literal(std::string_view literal, DType dtype,
                                      const std::vector<int64_t>& sizes) {
  TW_ASSIGN_OR_RETURN(ConstantRef constant, parse_constant(literal, TensorType{dtype, to_shape(sizes)}));
  OwnedTensor tensor = allocate_tensor(dtype, sizes);
  auto size = static_cast<size_t>(dtype_bytes(dtype));
  for (int64_t i = 0; i < tensor.ref.elements(); ++i) {
    const char* from =
        static_cast<const char*>(constant->data) + (constant->splat ? 0 : i * static_cast<int64_t>(size));
    std::memcpy(static_cast<char*>(tensor.ref.data) + i * static_cast<int64_t>(size), from, size);
  }
  return tensor;
}

std::string literal_of_tensor(const TensorRef& tensor) {
  Constant constant;
  constant.type = TensorType{tensor.dtype, to_shape(tensor.sizes)};
  constant.splat = tensor.sizes.empty();
  constant.data = tensor.data;
  constant.bytes = tensor.bytes();
  return print_constant(constant);
}

namespace {

// `%x: f32[3] = [1,2,3]`, `%x = 1`, `%x = random 0..4`, `%x = special`, `%x = iota`
struct InputSpec {
  std::string name;
  std::string type;  // may be empty
  std::string value;
};

Result<InputSpec> parse_spec(const Remark& remark) {
  std::string_view text = remark.text;
  size_t equals = text.find('=');
  if (equals == std::string_view::npos || !text.starts_with("%")) {
    return Status::invalid(cat("line ", remark.line, ": found `", text, "`, expected `%x = ..`"));
  }
  std::string_view head = trim(text.substr(1, equals - 1));
  size_t colon = head.find(':');
  InputSpec spec;
  spec.name = trim(head.substr(0, colon));
  if (colon != std::string_view::npos) spec.type = trim(head.substr(colon + 1));
  spec.value = trim(text.substr(equals + 1));
  return spec;
}

Result<std::vector<int64_t>> sizes_of_type(std::string_view text) {
  size_t open = text.find('['), close = text.rfind(']');
  if (open == std::string_view::npos || close == std::string_view::npos) {
    return Status::invalid(cat("found `", text, "`, expected a type with sizes"));
  }
  std::vector<int64_t> sizes;
  std::string_view list = text.substr(open + 1, close - open - 1);
  while (!trim(list).empty()) {
    size_t comma = std::min(list.find(','), list.size());
    TW_ASSIGN_OR_RETURN(int64_t size, parse_integer(trim(list.substr(0, comma))));
    sizes.push_back(size);
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return sizes;
}

class InputMaker {
 public:
  InputMaker(const Graph& graph, const TestCase& test, uint64_t seed, const Draw& draw)
      : graph_(graph), test_(test), seed_(seed), draw_(draw) {}

  Result<Inputs> make() {
    TW_RETURN_IF_ERROR(read_remarks());
    TW_RETURN_IF_ERROR(bind());
    for (const Input& input : graph_.inputs) {
      Status made = make_input(input);
      if (!made.is_ok()) return made.because(cat("input ", graph_.value_name(input.value)));
    }
    return std::move(inputs_);
  }

 private:
  Status read_remarks() {
    for (const Remark& remark : test_.remarks_of("input")) {
      TW_ASSIGN_OR_RETURN(InputSpec spec, parse_spec(remark));
      bool known = false;
      for (const Input& input : graph_.inputs) known |= graph_.value_name(input.value) == "%" + spec.name;
      if (known) specs_[spec.name] = spec;  // else of another graph of the case
    }
    for (const Remark& remark : test_.remarks_of("bind")) {
      std::string_view rest = remark.text;
      while (!trim(rest).empty()) {
        size_t comma = std::min(rest.find(','), rest.size()), equals = rest.find('=');
        if (equals >= comma) return Status::invalid(cat("line ", remark.line, ": expected `N=3, M=4`"));
        TW_ASSIGN_OR_RETURN(int64_t value, parse_integer(trim(rest.substr(equals + 1, comma - equals - 1))));
        inputs_.bindings[std::string(trim(rest.substr(0, equals)))] = value;
        rest.remove_prefix(std::min(comma + 1, rest.size()));
      }
    }
    return Status::ok();
  }

  Status bind() {
    for (const Input& input : graph_.inputs) {
      const InputSpec* spec = find(input);
      if (!spec || spec->type.empty()) continue;
      TW_ASSIGN_OR_RETURN(std::vector<int64_t> sizes, sizes_of_type(spec->type));
      const Shape& shape = graph_.type(input.value).shape;
      for (size_t d = 0; d < std::min(sizes.size(), shape.size()); ++d) {
        std::string symbol = shape[d].as_symbol();
        if (!symbol.empty()) inputs_.bindings.emplace(symbol, sizes[d]);
      }
    }
    for (const Symbol& symbol : graph_.symbols) {
      int64_t size = symbol.hint && *symbol.hint <= 32 ? *symbol.hint : 5;
      inputs_.bindings.emplace(symbol.name, std::clamp(size, symbol.min, symbol.max));
    }
    return Status::ok();
  }

  const InputSpec* find(const Input& input) const {
    auto found = specs_.find(graph_.value_name(input.value).substr(1));
    return found == specs_.end() ? nullptr : &found->second;
  }

  Status make_input(const Input& input) {
    const TensorType& type = graph_.type(input.value);
    const InputSpec* spec = find(input);
    std::vector<int64_t> sizes;
    if (spec && !spec->type.empty()) {
      TW_ASSIGN_OR_RETURN(sizes, sizes_of_type(spec->type));
    } else {
      for (const Dim& dim : type.shape) {
        TW_ASSIGN_OR_RETURN(int64_t size, dim.evaluate(inputs_.bindings));
        sizes.push_back(size);
      }
    }
    Draw draw = draw_;
    std::string value = spec ? spec->value : "random";
    if (value == "random" || value == "special" || value.starts_with("random ")) {
      if (value.starts_with("random ")) {
        TW_ASSIGN_OR_RETURN(draw, parse_draw(trim(std::string_view(value).substr(7)), {}));
      }
      draw.special |= value == "special";
      inputs_.tensors.push_back(allocate_tensor(type.dtype, sizes));
      // By name, so that dropping an input leaves the others as they were.
      Random random(seed_ ^ hash_bytes(graph_.value_name(input.value)).low);
      fill_random(inputs_.tensors.back().ref, random, draw);
      return Status::ok();
    }
    if (value == "iota") {
      inputs_.tensors.push_back(allocate_tensor(type.dtype, sizes));
      TensorRef& ref = inputs_.tensors.back().ref;
      for (int64_t i = 0; i < ref.elements(); ++i) {
        store_scalar(convert_scalar(Scalar::of_integer(DType::I64, i), type.dtype),
                     static_cast<char*>(ref.data) + i * dtype_bytes(type.dtype));
      }
      return Status::ok();
    }
    TW_ASSIGN_OR_RETURN(OwnedTensor tensor, tensor_of_literal(value, type.dtype, sizes));
    inputs_.tensors.push_back(std::move(tensor));
    return Status::ok();
  }

  const Graph& graph_;
  const TestCase& test_;
  uint64_t seed_;
  Draw draw_;
  std::map<std::string, InputSpec, std::less<>> specs_;
  Inputs inputs_;
};

}  // namespace

Result<Inputs> make_inputs(const Graph& graph, const TestCase& test, uint64_t seed, const Draw& draw) {
  return InputMaker(graph, test, seed, draw).make();
}

}  // namespace tilewright::text_tests
