// Sums by launch name, and trace events in the format that chrome://tracing and Perfetto read.
#include "runtime/profile.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "base/log.h"
#include "base/text.h"

namespace tilewright {
namespace {

// Of one run; a loop of a million trips must not fill a disk.
constexpr size_t kMaximumEvents = 20000;

const char* kind_text(LaunchKind kind) {
  switch (kind) {
    case LaunchKind::Kernel: return "kernel";
    case LaunchKind::Builtin: return "builtin";
    case LaunchKind::Reference: return "reference";
    case LaunchKind::Copy: return "copy";
    case LaunchKind::Loop: return "loop";
  }
  return "";
}

}  // namespace

std::string Profile::name_of(const Launch& launch) const {
  switch (launch.kind) {
    case LaunchKind::Kernel: return program_.kernels[static_cast<size_t>(launch.kernel)].kernel.name;
    case LaunchKind::Builtin: return launch.builtin;
    case LaunchKind::Reference: return launch.node->name;
    case LaunchKind::Copy: return "copy";
    case LaunchKind::Loop: return "loop";
  }
  return "";
}

void Profile::add(std::span<const LaunchSample> samples) {
  {
    std::lock_guard lock(mutex_);
    for (const LaunchSample& sample : samples) {
      const Launch& launch = *sample.launch->launch;
      Line& line = lines_[name_of(launch)];
      if (line.runs == 0) {
        line.kind = kind_text(launch.kind);
        if (launch.kind == LaunchKind::Kernel)
          line.description = program_.kernels[static_cast<size_t>(launch.kernel)].description;
      }
      line.runs += 1;
      line.nanoseconds += sample.nanoseconds;
      line.bytes += sample.launch->bytes;
      line.flops += sample.launch->flops;
    }
  }
  if (!trace_file_.empty()) append_trace(samples);
}

void Profile::append_trace(std::span<const LaunchSample> samples) const {
  const int fd = open(trace_file_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) {
    TW_LOG_ONCE(Runtime, Warn, "cannot open the trace file ", trace_file_);
    return;
  }
  const long thread = syscall(SYS_gettid);
  // The format lets the list stay open, so that any number of runs and processes may append.
  std::string text = lseek(fd, 0, SEEK_END) == 0 ? "[\n" : "";
  for (const LaunchSample& sample : samples.first(std::min(samples.size(), kMaximumEvents))) {
    JsonWriter json;
    json.begin_object().field("name", name_of(*sample.launch->launch));
    json.field("cat", kind_text(sample.launch->launch->kind)).field("ph", "X");
    json.field("ts", static_cast<double>(sample.start) * 1e-3);
    json.field("dur", static_cast<double>(sample.nanoseconds) * 1e-3);
    json.field("pid", static_cast<int64_t>(getpid())).field("tid", static_cast<int64_t>(thread));
    json.key("args").begin_object().field("graph", program_.name);
    json.field("bytes", sample.launch->bytes).field("flops", sample.launch->flops).end_object().end_object();
    text += std::move(json).text() + ",\n";
  }
  if (::write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    TW_LOG_ONCE(Runtime, Warn, "cannot write the trace file ", trace_file_);
  close(fd);
}

void Profile::write(JsonWriter& json) const {
  std::lock_guard lock(mutex_);
  std::vector<const std::pair<const std::string, Line>*> order;
  for (const auto& entry : lines_) order.push_back(&entry);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return a->second.nanoseconds > b->second.nanoseconds;
  });
  json.begin_array();
  for (const auto* entry : order) {
    const Line& line = entry->second;
    const double seconds = 1e-9 * static_cast<double>(line.nanoseconds);
    json.begin_object().field("name", entry->first).field("kind", line.kind);
    json.field("description", line.description).field("runs", line.runs).field("seconds", seconds);
    json.field("bytes", line.bytes).field("flops", line.flops);
    json.field("gb_per_second", seconds > 0 ? 1e-9 * line.bytes / seconds : 0.0);
    json.field("gflop_per_second", seconds > 0 ? 1e-9 * line.flops / seconds : 0.0).end_object();
  }
  json.end_array();
}

}  // namespace tilewright
