// A bar on stderr while something long goes on.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <weft/weft.hpp>

namespace weft::cli {

struct ProgressWork {
  double all = 0;    // of what is done; 0: no rate is shown
  std::string unit;  // "tokens"; "bytes" are shown as MiB and such
};

// Redrawn in place and gone when it ends, with the rate and the time left. Silent unless stderr is a terminal.
class ProgressBar {
 public:
  // label: "loading x.gguf". delay: seconds before the bar is there, for work that is mostly short.
  explicit ProgressBar(std::string label, ProgressWork work = {}, double delay = 0);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  void update(double done);  // 0..1. Work that was done before the first call counts for neither rate nor time
  void hide();               // until the next update: something else is written

 private:
  using Clock = std::chrono::steady_clock;

  std::string label_;
  ProgressWork work_;
  double delay_;
  bool shown_, drawn_ = false;
  double first_ = -1;  // the share of the first update
  Clock::time_point begin_ = Clock::now(), drawn_at_;
};

// A bar while a session reads a prompt, if that takes more than two seconds. The session outlives it.
class PromptBar {
 public:
  explicit PromptBar(api::Session& session);
  ~PromptBar();
  PromptBar(const PromptBar&) = delete;
  PromptBar& operator=(const PromptBar&) = delete;

 private:
  api::Session& session_;
  std::optional<ProgressBar> bar_;  // from the first pass on
};

// "12 s", "3 min 05 s", "2 h 07 min".
std::string duration_text(double seconds);

}  // namespace weft::cli
