// MemoryPlan: lifetimes of a program's temporaries, which may share memory, and where outputs may lie.
#pragma once

#include <vector>

#include "codegen/program.h"

namespace tilewright {

// What does not depend on sizes; made once a program.
struct Lifetimes {
  static constexpr int kNever = -1;
  struct Span {
    int first = kNever;  // top-level launch that touches the buffer first, and last
    int last = kNever;
    int first_write = kNever, last_read = kNever;
  };
  std::vector<Span> buffers;
  // One a launch: temporaries that begin and end there.
  std::vector<std::vector<BufferId>> begins, ends;
};
Lifetimes find_lifetimes(const Program& program);

// True when every read of `from` comes before the first store to `to`, so that both may be the same memory.
bool may_share_memory(const Program& program, const Lifetimes& lifetimes, BufferId from, BufferId to);

// How a launch uses its buffer at a position.
enum class Use : uint8_t { Read, Write, ReadWrite };
Use buffer_use(const Program& program, const Launch& launch, size_t position);

// Offsets of the temporaries in one arena.
struct ArenaPlan {
  std::vector<int64_t> offsets;  // one a buffer; -1 where it has none
  int64_t bytes = 0;
  int64_t reused_in_place = 0;  // temporaries that took the memory of an operand of their launch
};
// `keep_all`: no two temporaries share memory, so that all can be looked at after the run.
ArenaPlan plan_arena(const Program& program, const Lifetimes& lifetimes,
                     const std::vector<int64_t>& buffer_bytes, bool keep_all = false);

}  // namespace tilewright
