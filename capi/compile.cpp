// tw_compile and tw_compile_job: a graph becomes an executable, at once or beside the caller.
#include "capi/handles.h"

using namespace tilewright;
using capi::guarded;

namespace {

Result<CompileRequest> to_request(const char* call, const tw_compile_options* options) {
  tw_compile_options given;
  TW_RETURN_IF_ERROR(capi::read_struct(call, "tw_compile_options", options, &given));
  TW_RETURN_IF_ERROR(capi::check_list(call, "option_names", given.option_names, given.option_count));
  TW_RETURN_IF_ERROR(capi::check_list(call, "option_values", given.option_values, given.option_count));
  CompileRequest request;
  if (given.timeout_seconds < 0)
    return Status::invalid(cat(call, ": timeout of ", given.timeout_seconds, " s"));
  request.timeout_seconds = given.timeout_seconds;
  for (int64_t at = 0; at < given.option_count; ++at) {
    if (!given.option_names[at] || !given.option_values[at])
      return Status::invalid(cat(call, ": option ", at, " has no name or no value"));
    request.options.emplace_back(given.option_names[at], given.option_values[at]);
  }
  TW_RETURN_IF_ERROR(capi::check_list(call, "stages", given.stages, given.stage_count));
  for (int64_t at = 0; at < given.stage_count; ++at) {
    if (!given.stages[at]) return Status::invalid(cat(call, ": stage ", at, " is null"));
    request.stages.push_back(given.stages[at]);
  }
  return request;
}

tw_executable* to_handle(std::shared_ptr<Executable> executable) {
  auto handle = std::make_unique<tw_executable>();
  handle->executable = std::move(executable);
  return handle.release();
}

}  // namespace

extern "C" {

tw_status* tw_compile(tw_session* session, const tw_graph* graph, const tw_compile_options* options,
                      tw_executable** executable) {
  if (executable) *executable = nullptr;
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(session);
    TW_REQUIRE(graph);
    TW_REQUIRE(executable);
    TW_ASSIGN_OR_RETURN(CompileRequest request, to_request(call, options));
    TW_ASSIGN_OR_RETURN(auto made, compile(session->session, graph->graph, std::move(request)));
    *executable = to_handle(std::move(made));
    return Status::ok();
  });
}

tw_status* tw_compile_start(tw_session* session, const tw_graph* graph, const tw_compile_options* options,
                            tw_compile_job** job) {
  if (job) *job = nullptr;
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(session);
    TW_REQUIRE(graph);
    TW_REQUIRE(job);
    TW_ASSIGN_OR_RETURN(CompileRequest request, to_request(call, options));
    auto handle = std::make_unique<tw_compile_job>();
    TW_ASSIGN_OR_RETURN(handle->job, CompileJob::start(session->session, graph->graph, std::move(request)));
    *job = handle.release();
    return Status::ok();
  });
}

tw_status* tw_compile_wait(tw_compile_job* job, double seconds, tw_executable** executable) {
  if (executable) *executable = nullptr;
  return guarded(__func__, [&](const char* call) -> Status {
    TW_REQUIRE(job);
    TW_REQUIRE(executable);
    TW_ASSIGN_OR_RETURN(auto made, job->job->wait(seconds));
    *executable = to_handle(std::move(made));
    return Status::ok();
  });
}

void tw_compile_cancel(tw_compile_job* job) {
  if (job) job->job->cancel();
}

void tw_compile_job_release(tw_compile_job* job) { capi::release(job); }

}  // extern "C"
