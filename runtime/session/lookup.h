// Guesses that a text goes on as it did before (Saxena 2023, "Prompt lookup decoding"): finds the longest run of tokens
// at the end of the context that was there earlier too, and guesses the tokens that came after the earlier run.
#pragma once

#include <array>
#include <unordered_map>
#include <vector>

#include "session/drafter.h"
#include "session/pass_costs.h"

namespace weft {

class Lookup : public Drafter {
 public:
  void begin(std::span<const uint32_t> ids) override;
  void append(uint32_t id) override;
  std::span<const uint32_t> draft(size_t most) override;
  std::span<const uint32_t> offer(std::span<double> chances) override;
  bool guesses_in_batches() const override { return true; }
  void passed(uint32_t tokens, double seconds) override { costs_.passed(tokens, seconds); }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Match {
    uint32_t next = kNone;  // the position of the first token guessed
    uint32_t length = 0;    // of the run before it
  };
  void add(uint32_t id);
  Match find() const;
  double& chance(uint32_t length);

  std::vector<uint32_t> ids_;
  std::unordered_map<uint64_t, uint32_t> last_;  // of the pairs of tokens seen: the position after the latest
  std::vector<uint32_t> before_;                 // by position: that of the same pair before; kNone
  Match match_;                                  // of the context's end
  // Probability that a guess is right, by the run's length: 2, 3, 4 to 7, 8 to 15, ...
  std::array<double, 6> chances_ = {0.3, 0.4, 0.5, 0.6, 0.7, 0.8};
  PassCosts costs_;
};

}  // namespace weft
