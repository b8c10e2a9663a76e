// The table of builtins and the arguments of their calls.
#include "codegen/builtins.h"

#include "base/text.h"
#include "ir/inference.h"

namespace tilewright {

#define TW_CHECK(enumerator, name, id, bytes) static_assert(static_cast<int>(ElementCode::enumerator) == id);
TW_DTYPES(TW_CHECK)
#undef TW_CHECK

std::string BuiltinInfo::launch_name() const { return cat(name, "@", version); }

std::span<const BuiltinInfo> all_builtins() {
  static constexpr BuiltinInfo kBuiltins[] = {
#define BUILTIN(name, version, op, summary) {#name, version, Op::op, summary},
#include "codegen/builtins.def"
#undef BUILTIN
  };
  return kBuiltins;
}

const BuiltinInfo* builtin_for(Op op) {
  for (const BuiltinInfo& info : all_builtins()) {
    if (info.op == op) return &info;
  }
  return nullptr;
}

static BuiltinOptions options_of(const Node& node) {
  AttributeReader attributes(node.op, node.attributes);
  BuiltinOptions options;
  if (node.op == Op::Sort || node.op == Op::TopK) options.dim = attributes.get_int("dim");
  if (node.op == Op::Sort) {
    options.num_keys = attributes.get_int("num_keys");
    options.descending = attributes.get_bool("descending");
  }
  if (node.op == Op::TopK) options.descending = attributes.get_bool("largest");
  if (node.op == Op::Searchsorted) options.right = attributes.get_string("side") == "right";
  return options;
}

Result<BuiltinCall> make_builtin_call(std::string_view launch_name, const Graph& graph,
                                      const Bindings& bindings, std::span<void* const> buffers) {
  if (graph.node_count() != 1) return Status::internal(cat(launch_name, ": its graph is not one node"));
  const Node& node = graph.nodes()[0];
  BuiltinCall call;
  call.name = launch_name;
  call.options = options_of(node);
  size_t next = 0;
  auto add = [&](ValueId value, std::vector<BuiltinTensor>& tensors) {
    if (!value.is_valid()) return Status::ok();
    if (next == buffers.size()) return Status::internal(cat(launch_name, ": too few buffers"));
    const TensorType& type = graph.type(value);
    BuiltinTensor tensor{static_cast<ElementCode>(type.dtype), {}, buffers[next++]};
    for (const Dim& dim : type.shape) {
      TW_ASSIGN_OR_RETURN(int64_t size, dim.evaluate(bindings));
      tensor.sizes.push_back(size);
    }
    tensors.push_back(std::move(tensor));
    return Status::ok();
  };
  for (ValueId operand : node.operands) TW_RETURN_IF_ERROR(add(operand, call.inputs));
  for (ValueId result : node.results) TW_RETURN_IF_ERROR(add(result, call.outputs));
  return call;
}

}  // namespace tilewright
