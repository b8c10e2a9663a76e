// Stages that a user edited and put in the override directory, used instead of the computed ones.
#pragma once

#include <string>

#include "codegen/program.h"

namespace tilewright {

// `<directory>/<graph>.graph.txt`, if it is there: must have the inputs and outputs of the graph it replaces.
// Says in `used` whether it was.
Result<Graph> override_graph(const std::string& directory, Graph graph, bool* used);

// `<directory>/<graph>.tile.txt`, if it is there: replaces kernels of the same name; each must take the same
// parameters and symbols.  Adds to `used` how many it replaced.
Status override_kernels(const std::string& directory, Program& program, int* used);

}  // namespace tilewright
