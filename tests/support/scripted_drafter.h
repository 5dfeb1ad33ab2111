// A drafter for tests, which guesses what a function returns.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <vector>

#include "run/schedule.h"
#include "session/drafter.h"

namespace weft::test {

// Drafts what a function returns for the context; checks what the session tells it.
class Scripted : public Drafter {
 public:
  using Script = std::function<std::vector<uint32_t>(std::span<const uint32_t> ids)>;
  explicit Scripted(Script script) : script_(std::move(script)) {}
  void begin(std::span<const uint32_t> ids) override { ids_.assign(ids.begin(), ids.end()); }
  void append(uint32_t id) override { ids_.push_back(id); }
  std::span<const uint32_t> draft(size_t most) override {
    draft_ = script_(ids_);
    if (draft_.size() > most) draft_.resize(most);
    return draft_;
  }
  // In a batch it gives chances above any real ones, so that a pass verifies the longest draft whatever passes cost.
  std::span<const uint32_t> offer(std::span<double> chances) override {
    std::ranges::fill(chances, 1e3);
    return draft(chances.size());
  }
  bool guesses_in_batches() const override { return true; }
  void passed(uint32_t, double seconds) override { EXPECT_GE(seconds, 0); }

 private:
  Script script_;
  std::vector<uint32_t> ids_, draft_;
};

// The next `count` tokens of a text, of which every `wrong`-th is another one; 0: none is.
inline Scripted::Script along(std::vector<uint32_t> text, size_t count, size_t wrong, uint32_t vocab) {
  return [=](std::span<const uint32_t> ids) {
    std::vector<uint32_t> draft;
    for (size_t i = ids.size(); i < std::min(text.size(), ids.size() + count); ++i)
      draft.push_back(wrong > 0 && i % wrong == 0 ? (text[i] + 1) % vocab : text[i]);
    return draft;
  };
}

// Alternates a long draft that is right except for its first token with a short one. The long draft's rest stays in the
// history: it is right, but no part of the short draft.
inline Scripted::Script left_behind(std::vector<uint32_t> text, uint32_t vocab) {
  return [=, turn = 0u](std::span<const uint32_t> ids) mutable {
    std::vector<uint32_t> draft = along(text, turn++ % 2 == 0 ? 7 : 2, 0, vocab)(ids);
    if (draft.size() > 2) draft[0] = (draft[0] + 1) % vocab;
    return draft;
  };
}

// Any number of any tokens.
inline Scripted::Script anything(uint32_t seed, uint32_t vocab) {
  return [random = std::mt19937(seed), vocab](std::span<const uint32_t> ids) mutable {
    std::vector<uint32_t> draft(random() % (kMostDrafted + 1));
    for (uint32_t& id : draft) id = random() % 3 == 0 ? random() % vocab : ids[random() % ids.size()];
    return draft;
  };
}

}  // namespace weft::test
