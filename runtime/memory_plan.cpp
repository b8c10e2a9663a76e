// Lifetimes by launch order, sharing by comparison of accesses, offsets by best fit over a list of holes.
#include "runtime/memory_plan.h"

#include <algorithm>
#include <map>
#include <set>

namespace tilewright {

Use buffer_use(const Program& program, const Launch& launch, size_t position) {
  switch (launch.kind) {
    case LaunchKind::Kernel: {
      const auto& params = program.kernels[static_cast<size_t>(launch.kernel)].kernel.params;
      if (position >= params.size()) return Use::ReadWrite;
      switch (params[position].mode) {
        case tile::AccessMode::Read: return Use::Read;
        case tile::AccessMode::Write: return Use::Write;
        case tile::AccessMode::ReadWrite: return Use::ReadWrite;
      }
      return Use::ReadWrite;
    }
    case LaunchKind::Builtin:
    case LaunchKind::Reference: return position < launch.node->inputs.size() ? Use::Read : Use::Write;
    case LaunchKind::Copy: return position == 0 ? Use::Read : Use::Write;
    case LaunchKind::Loop: return Use::ReadWrite;
  }
  return Use::ReadWrite;
}

namespace {

void touch(const Program& program, const Launch& launch, int step, bool in_loop, Lifetimes& lifetimes) {
  for (size_t position = 0; position < launch.buffers.size(); ++position) {
    Lifetimes::Span& span = lifetimes.buffers[launch.buffers[position].buffer.index];
    const Use use = in_loop ? Use::ReadWrite : buffer_use(program, launch, position);
    if (span.first == Lifetimes::kNever) span.first = step;
    span.last = step;
    if (use != Use::Read && span.first_write == Lifetimes::kNever) span.first_write = step;
    if (use != Use::Write) span.last_read = step;
  }
  for (const Launch& inner : launch.body) touch(program, inner, step, true, lifetimes);
}

}  // namespace

Lifetimes find_lifetimes(const Program& program) {
  Lifetimes lifetimes;
  lifetimes.buffers.resize(program.buffers.size());
  lifetimes.begins.resize(program.launches.size());
  lifetimes.ends.resize(program.launches.size());
  for (size_t step = 0; step < program.launches.size(); ++step)
    touch(program, program.launches[step], static_cast<int>(step), false, lifetimes);
  for (uint32_t index = 0; index < program.buffers.size(); ++index) {
    const Lifetimes::Span& span = lifetimes.buffers[index];
    if (program.buffers[index].kind != BufferKind::Temporary || span.first == Lifetimes::kNever) continue;
    lifetimes.begins[static_cast<size_t>(span.first)].push_back(BufferId{index});
    lifetimes.ends[static_cast<size_t>(span.last)].push_back(BufferId{index});
  }
  return lifetimes;
}

namespace {

bool same_index(const tile::Access& a, const tile::Access& b) {
  if (a.index.size() != b.index.size()) return false;
  for (size_t dim = 0; dim < a.index.size(); ++dim) {
    const tile::DimIndex &x = a.index[dim], &y = b.index[dim];
    if (!(x.base == y.base) || x.tile.is_valid() || y.tile.is_valid() || x.terms.size() != y.terms.size())
      return false;
    for (size_t term = 0; term < x.terms.size(); ++term)
      if (x.terms[term].axis != y.terms[term].axis || x.terms[term].coefficient != y.terms[term].coefficient)
        return false;
  }
  return true;
}

// All loads of one param and all stores to another, in one block without control flow around them.
class AccessPair {
 public:
  AccessPair(const tile::Kernel& kernel, int from, int to) : from_(from), to_(to) {
    collect(kernel.body, true);
  }

