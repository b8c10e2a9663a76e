// The programs written by hand in tests/tile/programs: text, interpreter and compiled code against plain
// loops, on small sizes.
#include <gtest/gtest.h>

#include <cctype>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <sstream>

#include "base/text.h"
#include "codegen/emit/emit.h"
#include "codegen/tile/interpreter.h"
#include "tests/emit/kernels.h"
#include "tests/emit/tile_run.h"

namespace tilewright {
namespace {

constexpr double kTolerance = 1e-5;  // relative to 1 + |want|

std::string read_program(const std::string& name) {
  std::ifstream file(cat("tests/tile/programs/", name, ".tw"));
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Whole numbers of the text replaced.
std::string resized(const std::string& text, const std::map<std::string, std::string>& sizes) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    auto is_word = [&](size_t at) {
      return at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) || text[at] == '.');
    };
    size_t end = i;
    while (is_word(end)) ++end;
    if (end == i) {
      out += text[i++];
      continue;
    }
    std::string word = text.substr(i, end - i);
    auto found = sizes.find(word);
    out += found == sizes.end() ? word : found->second;
    i = end;
  }
  return out;
}

// The params of a run as floats, in order; `want` replaces what the program should write.
using Buffers = std::vector<std::vector<float>>;
Buffers floats_of(const TileRun& run) {
  Buffers out;
  for (const auto& bytes : run.buffers) {
    const auto* data = reinterpret_cast<const float*>(bytes.data());
    out.emplace_back(data, data + bytes.size() / sizeof(float));
  }
  return out;
}

void expect_close(const std::vector<float>& got, const std::vector<double>& want, const std::string& what) {
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_LE(std::abs(got[i] - want[i]), kTolerance * (1 + std::abs(want[i]))) << what << " at " << i;
  }
}

// Text both ways, then the interpreter and every target against `expect` and each other.
void check_program(const std::string& name, const std::map<std::string, std::string>& sizes,
                   const std::function<void(const Buffers&, const std::string&)>& expect) {
  std::string text = read_program(name);
  ASSERT_FALSE(text.empty()) << "run from the root of the repository";
  Result<tile::Kernel> whole = tile::parse_kernel(text);
  ASSERT_TRUE(whole.is_ok()) << whole.status().to_string();
  Result<tile::Kernel> again = tile::parse_kernel(tile::print(*whole));
  ASSERT_TRUE(again.is_ok()) << again.status().to_string();
  EXPECT_EQ(tile::print(*again), tile::print(*whole));
  for (const char* spelling : {"nvptx:sm_90a", "null"}) {  // compiled, whatever this machine has
    Result<std::shared_ptr<Target>> elsewhere = create_target(spelling);
    ASSERT_TRUE(elsewhere.is_ok()) << elsewhere.status().to_string();
    Result<EmittedKernel> emitted = emit_kernel(*whole, (*elsewhere)->info().limits, {});
    ASSERT_TRUE(emitted.is_ok()) << spelling << ": " << emitted.status().to_string();
    Result<std::string> object = (*elsewhere)->compile(std::move(emitted.value().module), {});
    ASSERT_TRUE(object.is_ok()) << spelling << ": " << object.status().to_string();
    EXPECT_FALSE(object->empty());
  }
  Result<tile::Kernel> kernel = tile::parse_kernel(resized(text, sizes));
  ASSERT_TRUE(kernel.is_ok()) << kernel.status().to_string();
  Result<TileRun> start = prepare_run(*kernel, {}, 7);
  ASSERT_TRUE(start.is_ok()) << start.status().to_string();
  TileRun interpreted = *start;
  Status done = tile::interpret(*kernel, interpreted.pointers(), {}, 0, interpreted.instances);
  ASSERT_TRUE(done.is_ok()) << done.to_string();
  expect(floats_of(interpreted), "interpreter");
  std::vector<std::shared_ptr<Target>> targets = runnable_targets();
  Result<std::shared_ptr<Target>> simulated = create_target("simt");
  if (simulated.is_ok() && (*simulated)->info().is_runnable()) targets.push_back(*simulated);
  for (const std::shared_ptr<Target>& target : targets) {
    Result<CompiledTile> code = compile_tile(*target, *kernel);
    ASSERT_TRUE(code.is_ok()) << code.status().to_string();
    TileRun run = *start;
    Status ran = run_compiled(*target, *code, run);
    ASSERT_TRUE(ran.is_ok()) << ran.to_string();
    expect(floats_of(run), target->info().name);
    Difference difference = compare_runs(*kernel, run, interpreted);
    EXPECT_LE(difference.error, kTolerance) << target->info().name << ": " << difference.where;
  }
}

