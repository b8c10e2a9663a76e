// Opening the driver, detection, the context.
#include "targets/nvptx/driver.h"

#include <dlfcn.h>
#include <unistd.h>

#include <mutex>

#include "base/text.h"

namespace tilewright::cuda {
namespace {

constexpr const char* kLibrary = "libcuda.so.1";

struct Opened {
  Driver driver;
  Status status;
  pid_t owner = 0;
};

Status fill(Driver& driver) {
  // Never closed: the driver keeps threads of its own.
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* reason = dlerror();
    return Status::runtime(cat("no CUDA driver: ", reason ? reason : kLibrary));
  }
#define DRIVER(name, symbol, ...)                                               \
  driver.name = reinterpret_cast<int (*)(__VA_ARGS__)>(dlsym(library, symbol)); \
  if (!driver.name) return Status::runtime(cat("the CUDA driver has no function ", symbol));
#include "targets/nvptx/driver.def"
#undef DRIVER
  TW_RETURN_IF_ERROR(driver.check(driver.init(0), "cannot initialise the CUDA driver"));
  return driver.check(driver.driver_version(&driver.version), "cannot read the version of the CUDA driver");
}

const Opened& opened() {
  static const Opened* const once = [] {
    auto* made = new Opened;
    made->owner = getpid();
    made->status = fill(made->driver);
    return made;
  }();
  return *once;
}

}  // namespace

std::string Driver::describe(int error) const {
  const char *name = nullptr, *text = nullptr;
  if (error_name) error_name(error, &name);
  if (error_text) error_text(error, &text);
  return cat(name ? name : cat("error ", error), text ? ": " : "", text ? text : "");
}

Status Driver::check(int error, std::string_view doing) const {
  if (error == kSuccess) return Status::ok();
  std::string message = cat(doing, ": ", describe(error));
  return error == kOutOfMemory ? Status::exhausted(std::move(message)) : Status::runtime(std::move(message));
}

Result<const Driver*> open_driver() {
  const Opened& found = opened();
  if (!found.status.is_ok()) return found.status;
  if (found.owner != getpid())
    return Status::precondition("the CUDA driver cannot be used in a child of the process that opened it");
  return &found.driver;
}

Result<DeviceFacts> detect_device(const Driver& driver) {
  int count = 0;
  TW_RETURN_IF_ERROR(driver.check(driver.device_count(&count), "cannot count devices"));
  if (count == 0) return Status::not_found("the CUDA driver shows no device");
  DeviceFacts facts;
  TW_RETURN_IF_ERROR(driver.check(driver.device_get(&facts.device, 0), "cannot open device 0"));
  char name[256] = {};
  TW_RETURN_IF_ERROR(
      driver.check(driver.device_name(name, sizeof name - 1, facts.device), "cannot name device 0"));
  facts.name = name;
  int shared = 0;
  const std::pair<int, int*> attributes[] = {{kMajor, &facts.major},
                                             {kMinor, &facts.minor},
                                             {kSharedOptIn, &shared},
                                             {kMultiprocessors, &facts.multiprocessors}};
  for (const auto& [attribute, value] : attributes)
    TW_RETURN_IF_ERROR(driver.check(driver.device_attribute(value, attribute, facts.device),
                                    cat("cannot read attribute ", attribute, " of device 0")));
  facts.shared_opt_in = shared;
  return facts;
}

int ptx_version_of(int driver_version) {
  const int major = driver_version / 1000, minor = driver_version % 1000 / 10;
  if (major >= 13) return 90 + 10 * (major - 13) + minor;
  if (major < 12) return 70 + minor;
  // 12.0 to 12.5 read 8.0 to 8.5; 12.6 added none, so that the others are one behind.
  return 80 + (minor <= 5 ? minor : minor - 1);
}

Result<Context> Context::enter(const Driver& driver) {
  struct Primary {
    void* context = nullptr;
    Status status;
  };
  if (opened().owner != getpid()) return open_driver().status();
  static const Primary* const primary = [](const Driver& with) {
    auto* made = new Primary;
    int device = 0;
    made->status = with.check(with.device_get(&device, 0), "cannot open device 0");
    if (made->status.is_ok())
      made->status =
          with.check(with.retain_context(&made->context, device), "cannot make a context on device 0");
    return made;
  }(driver);
  TW_RETURN_IF_ERROR(primary->status);
  TW_RETURN_IF_ERROR(
      driver.check(driver.push_context(primary->context), "cannot enter the context of device 0"));
  return Context(&driver);
}

Context::~Context() {
  void* context = nullptr;
  if (driver_) driver_->pop_context(&context);
}

}  // namespace tilewright::cuda
