// A limit of the device's time, by a clock of the test's own.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>

#include "run/duty.h"

namespace weft {
namespace {

using Clock = DutyLimit::Clock;
using std::chrono::milliseconds;

// Times are milliseconds of the test's clock, which begins after the limits have credit.
constexpr Clock::time_point at(int ms) { return Clock::time_point(std::chrono::hours(1)) + milliseconds(ms); }

// When the next work may begin, if that is after `now`.
int next(const DutyLimit& limit, int now) {
  return now + static_cast<int>(std::chrono::duration_cast<milliseconds>(limit.left(at(now))).count());
}

TEST(DutyLimit, KeepsTheShareOfOneUser) {
  DutyLimit limit;
  EXPECT_EQ(limit.left(at(0)), Clock::duration::zero());
  limit.set_share(0.25f);
  EXPECT_LE(limit.left(at(0)), Clock::duration::zero());
  limit.charge(at(0), at(10));
  EXPECT_EQ(next(limit, 10), 35);  // four times 10 ms, of which 5 are forgiven
  limit.charge(at(35), at(45));    // in time
  EXPECT_EQ(next(limit, 45), 75);
  limit.charge(at(77), at(87));  // 2 ms late, which are made up for
  EXPECT_EQ(next(limit, 87), 115);
  limit.charge(at(200), at(210));  // long after: only 5 ms are made up for
  EXPECT_EQ(next(limit, 210), 235);
  limit.set_share(0.5f);  // of what was not paid for yet
  EXPECT_EQ(next(limit, 210), 215);
  limit.set_share(0);
  EXPECT_GT(limit.left(at(100000)), Clock::duration::zero());
  limit.set_share(1);
  EXPECT_EQ(limit.left(at(210)), Clock::duration::zero());
}

TEST(DutyLimit, AddsTheWorkOfAllUsers) {
  DutyLimit limit;
  limit.set_share(0.5f);
  limit.charge(at(0), at(10));
  limit.charge(at(15), at(25));  // another's, without a gap in what may be used
  EXPECT_EQ(next(limit, 25), 35);
  // A third user's share of the time is what the others leave.
  limit.charge(at(35), at(55));
  EXPECT_EQ(next(limit, 55), 75);
  EXPECT_EQ(limit.busy(), milliseconds(40));
}

// Submissions of two threads overlap on the device; a batch reports the same work for each of its sessions.
TEST(DutyLimit, TimeOfSeveralUsersCountsOnce) {
  struct Case {
    const char* what;
    std::pair<int, int> first, second;
    int end;
  };
  for (const Case& one : {Case{"the same", {0, 10}, {0, 10}, 10},
                          {"the second ends later", {0, 10}, {4, 16}, 16},
                          {"the second was submitted before", {4, 16}, {0, 10}, 16},
                          {"the second lies within", {0, 20}, {5, 10}, 20},
                          {"the first lies within", {5, 10}, {0, 20}, 20}}) {
    DutyLimit limit;
    limit.set_share(0.25f);
    limit.charge(at(one.first.first), at(one.first.second));
    limit.charge(at(one.second.first), at(one.second.second));
    EXPECT_EQ(limit.busy(), milliseconds(one.end - std::min(one.first.first, one.second.first))) << one.what;
    const int begin = std::min(one.first.first, one.second.first);
    // The 5 ms of credit are of the first one that is reported.
    EXPECT_GE(next(limit, one.end), begin - 5 + 4 * (one.end - begin)) << one.what;
    EXPECT_LE(next(limit, one.end), one.first.first - 5 + 4 * (one.end - begin)) << one.what;
  }
}

// A listener's layer beside another model's tokens: the layer is reported last.
TEST(DutyLimit, ManyShortTimesWithinALongOneCountOnce) {
  DutyLimit limit;
  limit.set_share(0.5f);
  for (int i = 0; i < 10; ++i) limit.charge(at(10 * i), at(10 * i + 5));
  EXPECT_EQ(limit.busy(), milliseconds(50));
  limit.charge(at(0), at(100));
  EXPECT_EQ(limit.busy(), milliseconds(100));
  EXPECT_EQ(next(limit, 100), 195);
  for (int i = 0; i < 1000; ++i) limit.charge(at(1000 + 10 * i), at(1005 + 10 * i));
  EXPECT_EQ(limit.busy(), milliseconds(5100));
}

// A batch reports its work once for each session.
TEST(DutyLimit, AnotherShareIsOfAllThatWasNotPaidFor) {
  DutyLimit limit;
  limit.set_share(0.01f);
  limit.charge(at(0), at(100));
  limit.charge(at(0), at(100));
  EXPECT_GT(next(limit, 100), 9000);
  limit.set_share(0.5f);
  EXPECT_EQ(next(limit, 100), 195);
  limit.set_share(1e-20f);
  EXPECT_GT(limit.left(at(100)), std::chrono::hours(23));
}

TEST(DutyLimit, ADutyKeepsToItsOwnLimitAndACommonOne) {
  const std::atomic<bool> cancelled = false;
  Duty first(cancelled), second(cancelled);
  const auto common = std::make_shared<DutyLimit>();
  EXPECT_FALSE(first.shared());
  first.keep_to(common);
  second.keep_to(common);
  EXPECT_TRUE(first.shared());
  EXPECT_FALSE(first.limited());
  common->set_share(0.5f);
  EXPECT_TRUE(first.limited());
  EXPECT_TRUE(second.limited());
  first.charge(at(0), at(10));
  second.charge(at(15), at(25));
  EXPECT_EQ(next(*common, 25), 35);
  common->set_share(1);
  EXPECT_FALSE(first.limited());
  first.charge(at(40), at(50));
  EXPECT_EQ(common->busy(), milliseconds(20)) << "counted without a limit";
  first.set_share(0.1f);
  EXPECT_TRUE(first.limited());
  EXPECT_FALSE(second.limited());
  first.keep_to(nullptr);
  EXPECT_FALSE(first.shared());
  EXPECT_TRUE(first.limited());
  EXPECT_EQ(common.use_count(), 2);
}

}  // namespace
}  // namespace weft
