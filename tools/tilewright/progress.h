// Progress: a line on standard error about long work, rewritten on terminals, now and then elsewhere.
#pragma once

#include <chrono>
#include <string>

namespace command {

class Progress {
 public:
  Progress(std::string title, int64_t total);
  // One more is done; `note` says what.
  void advance(const std::string& note = {});
  void finish();

 private:
  void show(const std::string& note);

  std::string title_;
  int64_t total_, done_ = 0;
  bool terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point start_, last_;
};

}  // namespace command
