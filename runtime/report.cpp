// The report of an executable, and its stages as text.
#include <map>
#include <mutex>

#include "base/json.h"
#include "ir/text.h"
#include "runtime/executable.h"
#include "runtime/profile.h"
#include "runtime/run_frame.h"

namespace tilewright {
namespace {

const char* origin_text(KernelOrigin origin) {
  switch (origin) {
    case KernelOrigin::Compiled: return "compiled";
    case KernelOrigin::Memory: return "memory";
    case KernelOrigin::Disk: return "disk";
    case KernelOrigin::Interpreted: return "interpreted";
  }
  return "";
}

void count_launches(const std::vector<Launch>& launches, std::map<std::string, int64_t>& counts) {
  static constexpr const char* kNames[] = {"kernel", "builtin", "reference", "copy", "loop"};
  for (const Launch& launch : launches) {
    const bool custom =
        launch.kind == LaunchKind::Reference && launch.node->node(NodeId{0}).op == Op::CustomCall;
    ++counts[custom ? "custom_call" : kNames[static_cast<int>(launch.kind)]];
    count_launches(launch.body, counts);
  }
}

void write_names(JsonWriter& json, const char* key, const Program& program,
                 const std::vector<uint32_t>& nodes) {
  json.key(key).begin_array();
  for (uint32_t node : nodes)
    if (node < program.node_names.size()) json.value(program.node_names[node]);
  json.end_array();
}

// What each kernel writes, by its first launch.
void find_outputs(const Program& program, const std::vector<Launch>& launches,
                  std::vector<std::vector<std::string>>& outputs) {
  for (const Launch& launch : launches) {
    find_outputs(program, launch.body, outputs);
    if (launch.kind != LaunchKind::Kernel) continue;
    std::vector<std::string>& names = outputs[static_cast<size_t>(launch.kernel)];
    if (!names.empty()) continue;
    for (size_t position = 0; position < launch.buffers.size(); ++position) {
      const Buffer& buffer = program.buffers[launch.buffers[position].buffer.index];
      if (buffer_use(program, launch, position) != Use::Read)
        names.push_back(cat(buffer.name, ": ", buffer.type.to_string()));
    }
  }
}

void write_kernels(JsonWriter& json, const Program& program, const std::vector<LoadedKernel>& kernels) {
  std::vector<std::vector<std::string>> outputs(kernels.size());
  find_outputs(program, program.launches, outputs);
  json.key("kernels").begin_array();
  for (size_t index = 0; index < kernels.size(); ++index) {
    const KernelEntry& entry = program.kernels[index];
    const LoadedKernel& loaded = kernels[index];
    json.begin_object().field("name", entry.kernel.name).field("description", entry.description);
    write_names(json, "nodes", program, entry.nodes);
    json.key("outputs").begin_array();
    for (const std::string& output : outputs[index]) json.value(output);
    json.end_array().field("origin", origin_text(loaded.origin)).field("key", loaded.key);
    json.field("compile_seconds", loaded.compile_seconds).field("code_bytes", loaded.code_bytes);
    json.field("scratch_bytes", loaded.scratch_bytes);
    json.field("flops", entry.flops).field("bytes", entry.bytes).end_object();
  }
  json.end_array();
}

// Fallback nodes, by the launches that run them; in eager mode every node is one, and none is listed.
void write_fallbacks(JsonWriter& json, const Program& program) {
  json.field("fallback_count", static_cast<int64_t>(program.fallbacks.size()));
  json.key("fallbacks").begin_array();
  for (const Fallback& fallback : program.fallbacks) {
    json.begin_object();
    json.field("node", fallback.node < program.node_names.size() ? program.node_names[fallback.node] : "");
    json.field("op", op_name(fallback.op)).field("reason", fallback_reason_name(fallback.reason));
    json.field("sentence", fallback.sentence).end_object();
  }
  json.end_array();
}

}  // namespace

std::string Executable::report_json() {
  JsonWriter json;
  json.begin_object()
      .field("graph", graph_.name)
      .field("mode", record_.mode)
      .field("precision", record_.precision);
  json.field("target", session_->target().info().name)
      .field("nodes", static_cast<int64_t>(graph_.node_count()));
  std::map<std::string, int64_t> launches;
  count_launches(program_.launches, launches);
  json.key("launches").begin_object();
  for (const char* kind : {"kernel", "builtin", "loop", "copy", "reference", "custom_call"})
    json.field(kind, launches[kind]);
  json.end_object();
  write_kernels(json, program_, kernels_);
  std::map<KernelOrigin, int64_t> origins;
  for (const LoadedKernel& kernel : kernels_) ++origins[kernel.origin];
  write_fallbacks(json, program_);
  json.key("cache").begin_object();
  json.field("graph_hit", record_.graph_cache_hit).field("graph_key", record_.graph_key);
  json.field("kernel_hits", origins[KernelOrigin::Memory] + origins[KernelOrigin::Disk]);
  json.field("kernel_hits_disk", origins[KernelOrigin::Disk]);
  json.field("kernel_misses", origins[KernelOrigin::Compiled]).end_object();
  json.key("seconds").begin_object();
  json.field("plan", record_.plan_seconds).field("emit", record_.emit_seconds);
  json.field("compile", record_.compile_seconds).field("load", record_.load_seconds);
  json.field("total", record_.total_seconds)
      .field("run", 1e-9 * static_cast<double>(totals_.run_nanoseconds.load()));
  json.end_object();
  json.field("runs", totals_.runs.load());
  json.key("launched").begin_object();
  json.field("kernel", totals_.kernel_launches.load()).field("reference", totals_.reference_launches.load());
  json.field("other", totals_.other_launches.load());
  json.field("host_builtin", totals_.host_builtins.load()).end_object();
  json.key("bytes").begin_object();
  json.field("fresh", totals_.bytes_fresh.load()).field("recycled", totals_.bytes_recycled.load());
  json.field("arena", totals_.arena_bytes.load()).end_object();
  if (profile_) {
    json.key("profile");
    profile_->write(json);
  }
  json.key("copied_inputs").begin_object();
  for (size_t input = 0; input < graph_.inputs.size(); ++input)
    if (const int64_t bytes = copied_input_bytes_[input])
      json.field(graph_.value_name(graph_.inputs[input].value), bytes);
  json.end_object();
  json.field("input_copy_bytes", totals_.input_copy_bytes.load());
  json.field("input_copies", totals_.input_copies.load())
      .field("output_copies", totals_.output_copies.load());
  json.end_object();
  return std::move(json).text();
}

Result<std::string> Executable::dump(std::string_view stage) const {
  if (stage == "graph") return print(graph_);
  for (const auto& [name, text] : record_.dumps)
    if (name == stage) return text;
  std::string known = "graph";
  for (const auto& [name, text] : record_.dumps) known += " " + name;
  return Status::not_found(cat("dump: no stage ", stage, " of this executable, expected one of: ", known));
}

}  // namespace tilewright
