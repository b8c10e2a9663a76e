// Everything that can go wrong with files and directories: always a miss with the right name, never a
// failure.
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/cache/scratch.h"

namespace tilewright {
namespace {

constexpr size_t kHeaderBytes = 96;

class FaultTest : public CacheTest {
 protected:
  // Puts key 1, lets `damage` change its file, and returns a cache that has seen the result.
  template <class Damage>
  std::unique_ptr<Cache> after(Damage damage) {
    auto cache = open();
    cache->put(CacheKind::Kernel, key(1), "the bytes of an object");
    std::string path = file_of(*cache, key(1));
    std::string bytes = read_file(path);
    damage(bytes);
    write_file(path, bytes);
    auto fresh = open();
    EXPECT_EQ(fresh->get(CacheKind::Kernel, key(1)), std::nullopt);
    EXPECT_EQ(fresh->stats().misses, 1);
    EXPECT_EQ(fresh->stats().fault_total(), 1);
    return fresh;
  }
};

TEST_F(FaultTest, EveryFlippedBitIsFound) {
  auto cache = open();
  cache->put(CacheKind::Kernel, key(1), "the bytes of an object");
  std::string path = file_of(*cache, key(1)), good = read_file(path);
  for (size_t byte = 0; byte < good.size(); ++byte) {
    std::string bad = good;
    bad[byte] = static_cast<char>(bad[byte] ^ (1 << (byte % 8)));
    write_file(path, bad);
    cache->drop_memory();
    ASSERT_EQ(cache->get(CacheKind::Kernel, key(1)), std::nullopt) << "byte " << byte;
  }
  EXPECT_EQ(cache->stats().fault_total(), static_cast<int64_t>(good.size()));
  write_file(path, good);
  EXPECT_TRUE(cache->get(CacheKind::Kernel, key(1)).has_value());
}

TEST_F(FaultTest, EveryTruncationAndExtensionIsFound) {
  auto cache = open();
  cache->put(CacheKind::Kernel, key(1), "the bytes of an object");
  std::string path = file_of(*cache, key(1)), good = read_file(path);
  for (size_t length = 0; length < good.size(); ++length) {
    write_file(path, good.substr(0, length));
    cache->drop_memory();
    ASSERT_EQ(cache->get(CacheKind::Kernel, key(1)), std::nullopt) << "length " << length;
  }
  write_file(path, good + "x");
  EXPECT_EQ(cache->get(CacheKind::Kernel, key(1)), std::nullopt);
  EXPECT_EQ(cache->stats().fault_total(), static_cast<int64_t>(good.size()) + 1);
  EXPECT_GT(cache->stats().fault(CacheFault::Torn), static_cast<int64_t>(kHeaderBytes));
}

TEST_F(FaultTest, FaultsHaveTheirNames) {
  EXPECT_EQ(after([](std::string& bytes) { bytes.resize(50); })->stats().fault(CacheFault::Torn), 1);
  EXPECT_EQ(after([](std::string& bytes) { bytes.assign(200, '\0'); })->stats().fault(CacheFault::Foreign),
            1);
  EXPECT_EQ(after([](std::string& bytes) { bytes[8] = 9; })->stats().fault(CacheFault::Version), 1);
  EXPECT_EQ(after([](std::string& bytes) { bytes[20] ^= 1; })->stats().fault(CacheFault::Corrupt), 1);
  EXPECT_EQ(after([](std::string& bytes) { bytes.back() ^= 1; })->stats().fault(CacheFault::Corrupt), 1);
}

TEST_F(FaultTest, FaultIsRepairedByTheNextPut) {
  auto cache = after([](std::string& bytes) { bytes.resize(10); });
  cache->put(CacheKind::Kernel, key(1), "the bytes of an object");
  EXPECT_EQ(open()->get(CacheKind::Kernel, key(1)), "the bytes of an object");
}

TEST_F(FaultTest, FileOfAnotherKeyKindBuildOrTarget) {
  auto cache = open();
  cache->put(CacheKind::Kernel, key(1), "one");
  std::filesystem::copy_file(file_of(*cache, key(1)), file_of(*cache, key(2)));
  EXPECT_EQ(cache->get(CacheKind::Kernel, key(2)), std::nullopt);
  EXPECT_EQ(cache->stats().fault(CacheFault::WrongKey), 1);
  std::filesystem::copy_file(file_of(*cache, key(1)),
                             cat(cache->directory(), "/", key(1).to_hex(), ".image"));
  EXPECT_EQ(cache->get(CacheKind::Image, key(1)), std::nullopt);
  EXPECT_EQ(cache->stats().fault(CacheFault::WrongKey), 2);

  CacheOptions other = options();
  other.target = "x86-64+avx512f";
  auto other_target = open(other);
  EXPECT_EQ(other_target->get(CacheKind::Kernel, key(1)), std::nullopt);
  EXPECT_EQ(other_target->stats().fault(CacheFault::WrongTarget), 1);

  other = options();
  other.compiler_identity = "build 2";
  auto other_build = open(other);
  std::filesystem::copy_file(file_of(*cache, key(1)), file_of(*other_build, key(1)));
  EXPECT_EQ(other_build->get(CacheKind::Kernel, key(1)), std::nullopt);
  EXPECT_EQ(other_build->stats().fault(CacheFault::Version), 1);
}

TEST_F(FaultTest, LinksPipesAndDirectoriesAreNotRead) {
  auto cache = open();
  cache->put(CacheKind::Kernel, key(1), "bytes");
  std::string real = scratch_ + "/real";
  std::filesystem::rename(file_of(*cache, key(1)), real);
  std::filesystem::create_symlink(real, file_of(*cache, key(1)));
  ASSERT_EQ(mkfifo(file_of(*cache, key(2)).c_str(), 0600), 0);
  std::filesystem::create_directory(file_of(*cache, key(3)));
  auto fresh = open();
  for (int i = 1; i <= 3; ++i) EXPECT_EQ(fresh->get(CacheKind::Kernel, key(i)), std::nullopt);
  EXPECT_EQ(fresh->stats().fault(CacheFault::Foreign), 3);
  fresh->put(CacheKind::Kernel, key(1), "new");  // replaces the link, not what it points at
  fresh->put(CacheKind::Kernel, key(3), "new");  // cannot replace a directory
  EXPECT_NE(read_file(real).find("bytes"), std::string::npos);
  EXPECT_EQ(open()->get(CacheKind::Kernel, key(1)), "new");
  EXPECT_EQ(fresh->stats().fault(CacheFault::Unwritable), 1);
  EXPECT_EQ(temporary_count(*fresh), 0u);
}

// A refused directory is neither read nor written, the reason says why, and memory still works.
void expect_refused(Cache& cache, std::string_view reason) {
  EXPECT_EQ(cache.directory(), "");
  EXPECT_NE(cache.disabled_reason().find(reason), std::string::npos) << cache.disabled_reason();
  EXPECT_EQ(cache.stats().fault(CacheFault::Refused), 1);
  Hash128 key = hash_bytes("some key");
  cache.put(CacheKind::Kernel, key, "bytes");
  EXPECT_EQ(cache.get(CacheKind::Kernel, key), "bytes");
}

TEST_F(FaultTest, DirectoryThatOthersMayWriteIsRefused) {
  std::filesystem::create_directory(root_);
  for (mode_t mode : {0720, 0702, 0777}) {
    ASSERT_EQ(chmod(root_.c_str(), mode), 0);
    expect_refused(*open(), "may be written by group or others");
  }
  EXPECT_TRUE(std::filesystem::is_empty(root_));
  ASSERT_EQ(chmod(root_.c_str(), 0755), 0);
  EXPECT_EQ(open()->disabled_reason(), "");
}

TEST_F(FaultTest, DirectoryThatBecomesWritableLaterIsNotRead) {
  auto cache = open();
  cache->put(CacheKind::Kernel, key(1), "bytes");
  cache->drop_memory();
  ASSERT_EQ(chmod(cache->directory().c_str(), 0777), 0);
  EXPECT_EQ(cache->get(CacheKind::Kernel, key(1)), std::nullopt);
  EXPECT_EQ(cache->stats().fault(CacheFault::Refused), 1);
}

TEST_F(FaultTest, SymbolicLinkIsRefused) {
  std::filesystem::create_directory(scratch_ + "/elsewhere");
  std::filesystem::create_directory_symlink(scratch_ + "/elsewhere", root_);
  expect_refused(*open(), "is a symbolic link");
  EXPECT_TRUE(std::filesystem::is_empty(scratch_ + "/elsewhere"));
}

TEST_F(FaultTest, DirectoryOfAnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  std::filesystem::create_directory(root_);
  ASSERT_EQ(chown(root_.c_str(), 65534, 65534), 0);
  expect_refused(*open(), "belongs to user 65534, expected 0");
}

TEST_F(FaultTest, FileInTheWayOfTheDirectory) {
  write_file(root_, "not a directory");
  auto cache = open();
  cache->put(CacheKind::Kernel, key(1), "bytes");
  EXPECT_EQ(cache->get(CacheKind::Kernel, key(1)), "bytes");
  EXPECT_NE(cache->disabled_reason(), "");
  EXPECT_EQ(read_file(root_), "not a directory");
}

// Runs `body` in a child that is not root, so that permissions hold; 77 there is no failure here.
template <class Body>
int in_plain_child(Body body) {
  pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) _exit(77);
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

TEST_F(FaultTest, ReadOnlyDirectoryIsReadAndReasonGiven) {
  ASSERT_EQ(chmod(scratch_.c_str(), 0777), 0);
  int result = in_plain_child([this] {
    auto cache = open();
    cache->put(CacheKind::Kernel, key(1), "bytes");
    if (chmod((cache->directory() + "/tmp").c_str(), 0500) != 0) return 1;
    if (chmod(cache->directory().c_str(), 0500) != 0) return 2;
    auto frozen = open();
    if (frozen->get(CacheKind::Kernel, key(1)) != "bytes") return 3;
    frozen->put(CacheKind::Kernel, key(2), "more");
    if (frozen->get(CacheKind::Kernel, key(2)) != "more") return 4;
    if (frozen->stats().fault(CacheFault::Unwritable) != 1) return 5;
    if (frozen->disabled_reason().find("Permission denied") == std::string::npos) return 6;
    // It heals: the next write that works clears the reason.
    if (chmod(cache->directory().c_str(), 0700) != 0 ||
        chmod((cache->directory() + "/tmp").c_str(), 0700) != 0)
      return 7;
    frozen->put(CacheKind::Kernel, key(2), "more");
    return frozen->disabled_reason().empty() && frozen->stats().writes == 1 ? 0 : 8;
  });
  if (result == 77) GTEST_SKIP() << "cannot become another user";
  EXPECT_EQ(result, 0);
}

TEST_F(FaultTest, NoPlaceToMakeTheDirectory) {
  ASSERT_EQ(chmod(scratch_.c_str(), 0755), 0);
  int result = in_plain_child([this] {
    if (access(scratch_.c_str(), W_OK) == 0) return 77;  // not root, owner of everything
    auto cache = open();
    cache->put(CacheKind::Kernel, key(1), "bytes");
    if (cache->get(CacheKind::Kernel, key(1)) != "bytes") return 1;
    return cache->disabled_reason().empty() ? 2 : 0;
  });
  if (result == 77) GTEST_SKIP() << "cannot become another user";
  EXPECT_EQ(result, 0);
}

TEST_F(FaultTest, FileSizeLimitIsNoSpaceAndKillsNobody) {
  pid_t child = fork();
  if (child == 0) {
    auto cache = open();
    rlimit limit = {1000, 1000};
    setrlimit(RLIMIT_FSIZE, &limit);
    cache->put(CacheKind::Kernel, key(1), std::string(100000, 'x'));
    if (cache->stats().fault(CacheFault::NoSpace) != 1) _exit(1);
    if (temporary_count(*cache) != 0) _exit(2);
    if (cache->get(CacheKind::Kernel, key(1)) != std::string(100000, 'x')) _exit(3);
    sigset_t pending;
    sigpending(&pending);
    if (sigismember(&pending, SIGXFSZ)) _exit(4);
    cache->put(CacheKind::Kernel, key(2), "small");
    _exit(cache->stats().writes == 1 ? 0 : 5);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(open()->get(CacheKind::Kernel, key(1)), std::nullopt);
}

struct InjectedError {
  const char* step;
  int error;
  CacheFault fault;
};
class InjectedFault : public FaultTest, public testing::WithParamInterface<InjectedError> {};

TEST_P(InjectedFault, IsAMissAndHeals) {
  auto healthy = open();
  healthy->put(CacheKind::Kernel, key(1), "bytes");
  bool broken = true;
  CacheOptions failing = options();
  failing.inject = [&broken](std::string_view step) {
    return broken && step == GetParam().step ? GetParam().error : 0;
  };
  auto cache = open(failing);
  EXPECT_NE(cache->get(CacheKind::Kernel, key(1)), "wrong");
  cache->put(CacheKind::Kernel, key(2), "two");
  EXPECT_EQ(cache->get(CacheKind::Kernel, key(2)), "two");
  EXPECT_GE(cache->stats().fault(GetParam().fault), 1);
  EXPECT_EQ(temporary_count(*healthy), 0u);
  broken = false;
  cache->drop_memory();
  EXPECT_EQ(cache->get(CacheKind::Kernel, key(1)), "bytes");
  cache->put(CacheKind::Kernel, key(3), "three");
  EXPECT_EQ(open()->get(CacheKind::Kernel, key(3)), "three");
  EXPECT_EQ(cache->disabled_reason(), "");
}

INSTANTIATE_TEST_SUITE_P(Steps, InjectedFault,
                         testing::Values(InjectedError{"open_directory", EACCES, CacheFault::Unreadable},
                                         InjectedError{"open_directory", ESTALE, CacheFault::Unreadable},
                                         InjectedError{"open", EIO, CacheFault::Unreadable},
                                         InjectedError{"open", EMFILE, CacheFault::Unreadable},
                                         InjectedError{"read", EIO, CacheFault::Unreadable},
                                         InjectedError{"read", ESTALE, CacheFault::Unreadable},
                                         InjectedError{"write", ENOSPC, CacheFault::NoSpace},
                                         InjectedError{"write", EDQUOT, CacheFault::NoSpace},
                                         InjectedError{"write", EIO, CacheFault::Unwritable},
                                         InjectedError{"sync", EIO, CacheFault::Unwritable},
                                         InjectedError{"sync", ENOSPC, CacheFault::NoSpace},
                                         InjectedError{"rename", EROFS, CacheFault::Unwritable},
                                         InjectedError{"rename", ENOENT, CacheFault::Unwritable}),
                         [](const auto& info) {
                           return cat(info.param.step, "_", strerrorname_np(info.param.error));
                         });

TEST_F(FaultTest, StaleHandleIsTriedOnceMore) {
  open()->put(CacheKind::Kernel, key(1), "bytes");
  int reads = 0;
  CacheOptions stale_once = options();
  stale_once.inject = [&reads](std::string_view step) { return step == "read" && reads++ == 0 ? ESTALE : 0; };
  auto cache = open(stale_once);
  EXPECT_EQ(cache->get(CacheKind::Kernel, key(1)), "bytes");
  EXPECT_EQ(cache->stats().fault_total(), 0);
}

TEST_F(FaultTest, DeletionUnderneath) {
  auto cache = open();
  cache->put(CacheKind::Kernel, key(1), "one");
  std::filesystem::remove_all(root_);
  cache->drop_memory();
  EXPECT_EQ(cache->get(CacheKind::Kernel, key(1)), std::nullopt);
  cache->put(CacheKind::Kernel, key(2), "two");
  EXPECT_EQ(open()->get(CacheKind::Kernel, key(2)), "two");
  EXPECT_EQ(cache->stats().fault_total(), 0);
  std::filesystem::remove_all(cache->directory() + "/tmp");
  cache->put(CacheKind::Kernel, key(3), "three");
  EXPECT_EQ(open()->get(CacheKind::Kernel, key(3)), "three");
}

}  // namespace
}  // namespace tilewright
