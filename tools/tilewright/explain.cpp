// `tilewright explain` and `tilewright dump`: what became of a graph.
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "tools/tilewright/commands.h"

namespace command {
namespace {

using Json = nlohmann::json;

std::string in_units(double value, const char* unit) {
  const char* prefixes[] = {"", "k", "M", "G", "T", "P"};
  int step = 0;
  while (value >= 1000 && step < 5) {
    value /= 1000;
    ++step;
  }
  char text[64];
  std::snprintf(text, sizeof text, "%.3g %s%s", value, prefixes[step], unit);
  return text;
}

std::string list_text(const Json& list, size_t most) {
  std::string text;
  for (size_t at = 0; at < list.size() && at < most; ++at)
    text += (at ? ", " : "") + list[at].get<std::string>();
  if (list.size() > most) text += ", and " + std::to_string(list.size() - most) + " more";
  return text;
}

void print_report(const Json& report) {
  std::cout << "graph @" << report["graph"].get<std::string>() << ": " << report["nodes"] << " nodes for "
            << report["target"].get<std::string>() << ", mode " << report["mode"].get<std::string>()
            << ", precision " << report["precision"].get<std::string>() << "\n";
  std::cout << "launches:";
  for (const auto& [kind, count] : report["launches"].items())
    if (count != 0) std::cout << " " << count << " " << kind;
  std::cout << "\n";
  size_t number = 0;
  for (const Json& kernel : report["kernels"]) {
    std::cout << "\nkernel " << number++ << " @" << kernel["name"].get<std::string>() << ": "
              << kernel["description"].get<std::string>() << "\n";
    if (!kernel["nodes"].empty()) std::cout << "  fuses    " << list_text(kernel["nodes"], 40) << "\n";
    std::cout << "  gives    " << list_text(kernel["outputs"], 20) << "\n";
    std::cout << "  cost     " << in_units(kernel["flops"], "flop") << ", " << in_units(kernel["bytes"], "B")
              << " moved; " << kernel["origin"].get<std::string>() << " in "
              << in_units(1e3 * kernel["compile_seconds"].get<double>(), "ms") << ", "
              << in_units(kernel["code_bytes"], "B") << " of code\n";
  }
  std::cout << "\n" << report["fallback_count"] << " nodes are not compiled\n";
  for (const Json& fallback : report["fallbacks"])
    std::cout << "  " << fallback["node"].get<std::string>() << " [" << fallback["reason"].get<std::string>()
              << "]: " << fallback["sentence"].get<std::string>() << "\n";
  const Json& seconds = report["seconds"];
  std::printf("planned in %.3f s, emitted in %.3f s, compiled in %.3f s, loaded in %.3f s, all in %.3f s\n",
              seconds["plan"].get<double>(), seconds["emit"].get<double>(), seconds["compile"].get<double>(),
              seconds["load"].get<double>(), seconds["total"].get<double>());
}

tw::Executable compile_with_stages(const tw::Session& session, const tw::Graph& graph,
                                   std::vector<const char*> stages) {
  tw_compile_options options = {};
  options.struct_size = sizeof options;
  options.stages = stages.data();
  options.stage_count = static_cast<int64_t>(stages.size());
  tw_executable* executable;
  tw::check(tw_compile(session.get(), graph.get(), &options, &executable));
  return tw::Executable(executable);
}

}  // namespace

int explain(const ExplainRequest& request) {
  const tw::Graph graph = choose_graph(request.choice);
  const tw::Session session = make_session(request);
  const Json report = Json::parse(session.compile(graph).report());
  print_report(report);
  std::fflush(stdout);
  if (request.json) std::cout << report.dump() << "\n";
  return Success;
}

int dump(const DumpRequest& request) {
  if (request.choice.gradient && request.stage == "gradient")
    throw UsageError("dump: --gradient and --stage gradient would differentiate twice; give one of them");
  const tw::Graph graph = choose_graph(request.choice);
  std::string text;
  if (request.stage == "graph") {
    text = graph.text();
  } else if (request.stage == "gradient") {
    text = graph.gradient_joint().text();
  } else if (request.stage == "expanded") {
    text = graph.expand().text();
  } else {
    const tw::Session session = make_session(request);
    text = compile_with_stages(session, graph, {request.stage.c_str()}).dump(request.stage.c_str());
  }
  std::cout << text;
  if (text.empty() || text.back() != '\n') std::cout << "\n";
  if (request.json) std::cout << Json{{"stage", request.stage}, {"text", text}}.dump() << "\n";
  return Success;
}

}  // namespace command
