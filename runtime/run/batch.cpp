#include "run/batch.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <new>

#include "base/error.h"

namespace weft {
namespace {

// Products take a power of two of rows, or whole groups.
uint32_t whole_rows(const Model& model, size_t rows) {
  const uint32_t count = static_cast<uint32_t>(rows), group = model.device->plan().block_tokens;
  return count <= group ? std::min(std::bit_ceil(count), group) : static_cast<uint32_t>(align_up(count, group));
}

}  // namespace

Batch::Batch(const Model& model, std::span<const Member> members, Policy policy, std::vector<Duty*> duties)
    : model_(model),
      members_(members.begin(), members.end()),
      activations_(model, whole_rows(model, members.size()), whole_rows(model, members.size())),
      step_(model, whole_rows(model, kMostBatchSlots), 1),
      member_lists_(model.device, "batch members", members.size() * kViewAlignment, Memory::shared),
      neighbours_(find_neighbours()),
      pool_(model.device),
      queue_(model, policy, std::move(duties)) {
  decode_.add(record(activations_, 1));
}

Batch::~Batch() = default;  // the fences wait before the pool goes: they are declared after it

std::vector<Neighbours> Batch::find_neighbours() const {
  std::vector<Neighbours> all;
  for (uint32_t i = 0; i < members_.size(); ++i) {
    if (members_[i].own_positions) continue;  // a dispatch has one rope table
    const auto& buffers = members_[i].context.buffers;
    const auto same = [&](const Neighbours& some) { return members_[some.members.front()].context.buffers == buffers; };
    const auto found = std::ranges::find_if(all, same);
    (found == all.end() ? all.emplace_back() : *found).members.push_back(i);
  }
  std::erase_if(all, [](const Neighbours& some) { return some.members.size() == 1; });
  uint32_t before = 0;
  for (Neighbours& some : all) {
    some.list = View(member_lists_).part(before * kViewAlignment, some.members.size() * sizeof(abi::BatchMember));
    for (uint32_t i = 0; i < some.members.size(); ++i) {
      const uint32_t member = some.members[i];
      member_lists_.as<abi::BatchMember>()[before * kViewAlignment / sizeof(abi::BatchMember) + i] = {
          0, 0, 0, 0, members_[member].context.slot, member, {}};
    }
    before += static_cast<uint32_t>(some.members.size());
  }
  return all;
}

// Session i has the rows from i * tokens on.
RecordedPass Batch::record(const ActivationBuffers& activations, uint32_t tokens) {
  std::deque<Activations> rows;  // what a pass refers to stays in its place
  const auto over = [&](uint32_t first, uint32_t count) {
    Pass pass = {model_, activations, step_, members_.front().context, whole_rows(model_, members_.size() * count)};
    for (size_t i = 0; i < members_.size(); ++i) {
      rows.push_back(activations.rows(static_cast<uint32_t>(i) * tokens + first, count));
      pass.members.push_back({model_, rows.back(), members_[i].step, members_[i].context, count});
      pass.members.back().adapter = members_[i].adapter;
    }
    // The scratch of one session is for a chunk.
    if (members_.size() * count <= model_.device->plan().chunk_tokens) pass.neighbours = neighbours_;
    return pass;
  };
  const Pass pass = over(0, tokens);
  std::vector<Pass> by_token;
  for (uint32_t i = 0; tokens > 1 && i < tokens; ++i) by_token.push_back(over(i, 1));
  std::vector<Tail> tails;
  for (const Member& member : members_) tails.push_back(member.tail);
  return record_pass(pool_, pass, [&](Recorder& r) {
    if (tokens == 1)
      record_tail(r, pass, tails);
    else
      record_check(r, pass, by_token, tails, {});
  });
}

// Sets the rows of the next pass. They do not change while passes are in flight.
void Batch::set_rows(uint32_t rows) {
  if (in_flight() == 0) step_.state.end_at(rows);
}

void Batch::submit() {
  const auto rows = static_cast<uint32_t>(members_.size());
  set_rows(rows);
  const RecordedPass& pass = decode_.next(
      queue_.most_in_flight_passes(), [&](const RecordedPass& one) { return queue_.in_flight(one.end); },
      [&] { return record(activations_, 1); });
  queue_.submit(rows, pass);
}

uint32_t Batch::most_tokens() const {
  uint32_t most = 1;
  for (const uint32_t tokens : kDraftPasses)
    if (tokens * members_.size() <= kMostBatchSlots) most = tokens;
  return most;
}

bool Batch::prepare_check(uint32_t tokens) {
  if (checks_.contains(tokens)) return true;
  try {
    if (!check_activations_) {
      const uint32_t rows = whole_rows(model_, members_.size() * most_tokens());
      check_activations_ = std::make_unique<ActivationBuffers>(model_, rows, rows);
    }
    checks_.emplace(tokens, record(*check_activations_, tokens));
    return true;
  } catch (const Error& error) {
    if (error.code() != Code::out_of_memory) throw;
  } catch (const std::bad_alloc&) {
  }
  if (checks_.empty()) check_activations_.reset();
  return false;
}

void Batch::submit_check(uint32_t tokens) {
  const uint32_t rows = static_cast<uint32_t>(members_.size()) * tokens;
  set_rows(rows);
  queue_.submit(rows, checks_.at(tokens));
}

}  // namespace weft
