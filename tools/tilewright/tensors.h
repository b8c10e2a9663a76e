// Tensors from a seed, and what is told about results.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tilewright/tilewright.hpp"

namespace command {

// SplitMix64: the same numbers on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next();
  double uniform();  // [0, 1)
  double normal();
  int64_t integer(int64_t low, int64_t high);  // both inclusive

 private:
  uint64_t state_;
};

// Element access through doubles and 64-bit integers, rounded to the dtype.
void store_number(tw::DType dtype, void* address, double number);
void store_integer(tw::DType dtype, void* address, int64_t number);
double load_number(tw::DType dtype, const void* address);
bool is_float(tw::DType dtype);

// Normal floats, small non-negative integers (below `bound`), random bools; u64 without bound are random
// bits.
void fill_random(const tw::Tensor& tensor, Random& random, int64_t bound = INT64_MAX);
// What the values of an input must stay below, because they choose rows, classes or elements; else INT64_MAX.
int64_t input_bound(const tw::Graph& graph, int64_t input, const std::map<std::string, int64_t>& symbols);
// A tensor for an input, filled within its bound.
tw::Tensor random_input(const tw::Graph& graph, int64_t input, const std::map<std::string, int64_t>& symbols,
                        Random& random);

// Sizes of a shape under values of symbols; `values` gets the symbols' hints where it lacks them.
void default_symbols(const tw::Graph& graph, std::map<std::string, int64_t>* values);
tw::Sizes concrete_sizes(const tw::Graph& graph, tw::Value value,
                         const std::map<std::string, int64_t>& symbols);

// The first element in which the outputs of two runs on `inputs` differ beyond their bounds; "" when none
// does.
std::string first_difference(const tw::Graph& graph, const std::vector<const tw::Tensor*>& inputs,
                             const std::vector<tw::Tensor>& found, const std::vector<tw::Tensor>& expected,
                             const std::vector<std::pair<std::string, int64_t>>& symbols);

std::string type_text(const tw::Tensor& tensor);  // "f32[2,3]"
nlohmann::json describe(
    const tw::Tensor& tensor);  // dtype, shape, min, max, mean, finite, hash, first elements
std::string summary_text(const nlohmann::json& facts);  // the same for people

}  // namespace command
