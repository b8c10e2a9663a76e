// tw_options: values of all options before a session is made from them.
#include "base/log.h"
#include "capi/handles.h"

using namespace tilewright;
using capi::guarded;

extern "C" {

int64_t tw_option_count(void) { return flag_count; }

tw_status* tw_option_describe(int64_t index, tw_option_info* info) {
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(info);
    if (index < 0 || index >= flag_count)
      return Status::invalid(cat(call, ": option ", index, ", expected 0 to ", flag_count - 1));
    tw_option_info filled;
    TW_RETURN_IF_ERROR(capi::read_struct(call, "tw_option_info", info, &filled));
    const FlagInfo& flag = all_flags()[static_cast<size_t>(index)];
    filled.name = flag.name;
    filled.variable = flag.variable;
    filled.kind = kind_name(flag.kind);
    filled.default_value = flag.default_value;
    filled.values = flag.values;
    filled.help = flag.help;
    filled.in_cache_key = flag.in_cache_key ? 1 : 0;
    filled.is_effective = flag.is_done ? 1 : 0;
    std::memcpy(info, &filled, std::min<size_t>(static_cast<size_t>(info->struct_size), sizeof filled));
    return Status::ok();
  });
}

tw_status* tw_options_create(tw_options** options) {
  if (options) *options = nullptr;
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(options);
    std::vector<std::string> warnings;
    TW_ASSIGN_OR_RETURN(Flags flags, Flags::from_environment(&warnings));
    for (const std::string& warning : warnings) TW_LOG(Capi, Warn, warning);
    *options = new tw_options{std::move(flags)};
    return Status::ok();
  });
}

void tw_options_release(tw_options* options) { delete options; }

tw_status* tw_options_set(tw_options* options, const char* name, const char* value) {
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(options);
    TW_REQUIRE(name);
    TW_REQUIRE(value);
    return options->flags.set(name, value);
  });
}

tw_status* tw_options_get(const tw_options* options, const char* name, const char** value, int32_t* origin) {
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(options);
    TW_REQUIRE(name);
    TW_REQUIRE(value);
    const FlagInfo* info = find_flag(name);
    if (!info) return Status::not_found(cat(call, ": no option ", name));
    *value = options->flags.text(info->flag).c_str();
    if (origin) *origin = static_cast<int32_t>(options->flags.origin(info->flag));
    return Status::ok();
  });
}

}  // extern "C"
