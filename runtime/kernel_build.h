// From tile programs to loaded code: kernel keys, the cache, emission and compilation on own threads.
#pragma once

#include <functional>
#include <vector>

#include "codegen/image.h"
#include "runtime/executable.h"

namespace tilewright {

// What of the options and the target a compiled object depends on.
struct BuildSettings {
  std::string options;  // for keys
  std::string target;   // cache identity
  std::string limits;   // as text
  std::string build_id;
  bool fused_precision = false, fast_precision = false;
  // Asked before each kernel is compiled: a status ends that, for this kernel and all later ones.
  std::function<Status()> stop;
  bool keep_llvm = false, keep_asm = false;  // dumps wanted: compiles even what is cached
};
BuildSettings build_settings(const Session& session, const Flags& flags);

struct BuiltKernels {
  std::vector<LoadedKernel> loaded;
  std::vector<KernelArtifact> artifacts;
  std::vector<std::pair<std::string, std::string>> dumps;  // stage, text
};

// One entry a kernel of the program.  A kernel that cannot be compiled is left to the tile interpreter, and
// the program gets a fallback with the reason; only a broken invariant is an error.
Result<BuiltKernels> build_kernels(Session& session, Program& program, const BuildSettings& settings,
                                   CompileRecord& record);

// Loads the objects of an image; fails when one does not load, and the image is then a miss.
Result<std::vector<LoadedKernel>> load_image_kernels(Session& session, const Image& image,
                                                     KernelOrigin origin);

}  // namespace tilewright
