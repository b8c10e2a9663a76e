// TilePlan: in which loops a tile program is emitted: which values are computed where they are used, which
// are kept in scratch, and what is evaluated together.  Knows no LLVM.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <vector>

#include "codegen/tile/tile.h"

namespace tilewright {

// Something that makes a loop necessary: a store, a reduction, or a value to keep in scratch.
struct TileRoot {
  const tile::Instruction* instruction = nullptr;  // the store or reduction; of a kept value, what defines it
  ValueId value;                                   // what is evaluated at each point
  bool is_kept = false;
};

// One instruction on its own, or roots of one shape in one loop nest.
struct TileStep {
  const tile::Instruction* instruction = nullptr;
  std::vector<TileRoot> roots;
  std::vector<int64_t> shape;
  Ints reduced;               // axes of the reductions among the roots, all the same
  std::map<int, Dim> limits;  // axes that end early
};

class TilePlan {
 public:
  // `is_cpu`: scratch memory costs no barriers, so that more is computed once and in place.
  TilePlan(const tile::Kernel& kernel, bool is_cpu);

  const std::vector<TileStep>& steps(const tile::Block& block) const { return steps_.at(&block); }
  const tile::Instruction* definition(ValueId value) const { return definition_[value.index]; }
  // Computed at each use, unless kept.
  bool is_lazy(const tile::Instruction& instruction) const;
  bool is_kept(ValueId value) const { return kept_[value.index]; }
  // The carry that the value takes the place of while it is computed; invalid: none.
  ValueId carry_of(ValueId value) const {
    auto found = carry_of_.find(value.index);
    return found == carry_of_.end() ? ValueId{} : found->second;
  }
  int weight(ValueId value) const { return weight_[value.index]; }
  int reader_count(ValueId value) const { return readers_[value.index]; }
  // Where an access leaves its buffer along a tile axis, as min(tile size, buffer size - base); none where it
  // is inside, `is_simple` false where that cannot be said axis by axis.
  std::map<int, Dim> access_limits(const tile::Access& access, const std::vector<int64_t>& shape,
                                   bool& is_simple) const;
  const std::vector<Symbol>& ranges() const { return ranges_; }

  static std::vector<ValueId> read_values(const tile::Instruction& instruction);

 private:
  struct Draft;  // a root with its level
  using Limits = std::map<int, Dim>;

  void collect(const tile::Block& block, int depth);
  void add_range(const tile::Instruction& loop);
  void find_accumulators(const tile::Instruction& loop);
  bool mark_kept();
  bool is_laid_out_by_dot(const tile::Instruction& dot, size_t operand) const;
  void plan_block(const tile::Block& block);
  void flush(std::vector<Draft>& drafts, std::vector<TileStep>& out);
  void find_level(std::vector<Draft>& drafts, size_t index);
  void visit(ValueId value, bool same_point, const std::vector<int64_t>& shape,
             const std::function<void(ValueId, bool)>& found,
             std::set<std::pair<uint32_t, bool>>& seen) const;
  void find_needs();
  Limits limits_of(const Draft& draft) const;
  bool is_alone(const tile::Instruction& instruction) const;

  const tile::Kernel& kernel_;
  const bool is_cpu_;
  std::vector<const tile::Instruction*> definition_;
  std::vector<int> weight_, depth_, readers_;
  std::vector<bool> kept_;
  std::map<uint32_t, ValueId> carry_of_;
  std::vector<Limits> needs_;  // of kept values: how much of them is read
  std::map<const tile::Block*, std::vector<TileStep>> steps_;
  std::vector<Symbol> ranges_;
};

}  // namespace tilewright
