// Parsing of settings.
#include "targets/simt/settings.h"

#include <charconv>

#include "base/text.h"

namespace tilewright::simt {
namespace {

Status set(Settings& settings, std::string_view spelling, std::string_view item) {
  if (item == "strict") {
    settings.strict = true;
    return Status::ok();
  }
  const size_t equals = item.find('=');
  const std::string_view name = item.substr(0, equals);
  int64_t* field = name == "memory"        ? &settings.memory
                   : name == "fail_launch" ? &settings.fail_launch
                   : name == "fail_async"  ? &settings.fail_async
                                           : nullptr;
  const std::string_view text = equals == std::string_view::npos ? "" : item.substr(equals + 1);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (!field || error != std::errc() || end != text.data() + text.size() || value < 0)
    return Status::invalid(cat("target '", spelling, "': setting '", item,
                               "', expected memory=BYTES, fail_launch=N, fail_async=N or strict"));
  *field = value;
  return Status::ok();
}

}  // namespace

Result<Settings> parse_settings(std::string_view spelling) {
  Settings settings;
  const size_t colon = spelling.find(':');
  if (colon == std::string_view::npos) return settings;
  std::string_view rest = spelling.substr(colon + 1);
  while (true) {
    const size_t comma = rest.find(',');
    TW_RETURN_IF_ERROR(set(settings, spelling, rest.substr(0, comma)));
    if (comma == std::string_view::npos) return settings;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace tilewright::simt
