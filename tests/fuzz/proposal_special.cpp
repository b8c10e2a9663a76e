// Proposals for ops whose operands and attributes must fit each other.
#include <algorithm>

#include "base/text.h"
#include "tests/fuzz/proposal.h"

namespace tilewright::fuzz {

namespace {

class SpecialProposal {
 public:
  SpecialProposal(const OpInfo& info, Random& random, OperandSource& source, Proposal& proposal)
      : info_(info), random_(random), source_(source), p_(proposal) {}

  bool make() {
    switch (info_.op) {
      case Op::Constant: return constant();
      case Op::Reshape: return reshape();
      case Op::BroadcastInDim: return broadcast();
      case Op::Slice: return slice();
      case Op::Pad: return pad();
      case Op::Concatenate:
      case Op::Stack: return concatenate();
      case Op::DynamicSlice: return dynamic_slice();
      case Op::DynamicUpdateSlice: return dynamic_update_slice();
      case Op::Expand: return expand();
      case Op::DotGeneral: return dot_general();
      case Op::RaggedDot: return ragged_dot();
      case Op::Convolution: return convolution();
      case Op::Conv2d: return conv2d();
      case Op::Gather: return gather();
      case Op::Scatter: return scatter();
      case Op::ScatterElements: return scatter_elements();
      case Op::RngBitGenerator: return random_bits();
      case Op::While: return while_loop();
      case Op::Case: return case_regions();
      case Op::Scan: return scan();
      case Op::Call:
      case Op::Composite: return call();
      case Op::CustomCall: return custom_call();
      case Op::Assert: return assertion();
      case Op::Attention: return attention();
      case Op::Searchsorted:
      case Op::BucketByLength: return in_sorted();
      case Op::EmbeddingBag:
      case Op::EmbeddingBagGrad:
      case Op::EmbeddingBagWeightsGrad: return bags();
      case Op::MoeCombine: return moe_combine();
      case Op::Multinomial: return multinomial();
      default: return false;
    }
  }

 private:
  Shape random_shape(int low, int high) {
    Shape shape;
    for (int64_t i = random_.integer(low, high); i-- > 0;) shape.push_back(source_.random_dim());
    return shape;
  }
  DType draw_dtype(TypeClass types) { return pick(random_, types.members()); }
  DType draw_dtype(const char* types) { return draw_dtype(*parse_type_class(types)); }
  ValueId any() { return source_.any_value(draw_dtype(info_.operands[0].types)); }
  const Shape& shape(ValueId id) const { return source_.graph().type(id).shape; }
  DType dtype(ValueId id) const { return source_.graph().type(id).dtype; }
  static bool is_static(const Dim& dim) { return dim.is_constant(); }

  bool constant() {
    DType type = draw_dtype("Any");
    Shape shape = random_shape(0, 2);
    if (!tilewright::is_static(shape) || chance(random_, 40)) {
      p_.attributes["value"] = make_integer_splat(random_.integer(-5, 5), type, shape);
      return true;
    }
    int64_t count = 1;
    for (const Dim& dim : shape) count *= dim.constant();
    std::vector<char> bytes(static_cast<size_t>(count * dtype_bytes(type)));
    for (char& byte : bytes)
      byte = static_cast<char>(type == DType::Bool ? random_.next() & 1 : random_.next());
    Result<ConstantRef> made =
        make_constant({type, shape}, false, bytes.data(), static_cast<int64_t>(bytes.size()));
    if (!made.is_ok()) return false;
    p_.attributes["value"] = *made;
    return true;
  }

  // Splits, merges or drops dims so that the element count stays.
  bool reshape() {
    ValueId x = any();
    Shape to;
    for (const Dim& dim : shape(x)) {
      if (!to.empty() && chance(random_, 40)) {
        to.back() = to.back() * dim;
      } else if (is_static(dim) && dim.constant() % 2 == 0 && dim.constant() > 0 && chance(random_, 50)) {
        to.push_back(Dim(2));
        to.push_back(Dim(dim.constant() / 2));
      } else if (!dim.is_constant(1) || chance(random_, 50)) {
        to.push_back(dim);
      }
    }
    if (chance(random_, 30))
      to.insert(to.begin() + static_cast<std::ptrdiff_t>(random_.next() % (to.size() + 1)), Dim(1));
    p_.operands = {x};
    p_.attributes["shape"] = to;
    return true;
  }

