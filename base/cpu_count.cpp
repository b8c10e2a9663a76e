// Reads sched_getaffinity and the cgroup files.
#include "base/cpu_count.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <limits>
#include <sstream>
#include <string_view>
#include <vector>

namespace tilewright {
namespace {

// "150000 100000" is two CPUs; "max 100000", -1 and rubbish are no limit.
int quota_cpus(const std::string& quota_text, int64_t period) {
  char* end = nullptr;
  long long quota = std::strtoll(quota_text.c_str(), &end, 10);
  if (end == quota_text.c_str() || quota <= 0 || period <= 0) return 0;
  return static_cast<int>(std::min<int64_t>((quota + period - 1) / period, std::numeric_limits<int>::max()));
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

int v2_limit(const std::string& folder) {
  std::istringstream fields(first_line(folder + "/cpu.max"));
  std::string quota;
  int64_t period = 100'000;
  fields >> quota >> period;
  return quota_cpus(quota, period);
}

int v1_limit(const std::string& folder) {
  std::string period = first_line(folder + "/cpu.cfs_period_us");
  return quota_cpus(first_line(folder + "/cpu.cfs_quota_us"), std::strtoll(period.c_str(), nullptr, 10));
}

// The tightest limit from `path` up to the root. A path that is not there (no cgroup namespace) still has its
// root.
template <class LimitOf>
int tightest(const std::string& mount, std::string path, LimitOf limit_of) {
  int result = 0;
  while (true) {
    if (int limit = limit_of(mount + path); limit > 0) result = result == 0 ? limit : std::min(result, limit);
    if (path.empty()) return result;
    size_t slash = path.rfind('/');
    path.resize(slash == std::string::npos ? 0 : slash);
  }
}

bool lists(std::string_view controllers, std::string_view wanted) {
  while (!controllers.empty()) {
    size_t comma = controllers.find(',');
    if (controllers.substr(0, comma) == wanted) return true;
    if (comma == std::string_view::npos) return false;
    controllers.remove_prefix(comma + 1);
  }
  return false;
}

}  // namespace

int affinity_cpus() {
  for (int cpus = 1024; cpus <= 1 << 20; cpus *= 2) {
    size_t bytes = CPU_ALLOC_SIZE(cpus);
    cpu_set_t* set = CPU_ALLOC(cpus);
    if (!set) return 1;
    int failed = sched_getaffinity(0, bytes, set);
    int count = failed ? 0 : CPU_COUNT_S(bytes, set);
    CPU_FREE(set);
    if (!failed) return std::max(count, 1);
    if (errno != EINVAL) return 1;
  }
  return 1;
}

int cgroup_cpus(const std::string& proc_root, const std::string& cgroup_root) {
  std::ifstream file(proc_root + "/self/cgroup");
  std::string line;
  int result = 0;
  auto narrow = [&](int limit) {
    if (limit > 0) result = result == 0 ? limit : std::min(result, limit);
  };
  while (std::getline(file, line)) {
    size_t first = line.find(':');
    size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    std::string controllers = line.substr(first + 1, second - first - 1);
    std::string path = line.substr(second + 1);
    while (!path.empty() && path.back() == '/') path.pop_back();
    if (controllers.empty()) {
      narrow(tightest(cgroup_root, path, v2_limit));
    } else if (lists(controllers, "cpu")) {
      narrow(tightest(cgroup_root + "/" + controllers, path, v1_limit));
      narrow(tightest(cgroup_root + "/cpu", path, v1_limit));
    }
  }
  return result;
}

int available_cpus() {
  int cpus = affinity_cpus();
  int quota = cgroup_cpus("/proc", "/sys/fs/cgroup");
  return quota > 0 ? std::min(cpus, quota) : cpus;
}

int choose_thread_count(int requested) {
  int available = available_cpus();
  return requested > 0 ? std::min(requested, available) : available;
}

}  // namespace tilewright
