// Flags: the value of every variable of flags.def, and where it came from.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tilewright {

enum class Flag : int32_t {
#define FLAG(name, kind, default_value, values, key, done, help) name,
#include "base/flags.def"
#undef FLAG
};

inline constexpr int flag_count = 0
#define FLAG(name, kind, default_value, values, key, done, help) +1
#include "base/flags.def"
#undef FLAG
    ;

enum class FlagKind : int32_t { Text, Path, Choice, Words, Integer, Bytes, Seconds, Boolean, Levels };

struct FlagInfo {
  Flag flag;
  const char* name;      // "cache_dir"
  const char* variable;  // "TILEWRIGHT_CACHE_DIR"
  FlagKind kind;
  const char* default_value;
  const char* values;  // see flags.def
  bool in_cache_key;
  bool is_done;
  const char* help;
};

enum class FlagOrigin : int32_t { Default, Environment, Api };
const char* origin_name(FlagOrigin origin);  // "default", "env", "api"
const char* kind_name(FlagKind kind);

// In table order.
std::span<const FlagInfo> all_flags();
const FlagInfo& flag_info(Flag flag);
// By option name or by variable name; null when there is none.
const FlagInfo* find_flag(std::string_view name);

// A plain value, one a session: copy freely; no locks.
class Flags {
 public:
  Flags();  // all defaults

  // Defaults overridden by the environment. A value that does not parse is an error that names the variable.
  // An unknown TILEWRIGHT_ variable, and one without effect yet, give a warning in `warnings`.
  static Result<Flags> from_environment(std::vector<std::string>* warnings);
  // The same over an explicit environment of NAME=value, for tests.
  static Result<Flags> from_variables(const char* const* environment, std::vector<std::string>* warnings);

  // An empty value means the default. The name may be the option's or the variable's.
  Status set(std::string_view name, std::string_view value, FlagOrigin origin = FlagOrigin::Api);

  // The text that was given, or the default.
  const std::string& text(Flag flag) const { return values_[index(flag)].text; }
  // Integer, Bytes and Boolean flags.
  int64_t integer(Flag flag) const { return values_[index(flag)].integer; }
  bool boolean(Flag flag) const { return values_[index(flag)].integer != 0; }
  double seconds(Flag flag) const { return values_[index(flag)].seconds; }
  std::vector<std::string> words(Flag flag) const;
  bool is(Flag flag, std::string_view value) const { return text(flag) == value; }
  FlagOrigin origin(Flag flag) const { return values_[index(flag)].origin; }

  // "precision=strict skip= fuel=-1 ...": every flag that may change generated code.
  std::string cache_key_text() const;

 private:
  struct Value {
    std::string text;
    int64_t integer = 0;
    double seconds = 0;
    FlagOrigin origin = FlagOrigin::Default;
  };
  static size_t index(Flag flag) { return static_cast<size_t>(flag); }
  static Status parse(const FlagInfo& info, std::string_view text, Value* value);

  std::array<Value, flag_count> values_;
};

// Splits at commas, drops empty parts and blanks around parts.
std::vector<std::string> split_words(std::string_view text);

}  // namespace tilewright