TEST(Programs, ProductGelu) {
  constexpr int kRows = 100, kDepth = 70, kColumns = 300;
  check_program("product_gelu", {{"512", "100"}, {"768", "70"}, {"3072", "300"}},
                [&](const Buffers& all, const std::string& what) {
                  std::vector<double> want(kRows * kColumns);
                  for (int r = 0; r < kRows; ++r) {
                    for (int c = 0; c < kColumns; ++c) {
                      double v = all[2][c];
                      for (int k = 0; k < kDepth; ++k)
                        v += double{all[0][r * kDepth + k]} * all[1][k * kColumns + c];
                      double u = std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v);
                      want[r * kColumns + c] = 0.5 * v * (1 + std::tanh(u));
                    }
                  }
                  expect_close(all[3], want, what);
                });
}

TEST(Programs, LayerNormBackward) {
  constexpr int kRows = 512, kColumns = 1024, kShare = 256;
  check_program("layer_norm_backward", {{"16384", "512"}, {"64", "2"}},
                [&](const Buffers& all, const std::string& what) {
                  const std::vector<float>&dy = all[0], &x = all[1], &mean = all[2], &rstd = all[3],
                        &w = all[4];
                  std::vector<double> dx(kRows * kColumns), dw(kRows / kShare * kColumns),
                      db(kRows / kShare * kColumns);
                  for (int r = 0; r < kRows; ++r) {
                    double sum = 0, dot = 0;
                    auto normal = [&](int c) { return (double{x[r * kColumns + c]} - mean[r]) * rstd[r]; };
                    for (int c = 0; c < kColumns; ++c) {
                      double g = dy[r * kColumns + c];
                      sum += g * w[c];
                      dot += g * w[c] * normal(c);
                      dw[r / kShare * kColumns + c] += g * normal(c);
                      db[r / kShare * kColumns + c] += g;
                    }
                    for (int c = 0; c < kColumns; ++c) {
                      double g = double{dy[r * kColumns + c]} * w[c];
                      dx[r * kColumns + c] = rstd[r] * (g - sum / kColumns - normal(c) * dot / kColumns);
                    }
                  }
                  expect_close(all[5], dx, what + " dx");
                  expect_close(all[6], dw, what + " dw");
                  expect_close(all[7], db, what + " db");
                });
}

TEST(Programs, AttentionForward) {
  constexpr int kHeads = 2, kLength = 192, kWidth = 128;
  check_program("attention_forward", {{"8", "2"}, {"2048", "192"}},
                [&](const Buffers& all, const std::string& what) {
                  std::vector<double> out(kHeads * kLength * kWidth), lse(kHeads * kLength);
                  for (int row = 0; row < kHeads * kLength; ++row) {
                    int head = row / kLength * kLength, seen = row - head + 1;
                    std::vector<double> scores(seen);
                    double total = 0;
                    for (int j = 0; j < seen; ++j) {
                      for (int d = 0; d < kWidth; ++d)
                        scores[j] += double{all[0][row * kWidth + d]} * all[1][(head + j) * kWidth + d];
                      total += std::exp(scores[j] / std::sqrt(kWidth));
                    }
                    for (int j = 0; j < seen; ++j) {
                      double weight = std::exp(scores[j] / std::sqrt(kWidth)) / total;
                      for (int d = 0; d < kWidth; ++d)
                        out[row * kWidth + d] += weight * all[2][(head + j) * kWidth + d];
                    }
                    lse[row] = std::log(total);
                  }
                  expect_close(all[3], out, what + " output");
                  expect_close(all[4], lse, what + " lse");
                });
}

}  // namespace
}  // namespace tilewright
