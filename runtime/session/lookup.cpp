#include "session/lookup.h"

#include <algorithm>
#include <bit>

#include "run/schedule.h"

namespace weft {
namespace {

constexpr size_t kMostPlaces = 32;    // looked at for one guess, the latest first
constexpr uint32_t kLongestRun = 64;  // longer ones are not told apart
constexpr double kNewWeight = 1.0 / 16;

uint64_t key(uint32_t first, uint32_t second) { return uint64_t{first} << 32 | second; }

}  // namespace

void Lookup::begin(std::span<const uint32_t> ids) {
  const auto common = std::ranges::mismatch(ids_, ids).in1 - ids_.begin();
  if (static_cast<size_t>(common) < ids_.size()) {  // another context: what was learnt of chances and costs stays
    ids_.clear();
    last_.clear();
    before_.clear();
  }
  for (size_t i = ids_.size(); i < ids.size(); ++i) add(ids[i]);
  match_ = find();
}

void Lookup::append(uint32_t id) {
  // Every guess is judged, whether it was checked or not: so it shows when guesses begin to pay.
  if (match_.next != kNone) {
    double& known = chance(match_.length);
    known += kNewWeight * ((ids_[match_.next] == id ? 1.0 : 0.0) - known);
  }
  add(id);
  match_ = find();
}

void Lookup::add(uint32_t id) {
  ids_.push_back(id);
  before_.push_back(kNone);
  if (ids_.size() < 2) return;
  const uint32_t position = static_cast<uint32_t>(ids_.size());  // after the pair
  const auto [found, is_new] = last_.try_emplace(key(ids_[position - 2], id), position);
  if (is_new) return;
  before_[position - 1] = found->second;
  found->second = position;
}

// The longest run, of the longest the latest. The pair at the end is itself the latest of its kind.
Lookup::Match Lookup::find() const {
  Match best;
  if (ids_.size() < 2) return best;
  const uint32_t end = static_cast<uint32_t>(ids_.size());
  size_t looked_at = 0;
  for (uint32_t position = before_[end - 1]; position != kNone && looked_at < kMostPlaces;
       position = before_[position - 1]) {
    uint32_t length = 2;
    while (length < kLongestRun && length < position && ids_[position - 1 - length] == ids_[end - 1 - length]) ++length;
    if (length > best.length) best = {position, length};
    ++looked_at;
  }
  return best;
}

double& Lookup::chance(uint32_t length) {
  const size_t group = length <= 3 ? length - 2 : static_cast<size_t>(std::bit_width(length)) - 1;
  return chances_[std::min(group, chances_.size() - 1)];
}

std::span<const uint32_t> Lookup::offer(std::span<double> chances) {
  if (match_.next == kNone) return {};
  const size_t count = std::min(chances.size(), ids_.size() - match_.next);
  for (size_t i = 0; i < count; ++i) chances[i] = chance(match_.length + static_cast<uint32_t>(i));
  return std::span(ids_).subspan(match_.next, count);
}

std::span<const uint32_t> Lookup::draft(size_t most) {
  std::array<double, kMostDrafted> chances;
  const std::span<const uint32_t> guesses = offer(std::span(chances).first(std::min(most, chances.size())));
  return guesses.first(costs_.best_draft(guesses.size(), [&](size_t i) { return chances[i]; }));
}

}  // namespace weft
