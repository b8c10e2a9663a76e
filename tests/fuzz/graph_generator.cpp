// Grows a graph node by node from proposals.
#include "tests/fuzz/graph_generator.h"

#include <algorithm>
#include <set>

#include "base/text.h"
#include "ir/inference.h"
#include "tests/fuzz/proposal.h"

namespace tilewright::fuzz {

namespace {

constexpr int kTries = 12;              // for one op before another is drawn
constexpr int64_t kMaxElements = 4096;  // of any value, with symbols at their largest

bool is_exact(Accuracy accuracy) { return accuracy == Accuracy::Exact || accuracy == Accuracy::Rounded; }

class Generator final : public OperandSource {
 public:
  Generator(uint64_t seed, const GeneratorOptions& options, OpCounts* counts)
      : random_(seed), options_(options), counts_(counts) {
    result_.graph.name = cat("random_", seed);
    if (options_.symbolic && chance(random_, 60)) {
      result_.graph.symbols.push_back(Symbol{"N", 1, 8, 4});
      if (chance(random_, 50)) result_.graph.symbols.push_back(Symbol{"M", 0, 6, std::nullopt});
    }
  }

  GeneratedGraph generate() {
    for (int added = 0, drawn = 0; added < options_.nodes && drawn < 50 * options_.nodes; ++drawn)
      added += add_node();
    add_outputs();
    return std::move(result_);
  }

  const Graph& graph() const override { return result_.graph; }

  Dim random_dim() override {
    const std::vector<Symbol>& symbols = result_.graph.symbols;
    if (!symbols.empty() && chance(random_, 40)) {
      Dim symbol = Dim::symbol(pick(random_, symbols).name);
      return chance(random_, 70) ? symbol : symbol * Dim(2) + Dim(random_.integer(0, 1));
    }
    return Dim(pick(random_, std::vector<int64_t>{1, 1, 2, 3, 4, 5, 8, 0, 17}));
  }

  ValueId value_of(const TensorType& type) override {
    std::vector<ValueId> found;
    for (uint32_t i = 0; i < graph().value_count(); ++i) {
      if (usable(ValueId{i}) && graph().type(ValueId{i}) == type) found.push_back(ValueId{i});
    }
    if (!found.empty() && chance(random_, 80)) return pick(random_, found);
    return add_input(type);
  }

  ValueId sorted_value(const TensorType& type) override {
    return node_value(Op::Sort, {value_of(type)}, {{"dim", int64_t{0}}});
  }

  ValueId node_value(Op op, std::vector<ValueId> operands, AttributeMap attributes, int result = 0) override {
    bool approximate = !is_exact(op_info(op).accuracy);
    for (ValueId operand : operands) approximate |= operand.is_valid() && approximate_[operand.index];
    Result<NodeId> node = result_.graph.append(op, std::move(operands), std::move(attributes));
    if (!node.is_ok()) return ValueId{};
    approximate_.resize(graph().value_count(), approximate);
    return graph().result(*node, result);
  }

  ValueId any_value(DType dtype) override {
    std::vector<ValueId> found;
    for (uint32_t i = 0; i < graph().value_count(); ++i) {
      if (usable(ValueId{i}) && graph().type(ValueId{i}).dtype == dtype) found.push_back(ValueId{i});
    }
    if (!found.empty() && chance(random_, 75)) return pick(random_, found);
    Shape shape;
    int64_t rank = pick(random_, std::vector<int64_t>{0, 1, 1, 2, 2, 2, 3, 4});
    for (int64_t i = 0; i < rank; ++i) shape.push_back(random_dim());
    return add_input({dtype, shape});
  }

 private:
  // Inputs made for a proposal that is refused are dropped with it, so they live in a list until then.
  ValueId add_input(TensorType type) {
    ValueId id = result_.graph.add_input(cat("in", graph().inputs.size()), std::move(type));
    approximate_.push_back(false);
    return id;
  }

  bool usable(ValueId id) const { return !movement_only_ || !approximate_[id.index]; }

  const OpInfo& draw_op() {
    if (options_.ops) return op_info(pick(random_, *options_.ops));
    return all_ops()[random_.next() % all_ops().size()];
  }

  bool allowed(const OpInfo& info) const {
    if (!options_.runnable) return true;
    static const auto* left_out = new std::set<Op>{
        Op::Uninitialized,  // no content
    };
    return !left_out->contains(info.op);
  }

  int add_node() {
    const OpInfo& info = draw_op();
    if (!allowed(info)) return 0;
    // Only movement keeps what a tolerance means; everything else could make a small difference large.
    movement_only_ = options_.keep_sharp && (info.kind != OpKind::Movement || info.op == Op::BitcastConvert);
    for (int i = 0; i < kTries; ++i) {
      if (counts_) ++(*counts_)[info.op].tried;
      if (!try_node(info)) continue;
      if (counts_) ++(*counts_)[info.op].accepted;
      return 1;
    }
    return 0;
  }

  bool try_node(const OpInfo& info) {
    Graph before = result_.graph;
    size_t values = approximate_.size();
    Proposal proposal = propose(info, random_, *this);
    bool approximate = !is_exact(info.accuracy);
    for (ValueId operand : proposal.operands)
      approximate |= operand.is_valid() && approximate_[operand.index];
    bool good = !options_.runnable || has_defined_result(info.op, proposal);
    Result<NodeId> node = Status::invalid("undefined result");
    if (good) node = result_.graph.append(info.op, proposal.operands, proposal.attributes, proposal.regions);
    if (!node.is_ok() || !small(*node)) {
      result_.graph = std::move(before);
      approximate_.resize(values);
      return false;
    }
    approximate_.resize(graph().value_count(), approximate);
    result_.approximate |= approximate;
    return true;
  }

  static bool has_defined_result(Op op, const Proposal& proposal) {
    const Attribute* policy = find_attribute(op, proposal.attributes, "oob");
    if (policy && std::get<std::string>(*policy) == "error") return false;
    for (const auto& [name, value] : proposal.attributes) {
      const auto* word = std::get_if<std::string>(&value);
      if (word && *word == "promise") return false;
      if (name == "unique" || name == "sorted") return false;  // promises about data
    }
    return true;
  }

  bool small(NodeId id) const {
    for (ValueId result : graph().node(id).results) {
      if (graph().type(result).elements().range(graph().symbols).max > kMaxElements) return false;
    }
    return true;
  }

  void add_outputs() {
    std::vector<bool> used(graph().value_count(), false);
    for (const Node& node : graph().nodes()) {
      for (ValueId operand : node.operands) {
        if (operand.is_valid()) used[operand.index] = true;
      }
    }
    for (const Node& node : graph().nodes()) {
      for (ValueId result : node.results) {
        if (!used[result.index] || chance(random_, 15)) result_.graph.add_output(result);
      }
    }
  }

  Random random_;
  const GeneratorOptions& options_;
  OpCounts* counts_;
  GeneratedGraph result_;
  std::vector<bool> approximate_;
  bool movement_only_ = false;
};

}  // namespace

GeneratedGraph generate_graph(uint64_t seed, const GeneratorOptions& options, OpCounts* counts) {
  return Generator(seed, options, counts).generate();
}

}  // namespace tilewright::fuzz
