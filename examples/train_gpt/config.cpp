// Command line of train_gpt.
#include "examples/train_gpt/config.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

namespace {

struct Flag {
  const char* name;
  const char* help;
  std::function<bool(const char*)> set;
};

bool read(const char* text, int64_t& value, int64_t min) {
  char* end;
  value = std::strtoll(text, &end, 10);
  return *text && !*end && value >= min;
}
bool read(const char* text, double& value) {
  char* end;
  value = std::strtod(text, &end);
  return *text && !*end && value >= 0;
}

std::vector<Flag> flags_of(Config& c) {
  auto integer = [](int64_t& field, int64_t min) {
    return [&field, min](const char* text) { return read(text, field, min); };
  };
  auto number = [](double& field) { return [&field](const char* text) { return read(text, field); }; };
  auto string = [](std::string& field) {
    return [&field](const char* text) {
      field = text;
      return !field.empty();
    };
  };
  auto yes_no = [](bool& field) {
    return [&field](const char* text) {
      field = std::strcmp(text, "1") == 0 || std::strcmp(text, "yes") == 0;
      return field || std::strcmp(text, "0") == 0 || std::strcmp(text, "no") == 0;
    };
  };
  return {
      {"--layers", "blocks", integer(c.layers, 1)},
      {"--heads", "attention heads, a divisor of the width", integer(c.heads, 1)},
      {"--width", "size of the residual stream", integer(c.width, 8)},
      {"--context", "bytes that the model sees", integer(c.context, 2)},
      {"--dropout", "probability of dropping an activation", number(c.dropout)},
      {"--tied", "yes: the head shares the embedding's weights", yes_no(c.tied)},
      {"--batch", "sequences a step", integer(c.batch, 1)},
      {"--steps", "training steps", integer(c.steps, 0)},
      {"--warmup", "steps of rising learning rate", integer(c.warmup, 0)},
      {"--learning-rate", "peak learning rate", number(c.learning_rate)},
      {"--weight-decay", "decoupled decay of matrices", number(c.weight_decay)},
      {"--clip", "largest global gradient norm", number(c.clip)},
      {"--seed", "of weights, batches and dropout",
       [&c](const char* text) {
         int64_t value;
         bool fine = read(text, value, 0);
         c.seed = static_cast<uint64_t>(value);
         return fine;
       }},
      {"--text", "file to learn", string(c.text)},
      {"--output-dir", "folder for loss.csv, loss.svg, report.json, checkpoint.bin", string(c.output)},
      {"--resume", "yes: go on from the checkpoint in the output folder", yes_no(c.resume)},
      {"--save-every", "steps between checkpoints (0: only at the end)", integer(c.save_every, 0)},
      {"--sample", "bytes to generate at the end", integer(c.sample, 0)},
      {"--mode", "sync or eager (default: TILEWRIGHT_MODE)", string(c.mode)},
      {"--target", "chip to compile for (default: TILEWRIGHT_TARGET)", string(c.target)},
      {"--threads", "worker threads (default: TILEWRIGHT_THREADS)", string(c.threads)},
      {"--write-graph", "write the training step as graph text to this file and stop", string(c.graph_file)},
  };
}

}  // namespace

Config parse_arguments(int argc, char** argv) {
  static Config config;
  std::vector<Flag> flags = flags_of(config);
  for (int i = 1; i < argc; i += 2) {
    if (std::strcmp(argv[i], "--help") == 0) {
      std::puts("train_gpt: trains a byte-level GPT on a text file\n");
      for (const Flag& flag : flags) std::printf("  %-16s %s\n", flag.name, flag.help);
      std::exit(0);
    }
    const Flag* known = nullptr;
    for (const Flag& flag : flags) {
      if (std::strcmp(argv[i], flag.name) == 0) known = &flag;
    }
    if (!known || i + 1 >= argc || !known->set(argv[i + 1])) {
      std::fprintf(stderr, "train_gpt: %s `%s`; see --help\n",
                   known ? "bad or missing value of" : "unknown option", argv[i]);
      std::exit(2);
    }
  }
  if (config.width % config.heads != 0) {
    std::fprintf(stderr, "train_gpt: width %lld is not a multiple of %lld heads\n",
                 static_cast<long long>(config.width), static_cast<long long>(config.heads));
    std::exit(2);
  }
  return config;
}
