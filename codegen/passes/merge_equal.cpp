// Common subexpressions: a node equal to an earlier one is replaced by it.
#include <map>

#include "base/text.h"
#include "codegen/passes/rewrite.h"
#include "ir/text.h"

namespace tilewright {

Result<Graph> merge_equal_pass(const Graph& graph, PassContext& context) {
  std::map<std::string, std::vector<ValueId>> seen;
  return rewrite_nodes(
      graph,
      [&](const Node& node, const std::vector<ValueId>& operands,
          Graph& target) -> Result<std::optional<std::vector<ValueId>>> {
        const OpInfo& info = node.info();
        bool fixed = info.has(Trait::NoCse) || info.has(Trait::SideEffect) || info.has(Trait::Ordered) ||
                     !node.regions.empty() || node.op == Op::Uninitialized;
        if (fixed) return std::optional<std::vector<ValueId>>();
        std::string key =
            cat(op_name(node.op), "(", join(operands, ",", [](ValueId id) { return cat(id.index); }), ")");
        for (const auto& [name, value] : node.attributes) {
          const auto* constant = std::get_if<ConstantRef>(&value);
          key +=
              constant ? cat(name, "=", (*constant)->content_hash().to_hex()) : cat(name, "=", print(value));
        }
        auto found = seen.find(key);
        if (found != seen.end() && context.spend()) return std::optional<std::vector<ValueId>>(found->second);
        Types types;
        for (ValueId result : node.results) types.push_back(graph.type(result));
        NodeId copy = target.append_unchecked(node.op, operands, node.attributes, {}, std::move(types));
        target.node(copy).tag = node.tag;
        seen[key] = target.node(copy).results;
        return std::optional<std::vector<ValueId>>(target.node(copy).results);
      });
}

}  // namespace tilewright
