// Sessions for text tests, one a target.
#include "tests/text/session_engine.h"

#include <map>

#include "base/text.h"
#include "runtime/compile.h"
#include "runtime/session.h"

namespace tilewright::text_tests {
namespace {

void twice(const float* from, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = 2 * from[i];
}

// The custom calls that tests know: the operand at `operand` doubled.
CustomCallSpec twice_spec(const char* name, int operands, int operand) {
  CustomCallSpec spec;
  spec.name = name;
  spec.function = reinterpret_cast<void (*)()>(twice);
  spec.operand_count = operands;
  spec.result_count = 1;
  CustomArgument from, to, count;
  from.tensor = operand;
  to.tensor = operands;
  count.kind = ArgumentKind::Elements;
  count.ctype = CType::I64;
  count.tensor = operands;
  spec.arguments = {from, to, count};
  return spec;
}

Result<std::shared_ptr<Session>> session_of(const std::string& target) {
  static auto* sessions = new std::map<std::string, std::shared_ptr<Session>>;
  std::shared_ptr<Session>& session = (*sessions)[target];
  if (session) return session;
  TW_ASSIGN_OR_RETURN(Flags flags, Flags::from_environment(nullptr));
  TW_RETURN_IF_ERROR(flags.set("target", target));
  TW_RETURN_IF_ERROR(flags.set("cache", "off"));
  TW_RETURN_IF_ERROR(flags.set("mode", "sync"));
  TW_ASSIGN_OR_RETURN(std::shared_ptr<Session> made, Session::create(std::move(flags)));
  TW_RETURN_IF_ERROR(made->custom_calls().add(twice_spec("test.twice", 1, 0)));
  TW_RETURN_IF_ERROR(made->custom_calls().add(twice_spec("test.twice_gradient", 3, 2)));
  session = made;
  return session;
}

}  // namespace

Result<std::vector<OwnedTensor>> run_in_session(const std::string& target, const Graph& graph,
                                                std::span<const TensorRef> inputs, const Bindings& bindings) {
  TW_ASSIGN_OR_RETURN(std::shared_ptr<Session> session, session_of(target));
  const TargetInfo& info = session->target().info();
  if (!info.is_runnable()) return Status::unimplemented(info.host_reason);
  TW_ASSIGN_OR_RETURN(std::shared_ptr<Executable> executable, compile(session, graph, {}));
  std::vector<TensorView> views;
  views.reserve(inputs.size());
  std::vector<const TensorView*> pointers;
  for (const TensorRef& input : inputs) {
    views.push_back({input.dtype, input.rank(), input.sizes.data(), input.strides.data(), input.data});
    pointers.push_back(&views.back());
  }
  const std::vector<const TensorView*> given(graph.outputs.size(), nullptr);
  std::vector<AskedTensor> asked(graph.outputs.size());
  // Only symbols that no input shows are given: the others are checked against the inputs.
  RunRequest request;
  request.inputs = pointers;
  request.given = given;
  request.asked = asked;
  request.symbols = &bindings;
  TW_RETURN_IF_ERROR(executable->run(request));
  std::vector<OwnedTensor> outputs;
  for (AskedTensor& tensor : asked) {
    auto block = std::make_shared<Block>(std::move(tensor.block));
    TensorRef ref{tensor.dtype, tensor.sizes, TensorRef::dense_strides(tensor.sizes), block->data()};
    outputs.push_back({std::move(ref), std::shared_ptr<void>(block, block->data())});
  }
  return outputs;
}

}  // namespace tilewright::text_tests
