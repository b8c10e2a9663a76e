// The calls that `tilewright verify` compares: from the op table and from case files, made into graphs for
// each dtype.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/tilewright/tensors.h"

namespace command {

// What of an op's row the cases need.
struct OpFacts {
  std::string name, kind, gradient, accuracy;
  int32_t id = 0;
  bool composite = false;
  struct Operand {
    std::string name, variable;
    bool optional = false, variadic = false;
    std::vector<std::string> dtypes;
  };
  std::vector<Operand> operands;
  std::map<std::string, std::string> attributes;  // name -> kind: "ints", "enum", ..
  bool has_required_attributes = false;
  int regions = 0;
};
const std::map<std::string, OpFacts>& op_facts();

struct OperandSpec {
  bool absent = false;
  std::string dtype;              // a name, or T, I, W
  std::vector<std::string> dims;  // expressions
  std::string fill = "normal";
};

// One line of a case file.
struct CaseLine {
  std::string text, op;
  std::vector<OperandSpec> operands;
  std::map<std::string, std::string> attributes;
};

// A line with its dtypes chosen.
struct Instance {
  const CaseLine* line = nullptr;
  std::map<char, tw::DType> dtypes;  // T, I, W, D
  std::string name() const;          // "add f32: add ; T[N,7] T[N,7]"
  tw::DType dtype_of(const std::string& spelled) const;
};

// Lines for every op; elementwise ones are made up.
std::vector<CaseLine> all_case_lines();
// The instances of a line; `quick` keeps a few dtypes; `only` (may be empty) restricts T.
std::vector<Instance> instances_of(const CaseLine& line, bool quick, const std::vector<std::string>& only);

bool is_symbolic(const CaseLine& line);
// The graph of one node with all its results as outputs.
tw::Graph build_graph(const Instance& instance);
// The input tensors of the graph with N bound.
std::vector<tw::Tensor> make_tensors(const Instance& instance, const tw::Graph& graph, int64_t n,
                                     uint64_t seed);
// Values that make sense for a case line are no good for differentiation when they are special.
bool has_special_values(const CaseLine& line);

std::string embedded_graphs();  // graphs.tw

}  // namespace command
