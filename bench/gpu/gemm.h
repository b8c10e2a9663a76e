// Matrix products and attention on a device: time of each against its multiply-adds.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "targets/target.h"

namespace tilewright::bench {

struct GemmOptions {
  std::shared_ptr<Target> target;
  std::string word;      // cases whose name has it
  std::string assembly;  // a folder: writes the assembly of each kernel there and runs nothing
  bool small = false;    // sizes for simulators; checks values, times nothing
};
// One JSON line a case.
Status run_gemm(const GemmOptions& options);

}  // namespace tilewright::bench
