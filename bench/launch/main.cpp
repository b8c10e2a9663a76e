// What a call costs beside the work of its kernels: time and allocations of tw_run on tiny tensors; one JSON
// line a case.
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tilewright/tilewright.hpp"

// Allocations are counted by standing in front of the C library's.
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
}
namespace {
std::atomic<long> allocations{0};
}
extern "C" {
void* malloc(size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_realloc(memory, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_memalign(alignment, bytes);
}
}

namespace {

using Clock = std::chrono::steady_clock;

struct Case {
  std::string name;
  std::string text;
  bool asked = false;  // outputs are asked for, not given
  bool symbols = false;
};

std::string one_kernel(const char* size) {
  const std::string symbols = std::strcmp(size, "N") == 0 ? "[N in 1..64 hint 8]" : "";
  const std::string type = std::string("f32[") + size + "]";
  return "graph @one" + symbols + "(%x: " + type + ", %y: " + type + ") -> (" + type +
         ") {\n  %z = add %x, %y : " + type + "\n  return %z\n}\n";
}

// Products never fuse with each other: one kernel each.
std::string chain(int kernels) {
  std::string text = "graph @chain(%x: f32[2,2], %w: f32[2,2]) -> (f32[2,2]) {\n";
  std::string last = "%x";
  for (int i = 0; i < kernels; ++i) {
    const std::string next = "%n" + std::to_string(i);
    text += "  " + next + " = dot_general " + last + ", %w {lhs_contract=[1], rhs_contract=[0]} : f32[2,2]\n";
    last = next;
  }
  return text + "  return " + last + "\n}\n";
}

// As many tensors as a step of an optimizer has.
std::string many_tensors(int count) {
  std::string head, body, results, types;
  for (int i = 0; i < count; ++i) {
    const std::string n = std::to_string(i), comma = i ? ", " : "";
    head += comma + "%p" + n + ": f32[4], %g" + n + ": f32[4]";
    types += comma + "f32[4]";
    body += "  %q" + n + " = subtract %p" + n + ", %g" + n + " : f32[4]\n";
    results += comma + "%q" + n;
  }
  return "graph @many(" + head + ") -> (" + types + ") {\n" + body + "  return " + results + "\n}\n";
}

struct Result {
  double seconds = 0;
  double allocations = 0;
  long kernels = 0;
};

long launches_of(const tw::Executable& executable) {
  const std::string report = executable.report();
  const size_t at = report.find("\"launches\":{\"kernel\":");
  return at == std::string::npos ? 0 : std::atol(report.c_str() + at + 21);
}

class Calls {
 public:
  Calls(tw::Session& session, const Case& c)
      : case_(c), executable_(session.compile(tw::Graph::parse(c.text))) {
    const tw::Graph graph = executable_.graph();
    for (int64_t i = 0; i < graph.input_count(); ++i) tensors_.emplace_back(tw::f32, sizes_for(c));
    for (int64_t i = 0; i < graph.output_count(); ++i) results_.emplace_back(tw::f32, sizes_for(c));
    for (tw::Tensor& each : tensors_) inputs_.push_back(each.get());
    for (tw::Tensor& each : results_) given_.push_back(each.get());
    asked_.resize(results_.size());
  }

  void once() {
    const DLTensor* const* given = case_.asked ? nullptr : given_.data();
    DLManagedTensorVersioned** asked = case_.asked ? asked_.data() : nullptr;
    tw_status* status = tw_run(executable_.get(), inputs_.data(), static_cast<int64_t>(inputs_.size()), given,
                               asked, static_cast<int64_t>(given_.size()), nullptr);
    if (status) {
      std::fprintf(stderr, "bench_launch: %s: %s\n", case_.name.c_str(), tw_status_text(status));
      std::exit(1);
    }
    if (!case_.asked) return;
    for (DLManagedTensorVersioned* each : asked_) tw_tensor_release(each);
  }

  Result measure(int calls, int rounds) {
    for (int i = 0; i < 100; ++i) once();
    Result result;
    result.kernels = launches_of(executable_);
    std::vector<double> times;
    const long before = allocations.load();
    for (int round = 0; round < rounds; ++round) {
      const auto start = Clock::now();
      for (int i = 0; i < calls; ++i) once();
      times.push_back(std::chrono::duration<double>(Clock::now() - start).count() / calls);
    }
    result.allocations =
        static_cast<double>(allocations.load() - before - 1) / (static_cast<double>(calls) * rounds);
    std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
    result.seconds = times[static_cast<size_t>(rounds / 2)];
    return result;
  }

 private:
  static tw::Sizes sizes_for(const Case& c) {
    if (c.text.find("f32[2,2]") != std::string::npos) return {2, 2};
    return {c.text.find("f32[4]") != std::string::npos ? 4 : 8};
  }

  const Case& case_;
  tw::Executable executable_;
  std::vector<tw::Tensor> tensors_, results_;
  std::vector<const DLTensor*> inputs_, given_;
  std::vector<DLManagedTensorVersioned*> asked_;
};

}  // namespace

// With --allocations, only whether a steady run allocates: exit code 1 if one over given outputs does.
int main(int argc, char** argv) {
  const bool only_allocations = argc > 1 && std::strcmp(argv[1], "--allocations") == 0;
  int failures = 0;
  const std::vector<Case> cases = {
      {"one_kernel_given", one_kernel("8"), false},    {"one_kernel_asked", one_kernel("8"), true},
      {"one_kernel_symbolic", one_kernel("N"), false}, {"kernels_200", chain(200), false},
      {"tensors_192", many_tensors(64), false},
  };
  for (const char* threads : {"1", "2"}) {
    tw::Session session({{"threads", threads}, {"cache", "off"}, {"log", "error"}});
    double first = 0;
    for (const Case& c : cases) {
      Calls calls(session, c);
      const bool is_long = c.text.size() > 1000;
      const Result result =
          only_allocations ? calls.measure(100, 3) : calls.measure(is_long ? 100 : 2000, 21);
      // The host's own first calls on a thread may allocate a little.
      if (only_allocations && !c.asked && result.allocations > 0.05) {
        std::fprintf(stderr, "bench_launch: %s: %.2f allocations a run, expected none\n", c.name.c_str(),
                     result.allocations);
        ++failures;
      }
      if (c.name == "one_kernel_given") first = result.seconds;
      std::printf(
          "{\"suite\":\"launch\",\"case\":\"%s/"
          "threads=%s\",\"ours\":%.3e,\"peer\":null,\"peer_name\":\"none\","
          "\"ratio\":null,\"limit_pct\":null,\"kernels\":%ld,\"allocations_per_run\":%.2f",
          c.name.c_str(), threads, result.seconds, result.kernels, result.allocations);
      if (result.kernels > 1)
        std::printf(",\"seconds_per_further_kernel\":%.3e",
                    (result.seconds - first) / static_cast<double>(result.kernels - 1));
      std::printf("}\n");
      std::fflush(stdout);
    }
  }
  return failures == 0 ? 0 : 1;
}
