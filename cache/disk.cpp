// Files by descriptor: no symbolic links, no directory that others may write, temporary file, fsync, rename.
#include "cache/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>

#include "base/text.h"
#include "cache/entry.h"

namespace tilewright {
namespace {

constexpr time_t kStampSeconds = 3600;      // a hit renews a stamp that is older than this
constexpr time_t kAbandonedSeconds = 3600;  // a temporary file older than this has no writer any more
constexpr const char* kTemporary = "tmp";

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() { reset(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  void reset(int fd = -1) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }
  int close() {
    int result = ::close(fd_);
    fd_ = -1;
    return result;
  }
  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }

 private:
  int fd_;
};

std::string error_text(int error) {
  char buffer[128];
  return strerror_r(error, buffer, sizeof buffer);  // the GNU form
}

CacheFault fault_of_errno(int error, CacheFault otherwise) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG: return CacheFault::NoSpace;
    case ELOOP: return CacheFault::Refused;
    default: return otherwise;
  }
}

DiskFault errno_fault(CacheFault otherwise, std::string_view doing, std::string_view path) {
  int error = errno;
  return {fault_of_errno(error, otherwise), cat("cannot ", doing, " ", path, ": ", error_text(error)), error};
}

// A limit on file sizes raises SIGXFSZ, which ends a process that expects none: held back for one write.
class FileSizeSignalBlock {
 public:
  FileSizeSignalBlock() {
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGXFSZ) == 1;
    sigemptyset(&signal_);
    sigaddset(&signal_, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &signal_, &previous_);
  }
  ~FileSizeSignalBlock() {
    int error = errno;
    timespec now{};
    if (!was_pending_) sigtimedwait(&signal_, nullptr, &now);
    pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
    errno = error;
  }
  FileSizeSignalBlock(const FileSizeSignalBlock&) = delete;
  FileSizeSignalBlock& operator=(const FileSizeSignalBlock&) = delete;

 private:
  sigset_t signal_, previous_;
  bool was_pending_;
};

bool write_all(int fd, std::string_view bytes) {
  FileSizeSignalBlock block;
  while (!bytes.empty()) {
    ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

bool read_all(int fd, std::string& bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    ssize_t count = ::read(fd, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    if (count == 0) break;  // cut short since it was opened: the header will say so
    done += static_cast<size_t>(count);
  }
  bytes.resize(done);
  return true;
}

// Other users must not be able to plant code in a directory that we load from.
std::optional<DiskFault> check_is_ours(int fd, std::string_view path) {
  struct stat status;
  if (fstat(fd, &status) != 0) return errno_fault(CacheFault::Unreadable, "look at", path);
  if (status.st_uid != geteuid()) {
    return DiskFault{CacheFault::Refused,
                     cat("directory ", path, " belongs to user ", status.st_uid, ", expected ", geteuid())};
  }
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return DiskFault{CacheFault::Refused,
                     cat("directory ", path, " may be written by group or others, expected mode 0700")};
  }
  return std::nullopt;
}

// Makes the parents of the root; they are ordinary directories and may be links.
void make_parents(const std::string& path) {
  for (size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    mkdir(path.substr(0, slash).c_str(), 0700);
  }
}

std::string unique_suffix() {
  static std::atomic<uint64_t> counter{0};
  uint64_t random = 0;
  if (getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random) {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    random = static_cast<uint64_t>(now.tv_nsec);
  }
  return cat(".", getpid(), ".", counter.fetch_add(1), ".", random);
}

}  // namespace

class DiskStore::Directory : public Descriptor {};

DiskStore::DiskStore(std::string root, std::string folder, std::string identity, Inject inject)
    : root_(std::move(root)),
      folder_(std::move(folder)),
      identity_(std::move(identity)),
      path_(cat(root_, "/", folder_)),
      inject_(std::move(inject)) {}

bool DiskStore::fails(std::string_view step) const {
  int error = inject_ ? inject_(step) : 0;
  if (error != 0) errno = error;
  return error != 0;
}

