// Profile: wall time of every launch of an executable, summed up for the report and as a Chrome trace.
#pragma once

#include <map>
#include <mutex>
#include <span>
#include <string>

#include "base/json.h"
#include "runtime/bound_plan.h"

namespace tilewright {

struct LaunchSample {
  const BoundLaunch* launch = nullptr;
  int64_t start = 0;  // nanoseconds of the steady clock
  int64_t nanoseconds = 0;
};

// Thread-safe.
class Profile {
 public:
  // `trace_file`: events are appended to it after each run; empty: none.
  Profile(const Program& program, std::string trace_file)
      : program_(program), trace_file_(std::move(trace_file)) {}

  void add(std::span<const LaunchSample> samples);
  // An array, the longest first: name, kind, description, runs, seconds, bytes, flops and rates.
  void write(JsonWriter& json) const;

 private:
  struct Line {
    std::string kind, description;
    int64_t runs = 0, nanoseconds = 0;
    double bytes = 0, flops = 0;
  };
  std::string name_of(const Launch& launch) const;
  void append_trace(std::span<const LaunchSample> samples) const;

  const Program& program_;
  const std::string trace_file_;
  mutable std::mutex mutex_;
  std::map<std::string, Line> lines_;
};

}  // namespace tilewright
