// One compiled loop kernel for each elementwise op under test.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ir/op_table.h"
#include "targets/target.h"

namespace tilewright {

struct ElementwiseCase {
  Op op;
  std::vector<DType> operands;
  DType result;
  AttributeMap attributes;
};

// Kernel i is named "k<i>": buffers are the operands, then the result; runs elements [first, last), a
// multiple of 16.
struct ElementwiseKernels {
  std::shared_ptr<Target> target;
  std::shared_ptr<const LoadedCode> code;
  KernelFunction function(size_t index) const;
};
Result<ElementwiseKernels> compile_elementwise(std::shared_ptr<Target> target,
                                               const std::vector<ElementwiseCase>& cases);

// Targets that this machine runs: native and the levels below it.
std::vector<std::shared_ptr<Target>> runnable_targets();

}  // namespace tilewright
