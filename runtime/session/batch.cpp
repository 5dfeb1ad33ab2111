#include "session/batch.h"

#include <algorithm>
#include <deque>

#include "base/error.h"

namespace weft {
namespace {

using Generation = Session::Generation;

void check(const std::vector<BatchEntry>& entries) {
  const auto refuse = [](Code code, size_t index, const std::string& what) {
    throw Error(code, "session " + std::to_string(index) + " " + what, "batch");
  };
  if (entries.empty() || entries.size() > kMostBatchSlots)
    throw Error(
        Code::invalid_argument,
        "it has " + std::to_string(entries.size()) + " sessions, expected 1 to " + std::to_string(kMostBatchSlots),
        "batch");
  for (size_t i = 0; i < entries.size(); ++i) {
    const Session& session = entries[i].session;
    if (session.ids().empty()) refuse(Code::invalid_argument, i, "has no prompt");
    if (&session.model() != &entries[0].session.model()) refuse(Code::invalid_argument, i, "is of another model");
    for (size_t j = 0; j < i; ++j)
      if (&session == &entries[j].session) refuse(Code::invalid_argument, i, "was given twice");
    if (session.model().config.layer_kind.sees_source) refuse(Code::unsupported, i, "is of an encoder-decoder");
    session.model().weights.need_all_rows("batch");
    if (session.has_grammar()) refuse(Code::unsupported, i, "has a grammar, which must see each token before the next");
  }
}

std::vector<Batch::Member> slots_of(const std::vector<Generation*>& running) {
  std::vector<Batch::Member> members;
  for (const Generation* one : running) members.push_back(one->member());
  return members;
}

Policy policy_of(const std::vector<Generation*>& running) {
  const bool polite =
      std::ranges::any_of(running, [](const auto* one) { return one->session().policy() == Policy::polite; });
  return polite ? Policy::polite : Policy::throughput;
}

std::vector<Duty*> duties_of(const std::vector<Generation*>& running) {
  std::vector<Duty*> duties;
  for (const Generation* one : running) duties.push_back(&one->session().duty());
  return duties;
}

}  // namespace

SharedPasses::SharedPasses(std::vector<Generation*> running)
    : running_(std::move(running)),
      batch_(running_.front()->session().model(), slots_of(running_), policy_of(running_), duties_of(running_)),
      left_(SIZE_MAX) {
  // Products read the weights once for a group of tokens.
  const Plan& plan = running_.front()->session().model().device->plan();
  shared_ = std::min(static_cast<uint32_t>(running_.size()), std::max(plan.block_tokens, plan.tile_tokens));
  for (const Generation* one : running_) left_ = std::min(left_, one->left());
}

void SharedPasses::submit() {
  for (; !closed_ && left_ > 0 && batch_.in_flight() <= batch_.run_ahead(); --left_) {
    batch_.submit();
    for (Generation* one : running_) one->note_submitted();
  }
}

std::vector<Stop> generate_batch(const std::vector<BatchEntry>& entries) {
  check(entries);
  std::deque<Generation> all;
  for (const BatchEntry& entry : entries)
    all.emplace_back(entry.session, entry.max_tokens, entry.ignore_stop_tokens, entry.on_token);
  // The prompts, each by itself, and the first tokens.
  for (Generation& one : all) one.start(true);
  for (Generation& one : all) one.receive_first();
  for (;;) {
    std::vector<Generation*> running;
    for (Generation& one : all)
      if (!one.stopped()) running.push_back(&one);
    if (running.empty()) break;
    SharedPasses passes(running);
    while (!passes.finished()) passes.step([](Generation& one, uint32_t sessions) { one.receive(sessions); });
  }
  std::vector<Stop> stops;
  for (const Generation& one : all) stops.push_back(*one.stopped());
  return stops;
}

}  // namespace weft
