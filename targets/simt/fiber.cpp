// The switch in assembly, stacks from the system.
#include "targets/simt/fiber.h"

#include <sys/mman.h>

#include <cstdint>

#if defined(__x86_64__)
// Callee-saved registers of the System V ABI; the kernel and the scheduler share one floating point mode.
asm(R"(
.text
.p2align 4
.globl tw_simt_switch_stack
.hidden tw_simt_switch_stack
.type tw_simt_switch_stack,@function
tw_simt_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size tw_simt_switch_stack,.-tw_simt_switch_stack
)");
#else
#error "the simulator of blocks of threads runs on x86-64 only"
#endif

namespace tilewright::simt {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kSavedRegisters = 6;

}  // namespace

StackSet::~StackSet() {
  for (void* region : regions_) munmap(region, kPage + kStackBytes);
}

bool StackSet::reserve(size_t count) {
  while (regions_.size() < count) {
    void* region = mmap(nullptr, kPage + kStackBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (region == MAP_FAILED) return false;
    mprotect(region, kPage, PROT_NONE);
    regions_.push_back(region);
  }
  return true;
}

void* StackSet::prepare(size_t index, void (*entry)()) {
  char* top = static_cast<char*>(regions_[index]) + kPage + kStackBytes;
  // As after a call: the entry finds a (null) return address at a stack pointer of 8 modulo 16.
  auto* slots = reinterpret_cast<void**>(top) - 2;
  slots[0] = reinterpret_cast<void*>(entry);
  slots[1] = nullptr;
  slots -= kSavedRegisters;
  for (size_t i = 0; i < kSavedRegisters; ++i) slots[i] = nullptr;
  return slots;
}

}  // namespace tilewright::simt
