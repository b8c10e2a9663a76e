// tw_executable: runs over borrowed tensors, frozen inputs, introspection.
#include "capi/handles.h"
#include "ir/reference/compare.h"

using namespace tilewright;
using capi::guarded;

namespace {

using capi::RunArguments;

Status read_tensors(const char* call, const char* what, const DLTensor* const* tensors, int64_t count,
                    const TargetInfo& target, std::vector<TensorView>* views,
                    std::vector<const TensorView*>* pointers) {
  for (int64_t at = 0; at < count; ++at) {
    const DLTensor* tensor = tensors ? tensors[at] : nullptr;
    pointers->push_back(nullptr);
    if (!tensor) continue;
    Result<TensorView> view = capi::read_view(*tensor, &target);
    if (!view.is_ok()) return Status::invalid(cat(call, ": ", what, " ", at, ": ", view.status().message()));
    views->push_back(*view);
    pointers->back() = &views->back();
  }
  return Status::ok();
}

Status read_options(const char* call, const tw_run_options* options, bool has_device,
                    RunArguments* arguments) {
  TW_RETURN_IF_ERROR(capi::read_struct(call, "tw_run_options", options, &arguments->options));
  const tw_run_options& given = arguments->options;
  TW_RETURN_IF_ERROR(capi::check_list(call, "symbol_names", given.symbol_names, given.symbol_count));
  TW_RETURN_IF_ERROR(capi::check_list(call, "symbol_values", given.symbol_values, given.symbol_count));
  TW_RETURN_IF_ERROR(capi::check_list(call, "donated", given.donated, given.donated_count));
  for (int64_t at = 0; at < given.symbol_count; ++at) {
    if (!given.symbol_names[at]) return Status::invalid(cat(call, ": symbol name ", at, " is null"));
    arguments->symbols[given.symbol_names[at]] = given.symbol_values[at];
  }
  if (given.asked_place < TW_PLACE_WITH_INPUTS || given.asked_place > TW_PLACE_DEVICE)
    return Status::invalid(cat(call, ": asked_place is ", given.asked_place, ", expected TW_PLACE_*"));
  if (given.asked_place == TW_PLACE_DEVICE && !has_device)
    return Status::invalid(cat(call, ": outputs are asked for on the device, but this target has none"));
  if (given.stream && !has_device)
    return Status::invalid(cat(call, ": a stream is given, but this target has none"));
  return Status::ok();
}

// The arguments that the executable kept, empty; they go back at the end.
class LeasedArguments {
 public:
  explicit LeasedArguments(tw_executable& executable)
      : executable_(executable), arguments_(executable.spare.exchange(nullptr)) {
    if (!arguments_) arguments_ = std::make_unique<RunArguments>();
    arguments_->views.clear();
    arguments_->inputs.clear();
    arguments_->given.clear();
    arguments_->symbols.clear();
  }
  ~LeasedArguments() { delete executable_.spare.exchange(arguments_.release()); }
  LeasedArguments(const LeasedArguments&) = delete;
  LeasedArguments& operator=(const LeasedArguments&) = delete;
  RunArguments& operator*() const { return *arguments_; }

 private:
  tw_executable& executable_;
  std::unique_ptr<RunArguments> arguments_;
};

Status run(const char* call, tw_executable& executable, const DLTensor* const* inputs, int64_t input_count,
           const DLTensor* const* given, DLManagedTensorVersioned** asked, int64_t output_count,
           const tw_run_options* options) {
  const LeasedArguments lease(executable);
  RunArguments& arguments = *lease;
  const Session& session = executable.executable->session();
  const TargetInfo& target = session.target().info();
  TW_RETURN_IF_ERROR(read_options(call, options, session.device() != nullptr, &arguments));
  arguments.views.reserve(static_cast<size_t>(input_count + output_count));
  TW_RETURN_IF_ERROR(
      read_tensors(call, "input", inputs, input_count, target, &arguments.views, &arguments.inputs));
  TW_RETURN_IF_ERROR(
      read_tensors(call, "output", given, output_count, target, &arguments.views, &arguments.given));
  std::vector<AskedTensor> made(asked ? static_cast<size_t>(output_count) : 0);
  RunRequest request;
  request.inputs = arguments.inputs;
  request.given = arguments.given;
  request.asked = made;
  request.symbols = &arguments.symbols;
  request.donated = {arguments.options.donated, static_cast<size_t>(arguments.options.donated_count)};
  request.stream = arguments.options.stream;
  request.asked_place = static_cast<AskedPlace>(arguments.options.asked_place);
  TW_RETURN_IF_ERROR(executable.executable->run(request));
  for (size_t output = 0; output < made.size(); ++output)
    if (!arguments.given[output]) asked[output] = capi::to_managed(std::move(made[output]), target);
  return Status::ok();
}

}  // namespace

extern "C" {

tw_executable* tw_executable_retain(tw_executable* executable) { return capi::retain(executable); }
void tw_executable_release(tw_executable* executable) { capi::release(executable); }

tw_status* tw_executable_graph(const tw_executable* executable, tw_graph** graph) {
  if (graph) *graph = nullptr;
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(executable);
    TW_REQUIRE(graph);
    auto made = std::make_unique<tw_graph>();
    made->graph = executable->executable->graph();
    *graph = made.release();
    return Status::ok();
  });
}

tw_status* tw_executable_report(const tw_executable* executable, tw_text** json) {
  if (json) *json = nullptr;
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(executable);
    TW_REQUIRE(json);
    *json = capi::make_text(executable->executable->report_json());
    return Status::ok();
  });
}