  bool broadcast() {
    ValueId x = any();
    Shape to = random_shape(0, 2);
    Ints dims;
    for (const Dim& dim : shape(x)) {
      dims.push_back(static_cast<int64_t>(to.size()));
      to.push_back(dim.is_constant(1) ? source_.random_dim() : dim);
    }
    p_.operands = {x};
    p_.attributes["shape"] = to;
    p_.attributes["dims"] = dims;
    return true;
  }

  bool expand() {
    ValueId x = any();
    Shape to = random_shape(0, 1);
    for (const Dim& dim : shape(x)) to.push_back(dim.is_constant(1) ? source_.random_dim() : dim);
    p_.operands = {x};
    p_.attributes["shape"] = to;
    return true;
  }

  bool slice() {
    ValueId x = any();
    Shape start, limit;
    Ints stride;
    for (const Dim& dim : shape(x)) {
      int64_t from = is_static(dim) ? random_.integer(0, dim.constant()) : 0;
      start.push_back(Dim(from));
      limit.push_back(is_static(dim) ? Dim(random_.integer(from, dim.constant())) : dim);
      stride.push_back(random_.integer(1, 3));
    }
    p_.operands = {x};
    p_.attributes["start"] = start;
    p_.attributes["limit"] = limit;
    if (chance(random_, 60)) p_.attributes["stride"] = stride;
    return true;
  }

  bool pad() {
    ValueId x = any();
    Shape lo, hi;
    Ints interior;
    for (size_t i = 0; i < shape(x).size(); ++i) {
      lo.push_back(Dim(random_.integer(-1, 2)));
      hi.push_back(Dim(random_.integer(-1, 2)));
      interior.push_back(random_.integer(0, 1));
    }
    p_.operands = {x, source_.value_of({dtype(x), {}})};
    p_.attributes["lo"] = lo;
    p_.attributes["hi"] = hi;
    if (chance(random_, 50)) p_.attributes["interior"] = interior;
    return true;
  }

  bool concatenate() {
    ValueId x = any();
    if (shape(x).empty()) return false;
    size_t dim = random_.next() % shape(x).size();
    TensorType other = source_.graph().type(x);
    if (info_.op == Op::Concatenate && chance(random_, 60)) other.shape[dim] = source_.random_dim();
    p_.operands = {x, source_.value_of(other)};
    if (chance(random_, 30)) p_.operands.push_back(x);
    p_.attributes["dim"] = static_cast<int64_t>(dim);
    return true;
  }

  void add_starts(size_t rank) {
    DType index = draw_dtype("Index");
    for (size_t i = 0; i < rank; ++i) p_.operands.push_back(source_.value_of({index, {}}));
  }
  Shape smaller(const Shape& shape) {
    Shape sizes;
    for (const Dim& dim : shape)
      sizes.push_back(is_static(dim) ? Dim(random_.integer(0, dim.constant())) : dim);
    return sizes;
  }

  bool dynamic_slice() {
    ValueId x = any();
    p_.operands = {x};
    Shape sizes = smaller(shape(x));
    add_starts(sizes.size());
    p_.attributes["sizes"] = sizes;
    return true;
  }

  bool dynamic_update_slice() {
    ValueId x = any();
    Shape sizes = smaller(shape(x));
    p_.operands = {x, source_.value_of({dtype(x), sizes})};
    add_starts(sizes.size());
    return true;
  }

