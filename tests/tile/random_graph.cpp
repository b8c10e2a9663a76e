// Draws graphs: a pool of values over a few common dims, and one function a family of ops that adds to it.
#include "tests/tile/random_graph.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "base/text.h"
#include "ir/inference.h"

namespace tilewright::tile_tests {

namespace {

class Generator {
 public:
  Generator(uint64_t seed, Graph& graph, Bindings& bindings)
      : random_(seed), graph_(graph), bindings_(bindings), b_(graph) {}

  Status run(int steps) {
    draw_dims();
    int inputs = pick(1, 3);
    for (int i = 0; i < inputs; ++i) add_input(draw_dtype(), draw_shape());
    for (int i = 0; i < steps && b_.status().is_ok(); ++i) step();
    choose_outputs();
    return b_.status();
  }

 private:
  // ---- drawing
  int64_t pick(int64_t lo, int64_t hi) { return random_.integer(lo, hi); }
  bool chance(int percent) { return pick(1, 100) <= percent; }
  template <class T>
  const T& one_of(const std::vector<T>& list) {
    return list[static_cast<size_t>(pick(0, static_cast<int64_t>(list.size()) - 1))];
  }

  void draw_dims() {
    if (chance(12)) {  // rows that loop, grids of several tiles
      max_elements_ = 150000;
      dims_.push_back(Dim(pick(2000, 40000)));
    }
    static const std::vector<int64_t> sizes{1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 31, 32, 33, 64, 67, 100, 130};
    int count = static_cast<int>(pick(2, 4));
    for (int i = 0; i < count; ++i) dims_.push_back(Dim(one_of(sizes)));
    if (chance(4)) dims_.push_back(Dim(0));
    if (chance(4)) dims_.push_back(Dim(pick(300, 3000)));
    if (chance(40)) {
      Symbol symbol{"N", 1, 4096, pick(1, 2) == 1 ? 64 : 7};
      graph_.symbols.push_back(symbol);
      bindings_["N"] = one_of(std::vector<int64_t>{1, 2, 3, 7, 8, 17, 33, 64, 100});
      dims_.push_back(Dim::symbol("N"));
      if (chance(30)) dims_.push_back(Dim::symbol("N") * Dim(2) + Dim(1));
    }
  }

  int64_t value_of(const Dim& dim) const {
    Result<int64_t> value = dim.evaluate(bindings_);
    return value.is_ok() ? *value : 0;
  }
  int64_t elements(const Shape& shape) const {
    int64_t count = 1;
    for (const Dim& dim : shape) count *= value_of(dim);
    return count;
  }
  bool fits(const Shape& shape) const { return shape.size() <= 5 && elements(shape) <= max_elements_; }

  Shape draw_shape() {
    while (true) {
      Shape shape;
      int rank = static_cast<int>(pick(0, 10));
      rank = rank > 4 ? static_cast<int>(pick(1, 3)) : rank;
      for (int i = 0; i < rank; ++i) shape.push_back(one_of(dims_));
      if (fits(shape)) return shape;
    }
  }

  DType draw_dtype() {
    if (chance(60)) return DType::F32;
    return one_of(std::vector<DType>{DType::F64, DType::F16, DType::BF16, DType::I32, DType::I64, DType::U8,
                                     DType::I8, DType::U32, DType::Bool});
  }

  // ---- pool
  ValueId add_input(DType dtype, Shape shape) {
    ValueId value = graph_.add_input({}, TensorType{dtype, std::move(shape)});
    pool_.push_back(value);
    return value;
  }
  ValueId keep(ValueId value, bool inexact) {
    if (!b_.status().is_ok() || !value.is_valid()) return value;
    if (inexact && is_float(b_.dtype(value))) inexact_.insert(value.index);
    pool_.push_back(value);
    return value;
  }
  bool is_inexact(ValueId value) const { return inexact_.count(value.index) > 0; }
  bool any_inexact(const std::vector<ValueId>& values) const {
    return std::any_of(values.begin(), values.end(), [&](ValueId value) { return is_inexact(value); });
  }

