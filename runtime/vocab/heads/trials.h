// Finds the head that takes the least time on this device: the heads take turns, a few tokens each, and again after a
// while. All heads choose the same tokens, so trials do not change the text.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace weft {

class HeadTrials {
 public:
  // Heads are counted from 0. Head 0 is used until another one was found to be faster.
  explicit HeadTrials(size_t heads) : times_(heads) {}

  // Each stretch of tokens has one head: the head of the current stretch, and how many of its tokens are left.
  size_t head() const { return head_; }
  size_t left() const { return left_; }
  // A token of the stretch was computed. seconds: since the one before it, if that is of the stretch too.
  void passed(std::optional<double> seconds);

 private:
  static constexpr size_t kFirst = 16;           // tokens before the first trial: short answers have none
  static constexpr size_t kPause = 128;          // tokens after the first trial; doubled after each later one,
  static constexpr size_t kLongestPause = 2048;  // up to this many

  void next_stretch();
  std::vector<size_t> hopeful() const;
  void conclude();

  std::vector<std::vector<double>> times_;  // by head: seconds of this trial's tokens
  std::vector<size_t> turns_;               // heads whose turn in this round is to come, the last one first
  size_t rounds_ = 0;                       // of this trial; 0: none is under way
  size_t head_ = 0, left_ = kFirst, pause_ = kPause;
};

}  // namespace weft
