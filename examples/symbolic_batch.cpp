// symbolic_batch: one executable for every batch size: the batch is a symbol, bound by the first tensor of
// each call.
#include <cmath>
#include <cstdio>
#include <vector>

#include "tilewright/tilewright.hpp"

int main() {
  try {
    tw::Graph graph("classifier");
    tw::Dim batch = graph.symbol("N", 1, 65536, 64);
    tw::Value x = graph.input("x", tw::f32, {batch, 20});
    tw::Value w = graph.input("w", tw::f32, {20, 5});
    tw::Value b = graph.input("b", tw::f32, {5});
    graph.output(tw::softmax(tw::matmul(x, w) + b, 1), "probabilities");

    tw::Session session;
    tw::Executable classify = session.compile(graph);
    std::vector<float> weights(100), bias(5);
    for (size_t i = 0; i < weights.size(); ++i) weights[i] = std::sin(static_cast<float>(i));
    tw::Tensor wt(weights, {20, 5}), bt(bias, {5});
    for (int64_t size : {1, 7, 64, 1000}) {
      tw::Tensor input(tw::f32, {size, 20});
      for (int64_t i = 0; i < input.elements(); ++i) input.data<float>()[i] = std::cos(static_cast<float>(i));
      std::vector<tw::Tensor> outputs = classify({&input, &wt, &bt});
      double worst = 0;
      for (int64_t row = 0; row < size; ++row) {
        double sum = 0;
        for (int64_t c = 0; c < 5; ++c) sum += outputs[0].data<float>()[row * 5 + c];
        worst = std::max(worst, std::abs(sum - 1));
      }
      std::printf("symbolic_batch: batch %4lld, rows sum to 1 within %.1e\n", static_cast<long long>(size),
                  worst);
      if (worst > 1e-5) return 1;
    }
    // Another size of a fixed dim is refused with its name.
    tw::Tensor wrong(tw::f32, {3, 21});
    try {
      classify({&wrong, &wt, &bt});
      return 1;
    } catch (const tw::Error& error) {
      std::printf("symbolic_batch: as expected: %s\n", error.what());
    }
  } catch (const tw::Error& error) {
    std::fprintf(stderr, "symbolic_batch: %s\n", error.what());
    return 1;
  }
  return 0;
}
