// Attention kept whole: what its forward and backward kernels share.
#pragma once

#include "codegen/lower/program_builder.h"

namespace tilewright {

// Attention and its gradient are lowered whole (not expanded) when this says so.
bool attention_is_lowered(const Graph& graph, const Node& node);

// Queries and keys of a block, from what the chip has: whole caches of a core, or shared memory and registers
// of a block of threads.
struct AttentionBlock {
  int64_t queries = 64, min_queries = 16, keys = 128;
  int64_t keys_of_few = 512;  // few queries leave room for more keys
  int64_t wanted_instances = 16;
};
AttentionBlock attention_block(const TargetLimits& limits, DType dtype, int64_t width);

struct AttentionProblem {
  ValueId q, k, v, mask, state;  // mask and state may be absent
  Dim batch, heads, key_heads, group, queries, keys;
  int64_t width = 1, value_width = 1;  // of q and k; of v
  DType dtype = DType::F32, work = DType::F32;
  bool causal = false, safe = true;
  int64_t window = -1;
  double scale = 1, softcap = 0, dropout = 0;
};
AttentionProblem read_attention(const Graph& graph, const Node& node);

// A block of the score matrix: queries of one head along `query_axis` of its tiles, keys along the other.
// With one query, the heads that share keys may take the place of queries.
struct ScoreBlock {
  Dim batch, head;
  Dim query, key;  // first of the block
  int64_t queries = 1, keys = 1;
  int query_axis = 0;
  int64_t heads = 1;

  int key_axis() const { return 1 - query_axis; }
  int64_t rows() const { return queries * heads; }
  std::vector<int64_t> shape() const {
    return query_axis == 0 ? std::vector<int64_t>{rows(), keys} : std::vector<int64_t>{keys, rows()};
  }
  tile::DimIndex head_index(int axis) const {
    tile::DimIndex index{head, {}, {}};
    if (heads > 1) index.terms.push_back({axis, 1});
    return index;
  }
  tile::DimIndex query_index(int axis) const {
    tile::DimIndex index{query, {}, {}};
    if (heads == 1) index.terms.push_back({axis, 1});
    return index;
  }
};

// Builds the tiles of one attention kernel.
class AttentionTiles {
 public:
  AttentionTiles(ProgramBuilder& program, const AttentionProblem& problem)
      : kernel(""), program_(program), problem_(problem) {}

  int add_param(const char* name, ValueId value, tile::AccessMode mode = tile::AccessMode::Read);
  int add_param(const char* name, BufferId buffer, TensorType type,
                tile::AccessMode mode = tile::AccessMode::Read);
  // Mask and state, where the problem has them.
  void add_score_params();

  // Rows of a [batch, head, position, feature] buffer: [positions, features], or its transpose.
  ValueId load_rows(int param, const Dim& batch, const Dim& head, const Dim& first, int64_t positions,
                    int64_t features, bool transposed = false);
  void store_rows(int param, const Dim& batch, const Dim& head, const Dim& first, ValueId tile);
  // The rows of queries of a block: [rows, features], or its transpose where queries are columns of scores.
  ValueId load_queries(int param, const ScoreBlock& block, int64_t features);
  void store_queries(int param, const ScoreBlock& block, ValueId tile);
  // A value a query, from a [batch, head, query] buffer.
  ValueId load_statistic(int param, const ScoreBlock& block, double outside);
  void store_statistic(int param, const ScoreBlock& block, ValueId tile);

  struct Scores {
    ValueId value;   // scaled, capped and masked with -inf
    ValueId capped;  // tanh of the soft cap, or invalid
  };
  // From lhs [rows, width] and rhs [width, columns].  `mask_tail`: keys behind the end are masked too.
  Scores scores(const ScoreBlock& block, ValueId lhs, ValueId rhs, bool mask_tail);
  // Which probabilities survive dropout; invalid without dropout.
  ValueId keep(const ScoreBlock& block);
  ValueId drop(ValueId keep, ValueId x);

  ValueId dot(ValueId lhs, ValueId rhs, ValueId acc) {
    return kernel.dot(lhs, rhs, acc, tile::DotDims{{1}, {0}, {}, {}});
  }
  // lhs transposed [depth, rows] and rhs [depth, columns].
  ValueId dot_columns(ValueId lhs, ValueId rhs, ValueId acc) {
    return kernel.dot(lhs, rhs, acc, tile::DotDims{{0}, {0}, {}, {}});
  }
  ValueId zeros(std::vector<int64_t> shape) {
    return kernel.integer(0, tile::TileType{problem_.work, std::move(shape)});
  }
  ValueId splat(double value, ValueId like) {
    return kernel.constant(value, tile::TileType{problem_.work, kernel.type(like).shape});
  }
  ValueId multiply(ValueId a, ValueId b) { return kernel.elementwise(Op::Multiply, {a, b}); }
  ValueId add(ValueId a, ValueId b) { return kernel.elementwise(Op::Add, {a, b}); }
  ValueId subtract(ValueId a, ValueId b) { return kernel.elementwise(Op::Subtract, {a, b}); }
  ValueId exponential(ValueId a) { return kernel.elementwise(Op::Exponential, {a}); }
  ValueId widen(ValueId a) { return kernel.convert(a, problem_.work); }
  // acc plus products of computed values with loaded ones.  Where the chip multiplies the tensors' type with
  // wide sums the computed values go in as two parts of that type; `bounded`: they are at most about 1.
  ValueId accumulate(ValueId computed, ValueId loaded, ValueId acc, bool bounded);
  // 0 where the value is -inf.
  ValueId nothing_to_zero(ValueId x);
  // A value a query repeated along the other axis of a matrix.
  ValueId per_query(const ScoreBlock& block, ValueId values, ValueId like) {
    return kernel.broadcast(values, kernel.type(like).shape, {block.query_axis});
  }

  // Keys [first, end) that some query of the block may attend to, `first` a multiple of `step`; and the
  // reverse.
  std::pair<Dim, Dim> key_range(const Dim& query, int64_t queries, int64_t step) const;
  std::pair<Dim, Dim> query_range(const Dim& key, int64_t keys, int64_t step) const;

  void launch(std::string description, NodeId node);

  tile::KernelBuilder kernel;

 private:
  ValueId apply_mask(const ScoreBlock& block, ValueId x);
  ValueId allowed(const ScoreBlock& block, bool mask_tail);
  ValueId both(ValueId a, ValueId b) { return a.is_valid() ? kernel.elementwise(Op::And, {a, b}) : b; }

  ProgramBuilder& program_;
  const AttentionProblem& problem_;
  std::vector<BufferId> buffers_;
  int mask_ = -1, state_ = -1;
};

Status lower_attention_forward(ProgramBuilder& builder, NodeId id);
Status lower_attention_backward(ProgramBuilder& builder, NodeId id);

}  // namespace tilewright
