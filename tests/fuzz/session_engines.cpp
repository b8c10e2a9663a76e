// Compiles and runs graphs as a host would, with a disk cache between two sessions.
#include "tests/fuzz/session_engines.h"

#include <stdlib.h>

#include <algorithm>
#include <filesystem>

#include "base/text.h"
#include "runtime/compile.h"

namespace tilewright::fuzz {

namespace {

using Outputs = SessionEngines::Outputs;

TensorView view_of(const TensorRef& ref) {
  return {ref.dtype, ref.rank(), ref.sizes.data(), ref.strides.data(), ref.data};
}

Result<Outputs> run(Executable& executable, std::span<const TensorRef> inputs, const Bindings& bindings) {
  std::vector<TensorView> views;
  for (const TensorRef& input : inputs) views.push_back(view_of(input));
  std::vector<const TensorView*> pointers, given(executable.graph().outputs.size(), nullptr);
  for (const TensorView& view : views) pointers.push_back(&view);
  std::vector<AskedTensor> asked(given.size());
  RunRequest request{pointers, given, asked, &bindings, {}};
  TW_RETURN_IF_ERROR(executable.run(request));
  Outputs outputs;
  for (AskedTensor& tensor : asked) {
    auto block = std::make_shared<Block>(std::move(tensor.block));
    outputs.push_back({{tensor.dtype, tensor.sizes, TensorRef::dense_strides(tensor.sizes), block->data()},
                       std::shared_ptr<void>(block, block->data())});
  }
  return outputs;
}

void twice(const float* x, float* y, int64_t count) {
  for (int64_t i = 0; i < count; ++i) y[i] = 2 * x[i];
}

// The custom call that random graphs have.
Status add_custom_call(Session& session) {
  CustomCallSpec spec;
  spec.name = "test.twice";
  spec.function = reinterpret_cast<void (*)()>(twice);
  CustomArgument elements;
  elements.kind = ArgumentKind::Elements;
  CustomArgument y;
  y.tensor = 1;
  spec.arguments = {CustomArgument{}, y, elements};
  spec.operand_count = spec.result_count = 1;
  return session.custom_calls().add(std::move(spec));
}

Result<std::shared_ptr<Session>> make_session(const std::string& directory) {
  Flags flags;
  const std::pair<const char*, std::string> settings[] = {{"cache", "rw"},      {"cache_dir", directory},
                                                          {"threads", "1"},     {"compile_threads", "1"},
                                                          {"target", "native"}, {"verify_ir", "2"}};
  for (const auto& [name, value] : settings) TW_RETURN_IF_ERROR(flags.set(name, value));
  TW_ASSIGN_OR_RETURN(std::shared_ptr<Session> session, Session::create(std::move(flags)));
  TW_RETURN_IF_ERROR(add_custom_call(*session));
  return session;
}

// A kernel that did not compile is run by the tile interpreter and would hide behind it.
Status judge(const Executable& executable) {
  for (const Fallback& fallback : executable.program().fallbacks)
    if (fallback.reason == FallbackReason::CompileFailed) return Status::internal(fallback.sentence);
  return Status::ok();
}

}  // namespace

Result<std::unique_ptr<SessionEngines>> SessionEngines::open() {
  std::unique_ptr<SessionEngines> made(new SessionEngines);
  // Memory, where there is a file system of it: every object is flushed to its disk.
  std::error_code error;
  const bool has_memory = std::filesystem::is_directory("/dev/shm", error);
  std::string pattern =
      cat(has_memory ? std::string("/dev/shm") : std::filesystem::temp_directory_path().string(),
          "/tilewright_fuzz_XXXXXX");
  if (!mkdtemp(pattern.data())) return Status::runtime(cat("cannot make ", pattern));
  made->directory_ = pattern;
  TW_ASSIGN_OR_RETURN(made->fresh_, make_session(pattern));
  TW_ASSIGN_OR_RETURN(made->cached_, make_session(pattern));
  return made;
}

SessionEngines::~SessionEngines() {
  fresh_.reset();
  cached_.reset();
  std::error_code ignored;
  if (!directory_.empty()) std::filesystem::remove_all(directory_, ignored);
}

Result<Outputs> SessionEngines::run_fresh(const Graph& graph, std::span<const TensorRef> inputs,
                                          const Bindings& bindings) {
  TW_ASSIGN_OR_RETURN(std::shared_ptr<Executable> executable, compile(fresh_, graph, {}));
  TW_RETURN_IF_ERROR(judge(*executable));
  return run(*executable, inputs, bindings);
}

Result<Outputs> SessionEngines::run_cached(const Graph& graph, std::span<const TensorRef> inputs,
                                           const Bindings& bindings) {
  SessionCounters& counters = cached_->counters();
  const int64_t before = counters.kernel_misses + counters.graph_misses;
  TW_ASSIGN_OR_RETURN(std::shared_ptr<Executable> executable, compile(cached_, graph, {}));
  const int64_t compiled = counters.kernel_misses + counters.graph_misses - before;
  if (compiled > 0) return Status::internal("the cache did not hold what was compiled before");
  return run(*executable, inputs, bindings);
}

}  // namespace tilewright::fuzz
