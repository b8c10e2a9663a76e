// train_gpt: trains a byte-level GPT on a text file, whole steps compiled as one graph.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>

#include "examples/train_gpt/training.h"

namespace {

using Clock = std::chrono::steady_clock;
const Clock::time_point kStart = Clock::now();
double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double learning_rate(const Config& c, int64_t step) {
  if (step < c.warmup) return c.learning_rate * static_cast<double>(step + 1) / static_cast<double>(c.warmup);
  double part =
      static_cast<double>(step - c.warmup) / std::max<double>(1, static_cast<double>(c.steps - c.warmup));
  double floor = 0.1 * c.learning_rate;
  return floor + 0.5 * (c.learning_rate - floor) * (1 + std::cos(3.14159265358979 * std::min(part, 1.0)));
}

// The number behind "key": in a JSON text; -1 when there is none.
double number_in(const std::string& json, const std::string& key) {
  size_t at = json.find("\"" + key + "\":");
  if (at == std::string::npos) return -1;
  const std::string rest = json.substr(at + key.size() + 3, 32);
  if (rest.rfind("true", 0) == 0) return 1;
  return std::atof(rest.c_str());
}

class ProgressBar {
 public:
  explicit ProgressBar(const Config& config) : config_(config), terminal_(isatty(1) != 0) {}
  void show(int64_t step, double loss, double step_seconds) {
    average_ = average_ == 0 ? step_seconds : 0.9 * average_ + 0.1 * step_seconds;
    if (!terminal_ && step % 50 != 0 && step != config_.steps) return;
    double part = static_cast<double>(step) / std::max<double>(1, static_cast<double>(config_.steps));
    double tokens = static_cast<double>(config_.batch * config_.context) / average_;
    double left = average_ * static_cast<double>(config_.steps - step);
    std::string bar(30, '.');
    for (size_t i = 0; i < bar.size() * part && i < bar.size(); ++i) bar[i] = '#';
    std::printf("%s[%s] step %lld/%lld  loss %.4f  %.0f tokens/s  %.0f s left%s", terminal_ ? "\r" : "",
                bar.c_str(), static_cast<long long>(step), static_cast<long long>(config_.steps), loss,
                tokens, left, terminal_ ? "  " : "\n");
    std::fflush(stdout);
  }
  void end() {
    if (terminal_) std::puts("");
  }

