// Proposals: operands and attributes for an op, drawn so that inference accepts a good part of them.
#pragma once

#include "tests/fuzz/graph_generator.h"

namespace tilewright::fuzz {

// Draws from a list.
template <class T>
const T& pick(Random& random, const std::vector<T>& list) {
  return list[random.next() % list.size()];
}
inline bool chance(Random& random, int percent) { return static_cast<int>(random.next() % 100) < percent; }

// What a proposal may look at: the graph so far and where new operands come from.
class OperandSource {
 public:
  virtual ~OperandSource() = default;
  // An existing value or a new input of exactly this type.
  virtual ValueId value_of(const TensorType& type) = 0;
  // Any usable value of the dtype, or a new input.
  virtual ValueId any_value(DType dtype) = 0;
  // A value of this type that is sorted along its only dim.
  virtual ValueId sorted_value(const TensorType& type) = 0;
  // Result `result` of a new node; invalid when the op refuses.
  virtual ValueId node_value(Op op, std::vector<ValueId> operands, AttributeMap attributes = {},
                             int result = 0) = 0;
  virtual const Graph& graph() const = 0;
  virtual Dim random_dim() = 0;
};

struct Proposal {
  std::vector<ValueId> operands;
  AttributeMap attributes;
  std::vector<RegionRef> regions;
};

// The general proposal from the schema of the row.
Proposal propose(const OpInfo& info, Random& random, OperandSource& source);
// Ops whose attributes must fit their operands in ways the schema does not say; false when the op has no
// special one.
bool propose_special(const OpInfo& info, Random& random, OperandSource& source, Proposal& proposal);

// Ints 0..rank-1: a random subset in order, or all of them shuffled.
Ints random_subset(Random& random, int rank, int min_size = 0);
Ints random_permutation(Random& random, int rank);

}  // namespace tilewright::fuzz
