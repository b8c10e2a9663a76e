// How often and in what form progress is shown.
#include "tools/tilewright/progress.h"

#include <unistd.h>

#include <cstdio>

namespace command {
namespace {

constexpr double kTerminalSeconds = 0.1;
constexpr double kLogSeconds = 10;
constexpr double kQuietSeconds = 1;  // short work shows nothing

double since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

Progress::Progress(std::string title, int64_t total)
    : title_(std::move(title)),
      total_(total),
      terminal_(isatty(STDERR_FILENO) != 0),
      start_(std::chrono::steady_clock::now()),
      last_(start_) {}

void Progress::advance(const std::string& note) {
  ++done_;
  if (since(start_) < kQuietSeconds || since(last_) < (terminal_ ? kTerminalSeconds : kLogSeconds)) return;
  show(note);
}

void Progress::show(const std::string& note) {
  last_ = std::chrono::steady_clock::now();
  shown_ = true;
  const double spent = since(start_);
  const double left =
      done_ > 0 ? spent / static_cast<double>(done_) * static_cast<double>(total_ - done_) : 0;
  std::fprintf(stderr, "%s%s: %lld of %lld, %.0f s left %.40s%s", terminal_ ? "\r\033[K" : "", title_.c_str(),
               static_cast<long long>(done_), static_cast<long long>(total_), left, note.c_str(),
               terminal_ ? "" : "\n");
  std::fflush(stderr);
}

void Progress::finish() {
  if (shown_ && terminal_) std::fputs("\r\033[K", stderr);
  shown_ = false;
}

}  // namespace command