  ValueId any() { return chance(50) ? pool_.back() : one_of(pool_); }
  template <class Accept>
  ValueId find(Accept accept) {
    for (int attempt = 0; attempt < 12; ++attempt) {
      ValueId value = any();
      if (accept(value)) return value;
    }
    return {};
  }
  ValueId any_float() {
    return find([&](ValueId value) { return is_float(b_.dtype(value)); });
  }
  ValueId any_number() {
    return find([&](ValueId value) { return b_.dtype(value) != DType::Bool; });
  }
  // A value of that type: from the pool, by broadcast, or new.
  ValueId partner(const TensorType& type) {
    ValueId found = find([&](ValueId value) { return b_.type(value) == type; });
    if (found.is_valid() && chance(60)) return found;
    if (chance(35)) return broadcast_up(type);
    if (chance(30)) return b_.constant(static_cast<double>(pick(1, 3)) / 2, type.dtype, type.shape);
    if (type.dtype == DType::F32 && chance(20)) return dense_constant(type);
    return add_input(type.dtype, type.shape);
  }
  ValueId broadcast_up(const TensorType& type) {
    Shape part;
    Ints dims;
    for (size_t i = 0; i < type.shape.size(); ++i) {
      if (chance(50)) continue;
      part.push_back(chance(20) ? Dim(1) : type.shape[i]);
      dims.push_back(static_cast<int64_t>(i));
    }
    return b_.broadcast(add_input(type.dtype, part), type.shape, dims);
  }
  ValueId dense_constant(const TensorType& type) {
    if (!type.is_static()) return add_input(type.dtype, type.shape);
    std::vector<float> values(static_cast<size_t>(elements(type.shape)));
    for (float& value : values) value = static_cast<float>(random_.uniform(-2, 2));
    Result<ConstantRef> constant =
        make_constant(type, false, values.data(), static_cast<int64_t>(values.size() * sizeof(float)));
    if (!constant.is_ok()) return add_input(type.dtype, type.shape);
    return b_.emit(Op::Constant, {}, {{"value", *constant}});
  }
  ValueId index_input(DType dtype, Shape shape, int64_t below) {
    // Indices are made of random bits, so that inputs need no rule of their own: |x| mod (below + 2) - 1.
    ValueId raw = add_input(DType::I32, std::move(shape));
    pool_.pop_back();
    ValueId magnitude = b_.emit(Op::Abs, {b_.emit(Op::Multiply, {raw, b_.constant_like(7, raw)})});
    ValueId bounded = b_.emit(Op::Remainder, {magnitude, b_.integer(below + 2, DType::I32, b_.shape(raw))});
    return b_.convert(b_.subtract(bounded, b_.constant_like(1, bounded)), dtype);
  }

  // ---- families
  void step() {
    switch (pick(0, 29)) {
      case 0:
      case 1:
      case 2: return unary();
      case 3:
      case 4:
      case 5:
      case 6: return binary();
      case 7: return compare_select();
      case 8: return convert();
      case 9: return broadcast();
      case 10:
      case 11: return transpose();
      case 12:
      case 13: return reshape();
      case 14: return slice();
      case 15: return pad();
      case 16: return concatenate();
      case 17: return reverse();
      case 18:
      case 19:
      case 20: return reduce();
      case 21: return argreduce();
      case 22: return softmax();
      case 23: return layer_norm();
      case 24: return gather();
      case 25: return dynamic();
      case 26: return chance(50) ? scan() : window();
      case 27: return chance(70) ? dot() : convolution();
      case 28: return scatter();
      default: return chance(40) ? random_bits() : sort();
    }
  }

