// Log lines by component and level; a level that is off costs one load and a branch.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/text.h"

namespace tilewright {

enum class LogLevel : int8_t { Trace, Debug, Info, Warn, Error, Off };
enum class LogComponent : int8_t { Base, Ir, Cache, Target, Codegen, Runtime, Capi };
inline constexpr int log_component_count = 7;

const char* log_level_name(LogLevel level);
const char* log_component_name(LogComponent component);

using LogLevels = std::array<LogLevel, log_component_count>;
// "info", "cache=debug,codegen=info" (the others stay at warn), or "error,cache=debug".
Result<LogLevels> parse_log_levels(std::string_view text);

struct LogSettings {
  std::string levels = "warn";
  std::string file;  // appended to; empty: standard error
  bool json = false;
};
// For the whole process; the last call counts. When the file cannot be opened, lines go to standard error and
// a warning says so.
Status configure_log(const LogSettings& settings);

// A host that takes the lines itself: called from any thread, from several at once; null restores the default.
using LogSink = void (*)(void* context, LogComponent component, LogLevel level, std::string_view message);
void set_log_sink(LogSink sink, void* context);

extern std::array<std::atomic<LogLevel>, log_component_count> log_thresholds;

inline bool log_enabled(LogComponent component, LogLevel level) {
  return level >= log_thresholds[static_cast<size_t>(component)].load(std::memory_order_relaxed);
}

// Never fails: a line that cannot be written is dropped.
void write_log(LogComponent component, LogLevel level, std::string_view message);

// TW_LOG(Cache, Warn, "cannot write ", path): arguments as for cat(), not evaluated when the level is off.
#define TW_LOG(component, level, ...)                                                                    \
  do {                                                                                                   \
    if (::tilewright::log_enabled(::tilewright::LogComponent::component, ::tilewright::LogLevel::level)) \
      ::tilewright::write_log(::tilewright::LogComponent::component, ::tilewright::LogLevel::level,      \
                              ::tilewright::cat(__VA_ARGS__));                                           \
  } while (false)

// The same, but once a process at most for this place in the code.
#define TW_LOG_ONCE(component, level, ...)                                                                 \
  do {                                                                                                     \
    static constinit std::atomic<bool> tw_logged_{false};                                                  \
    if (::tilewright::log_enabled(::tilewright::LogComponent::component, ::tilewright::LogLevel::level) && \
        !tw_logged_.exchange(true, std::memory_order_relaxed))                                             \
      TW_LOG(component, level, __VA_ARGS__);                                                               \
  } while (false)

}  // namespace tilewright
