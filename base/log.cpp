// The only file that includes spdlog; where the compiler has no std::format, fmt is compiled here, header
// only.
#include "base/log.h"

#include <pthread.h>

#include <memory>
#include <mutex>

#if __has_include(<format>)
#define SPDLOG_USE_STD_FORMAT
#else
#define FMT_HEADER_ONLY
#define SPDLOG_FMT_EXTERNAL
#endif
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "base/flags.h"
#include "base/json.h"

namespace tilewright {
namespace {

// Guards the logger and the host's sink. Held over fork, so that a child finds it free.
constinit std::mutex log_mutex;
constinit LogSink host_sink = nullptr;
constinit void* host_context = nullptr;
constinit bool json_lines = false;

// Never destroyed: usable during exit.
std::shared_ptr<spdlog::sinks::sink>& output() {
  static auto* sink =
      new std::shared_ptr<spdlog::sinks::sink>(std::make_shared<spdlog::sinks::stderr_sink_st>());
  return *sink;
}

void register_fork_handlers() {
  static const int registered =
      pthread_atfork([] { log_mutex.lock(); }, [] { log_mutex.unlock(); }, [] { log_mutex.unlock(); });
  (void)registered;
}

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::Trace: return spdlog::level::trace;
    case LogLevel::Debug: return spdlog::level::debug;
    case LogLevel::Info: return spdlog::level::info;
    case LogLevel::Warn: return spdlog::level::warn;
    case LogLevel::Error: return spdlog::level::err;
    case LogLevel::Off: return spdlog::level::off;
  }
  return spdlog::level::off;
}

std::string body_of(LogComponent component, LogLevel level, std::string_view message) {
  if (!json_lines) return cat(log_component_name(component), " ", log_level_name(level), ": ", message);
  JsonWriter json;
  json.begin_object().field("component", log_component_name(component)).field("level", log_level_name(level));
  json.field("message", message).end_object();
  // The pattern writes the opening brace and the time before the rest.
  return std::move(json).text().substr(1);
}

// Lines of people: "2026-01-31 12:00:00.123 tilewright[77] cache warn: message".
const char* pattern(bool json) {
  return json ? R"({"time":"%Y-%m-%dT%H:%M:%S.%f%z","pid":%P,"thread":%t,%v)"
              : "%Y-%m-%d %H:%M:%S.%e tilewright[%P] %v";
}

bool parse_level(std::string_view text, LogLevel* level) {
  for (int i = 0; i <= static_cast<int>(LogLevel::Off); ++i) {
    if (text != log_level_name(static_cast<LogLevel>(i))) continue;
    *level = static_cast<LogLevel>(i);
    return true;
  }
  return false;
}

bool parse_component(std::string_view text, size_t* component) {
  for (size_t i = 0; i < log_component_count; ++i) {
    if (text != log_component_name(static_cast<LogComponent>(i))) continue;
    *component = i;
    return true;
  }
  return false;
}

}  // namespace

static_assert(log_component_count == 7);
constinit std::array<std::atomic<LogLevel>, log_component_count> log_thresholds = {
    LogLevel::Warn, LogLevel::Warn, LogLevel::Warn, LogLevel::Warn,
    LogLevel::Warn, LogLevel::Warn, LogLevel::Warn};

const char* log_level_name(LogLevel level) {
  switch (level) {
    case LogLevel::Trace: return "trace";
    case LogLevel::Debug: return "debug";
    case LogLevel::Info: return "info";
    case LogLevel::Warn: return "warn";
    case LogLevel::Error: return "error";
    case LogLevel::Off: return "off";
  }
  return "unknown";
}

const char* log_component_name(LogComponent component) {
  switch (component) {
    case LogComponent::Base: return "base";
    case LogComponent::Ir: return "ir";
    case LogComponent::Cache: return "cache";
    case LogComponent::Target: return "target";
    case LogComponent::Codegen: return "codegen";
    case LogComponent::Runtime: return "runtime";
    case LogComponent::Capi: return "capi";
  }
  return "unknown";
}

Result<LogLevels> parse_log_levels(std::string_view text) {
  LogLevels levels;
  levels.fill(LogLevel::Warn);
  auto bad_level = [](std::string_view found) {
    return Status::invalid(cat("found level '", found, "', expected trace, debug, info, warn, error or off"));
  };
  for (const std::string& word : split_words(text)) {
    size_t equals = word.find('=');
    LogLevel level;
    if (equals == std::string::npos) {
      if (!parse_level(word, &level)) return bad_level(word);
      levels.fill(level);
      continue;
    }
    std::string_view name = std::string_view(word).substr(0, equals),
                     value = std::string_view(word).substr(equals + 1);
    size_t component;
    if (!parse_component(name, &component))
      return Status::invalid(
          cat("found component '", name, "', expected base, ir, cache, target, codegen, runtime or capi"));
    if (!parse_level(value, &level)) return bad_level(value);
    levels[component] = level;
  }
  return levels;
}

Status configure_log(const LogSettings& settings) {
  TW_ASSIGN_OR_RETURN(LogLevels levels, parse_log_levels(settings.levels));
  register_fork_handlers();
  std::string problem;
  {
    std::lock_guard lock(log_mutex);
    // The library above this one reports by exceptions; they end here.
    try {
      if (settings.file.empty()) {
        output() = std::make_shared<spdlog::sinks::stderr_sink_st>();
      } else {
        output() = std::make_shared<spdlog::sinks::basic_file_sink_st>(settings.file);
      }
    } catch (const std::exception& error) {
      problem = error.what();
      output() = std::make_shared<spdlog::sinks::stderr_sink_st>();
    }
    output()->set_pattern(pattern(settings.json));
    json_lines = settings.json;
  }
  for (size_t i = 0; i < levels.size(); ++i) log_thresholds[i].store(levels[i], std::memory_order_relaxed);
  if (!problem.empty()) TW_LOG(Base, Warn, "cannot log to ", settings.file, ": ", problem);
  return Status::ok();
}

void set_log_sink(LogSink sink, void* context) {
  std::lock_guard lock(log_mutex);
  host_sink = sink;
  host_context = context;
}

void write_log(LogComponent component, LogLevel level, std::string_view message) {
  register_fork_handlers();
  std::unique_lock lock(log_mutex);
  if (host_sink) {
    LogSink sink = host_sink;
    void* context = host_context;
    lock.unlock();  // the host may call back into the library
    return sink(context, component, level, message);
  }
  static const bool patterned = (output()->set_pattern(pattern(json_lines)), true);
  (void)patterned;
  try {
    std::string body = body_of(component, level, message);
    output()->log(spdlog::details::log_msg(spdlog::string_view_t(), spdlog_level(level), body));
    output()->flush();
  } catch (...) {
    // A full disk must not fail a training step.
  }
}

}  // namespace tilewright