  bool dot_general() {
    DType type = draw_dtype("Dot");
    Shape batch = random_shape(0, 1), contract = random_shape(0, 2), m = random_shape(0, 1),
          n = random_shape(0, 1);
    Shape lhs = batch, rhs = batch;
    Ints lhs_batch, lhs_contract, rhs_contract;
    for (size_t i = 0; i < batch.size(); ++i) lhs_batch.push_back(static_cast<int64_t>(i));
    bool late = chance(random_, 50);
    if (late) lhs.insert(lhs.end(), m.begin(), m.end());
    for (const Dim& dim : contract) {
      lhs_contract.push_back(static_cast<int64_t>(lhs.size()));
      lhs.push_back(dim);
      rhs_contract.push_back(static_cast<int64_t>(rhs.size()));
      rhs.push_back(dim);
    }
    if (!late) lhs.insert(lhs.end(), m.begin(), m.end());
    rhs.insert(rhs.end(), n.begin(), n.end());
    p_.operands = {source_.value_of({type, lhs}), source_.value_of({type, rhs})};
    p_.attributes["lhs_contract"] = lhs_contract;
    p_.attributes["rhs_contract"] = rhs_contract;
    p_.attributes["lhs_batch"] = lhs_batch;
    p_.attributes["rhs_batch"] = lhs_batch;
    return true;
  }

  bool ragged_dot() {
    DType type = draw_dtype("Float");
    Dim m = source_.random_dim(), k = source_.random_dim(), n = source_.random_dim(),
        g(random_.integer(1, 3));
    p_.operands = {source_.value_of({type, {m, k}}), source_.value_of({type, {g, k, n}}),
                   source_.value_of({draw_dtype("Index"), {g}})};
    return true;
  }

  bool convolution() {
    DType type = draw_dtype("Float");
    auto spatial = static_cast<size_t>(random_.integer(1, 2));
    int64_t groups = random_.integer(1, 2), features = random_.integer(1, 2);
    Shape x{source_.random_dim(), Dim(groups * features)},
        w{Dim(groups * random_.integer(1, 2)), Dim(features)};
    Ints strides, lo, hi, lhs_dilation, rhs_dilation;
    for (size_t i = 0; i < spatial; ++i) {
      x.push_back(Dim(random_.integer(1, 6)));
      w.push_back(Dim(random_.integer(1, 3)));
      strides.push_back(random_.integer(1, 2));
      lo.push_back(random_.integer(0, 2));
      hi.push_back(random_.integer(0, 2));
      lhs_dilation.push_back(random_.integer(1, 2));
      rhs_dilation.push_back(random_.integer(1, 2));
    }
    p_.operands = {source_.value_of({type, x}), source_.value_of({type, w})};
    p_.attributes["feature_groups"] = groups;
    p_.attributes["pad_lo"] = lo;
    p_.attributes["pad_hi"] = hi;
    if (chance(random_, 50)) p_.attributes["strides"] = strides;
    if (chance(random_, 30)) p_.attributes["lhs_dilation"] = lhs_dilation;
    if (chance(random_, 30)) p_.attributes["rhs_dilation"] = rhs_dilation;
    return true;
  }

  bool conv2d() {
    DType type = draw_dtype("Float");
    int64_t groups = random_.integer(1, 2), features = random_.integer(1, 2);
    Dim out(groups * random_.integer(1, 2));
    Shape x{source_.random_dim(), Dim(groups * features), Dim(random_.integer(3, 6)),
            Dim(random_.integer(3, 6))};
    Shape w{out, Dim(features), Dim(random_.integer(1, 3)), Dim(random_.integer(1, 3))};
    p_.operands = {source_.value_of({type, x}), source_.value_of({type, w})};
    if (chance(random_, 50)) p_.operands.push_back(source_.value_of({type, {out}}));
    p_.attributes["groups"] = groups;
    p_.attributes["pad"] = Ints{random_.integer(0, 1), random_.integer(0, 1)};
    if (chance(random_, 50)) p_.attributes["strides"] = Ints{random_.integer(1, 2), random_.integer(1, 2)};
    return true;
  }

