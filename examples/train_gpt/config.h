// Settings of a training run: model, data, schedule, files.
#pragma once

#include <cstdint>
#include <string>

struct Config {
  // model
  int64_t layers = 4, heads = 4, width = 128, context = 128;
  double dropout = 0.0;
  bool tied = true;  // the head shares the embedding's weights
  // training
  int64_t batch = 16, steps = 600, warmup = 50;
  double learning_rate = 2e-3, weight_decay = 0.1, clip = 1.0;
  uint64_t seed = 1337;
  // files
  std::string text = "/usr/share/common-licenses/GPL-3";
  std::string output = "train_gpt_out";
  bool resume = false;
  int64_t save_every = 200;
  int64_t sample = 200;  // bytes of generated text at the end
  // library
  std::string mode, target, threads;
  std::string graph_file;  // where to write the training step as text, and stop

  static constexpr int64_t kVocabulary = 256;  // bytes
};

// Reads the command line; prints help or an error and exits when told to or when it is wrong.
Config parse_arguments(int argc, char** argv);
