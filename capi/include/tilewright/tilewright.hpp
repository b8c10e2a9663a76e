// Header-only C++17 wrapper over the C API: handles that release themselves, errors as exceptions, operators on values.
//
//   tw::Session session;
//   tw::Graph g("mlp");
//   tw::Dim n = g.symbol("N", 1, 4096, 32);
//   tw::Value x = g.input("x", tw::f32, {n, 784}), w = g.input("w", tw::f32, {784, 10}), b = g.input("b", tw::f32, {10});
//   g.output(tw::softmax(tw::matmul(x, w) + b, -1), "y");
//   tw::Executable run = session.compile(g);
//   std::vector<tw::Tensor> outputs = run({&images, &weights, &bias});
//
// Everything here is inline over tilewright.h, whose comments say what holds for threads, forks and ownership.  A value is a
// small copyable name for a node's result; its graph must outlive it.
#ifndef TILEWRIGHT_HPP_
#define TILEWRIGHT_HPP_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "tilewright/tilewright.h"

namespace tw {

// ---- errors --------------------------------------------------------------------------------------------------------------

// A status as an exception; what() is the whole chain on one line.
class Error : public std::runtime_error {
 public:
  explicit Error(tw_status* status)
      : std::runtime_error(tw_status_text(status)), code_(tw_status_code(status)), op_(tw_status_op(status)),
        message_(tw_status_message(status)) {
    tw_status_release(status);
  }
  int32_t code() const { return code_; }
  const std::string& op() const { return op_; }
  const std::string& message() const { return message_; }

 private:
  int32_t code_;
  std::string op_, message_;
};

inline void check(tw_status* status) {
  if (status) throw Error(status);
}

// The text, released.
inline std::string take(tw_text* text) {
  std::string taken(tw_text_data(text), static_cast<size_t>(tw_text_size(text)));
  tw_text_release(text);
  return taken;
}

// ---- element types -------------------------------------------------------------------------------------------------------

enum DType : int32_t {
  boolean = TW_DTYPE_BOOL, i8 = TW_DTYPE_I8, i16 = TW_DTYPE_I16, i32 = TW_DTYPE_I32, i64 = TW_DTYPE_I64, u8 = TW_DTYPE_U8,
  u16 = TW_DTYPE_U16, u32 = TW_DTYPE_U32, u64 = TW_DTYPE_U64, f16 = TW_DTYPE_F16, bf16 = TW_DTYPE_BF16, f32 = TW_DTYPE_F32,
  f64 = TW_DTYPE_F64, f8e4m3fn = TW_DTYPE_F8E4M3FN, f8e5m2 = TW_DTYPE_F8E5M2,
};

template <class T> struct dtype_of;
template <> struct dtype_of<bool> { static constexpr DType value = boolean; };
template <> struct dtype_of<int8_t> { static constexpr DType value = i8; };
template <> struct dtype_of<int16_t> { static constexpr DType value = i16; };
template <> struct dtype_of<int32_t> { static constexpr DType value = i32; };
template <> struct dtype_of<int64_t> { static constexpr DType value = i64; };
template <> struct dtype_of<uint8_t> { static constexpr DType value = u8; };
template <> struct dtype_of<uint16_t> { static constexpr DType value = u16; };
template <> struct dtype_of<uint32_t> { static constexpr DType value = u32; };
template <> struct dtype_of<uint64_t> { static constexpr DType value = u64; };
template <> struct dtype_of<float> { static constexpr DType value = f32; };
template <> struct dtype_of<double> { static constexpr DType value = f64; };

using Sizes = std::vector<int64_t>;

// ---- dims ----------------------------------------------------------------------------------------------------------------

// A size: a plain integer, or an expression over symbols of a graph.
class Dim {
 public:
  template <class Integer, class = std::enable_if_t<std::is_integral_v<Integer>>>
  Dim(Integer value) : handle_(static_cast<tw_dim>(value)) {}
  Dim(tw_graph* graph, tw_dim handle) : graph_(graph), handle_(handle) {}

  tw_dim handle() const { return handle_; }
  tw_graph* graph() const { return graph_; }
  // Near INT64_MIN are the handles of expressions.
  bool is_constant() const { return handle_ > INT64_MIN / 2; }
  bool is_one() const { return handle_ == 1; }

  friend Dim operator+(Dim a, Dim b) { return combine(TW_DIM_ADD, a, b); }
  friend Dim operator-(Dim a, Dim b) { return combine(TW_DIM_SUBTRACT, a, b); }
  friend Dim operator*(Dim a, Dim b) { return combine(TW_DIM_MULTIPLY, a, b); }
  friend Dim operator/(Dim a, Dim b) { return combine(TW_DIM_FLOOR_DIVIDE, a, b); }
  friend Dim operator%(Dim a, Dim b) { return combine(TW_DIM_MODULO, a, b); }
  friend bool operator==(Dim a, Dim b) { return a.handle_ == b.handle_; }
  friend bool operator!=(Dim a, Dim b) { return a.handle_ != b.handle_; }

  static Dim combine(int32_t operation, Dim a, Dim b) {
    tw_graph* graph = a.graph_ ? a.graph_ : b.graph_;
    if (!graph) {  // two integers need no graph
      switch (operation) {
        case TW_DIM_ADD: return a.handle_ + b.handle_;
        case TW_DIM_SUBTRACT: return a.handle_ - b.handle_;
        case TW_DIM_MULTIPLY: return a.handle_ * b.handle_;
        case TW_DIM_FLOOR_DIVIDE: return a.handle_ / b.handle_;
        case TW_DIM_CEIL_DIVIDE: return (a.handle_ + b.handle_ - 1) / b.handle_;
        case TW_DIM_MODULO: return a.handle_ % b.handle_;
        case TW_DIM_MIN: return std::min(a.handle_, b.handle_);
        default: return std::max(a.handle_, b.handle_);
      }
    }
    tw_dim made;
    check(tw_graph_dim(graph, operation, a.handle_, b.handle_, &made));
    return Dim(graph, made);
  }