  void unary() {
    ValueId x = any();
    DType dtype = b_.dtype(x);
    if (dtype == DType::Bool) {
      keep(b_.emit(Op::Not, {x}), false);
      return;
    }
    if (!is_float(dtype)) {
      bool bits = chance(30);
      Op op = one_of(bits ? std::vector<Op>{Op::Popcnt, Op::CountLeadingZeros, Op::Not}
                          : std::vector<Op>{Op::Abs, Op::Negate, Op::Sign});
      keep(b_.emit(op, {x}), false);
      return;
    }
    static const std::vector<Op> smooth{Op::Abs,  Op::Negate, Op::Tanh, Op::Logistic,
                                        Op::Sine, Op::Cosine, Op::Erf,  Op::Negate};
    static const std::vector<Op> others{Op::Floor, Op::Ceil,  Op::Sign,        Op::RoundNearestEven,
                                        Op::Trunc, Op::Sqrt,  Op::Exponential, Op::LogPlusOne,
                                        Op::Cbrt,  Op::Rsqrt, Op::IsFinite,    Op::ExponentialMinusOne};
    bool loose = is_inexact(x);
    Op op = loose || chance(50) ? one_of(smooth) : one_of(others);
    if (op == Op::Sqrt || op == Op::LogPlusOne || op == Op::Rsqrt) x = b_.shift(b_.emit(Op::Abs, {x}), 0.5);
    if (op == Op::Exponential || op == Op::ExponentialMinusOne) x = b_.emit(Op::Tanh, {x});
    keep(b_.emit(op, {x}), loose);
  }

  void binary() {
    ValueId x = any(), y = partner(b_.type(x));
    if (chance(50)) std::swap(x, y);
    DType dtype = b_.dtype(x);
    std::vector<Op> ops{Op::Add, Op::Subtract, Op::Multiply, Op::Maximum, Op::Minimum};
    bool loose = is_inexact(x) || is_inexact(y);
    if (dtype == DType::Bool) ops = {Op::And, Op::Or, Op::Xor, Op::Maximum};
    if (is_integer(dtype) && chance(40)) ops = {Op::And, Op::ShiftLeft, Op::Xor, Op::Divide, Op::Remainder};
    if (is_float(dtype) && !loose && chance(30)) ops = {Op::Divide, Op::Atan2, Op::Remainder};
    keep(b_.emit(one_of(ops), {x, y}), loose);
  }

  void compare_select() {
    ValueId x = find([&](ValueId value) { return !is_inexact(value); });
    if (!x.is_valid()) return;
    ValueId y = partner(b_.type(x));
    if (is_inexact(y)) return;
    ValueId pred = b_.compare(x, y, one_of(std::vector<const char*>{"EQ", "NE", "GE", "GT", "LE", "LT"}));
    if (chance(20)) keep(pred, false);
    TensorType type{chance(50) ? b_.dtype(x) : DType::F32, b_.shape(x)};
    ValueId a = partner(type), c = partner(type);
    bool loose = is_inexact(a) || is_inexact(c);
    if (is_float(type.dtype) && chance(25)) {
      ValueId low = b_.constant(-0.75, type.dtype), high = b_.constant(1.25, type.dtype);
      a = b_.emit(Op::Clamp, {low, a, high});
    }
    keep(b_.select(pred, a, c), loose);
  }

  void convert() {
    ValueId x = any();
    DType to = draw_dtype();
    if (is_inexact(x) && !is_float(to)) return;
    bool loose = is_inexact(x);
    keep(b_.convert(x, to), loose);
  }

  void broadcast() {
    ValueId x = any();
    Shape shape;
    Ints dims;
    const Shape from = b_.shape(x);
    for (size_t i = 0; i <= from.size(); ++i) {
      if (chance(30)) shape.push_back(one_of(dims_));
      if (i == from.size()) break;
      dims.push_back(static_cast<int64_t>(shape.size()));
      shape.push_back(from[i].is_constant(1) && chance(60) ? one_of(dims_) : from[i]);
    }
    if (fits(shape)) keep(b_.broadcast(x, shape, dims), is_inexact(x));
  }

  Ints shuffled(size_t count) {
    Ints order(count);
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = count; i > 1; --i) {
      std::swap(order[i - 1], order[static_cast<size_t>(pick(0, static_cast<int64_t>(i) - 1))]);
    }
    return order;
  }

  void transpose() {
    ValueId x = any();
    keep(b_.transpose(x, shuffled(b_.shape(x).size())), is_inexact(x));
  }

