#include "tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/error.h"

namespace weft {
namespace {

// Expected part of the whole text: all before the first stop string to end. If several end there, the longest counts.
std::string expected(const std::string& text, const std::vector<std::string>& stops, bool& stopped) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string& stop : stops)
      if (end >= stop.size() && text.compare(end - stop.size(), stop.size(), stop) == 0)
        longest = std::max(longest, stop.size());
    if (longest > 0) {
      stopped = true;
      return text.substr(0, end - longest);
    }
  }
  stopped = false;
  return text;
}

TEST(StopStrings, AnyCutsGiveWhatTheWholeTextGives) {
  std::mt19937 random(20261121);
  const auto below = [&](uint32_t most) { return random() % most; };
  const std::vector<std::string> alphabet = {"a", "b", "c", "\u00e9", "\U0001f600"};
  const auto text_of = [&](uint32_t characters) {
    std::string text;
    for (uint32_t i = 0; i < characters; ++i) text += alphabet[below(i % 7 == 6 ? 5 : 3)];
    return text;
  };
  int stops_seen = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::string> stops;
    for (uint32_t i = 0, count = below(4); i < count; ++i) stops.push_back(text_of(1 + below(6)));
    const std::string text = text_of(below(40));
    StopStrings filter(stops);
    std::string out, so_far;
    for (size_t at = 0; at < text.size() && !filter.stopped();) {
      const size_t size = std::min<size_t>(below(5), text.size() - at);
      so_far += text.substr(at, size);
      out += filter.push(std::string_view(text).substr(at, size));
      at += size;
      bool stopped = false;
      const std::string all = expected(so_far, stops, stopped);
      ASSERT_EQ(all.substr(0, out.size()), out);
      ASSERT_EQ(filter.stopped(), stopped);
      if (stopped) {
        ASSERT_EQ(out, all);
        continue;
      }
      // Decided text is not held back: the held text begins a stop string.
      const std::string held = so_far.substr(out.size());
      ASSERT_TRUE(held.empty() ||
                  std::ranges::any_of(
                      stops, [&](const auto& stop) { return stop.size() > held.size() && stop.starts_with(held); }))
          << held;
    }
    stops_seen += filter.stopped() ? 1 : 0;
    bool stopped = false;
    const std::string all = expected(text, stops, stopped);
    const bool was_stopped = filter.stopped();
    out += filter.finish();
    ASSERT_EQ(out, all);
    ASSERT_EQ(was_stopped, stopped);
    ASSERT_FALSE(filter.stopped());
  }
  EXPECT_GT(stops_seen, 2000);
}

TEST(StopStrings, ControlTokensPartThem) {
  StopStrings stops({"y", "}}x"});
  EXPECT_EQ(stops.push("a}"), "a");
  EXPECT_EQ(stops.push("}"), "");
  EXPECT_EQ(stops.release(), "}}");
  EXPECT_EQ(stops.push("x}}"), "x");
  EXPECT_FALSE(stops.stopped());
  EXPECT_EQ(stops.push("x"), "");
  EXPECT_TRUE(stops.stopped());
  EXPECT_EQ(stops.which(), 1u);
}

TEST(StopStrings, RefusesWhatCanNeverStop) {
  EXPECT_THROW(StopStrings({""}), Error);
  EXPECT_THROW(StopStrings({"ok", std::string(257, 'x')}), Error);
  EXPECT_THROW(StopStrings({"\xc3"}), Error);
  EXPECT_THROW(StopStrings(std::vector<std::string>(17, "x")), Error);
  EXPECT_NO_THROW(StopStrings(std::vector<std::string>(16, std::string(256, 'x'))));
}

}  // namespace
}  // namespace weft
