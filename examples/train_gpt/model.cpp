// The graphs of the GPT.
#include "examples/train_gpt/model.h"

#include <cmath>

using tw::Value;

namespace {

// Hands out parameter values in the order of parameters_of.
class Weights {
 public:
  explicit Weights(std::vector<Value> values) : values_(std::move(values)) {}
  Value next() { return values_.at(at_++); }

 private:
  std::vector<Value> values_;
  size_t at_ = 0;
};

// Dropout that threads the random state through; nothing when p is 0.
struct Dropper {
  double p;
  Value state;
  Value operator()(Value x) {
    if (p == 0) return x;
    tw::Dropout dropped = tw::dropout(x, state, p);
    state = dropped.state;
    return dropped.y;
  }
};

Value linear(Value x, Weights& weights) {
  Value w = weights.next(), b = weights.next();
  return tw::matmul(x, w) + b;
}

Value attention_block(const Config& c, Value x, int64_t batch, Weights& weights, Dropper& drop) {
  int64_t head = c.width / c.heads;
  Value qkv = linear(x, weights);
  std::vector<Value> parts = tw::split(qkv, 2, {c.width, c.width, c.width});
  for (Value& part : parts) {
    part = tw::transpose(tw::reshape(part, {batch, c.context, c.heads, head}), {0, 2, 1, 3});
  }
  tw::AttentionOptions options;
  options.causal = true;
  Value y = tw::attention(parts[0], parts[1], parts[2], options).y;
  y = tw::reshape(tw::transpose(y, {0, 2, 1, 3}), {batch, c.context, c.width});
  return drop(linear(y, weights));
}

Value mlp_block(Value x, Weights& weights, Dropper& drop) {
  Value hidden = tw::gelu(linear(x, weights));
  return drop(linear(hidden, weights));
}

Value norm(Value x, Weights& weights) {
  Value w = weights.next(), b = weights.next();
  return tw::layer_norm(x, w, b);
}

// tokens i32[batch, context] to logits [batch, context, vocabulary].
Value forward(const Config& c, Value tokens, int64_t batch, Weights& weights, Dropper& drop) {
  Value table = weights.next(), positions = weights.next();
  Value x = drop(tw::embedding(table, tokens) + positions);
  for (int64_t layer = 0; layer < c.layers; ++layer) {
    Value normed = norm(x, weights);
    x = x + attention_block(c, normed, batch, weights, drop);
    normed = norm(x, weights);
    x = x + mlp_block(normed, weights, drop);
  }
  x = norm(x, weights);
  return c.tied ? tw::matmul(x, table, false, true) : tw::matmul(x, weights.next());
}

tw::Graph loss_graph(const Config& c, const std::vector<Parameter>& parameters) {
  tw::Graph graph("gpt_loss");
  Value tokens = graph.input("tokens", tw::i32, {c.batch, c.context + 1});
  Value state = graph.input("state", tw::u64, {2});
  std::vector<Value> values;
  for (const Parameter& p : parameters) {
    values.push_back(graph.input(p.name.c_str(), tw::f32, tw::Shape(p.sizes.begin(), p.sizes.end())));
  }
  Weights weights(values);
  Dropper drop{c.dropout, state};
  Value inputs = tw::slice(tokens, {0, 0}, {c.batch, c.context});
  Value targets = tw::slice(tokens, {0, 1}, {c.batch, c.context + 1});
  Value logits = forward(c, inputs, c.batch, weights, drop);
  int64_t rows = c.batch * c.context;
  Value loss =
      tw::cross_entropy(tw::reshape(logits, {rows, Config::kVocabulary}), tw::reshape(targets, {rows}));
  graph.output(loss, "loss");
  graph.output(drop.state, "state_out");
  return graph;
}

}  // namespace