  // Rows of x along one dim.
  void index_attributes(const Shape& x, size_t dim, const Shape& indices, const char* window,
                        const char* dropped, const char* map) {
    Ints window_dims;
    for (size_t i = 1; i < x.size(); ++i) window_dims.push_back(static_cast<int64_t>(indices.size() + i - 1));
    p_.attributes[window] = window_dims;
    p_.attributes[dropped] = Ints{static_cast<int64_t>(dim)};
    p_.attributes[map] = Ints{static_cast<int64_t>(dim)};
    p_.attributes["index_vector_dim"] = static_cast<int64_t>(indices.size());
    p_.attributes["oob"] = std::string(chance(random_, 50) ? "clamp" : "drop");
  }

  bool gather() {
    ValueId x = any();
    if (shape(x).empty()) return false;
    size_t dim = random_.next() % shape(x).size();
    Shape indices = random_shape(0, 2), sizes = shape(x);
    sizes[dim] = Dim(1);
    p_.operands = {x, source_.value_of({draw_dtype("Index"), indices})};
    index_attributes(shape(x), dim, indices, "offset_dims", "collapsed", "start_index_map");
    p_.attributes["slice_sizes"] = sizes;
    return true;
  }

  bool scatter() {
    DType type = draw_dtype("Number");
    ValueId x = source_.any_value(type);
    if (shape(x).empty()) return false;
    size_t dim = random_.next() % shape(x).size();
    Shape indices = random_shape(0, 2), updates = indices;
    for (size_t i = 0; i < shape(x).size(); ++i) {
      if (i != dim) updates.push_back(shape(x)[i]);
    }
    p_.operands = {x, source_.value_of({draw_dtype("Index"), indices}), source_.value_of({type, updates})};
    index_attributes(shape(x), dim, indices, "update_window_dims", "inserted", "scatter_map");
    p_.attributes["kind"] = pick(random_, info_.attribute("kind")->choices);
    return true;
  }

  bool scatter_elements() {
    DType type = draw_dtype("Number");
    ValueId x = source_.any_value(type);
    if (shape(x).empty()) return false;
    size_t dim = random_.next() % shape(x).size();
    Shape indices = shape(x);
    indices[dim] = source_.random_dim();
    p_.operands = {x, source_.value_of({draw_dtype("Index"), indices}), source_.value_of({type, indices})};
    p_.attributes["dim"] = static_cast<int64_t>(dim);
    p_.attributes["kind"] = pick(random_, info_.attribute("kind")->choices);
    return true;
  }

  bool random_bits() {
    p_.operands = {source_.value_of({DType::U64, {Dim(2)}})};
    p_.attributes["shape"] = random_shape(0, 2);
    p_.attributes["bits"] = int64_t{32} << (random_.next() & 1);
    return true;
  }

  bool attention() {
    DType type = draw_dtype("Float");
    int64_t heads = random_.integer(1, 2);
    Dim b = source_.random_dim(), s = source_.random_dim(), t = source_.random_dim(),
        d(random_.integer(1, 4));
    Dim hk(random_.integer(1, 2)), h = hk * Dim(heads);
    ValueId kv = source_.value_of({type, {b, hk, t, d}});
    p_.operands = {source_.value_of({type, {b, h, s, d}}), kv, source_.value_of({type, {b, hk, t, d}})};
    if (chance(random_, 40))
      p_.operands.push_back(source_.value_of({chance(random_, 50) ? DType::Bool : type, {b, h, s, t}}));
    p_.attributes["causal"] = chance(random_, 50);
    return true;
  }

  // The operand twice, with an op or two in between.
  static RegionRef elementwise_region(const TensorType& type, Op op, size_t inputs) {
    auto region = std::make_shared<Graph>();
    std::vector<ValueId> results;
    for (size_t i = 0; i < inputs; ++i) {
      ValueId x = region->add_input(cat("x", i), type);
      Result<NodeId> node = region->append(op, {x});
      results.push_back(node.is_ok() ? region->result(*node) : x);
    }
    for (ValueId result : results) region->add_output(result);
    return region;
  }

  Op region_op() { return pick(random_, std::vector<Op>{Op::Negate, Op::Abs, Op::StopGradient, Op::Sign}); }