 private:
  tw_graph* graph_ = nullptr;
  tw_dim handle_;
};

using Shape = std::vector<Dim>;

inline std::vector<tw_dim> handles(const Shape& shape) {
  std::vector<tw_dim> list;
  for (const Dim& dim : shape) list.push_back(dim.handle());
  return list;
}

struct TensorType {
  DType dtype;
  Shape shape;
};

// ---- values and attributes -----------------------------------------------------------------------------------------------

// The result of a node, or an input.  Default: absent, for optional operands.
class Value {
 public:
  Value() = default;
  Value(tw_graph* graph, tw_value id) : graph_(graph), id_(id) {}

  tw_value id() const { return id_; }
  tw_graph* graph() const { return graph_; }
  explicit operator bool() const { return graph_ != nullptr; }

  DType dtype() const {
    int32_t dtype;
    check(tw_graph_value_type(graph_, id_, &dtype, nullptr, nullptr, 0));
    return static_cast<DType>(dtype);
  }
  int32_t rank() const {
    int32_t rank;
    check(tw_graph_value_type(graph_, id_, nullptr, &rank, nullptr, 0));
    return rank;
  }
  Shape shape() const {
    std::vector<tw_dim> dims(static_cast<size_t>(rank()));
    check(tw_graph_value_type(graph_, id_, nullptr, nullptr, dims.data(), static_cast<int32_t>(dims.size())));
    Shape shape;
    for (tw_dim dim : dims) shape.emplace_back(dim > INT64_MIN / 2 ? nullptr : graph_, dim);
    return shape;
  }
  // The axis counts from the end when negative.
  Dim dim(int64_t axis) const {
    const Shape all = shape();
    return all[checked_axis("tw::Value::dim", axis, static_cast<int32_t>(all.size()))];
  }
  // `axis`, from the end when negative, of a value of this rank; `what` is named in the error.
  static size_t checked_axis(const char* what, int64_t axis, int32_t rank) {
    if (axis < -rank || axis >= rank)
      throw std::out_of_range(std::string(what) + ": axis " + std::to_string(axis) + " out of range for rank " +
                              std::to_string(rank));
    return static_cast<size_t>(axis < 0 ? axis + rank : axis);
  }

 private:
  tw_graph* graph_ = nullptr;
  tw_value id_ = TW_NO_VALUE;
};

// {"dim", 1}, {"eps", 1e-5}, {"causal", true}, {"mode", "sum"}, {"dims", tw::Sizes{0, 1}}, {"shape", tw::Shape{n, 4}}.
class Attribute {
 public:
  template <class Integer, class = std::enable_if_t<std::is_integral_v<Integer>>>
  Attribute(const char* name, Integer value) : name_(name) {
    if constexpr (std::is_same_v<Integer, bool>) value_ = value;
    else value_ = static_cast<int64_t>(value);
  }
  Attribute(const char* name, double value) : name_(name), value_(value) {}
  Attribute(const char* name, DType value) : name_(name), value_(value) {}
  Attribute(const char* name, const char* value) : name_(name), value_(std::string(value)) {}
  Attribute(const char* name, std::string value) : name_(name), value_(std::move(value)) {}
  Attribute(const char* name, Sizes value) : name_(name), value_(std::move(value)) {}
  // {"perm", {1, 0}}
  Attribute(const char* name, std::initializer_list<int> value) : name_(name), value_(Sizes(value.begin(), value.end())) {}
  Attribute(const char* name, std::vector<double> value) : name_(name), value_(std::move(value)) {}
  Attribute(const char* name, const Shape& value) : name_(name), value_(Dims{handles(value)}) {}
  Attribute(const char* name, const std::vector<TensorType>& value) : name_(name) {
    Types types;
    for (const TensorType& type : value) types.push_back({type.dtype, handles(type.shape)});
    value_ = std::move(types);
  }

  // Borrows from this attribute; `types` holds what a list of types points to.
  tw_attribute borrow(std::vector<tw_tensor_type>* types) const {
    const char* name = name_.c_str();
    if (auto* b = std::get_if<bool>(&value_)) return tw_bool(name, *b);
    if (auto* i = std::get_if<int64_t>(&value_)) return tw_int(name, *i);
    if (auto* f = std::get_if<double>(&value_)) return tw_float(name, *f);
    if (auto* d = std::get_if<DType>(&value_)) return tw_dtype(name, *d);
    if (auto* s = std::get_if<std::string>(&value_)) return tw_word(name, s->c_str());
    if (auto* l = std::get_if<Sizes>(&value_)) return tw_ints(name, l->data(), static_cast<int64_t>(l->size()));
    if (auto* n = std::get_if<std::vector<double>>(&value_))
      return tw_floats(name, n->data(), static_cast<int64_t>(n->size()));
    if (auto* d = std::get_if<Dims>(&value_))
      return tw_dims(name, d->handles.data(), static_cast<int64_t>(d->handles.size()));
    for (const auto& [dtype, dims] : std::get<Types>(value_))
      types->push_back({sizeof(tw_tensor_type), nullptr, dtype, static_cast<int32_t>(dims.size()), dims.data()});
    return tw_types(name, types->data(), static_cast<int64_t>(types->size()));
  }