  void reshape() {
    ValueId x = any();
    Shape shape = b_.shape(x), to;
    for (size_t i = 0; i < shape.size(); ++i) {
      if (!to.empty() && chance(40)) {
        to.back() = to.back() * shape[i];
      } else {
        to.push_back(shape[i]);
      }
    }
    Shape split;
    for (const Dim& dim : to) {
      if (chance(15)) split.push_back(Dim(1));
      int64_t size = dim.is_constant() ? dim.constant() : 0;
      int64_t factor = pick(2, 4);
      if (size > 0 && size % factor == 0 && chance(50)) {
        bool first = chance(50);
        split.push_back(Dim(first ? factor : size / factor));
        split.push_back(Dim(first ? size / factor : factor));
      } else if (!(size == 1 && chance(50))) {
        split.push_back(dim);
      }
    }
    if (fits(split)) keep(b_.reshape(x, split), is_inexact(x));
  }

  // A part [start, limit) of a dim, maybe empty.
  std::pair<Dim, Dim> part_of(const Dim& dim) {
    int64_t size = dim.is_constant() ? dim.constant() : 1;  // symbols are at least 1
    if (chance(40)) return {Dim(0), dim};
    int64_t start = pick(0, size), limit = chance(5) ? start : pick(start, size);
    if (limit == start && start < size && !chance(5)) ++limit;
    if (!dim.is_constant() && chance(50)) return {Dim(pick(0, 1)), dim};
    return {Dim(start), Dim(limit)};
  }

  void slice() {
    ValueId x = any();
    Shape start, limit;
    Ints stride;
    for (const Dim& dim : Shape(b_.shape(x))) {
      auto [from, to] = part_of(dim);
      start.push_back(from);
      limit.push_back(to);
      stride.push_back(chance(70) ? 1 : pick(2, 3));
    }
    keep(b_.slice(x, start, limit, stride), is_inexact(x));
  }

  void pad() {
    ValueId x = any();
    Shape lo, hi, result;
    Ints interior;
    for (const Dim& dim : Shape(b_.shape(x))) {
      int64_t low = chance(50) ? 0 : pick(-1, 3), high = chance(50) ? 0 : pick(-1, 3);
      int64_t spread = chance(80) ? 0 : pick(1, 2);
      if (value_of(dim) < 2 || !dim.is_constant())
        low = std::max<int64_t>(low, 0), high = std::max<int64_t>(high, 0);
      lo.push_back(Dim(low));
      hi.push_back(Dim(high));
      interior.push_back(spread);
      result.push_back(Dim(value_of(dim) * (spread + 1) + low + high));
    }
    if (!fits(result)) return;
    ValueId value = chance(70) ? b_.constant(1.5, b_.dtype(x)) : add_input(b_.dtype(x), {});
    keep(b_.pad(x, value, lo, hi, interior), is_inexact(x));
  }

  void concatenate() {
    ValueId x = find([&](ValueId value) { return !b_.shape(value).empty(); });
    if (!x.is_valid()) return;
    TensorType type = b_.type(x);
    int64_t dim = pick(0, type.rank() - 1);
    std::vector<ValueId> parts{x};
    int count = static_cast<int>(pick(0, 2));
    Dim total = type.shape[dim];
    for (int i = 0; i < count; ++i) {
      TensorType other = type;
      if (chance(50)) other.shape[dim] = one_of(dims_);
      total = total + other.shape[dim];
      parts.push_back(partner(other));
    }
    type.shape[dim] = total;
    if (!fits(type.shape)) return;
    std::swap(parts[0], parts[static_cast<size_t>(pick(0, count))]);
    keep(b_.concatenate(parts, dim), any_inexact(parts));
  }

  Ints some_dims(size_t rank, bool at_least_one) {
    Ints dims;
    for (size_t i = 0; i < rank; ++i) {
      if (chance(40)) dims.push_back(static_cast<int64_t>(i));
    }
    if (dims.empty() && at_least_one && rank > 0) dims.push_back(pick(0, static_cast<int64_t>(rank) - 1));
    return dims;
  }

  void reverse() {
    ValueId x = any();
    keep(b_.emit(Op::Reverse, {x}, {{"dims", some_dims(b_.shape(x).size(), true)}}), is_inexact(x));
  }

