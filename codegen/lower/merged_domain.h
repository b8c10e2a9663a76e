// MergedDomain: the domain of a group with neighbouring dims merged where every value of the group allows it.
#pragma once

#include <optional>
#include <vector>

#include "codegen/lower/program_builder.h"

namespace tilewright {

// Run i of neighbouring domain dims is axis i of the kernel.
class MergedDomain {
 public:
  // Merges as much as possible.
  MergedDomain(const ProgramBuilder& builder, const Grouping& grouping, const Group& group);
  // Takes the runs as given; see is_feasible().
  MergedDomain(const ProgramBuilder& builder, const Grouping& grouping, const Group& group,
               std::vector<std::vector<int>> runs);

  const std::vector<std::vector<int>>& runs() const { return runs_; }
  // True when every value of the group has a map over these runs.
  bool is_feasible() const;
  // A value whose dim i lies on domain dim dims[i] (-1: a dim of size 1); nothing when a run is split.
  std::optional<IndexMap> map_of(const std::vector<int>& dims) const;
  // True when the group's kernel computes the value itself.
  bool computed(ValueId value) const;

 private:
  void index();
  bool walks(ValueId value, const IndexMap& map, int depth) const;

  const ProgramBuilder& builder_;
  const Grouping& grouping_;
  const Group& group_;
  std::vector<std::vector<int>> runs_;
  std::vector<int> run_of_;
};

}  // namespace tilewright