 private:
  struct Dims {
    std::vector<tw_dim> handles;
  };
  using Types = std::vector<std::pair<DType, std::vector<tw_dim>>>;
  std::string name_;
  std::variant<bool, int64_t, double, DType, std::string, Sizes, std::vector<double>, Dims, Types> value_;
};
using Attributes = std::vector<Attribute>;

// ---- tensors -------------------------------------------------------------------------------------------------------------

// A dense tensor: its own memory of the host, or one that the library returned, on the host or a device.
class Tensor {
 public:
  Tensor() = default;
  Tensor(DType dtype, Sizes sizes) : sizes_(std::move(sizes)) {
    int64_t bytes = tw_dtype_size(dtype);
    for (int64_t size : sizes_) {
      if (size < 0 || (size != 0 && bytes > INT64_MAX / size)) throw std::invalid_argument("tw::Tensor: size out of range");
      bytes *= size;
    }
    // Whole cache lines, aligned like the library's own tensors.
    storage_.reset(::operator new(static_cast<size_t>(std::max<int64_t>(bytes, 1)), std::align_val_t(64)));
    std::memset(storage_.get(), 0, static_cast<size_t>(bytes));
    describe(dtype, storage_.get());
  }
  template <class T>
  Tensor(const std::vector<T>& values, Sizes sizes) : Tensor(dtype_of<T>::value, std::move(sizes)) {
    if (static_cast<int64_t>(values.size()) != elements()) throw std::invalid_argument("tw::Tensor: wrong number of values");
    std::copy(values.begin(), values.end(), data<T>());
  }
  // Takes a tensor that the library returned.
  explicit Tensor(DLManagedTensorVersioned* managed) : managed_(managed, tw_tensor_release) {
    const DLTensor& tensor = managed->dl_tensor;
    sizes_.assign(tensor.shape, tensor.shape + tensor.ndim);
    int32_t dtype;
    check(tw_dtype_from_dlpack(tensor.dtype, &dtype));
    describe(static_cast<DType>(dtype), static_cast<char*>(tensor.data) + tensor.byte_offset);
    tensor_.device = tensor.device;
  }
  Tensor(Tensor&& other) noexcept { *this = std::move(other); }
  Tensor& operator=(Tensor&& other) noexcept {
    storage_ = std::move(other.storage_);
    managed_ = std::move(other.managed_);
    sizes_ = std::move(other.sizes_);
    dtype_ = other.dtype_;
    tensor_ = other.tensor_;
    tensor_.shape = sizes_.data();
    return *this;
  }

  const DLTensor* get() const { return &tensor_; }
  DType dtype() const { return dtype_; }
  const Sizes& sizes() const { return sizes_; }
  int64_t elements() const {
    int64_t count = 1;
    for (int64_t size : sizes_) count *= size;
    return count;
  }
  int64_t bytes() const { return elements() * tw_dtype_size(dtype_); }
  // Its elements can be read here; else copy them with Session::to_host.
  bool is_on_host() const { return tensor_.device.device_type == kDLCPU; }
  void* raw() const { return tensor_.data; }
  template <class T>
  T* data() const { return static_cast<T*>(tensor_.data); }
  template <class T>
  T item() const { return *data<T>(); }
  template <class T>
  std::vector<T> to_vector() const { return std::vector<T>(data<T>(), data<T>() + elements()); }
  // Gives the managed tensor away, for hosts that take ownership; null when the memory is our own.
  DLManagedTensorVersioned* release() { return managed_.release(); }

 private:
  struct Free {
    void operator()(void* memory) const { ::operator delete(memory, std::align_val_t(64)); }
  };
  void describe(DType dtype, void* data) {
    dtype_ = dtype;
    std::memset(static_cast<void*>(&tensor_), 0, sizeof tensor_);
    check(tw_dtype_to_dlpack(dtype, &tensor_.dtype));
    tensor_.data = data;
    tensor_.device.device_type = kDLCPU;
    tensor_.ndim = static_cast<int32_t>(sizes_.size());
    tensor_.shape = sizes_.data();
  }

  std::unique_ptr<void, Free> storage_;
  std::unique_ptr<DLManagedTensorVersioned, void (*)(DLManagedTensorVersioned*)> managed_{nullptr, tw_tensor_release};
  Sizes sizes_;
  DType dtype_ = f32;
  DLTensor tensor_ = {};
};

// ---- graphs --------------------------------------------------------------------------------------------------------------

struct GradientOptions {
  Sizes outputs, inputs;  // empty: all of float type
  bool recompute = false;
  bool implicit_one = false;
};

class Graph {
 public:
  explicit Graph(const char* name = "graph") { check(tw_graph_create(name, &graph_)); }
  explicit Graph(tw_graph* taken) : graph_(taken) {}
  Graph(Graph&& other) noexcept : graph_(std::exchange(other.graph_, nullptr)) {}
  Graph& operator=(Graph&& other) noexcept {
    std::swap(graph_, other.graph_);
    return *this;
  }
  ~Graph() { tw_graph_release(graph_); }

  static Graph parse(const std::string& text) {
    tw_graph* graph;
    check(tw_graph_parse(text.data(), static_cast<int64_t>(text.size()), &graph));
    return Graph(graph);
  }
  tw_graph* get() const { return graph_; }
  Graph clone() const { return derive([&](tw_graph** made) { return tw_graph_clone(graph_, made); }); }
  Graph expand() const { return derive([&](tw_graph** made) { return tw_graph_expand(graph_, made); }); }

