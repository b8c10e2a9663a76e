// `tilewright env | targets | version | doctor`: what this build and this machine are.
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "tools/tilewright/commands.h"

namespace command {
namespace {

using Json = nlohmann::json;

const char* origin_word(int32_t origin) {
  switch (origin) {
    case TW_ORIGIN_ENVIRONMENT: return "env";
    case TW_ORIGIN_API: return "api";
    default: return "default";
  }
}

Json describe_target(const char* spelling) {
  tw_text* text;
  tw::check(tw_target_describe(spelling, &text));
  return Json::parse(tw::take(text));
}

Json versions() {
  int32_t major, minor;
  tw_api_version(&major, &minor);
  return {{"version", tw_version()},
          {"build_id", tw_build_id()},
          {"api", std::to_string(major) + "." + std::to_string(minor)}};
}

struct Check {
  std::string name, finding;
  bool good;
};

// Compiles and runs a small graph: code memory, the emitter and the launcher in one.
Check try_compiled_code(const tw::Session& session) {
  try {
    const tw::Graph graph = tw::Graph::parse(
        "graph @doctor(%x: f32[100]) -> (f32[100]) {\n  %0 = exponential %x : f32[100]\n  return %0\n}\n");
    const tw::Executable executable = session.compile(graph, {{"fallback", "error"}});
    const tw::Tensor x(tw::f32, {100});
    const std::vector<tw::Tensor> y = executable({&x});
    const bool right = y[0].data<float>()[99] == 1.0f;
    return {"compiled code", right ? "compiles, loads and runs" : "runs, but exp(0) is not 1", right};
  } catch (const tw::Error& error) {
    return {"compiled code", error.what(), false};
  }
}

Check check_cache(const tw::Session& session) {
  tw_text *directory, *reason;
  tw::check(tw_session_cache_directory(session.get(), &directory, &reason));
  const std::string where = tw::take(directory), why = tw::take(reason);
  if (where.empty()) return {"cache", "nothing is kept on disk: " + why, session.option("cache") == "off"};
  std::error_code error;
  const auto space = std::filesystem::space(where, error);
  std::string finding = where;
  if (!error) finding += ", " + std::to_string(space.available >> 20) + " MB free";
  if (!why.empty()) finding += "; " + why;
  return {"cache", finding, why.empty()};
}

}  // namespace

int environment(const Common& request) {
  tw_options* raw;
  tw::check(tw_options_create(&raw));
  const std::unique_ptr<tw_options, void (*)(tw_options*)> options(raw, tw_options_release);
  for (const std::string& word : request.options) {
    const auto [name, value] = split_assignment(word, "--option");
    tw::check(tw_options_set(raw, name.c_str(), value.c_str()));
  }
  Json all = Json::array();
  for (int64_t index = 0; index < tw_option_count(); ++index) {
    tw_option_info info = {};
    info.struct_size = sizeof info;
    tw::check(tw_option_describe(index, &info));
    const char* value;
    int32_t origin;
    tw::check(tw_options_get(raw, info.name, &value, &origin));
    all.push_back({{"name", info.name},
                   {"variable", info.variable},
                   {"value", value},
                   {"origin", origin_word(origin)},
                   {"default", info.default_value},
                   {"values", info.values},
                   {"kind", info.kind},
                   {"effective", info.is_effective != 0},
                   {"help", info.help}});
    std::printf("%-28s %-16s %-8s %s%s%s%s\n", info.variable, *value ? value : "(empty)", origin_word(origin),
                info.help, *info.values ? " [" : "", info.values, *info.values ? "]" : "");
    if (!info.is_effective) std::printf("%-28s has no effect yet\n", "");
  }
  std::fflush(stdout);
  if (request.json) std::cout << Json{{"options", all}}.dump() << "\n";
  return Success;
}

int describe_op(const OpRequest& request) {
  check_op_name("op", request.name);
  tw_text* text;
  tw::check(tw_op_describe(tw::Graph::find(request.name.c_str()), &text));
  const Json op = Json::parse(tw::take(text));
  std::string operands, results;
  for (const Json& operand : op["operands"]) {
    operands += (operands.empty() ? "" : ", ") + operand["name"].get<std::string>();
    if (operand["variadic"]) operands += "..";
    if (operand["optional"]) operands += " (may be absent: _)";
  }
  for (const Json& result : op["results"])
    results +=
        (results.empty() ? "" : ", ") + result["name"].get<std::string>() + (result["variadic"] ? ".." : "");
  std::printf("%s (id %d, %s%s): %s\n", request.name.c_str(), op["id"].get<int>(),
              op["composite"] ? "composite, " : "", op["kind"].get<std::string>().c_str(),
              op["meaning"].get<std::string>().c_str());
  std::printf("  operands    %s\n  results     %s\n", operands.c_str(), results.c_str());
  for (const Json& operand : op["operands"]) {
    std::string dtypes;
    for (const Json& dtype : operand["dtypes"]) dtypes += " " + dtype.get<std::string>();
    std::printf("  %-11s%s\n", operand["name"].get<std::string>().c_str(), dtypes.c_str());
  }
  std::printf("  attributes  %s\n  gradient    %s\n", op["attributes"].get<std::string>().c_str(),
              op["gradient"].get<std::string>().c_str());
  std::fflush(stdout);
  if (request.json) std::cout << op.dump() << "\n";
  return Success;
}

int targets(const Common& request) {
  const Json list = Json::parse(tw::targets());
  for (const Json& target : list) {
    const std::string reason = target["host_reason"];
    std::printf("%-14s %-8s %s%s%s\n", target["spelling"].get<std::string>().c_str(),
                target["family"].get<std::string>().c_str(), target["summary"].get<std::string>().c_str(),
                reason.empty() ? "" : "; does not run here: ", reason.c_str());
  }
  const Json native = describe_target("native");
  std::printf("native is %s: %s\n", native["name"].get<std::string>().c_str(),
              native["description"].get<std::string>().c_str());
  std::fflush(stdout);
  if (request.json) std::cout << Json{{"targets", list}, {"native", native}}.dump() << "\n";
  return Success;
}

int version(const Common& request) {
  const Json found = versions();
  std::cout << "tilewright " << found["version"].get<std::string>() << ", API "
            << found["api"].get<std::string>() << ", build " << found["build_id"].get<std::string>() << "\n";
  if (request.json) std::cout << found.dump() << "\n";
  return Success;
}

int doctor(const Common& request) {
  std::vector<Check> checks;
  const Json found = versions();
  checks.push_back({"library",
                    found["version"].get<std::string>() + ", build " + found["build_id"].get<std::string>(),
                    !found["build_id"].get<std::string>().empty()});
  try {
    const tw::Session session = make_session(request);
    const Json report = Json::parse(session.report());
    const Json target = describe_target(session.option("target").c_str());
    const std::string reason = target["host_reason"];
    checks.push_back({"target",
                      target["name"].get<std::string>() + ": " + target["description"].get<std::string>() +
                          (reason.empty() ? "" : "; does not run here: " + reason),
                      reason.empty()});
    checks.push_back({"instructions", target["isa"].get<std::string>(), true});
    checks.push_back({"threads",
                      report["threads"].dump() + " of " +
                          std::to_string(std::thread::hardware_concurrency()) +
                          " CPUs (affinity, quota and TILEWRIGHT_THREADS)",
                      true});
    checks.push_back(try_compiled_code(session));
    checks.push_back(check_cache(session));
  } catch (const tw::Error& error) {
    checks.push_back({"session", error.what(), false});
  }
  Json list = Json::array();
  bool good = true;
  for (const Check& check : checks) {
    std::printf("%-4s %-14s %s\n", check.good ? "ok" : "BAD", check.name.c_str(), check.finding.c_str());
    list.push_back({{"check", check.name}, {"finding", check.finding}, {"good", check.good}});
    good = good && check.good;
  }
  std::fflush(stdout);
  if (request.json) std::cout << Json{{"good", good}, {"checks", list}}.dump() << "\n";
  return good ? Success : Failures;
}

}  // namespace command
