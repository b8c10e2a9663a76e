// Gradients of collectives: every rank differentiates the sum of the losses of all ranks.
#include "ir/gradients/rules.h"

namespace tilewright {

using namespace gradients;

namespace {

int64_t group_size(const Gradient& g) {
  const Ints& group = g.attributes.get_ints("group");
  return group.empty() ? 1 : static_cast<int64_t>(group.size());
}

ValueId reduce_all(Gradient& g, ValueId x, const char* kind) {
  AttributeMap attributes = pick_attributes(g, {"group", "channel"});
  attributes["kind"] = std::string(kind);
  return g.b.emit(Op::AllReduce, {x}, attributes);
}

ValueId rank_index(Gradient& g) { return g.b.emit(Op::RankId, {}, pick_attributes(g, {"group"})); }

// The product of the values of all other ranks.
ValueId product_of_others(Gradient& g, ValueId x) {
  Builder& b = g.b;
  Shape stacked = b.shape(x);
  stacked.insert(stacked.begin(), Dim(1));
  AttributeMap attributes = pick_attributes(g, {"group", "channel"});
  attributes["dim"] = int64_t{0};
  ValueId all = b.emit(Op::AllGather, {b.reshape(x, stacked)}, attributes);
  auto running = [&](bool reverse) {
    return b.emit(Op::CumulativeProduct, {all},
                  {{"dim", int64_t{0}}, {"reverse", reverse}, {"exclusive", true}});
  };
  std::vector<ValueId> operands{b.multiply(running(false), running(true)), rank_index(g)};
  for (size_t i = 1; i < stacked.size(); ++i) operands.push_back(b.integer(0, DType::I64));
  return b.reshape(b.emit(Op::DynamicSlice, operands, {{"sizes", stacked}}), b.shape(x));
}

}  // namespace

Status gradient_all_reduce(Gradient& g) {
  Builder& b = g.b;
  const std::string& kind = g.attributes.get_string("kind");
  ValueId c = reduce_all(g, g.cotangent(), kind == "avg" ? "avg" : "sum");
  if (kind == "prod") {
    c = b.multiply(c, product_of_others(g, g.operands[0]));
  } else if (kind == "min" || kind == "max") {
    ValueId hit = b.compare(g.operands[0], g.results[0], "EQ");
    ValueId count = reduce_all(g, b.convert(hit, dtype_of(g, 0)), "sum");
    c = keep_where(b, hit, b.divide(c, count));
  }
  g.gradients[0] = c;
  return Status::ok();
}

Status gradient_reduce_scatter(Gradient& g) {
  const std::string& kind = g.attributes.get_string("kind");
  int64_t ranks = group_size(g);
  if (ranks > 1 && kind != "sum" && kind != "avg") {
    return Status::unimplemented(
        cat("reduce_scatter of kind ", kind, " has no gradient, expected sum or avg"));
  }
  ValueId c = g.b.emit(Op::AllGather, {g.cotangent()}, pick_attributes(g, {"dim", "group", "channel"}));
  if (kind == "avg" && ranks > 1) c = g.b.scale(c, 1.0 / static_cast<double>(ranks));
  g.gradients[0] = c;
  return Status::ok();
}

Status gradient_all_gather(Gradient& g) {
  g.gradients[0] =
      g.b.emit(Op::ReduceScatter, {g.cotangent()}, pick_attributes(g, {"dim", "group", "channel"}));
  return Status::ok();
}

Status gradient_all_to_all(Gradient& g) {
  AttributeMap attributes = pick_attributes(g, {"group", "channel"});
  attributes["split_dim"] = g.attributes.get_int("concat_dim");
  attributes["concat_dim"] = g.attributes.get_int("split_dim");
  g.gradients[0] = g.b.emit(Op::AllToAll, {g.cotangent()}, attributes);
  return Status::ok();
}

Status gradient_collective_broadcast(Gradient& g) {
  Builder& b = g.b;
  ValueId c = reduce_all(g, g.cotangent(), "sum");
  if (group_size(g) > 1) {
    ValueId root = b.integer(g.attributes.get_int("root"), DType::I64);
    c = keep_where(b, b.compare(rank_index(g), root, "EQ"), c);
  }
  g.gradients[0] = c;
  return Status::ok();
}

Status gradient_collective_permute(Gradient& g) {
  Ints pairs = g.attributes.get_ints("pairs");
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) std::swap(pairs[i], pairs[i + 1]);
  AttributeMap attributes = pick_attributes(g, {"group", "channel"});
  attributes["pairs"] = pairs;
  g.gradients[0] = g.b.emit(Op::CollectivePermute, {g.cotangent()}, attributes);
  return Status::ok();
}

}  // namespace tilewright