  bool call() {
    ValueId x = source_.any_value(draw_dtype("Number"));
    p_.operands = {x, x};
    p_.regions = {elementwise_region(source_.graph().type(x), region_op(), 2)};
    if (info_.op == Op::Composite) p_.attributes["name"] = std::string("test.group");
    return true;
  }

  bool case_regions() {
    ValueId x = source_.any_value(draw_dtype("Number"));
    p_.operands = {source_.value_of({DType::I32, {}}), x};
    for (int64_t i = random_.integer(1, 3); i-- > 0;) {
      p_.regions.push_back(elementwise_region(source_.graph().type(x), region_op(), 1));
    }
    return true;
  }

  // Counts down from a small number, so that it ends.
  bool while_loop() {
    ValueId x = source_.any_value(draw_dtype("Number"));
    TensorType counter{DType::U8, {}};
    TensorType carried = source_.graph().type(x);
    auto condition = std::make_shared<Graph>();
    ValueId n = condition->add_input("n", counter);
    condition->add_input("x", carried);
    Result<NodeId> limit =
        condition->append(Op::Constant, {}, {{"value", make_integer_splat(250, DType::U8)}});
    if (!limit.is_ok()) return false;
    Result<NodeId> more =
        condition->append(Op::Compare, {n, condition->result(*limit)}, {{"direction", std::string("LT")}});
    if (!more.is_ok()) return false;
    condition->add_output(condition->result(*more));
    auto body = std::make_shared<Graph>();
    n = body->add_input("n", counter);
    ValueId y = body->add_input("x", carried);
    Result<NodeId> step = body->append(Op::Constant, {}, {{"value", make_integer_splat(100, DType::U8)}});
    Result<NodeId> next = body->append(Op::Maximum, {n, body->result(*step)});
    Result<NodeId> sum = body->append(Op::Add, {body->result(*next), body->result(*step)});
    Result<NodeId> capped =
        sum.is_ok() ? body->append(Op::Maximum, {body->result(*sum), body->result(*next)}) : sum;
    Result<NodeId> applied = body->append(region_op(), {y});
    if (!capped.is_ok() || !applied.is_ok()) return false;
    // 100 + 100, then 200 + 100 wraps to 44 and stays 200 by the maximum: forced to the end by or with 255.
    Result<NodeId> full = body->append(Op::Constant, {}, {{"value", make_integer_splat(255, DType::U8)}});
    Result<NodeId> large = body->append(Op::Compare, {body->result(*next), body->result(*capped)},
                                        {{"direction", std::string("EQ")}});
    if (!full.is_ok() || !large.is_ok()) return false;
    Result<NodeId> count =
        body->append(Op::Select, {body->result(*large), body->result(*full), body->result(*capped)});
    if (!count.is_ok()) return false;
    body->add_output(body->result(*count));
    body->add_output(body->result(*applied));
    p_.operands = {source_.value_of(counter), x};
    p_.regions = {condition, body};
    return true;
  }

  bool scan() {
    DType type = draw_dtype("Number");
    TensorType slice{type, random_shape(0, 1)}, stacked = slice;
    Dim length = source_.random_dim();
    stacked.shape.insert(stacked.shape.begin(), length);
    auto region = std::make_shared<Graph>();
    ValueId carry = region->add_input("c", slice), x = region->add_input("x", slice);
    Result<NodeId> next =
        region->append(pick(random_, std::vector<Op>{Op::Maximum, Op::Minimum, Op::Add}), {carry, x});
    if (!next.is_ok()) return false;
    region->add_output(region->result(*next));
    region->add_output(chance(random_, 50) ? region->result(*next) : x);
    p_.operands = {source_.value_of(slice), source_.value_of(stacked)};
    p_.regions = {region};
    p_.attributes["length"] = Shape{length};
    p_.attributes["carries"] = int64_t{1};
    p_.attributes["reverse"] = chance(random_, 50);
    return true;
  }

