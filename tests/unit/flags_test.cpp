// Flags: defaults, environment, validation and provenance.
#include "base/flags.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

namespace tilewright {
namespace {

Result<Flags> from(std::vector<const char*> environment, std::vector<std::string>* warnings = nullptr) {
  environment.push_back(nullptr);
  return Flags::from_variables(environment.data(), warnings);
}

std::string error_of(std::vector<const char*> environment) {
  Result<Flags> flags = from(std::move(environment));
  return flags.is_ok() ? "ok" : flags.status().message();
}

TEST(Flags, TableIsSound) {
  std::set<std::string> names;
  for (const FlagInfo& info : all_flags()) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_EQ(std::string(info.variable).rfind("TILEWRIGHT_", 0), 0u);
    EXPECT_GT(std::strlen(info.help), 10u) << info.name;
    EXPECT_EQ(find_flag(info.name), &info);
    EXPECT_EQ(find_flag(info.variable), &info);
    EXPECT_EQ(&flag_info(info.flag), &info);
    // Every default parses as a value of its kind.
    Flags flags;
    Status status = flags.set(info.name, info.default_value);
    EXPECT_TRUE(status.is_ok()) << status.to_string();
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(flag_count));
  EXPECT_EQ(std::string(flag_info(Flag::cache_dir).variable), "TILEWRIGHT_CACHE_DIR");
}

TEST(Flags, DefaultsEnvironmentApi) {
  Result<Flags> flags =
      from({"PATH=/bin", "TILEWRIGHT_THREADS=3", "TILEWRIGHT_CACHE_LIMIT=2K", "TILEWRIGHT_MODE="});
  ASSERT_TRUE(flags.is_ok());
  EXPECT_EQ(flags->integer(Flag::threads), 3);
  EXPECT_EQ(flags->origin(Flag::threads), FlagOrigin::Environment);
  EXPECT_EQ(flags->integer(Flag::cache_limit), 2048);
  EXPECT_EQ(flags->text(Flag::mode), "sync");
  EXPECT_EQ(flags->origin(Flag::mode), FlagOrigin::Default);
  EXPECT_TRUE(flags->set("mode", "eager").is_ok());
  EXPECT_TRUE(flags->is(Flag::mode, "eager"));
  EXPECT_EQ(flags->origin(Flag::mode), FlagOrigin::Api);
  EXPECT_TRUE(flags->set("TILEWRIGHT_CHECK", "1").is_ok());
  EXPECT_TRUE(flags->boolean(Flag::check));
  EXPECT_TRUE(flags->set("check", "").is_ok());
  EXPECT_FALSE(flags->boolean(Flag::check));
}

TEST(Flags, BadValuesSayWhatWasExpected) {
  EXPECT_EQ(error_of({"TILEWRIGHT_MODE=fast"}),
            "TILEWRIGHT_MODE: found 'fast', expected one of: sync, async, eager");
  EXPECT_EQ(error_of({"TILEWRIGHT_THREADS=many"}),
            "TILEWRIGHT_THREADS: found 'many', expected an integer in 0..4096");
  EXPECT_EQ(error_of({"TILEWRIGHT_THREADS=-1"}),
            "TILEWRIGHT_THREADS: found '-1', expected an integer in 0..4096");
  EXPECT_EQ(error_of({"TILEWRIGHT_THREADS=99999999999999999999"}),
            "TILEWRIGHT_THREADS: found '99999999999999999999', expected an integer in 0..4096");
  EXPECT_EQ(error_of({"TILEWRIGHT_CHECK=yes"}), "TILEWRIGHT_CHECK: found 'yes', expected 0 or 1");
  EXPECT_EQ(error_of({"TILEWRIGHT_CACHE_LIMIT=9999999999G"}),
            "TILEWRIGHT_CACHE_LIMIT: found '9999999999G', expected a number of bytes, or one with the unit "
            "K, M, G or T");
  EXPECT_EQ(error_of({"TILEWRIGHT_COMPILE_TIMEOUT=nan"}),
            "TILEWRIGHT_COMPILE_TIMEOUT: found 'nan', expected a number of seconds, 0 or more");
  EXPECT_EQ(error_of({"TILEWRIGHT_JIT_DEBUG=perf,lldb"}),
            "TILEWRIGHT_JIT_DEBUG: found 'lldb', expected a comma list of: perf, gdb");
  EXPECT_EQ(error_of({"TILEWRIGHT_LOG=cache=loud"}),
            "TILEWRIGHT_LOG: found level 'loud', expected trace, debug, info, warn, error or off");
  EXPECT_EQ(
      error_of({"TILEWRIGHT_LOG=gpu=info"}),
      "TILEWRIGHT_LOG: found component 'gpu', expected base, ir, cache, target, codegen, runtime or capi");
}

TEST(Flags, UnknownNames) {
  std::vector<std::string> warnings;
  ASSERT_TRUE(
      from({"TILEWRIGHT_TREADS=2", "TILEWRIGHT_TUNE=search", "TILEWRIGHT_TUNE_X=1"}, &warnings).is_ok());
  ASSERT_EQ(warnings.size(), 3u);
  EXPECT_EQ(warnings[0], "unknown variable TILEWRIGHT_TREADS; did you mean TILEWRIGHT_THREADS?");
  EXPECT_EQ(warnings[1], "TILEWRIGHT_TUNE has no effect yet");
  Flags flags;
  Status status = flags.set("fules", "1");
  EXPECT_EQ(status.code(), Code::NotFound);
  EXPECT_EQ(status.message(), "unknown option 'fules'; did you mean fuel?");
}

TEST(Flags, FailedSetChangesNothing) {
  Flags flags;
  ASSERT_TRUE(flags.set("threads", "2").is_ok());
  EXPECT_FALSE(flags.set("threads", "two").is_ok());
  EXPECT_EQ(flags.integer(Flag::threads), 2);
}

TEST(Flags, CacheKeyTextHasWhatChangesCode) {
  Flags flags;
  std::string before = flags.cache_key_text();
  ASSERT_TRUE(flags.set("threads", "2").is_ok());
  EXPECT_EQ(flags.cache_key_text(), before);
  ASSERT_TRUE(flags.set("precision", "fast").is_ok());
  EXPECT_NE(flags.cache_key_text(), before);
}

TEST(Flags, Words) {
  EXPECT_EQ(split_words(" a, b ,,c,"), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_TRUE(split_words("").empty());
}

}  // namespace
}  // namespace tilewright