  void reduce() {
    ValueId x = any();
    DType dtype = b_.dtype(x);
    std::vector<Op> ops{Op::ReduceSum, Op::ReduceSum, Op::ReduceMax, Op::ReduceMin};
    if (is_integer(dtype))
      ops = {Op::ReduceSum, Op::ReduceProduct, Op::ReduceMax, Op::ReduceAnd, Op::ReduceXor};
    if (dtype == DType::Bool) ops = {Op::ReduceAnd, Op::ReduceOr, Op::ReduceMax};
    Op op = one_of(ops);
    Ints dims = some_dims(b_.shape(x).size(), true);
    bool loose = is_inexact(x) || op == Op::ReduceSum;
    keep(b_.emit(op, {x}, {{"dims", dims}, {"keepdims", chance(30)}}), loose);
  }

  void argreduce() {
    ValueId x = find([&](ValueId value) { return !is_inexact(value) && !b_.shape(value).empty(); });
    if (!x.is_valid()) return;
    int64_t dim = pick(0, b_.rank(x) - 1);
    if (value_of(b_.shape(x)[dim]) == 0) return;
    AttributeMap attributes{{"dim", dim}, {"keepdims", chance(30)}};
    if (chance(30)) attributes["index_type"] = DType::I32;
    keep(b_.emit(chance(50) ? Op::Argmax : Op::Argmin, {x}, attributes), false);
  }

  void softmax() {
    ValueId x = find([&](ValueId value) { return is_float(b_.dtype(value)) && b_.rank(value) > 0; });
    if (!x.is_valid()) return;
    Shape shape = b_.shape(x);
    Ints dims{pick(0, b_.rank(x) - 1)};
    ValueId top = b_.broadcast_reduced(b_.reduce_max(x, dims), shape, dims);
    ValueId e = b_.exponential(b_.subtract(b_.emit(Op::Tanh, {x}), b_.emit(Op::Tanh, {top})));
    ValueId sum = b_.broadcast_reduced(b_.reduce_sum(e, dims), shape, dims);
    keep(b_.divide(e, sum), true);
    if (chance(20)) keep(sum, true);
  }

  void layer_norm() {
    ValueId x = find([&](ValueId value) { return is_float(b_.dtype(value)) && b_.rank(value) > 0; });
    if (!x.is_valid()) return;
    Shape shape = b_.shape(x);
    Ints dims;
    for (int64_t i = pick(0, b_.rank(x) - 1); i < b_.rank(x); ++i) dims.push_back(i);
    double scale = 1.0 / static_cast<double>(std::max<int64_t>(1, elements(shape)));
    auto mean = [&](ValueId value) {
      return b_.broadcast_reduced(b_.scale(b_.reduce_sum(value, dims), scale), shape, dims);
    };
    ValueId bounded = b_.emit(Op::Tanh, {x});
    ValueId centered = b_.subtract(bounded, mean(bounded));
    ValueId variance = mean(b_.multiply(centered, centered));
    ValueId normal = b_.multiply(centered, b_.emit(Op::Rsqrt, {b_.shift(variance, 1)}));
    keep(normal, true);
    ValueId weight = add_input(b_.dtype(x), {shape.back()});
    keep(b_.multiply(normal, b_.broadcast(weight, shape, {b_.rank(x) - 1})), true);
  }

  std::string policy() { return one_of(std::vector<std::string>{"clamp", "drop"}); }