  Dim symbol(const char* name, int64_t min = 1, int64_t max = INT32_MAX, int64_t hint = -1) {
    tw_dim dim;
    check(tw_graph_symbol(graph_, name, min, max, hint, &dim));
    return Dim(graph_, dim);
  }
  Value input(const char* name, DType dtype, const Shape& shape) {
    const std::vector<tw_dim> dims = handles(shape);
    tw_value value;
    check(tw_graph_input(graph_, name, dtype, dims.data(), static_cast<int32_t>(dims.size()), &value));
    return Value(graph_, value);
  }
  // Takes all outputs away, so that others can be declared: a training step returns new parameters, not gradients.
  void clear_outputs() { check(tw_graph_clear_outputs(graph_)); }
  // Returns the output's index.
  int64_t output(Value value, const char* name = nullptr) {
    require(graph_, value, "tw::Graph::output");
    check(tw_graph_output(graph_, value.id(), name));
    return tw_graph_output_count(graph_) - 1;
  }
  void alias(int64_t output, int64_t input) { check(tw_graph_alias(graph_, output, input)); }
  void freeze(int64_t input) { check(tw_graph_input_frozen(graph_, input, 1)); }
  int64_t input_count() const { return tw_graph_input_count(graph_); }
  int64_t output_count() const { return tw_graph_output_count(graph_); }
  int64_t node_count() const { return tw_graph_node_count(graph_); }
  Value input_value(int64_t index) const {
    tw_value value;
    check(tw_graph_input_at(graph_, index, &value, nullptr));
    return Value(graph_, value);
  }
  Value output_value(int64_t index) const {
    tw_value value;
    check(tw_graph_output_at(graph_, index, &value, nullptr, nullptr));
    return Value(graph_, value);
  }
  std::string input_name(int64_t index) const {
    const char* name;
    check(tw_graph_input_at(graph_, index, nullptr, &name));
    return name;
  }
  std::string output_name(int64_t index) const {
    const char* name;
    check(tw_graph_output_at(graph_, index, nullptr, &name, nullptr));
    return name;
  }

  // Given to all nodes appended from now on; "" for none.
  void set_tag(std::string tag) { tag_ = std::move(tag); }

  // Any op by its id or name: all results.
  std::vector<Value> ops(int32_t op, const std::vector<Value>& operands, const Attributes& attributes = {},
                         const std::vector<const Graph*>& regions = {}) {
    return append(graph_, op, operands, attributes, regions, tag_);
  }
  std::vector<Value> ops(const char* name, const std::vector<Value>& operands, const Attributes& attributes = {},
                         const std::vector<const Graph*>& regions = {}) {
    return ops(find(name), operands, attributes, regions);
  }
  // The first result.
  template <class Op>
  Value op(Op name, const std::vector<Value>& operands, const Attributes& attributes = {},
           const std::vector<const Graph*>& regions = {}) {
    return ops(name, operands, attributes, regions).at(0);
  }

  Value splat(double number, DType dtype, const Shape& shape = {}) { return splat(graph_, number, dtype, shape); }
  Value splat_integer(int64_t number, DType dtype, const Shape& shape = {}) {
    const std::vector<tw_dim> dims = handles(shape);
    tw_value value;
    check(tw_graph_splat_integer(graph_, dtype, dims.data(), static_cast<int32_t>(dims.size()), number, &value));
    return Value(graph_, value);
  }
  // Copies the tensor.
  Value constant(const Tensor& tensor) {
    tw_constant* constant;
    check(tw_constant_create(tensor.get(), &constant));
    tw_value value;
    tw_status* status = tw_graph_constant(graph_, constant, &value);
    tw_constant_release(constant);
    check(status);
    return Value(graph_, value);
  }
  Value iota(DType dtype, const Shape& shape, int64_t dim) {
    return op(TW_OP_IOTA, {}, {{"shape", shape}, {"dim", dim}, {"dtype", dtype}});
  }

  std::string text() const {
    tw_text* printed;
    check(tw_graph_print(graph_, &printed));
    return take(printed);
  }
  void verify() const { check(tw_graph_verify(graph_)); }
  Graph gradient_joint(const GradientOptions& options = {}) const {
    const tw_gradient_options given = borrow(options);
    return derive([&](tw_graph** made) { return tw_graph_gradient_joint(graph_, &given, made); });
  }
  std::pair<Graph, Graph> gradient_pair(const GradientOptions& options = {}) const {
    const tw_gradient_options given = borrow(options);
    tw_graph *forward, *backward;
    check(tw_graph_gradient_pair(graph_, &given, &forward, &backward));
    return {Graph(forward), Graph(backward)};
  }

  static int32_t find(const char* name) {
    int32_t op;
    check(tw_op_find(name, &op));
    return op;
  }
  static std::vector<Value> append(tw_graph* graph, int32_t op, const std::vector<Value>& operands,
                                   const Attributes& attributes = {}, const std::vector<const Graph*>& regions = {},
                                   const std::string& tag = {}) {
    if (!graph) throw std::invalid_argument(label(op) + ": no operand is given, so that no graph is known");
    std::vector<tw_value> ids;
    for (size_t at = 0; at < operands.size(); ++at) {
      if (operands[at] && operands[at].graph() != graph)
        throw std::invalid_argument(label(op) + ": operand " + std::to_string(at) + " is a value of graph @" +
                                    tw_graph_name(operands[at].graph()) + ", expected one of graph @" + tw_graph_name(graph));
      ids.push_back(operands[at].id());
    }
    std::vector<std::vector<tw_tensor_type>> types(attributes.size());
    std::vector<tw_attribute> list;
    for (size_t at = 0; at < attributes.size(); ++at) list.push_back(attributes[at].borrow(&types[at]));
    std::vector<tw_graph*> parts;
    for (const Graph* region : regions) parts.push_back(region->get());
    tw_node node = {};
    node.struct_size = sizeof node;
    node.op = op;
    node.operands = ids.data();
    node.operand_count = static_cast<int64_t>(ids.size());
    node.attributes = list.data();
    node.attribute_count = static_cast<int64_t>(list.size());
    node.regions = parts.data();
    node.region_count = static_cast<int64_t>(parts.size());
    node.tag = tag.empty() ? nullptr : tag.c_str();
    std::vector<tw_value> results(8);
    int64_t count = 0;
    check(tw_graph_append(graph, &node, results.data(), static_cast<int64_t>(results.size()), &count));
    if (count > static_cast<int64_t>(results.size())) {
      // Results of one node are numbered in a row.
      results.resize(static_cast<size_t>(count));
      check(tw_graph_node_at(graph, tw_graph_node_count(graph) - 1, nullptr, results.data(), count, &count, nullptr));
    }
    std::vector<Value> values;
    for (int64_t at = 0; at < count; ++at) values.emplace_back(graph, results[static_cast<size_t>(at)]);
    return values;
  }
  static Value splat(tw_graph* graph, double number, DType dtype, const Shape& shape) {
    const std::vector<tw_dim> dims = handles(shape);
    tw_value value;
    check(tw_graph_splat(graph, dtype, dims.data(), static_cast<int32_t>(dims.size()), number, &value));
    return Value(graph, value);
  }

