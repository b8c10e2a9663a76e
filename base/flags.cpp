// Parses and validates flag values; messages name the variable, what was found and what was expected.
#include "base/flags.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/log.h"
#include "base/text.h"

namespace tilewright {
namespace {

constexpr std::string_view Prefix = "TILEWRIGHT_";

// Upper case at compile time, so that a row spells its name once.
template <size_t N>
struct VariableName {
  char text[Prefix.size() + N] = {};
  constexpr explicit VariableName(const char (&name)[N]) {
    for (size_t i = 0; i < Prefix.size(); ++i) text[i] = Prefix[i];
    for (size_t i = 0; i < N; ++i) {
      char c = name[i];
      text[Prefix.size() + i] = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    }
  }
};

#define FLAG(name, kind, default_value, values, key, done, help) \
  constexpr VariableName variable_##name(#name);
#include "base/flags.def"
#undef FLAG

constexpr FlagInfo table[] = {
#define FLAG(name, kind, default_value, values, key, done, help) \
  {Flag::name, #name, variable_##name.text, FlagKind::kind, default_value, values, key != 0, done != 0, help},
#include "base/flags.def"
#undef FLAG
};

std::vector<std::string_view> choices(std::string_view values) {
  std::vector<std::string_view> result;
  while (!values.empty()) {
    size_t blank = values.find(' ');
    result.push_back(values.substr(0, blank));
    if (blank == std::string_view::npos) break;
    values.remove_prefix(blank + 1);
  }
  return result;
}

bool is_choice(std::string_view values, std::string_view word) {
  auto allowed = choices(values);
  return std::find(allowed.begin(), allowed.end(), word) != allowed.end();
}

template <class Number>
bool parse_number(std::string_view text, Number* number) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

// "min..max" of the table; rows without one take any value.
bool in_range(std::string_view range, int64_t value) {
  size_t dots = range.find("..");
  if (dots == std::string_view::npos) return true;
  int64_t low = 0, high = 0;
  parse_number(range.substr(0, dots), &low);
  parse_number(range.substr(dots + 2), &high);
  return value >= low && value <= high;
}

bool parse_bytes(std::string_view text, int64_t* bytes) {
  int shift = 0;
  if (!text.empty()) {
    size_t unit = std::string_view("KMGT").find(text.back());
    if (unit != std::string_view::npos) {
      shift = 10 * static_cast<int>(unit + 1);
      text.remove_suffix(1);
    }
  }
  if (!parse_number(text, bytes) || *bytes < 0) return false;
  if (*bytes > std::numeric_limits<int64_t>::max() >> shift) return false;
  *bytes <<= shift;
  return true;
}

Status bad_value(const FlagInfo& info, std::string_view text, std::string_view expected) {
  return Status::invalid(cat(info.variable, ": found '", text, "', expected ", expected));
}

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      int replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

template <class NameOf>
std::string nearest(std::string_view name, NameOf name_of) {
  const FlagInfo* best = nullptr;
  int best_distance = 4;
  for (const FlagInfo& info : table) {
    int distance = edit_distance(name, name_of(info));
    if (distance < best_distance) best_distance = distance, best = &info;
  }
  return best ? cat("; did you mean ", name_of(*best), "?") : std::string();
}

}  // namespace

const char* origin_name(FlagOrigin origin) {
  switch (origin) {
    case FlagOrigin::Default: return "default";
    case FlagOrigin::Environment: return "env";
    case FlagOrigin::Api: return "api";
  }
  return "unknown";
}

const char* kind_name(FlagKind kind) {
  switch (kind) {
    case FlagKind::Text: return "text";
    case FlagKind::Path: return "path";
    case FlagKind::Choice: return "choice";
    case FlagKind::Words: return "words";
    case FlagKind::Integer: return "integer";
    case FlagKind::Bytes: return "bytes";
    case FlagKind::Seconds: return "seconds";
    case FlagKind::Boolean: return "boolean";
    case FlagKind::Levels: return "levels";
  }
  return "unknown";
}

std::span<const FlagInfo> all_flags() { return table; }
const FlagInfo& flag_info(Flag flag) { return table[static_cast<size_t>(flag)]; }

const FlagInfo* find_flag(std::string_view name) {
  for (const FlagInfo& info : table)
    if (name == info.name || name == info.variable) return &info;
  return nullptr;
}

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
  while (true) {
    size_t comma = text.find(',');
    std::string_view word = text.substr(0, comma);
    while (!word.empty() && word.front() == ' ') word.remove_prefix(1);
    while (!word.empty() && word.back() == ' ') word.remove_suffix(1);
    if (!word.empty()) words.emplace_back(word);
    if (comma == std::string_view::npos) return words;
    text.remove_prefix(comma + 1);
  }
}

Flags::Flags() {
  // The table's own defaults parse; the unit test of this file proves it.
  for (const FlagInfo& info : table)
    (void)parse(info, info.default_value, &values_[index(info.flag)]).is_ok();
}

Status Flags::parse(const FlagInfo& info, std::string_view text, Value* value) {
  value->text = text;
  switch (info.kind) {
    case FlagKind::Text:
    case FlagKind::Path: return Status::ok();
    case FlagKind::Choice:
      if (is_choice(info.values, text)) return Status::ok();
      return bad_value(info, text, cat("one of: ", join(choices(info.values), ", ")));
    case FlagKind::Words:
      for (const std::string& word : split_words(text))
        if (*info.values && !is_choice(info.values, word))
          return bad_value(info, word, cat("a comma list of: ", join(choices(info.values), ", ")));
      return Status::ok();
    case FlagKind::Integer:
      if (parse_number(text, &value->integer) && in_range(info.values, value->integer)) return Status::ok();
      return bad_value(info, text, cat("an integer in ", info.values));
    case FlagKind::Bytes:
      if (parse_bytes(text, &value->integer)) return Status::ok();
      return bad_value(info, text, "a number of bytes, or one with the unit K, M, G or T");
    case FlagKind::Seconds:
      if (parse_number(text, &value->seconds) && std::isfinite(value->seconds) && value->seconds >= 0)
        return Status::ok();
      return bad_value(info, text, "a number of seconds, 0 or more");
    case FlagKind::Boolean:
      value->integer = text == "1";
      if (text == "0" || text == "1") return Status::ok();
      return bad_value(info, text, "0 or 1");
    case FlagKind::Levels:
      if (Result<LogLevels> levels = parse_log_levels(text); !levels.is_ok())
        return Status::invalid(cat(info.variable, ": ", levels.status().message()));
      return Status::ok();
  }
  return Status::internal("flag kind without a parser");
}

Status Flags::set(std::string_view name, std::string_view value, FlagOrigin origin) {
  const FlagInfo* info = find_flag(name);
  if (!info)
    return Status::not_found(
        cat("unknown option '", name, "'", nearest(name, [](const FlagInfo& i) { return i.name; })));
  Value parsed;
  parsed.origin = value.empty() ? FlagOrigin::Default : origin;
  TW_RETURN_IF_ERROR(parse(*info, value.empty() ? info->default_value : value, &parsed));
  values_[index(info->flag)] = std::move(parsed);
  return Status::ok();
}

Result<Flags> Flags::from_environment(std::vector<std::string>* warnings) {
  return from_variables(environ, warnings);
}

Result<Flags> Flags::from_variables(const char* const* environment, std::vector<std::string>* warnings) {
  Flags flags;
  for (; environment && *environment; ++environment) {
    std::string_view entry = *environment;
    size_t equals = entry.find('=');
    if (!entry.starts_with(Prefix) || equals == std::string_view::npos) continue;
    std::string_view name = entry.substr(0, equals), value = entry.substr(equals + 1);
    const FlagInfo* info = find_flag(name);
    if (!info) {
      if (warnings)
        warnings->push_back(
            cat("unknown variable ", name, nearest(name, [](const FlagInfo& i) { return i.variable; })));
      continue;
    }
    TW_RETURN_IF_ERROR(flags.set(name, value, FlagOrigin::Environment));
    if (!info->is_done && !value.empty() && value != info->default_value && warnings)
      warnings->push_back(cat(name, " has no effect yet"));
  }
  return flags;
}

std::vector<std::string> Flags::words(Flag flag) const { return split_words(text(flag)); }

std::string Flags::cache_key_text() const {
  std::string text;
  for (const FlagInfo& info : table)
    if (info.in_cache_key) text += cat(text.empty() ? "" : " ", info.name, "=", this->text(info.flag));
  return text;
}

}  // namespace tilewright
