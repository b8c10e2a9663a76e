// The GPT as graphs: parameters, forward pass, a whole training step, and next-byte logits for sampling.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "examples/train_gpt/config.h"
#include "tilewright/tilewright.hpp"

struct Parameter {
  std::string name;
  tw::Sizes sizes;
  double deviation;  // of the normal distribution it starts from; 0: constant `start`
  double start = 0;
  bool decays = false;
};

// All parameters in the order in which the graphs take them.
std::vector<Parameter> parameters_of(const Config& config);

// One training step: forward, backward, clipping and AdamW in one graph.
// Inputs: tokens i32[batch, context + 1], state u64[2], step f32[], lr f32[], then p, m, v of each parameter.
// Outputs: loss f32[], gradient norm f32[], state u64[2], then p, m, v of each parameter, which alias their
// inputs.
tw::Graph training_step(const Config& config);

// Inputs: tokens i32[1, context], position i32[], then the parameters.  Output: logits f32[vocabulary] after
// `position`.
tw::Graph next_byte(const Config& config);
