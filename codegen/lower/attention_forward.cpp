// Lowering of attention: a grid over blocks of queries, a loop over blocks of keys with running maximum, sum
// and output.
#include <algorithm>
#include <limits>

#include "codegen/lower/attention.h"
#include "codegen/lower/tile_sizes.h"

namespace tilewright {

using tile::AccessMode;
using tile::Combine;
using tile::TileType;

namespace {

constexpr int64_t kBlockKeysOfCausal = 64;  // less of the diagonal is for nothing

struct Running {
  ValueId max, sum, output;
};

class ForwardKernel {
 public:
  ForwardKernel(ProgramBuilder& builder, NodeId id)
      : builder_(builder),
        id_(id),
        node_(builder.graph().node(id)),
        problem_(read_attention(builder.graph(), node_)),
        tiles_(builder, problem_) {}

  Status emit() {
    choose_block();
    q_ = tiles_.add_param("q", problem_.q), k_ = tiles_.add_param("k", problem_.k);
    v_ = tiles_.add_param("v", problem_.v);
    tiles_.add_score_params();
    int output = tiles_.add_param("output", node_.results[0], AccessMode::Write),
        lse = tiles_.add_param("lse", node_.results[1], AccessMode::Write);
    tiles_.kernel.set_grid({problem_.batch, Dim::floor_div(problem_.heads, Dim(block_.heads)),
                            Dim::ceil_div(problem_.queries, Dim(block_.queries))});
    block_.batch = tile::KernelBuilder::grid_id(0);
    block_.head = tile::KernelBuilder::grid_id(1) * Dim(block_.heads);
    block_.query = tile::KernelBuilder::grid_id(2) * Dim(block_.queries);
    Running end = loop();
    store(end, output, lse);
    tiles_.launch("attention", id_);
    advance_state();
    return Status::ok();
  }

 private:
  void choose_block() {
    const std::vector<Symbol>& symbols = builder_.graph().symbols;
    int64_t queries = hint_of(problem_.queries, symbols), keys = hint_of(problem_.keys, symbols);
    int64_t heads = hint_of(problem_.batch, symbols) * hint_of(problem_.heads, symbols);
    const AttentionBlock most =
        attention_block(builder_.limits(), problem_.dtype, std::max(problem_.width, problem_.value_width));
    int64_t rows = most.queries;
    while (rows > most.min_queries && heads * ((queries + rows - 1) / rows) < most.wanted_instances)
      rows /= 2;
    block_.queries = clip_tile(problem_.queries, queries, even_block(problem_.queries, rows, 4));
    if (problem_.queries.is_constant(1) && problem_.group.is_constant()) {
      // One query: the heads that share keys make up a block, so that keys are read once for all.
      for (int64_t heads = 1; heads <= std::min(problem_.group.constant(), most.queries); ++heads) {
        if (problem_.group.constant() % heads == 0) block_.heads = heads;
      }
    }
    // Where a core multiplies, enough queries fill the columns of the scores: then no operand has to be
    // turned in the loop.
    const bool is_turned = builder_.limits().shared_bytes_per_block == 0 && block_.rows() >= most.min_queries;
    block_.query_axis = is_turned ? 1 : 0;
    int64_t columns = block_.queries < most.min_queries ? most.keys_of_few : most.keys;
    if (is_turned && problem_.causal) columns = std::min(columns, kBlockKeysOfCausal);
    block_.keys = clip_tile(problem_.keys, keys, even_block(problem_.keys, columns, 32));
  }

  Running loop() {
    double lowest = -std::numeric_limits<double>::infinity();
    ValueId max = tiles_.kernel.constant(lowest, TileType{problem_.work, {block_.rows()}});
    std::vector<int64_t> output{block_.rows(), problem_.value_width};
    if (block_.query_axis == 1) std::swap(output[0], output[1]);
    std::vector<ValueId> carries{max, tiles_.zeros({block_.rows()}), tiles_.zeros(std::move(output))};
    ValueId q = tiles_.load_queries(q_, block_, problem_.width);
    auto [from, to] = tiles_.key_range(block_.query, block_.queries, block_.keys);
    block_.key = tiles_.kernel.begin_for(from, to, Dim(block_.keys), carries);
    carries = tiles_.kernel.loop_carries();
    Running next = step(q, {carries[0], carries[1], carries[2]});
    std::vector<ValueId> end = tiles_.kernel.end_block({next.max, next.sum, next.output});
    return {end[0], end[1], end[2]};
  }

