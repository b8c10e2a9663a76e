// The cache in ordinary use: hits, kinds, modes, bounds, statistics.
#include "cache/cache.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "tests/cache/scratch.h"

namespace tilewright {
namespace {

TEST_F(CacheTest, RoundTripThroughDisk) {
  std::string bytes("object\0bytes", 12);
  open()->put(CacheKind::Kernel, key(1), bytes);
  auto cache = open();
  EXPECT_EQ(cache->get(CacheKind::Kernel, key(1)), bytes);
  EXPECT_EQ(cache->get(CacheKind::Kernel, key(1)), bytes);
  EXPECT_EQ(cache->get(CacheKind::Kernel, key(2)), std::nullopt);
  CacheStats stats = cache->stats();
  EXPECT_EQ(stats.disk_hits, 1);
  EXPECT_EQ(stats.memory_hits, 1);
  EXPECT_EQ(stats.misses, 1);
  EXPECT_EQ(stats.bytes_read, 12);
  EXPECT_EQ(stats.fault_total(), 0);
  EXPECT_EQ(cache->disabled_reason(), "");
}

TEST_F(CacheTest, EmptyAndLargeEntries) {
  auto cache = open();
  std::string large(3 << 20, 'x');
  cache->put(CacheKind::Kernel, key(1), "");
  cache->put(CacheKind::Image, key(1), large);
  cache->drop_memory();
  EXPECT_EQ(cache->get(CacheKind::Kernel, key(1)), "");
  EXPECT_EQ(cache->get(CacheKind::Image, key(1)), large);
}

TEST_F(CacheTest, KindsDoNotMix) {
  auto cache = open();
  cache->put(CacheKind::Failure, key(1), "LLVM cannot select it");
  EXPECT_EQ(cache->get(CacheKind::Kernel, key(1)), std::nullopt);
  cache->drop_memory();
  EXPECT_EQ(cache->get(CacheKind::Kernel, key(1)), std::nullopt);
  EXPECT_EQ(cache->get(CacheKind::Image, key(1)), std::nullopt);
  EXPECT_EQ(cache->get(CacheKind::Failure, key(1)), "LLVM cannot select it");
}

TEST_F(CacheTest, LastPutWins) {
  auto cache = open();
  cache->put(CacheKind::Kernel, key(1), "old");
  cache->put(CacheKind::Kernel, key(1), "new");
  EXPECT_EQ(cache->get(CacheKind::Kernel, key(1)), "new");
  EXPECT_EQ(open()->get(CacheKind::Kernel, key(1)), "new");
  EXPECT_EQ(temporary_count(*cache), 0u);
}

TEST_F(CacheTest, ModeOffKeepsNothingOnDisk) {
  auto cache = open(options(CacheMode::Off));
  cache->put(CacheKind::Kernel, key(1), "bytes");
  EXPECT_EQ(cache->get(CacheKind::Kernel, key(1)), "bytes");
  EXPECT_FALSE(std::filesystem::exists(root_));
  EXPECT_EQ(cache->directory(), "");
  EXPECT_EQ(cache->disabled_reason(), "cache mode is off");
}

TEST_F(CacheTest, ModeReadOnlyReadsAndNeverWrites) {
  auto absent = open(options(CacheMode::ReadOnly));
  absent->put(CacheKind::Kernel, key(1), "bytes");
  EXPECT_EQ(absent->get(CacheKind::Kernel, key(1)), "bytes");
  EXPECT_EQ(absent->get(CacheKind::Kernel, key(2)), std::nullopt);
  EXPECT_FALSE(std::filesystem::exists(root_));
  EXPECT_EQ(absent->stats().fault_total(), 0);

  open()->put(CacheKind::Kernel, key(2), "stored");
  EXPECT_EQ(absent->get(CacheKind::Kernel, key(2)), "stored");
}

TEST_F(CacheTest, ModeCheckCompares) {
  open()->put(CacheKind::Kernel, key(1), "bytes");
  auto cache = open(options(CacheMode::Check));
  EXPECT_EQ(cache->get(CacheKind::Kernel, key(1)), std::nullopt);
  cache->put(CacheKind::Kernel, key(1), "bytes");
  EXPECT_EQ(cache->stats().fault(CacheFault::Mismatch), 0);
  EXPECT_EQ(cache->get(CacheKind::Kernel, key(1)), std::nullopt);
  cache->put(CacheKind::Kernel, key(1), "bytez");
  EXPECT_EQ(cache->stats().fault(CacheFault::Mismatch), 1);
  cache->put(CacheKind::Kernel, key(2), "first");
  EXPECT_EQ(open()->get(CacheKind::Kernel, key(1)), "bytes");
  EXPECT_EQ(open()->get(CacheKind::Kernel, key(2)), "first");
}

TEST_F(CacheTest, NoBuildIdNoDisk) {
  CacheOptions without = options();
  without.compiler_identity = "";
  auto cache = open(without);
  cache->put(CacheKind::Kernel, key(1), "bytes");
  EXPECT_EQ(cache->get(CacheKind::Kernel, key(1)), "bytes");
  EXPECT_FALSE(std::filesystem::exists(root_));
  EXPECT_NE(cache->disabled_reason().find("no build id"), std::string::npos);
}

TEST_F(CacheTest, OtherBuildHasItsOwnDirectory) {
  open()->put(CacheKind::Kernel, key(1), "bytes");
  CacheOptions other = options();
  other.compiler_identity = "build 2, LLVM 22";
  auto cache = open(other);
  EXPECT_EQ(cache->get(CacheKind::Kernel, key(1)), std::nullopt);
  EXPECT_NE(cache->directory(), open()->directory());
}

TEST_F(CacheTest, MemoryIsBounded) {
  CacheOptions small = options(CacheMode::Off);
  small.memory_bytes = 100;
  auto cache = open(small);
  for (int i = 0; i < 10; ++i) cache->put(CacheKind::Kernel, key(i), std::string(30, 'x'));
  EXPECT_EQ(cache->get(CacheKind::Kernel, key(0)), std::nullopt);
  EXPECT_TRUE(cache->get(CacheKind::Kernel, key(7)).has_value());
  cache->put(CacheKind::Kernel, key(11), std::string(30, 'x'));  // drops 8, the least recently used
  EXPECT_EQ(cache->get(CacheKind::Kernel, key(8)), std::nullopt);
  EXPECT_TRUE(cache->get(CacheKind::Kernel, key(7)).has_value());
  cache->put(CacheKind::Kernel, key(12), std::string(101, 'x'));  // larger than the whole layer
  EXPECT_EQ(cache->get(CacheKind::Kernel, key(12)), std::nullopt);
  EXPECT_TRUE(cache->get(CacheKind::Kernel, key(11)).has_value());
}

TEST_F(CacheTest, DirectoriesAndFilesArePrivate) {
  mode_t previous = umask(0);
  auto cache = open();
  cache->put(CacheKind::Kernel, key(1), "bytes");
  umask(previous);
  struct stat status;
  ASSERT_EQ(stat(root_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
  ASSERT_EQ(stat(cache->directory().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
  ASSERT_EQ(stat(file_of(*cache, key(1)).c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(CacheTest, DefaultDirectoryFollowsTheEnvironment) {
  CacheOptions defaults = options();
  defaults.directory = "";
  setenv("XDG_CACHE_HOME", scratch_.c_str(), 1);
  EXPECT_TRUE(open(defaults)->directory().starts_with(scratch_ + "/tilewright/v1-"));
  setenv("XDG_CACHE_HOME", "relative", 1);  // not allowed by the standard
  std::string home = getenv("HOME") ? getenv("HOME") : "";
  setenv("HOME", scratch_.c_str(), 1);
  EXPECT_TRUE(open(defaults)->directory().starts_with(scratch_ + "/.cache/tilewright/v1-"));
  unsetenv("XDG_CACHE_HOME");
  unsetenv("HOME");
  auto none = open(defaults);
  EXPECT_EQ(none->directory(), "");
  EXPECT_NE(none->disabled_reason().find("HOME"), std::string::npos);
  if (!home.empty()) setenv("HOME", home.c_str(), 1);
}

TEST_F(CacheTest, HitRenewsAnOldStamp) {
  auto cache = open();
  cache->put(CacheKind::Kernel, key(1), "bytes");
  timespec old[2] = {{1000, 0}, {1000, 0}};
  std::string path = file_of(*cache, key(1));
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), old, 0), 0);
  cache->drop_memory();
  EXPECT_EQ(cache->get(CacheKind::Kernel, key(1)), "bytes");
  struct stat status;
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_GT(status.st_mtime, 1000);
}

TEST_F(CacheTest, OpenSweepsWhatDeadWritersLeft) {
  auto cache = open();
  cache->put(CacheKind::Kernel, key(1), "bytes");
  std::string abandoned = cache->directory() + "/tmp/abandoned", fresh = cache->directory() + "/tmp/fresh";
  write_file(abandoned, "half");
  write_file(fresh, "half");
  timespec old[2] = {{1000, 0}, {1000, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, abandoned.c_str(), old, 0), 0);
  open();
  EXPECT_FALSE(std::filesystem::exists(abandoned));
  EXPECT_TRUE(std::filesystem::exists(fresh));
}

TEST_F(CacheTest, ParsesModes) {
  EXPECT_EQ(*parse_cache_mode("rw"), CacheMode::ReadWrite);
  EXPECT_EQ(*parse_cache_mode("ro"), CacheMode::ReadOnly);
  EXPECT_EQ(*parse_cache_mode("off"), CacheMode::Off);
  EXPECT_EQ(*parse_cache_mode("check"), CacheMode::Check);
  EXPECT_EQ(parse_cache_mode("on").status().message(), "cache mode 'on', expected rw, ro, off or check");
}

TEST_F(CacheTest, RefusesNegativeMemory) {
  CacheOptions bad = options();
  bad.memory_bytes = -1;
  EXPECT_EQ(Cache::open(bad).status().code(), Code::InvalidArgument);
}

}  // namespace
}  // namespace tilewright
