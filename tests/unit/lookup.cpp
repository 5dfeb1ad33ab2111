// Guesses that Lookup makes from a context alone, and when it stops guessing. No device needed.
#include "session/lookup.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "run/schedule.h"
#include "session/pass_costs.h"

namespace weft::test {
namespace {

std::vector<uint32_t> guess(Lookup& lookup, size_t most = kMostDrafted) {
  const std::span<const uint32_t> draft = lookup.draft(most);
  return {draft.begin(), draft.end()};
}

// A text that repeats ten tokens.
std::vector<uint32_t> tens() {
  std::vector<uint32_t> ids;
  for (uint32_t i = 0; i < 60; ++i) ids.push_back(i % 10);
  return ids;
}

TEST(LookupTest, GuessesWhatCameAfterTheLongestRun) {
  Lookup lookup;
  lookup.begin(std::vector<uint32_t>{});
  EXPECT_EQ(guess(lookup), std::vector<uint32_t>());
  lookup.begin(std::vector<uint32_t>{5});
  EXPECT_EQ(guess(lookup), std::vector<uint32_t>());
  lookup.begin(std::vector<uint32_t>{1, 2, 3, 4, 5, 6, 7, 8, 9});
  EXPECT_EQ(guess(lookup), std::vector<uint32_t>());
  // 3 4 came twice: after 1 2, and, later, after 7.
  const std::vector<uint32_t> ids = {9,  1, 2, 3, 4,  50, 51, 52, 53, 54, 55, 56,
                                     57, 7, 3, 4, 60, 61, 62, 63, 1,  2,  3,  4};
  lookup.begin(ids);
  EXPECT_EQ(guess(lookup).front(), 50u);
  EXPECT_EQ(guess(lookup, 1), std::vector<uint32_t>{50});
  lookup.begin(std::vector<uint32_t>{1, 2, 3, 4, 5, 8, 3, 4, 6, 9, 3, 4});
  EXPECT_EQ(guess(lookup).front(), 6u);  // the latest of equal runs
}

// A run that goes on into itself.
TEST(LookupTest, GuessesRepetitions) {
  Lookup lookup;
  lookup.begin(std::vector<uint32_t>{7, 7, 7, 7, 7, 7, 7, 7});
  EXPECT_EQ(guess(lookup), std::vector<uint32_t>{7});
  lookup.begin(tens());
  for (uint32_t i = 0; i < 60; ++i) lookup.append(i % 10);  // it learns that this one is right again and again
  EXPECT_EQ(guess(lookup), (std::vector<uint32_t>{0, 1, 2, 3, 4, 5, 6}));
}

// Tokens that repeat pairs and go on otherwise: soon nothing is guessed, and when they do repeat, it is again.
TEST(LookupTest, LearnsWhenGuessesPay) {
  Lookup lookup;
  std::vector<uint32_t> ids = {1, 2};
  lookup.begin(ids);
  std::mt19937 random(1);
  const auto guesses = [&](uint32_t count, const auto& next) {
    uint32_t passes = 0;
    for (uint32_t i = 0; i < count; ++i) {
      passes += guess(lookup).empty() ? 0 : 1;
      lookup.append(next(i));
    }
    return passes;
  };
  const auto noise = [&](uint32_t) { return random() % 12; };  // pairs come again, by chance
  guesses(1000, noise);
  EXPECT_LT(guesses(200, noise), 20u);
  const auto again = [](uint32_t i) { return 100 + i % 40; };
  EXPECT_GT(guesses(200, again), 140u);
}

// A pass of several tokens that takes as long as they would alone is not worth it.
TEST(LookupTest, LearnsWhatPassesTake) {
  for (const double each : {1.0, 0.2}) {
    Lookup lookup;
    lookup.begin(tens());
    for (int i = 0; i < 20; ++i)
      for (const uint32_t tokens : {1u, 2u, 4u, 8u}) lookup.passed(tokens, 1 + each * (tokens - 1));
    EXPECT_EQ(guess(lookup).empty(), each == 1.0);
  }
}

// Two delayed passes do not end guessing for good.
TEST(LookupTest, DelaysAreNotCosts) {
  Lookup lookup;
  lookup.begin(tens());
  for (int i = 0; i < 20; ++i) lookup.passed(1, 1);
  for (const double seconds : {9.0, 20.0, 20.0, 1.5})
    for (const uint32_t tokens : {2u, 4u, 8u}) {
      EXPECT_FALSE(guess(lookup).empty());
      lookup.passed(tokens, seconds);
    }
  EXPECT_FALSE(guess(lookup).empty());
}

// Passes that were slow in every try are tried again, once, after many passes of one token.
TEST(LookupTest, SlowPassesAreTriedAgainLater) {
  Lookup lookup;
  lookup.begin(tens());
  for (int i = 0; i < 20; ++i)
    for (const uint32_t tokens : {1u, 2u, 4u, 8u}) lookup.passed(tokens, tokens == 1 ? 1 : 20);
  EXPECT_TRUE(guess(lookup).empty());
  const auto until_it_guesses = [&] {
    for (int i = 0; i < 1000; ++i) {
      if (!guess(lookup).empty()) return i;
      lookup.passed(1, 1);
    }
    return 1000;
  };
  EXPECT_EQ(until_it_guesses(), 512 - 20);
  for (const uint32_t tokens : {2u, 4u, 8u}) lookup.passed(tokens, 20);
  EXPECT_EQ(until_it_guesses(), 512);
  for (const uint32_t tokens : {2u, 4u, 8u}) lookup.passed(tokens, 1.5);
  EXPECT_EQ(until_it_guesses(), 0);
}

// For a batch it gives all that it knows, whatever passes take, and the chance of each.
TEST(LookupTest, OffersABatchAllGuesses) {
  std::vector<uint32_t> ids;
  for (uint32_t i = 0; i < 24; ++i) ids.push_back(i % 20);
  Lookup lookup;
  lookup.begin(ids);
  for (int i = 0; i < 20; ++i)
    for (const uint32_t tokens : {1u, 2u, 4u, 8u}) lookup.passed(tokens, tokens);
  EXPECT_TRUE(guess(lookup).empty());
  std::vector<double> chances(5, -1);
  const std::span<const uint32_t> offered = lookup.offer(chances);
  EXPECT_EQ(std::vector<uint32_t>(offered.begin(), offered.end()), (std::vector<uint32_t>{4, 5, 6, 7, 8}));
  for (const double chance : chances) {
    EXPECT_GT(chance, 0);
    EXPECT_LT(chance, 1);
  }
  chances.clear();
  EXPECT_TRUE(lookup.offer(chances).empty());
}

// Cost of a batch's pass for all sessions, against its gain for those that guess.
// Time of a text of `tokens` tokens, in one-token passes, where one wrong guess at a time is checked whenever the
// account allows it. tried: the tokens after which one was.
double time_with_wrong_guesses(size_t tokens, double each, double check, double each_missed,
                               std::vector<size_t>& tried) {
  GuessAccount account;
  account.begin();
  double time = 0;
  size_t missed = 0;
  for (size_t i = 0; i < tokens; ++i) {
    if (account.may_guess() && account.overdrawn()) account.rest(each_missed);
    double pass = 1;
    if (!account.may_guess()) {
      ++missed;
    } else {
      if (!tried.empty()) time += each_missed * static_cast<double>(missed);
      missed = 0;
      tried.push_back(i);
      time += each;
      account.spend(each);
      pass = check;
    }
    time += pass;
    account.passed(pass > 1 ? 2 : 1, pass);
    account.append();
  }
  return time;
}

TEST(GuessAccountTest, WrongGuessesCostLittle) {
  for (const double each : {0.0, 0.1, 0.25, 1.0}) {
    for (const double check : {1.01, 1.15, 1.5, 2.0}) {
      for (const double each_missed : {0.0, 0.004, 0.02, 0.2}) {
        SCOPED_TRACE(testing::Message() << each << ' ' << check << ' ' << each_missed);
        std::vector<size_t> tried;
        EXPECT_LT(time_with_wrong_guesses(512, each, check, each_missed, tried), 512 / 0.95);
        EXPECT_GT(tried.size(), 1u);
        if (each + check > 1.15) {
          EXPECT_LT(std::ranges::count_if(tried, [](size_t i) { return i < 64; }), 40);
        }
        tried.clear();
        EXPECT_LT(time_with_wrong_guesses(10000, each, check, each_missed, tried), 10000 * 1.027);
        if (each_missed < 0.02) {  // a text may become easier: they are tried again
          EXPECT_GT(tried.back(), 5000u);
        }
      }
    }
  }
}

TEST(GuessAccountTest, RightGuessesAreNeverTooExpensive) {
  GuessAccount account;
  for (int i = 0; i < 8; ++i) account.passed(1, 1);
  for (int i = 0; i < 1000; ++i) {
    account.spend(0.5);
    account.passed(2, 1.4);
    account.append();
    account.append();
    EXPECT_FALSE(account.overdrawn());
  }
}

TEST(PassCostsTest, ATreeIsAsLargeAsItPays) {
  PassCosts costs;
  for (int i = 0; i < 20; ++i)
    for (const uint32_t tokens : {1u, 2u, 4u, 8u}) costs.passed(tokens, 10 + tokens);  // 11, 12, 14, 18
  const std::vector<double> unlikely(7, 0.01), likely(7, 0.5);
  EXPECT_EQ(costs.best_tree(unlikely, {}), 0u);
  EXPECT_EQ(costs.best_tree(likely, {}), 7u);                      // 4.5 tokens in the time of 18; 2.5 of 14
  EXPECT_EQ(costs.best_tree(std::span(likely).first(5), {}), 5u);  // in the pass of seven: 3.5 of 18; 2.5 of 14
  EXPECT_EQ(costs.best_tree(std::vector{0.5, 0.3, 0.1, 0.01, 0.01, 0.01, 0.01}, {}), 3u);
  // A chain's guesses are right only if those before them are.
  EXPECT_EQ(costs.best_draft(7, [](size_t) { return 0.5; }), 3u);
}

TEST(PassCostsTest, MeasuredBefore) {
  PassCosts costs;
  for (int i = 0; i < 2; ++i)  // the first times include compiling
    for (const uint32_t tokens : {1u, 2u, 4u}) costs.passed(tokens, i == 0 ? 1000 : 10 * tokens);
  costs.passed(8, 1000);
  EXPECT_FALSE(costs.one().known());
  costs.trust();
  EXPECT_TRUE(costs.one().known());
  EXPECT_EQ(costs.cost(2), 2);
  EXPECT_EQ(costs.cost(4), 4);
  EXPECT_LT(costs.cost(8), 3);  // reported once, which may include compiling: the estimate
  EXPECT_TRUE(GuessAccount(costs).may_guess());
  costs.passed(2, 15);  // the machine was busy before
  EXPECT_EQ(costs.cost(2), 1.5);
  costs.passed(4, 5);
  EXPECT_EQ(costs.cost(4), 1);  // more tokens are never less work
  for (int i = 0; i < 512; ++i) costs.passed(1, 10);
  EXPECT_LT(costs.cost(2), 1.5);  // in doubt: the estimate
  costs.passed(2, 30);
  EXPECT_EQ(costs.cost(2), 1.5);  // the shorter of both
}

TEST(PassCostsTest, ABatchsPassMustPayForAllSessions) {
  PassCosts costs;
  for (int i = 0; i < 20; ++i) {
    costs.passed(1, 10);
    costs.passed(2, 15);
    costs.passed(4, 20);
    costs.passed(8, 60);
  }
  // `guessing` of eight sessions guess, and are always right.
  const auto best = [&](uint32_t guessing, uint32_t most = 8) {
    return costs.best_pass(most, [&](uint32_t tokens) { return static_cast<double>(8 + guessing * (tokens - 1)); });
  };
  EXPECT_EQ(best(0), 1u);
  EXPECT_EQ(best(2), 1u);  // 14 tokens in the time of 16
  EXPECT_EQ(best(8), 4u);
  EXPECT_EQ(best(8, 2), 2u);
  EXPECT_EQ(best(8, 1), 1u);
  EXPECT_EQ(best(4), 4u);  // 20 tokens in the time of 16; 12 of 12 in a pass of two
}

}  // namespace
}  // namespace weft::test
