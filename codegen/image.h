// Image: a planned program and the objects of its kernels as relocatable bytes, found by the graph key.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "codegen/program.h"

namespace tilewright {

// What a compiled kernel needs to be loaded again.
struct KernelArtifact {
  Hash128 key;                // the kernel key
  std::string entry;          // symbol of the entry point
  std::string object;         // bytes for Target::load; empty: the kernel was not compiled
  int64_t scratch_bytes = 0;  // a worker or a block
  int32_t threads_per_block = 0;
  int64_t shared_bytes = 0;
};

struct Image {
  Program program;
  std::vector<KernelArtifact> kernels;
  std::string blob;  // the frontend's own, may be empty
};

// Constants of more bytes than this are not part of an image, but are taken from the graph that was asked
// for.
inline constexpr int64_t kInlineConstantBytes = 256;

// Key of a graph: canonical graph without large constants' content, options, target limits and identity,
// build id.
Hash128 graph_key(const Graph& graph, std::string_view options, std::string_view target_identity,
                  std::string_view limits_text, std::string_view build_id);
// Key of a kernel: canonical tile program, target identity and options, build id, LLVM and format version.
Hash128 kernel_key(const tile::Kernel& kernel, std::string_view options, std::string_view target_identity,
                   std::string_view limits_text, std::string_view build_id);

// `graph` is the graph that was compiled: large constants are stored as positions in it.
Result<std::string> serialize_image(const Image& image, const Graph& graph);
// Every fault of the bytes is a status; nothing is trusted.
Result<Image> deserialize_image(std::string_view bytes, const Graph& graph);

}  // namespace tilewright
