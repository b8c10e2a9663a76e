// Benchmarks on a device.
//
// bench_gpu [--target T] [--assembly FOLDER] [--small] [word]: cases whose name has the word; one JSON line a
// case.
#include <cstdio>
#include <string_view>

#include "bench/gpu/gemm.h"

int main(int count, char** arguments) {
  using namespace tilewright;
  bench::GemmOptions options;
  std::string target = "nvptx";
  for (int i = 1; i < count; ++i) {
    std::string_view word = arguments[i];
    if (word == "--target" && i + 1 < count) {
      target = arguments[++i];
    } else if (word == "--assembly" && i + 1 < count) {
      options.assembly = arguments[++i];
    } else if (word == "--small") {
      options.small = true;
    } else {
      options.word = word;
    }
  }
  Result<std::shared_ptr<Target>> made = create_target(target);
  if (!made.is_ok()) {
    std::printf("SKIP %s\n", made.status().to_string().c_str());
    return 0;
  }
  options.target = *made;
  if (options.assembly.empty() && !options.target->info().is_runnable()) {
    std::printf("SKIP %s\n", options.target->info().host_reason.c_str());
    return 0;
  }
  Status done = bench::run_gemm(options);
  if (!done.is_ok()) std::printf("%s\n", done.to_string().c_str());
  return done.is_ok() ? 0 : 1;
}