std::optional<DiskFault> DiskStore::open_folder(bool create, Directory& folder) const {
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  if (create) {
    make_parents(root_);
    if (mkdir(root_.c_str(), 0700) != 0 && errno != EEXIST) {
      return errno_fault(CacheFault::Unwritable, "make", root_);
    }
  }
  Descriptor root(fails("open_directory") ? -1 : open(root_.c_str(), kFlags));
  if (!root.is_open()) {
    // O_DIRECTORY reports a link as no directory; say which of the two it is.
    struct stat status;
    int error = errno;
    if (error == ENOTDIR && lstat(root_.c_str(), &status) == 0 && S_ISLNK(status.st_mode)) error = ELOOP;
    if (error == ELOOP)
      return DiskFault{CacheFault::Refused, cat("directory ", root_, " is a symbolic link")};
    errno = error;
    return errno_fault(CacheFault::Unreadable, "open", root_);
  }
  if (auto fault = check_is_ours(root.get(), root_)) return fault;
  bool is_new = create && mkdirat(root.get(), folder_.c_str(), 0700) == 0;
  if (create && !is_new && errno != EEXIST) return errno_fault(CacheFault::Unwritable, "make", path_);
  folder.reset(openat(root.get(), folder_.c_str(), kFlags));
  if (!folder.is_open()) return errno_fault(CacheFault::Unreadable, "open", path_);
  if (auto fault = check_is_ours(folder.get(), path_)) return fault;
  if (is_new) {  // for people: which build this directory belongs to
    Descriptor note(
        openat(folder.get(), "identity", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (note.is_open()) write_all(note.get(), cat(identity_, "\n"));
  }
  return std::nullopt;
}

std::optional<DiskFault> DiskStore::open_temporary(const Directory& folder, Directory& temporary) const {
  if (mkdirat(folder.get(), kTemporary, 0700) != 0 && errno != EEXIST) {
    return errno_fault(CacheFault::Unwritable, "make", cat(path_, "/", kTemporary));
  }
  temporary.reset(openat(folder.get(), kTemporary, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!temporary.is_open()) return errno_fault(CacheFault::Unwritable, "open", cat(path_, "/", kTemporary));
  return check_is_ours(temporary.get(), cat(path_, "/", kTemporary));
}

std::optional<DiskFault> DiskStore::prepare() const {
  Directory folder, temporary;
  if (auto fault = open_folder(true, folder)) return fault;
  if (auto fault = open_temporary(folder, temporary)) return fault;
  int copy = fcntl(temporary.get(), F_DUPFD_CLOEXEC, 0);
  DIR* listing = copy < 0 ? nullptr : fdopendir(copy);
  if (!listing) return std::nullopt;
  time_t now = time(nullptr);
  while (dirent* item = readdir(listing)) {
    struct stat status;
    if (fstatat(temporary.get(), item->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (!S_ISDIR(status.st_mode) && status.st_mtime + kAbandonedSeconds < now) {
      unlinkat(temporary.get(), item->d_name, 0);
    }
  }
  closedir(listing);
  return std::nullopt;
}

DiskRead DiskStore::read_once(const std::string& name, bool touch) const {
  Directory folder;
  if (auto fault = open_folder(false, folder)) {
    // A directory that is not there, or not any more, simply has no entries.
    if (fault->error == ENOENT) return {};
    return {std::nullopt, std::move(fault)};
  }
  std::string path = cat(path_, "/", name);
  // Non-blocking: a pipe of that name must not stop us.
  Descriptor file(fails("open")
                      ? -1
                      : openat(folder.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) {
    if (errno == ENOENT) return {};
    if (errno == ELOOP)
      return {std::nullopt, DiskFault{CacheFault::Foreign, cat(path, " is a symbolic link")}};
    return {std::nullopt, errno_fault(CacheFault::Unreadable, "open", path)};
  }
  struct stat status;
  if (fstat(file.get(), &status) != 0) {
    return {std::nullopt, errno_fault(CacheFault::Unreadable, "look at", path)};
  }
  if (!S_ISREG(status.st_mode))
    return {std::nullopt, DiskFault{CacheFault::Foreign, cat(path, " is no regular file")}};
  if (status.st_uid != geteuid()) {
    return {std::nullopt, DiskFault{CacheFault::Foreign, cat(path, " belongs to user ", status.st_uid)}};
  }
  if (status.st_size > static_cast<off_t>(kMaxEntryBytes)) {
    return {std::nullopt, DiskFault{CacheFault::TooLarge, cat(path, " has ", status.st_size, " bytes")}};
  }
  std::string bytes(static_cast<size_t>(status.st_size), '\0');
  if (fails("read") || !read_all(file.get(), bytes)) {
    return {std::nullopt, errno_fault(CacheFault::Unreadable, "read", path)};
  }
  // Eviction goes by this stamp, not by access times, which many systems do not keep.
  if (touch && status.st_mtime + kStampSeconds < time(nullptr)) futimens(file.get(), nullptr);
  return {std::move(bytes), std::nullopt};
}

DiskRead DiskStore::read(const std::string& name, bool touch) const {
  DiskRead result = read_once(name, touch);
  // On NFS a file that was replaced while we held it is stale: its successor is fine.
  if (result.fault && result.fault->error == ESTALE) result = read_once(name, touch);
  return result;
}

std::optional<DiskFault> DiskStore::write_once(const std::string& name, std::string_view bytes) const {
  Directory folder, temporary;
  std::optional<DiskFault> fault = open_folder(true, folder);
  if (!fault) fault = open_temporary(folder, temporary);
  if (fault) return fault;
  std::string unfinished = name + unique_suffix();
  Descriptor file(openat(temporary.get(), unfinished.c_str(),
                         O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.is_open()) {
    return errno_fault(CacheFault::Unwritable, "create", cat(path_, "/", kTemporary, "/", unfinished));
  }
  const char* doing = nullptr;
  if (fails("write") || !write_all(file.get(), bytes)) {
    doing = "write";
  } else if (fails("sync") || fsync(file.get()) != 0) {
    doing = "sync";
  } else if (file.close() != 0) {
    doing = "close";
  } else if (fails("rename") ||
             renameat(temporary.get(), unfinished.c_str(), folder.get(), name.c_str()) != 0) {
    doing = "rename";
  }
  if (!doing) return std::nullopt;
  fault = errno_fault(CacheFault::Unwritable, doing, cat(path_, "/", name));
  unlinkat(temporary.get(), unfinished.c_str(), 0);
  return fault;
}

std::optional<DiskFault> DiskStore::write(const std::string& name, std::string_view bytes) const {
  std::optional<DiskFault> fault = write_once(name, bytes);
  // Somebody deleted the directory between our steps: make it again, once.
  if (fault && (fault->error == ENOENT || fault->error == ESTALE)) fault = write_once(name, bytes);
  return fault;
}

std::string default_cache_root() {
  const char* cache_home = getenv("XDG_CACHE_HOME");
  if (cache_home && cache_home[0] == '/')
    return cat(cache_home, "/tilewright");  // the standard: ignore relative ones
  const char* home = getenv("HOME");
  if (home && home[0] == '/') return cat(home, "/.cache/tilewright");
  return {};
}

}  // namespace tilewright
