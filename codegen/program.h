// Program: what a graph is compiled to: kernels, buffers and the list of launches.  Relocatable data, no
// pointers to code.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/target_limits.h"
#include "codegen/tile/tile.h"

namespace tilewright {

using BufferId = Id<struct BufferTag>;

enum class BufferKind : uint8_t { Input, Output, Constant, Temporary };

// A dense row-major tensor in memory (inputs: as their layout says).  Sizes are dims over the program's
// symbols.
struct Buffer {
  BufferKind kind = BufferKind::Temporary;
  int index = 0;  // of the input or output
  TensorType type;
  ConstantRef constant;  // Constant
  std::string name;      // graph value it holds, for reports
};

// Part of a buffer: `offset` elements in, seen as `type` (row-major).
struct BufferUse {
  BufferId buffer;
  Dim offset;
};

enum class LaunchKind : uint8_t { Kernel, Builtin, Reference, Copy, Loop };

struct Launch {
  LaunchKind kind = LaunchKind::Kernel;
  int kernel = -1;  // Kernel: index into Program::kernels
  std::vector<BufferUse>
      buffers;  // Kernel: one a param.  Builtin, Reference: operands, then results.  Copy: from, to
  std::vector<Dim> scalars;  // Kernel: one a symbol of the kernel
  std::string builtin;       // Builtin: "sort@1"
  std::shared_ptr<const Graph>
      node;                  // Builtin, Reference: a graph of exactly one node whose inputs are the operands
  int reason = -1;           // Reference: index into Program::fallbacks
  Dim count;                 // Loop: trips
  std::vector<Launch> body;  // Loop
  std::vector<std::pair<BufferId, Dim>> advances;  // Loop: elements by which a buffer moves a trip
  std::vector<uint32_t> nodes;                     // graph nodes it computes, for reports
};

struct KernelEntry {
  tile::Kernel kernel;
  std::string description;       // "gelu, add, multiply" for reports
  std::vector<uint32_t> nodes;   // graph nodes fused into it
  int64_t flops = 0, bytes = 0;  // at the hints, for cost models and reports
};

enum class FallbackReason : uint8_t {
  UnsupportedOp,
  UnsupportedType,
  UnsupportedShape,
  CustomCall,
  Control,
  CompileFailed,
  Disabled
};
const char* fallback_reason_name(FallbackReason reason);

struct Fallback {
  uint32_t node;
  Op op;
  FallbackReason reason;
  std::string sentence;  // "sort over a symbolic axis is not compiled: ..."
};

// Where a Report instruction may fire.
struct ErrorSite {
  Op op;
  std::string node;     // name for the message
  std::string message;  // "index out of range for dim 0 of size N"
  Dim bound;
};

struct Program {
  std::string name;
  std::vector<Symbol> symbols;
  std::vector<KernelEntry> kernels;
  std::vector<Buffer> buffers;
  std::vector<Launch> launches;
  std::vector<Fallback> fallbacks;
  std::vector<ErrorSite> sites;
  std::vector<std::string> node_names;  // of the graph that was lowered, by node index, for reports
};

// The graph that the launches of a program were made of, after all passes, and where its values are stored.
struct LoweredGraph {
  Graph graph;
  std::vector<BufferId> buffers;  // one a value; invalid where no launch stores it
};

struct PlanOptions {
  enum class Precision : uint8_t { Strict, Fused, Fast };
  Precision precision = Precision::Strict;
  bool eager = false;  // every node a Reference launch
  std::vector<std::string> skip_passes;
  int64_t fuel = -1;  // rewrites left; -1 is without end
  int verify_level = 0;
  std::shared_ptr<LoweredGraph> lowered;  // filled in, if set
  // Receives the text of a stage ("graph", "after:<pass>", "kernels", "tile") when it wants it.
  std::function<bool(const std::string& stage)> wants_dump;
  std::function<void(const std::string& stage, const std::string& text)> dump;
};

// Passes of passes.def, partition, fusion, lowering to tile programs.  Every node ends in a launch; nothing
// is refused for lack of a kernel: it becomes a Reference launch with its reason.
Result<Program> plan_program(const Graph& graph, const TargetLimits& limits, const PlanOptions& options);

std::string print(const Program& program);  // the `kernels` dump

// Emits, in codegen/emit/emit.h: Result<EmittedModule> emit_kernel(const tile::Kernel&, const TargetLimits&,
// ...).

}  // namespace tilewright