 private:
  static std::string label(int32_t op) {
    const char* name = tw_op_name(op);
    return name ? name : "op " + std::to_string(op);
  }
  // Values are numbers within their graph: one of another graph would bind to whatever has its number here.
  static void require(tw_graph* graph, Value value, const char* call) {
    if (!value) throw std::invalid_argument(std::string(call) + ": the value is absent");
    if (value.graph() != graph)
      throw std::invalid_argument(std::string(call) + ": the value is of graph @" + tw_graph_name(value.graph()) +
                                  ", expected one of graph @" + tw_graph_name(graph));
  }
  template <class Make>
  static Graph derive(Make make) {
    tw_graph* made;
    check(make(&made));
    return Graph(made);
  }
  static tw_gradient_options borrow(const GradientOptions& options) {
    tw_gradient_options given = {};
    given.struct_size = sizeof given;
    given.outputs = options.outputs.data();
    given.output_count = static_cast<int64_t>(options.outputs.size());
    given.inputs = options.inputs.data();
    given.input_count = static_cast<int64_t>(options.inputs.size());
    given.recompute = options.recompute;
    given.implicit_one = options.implicit_one;
    return given;
  }

  tw_graph* graph_ = nullptr;
  std::string tag_;
};

// ---- sessions and executables --------------------------------------------------------------------------------------------

using OptionList = std::vector<std::pair<std::string, std::string>>;

struct RunOptions {
  std::vector<std::pair<std::string, int64_t>> symbols;
  Sizes donated;
  std::vector<const Tensor*> given;  // one an output, null to ask for it; empty: all are asked for
  void* stream = nullptr;            // devices only
  int32_t asked_place = TW_PLACE_WITH_INPUTS;
};

class Executable {
 public:
  explicit Executable(tw_executable* taken) : executable_(taken) {}
  Executable(Executable&& other) noexcept : executable_(std::exchange(other.executable_, nullptr)) {}
  Executable& operator=(Executable&& other) noexcept {
    std::swap(executable_, other.executable_);
    return *this;
  }
  ~Executable() { tw_executable_release(executable_); }

  tw_executable* get() const { return executable_; }
  Graph graph() const {
    tw_graph* graph;
    check(tw_executable_graph(executable_, &graph));
    return Graph(graph);
  }
  std::string report() const {
    tw_text* json;
    check(tw_executable_report(executable_, &json));
    return take(json);
  }
  std::string dump(const char* stage) const {
    tw_text* text;
    check(tw_executable_dump(executable_, stage, &text));
    return take(text);
  }
  // Takes a tensor that the library returned or that release() gave.
  void bind(int64_t input, DLManagedTensorVersioned* tensor) { check(tw_executable_bind(executable_, input, tensor)); }

  // Null for bound frozen inputs.  Returns one tensor an output; empty ones where a tensor was given.
  std::vector<Tensor> operator()(const std::vector<const Tensor*>& inputs, const RunOptions& options = {}) const {
    std::vector<const DLTensor*> borrowed;
    for (const Tensor* input : inputs) borrowed.push_back(input ? input->get() : nullptr);
    return run(borrowed, options);
  }
  template <class Tensors, class = std::enable_if_t<std::is_same_v<Tensors, std::vector<Tensor>>>>
  std::vector<Tensor> operator()(const Tensors& inputs, const RunOptions& options = {}) const {
    std::vector<const DLTensor*> borrowed;
    for (const Tensor& input : inputs) borrowed.push_back(input.get());
    return run(borrowed, options);
  }
  std::vector<Tensor> run(const std::vector<const DLTensor*>& inputs, const RunOptions& options = {}) const {
    const size_t count = output_count();
    std::vector<const DLTensor*> given(count, nullptr);
    for (size_t at = 0; at < std::min(count, options.given.size()); ++at)
      if (options.given[at]) given[at] = options.given[at]->get();
    std::vector<const char*> names;
    Sizes values;
    for (const auto& [name, value] : options.symbols) {
      names.push_back(name.c_str());
      values.push_back(value);
    }
    tw_run_options run = {};
    run.struct_size = sizeof run;
    run.symbol_names = names.data();
    run.symbol_values = values.data();
    run.symbol_count = static_cast<int64_t>(names.size());
    run.donated = options.donated.data();
    run.donated_count = static_cast<int64_t>(options.donated.size());
    run.stream = options.stream;
    run.asked_place = options.asked_place;
    std::vector<DLManagedTensorVersioned*> asked(count, nullptr);
    check(tw_run(executable_, inputs.data(), static_cast<int64_t>(inputs.size()), given.data(), asked.data(),
                 static_cast<int64_t>(count), &run));
    std::vector<Tensor> outputs;
    for (DLManagedTensorVersioned* tensor : asked) outputs.push_back(tensor ? Tensor(tensor) : Tensor());
    return outputs;
  }

 private:
  size_t output_count() const {
    if (!output_count_) output_count_ = static_cast<size_t>(graph().output_count());
    return *output_count_;
  }