  void gather() {
    ValueId x = find([&](ValueId value) { return b_.rank(value) > 0 && elements(b_.shape(value)) > 0; });
    if (!x.is_valid()) return;
    Shape shape = b_.shape(x);
    int64_t dim = pick(0, b_.rank(x) - 1);
    DType index_type = chance(50) ? DType::I32 : DType::I64;
    if (chance(50)) {
      Shape to = shape;
      to[dim] = Dim(pick(1, 9));
      if (chance(30)) {
        for (size_t i = 0; i < to.size(); ++i) {
          if (static_cast<int64_t>(i) != dim && to[i].is_constant()) to[i] = Dim(pick(1, to[i].constant()));
        }
      }
      if (!fits(to)) return;
      if (chance(30)) {  // indices that are right at each element, and wrong behind the last
        to[dim] = shape[dim];
        ValueId positions = b_.emit(Op::Iota, {}, {{"shape", to}, {"dim", dim}, {"dtype", index_type}});
        keep(b_.emit(Op::GatherElements, {x, positions}, {{"dim", dim}, {"oob", std::string("error")}}),
             is_inexact(x));
        return;
      }
      ValueId indices = index_input(index_type, to, value_of(shape[dim]));
      keep(b_.emit(Op::GatherElements, {x, indices}, {{"dim", dim}, {"oob", policy()}, {"fill", 0.5}}),
           is_inexact(x));
      return;
    }
    Shape batch = chance(70) ? Shape{Dim(pick(1, 9))} : Shape{Dim(pick(1, 3)), Dim(pick(1, 4))};
    Shape start = batch;
    start.push_back(Dim(1));
    bool collapse = chance(70);
    Shape sizes = shape;
    sizes[dim] = Dim(1);
    if (!collapse && shape[dim].is_constant()) sizes[dim] = Dim(pick(1, shape[dim].constant()));
    Ints offset_dims, collapsed;
    if (collapse) collapsed.push_back(dim);
    int64_t result_rank = static_cast<int64_t>(batch.size() + shape.size()) - collapse;
    bool batch_first = chance(60);
    for (int64_t i = 0; i < static_cast<int64_t>(shape.size()) - collapse; ++i) {
      offset_dims.push_back(batch_first ? result_rank - static_cast<int64_t>(shape.size()) + collapse + i
                                        : i);
    }
    if (elements(batch) * elements(sizes) > max_elements_) return;
    ValueId indices = index_input(index_type, start, value_of(shape[dim]));
    keep(b_.emit(Op::Gather, {x, indices},
                 {{"offset_dims", offset_dims},
                  {"collapsed", collapsed},
                  {"start_index_map", Ints{dim}},
                  {"index_vector_dim", static_cast<int64_t>(batch.size())},
                  {"slice_sizes", sizes},
                  {"oob", policy()},
                  {"fill", 2.0}}),
         is_inexact(x));
  }

  void dynamic() {
    ValueId x = find([&](ValueId value) { return b_.rank(value) > 0 && elements(b_.shape(value)) > 0; });
    if (!x.is_valid()) return;
    Shape shape = b_.shape(x), sizes;
    std::vector<ValueId> operands{x};
    for (const Dim& dim : shape) {
      sizes.push_back(dim.is_constant() && chance(70) ? Dim(pick(1, dim.constant())) : dim);
    }
    bool update = chance(50);
    if (update) operands.push_back(partner({b_.dtype(x), sizes}));
    bool loose = any_inexact(operands);
    for (const Dim& dim : shape) operands.push_back(index_input(DType::I64, {}, value_of(dim)));
    if (update) {
      keep(b_.emit(Op::DynamicUpdateSlice, operands), loose);
    } else {
      keep(b_.emit(Op::DynamicSlice, operands, {{"sizes", sizes}}), loose);
    }
  }

  void scan() {
    ValueId x = find([&](ValueId value) { return b_.rank(value) > 0 && b_.dtype(value) != DType::Bool; });
    if (!x.is_valid()) return;
    int64_t dim = pick(0, b_.rank(x) - 1);
    AttributeMap attributes{{"dim", dim}, {"reverse", chance(40)}};
    int kind = static_cast<int>(pick(0, 4));
    if (kind <= 1) {
      attributes["exclusive"] = chance(40);
      keep(b_.emit(Op::CumulativeSum, {x}, attributes), true);
    } else if (kind == 2 && !is_inexact(x)) {
      std::vector<ValueId> results =
          b_.emit_all(chance(50) ? Op::CumulativeMax : Op::CumulativeMin, {x}, attributes);
      for (ValueId result : results) keep(result, false);
    } else if (kind == 3 && is_float(b_.dtype(x))) {
      ValueId decay = b_.emit(Op::Tanh, {partner(b_.type(x))});
      std::vector<ValueId> operands{decay, x};
      if (chance(50)) {
        Shape start = b_.shape(x);
        start.erase(start.begin() + dim);
        operands.push_back(add_input(b_.dtype(x), start));
      }
      keep(b_.emit(Op::LinearRecurrence, operands, attributes), true);
    } else if (is_float(b_.dtype(x))) {
      keep(b_.emit(Op::CumulativeLogsumexp, {x}, attributes), true);
    }
  }

