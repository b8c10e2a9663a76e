// Reads the lines of a case file: an op with operands, attributes and an expectation.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"

namespace tilewright::composites_test {

struct OperandSpec {
  bool absent = false;
  std::string dtype;
  Shape shape;
  std::string fill;
};

struct Case {
  std::string text;  // the line
  int line = 0;
  Op op = Op::Relu;
  std::vector<OperandSpec> operands;
  AttributeMap attributes;
  std::string last;  // terms, or the expected message
};

// Every case of a file; a line that cannot be read is reported as a test failure.
std::vector<Case> read_cases(const std::string& path);

}  // namespace tilewright::composites_test
