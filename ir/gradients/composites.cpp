// Gradients of composites that have a gradient composite of their own.  A cotangent for a secondary result
// (statistics, log-sum-exp) is rare: then the expansion is differentiated.
#include "ir/gradients/rules.h"

namespace tilewright {

using namespace gradients;

namespace {

ValueId operand(const Gradient& g, size_t index) {
  return index < g.operands.size() ? g.operands[index] : ValueId{};
}

// Copies the gradients that are there; `from[i]` belongs to operand `to[i]`.
void deliver(Gradient& g, const std::vector<ValueId>& from, const std::vector<int>& to) {
  for (size_t i = 0; i < to.size() && i < from.size(); ++i) {
    if (g.wants(to[i])) g.gradients[to[i]] = from[i];
  }
}

Status softmax_like(Gradient& g, Op op) {
  Builder& b = g.b;
  AttributeMap attributes = pick_attributes(g, {"dim"});
  if (dtype_of(g, 0) != b.dtype(g.results[0])) attributes["out_type"] = dtype_of(g, 0);
  g.gradients[0] = b.emit(op, {g.cotangent(), g.results[0]}, attributes);
  return Status::ok();
}

}  // namespace

Status gradient_softmax(Gradient& g) { return softmax_like(g, Op::SoftmaxGrad); }
Status gradient_log_softmax(Gradient& g) { return softmax_like(g, Op::LogSoftmaxGrad); }

// ---- norms ----

Status gradient_layer_norm(Gradient& g) {
  if (has_secondary_cotangent(g)) return differentiate_expansion(g);
  deliver(g,
          g.b.emit_all(Op::LayerNormGrad,
                       {g.cotangent(), g.operands[0], g.results[1], g.results[2], operand(g, 1)},
                       pick_attributes(g, {"axes"})),
          {0, 1, 2});
  return Status::ok();
}

Status gradient_rms_norm(Gradient& g) {
  if (has_secondary_cotangent(g)) return differentiate_expansion(g);
  deliver(g,
          g.b.emit_all(Op::RmsNormGrad, {g.cotangent(), g.operands[0], g.results[1], operand(g, 1)},
                       pick_attributes(g, {"axes"})),
          {0, 1});
  return Status::ok();
}

Status gradient_group_norm(Gradient& g) {
  if (has_secondary_cotangent(g)) return differentiate_expansion(g);
  deliver(g,
          g.b.emit_all(Op::GroupNormGrad,
                       {g.cotangent(), g.operands[0], g.results[1], g.results[2], operand(g, 1)},
                       pick_attributes(g, {"groups"})),
          {0, 1, 2});
  return Status::ok();
}

Status gradient_batch_norm_train(Gradient& g) {
  if (has_secondary_cotangent(g)) return differentiate_expansion(g);
  deliver(g,
          g.b.emit_all(Op::BatchNormGrad,
                       {g.cotangent(), g.operands[0], operand(g, 1), g.results[1], g.results[2]},
                       pick_attributes(g, {"feature_dim"})),
          {0, 1, 2});
  return Status::ok();
}

// ---- dropout, attention, embedding ----

Status gradient_dropout(Gradient& g) {
  if (!g.cotangents[0].is_valid()) return Status::ok();
  g.gradients[0] = g.b.emit(Op::DropoutGrad, {g.cotangent(), g.results[1]}, pick_attributes(g, {"p"}));
  return Status::ok();
}

Status gradient_attention(Gradient& g) {
  Builder& b = g.b;
  if (has_secondary_cotangent(g)) return differentiate_expansion(g);
  AttributeMap attributes = pick_attributes(g, {"scale", "causal", "window", "softcap", "dropout", "safe"});
  attributes["mask_grad"] = g.wants(3);
  std::vector<ValueId> gradients = b.emit_all(Op::AttentionGrad,
                                              {g.cotangent(), g.operands[0], g.operands[1], g.operands[2],
                                               operand(g, 3), operand(g, 4), g.results[0], g.results[1]},
                                              attributes);
  if (g.wants(3) && b.status().is_ok()) gradients[3] = b.convert(gradients[3], dtype_of(g, 3));
  deliver(g, gradients, {0, 1, 2, 3});
  return Status::ok();
}

// The transpose of a rotation turns the other way.
Status gradient_rope(Gradient& g) {
  if (g.wants(1) || g.wants(2)) return differentiate_expansion(g);
  g.gradients[0] = g.b.emit(Op::Rope, {g.cotangent(), g.operands[1], g.b.negate(g.operands[2])},
                            pick_attributes(g, {"interleaved"}));
  return Status::ok();
}

Status gradient_embedding(Gradient& g) {
  Builder& b = g.b;
  ValueId indices = g.operands[1];
  Dim rows = shape_of(g, 0)[0];
  if (g.attributes.get_string("oob") == "clamp") {
    DType dtype = b.dtype(indices);
    ValueId count = b.convert(b.emit(Op::DimSize, {g.operands[0]}, {{"dim", int64_t{0}}}), dtype);
    ValueId last = b.subtract(count, b.integer(1, dtype));
    indices = b.emit(Op::Clamp, {b.integer(0, dtype), indices, last});
  }
  AttributeMap attributes = pick_attributes(g, {"padding_idx"});
  attributes["rows"] = Shape{rows};
  g.gradients[0] = b.emit(Op::EmbeddingGrad, {g.cotangent(), indices}, attributes);
  return Status::ok();
}

Status gradient_embedding_bag(Gradient& g) {
  Builder& b = g.b;
  if (!g.cotangents[0].is_valid()) return Status::ok();
  ValueId c = g.cotangent(), indices = g.operands[1], offsets = g.operands[2];
  if (g.wants(0)) {
    AttributeMap attributes = pick_attributes(g, {"mode", "include_last_offset"});
    attributes["rows"] = Shape{shape_of(g, 0)[0]};
    g.gradients[0] =
        b.emit(Op::EmbeddingBagGrad, {c, indices, offsets, operand(g, 3), g.results[1]}, attributes);
  }
  if (g.wants(3)) {
    g.gradients[3] = b.emit(Op::EmbeddingBagWeightsGrad, {c, g.operands[0], indices, offsets},
                            pick_attributes(g, {"include_last_offset"}));
  }
  return Status::ok();
}

// ---- losses ----

Status gradient_cross_entropy(Gradient& g) {
  if (has_secondary_cotangent(g) || g.wants(2)) return differentiate_expansion(g);
  g.gradients[0] = g.b.emit(Op::CrossEntropyGrad,
                            {g.cotangent(), g.operands[0], g.operands[1], operand(g, 2), g.results[1]},
                            pick_attributes(g, {"ignore_index", "label_smoothing", "reduction"}));
  return Status::ok();
}

Status gradient_linear_cross_entropy(Gradient& g) {
  if (has_secondary_cotangent(g)) return differentiate_expansion(g);
  deliver(g,
          g.b.emit_all(Op::LinearCrossEntropyGrad,
                       {g.cotangent(), g.operands[0], g.operands[1], g.operands[2], g.results[1]},
                       pick_attributes(g, {"ignore_index", "reduction"})),
          {0, 1});
  return Status::ok();
}

// ---- convolution, pooling, resizing ----

Status gradient_conv2d(Gradient& g) {
  Builder& b = g.b;
  Shape w = shape_of(g, 1);
  if (!w[2].is_constant() || !w[3].is_constant()) return differentiate_expansion(g);
  AttributeMap attributes = pick_attributes(g, {"strides", "pad", "dilation", "groups"});
  if (g.wants(0)) {
    AttributeMap own = attributes;
    own["size"] = shape_of(g, 0);
    g.gradients[0] = b.emit(Op::Conv2dInputGrad, {g.cotangent(), g.operands[1]}, own);
  }
  if (g.wants(1)) {
    AttributeMap own = attributes;
    own["kernel"] = Ints{w[2].constant(), w[3].constant()};
    g.gradients[1] = b.emit(Op::Conv2dWeightGrad, {g.cotangent(), g.operands[0]}, own);
  }
  if (g.wants(2)) g.gradients[2] = b.reduce_sum(g.cotangent(), {0, 2, 3});
  return Status::ok();
}

Status gradient_max_pool2d(Gradient& g) {
  if (!g.cotangents[0].is_valid()) return Status::ok();
  g.gradients[0] = g.b.emit(Op::MaxPool2dGrad, {g.cotangent(), g.results[1]}, {{"size", shape_of(g, 0)}});
  return Status::ok();
}

Status gradient_avg_pool2d(Gradient& g) {
  AttributeMap attributes =
      pick_attributes(g, {"kernel", "strides", "pad", "ceil_mode", "count_include_pad", "divisor"});
  attributes["size"] = shape_of(g, 0);
  g.gradients[0] = g.b.emit(Op::AvgPool2dGrad, {g.cotangent()}, attributes);
  return Status::ok();
}

Status gradient_upsample(Gradient& g) {
  AttributeMap attributes = pick_attributes(g, {"mode", "align_corners"});
  attributes["size"] = shape_of(g, 0);
  g.gradients[0] = g.b.emit(Op::UpsampleGrad, {g.cotangent()}, attributes);
  return Status::ok();
}

}  // namespace tilewright