  // Each instance reads exactly the elements that it later writes, so that no other instance sees the new
  // values.
  bool is_elementwise(const tile::Kernel& kernel) const {
    if (nested_ || stores_.size() != 1 || loads_.empty()) return false;
    const auto& [store, store_at] = stores_[0];
    const tile::TileType& stored = kernel.type(store->operands[0]);
    for (const auto& [load, load_at] : loads_) {
      const tile::TileType& loaded = kernel.type(load->results[0]);
      if (load_at >= store_at || loaded.shape != stored.shape || !same_index(load->access, store->access))
        return false;
    }
    if (is_moved(kernel)) return false;
    // Loads may be carried out as late as their users: nothing but stores of the same tile shape, which are
    // made together, may follow.
    for (size_t next = static_cast<size_t>(store_at); next < kernel.body.body.size(); ++next) {
      const tile::Instruction& each = kernel.body.body[next];
      if (each.opcode != tile::Opcode::Store || each.store != tile::StoreKind::Set) return false;
      if (kernel.type(each.operands[0]).shape != stored.shape) return false;
    }
    return true;
  }

 private:
  void collect(const tile::Block& block, bool top) {
    int position = 0;
    for (const tile::Instruction& each : block.body) {
      ++position;
      const bool loads = (each.opcode == tile::Opcode::Load || each.opcode == tile::Opcode::LoadScalar) &&
                         each.access.param == from_;
      const bool stores = each.opcode == tile::Opcode::Store && each.access.param == to_;
      if ((loads || stores) && (!top || each.opcode == tile::Opcode::LoadScalar)) nested_ = true;
      if (loads) loads_.emplace_back(&each, position);
      if (stores) stores_.emplace_back(&each, position);
      for (const tile::Block& inner : each.blocks) collect(inner, false);
    }
  }

  // True when a loaded value is read at another place of its tile than where it was loaded.
  bool is_moved(const tile::Kernel& kernel) const {
    std::vector<bool> derived(kernel.values.size(), false);
    for (const auto& [load, at] : loads_) derived[load->results[0].index] = true;
    for (const tile::Instruction& each : kernel.body.body) {
      const bool reads = std::any_of(each.operands.begin(), each.operands.end(), [&](ValueId operand) {
        return operand.is_valid() && derived[operand.index];
      });
      if (!reads) continue;
      if (each.opcode == tile::Opcode::Transpose || each.opcode == tile::Opcode::Reshape) return true;
      if (each.opcode != tile::Opcode::Elementwise && each.opcode != tile::Opcode::Broadcast) continue;
      for (ValueId result : each.results) derived[result.index] = true;
    }
    return false;
  }

  int from_, to_;
  bool nested_ = false;
  std::vector<std::pair<const tile::Instruction*, int>> loads_, stores_;
};

// Positions of the buffers in a launch; false when a buffer is used twice or only in part.
bool find_positions(const Launch& launch, BufferId from, BufferId to, int* from_at, int* to_at) {
  *from_at = *to_at = -1;
  for (size_t position = 0; position < launch.buffers.size(); ++position) {
    const BufferUse& use = launch.buffers[position];
    for (auto [buffer, at] : {std::pair(from, from_at), std::pair(to, to_at)}) {
      if (use.buffer != buffer) continue;
      if (*at >= 0 || !use.offset.is_constant(0)) return false;
      *at = static_cast<int>(position);
    }
  }
  return *from_at >= 0 && *to_at >= 0;
}

bool launch_may_share(const Program& program, const Launch& launch, BufferId from, BufferId to) {
  if (launch.kind != LaunchKind::Kernel) return false;
  int from_at, to_at;
  if (!find_positions(launch, from, to, &from_at, &to_at)) return false;
  const tile::Kernel& kernel = program.kernels[static_cast<size_t>(launch.kernel)].kernel;
  const tile::Param& read = kernel.params[static_cast<size_t>(from_at)];
  const tile::Param& written = kernel.params[static_cast<size_t>(to_at)];
  if (read.dtype != written.dtype || !(read.dims == written.dims) || !(read.strides == written.strides))
    return false;
  if (read.mode != tile::AccessMode::Read || written.mode != tile::AccessMode::Write) return false;
  return AccessPair(kernel, from_at, to_at).is_elementwise(kernel);
}

}  // namespace

bool may_share_memory(const Program& program, const Lifetimes& lifetimes, BufferId from, BufferId to) {
  const int last_read = lifetimes.buffers[from.index].last_read;
  const int first_write = lifetimes.buffers[to.index].first_write;
  if (first_write == Lifetimes::kNever || last_read < first_write) return true;
  if (last_read > first_write) return false;
  return launch_may_share(program, program.launches[static_cast<size_t>(first_write)], from, to);
}

namespace {

constexpr int64_t kAlignment = 64;

// The arena as a list of holes.
class Holes {
 public:
  int64_t take(int64_t size) {
    const auto fit = by_size_.lower_bound({size, -1});
    if (fit == by_size_.end()) return grow(size);
    const auto [hole_size, offset] = *fit;
    erase(offset, hole_size);
    if (hole_size > size) insert(offset + size, hole_size - size);
    return offset;
  }

