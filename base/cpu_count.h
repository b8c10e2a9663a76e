// How many threads this process may use: the scheduler's affinity mask and the cgroup's CPU quota.
#pragma once

#include <string>

namespace tilewright {

// min(affinity, cgroup quota rounded up), at least 1.
int available_cpus();

// available_cpus() or the request if that is smaller; a request of 0 or less means no request.
int choose_thread_count(int requested);

// CPUs in the affinity mask of the calling thread.
int affinity_cpus();

// The tightest quota of the cgroup and its ancestors in whole CPUs, rounded up; 0 when there is none. The
// roots are "/proc" and
// "/sys/fs/cgroup" outside tests. Knows cgroup v1 and v2.
int cgroup_cpus(const std::string& proc_root, const std::string& cgroup_root);

}  // namespace tilewright