  void window() {
    ValueId x = find([&](ValueId value) {
      return b_.rank(value) > 0 && b_.dtype(value) != DType::Bool && b_.type(value).is_static() &&
             elements(b_.shape(value)) > 0;
    });
    if (!x.is_valid()) return;
    Ints window, strides, dilation, lo, hi;
    for (const Dim& dim : Shape(b_.shape(x))) {
      int64_t size = chance(50) ? 1 : std::min<int64_t>(dim.constant(), pick(1, 3));
      window.push_back(size);
      strides.push_back(pick(1, 2));
      dilation.push_back(1);
      lo.push_back(size > 1 ? pick(0, 1) : 0);
      hi.push_back(size > 1 ? pick(0, 1) : 0);
    }
    std::string kind = one_of(std::vector<std::string>{"sum", "max", "min"});
    keep(b_.emit(Op::ReduceWindow, {x},
                 {{"kind", kind}, {"window", window}, {"strides", strides}, {"pad_lo", lo}, {"pad_hi", hi}}),
         is_inexact(x) || kind == "sum");
  }

  void dot() {
    ValueId x = find([&](ValueId value) { return b_.rank(value) > 0 && b_.dtype(value) != DType::Bool; });
    if (!x.is_valid()) return;
    Shape shape = b_.shape(x), other;
    Ints lhs_contract, rhs_contract, lhs_batch, rhs_batch;
    Shape result;
    for (int64_t i = 0; i < b_.rank(x); ++i) {
      int role = static_cast<int>(pick(0, 3));
      if (role == 0) {
        lhs_batch.push_back(i);
        rhs_batch.push_back(static_cast<int64_t>(other.size()));
        other.push_back(shape[i]);
      } else if (role == 1 || (i + 1 == b_.rank(x) && lhs_contract.empty())) {
        lhs_contract.push_back(i);
        rhs_contract.push_back(static_cast<int64_t>(other.size()));
        other.push_back(shape[i]);
        continue;
      }
      result.push_back(shape[i]);
    }
    int free = static_cast<int>(pick(0, 2));
    for (int i = 0; i < free; ++i) {
      other.push_back(one_of(dims_));
      result.push_back(other.back());
    }
    int64_t terms = 1;
    for (int64_t dim : lhs_contract) terms *= value_of(shape[dim]);
    if (!fits(other) || !fits(result) || elements(result) * terms > 60 * max_elements_) return;
    ValueId y = partner({b_.dtype(x), other});
    keep(b_.emit(Op::DotGeneral, {x, y},
                 {{"lhs_contract", lhs_contract},
                  {"rhs_contract", rhs_contract},
                  {"lhs_batch", lhs_batch},
                  {"rhs_batch", rhs_batch}}),
         true);
  }

  void convolution() {
    int spatial = static_cast<int>(pick(1, 2));
    int64_t groups = chance(70) ? 1 : 2;
    Shape x{Dim(pick(1, 2)), Dim(groups * pick(1, 3))}, w{Dim(groups * pick(1, 3)), Dim(0)};
    w[1] = Dim(x[1].constant() / groups);
    Ints strides, lo, hi, lhs_dilation, rhs_dilation;
    for (int i = 0; i < spatial; ++i) {
      x.push_back(Dim(pick(4, 12)));
      w.push_back(Dim(pick(1, 3)));
      strides.push_back(pick(1, 2));
      lo.push_back(pick(0, 2));
      hi.push_back(pick(0, 2));
      lhs_dilation.push_back(chance(80) ? 1 : 2);
      rhs_dilation.push_back(1);
    }
    DType dtype = chance(70) ? DType::F32 : DType::BF16;
    keep(b_.emit(Op::Convolution, {add_input(dtype, x), add_input(dtype, w)},
                 {{"strides", strides},
                  {"pad_lo", lo},
                  {"pad_hi", hi},
                  {"lhs_dilation", lhs_dilation},
                  {"rhs_dilation", rhs_dilation},
                  {"feature_groups", groups}}),
         true);
  }

