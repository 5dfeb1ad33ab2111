#include "progress_bar.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "common.h"

namespace weft::cli {
namespace {

constexpr double kBetweenDraws = 0.1, kBeforeRates = 1;  // seconds; a rate of less time says little
constexpr double kShortPrompt = 2;                       // seconds

}  // namespace

std::string duration_text(double seconds) {
  const auto whole = static_cast<long long>(std::ceil(seconds));
  if (whole < 60) return format("%lld s", whole);
  if (whole < 3600) return format("%lld min %02lld s", whole / 60, whole % 60);
  return format("%lld h %02lld min", whole / 3600, whole / 60 % 60);
}

ProgressBar::ProgressBar(std::string label, ProgressWork work, double delay)
    : label_(std::move(label)), work_(std::move(work)), delay_(delay), shown_(isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() { hide(); }

void ProgressBar::hide() {
  if (!drawn_) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
  drawn_ = false;
}

void ProgressBar::update(double done) {
  if (!shown_) return;
  const Clock::time_point now = Clock::now();
  const auto since = [now](Clock::time_point then) { return std::chrono::duration<double>(now - then).count(); };
  done = std::clamp(done, 0.0, 1.0);
  if (first_ < 0) first_ = done, begin_ = delay_ > 0 ? begin_ : now;
  const double seconds = since(begin_);
  if (seconds < delay_ || (drawn_ && since(drawn_at_) < kBetweenDraws)) return;
  constexpr std::size_t width = 30;
  std::string bar(static_cast<std::size_t>(done * width), '#');
  bar.resize(width, '.');
  std::string line = format("\r%s [%s] %3d%%", label_.c_str(), bar.c_str(), static_cast<int>(done * 100));
  if (seconds >= kBeforeRates && done > first_) {
    const double rate = (done - first_) * work_.all / seconds;  // a second
    if (work_.all > 0 && work_.unit == "bytes") line += ", " + human_bytes(rate) + "/s";
    if (work_.all > 0 && work_.unit != "bytes")
      line += format(rate < 10 ? ", %.1f %s/s" : ", %.0f %s/s", rate, work_.unit.c_str());
    line += ", " + duration_text(seconds * (1 - done) / (done - first_)) + " left";
  }
  std::fprintf(stderr, "%s\033[K", line.c_str());
  std::fflush(stderr);
  drawn_ = true;
  drawn_at_ = now;
}

PromptBar::PromptBar(api::Session& session) : session_(session) {
  if (isatty(STDERR_FILENO) != 1) return;
  session_.set_prompt_callback([this](std::uint32_t done, std::uint32_t all) {
    if (!bar_) bar_.emplace("reading", ProgressWork{static_cast<double>(all), "tokens"}, kShortPrompt);
    if (done == all)
      bar_.reset();
    else
      bar_->update(static_cast<double>(done) / all);
    return true;
  });
}

PromptBar::~PromptBar() {
  if (isatty(STDERR_FILENO) == 1) session_.set_prompt_callback({});
}

}  // namespace weft::cli
