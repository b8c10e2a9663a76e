// The program of eager mode: every node a launch of its reference kernel.
#pragma once

#include "codegen/program.h"

namespace tilewright {

Result<Program> plan_eager_program(const Graph& graph);

}  // namespace tilewright
