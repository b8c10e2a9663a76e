// A directory of its own for a test, and small file tools.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "base/log.h"
#include "base/text.h"
#include "cache/cache.h"

namespace tilewright {

class CacheTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(configure_log({.levels = "off"}).is_ok());  // faults are what these tests are about
    std::string pattern = (std::filesystem::temp_directory_path() / "tilewright_cache_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    scratch_ = pattern;
    root_ = scratch_ + "/cache";
  }
  void TearDown() override {
    std::error_code ignored;
    std::filesystem::remove_all(scratch_, ignored);
  }

  CacheOptions options(CacheMode mode = CacheMode::ReadWrite) const {
    CacheOptions options;
    options.directory = root_;
    options.compiler_identity = "build 1, LLVM 22";
    options.target = "x86-64+avx2";
    options.mode = mode;
    return options;
  }
  static std::unique_ptr<Cache> open(CacheOptions options) {
    Result<std::unique_ptr<Cache>> cache = Cache::open(std::move(options));
    EXPECT_TRUE(cache.is_ok()) << cache.status().to_string();
    return std::move(cache).value();
  }
  std::unique_ptr<Cache> open() const { return open(options()); }

  static Hash128 key(int number) { return hash_bytes(cat("key ", number)); }
  static std::string file_of(const Cache& cache, const Hash128& key) {
    return cat(cache.directory(), "/", key.to_hex(), ".kernel");
  }
  static std::string read_file(const std::string& path) {
    std::ifstream stream(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(stream), {});
  }
  static void write_file(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }
  static size_t temporary_count(const Cache& cache) {
    size_t count = 0;
    for ([[maybe_unused]] const auto& item : std::filesystem::directory_iterator(cache.directory() + "/tmp"))
      ++count;
    return count;
  }

  std::string scratch_, root_;
};

}  // namespace tilewright
