#include "metrics.h"

#include <algorithm>

#include "../weft/common.h"

namespace weft::serve {
namespace {

std::string headline(const std::string& name, const char* type, const std::string& help) {
  return "# HELP " + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
}

std::string single(const std::string& name, const char* type, const std::string& help, std::uint64_t value) {
  return headline(name, type, help) + name + " " + std::to_string(value) + "\n";
}

}  // namespace

void Histogram::add(double value) {
  ++counts_[static_cast<std::size_t>(std::ranges::lower_bound(bounds_, value) - bounds_.begin())];
  sum_ += value;
}

std::string Histogram::text(const std::string& name, const std::string& help) const {
  std::string text = headline(name, "histogram", help);
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    count += counts_[i];
    const std::string bound = i < bounds_.size() ? cli::format("%g", bounds_[i]) : "+Inf";
    text += name + "_bucket{le=\"" + bound + "\"} " + std::to_string(count) + "\n";
  }
  return text + name + "_sum " + cli::format("%.9g", sum_) + "\n" + name + "_count " + std::to_string(count) + "\n";
}

void Metrics::count(Outcome outcome) {
  const std::lock_guard lock(mutex_);
  ++requests_[static_cast<std::size_t>(outcome)];
}

void Metrics::count_prompt(std::uint64_t tokens, std::uint64_t cached) {
  const std::lock_guard lock(mutex_);
  prompt_tokens_ += tokens;
  cached_tokens_ += cached;
}

void Metrics::count_token(bool first, double seconds, std::uint64_t head_bytes) {
  const std::lock_guard lock(mutex_);
  ++tokens_;
  head_bytes_ += head_bytes;
  (first ? first_ : gap_).add(seconds);
}

void Metrics::count_guesses(std::uint64_t drafted, std::uint64_t accepted) {
  const std::lock_guard lock(mutex_);
  drafted_tokens_ += drafted;
  accepted_tokens_ += accepted;
}

std::string Metrics::text(std::size_t waiting, std::size_t running, std::size_t most,
                          std::optional<double> busy) const {
  const std::lock_guard lock(mutex_);
  std::string text =
      headline("weft_requests_total", "counter", "Requests for completions and embeddings that ended, by outcome.");
  for (std::size_t i = 0; i < requests_.size(); ++i)
    text += cli::format("weft_requests_total{outcome=\"%s\"} ", kOutcomeNames[i]) + std::to_string(requests_[i]) + "\n";
  if (busy)
    text += headline("weft_device_busy_seconds_total", "counter", "Time that the device was busy with all models.") +
            "weft_device_busy_seconds_total " + cli::format("%.9g\n", *busy);
  return text + single("weft_requests_waiting", "gauge", "Requests that wait for a session.", waiting) +
         single("weft_requests_running", "gauge", "Requests that have a session.", running) +
         single("weft_sessions_limit", "gauge", "Most requests that have a session at the same time.", most) +
         single("weft_prompt_tokens_total", "counter", "Tokens of prompts, cached ones included.", prompt_tokens_) +
         single("weft_prompt_cached_tokens_total", "counter", "Tokens of prompts that were computed before.",
                cached_tokens_) +
         single("weft_generated_tokens_total", "counter", "Tokens of answers.", tokens_) +
         single("weft_head_read_bytes_total", "counter", "Bytes of the vocabulary table read to choose tokens.",
                head_bytes_) +
         single("weft_drafted_tokens_total", "counter", "Guessed tokens that passes have checked.", drafted_tokens_) +
         single("weft_accepted_tokens_total", "counter", "Guessed tokens that were right.", accepted_tokens_) +
         first_.text("weft_time_to_first_token_seconds", "Time from a request's arrival to its first token.") +
         gap_.text("weft_time_between_tokens_seconds", "Time between two tokens of an answer.");
}

}  // namespace weft::serve
