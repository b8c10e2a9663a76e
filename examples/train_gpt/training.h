// State of a run: weights and optimizer moments, batches, checkpoints, and the files that it leaves.
#pragma once

#include <string>
#include <vector>

#include "examples/train_gpt/config.h"
#include "examples/train_gpt/model.h"

// Parameters, moments and counters; what a checkpoint holds.
struct TrainingState {
  std::vector<tw::Tensor> tensors;  // p, m, v of each parameter
  tw::Tensor random_state;          // u64[2]
  int64_t step = 0;

  TrainingState(const Config& config, const std::vector<Parameter>& parameters);
  // Replaces every tensor by a copy elsewhere.
  template <class Copy>
  void move(Copy&& copy) {
    for (tw::Tensor& tensor : tensors) tensor = copy(tensor);
    random_state = copy(random_state);
  }
  // Written beside and renamed, so that a crash leaves the old one whole.
  void save(const std::string& path) const;
  // Throws std::runtime_error when the file does not fit this model.
  void load(const std::string& path);
};

// Random windows of the text; the same for a given seed and step.
class Batches {
 public:
  Batches(const Config& config);
  void fill(int64_t step, tw::Tensor& tokens) const;  // i32[batch, context + 1]
  size_t size() const { return text_.size(); }

 private:
  const Config& config_;
  std::string text_;
};

struct StepRecord {
  int64_t step;
  double loss, gradient_norm, learning_rate, seconds;
};
void write_csv(const std::string& path, const std::vector<StepRecord>& records);
void write_svg(const std::string& path, const std::vector<StepRecord>& records);
void write_text(const std::string& path, const std::string& text);
std::vector<StepRecord> read_csv(const std::string& path);
