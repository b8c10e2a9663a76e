// Runs a whole program on the tile interpreter and the reference kernels: the engine between graphs and
// compiled code.
#pragma once

#include <span>
#include <vector>

#include "codegen/builtins.h"
#include "codegen/program.h"
#include "ir/reference/interpreter.h"

namespace tilewright {

struct RunProgramOptions {
  InterpreterOptions interpreter;  // custom calls, ...
  // Instances run in ranges from the last to the first: a kernel whose instances depend on each other gives
  // other results.
  bool backwards = false;
  // Runs all instances of a kernel in place of the tile interpreter (compiled code under test).
  std::function<Status(const tile::Kernel& kernel, std::span<void* const> buffers,
                       std::span<const int64_t> scalars, int64_t count)>
      run_kernel;
  // Runs a builtin in place of its reference kernel.
  std::function<Status(const BuiltinCall&)> run_builtin;
};

// `graph` is the one that the program was planned from: it binds symbols and names the outputs.
Result<std::vector<OwnedTensor>> run_program(const Program& program, const Graph& graph,
                                             std::span<const TensorRef> inputs, const Bindings& given,
                                             const RunProgramOptions& options = {});

// What a fired Report means: the words that the kernel left and the site they name.
Status error_of_word(const Program& program, const int64_t* word, const Bindings& bindings);

}  // namespace tilewright