 private:
  const Config& config_;
  bool terminal_;
  double average_ = 0;
};

void print_report(const std::string& report) {
  double kernels = number_in(report, "kernel_hits") + number_in(report, "kernel_misses");
  double hits = number_in(report, "kernel_hits"), graph = number_in(report, "graph_hit");
  std::printf("compiled step: %.0f kernels, %.0f fallbacks; cache: %s, %.0f of %.0f kernels (%.0f%% hits)\n",
              kernels, number_in(report, "fallback_count"),
              graph == 1 ? "graph image found" : "graph image new", hits, kernels,
              kernels > 0 ? 100 * hits / kernels : 0.0);
}

std::string generate(const Config& c, const tw::Session& session, const TrainingState& state) {
  tw::Executable next = session.compile(next_byte(c));
  std::mt19937_64 random(c.seed + 1);
  std::string text = "\n";
  tw::Tensor tokens(tw::i32, {1, c.context}), position(tw::i32, {});
  while (static_cast<int64_t>(text.size()) < c.sample) {
    size_t from =
        text.size() > static_cast<size_t>(c.context) ? text.size() - static_cast<size_t>(c.context) : 0;
    for (int64_t i = 0; i < c.context; ++i) {
      size_t at = from + static_cast<size_t>(i);
      tokens.data<int32_t>()[i] = at < text.size() ? static_cast<unsigned char>(text[at]) : 0;
    }
    *position.data<int32_t>() = static_cast<int32_t>(text.size() - from) - 1;
    std::vector<const tw::Tensor*> inputs{&tokens, &position};
    for (size_t i = 0; i < state.tensors.size(); i += 3) inputs.push_back(&state.tensors[i]);
    std::vector<float> logits = next(inputs)[0].to_vector<float>();
    double top = *std::max_element(logits.begin(), logits.end()), total = 0;
    std::vector<double> weights;
    for (float logit : logits) weights.push_back(std::exp((logit - top) / 0.8));
    for (double weight : weights) total += weight;
    double target = total * (static_cast<double>(random() >> 11) * 0x1p-53);
    size_t picked = 0;
    while (picked + 1 < weights.size() && (target -= weights[picked]) > 0) ++picked;
    text.push_back(static_cast<char>(picked));
  }
  return text;
}

tw::OptionList session_options(const Config& c) {
  tw::OptionList options;
  if (!c.mode.empty()) options.emplace_back("mode", c.mode);
  if (!c.target.empty()) options.emplace_back("target", c.target);
  if (!c.threads.empty()) options.emplace_back("threads", c.threads);
  return options;
}

// Whether the session's kernels have memory of their own.
bool has_device(const tw::Session& session) {
  try {
    session.allocate_on_device(tw::f32, {1});
    return true;
  } catch (const tw::Error&) {
    return false;
  }
}

void train(const Config& c) {
  tw::Graph graph = training_step(c);
  if (!c.graph_file.empty()) {
    write_text(c.graph_file, graph.text());
    return;
  }
  std::filesystem::create_directories(c.output);
  const std::string checkpoint = c.output + "/checkpoint.bin";
  Batches batches(c);
  TrainingState state(c, parameters_of(c));
  std::vector<StepRecord> records;
  if (c.resume && std::filesystem::exists(checkpoint)) {
    state.load(checkpoint);
    records = read_csv(c.output + "/loss.csv");
    while (!records.empty() && records.back().step > state.step) records.pop_back();
    std::printf("resuming after step %lld\n", static_cast<long long>(state.step));
  }
  int64_t weights = 0;
  for (size_t i = 0; i < state.tensors.size(); i += 3) weights += state.tensors[i].elements();
  std::printf("GPT: %lld layers, width %lld, context %lld, %.2f M parameters; %zu bytes of text\n",
              static_cast<long long>(c.layers), static_cast<long long>(c.width),
              static_cast<long long>(c.context), static_cast<double>(weights) / 1e6, batches.size());

  tw::Session session(session_options(c));
  tw::Executable step = session.compile(graph);
  print_report(step.report());
  tw::Tensor tokens(tw::i32, {c.batch, c.context + 1}), count(tw::f32, {}), rate(tw::f32, {});
  ProgressBar bar(c);
  bool first = true;
  // On a device the state stays there; what the host reads comes back.
  const bool on_device = has_device(session);
  if (on_device) state.move([&](const tw::Tensor& tensor) { return session.to_device(tensor); });
  const auto to_host = [&](const tw::Tensor& tensor) { return session.to_host(tensor); };
  const auto save = [&] {
    if (on_device) state.move(to_host);
    state.save(checkpoint);
    if (on_device) state.move([&](const tw::Tensor& tensor) { return session.to_device(tensor); });
  };
  while (state.step < c.steps) {
    Clock::time_point begin = Clock::now();
    batches.fill(state.step, tokens);
    *count.data<float>() = static_cast<float>(state.step + 1);
    *rate.data<float>() = static_cast<float>(learning_rate(c, state.step));
    std::vector<const tw::Tensor*> inputs{&tokens, &state.random_state, &count, &rate};
    tw::RunOptions run;
    run.given.assign(3, nullptr);
    for (tw::Tensor& tensor : state.tensors) {
      inputs.push_back(&tensor);
      run.given.push_back(&tensor);  // updated in place
    }
    std::vector<tw::Tensor> outputs = step(inputs, run);
    if (on_device) {
      outputs[0] = session.to_host(outputs[0]);
      outputs[1] = session.to_host(outputs[1]);
    }
    double loss = outputs[0].item<float>();
    state.random_state = std::move(outputs[2]);
    ++state.step;
    records.push_back(
        {state.step, loss, outputs[1].item<float>(), *rate.data<float>(), seconds_since(begin)});
    if (first) std::printf("first step done %.3f s after the start of the process\n", seconds_since(kStart));
    first = false;
    bar.show(state.step, loss, records.back().seconds);
    if (c.save_every > 0 && state.step % c.save_every == 0) save();
    if (!std::isfinite(loss)) throw std::runtime_error("the loss is not finite; try a smaller learning rate");
  }
  bar.end();
  if (on_device) state.move(to_host);
  state.save(checkpoint);
  write_csv(c.output + "/loss.csv", records);
  write_svg(c.output + "/loss.svg", records);
  write_text(c.output + "/report.json", step.report() + "\n");
  if (!records.empty()) {
    std::printf("loss %.4f -> %.4f in %lld steps, %.1f s; curve and report in %s\n", records.front().loss,
                records.back().loss, static_cast<long long>(c.steps), seconds_since(kStart),
                c.output.c_str());
  }
  if (c.sample > 0)
    std::printf("---- a sample ----%s\n------------------\n", generate(c, session, state).c_str());
}

}  // namespace

int main(int argc, char** argv) {
  const Config config = parse_arguments(argc, argv);
  try {
    train(config);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_gpt: %s\n", error.what());
    return 1;
  }
  return 0;
}
