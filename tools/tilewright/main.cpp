// The command `tilewright`: options of each command, and exit codes.
#include <CLI/CLI.hpp>
#include <iostream>

#include "tools/tilewright/commands.h"

namespace {

void add_common(CLI::App* app, command::Common& common) {
  app->add_flag("--json", common.json, "the last line of standard output is one JSON object");
  app->add_option("--option,-o", common.options,
                  "session option name=value (see `tilewright env`); may be repeated")
      ->allow_extra_args(false);
}

// Short forms of the session options that these commands are most often run with.
void add_target(CLI::App* app, command::Common& common) {
  app->add_option_function<std::string>(
      "--target", [&common](const std::string& word) { common.shorthands.push_back("target=" + word); },
      "short for --option target=..., see `tilewright targets`");
}

void add_mode(CLI::App* app, command::Common& common) {
  app->add_option_function<std::string>(
         "--mode", [&common](const std::string& word) { common.shorthands.push_back("mode=" + word); },
         "short for --option mode=...: eager runs reference kernels only")
      ->check(CLI::IsMember({"sync", "async", "eager"}));
}

void add_graph(CLI::App* app, command::GraphChoice& choice) {
  app->add_option("file", choice.file, "graph text file, - for standard input")->required();
  app->add_option("--graph", choice.graph, "name of the graph, if the file has several; else the last");
  app->add_flag("--gradient", choice.gradient, "take the joint gradient graph of it");
}

// Prints the failure and, for --json, an object with it.
int fail(const std::string& message, int code, bool json) {
  std::cerr << "tilewright: " << message << "\n";
  if (json) {
    std::string escaped;
    for (char c : message) {
      if (c == '"' || c == '\\') escaped += '\\';
      if (static_cast<unsigned char>(c) < 0x20)
        escaped += c == '\n' ? "\\n" : " ";
      else
        escaped += c;
    }
    std::cout << "{\"error\":\"" << escaped << "\",\"exit_code\":" << code << "}\n";
  }
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("compiles tensor graphs for this machine, runs them, and says what it did", "tilewright");
  app.require_subcommand(1);
  app.footer(
      "Exit codes: 0 success, 1 the command found failures, 2 wrong usage, 3 an input cannot be read.");
  int code = 0;
  bool json = false;
  std::function<int()> chosen;
  const auto choose = [&](CLI::App* sub, auto& request, auto function) {
    add_common(sub, request);
    sub->callback([&chosen, &json, &request, function] {
      json = request.json;
      chosen = [&request, function] { return function(request); };
    });
  };

  command::RunRequest run;
  CLI::App* run_app = app.add_subcommand("run", "run a graph on .npy files or random inputs");
  add_graph(run_app, run.choice);
  run_app->add_option("--input,-i", run.inputs, "name=FILE.npy; may be repeated")->allow_extra_args(false);
  run_app->add_option("--random", run.seed, "draw inputs without a file from this seed")
      ->each([&](const std::string&) { run.random = true; });
  run_app->add_option("--symbol,-s", run.symbols, "name=value of a symbolic size; may be repeated")
      ->allow_extra_args(false);
  run_app->add_option("--output-dir", run.output_dir, "write every output there as name.npy");
  run_app->add_option("--repeat", run.repeat, "run this many times, for timing")
      ->check(CLI::Range(1, 1000000000));
  run_app->add_flag("--profile", run.profile, "show time, bytes and flops of each kernel");
  run_app->add_flag("--compare", run.compare,
                    "run on reference kernels too and compare within the declared tolerance");
  add_target(run_app, run);
  add_mode(run_app, run);
  choose(run_app, run, command::run);

  command::ExplainRequest explain;
  CLI::App* explain_app =
      app.add_subcommand("explain", "say what is fused into which kernel, and what is not compiled and why");
  add_graph(explain_app, explain.choice);
  add_target(explain_app, explain);
  choose(explain_app, explain, command::explain);

  command::DumpRequest dump;
  CLI::App* dump_app = app.add_subcommand("dump", "print a stage of a graph's compilation");
  add_graph(dump_app, dump.choice);
  dump_app
      ->add_option("--stage", dump.stage,
                   "graph, gradient, expanded, kernels, tile, llvm, asm or after:<pass>")
      ->capture_default_str();
  add_target(dump_app, dump);
  choose(dump_app, dump, command::dump);

  command::VerifyRequest verify;
  CLI::App* verify_app =
      app.add_subcommand("verify", "compare compiled code with the reference kernels, forward and backward");
  verify_app->add_option("files", verify.files, "verify the graphs of these text files instead of ops");
  add_target(verify_app, verify);
  verify_app->add_flag("--all", verify.all, "every op");
  verify_app->add_option("--op", verify.ops, "this op; may be repeated")->allow_extra_args(false);
  verify_app->add_option("--dtype", verify.dtypes, "only this element type; may be repeated")
      ->allow_extra_args(false);
  verify_app->add_flag("--quick", verify.quick, "fewer element types and shapes");
  verify_app->add_flag("--list", verify.list, "print the cases instead of running them");
  verify_app->add_option("--seed", verify.seed, "of the inputs")->capture_default_str();
  verify_app->add_option("--max-failures", verify.max_failures, "how many failures are shown")
      ->capture_default_str();
  choose(verify_app, verify, command::verify);

  command::OpRequest op;
  CLI::App* op_app = app.add_subcommand("op", "operands, types, attributes and meaning of an op");
  op_app->add_option("name", op.name, "as in docs/ops.md")->required();
  choose(op_app, op, command::describe_op);

  command::Common environment, targets, version, doctor;
  choose(
      app.add_subcommand("env", "options and variables with their effective values and where they come from"),
      environment, command::environment);
  choose(app.add_subcommand("targets", "chips that this build can serve"), targets, command::targets);
  choose(app.add_subcommand("version", "version, API version, build id"), version, command::version);
  choose(app.add_subcommand("doctor", "check what compiled code needs on this machine"), doctor,
         command::doctor);

  // The parser would only say that one is missing.
  if (argc > 1 && argv[1][0] != '-') {
    std::string names;
    bool known = false;
    for (const CLI::App* sub : app.get_subcommands([](CLI::App*) { return true; })) {
      names += (names.empty() ? "" : ", ") + sub->get_name();
      known = known || sub->get_name() == argv[1];
    }
    if (!known)
      return fail(std::string("no command ") + argv[1] + ", expected one of: " + names, command::Usage,
                  false);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int parsed = app.exit(error);
    return parsed == 0 ? command::Success : command::Usage;
  }
  try {
    code = chosen();
  } catch (const command::UsageError& error) {
    code = fail(error.what(), command::Usage, json);
  } catch (const command::InputError& error) {
    code = fail(error.what(), command::BadInput, json);
  } catch (const std::exception& error) {
    code = fail(error.what(), command::Failures, json);
  }
  return code;
}
