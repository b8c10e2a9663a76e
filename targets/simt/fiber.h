// Fibers: stacks of simulated threads and the switch between them.
#pragma once

#include <cstddef>
#include <vector>

namespace tilewright::simt {

// Saves the caller's registers and stack pointer, and continues where `to` was saved.
extern "C" void tw_simt_switch_stack(void** save, void* to);

// A region of equal stacks, each above a guard page; grows, and is used again by later launches.
class StackSet {
 public:
  StackSet() = default;
  StackSet(const StackSet&) = delete;
  StackSet& operator=(const StackSet&) = delete;
  ~StackSet();

  static constexpr size_t kStackBytes = 128 * 1024;

  bool reserve(size_t count);  // false: out of address space
  // Stack pointer from which a switch enters `entry`, which never returns.
  void* prepare(size_t index, void (*entry)());

 private:
  std::vector<void*> regions_;
};

}  // namespace tilewright::simt