tw_status* tw_executable_dump(const tw_executable* executable, const char* stage, tw_text** text) {
  if (text) *text = nullptr;
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(executable);
    TW_REQUIRE(stage);
    TW_REQUIRE(text);
    TW_ASSIGN_OR_RETURN(std::string found, executable->executable->dump(stage));
    *text = capi::make_text(std::move(found));
    return Status::ok();
  });
}

tw_status* tw_executable_bind(tw_executable* executable, int64_t input, DLManagedTensorVersioned* tensor) {
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(executable);
    TW_REQUIRE(tensor);
    TW_RETURN_IF_ERROR(capi::check_managed(call, tensor));
    TW_ASSIGN_OR_RETURN(TensorView view, capi::to_view(call, tensor->dl_tensor,
                                                       &executable->executable->session().target().info()));
    if (input > INT32_MAX || input < 0) return Status::invalid(cat(call, ": input ", input));
    if (!view.data && view.elements() > 0) return Status::invalid(cat(call, ": tensor has no data"));
    // The tensor is the caller's again if binding fails.
    auto owner = std::make_shared<std::shared_ptr<const void>>();
    TW_RETURN_IF_ERROR(executable->executable->bind_frozen(static_cast<int>(input), view, owner));
    *owner = capi::take_managed(tensor);
    return Status::ok();
  });
}

tw_status* tw_run(tw_executable* executable, const DLTensor* const* inputs, int64_t input_count,
                  const DLTensor* const* given, DLManagedTensorVersioned** asked, int64_t output_count,
                  const tw_run_options* options) {
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(executable);
    TW_RETURN_IF_ERROR(capi::check_list(call, "inputs", inputs, input_count));
    if (output_count < 0) return Status::invalid(cat(call, ": output_count is ", output_count));
    for (int64_t output = 0; asked && output < output_count; ++output) asked[output] = nullptr;
    return run(call, *executable, inputs, input_count, given, asked, output_count, options);
  });
}

tw_status* tw_executable_output_sizes(const tw_executable* executable, const DLTensor* const* inputs,
                                      int64_t input_count, const tw_run_options* options, int64_t output,
                                      int64_t* sizes, int32_t capacity, int32_t* rank) {
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(executable);
    TW_RETURN_IF_ERROR(capi::check_list(call, "inputs", inputs, input_count));
    TW_RETURN_IF_ERROR(capi::check_list(call, "sizes", sizes, capacity));
    RunArguments arguments;
    const Session& session = executable->executable->session();
    TW_RETURN_IF_ERROR(read_options(call, options, session.device() != nullptr, &arguments));
    arguments.views.reserve(static_cast<size_t>(input_count));
    TW_RETURN_IF_ERROR(read_tensors(call, "input", inputs, input_count, session.target().info(),
                                    &arguments.views, &arguments.inputs));
    TW_ASSIGN_OR_RETURN(auto found,
                        executable->executable->output_sizes(arguments.inputs, arguments.symbols));
    if (output < 0 || output >= static_cast<int64_t>(found.size()))
      return Status::invalid(cat(call, ": output ", output, " of ", found.size()));
    const std::vector<int64_t>& wanted = found[static_cast<size_t>(output)];
    for (size_t dim = 0; dim < std::min<size_t>(wanted.size(), static_cast<size_t>(capacity)); ++dim)
      sizes[dim] = wanted[dim];
    if (rank) *rank = static_cast<int32_t>(wanted.size());
    return Status::ok();
  });
}

tw_status* tw_graph_compare(const tw_graph* graph, const DLTensor* const* inputs, int64_t input_count,
                            const DLTensor* const* found, const DLTensor* const* expected,
                            int64_t output_count, const tw_run_options* options, tw_text** difference) {
  if (difference) *difference = nullptr;
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(graph);
    TW_REQUIRE(difference);
    if (output_count != static_cast<int64_t>(graph->graph.outputs.size()))
      return Status::invalid(
          cat(call, ": ", output_count, " outputs, expected ", graph->graph.outputs.size()));
    TW_RETURN_IF_ERROR(capi::check_list(call, "inputs", inputs, input_count));
    TW_RETURN_IF_ERROR(capi::check_list(call, "found", found, output_count));
    TW_RETURN_IF_ERROR(capi::check_list(call, "expected", expected, output_count));
    RunArguments arguments;
    TW_RETURN_IF_ERROR(read_options(call, options, true, &arguments));
    std::vector<TensorRef> refs[3];
    const std::pair<const DLTensor* const*, int64_t> lists[] = {
        {inputs, input_count}, {found, output_count}, {expected, output_count}};
    for (size_t list = 0; list < 3; ++list) {
      for (int64_t i = 0; i < lists[list].second; ++i) {
        if (!lists[list].first[i]) return Status::invalid(cat(call, ": tensor ", i, " is NULL"));
        TW_ASSIGN_OR_RETURN(TensorView view, capi::to_view(call, *lists[list].first[i]));
        if (!view.data && view.elements() > 0)
          return Status::invalid(cat(call, ": tensor ", i, " has no data"));
        if (list > 0 && !view.is_row_major())
          return Status::invalid(cat(call, ": tensors are expected to be row-major without gaps"));
        refs[list].push_back(view.ref());
      }
    }
    Comparison comparison(graph->graph, refs[0], arguments.symbols);
    std::string text;
    for (size_t output = 0; output < refs[1].size() && text.empty(); ++output) {
      text = comparison.difference(output, refs[1][output], refs[2][output]);
      if (!text.empty()) text = cat("output ", output, text.starts_with("[") ? "" : ": ", text);
    }
    *difference = capi::make_text(text);
    return Status::ok();
  });
}

}  // extern "C"
