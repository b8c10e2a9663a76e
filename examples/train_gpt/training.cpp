// Batches, checkpoints and the loss curve.
#include "examples/train_gpt/training.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace {
constexpr char kMagic[8] = {'T', 'W', 'G', 'P', 'T', '0', '0', '1'};
}

TrainingState::TrainingState(const Config& config, const std::vector<Parameter>& parameters)
    : random_state(std::vector<uint64_t>{config.seed, 0}, {2}) {
  std::mt19937_64 random(config.seed);
  for (const Parameter& parameter : parameters) {
    tw::Tensor p(tw::f32, parameter.sizes);
    std::normal_distribution<float> normal(0, static_cast<float>(std::max(parameter.deviation, 1e-30)));
    for (int64_t i = 0; i < p.elements(); ++i) {
      p.data<float>()[i] = parameter.deviation > 0 ? normal(random) : static_cast<float>(parameter.start);
    }
    tensors.push_back(std::move(p));
    tensors.emplace_back(tw::f32, parameter.sizes);
    tensors.emplace_back(tw::f32, parameter.sizes);
  }
}

void TrainingState::save(const std::string& path) const {
  std::string fresh = path + ".new";
  {
    std::ofstream file(fresh, std::ios::binary);
    int64_t count = static_cast<int64_t>(tensors.size());
    file.write(kMagic, sizeof kMagic);
    file.write(reinterpret_cast<const char*>(&step), sizeof step);
    file.write(reinterpret_cast<const char*>(&count), sizeof count);
    file.write(static_cast<const char*>(random_state.raw()), 16);
    for (const tw::Tensor& tensor : tensors) {
      int64_t bytes = tensor.bytes();
      file.write(reinterpret_cast<const char*>(&bytes), sizeof bytes);
      file.write(static_cast<const char*>(tensor.raw()), bytes);
    }
    if (!file.flush()) throw std::runtime_error("cannot write checkpoint " + fresh);
  }
  std::filesystem::rename(fresh, path);
}

void TrainingState::load(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  char magic[8];
  int64_t count = 0;
  if (!file.read(magic, sizeof magic) || !std::equal(magic, magic + 8, kMagic)) {
    throw std::runtime_error(path + ": not a checkpoint of train_gpt");
  }
  file.read(reinterpret_cast<char*>(&step), sizeof step);
  file.read(reinterpret_cast<char*>(&count), sizeof count);
  file.read(static_cast<char*>(random_state.raw()), 16);
  if (!file || count != static_cast<int64_t>(tensors.size())) {
    throw std::runtime_error(path + ": checkpoint of another model: " + std::to_string(count) +
                             " tensors, expected " + std::to_string(tensors.size()));
  }
  for (tw::Tensor& tensor : tensors) {
    int64_t bytes = 0;
    file.read(reinterpret_cast<char*>(&bytes), sizeof bytes);
    if (!file || bytes != tensor.bytes())
      throw std::runtime_error(path + ": checkpoint of another model or cut short");
    file.read(static_cast<char*>(tensor.raw()), bytes);
  }
  if (!file) throw std::runtime_error(path + ": checkpoint is cut short");
}

Batches::Batches(const Config& config) : config_(config) {
  std::ifstream file(config.text, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  text_ = text.str();
  if (!file) throw std::runtime_error("cannot read text file " + config.text);
  if (static_cast<int64_t>(text_.size()) < config.context + 2) {
    throw std::runtime_error(config.text + ": " + std::to_string(text_.size()) +
                             " bytes, expected more than the context of " + std::to_string(config.context));
  }
}

void Batches::fill(int64_t step, tw::Tensor& tokens) const {
  std::mt19937_64 random(config_.seed * 1000003 + static_cast<uint64_t>(step));
  int64_t window = config_.context + 1;
  uint64_t starts = text_.size() - static_cast<size_t>(window) + 1;
  for (int64_t row = 0; row < config_.batch; ++row) {
    size_t start = static_cast<size_t>(random() % starts);
    for (int64_t i = 0; i < window; ++i) {
      tokens.data<int32_t>()[row * window + i] =
          static_cast<unsigned char>(text_[start + static_cast<size_t>(i)]);
    }
  }
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

void write_csv(const std::string& path, const std::vector<StepRecord>& records) {
  std::ostringstream csv;
  csv.precision(9);
  csv << "step,loss,gradient_norm,learning_rate,seconds\n";
  for (const StepRecord& r : records) {
    csv << r.step << ',' << r.loss << ',' << r.gradient_norm << ',' << r.learning_rate << ',' << r.seconds
        << '\n';
  }
  write_text(path, csv.str());
}

std::vector<StepRecord> read_csv(const std::string& path) {
  std::vector<StepRecord> records;
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    StepRecord r{};
    char comma;
    std::istringstream fields(line);
    if (fields >> r.step >> comma >> r.loss >> comma >> r.gradient_norm >> comma >> r.learning_rate >>
        comma >> r.seconds) {
      records.push_back(r);
    }
  }
  return records;
}

void write_svg(const std::string& path, const std::vector<StepRecord>& records) {
  constexpr double kWidth = 800, kHeight = 400, kMargin = 50;
  if (records.empty()) return;
  double top = 0;
  for (const StepRecord& r : records) top = std::max(top, std::isfinite(r.loss) ? r.loss : 0);
  top = std::max(std::ceil(top), 1.0);
  double first = static_cast<double>(records.front().step), last = static_cast<double>(records.back().step);
  auto x = [&](double step) {
    return kMargin + (kWidth - 2 * kMargin) * (step - first) / std::max(1.0, last - first);
  };
  auto y = [&](double loss) { return kHeight - kMargin - (kHeight - 2 * kMargin) * loss / top; };
  std::ostringstream svg;
  svg << "<svg xmlns='http://www.w3.org/2000/svg' width='800' height='400' font-family='sans-serif' "
         "font-size='12'>\n"
      << "<rect width='800' height='400' fill='white'/>\n";
  for (int tick = 0; tick <= static_cast<int>(top); ++tick) {
    svg << "<line x1='50' x2='750' y1='" << y(tick) << "' y2='" << y(tick)
        << "' stroke='#ddd'/><text x='25' y='" << y(tick) + 4 << "'>" << tick << "</text>\n";
  }
  svg << "<text x='340' y='390'>step " << records.front().step << " to " << records.back().step << "</text>\n"
      << "<text x='50' y='30'>loss (nats a byte)</text>\n<polyline fill='none' stroke='#1f77b4' points='";
  for (const StepRecord& r : records) {
    if (std::isfinite(r.loss)) svg << x(static_cast<double>(r.step)) << ',' << y(r.loss) << ' ';
  }
  svg << "'/>\n</svg>\n";
  write_text(path, svg.str());
}
