// Grouping: which nodes are fused into one kernel, over which domain, and which values are kept in memory.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "codegen/lower/index_map.h"

namespace tilewright {

struct DomainDim {
  Dim size;
  bool reduced = false;  // some reduction of the group runs along it
  bool kept = false;     // some reduction keeps it, so that it may not be reduced along
};

// Fusible nodes over one iteration domain.  Domain dims have stable ids; `order` lists them from slow to
// fast.
struct Group {
  std::vector<DomainDim> dims;
  std::vector<int> order;
  std::vector<ValueId> roots;                      // values that the kernel stores
  std::map<uint32_t, std::vector<int>> root_dims;  // by value: the domain dim of each dim of a root
  std::map<uint32_t, std::vector<int>>
      reduce_dims;           // by node: the domain dim of each operand dim of a reduction
  std::set<uint32_t> nodes;  // members (cheap ones may be in several groups)
  std::map<uint32_t, std::vector<IndexMap>> maps;  // by value, in the unmerged domain
  NodeId anchor;  // a contraction whose result the group takes straight from its accumulators; or invalid
};

enum class Storage : uint8_t {
  Inlined,  // recomputed in each group that uses it
  Buffer,   // kept in memory: an input, a dense constant, a root of a group, a result of a special node
  Alias,    // another view of the operand's buffer (reshape)
};

struct Grouping {
  std::vector<Group> groups;
  std::vector<Storage> storage;  // by value
  std::vector<int> group_of;     // by value: the group that stores it, or -1
  std::vector<bool> live;        // by node
};

// Ops that a group kernel computes; all others are lowered one by one (contractions, sorts, scatters, ...).
bool is_fusible(const Graph& graph, const Node& node);
// The operand whose buffer the result is another view of (barriers, collectives of one rank); reshapes are
// decided apart.
std::optional<int> alias_operand(const Graph& graph, const Node& node, int result);
// True when operand `index` of a fusible node is read from memory at computed indices, and so must be in a
// buffer.
bool reads_buffer(const Graph& graph, const Node& node, int index);
// Recomputing it costs about as much as loading it.
bool is_cheap(const Graph& graph, const Node& node);
// A splat constant small enough to be written into the program.
bool is_splat(const Node& node);

Result<Grouping> group_nodes(const Graph& graph);

// Gives contractions to the elementwise group that alone reads them, so that they end in that group's stores.
void anchor_contractions(const Graph& graph, Grouping& grouping);

}  // namespace tilewright
