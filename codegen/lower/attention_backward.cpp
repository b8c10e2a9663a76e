// Lowering of attention_grad: sums of g * o, then keys and values by blocks of keys, then queries by blocks
// of queries; the probabilities are computed again from lse.
#include <limits>

#include "codegen/lower/attention.h"
#include "codegen/lower/tile_sizes.h"

namespace tilewright {

using tile::AccessMode;
using tile::Combine;
using tile::TileType;

namespace {

constexpr int64_t kOutputOperand = 6, kLseOperand = 7;

class Backward {
 public:
  Backward(ProgramBuilder& builder, NodeId id)
      : builder_(builder),
        id_(id),
        node_(builder.graph().node(id)),
        problem_(read_attention(builder.graph(), node_)) {
    const std::vector<Symbol>& symbols = builder_.graph().symbols;
    const AttentionBlock most =
        attention_block(builder_.limits(), problem_.dtype, std::max(problem_.width, problem_.value_width));
    const int64_t block = std::min<int64_t>(most.queries, 64);
    queries_ = clip_tile(problem_.queries, hint_of(problem_.queries, symbols),
                         even_block(problem_.queries, block, 16));
    keys_ = clip_tile(problem_.keys, hint_of(problem_.keys, symbols), even_block(problem_.keys, block, 16));
    row_sums_type_ = TensorType{problem_.work, {problem_.batch, problem_.heads, problem_.queries}};
    row_sums_ = builder_.add_temporary(row_sums_type_, "attention row sums");
  }

  Status emit() {
    emit_row_sums();
    emit_keys_and_values();
    emit_queries();
    return Status::ok();
  }

 private:
  struct Params {
    int g, q, k, v, lse, row_sums;
  };

  Params add_params(AttentionTiles& tiles) const {
    Params p;
    p.g = tiles.add_param("g", node_.operands[0]);
    p.q = tiles.add_param("q", problem_.q), p.k = tiles.add_param("k", problem_.k);
    p.v = tiles.add_param("v", problem_.v), p.lse = tiles.add_param("lse", node_.operands[kLseOperand]);
    p.row_sums = tiles.add_param("row_sums", row_sums_, row_sums_type_);
    tiles.add_score_params();
    return p;
  }

  void emit_row_sums() {
    AttentionTiles tiles(builder_, problem_);
    int g = tiles.add_param("g", node_.operands[0]), o = tiles.add_param("o", node_.operands[kOutputOperand]);
    int out = tiles.add_param("row_sums", row_sums_, row_sums_type_, AccessMode::Write);
    tiles.kernel.set_grid({problem_.batch, problem_.heads, Dim::ceil_div(problem_.queries, Dim(queries_))});
    Dim batch = tile::KernelBuilder::grid_id(0), head = tile::KernelBuilder::grid_id(1),
        query = tile::KernelBuilder::grid_id(2) * Dim(queries_);
    auto load = [&](int param) {
      return tiles.widen(tiles.load_rows(param, batch, head, query, queries_, problem_.value_width));
    };
    ValueId sums = tiles.kernel.reduce(Combine::Sum, tiles.multiply(load(g), load(o)), {1});
    tiles.store_statistic(out, ScoreBlock{batch, head, query, {}, queries_}, sums);
    tiles.launch("attention_grad: row sums", id_);
  }

  // What the gradient kernels know of one block of scores.
  struct Pieces {
    ValueId weights;  // after dropout
    ValueId scores;   // gradient of the scaled scores, times the scale
  };

  // lhs and rhs give the scores; g_lhs and g_rhs give the gradient of the weights, in the same orientation.
  Pieces differentiate(AttentionTiles& tiles, const ScoreBlock& block, const Params& params, ValueId lhs,
                       ValueId rhs, ValueId g_lhs, ValueId g_rhs) const {
    AttentionTiles::Scores x = tiles.scores(block, lhs, rhs, block.query_axis == 0);
    // Queries behind the end have lse = inf, and so no weight.
    ValueId lse = tiles.load_statistic(params.lse, block, std::numeric_limits<double>::infinity());
    if (problem_.safe) lse = tiles.nothing_to_zero(lse);
    ValueId weights = tiles.exponential(tiles.subtract(x.value, lse));
    ValueId keep = tiles.keep(block);
    ValueId slopes = tiles.drop(keep, tiles.dot(g_lhs, g_rhs, tiles.zeros(block.shape())));
    ValueId sums = tiles.load_statistic(params.row_sums, block, 0);
    ValueId scores = tiles.multiply(weights, tiles.subtract(slopes, sums));
    if (x.capped.is_valid()) {
      ValueId square = tiles.multiply(x.capped, x.capped);
      scores = tiles.multiply(scores, tiles.subtract(tiles.splat(1, square), square));
    }
    return {tiles.drop(keep, weights), tiles.multiply(scores, tiles.splat(problem_.scale, scores))};
  }

