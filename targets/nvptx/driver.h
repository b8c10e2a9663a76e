// Driver: the CUDA driver library, opened at run time; no header and no toolkit is needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tilewright::cuda {

using DevicePointer = unsigned long long;

// Numbers of the driver's interface.
inline constexpr int kSuccess = 0, kOutOfMemory = 2, kNotPermitted = 800;
inline constexpr int kMajor = 75, kMinor = 76, kSharedOptIn = 97, kMultiprocessors = 16;
inline constexpr int kMaximumDynamicShared = 8;  // function attribute
inline constexpr int kInfoLog = 3, kInfoLogBytes = 4, kErrorLog = 5, kErrorLogBytes = 6;
inline constexpr int kInputPtx = 1;

struct Driver {
#define DRIVER(name, symbol, ...) int (*name)(__VA_ARGS__) = nullptr;
#include "targets/nvptx/driver.def"
#undef DRIVER

  int version = 0;  // 13000 for 13.0
  // The driver's name and text of an error.
  std::string describe(int error) const;
  // ok, or a status that says what was being done.
  Status check(int error, std::string_view doing) const;
};

// Opens the library and initialises it once a process; the status says why there is no driver.
Result<const Driver*> open_driver();

// The device that the library uses: number 0 of those that the driver shows.
struct DeviceFacts {
  int device = 0;
  std::string name;
  int major = 0, minor = 0;
  int64_t shared_opt_in = 0;
  int multiprocessors = 0;
};
Result<DeviceFacts> detect_device(const Driver& driver);

// PTX version, as 10 * major + minor, that a driver of this version reads.
int ptx_version_of(int driver_version);

// The device's primary context, current on this thread as long as it lives; whatever was current before is
// again then.  Not usable in a child forked after the driver was opened.
class Context {
 public:
  static Result<Context> enter(const Driver& driver);
  Context(Context&& other) noexcept : driver_(other.driver_) { other.driver_ = nullptr; }
  Context& operator=(Context&&) = delete;
  ~Context();

 private:
  explicit Context(const Driver* driver) : driver_(driver) {}
  const Driver* driver_;
};

}  // namespace tilewright::cuda
