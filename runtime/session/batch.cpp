#include "session/batch.h"

#include <algorithm>
#include <deque>

#include "base/error.h"
#include "session/generation.h"

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
    if (session.model().config.block.sees_source) refuse(Code::unsupported, i, "is of an encoder-decoder");
    if (session.has_grammar()) refuse(Code::unsupported, i, "has a grammar, which must see each token before the next");
  }
}

// Decodes until one of them stops.
void decode(const Model& model, Policy policy, const std::vector<Generation*>& running) {
  std::vector<Batch::Slot> slots;
  size_t left = SIZE_MAX;
  for (const Generation* one : running) {
    slots.push_back(one->slot());
    left = std::min(left, one->left());
  }
  Batch batch(model, slots, policy);
  // Products read the weights once for a group of tokens.
  const Plan& plan = model.device->plan();
  const uint32_t shared = std::min(static_cast<uint32_t>(slots.size()), std::max(plan.block_tokens, plan.tile_tokens));
  bool ended = false;
  while (!ended || batch.in_flight() > 0) {
    for (; !ended && left > 0 && batch.in_flight() <= batch.run_ahead(); --left) {
      batch.submit();
      for (Generation* one : running) one->note_submitted();
    }
    batch.wait_oldest();
    for (Generation* one : running) {
      if (!one->stopped()) one->receive(shared);
      ended |= one->stopped().has_value();
    }
  }
}

}  // namespace

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
    bool polite = false;
    for (size_t i = 0; i < all.size(); ++i)
      if (!all[i].stopped()) {
        running.push_back(&all[i]);
        polite |= entries[i].session.policy() == Policy::polite;
      }
    if (running.empty()) break;
    decode(entries[0].session.model(), polite ? Policy::polite : Policy::throughput, running);
  }
  std::vector<Stop> stops;
  for (const Generation& one : all) stops.push_back(*one.stopped());
  return stops;
}

}  // namespace weft