  // Scores with keys along the rows: a block of keys owns its rows of both gradients.
  void emit_keys_and_values() {
    AttentionTiles tiles(builder_, problem_);
    tile::KernelBuilder& kernel = tiles.kernel;
    Params params = add_params(tiles);
    int dk = tiles.add_param("dk", node_.results[1], AccessMode::Write),
        dv = tiles.add_param("dv", node_.results[2], AccessMode::Write);
    kernel.set_grid({problem_.batch, problem_.key_heads, Dim::ceil_div(problem_.keys, Dim(keys_))});
    ScoreBlock block{tile::KernelBuilder::grid_id(0), {}, {}, {}, queries_, keys_, 1};
    Dim key_head = tile::KernelBuilder::grid_id(1);
    block.key = tile::KernelBuilder::grid_id(2) * Dim(keys_);
    ValueId k = tiles.load_rows(params.k, block.batch, key_head, block.key, keys_, problem_.width);
    ValueId v = tiles.load_rows(params.v, block.batch, key_head, block.key, keys_, problem_.value_width);
    std::vector<ValueId> sums{tiles.zeros({keys_, problem_.width}),
                              tiles.zeros({keys_, problem_.value_width})};
    block.head = key_head;
    bool grouped = !problem_.group.is_constant(1);
    if (grouped) {
      Dim member = kernel.begin_for(Dim(0), problem_.group, Dim(1), sums);
      block.head = key_head * problem_.group + member;
      sums = kernel.loop_carries();
    }
    auto [from, to] = tiles.query_range(block.key, keys_, queries_);
    block.query = kernel.begin_for(from, to, Dim(queries_), sums);
    sums = kernel.loop_carries();
    auto rows = [&](int param, int64_t width, bool transposed) {
      return tiles.load_rows(param, block.batch, block.head, block.query, queries_, width, transposed);
    };
    Pieces pieces = differentiate(tiles, block, params, k, rows(params.q, problem_.width, true), v,
                                  rows(params.g, problem_.value_width, true));
    ValueId g = rows(params.g, problem_.value_width, false), q = rows(params.q, problem_.width, false);
    sums = kernel.end_block({tiles.accumulate(pieces.scores, q, sums[0], false),
                             tiles.accumulate(pieces.weights, g, sums[1], false)});
    if (grouped) sums = kernel.end_block(sums);
    tiles.store_rows(dk, block.batch, key_head, block.key, sums[0]);
    tiles.store_rows(dv, block.batch, key_head, block.key, sums[1]);
    tiles.launch("attention_grad: keys and values", id_);
  }

  void emit_queries() {
    AttentionTiles tiles(builder_, problem_);
    tile::KernelBuilder& kernel = tiles.kernel;
    Params params = add_params(tiles);
    int dq = tiles.add_param("dq", node_.results[0], AccessMode::Write);
    kernel.set_grid({problem_.batch, problem_.heads, Dim::ceil_div(problem_.queries, Dim(queries_))});
    ScoreBlock block{
        tile::KernelBuilder::grid_id(0), tile::KernelBuilder::grid_id(1), {}, {}, queries_, keys_, 0};
    block.query = tile::KernelBuilder::grid_id(2) * Dim(queries_);
    Dim key_head = Dim::floor_div(block.head, problem_.group);
    ValueId q = tiles.load_rows(params.q, block.batch, block.head, block.query, queries_, problem_.width);
    ValueId g =
        tiles.load_rows(params.g, block.batch, block.head, block.query, queries_, problem_.value_width);
    auto [from, to] = tiles.key_range(block.query, queries_, keys_);
    block.key = kernel.begin_for(from, to, Dim(keys_), {tiles.zeros({queries_, problem_.width})});
    ValueId sum = kernel.loop_carries()[0];
    auto rows = [&](int param, int64_t width, bool transposed) {
      return tiles.load_rows(param, block.batch, key_head, block.key, keys_, width, transposed);
    };
    Pieces pieces = differentiate(tiles, block, params, q, rows(params.k, problem_.width, true), g,
                                  rows(params.v, problem_.value_width, true));
    ValueId k = rows(params.k, problem_.width, false);
    sum = kernel.end_block({tiles.accumulate(pieces.scores, k, sum, false)})[0];
    tiles.store_rows(dq, block.batch, block.head, block.query, sum);
    tiles.launch("attention_grad: queries", id_);
  }

  ProgramBuilder& builder_;
  NodeId id_;
  const Node& node_;
  AttentionProblem problem_;
  int64_t queries_ = 1, keys_ = 1;
  TensorType row_sums_type_;
  BufferId row_sums_;
};

}  // namespace

Status lower_attention_backward(ProgramBuilder& builder, NodeId id) { return Backward(builder, id).emit(); }

}  // namespace tilewright