  tw_executable* executable_ = nullptr;
  mutable std::optional<size_t> output_count_;
};

class Session {
 public:
  // The environment's options, overridden by `options`.
  Session() : Session(OptionList()) {}
  // {{"cache_dir", "/tmp/x"}} is a list of one option, never of two moved sessions.
  Session(std::initializer_list<std::pair<const char*, const char*>> options, const tw_host_services* services = nullptr)
      : Session(OptionList(options.begin(), options.end()), services) {}
  explicit Session(const OptionList& options, const tw_host_services* services = nullptr) {
    tw_options* values;
    check(tw_options_create(&values));
    const std::unique_ptr<tw_options, void (*)(tw_options*)> owner(values, tw_options_release);
    for (const auto& [name, value] : options) check(tw_options_set(values, name.c_str(), value.c_str()));
    tw_session_info info = {};
    info.struct_size = sizeof info;
    info.next = services ? &services->header : nullptr;
    check(tw_session_create(values, &info, &session_));
  }
  Session(Session&& other) noexcept : session_(std::exchange(other.session_, nullptr)) {}
  Session& operator=(Session&& other) noexcept {
    std::swap(session_, other.session_);
    return *this;
  }
  ~Session() { tw_session_release(session_); }

  tw_session* get() const { return session_; }
  Executable compile(const Graph& graph, const OptionList& options = {}) const {
    std::vector<const char*> names, values;
    for (const auto& [name, value] : options) {
      names.push_back(name.c_str());
      values.push_back(value.c_str());
    }
    tw_compile_options given = {};
    given.struct_size = sizeof given;
    given.option_names = names.data();
    given.option_values = values.data();
    given.option_count = static_cast<int64_t>(names.size());
    tw_executable* executable;
    check(tw_compile(session_, graph.get(), &given, &executable));
    return Executable(executable);
  }
  Tensor allocate(DType dtype, const Sizes& sizes) const {
    DLManagedTensorVersioned* tensor;
    check(tw_session_allocate(session_, dtype, sizes.data(), static_cast<int32_t>(sizes.size()), &tensor));
    return Tensor(tensor);
  }
  Tensor allocate_on_device(DType dtype, const Sizes& sizes, void* stream = nullptr) const {
    DLManagedTensorVersioned* tensor;
    check(tw_session_allocate_on_device(session_, dtype, sizes.data(), static_cast<int32_t>(sizes.size()), stream, &tensor));
    return Tensor(tensor);
  }
  // Between tensors of one type and sizes, wherever they lie.
  void copy(const Tensor& from, const Tensor& to, void* stream = nullptr) const {
    check(tw_session_copy(session_, from.get(), to.get(), stream));
  }
  Tensor to_host(const Tensor& from, void* stream = nullptr) const {
    Tensor made(from.dtype(), from.sizes());
    copy(from, made, stream);
    return made;
  }
  Tensor to_device(const Tensor& from, void* stream = nullptr) const {
    Tensor made = allocate_on_device(from.dtype(), from.sizes(), stream);
    copy(from, made, stream);
    return made;
  }
  void synchronize(void* stream = nullptr) const { check(tw_session_synchronize(session_, stream)); }
  std::string report() const {
    tw_text* json;
    check(tw_session_report(session_, &json));
    return take(json);
  }
  std::string option(const char* name) const {
    const char* value;
    check(tw_session_option(session_, name, &value, nullptr));
    return value;
  }
  void register_custom_call(const tw_custom_call& call) { check(tw_session_register_custom_call(session_, &call)); }