  void scatter() {
    ValueId x = find([&](ValueId value) {
      return b_.rank(value) > 0 && b_.dtype(value) != DType::Bool && elements(b_.shape(value)) > 0;
    });
    if (!x.is_valid()) return;
    Shape shape = b_.shape(x);
    int64_t dim = pick(0, b_.rank(x) - 1);
    std::string kind = one_of(std::vector<std::string>{"set", "add", "min", "max"});
    bool loose = is_inexact(x) || kind == "add";
    DType index_type = chance(50) ? DType::I32 : DType::I64;
    Shape count{Dim(pick(1, 20))};
    if (chance(50)) {
      Shape to = shape;
      to[dim] = count[0];
      if (!fits(to)) return;
      ValueId updates = partner({b_.dtype(x), to});
      keep(b_.emit(Op::ScatterElements, {x, index_input(index_type, to, value_of(shape[dim])), updates},
                   {{"dim", dim}, {"kind", kind}, {"oob", policy()}}),
           loose || is_inexact(updates));
      return;
    }
    Shape updates_shape = count;
    Ints window;
    for (int64_t i = 0; i < b_.rank(x); ++i) {
      if (i == dim) continue;
      window.push_back(static_cast<int64_t>(updates_shape.size()));
      updates_shape.push_back(shape[i]);
    }
    if (!fits(updates_shape)) return;
    ValueId updates = partner({b_.dtype(x), updates_shape});
    ValueId indices = index_input(index_type, {count[0], Dim(1)}, value_of(shape[dim]));
    keep(b_.emit(Op::Scatter, {x, indices, updates},
                 {{"update_window_dims", window},
                  {"inserted", Ints{dim}},
                  {"scatter_map", Ints{dim}},
                  {"index_vector_dim", int64_t{1}},
                  {"kind", kind},
                  {"oob", policy()}}),
         loose || is_inexact(updates));
  }

  void random_bits() {
    ValueId state =
        b_.emit(Op::Iota, {}, {{"shape", Shape{Dim(2)}}, {"dim", int64_t{0}}, {"dtype", DType::U64}});
    state = b_.shift(state, static_cast<double>(pick(0, 1000)));
    Shape shape = draw_shape();
    std::vector<ValueId> results = b_.emit_all(
        Op::RngBitGenerator, {state}, {{"shape", shape}, {"bits", one_of(std::vector<int64_t>{32, 64})}});
    for (ValueId result : results) keep(result, false);
  }

  void sort() {
    ValueId x = find([&](ValueId value) {
      return !is_inexact(value) && b_.rank(value) > 0 && elements(b_.shape(value)) > 0;
    });
    if (!x.is_valid()) return;
    int64_t dim = pick(0, b_.rank(x) - 1);
    if (chance(50) && b_.shape(x)[dim].is_constant()) {
      int64_t k = pick(1, b_.shape(x)[dim].constant());
      std::vector<ValueId> results = b_.emit_all(Op::TopK, {x}, {{"k", k}, {"dim", dim}});
      for (ValueId result : results) keep(result, false);
      return;
    }
    keep(b_.emit(Op::Sort, {x}, {{"dim", dim}, {"descending", chance(40)}}), false);
  }

  // The last value and some others.
  void choose_outputs() {
    if (!b_.status().is_ok()) return;
    graph_.add_output(pool_.back());
    int extra = static_cast<int>(pick(0, 3));
    for (int i = 0; i < extra; ++i) graph_.add_output(one_of(pool_));
  }

  int64_t max_elements_ = 6000;
  Random random_;
  Graph& graph_;
  Bindings& bindings_;
  Builder b_;
  Shape dims_;
  std::vector<ValueId> pool_;
  std::set<uint32_t> inexact_;  // values that engines may round differently
};

}  // namespace

Result<RandomGraph> make_random_graph(uint64_t seed, int steps) {
  RandomGraph out;
  out.graph.name = cat("random_", seed);
  TW_RETURN_IF_ERROR(Generator(seed, out.graph, out.bindings).run(steps));
  return out;
}

}  // namespace tilewright::tile_tests