std::vector<Parameter> parameters_of(const Config& c) {
  std::vector<Parameter> all;
  double deviation = 0.02, residual = 0.02 / std::sqrt(2.0 * static_cast<double>(c.layers));
  auto matrix = [&](std::string name, int64_t rows, int64_t columns, double spread) {
    all.push_back({std::move(name), {rows, columns}, spread, 0, true});
  };
  auto vector = [&](std::string name, int64_t size, double start) {
    all.push_back({std::move(name), {size}, 0, start, false});
  };
  auto linear = [&](const std::string& name, int64_t in, int64_t out, double spread) {
    matrix(name + "_w", in, out, spread);
    vector(name + "_b", out, 0);
  };
  auto norm = [&](const std::string& name) {
    vector(name + "_w", c.width, 1);
    vector(name + "_b", c.width, 0);
  };
  matrix("embedding", Config::kVocabulary, c.width, deviation);
  matrix("positions", c.context, c.width, deviation);
  for (int64_t layer = 0; layer < c.layers; ++layer) {
    std::string at = "block" + std::to_string(layer) + "_";
    norm(at + "norm1");
    linear(at + "qkv", c.width, 3 * c.width, deviation);
    linear(at + "projection", c.width, c.width, residual);
    norm(at + "norm2");
    linear(at + "up", c.width, 4 * c.width, deviation);
    linear(at + "down", 4 * c.width, c.width, residual);
  }
  norm("norm");
  if (!c.tied) matrix("head", c.width, Config::kVocabulary, deviation);
  return all;
}

tw::Graph training_step(const Config& c) {
  std::vector<Parameter> parameters = parameters_of(c);
  tw::Graph loss = loss_graph(c, parameters);
  tw::GradientOptions gradients;
  gradients.outputs = {0};
  gradients.implicit_one = true;
  for (size_t i = 0; i < parameters.size(); ++i) gradients.inputs.push_back(static_cast<int64_t>(2 + i));
  tw::Graph joint = loss.gradient_joint(gradients);

  tw::Graph graph("gpt_step");
  Value tokens = graph.input("tokens", tw::i32, {c.batch, c.context + 1});
  Value state = graph.input("state", tw::u64, {2});
  Value step = graph.input("step", tw::f32, {});
  Value rate = graph.input("lr", tw::f32, {});
  std::vector<Value> p, m, v, operands{tokens, state};
  for (const Parameter& parameter : parameters) {
    tw::Shape shape(parameter.sizes.begin(), parameter.sizes.end());
    p.push_back(graph.input(parameter.name.c_str(), tw::f32, shape));
    m.push_back(graph.input((parameter.name + "_m").c_str(), tw::f32, shape));
    v.push_back(graph.input((parameter.name + "_v").c_str(), tw::f32, shape));
    operands.push_back(p.back());
  }
  std::vector<Value> results = graph.ops(TW_OP_CALL, operands, {}, {&joint});
  std::vector<Value> raw(results.begin() + 2, results.end());
  tw::Clipped clipped = tw::clip_global_norm(raw, graph.splat(c.clip, tw::f32));
  graph.output(results[0], "loss");
  graph.output(clipped.norm, "gradient_norm");
  graph.output(results[1], "state_out");
  for (size_t i = 0; i < parameters.size(); ++i) {
    tw::AdamwOptions options;
    options.beta2 = 0.99;
    options.weight_decay = parameters[i].decays ? c.weight_decay : 0;
    tw::Adamw updated = tw::adamw(p[i], clipped.values[i], m[i], v[i], step, rate, options);
    int64_t input = static_cast<int64_t>(4 + 3 * i);
    graph.alias(graph.output(updated.p, (parameters[i].name + "_out").c_str()), input);
    graph.alias(graph.output(updated.m, (parameters[i].name + "_m_out").c_str()), input + 1);
    graph.alias(graph.output(updated.v, (parameters[i].name + "_v_out").c_str()), input + 2);
  }
  return graph;
}

tw::Graph next_byte(const Config& c) {
  tw::Graph graph("gpt_next_byte");
  Value tokens = graph.input("tokens", tw::i32, {1, c.context});
  Value position = graph.input("position", tw::i32, {});
  std::vector<Value> values;
  for (const Parameter& p : parameters_of(c)) {
    values.push_back(graph.input(p.name.c_str(), tw::f32, tw::Shape(p.sizes.begin(), p.sizes.end())));
  }
  Weights weights(values);
  Dropper none{0, Value()};
  Value logits = tw::reshape(forward(c, tokens, 1, weights, none), {c.context, Config::kVocabulary});
  Value zero = graph.splat_integer(0, tw::i32);
  Value row =
      graph.op(TW_OP_DYNAMIC_SLICE, {logits, position, zero}, {{"sizes", tw::Shape{1, Config::kVocabulary}}});
  graph.output(tw::reshape(row, {Config::kVocabulary}), "logits");
  return graph;
}