 private:
  tw_session* session_ = nullptr;
};

// ---- ops on values -------------------------------------------------------------------------------------------------------

// Any op by name on values of one graph.
inline std::vector<Value> ops(int32_t op, const std::vector<Value>& operands, const Attributes& attributes = {}) {
  tw_graph* graph = nullptr;
  for (const Value& operand : operands)
    if (operand && !graph) graph = operand.graph();
  return Graph::append(graph, op, operands, attributes);
}
inline Value op(int32_t id, const std::vector<Value>& operands, const Attributes& attributes = {}) {
  const std::vector<Value> results = ops(id, operands, attributes);
  if (results.empty()) throw std::invalid_argument(std::string(tw_op_name(id)) + ": has no result");
  return results[0];
}
inline Value op(const char* name, const std::vector<Value>& operands, const Attributes& attributes = {}) {
  return op(Graph::find(name), operands, attributes);
}

inline Value constant_like(Value like, double number, const Shape& shape = {}) {
  return Graph::splat(like.graph(), number, like.dtype(), shape);
}
// A value that must be there; `what` is named in the error.
inline Value present(const char* what, Value x) {
  if (!x) throw std::invalid_argument(std::string(what) + ": the value is absent");
  return x;
}
inline Value convert(Value x, DType dtype) { return present("tw::convert", x).dtype() == dtype ? x : op(TW_OP_CONVERT, {x}, {{"dtype", dtype}}); }
inline Value reshape(Value x, const Shape& shape) { return op(TW_OP_RESHAPE, {x}, {{"shape", shape}}); }
inline Value transpose(Value x, const Sizes& perm) { return op(TW_OP_TRANSPOSE, {x}, {{"perm", perm}}); }
inline Value broadcast_in_dim(Value x, const Shape& shape, const Sizes& dims) {
  return op(TW_OP_BROADCAST_IN_DIM, {x}, {{"shape", shape}, {"dims", dims}});
}
// Trailing dims aligned, literal 1s repeated; the value itself when nothing is to be done.
inline Value broadcast_to(Value x, const Shape& shape) {
  const Shape from = x.shape();
  if (from == shape) return x;
  Sizes dims;
  for (size_t axis = 0; axis < from.size(); ++axis)
    dims.push_back(static_cast<int64_t>(axis + shape.size() - std::min(from.size(), shape.size())));
  return broadcast_in_dim(x, shape, dims);
}
// The shape that two operands are broadcast to.
inline Shape broadcast_shape(const Shape& a, const Shape& b) {
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  Shape shape = longer;
  for (size_t axis = 0; axis < shorter.size(); ++axis) {
    Dim& dim = shape[axis + longer.size() - shorter.size()];
    if (dim.is_one()) dim = shorter[axis];
  }
  return shape;
}
inline Value binary(int32_t id, Value a, Value b, const Attributes& attributes = {}) {
  present(tw_op_name(id), a), present(tw_op_name(id), b);
  const Shape shape = broadcast_shape(a.shape(), b.shape());
  return op(id, {broadcast_to(a, shape), broadcast_to(b, shape)}, attributes);
}
inline Value binary(int32_t id, Value a, double b, const Attributes& attributes = {}) {
  present(tw_op_name(id), a);
  return op(id, {a, constant_like(a, b, a.shape())}, attributes);
}
inline Value binary(int32_t id, double a, Value b, const Attributes& attributes = {}) {
  present(tw_op_name(id), b);
  return op(id, {constant_like(b, a, b.shape()), b}, attributes);
}

inline Value operator-(Value a) { return op(TW_OP_NEGATE, {a}); }
#define TW_BINARY(name, id)                                              \
  inline Value name(Value a, Value b) { return binary(id, a, b); }       \
  inline Value name(Value a, double b) { return binary(id, a, b); }      \
  inline Value name(double a, Value b) { return binary(id, a, b); }
TW_BINARY(operator+, TW_OP_ADD)
TW_BINARY(operator-, TW_OP_SUBTRACT)
TW_BINARY(operator*, TW_OP_MULTIPLY)
TW_BINARY(operator/, TW_OP_DIVIDE)
TW_BINARY(maximum, TW_OP_MAXIMUM)
TW_BINARY(minimum, TW_OP_MINIMUM)
TW_BINARY(power, TW_OP_POWER)
#undef TW_BINARY
#define TW_COMPARE(name, direction)                                                                             \
  inline Value name(Value a, Value b) { return binary(TW_OP_COMPARE, a, b, {{"direction", direction}}); }       \
  inline Value name(Value a, double b) { return binary(TW_OP_COMPARE, a, b, {{"direction", direction}}); }
TW_COMPARE(equal, "EQ")
TW_COMPARE(not_equal, "NE")
TW_COMPARE(less, "LT")
TW_COMPARE(less_equal, "LE")
TW_COMPARE(greater, "GT")
TW_COMPARE(greater_equal, "GE")
#undef TW_COMPARE
#define TW_UNARY(name, id) inline Value name(Value x) { return op(id, {x}); }
TW_UNARY(abs, TW_OP_ABS)
TW_UNARY(exp, TW_OP_EXPONENTIAL)
TW_UNARY(log, TW_OP_LOG)
TW_UNARY(sqrt, TW_OP_SQRT)
TW_UNARY(rsqrt, TW_OP_RSQRT)
TW_UNARY(sin, TW_OP_SINE)
TW_UNARY(cos, TW_OP_COSINE)
TW_UNARY(tanh, TW_OP_TANH)
TW_UNARY(sigmoid, TW_OP_LOGISTIC)
TW_UNARY(erf, TW_OP_ERF)
TW_UNARY(relu, TW_OP_RELU)
TW_UNARY(silu, TW_OP_SILU)
TW_UNARY(square, TW_OP_SQUARE)
TW_UNARY(stop_gradient, TW_OP_STOP_GRADIENT)
#undef TW_UNARY
inline Value gelu(Value x, const char* approximate = "none") {
  return op(TW_OP_GELU, {x}, {{"approximate", approximate}});
}
inline Value select(Value pred, Value on_true, Value on_false) { return op(TW_OP_SELECT, {pred, on_true, on_false}); }

// Axes count from the end when negative; `what` is named when one does not exist.
inline int64_t axis_of(const char* what, Value x, int64_t axis) {
  return static_cast<int64_t>(Value::checked_axis(what, axis, present(what, x).rank()));
}
inline Sizes axes_of(const char* what, Value x, Sizes axes) {
  for (int64_t& axis : axes) axis = axis_of(what, x, axis);
  return axes;
}
inline Value reduce(int32_t id, Value x, const Sizes& axes, bool keepdims) {
  return op(id, {x}, {{"dims", axes_of(tw_op_name(id), x, axes)}, {"keepdims", keepdims}});
}
inline Value sum(Value x, const Sizes& axes, bool keepdims = false) { return reduce(TW_OP_REDUCE_SUM, x, axes, keepdims); }
inline Value max(Value x, const Sizes& axes, bool keepdims = false) { return reduce(TW_OP_REDUCE_MAX, x, axes, keepdims); }
inline Value min(Value x, const Sizes& axes, bool keepdims = false) { return reduce(TW_OP_REDUCE_MIN, x, axes, keepdims); }
// Sizes must be known.
inline Value mean(Value x, const Sizes& axes, bool keepdims = false) {
  double count = 1;
  const Sizes dims = axes_of("tw::mean", x, axes);
  const Shape shape = x.shape();
  for (int64_t axis : dims) {
    const Dim dim = shape[static_cast<size_t>(axis)];
    if (!dim.is_constant()) throw std::invalid_argument("tw::mean: the size of axis " + std::to_string(axis) + " is symbolic");
    count *= static_cast<double>(dim.handle());
  }
  return sum(x, dims, keepdims) / count;
}
inline Value concatenate(const std::vector<Value>& values, int64_t axis) {
  if (values.empty()) throw std::invalid_argument("tw::concatenate: no values are given");
  return op(TW_OP_CONCATENATE, values, {{"dim", axis_of("tw::concatenate", values[0], axis)}});
}
inline Value slice(Value x, const Shape& start, const Shape& limit, const Sizes& stride = {}) {
  return op(TW_OP_SLICE, {x}, {{"start", start}, {"limit", limit}, {"stride", stride}});
}
inline Value narrow(Value x, int64_t axis, Dim start, Dim length) {
  return op(TW_OP_NARROW, {x}, {{"dim", axis_of("tw::narrow", x, axis)}, {"start", Shape{start}}, {"length", Shape{length}}});
}
inline std::vector<Value> split(Value x, int64_t axis, const Shape& sizes) {
  return ops(TW_OP_SPLIT, {x}, {{"dim", axis_of("tw::split", x, axis)}, {"sizes", sizes}});
}

// [.., m, k] x [.., k, n]; equal leading dims are batch dims; a right operand of rank 2 is shared by all of them.
inline Value matmul(Value a, Value b, bool transpose_a = false, bool transpose_b = false) {
  const int64_t ra = present("tw::matmul", a).rank(), rb = present("tw::matmul", b).rank();
  if (ra < 2 || rb < 2)
    throw std::invalid_argument("tw::matmul: operands of rank " + std::to_string(ra) + " and " + std::to_string(rb) +
                                ", expected rank 2 or more");
  if (rb > 2 && ra != rb)
    throw std::invalid_argument("tw::matmul: operands of rank " + std::to_string(ra) + " and " + std::to_string(rb) +
                                ", expected equal ranks or a right operand of rank 2");
  const int64_t a_contract = transpose_a ? ra - 2 : ra - 1, b_contract = transpose_b ? rb - 1 : rb - 2;
  Sizes batch;
  if (rb > 2)
    for (int64_t axis = 0; axis < rb - 2; ++axis) batch.push_back(axis);
  return op(TW_OP_DOT_GENERAL, {a, b},
            {{"lhs_contract", Sizes{a_contract}}, {"rhs_contract", Sizes{b_contract}}, {"lhs_batch", batch}, {"rhs_batch", batch}});
}
inline Value softmax(Value x, int64_t axis) { return op(TW_OP_SOFTMAX, {x}, {{"dim", axis_of("tw::softmax", x, axis)}}); }
inline Value log_softmax(Value x, int64_t axis) { return op(TW_OP_LOG_SOFTMAX, {x}, {{"dim", axis_of("tw::log_softmax", x, axis)}}); }
// Over the last axis; w and b may be absent.
inline Value layer_norm(Value x, Value w = {}, Value b = {}, double eps = 1e-5) {
  return op(TW_OP_LAYER_NORM, {x, w, b}, {{"axes", Sizes{axis_of("tw::layer_norm", x, -1)}}, {"eps", eps}});
}
inline Value rms_norm(Value x, Value w = {}, double eps = 1e-6) {
  return op(TW_OP_RMS_NORM, {x, w}, {{"axes", Sizes{axis_of("tw::rms_norm", x, -1)}}, {"eps", eps}});
}
struct Dropout {
  Value y, mask, state;
};
inline Dropout dropout(Value x, Value state, double p) {
  const std::vector<Value> r = ops(TW_OP_DROPOUT, {x, state}, {{"p", p}});
  return {r[0], r[1], r[2]};
}
struct AttentionOptions {
  std::optional<double> scale;
  bool causal = false;
  Value mask, state;  // state: of the random generator, needed for dropout
  double dropout = 0;
};
struct Attention {
  Value y, lse, state;
};
// q [b, h, s, d], k and v [b, hk, t, d].
inline Attention attention(Value q, Value k, Value v, const AttentionOptions& options = {}) {
  Attributes attributes = {{"causal", options.causal}};
  if (options.scale) attributes.emplace_back("scale", *options.scale);
  if (options.dropout != 0) attributes.emplace_back("dropout", options.dropout);
  const std::vector<Value> r = ops(TW_OP_ATTENTION, {q, k, v, options.mask, options.state}, attributes);
  return {r[0], r[1], r[2]};
}
inline Value embedding(Value table, Value indices) { return op(TW_OP_EMBEDDING, {table, indices}); }
// Logits [n, c], targets [n]; the loss in f32.
inline Value cross_entropy(Value logits, Value target, const char* reduction = "mean") {
  return op(TW_OP_CROSS_ENTROPY, {logits, target}, {{"reduction", reduction}});
}
struct AdamwOptions {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01;
};
struct Adamw {
  Value p, m, v;
};
// step (from 1) and lr are f32 scalars.
inline Adamw adamw(Value p, Value g, Value m, Value v, Value step, Value lr, const AdamwOptions& options = {}) {
  const std::vector<Value> r = ops(TW_OP_ADAMW, {p, g, m, v, Value(), step, lr},
                                   {{"beta1", options.beta1}, {"beta2", options.beta2}, {"eps", options.eps},
                                    {"weight_decay", options.weight_decay}});
  return {r[0], r[1], r[2]};
}
struct Clipped {
  std::vector<Value> values;
  Value norm;
};
// All values times min(1, max_norm / norm); max_norm is an f32 scalar.
inline Clipped clip_global_norm(const std::vector<Value>& values, Value max_norm) {
  std::vector<Value> operands = values;
  operands.push_back(max_norm);
  std::vector<Value> r = ops(TW_OP_GLOBAL_NORM_CLIP, operands);
  const Value norm = r.back();
  r.pop_back();
  return {std::move(r), norm};
}

// ---- JSON-free access to what exists -------------------------------------------------------------------------------------

inline std::string targets() {
  tw_text* json;
  check(tw_targets(&json));
  return take(json);
}

}  // namespace tw

#endif  // TILEWRIGHT_HPP_
