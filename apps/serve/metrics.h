// The server's counters, in Prometheus's text format.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace weft::serve {

// How a request for a completion or embeddings ended.
enum class Outcome { stop, length, cancelled, invalid, queue_full, limited, deadline, failed };
constexpr std::array kOutcomeNames = {"stop",       "length",  "cancelled", "invalid",
                                      "queue_full", "limited", "deadline",  "failed"};

class Histogram {
 public:
  explicit Histogram(std::vector<double> bounds) : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}
  void add(double value);
  std::string text(const std::string& name, const std::string& help) const;

 private:
  const std::vector<double> bounds_;  // upper, ascending
  std::vector<std::uint64_t> counts_;
  double sum_ = 0;
};

// May be used by any thread.
class Metrics {
 public:
  void count(Outcome outcome);
  void count_prompt(std::uint64_t tokens, std::uint64_t cached);
  // A token of an answer; seconds: from its request's arrival if it is the first, else from the token before it.
  void count_token(bool first, double seconds, std::uint64_t head_bytes);

  // Guesses of an answer that has ended: tokens that passes have checked, and those that were right.
  void count_guesses(std::uint64_t drafted, std::uint64_t accepted);

  // Now: requests that wait and that are answered, and the most that can be answered together. busy: seconds that the
  // device was busy; nothing without a duty.
  std::string text(std::size_t waiting, std::size_t running, std::size_t most, std::optional<double> busy) const;

 private:
  mutable std::mutex mutex_;
  std::array<std::uint64_t, kOutcomeNames.size()> requests_ = {};
  std::uint64_t prompt_tokens_ = 0, cached_tokens_ = 0, tokens_ = 0, head_bytes_ = 0, drafted_tokens_ = 0,
                accepted_tokens_ = 0;
  Histogram first_{{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}};
  Histogram gap_{{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5}};
};

}  // namespace weft::serve