  void give(int64_t offset, int64_t size) {
    auto next = by_offset_.lower_bound(offset);
    if (next != by_offset_.end() && next->first == offset + size) {
      size += next->second;
      erase(next->first, next->second);
    }
    auto previous = by_offset_.lower_bound(offset);
    if (previous != by_offset_.begin()) {
      --previous;
      if (previous->first + previous->second == offset) {
        const auto [start, length] = *previous;
        erase(start, length);
        offset = start;
        size += length;
      }
    }
    insert(offset, size);
  }

  int64_t bytes() const { return end_; }

 private:
  // A hole at the end is widened rather than left behind.
  int64_t grow(int64_t size) {
    int64_t offset = end_;
    if (!by_offset_.empty()) {
      const auto [start, length] = *std::prev(by_offset_.end());
      if (start + length == end_) {
        erase(start, length);
        offset = start;
      }
    }
    end_ = offset + size;
    return offset;
  }
  void insert(int64_t offset, int64_t size) {
    by_offset_[offset] = size;
    by_size_.insert({size, offset});
  }
  void erase(int64_t offset, int64_t size) {
    by_offset_.erase(offset);
    by_size_.erase({size, offset});
  }

  std::map<int64_t, int64_t> by_offset_;
  std::set<std::pair<int64_t, int64_t>> by_size_;
  int64_t end_ = 0;
};

// An operand that ends with this launch and whose memory `result` may take, or an invalid id.
BufferId find_donor(const Program& program, const Lifetimes& lifetimes, size_t step, BufferId result,
                    const std::vector<int64_t>& bytes, const std::vector<bool>& given_away) {
  for (BufferId ending : lifetimes.ends[step]) {
    if (ending == result || given_away[ending.index] || bytes[ending.index] != bytes[result.index]) continue;
    if (lifetimes.buffers[ending.index].first == static_cast<int>(step)) continue;
    if (launch_may_share(program, program.launches[step], ending, result)) return ending;
  }
  return {};
}

}  // namespace

ArenaPlan plan_arena(const Program& program, const Lifetimes& lifetimes,
                     const std::vector<int64_t>& buffer_bytes, bool keep_all) {
  ArenaPlan plan;
  plan.offsets.assign(program.buffers.size(), -1);
  std::vector<bool> given_away(program.buffers.size(), false);
  Holes holes;
  const auto rounded = [&](BufferId id) {
    return std::max<int64_t>((buffer_bytes[id.index] + kAlignment - 1) / kAlignment * kAlignment, kAlignment);
  };
  for (size_t step = 0; step < program.launches.size(); ++step) {
    for (BufferId begun : lifetimes.begins[step]) {
      const BufferId donor =
          keep_all ? BufferId{} : find_donor(program, lifetimes, step, begun, buffer_bytes, given_away);
      if (donor.is_valid()) {
        given_away[donor.index] = true;
        plan.offsets[begun.index] = plan.offsets[donor.index];
        ++plan.reused_in_place;
      } else {
        plan.offsets[begun.index] = holes.take(rounded(begun));
      }
    }
    for (BufferId ended : lifetimes.ends[step])
      if (!keep_all && !given_away[ended.index]) holes.give(plan.offsets[ended.index], rounded(ended));
  }
  plan.bytes = holes.bytes();
  return plan;
}

}  // namespace tilewright
