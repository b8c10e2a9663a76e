// The commands and what they are asked for.
#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tilewright/tilewright.hpp"

namespace command {

enum ExitCode { Success = 0, Failures = 1, Usage = 2, BadInput = 3 };

// A file or option of the user that cannot be used.
struct InputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// What several commands share.
struct Common {
  bool json = false;
  std::vector<std::string> options;  // name=value, for the session
  // The same from --target and --mode: apart, since the parser overwrites `options` with all of --option.
  std::vector<std::string> shorthands;
};

// A graph of a text file and how it is to be treated.
struct GraphChoice {
  std::string file;       // "-" is standard input
  std::string graph;      // name; empty: the last of the file
  bool gradient = false;  // the joint gradient of it
};

struct RunRequest : Common {
  GraphChoice choice;
  std::vector<std::string> inputs;   // name=file.npy
  std::vector<std::string> symbols;  // name=value
  uint64_t seed = 0;
  bool random = false;
  bool compare = false;  // also run on reference kernels and compare
  bool profile = false;  // show the time of each kernel
  int repeat = 1;
  std::string output_dir;
};
int run(const RunRequest& request);

struct ExplainRequest : Common {
  GraphChoice choice;
};
int explain(const ExplainRequest& request);

struct DumpRequest : Common {
  GraphChoice choice;
  std::string stage = "kernels";
};
int dump(const DumpRequest& request);

struct VerifyRequest : Common {
  bool all = false;
  bool list = false;
  bool quick = false;               // fewer dtypes and variants
  std::vector<std::string> ops;     // names
  std::vector<std::string> dtypes;  // empty: all
  std::vector<std::string> files;   // graph text files instead of the op table
  uint64_t seed = 1;
  int max_failures = 20;  // shown
};
int verify(const VerifyRequest& request);

struct OpRequest : Common {
  std::string name;
};
int describe_op(const OpRequest& request);

int environment(const Common& request);
int targets(const Common& request);
int version(const Common& request);
int doctor(const Common& request);

// ---- shared by the commands ----

std::string read_file(const std::string& path);
// The graphs of a text; InputError with the parser's message.
std::vector<tw::Graph> parse_graphs(const std::string& text, const std::string& where);
tw::Graph choose_graph(const GraphChoice& choice);
// The environment's options, overridden by name=value words.
tw::Session make_session(const Common& request, const tw::OptionList& more = {});
// UsageError with the nearest name when there is no such op.
void check_op_name(const char* command, const std::string& name);
std::pair<std::string, std::string> split_assignment(const std::string& word, const char* option);

}  // namespace command