  // The sequence is a sorted constant: other sequences have no defined result.
  bool in_sorted() {
    DType type = info_.op == Op::Searchsorted ? draw_dtype("Number") : draw_dtype("Index");
    Shape shape{Dim(random_.integer(0, 6))};
    ValueId sequence = source_.sorted_value({type, shape});
    ValueId values = source_.value_of({type, random_shape(1, info_.op == Op::Searchsorted ? 2 : 1)});
    p_.operands = {sequence, values};
    if (info_.op == Op::BucketByLength) std::swap(p_.operands[0], p_.operands[1]);
    return true;
  }

  ValueId counting(DType type, int64_t count) {
    return source_.node_value(Op::Iota, {},
                              {{"shape", Shape{Dim(count)}}, {"dim", int64_t{0}}, {"dtype", type}});
  }

  // Offsets rise from 0 and indices are inside the table: others have no defined result.
  bool bags() {
    const DType type = draw_dtype("Float"), index = draw_dtype("Index");
    const int64_t count = random_.integer(1, 5), bags = random_.integer(1, count);
    const Dim rows(random_.integer(count, 6)), columns = source_.random_dim();
    const ValueId indices = counting(index, count), offsets = counting(index, bags);
    const ValueId per_bag = source_.value_of({type, {Dim(bags), columns}});
    const ValueId weights = chance(random_, 50) ? source_.value_of({type, {Dim(count)}}) : ValueId{};
    const std::string mode =
        weights.is_valid() ? "sum" : pick(random_, std::vector<std::string>{"sum", "mean", "max"});
    if (info_.op == Op::EmbeddingBagWeightsGrad) {
      p_.operands = {per_bag, source_.value_of({type, {rows, columns}}), indices, offsets};
      return true;
    }
    p_.attributes["mode"] = mode;
    if (info_.op == Op::EmbeddingBag) {
      p_.operands = {source_.value_of({type, {rows, columns}}), indices, offsets, weights};
      return true;
    }
    p_.attributes["rows"] = Shape{rows};
    p_.operands = {per_bag, indices, offsets, weights, source_.value_of({DType::I64, {Dim(bags), columns}})};
    return true;
  }

  // The order of a sort is a permutation.
  bool moe_combine() {
    const DType type = draw_dtype("Float");
    const Dim tokens = source_.random_dim(), experts(random_.integer(1, 3)), columns = source_.random_dim();
    const Dim rows = tokens * experts;
    const ValueId keys = source_.value_of({DType::I32, {rows}});
    const ValueId places = source_.node_value(
        Op::Iota, {}, {{"shape", Shape{rows}}, {"dim", int64_t{0}}, {"dtype", DType::I64}});
    if (!places.is_valid()) return false;
    const ValueId order = source_.node_value(Op::Sort, {keys, places}, {{"dim", int64_t{0}}}, 1);
    p_.operands = {source_.value_of({type, {rows, columns}}), order,
                   source_.value_of({type, {tokens, experts}})};
    return order.is_valid();
  }

  // Weights are not negative.
  bool multinomial() {
    const Dim count(random_.integer(1, 8));
    Shape weights = random_shape(0, 1);
    weights.push_back(count);
    const ValueId any = source_.value_of({draw_dtype("Float"), weights});
    p_.operands = {source_.node_value(Op::Abs, {any}), source_.value_of({DType::U64, {Dim(2)}})};
    const bool replacement = chance(random_, 50);
    p_.attributes["samples"] = random_.integer(0, replacement ? 6 : count.constant());
    p_.attributes["replacement"] = replacement;
    return p_.operands[0].is_valid();
  }

  bool custom_call() {
    ValueId x = source_.any_value(DType::F32);
    p_.operands = {x};
    p_.attributes["target"] = std::string("test.twice");
    p_.attributes["result_types"] = Types{source_.graph().type(x)};
    return true;
  }

  bool assertion() {
    p_.operands = {source_.any_value(DType::Bool)};
    p_.attributes["message"] = std::string("random");
    return true;
  }

  const OpInfo& info_;
  Random& random_;
  OperandSource& source_;
  Proposal& p_;
};

}  // namespace

bool propose_special(const OpInfo& info, Random& random, OperandSource& source, Proposal& proposal) {
  return SpecialProposal(info, random, source, proposal).make();
}

}  // namespace tilewright::fuzz