  Running step(ValueId q, const Running& before) {
    Dim key_head = Dim::floor_div(block_.head, problem_.group);
    const bool is_turned = block_.query_axis == 1;
    const Ints keys{block_.key_axis()};
    ValueId k =
        tiles_.load_rows(k_, block_.batch, key_head, block_.key, block_.keys, problem_.width, !is_turned);
    ValueId x = (is_turned ? tiles_.scores(block_, k, q, true) : tiles_.scores(block_, q, k, true)).value;
    Running after;
    after.max =
        tiles_.kernel.elementwise(Op::Maximum, {before.max, tiles_.kernel.reduce(Combine::Max, x, keys)});
    ValueId pivot = tiles_.nothing_to_zero(after.max);
    ValueId powers = tiles_.exponential(tiles_.subtract(x, tiles_.per_query(block_, pivot, x)));
    ValueId fade = tiles_.exponential(tiles_.subtract(before.max, pivot));
    after.sum =
        tiles_.add(tiles_.multiply(before.sum, fade), tiles_.kernel.reduce(Combine::Sum, powers, keys));
    ValueId weights = tiles_.drop(tiles_.keep(block_), powers);
    ValueId v = tiles_.load_rows(v_, block_.batch, key_head, block_.key, block_.keys, problem_.value_width);
    ValueId faded = tiles_.multiply(before.output, tiles_.per_query(block_, fade, before.output));
    after.output = is_turned ? tiles_.dot_columns(tiles_.widen(v), weights, faded)
                             : tiles_.accumulate(weights, v, faded, problem_.dropout == 0);
    return after;
  }

  void store(const Running& end, int output, int lse) {
    tile::KernelBuilder& kernel = tiles_.kernel;
    ValueId factor = kernel.elementwise(Op::Divide, {tiles_.splat(1, end.sum), end.sum});
    ValueId sums = tiles_.add(kernel.elementwise(Op::Log, {end.sum}), tiles_.nothing_to_zero(end.max));
    if (problem_.safe) {
      ValueId empty = kernel.compare(end.sum, tiles_.splat(0, end.sum), "EQ");
      factor = kernel.elementwise(Op::Select, {empty, tiles_.splat(0, factor), factor});
    } else {
      // -inf - -inf: a row without any key is NaN.
      sums = tiles_.add(sums, tiles_.subtract(end.max, end.max));
    }
    ValueId scaled = tiles_.multiply(end.output, tiles_.per_query(block_, factor, end.output));
    tiles_.store_queries(output, block_, scaled);
    tiles_.store_statistic(lse, block_, sums);
  }

  // The generator's state as if it had drawn a word a score, or zeros without one.
  void advance_state() {
    AttentionTiles tiles(builder_, problem_);
    tile::KernelBuilder& kernel = tiles.kernel;
    TileType type{DType::U64, {2}};
    tile::DimIndex both{Dim(0), {{0, 1}}, {}};
    ValueId next = kernel.integer(0, type);
    if (problem_.state.is_valid()) {
      ValueId state = kernel.load(tile::Access{tiles.add_param("state", problem_.state), {both}, true}, type);
      Dim words = problem_.batch * problem_.heads * problem_.queries * problem_.keys;
      TileType wide{DType::I64, {2}};
      ValueId steps = tiles.multiply(kernel.index(both, wide),
                                     kernel.index({Dim::ceil_div(words, Dim(4)), {}, {}}, wide));
      next = tiles.add(state, kernel.convert(steps, DType::U64));
    }
    int out = tiles.add_param("next", node_.results[2], AccessMode::Write);
    kernel.store(next, tile::Access{out, {both}, true});
    tiles.launch("advance random state", id_);
  }

  ProgramBuilder& builder_;
  NodeId id_;
  const Node& node_;
  AttentionProblem problem_;
  AttentionTiles tiles_;
  ScoreBlock block_;
  int q_ = 0, k_ = 0, v_ = 0;
};

}  // namespace

Status lower_attention_forward(ProgramBuilder& builder, NodeId id) {
  return ForwardKernel(builder, id).emit();
}

}  // namespace tilewright
