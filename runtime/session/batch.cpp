#include "session/batch.h"

#include <algorithm>

#include "base/error.h"
#include "model/batch.h"

namespace weft {

class BatchRun {
 public:
  explicit BatchRun(const std::vector<BatchEntry>& entries) {
    check(entries);
    for (const BatchEntry& entry : entries) lanes_.push_back({entry, {}, {}});
  }

  ~BatchRun() {  // a cancel that came too late is not the next generate's
    for (const Lane& lane : lanes_) lane.entry.session.cancelled_ = false;
  }

  std::vector<Stop> run() {
    try {
      start();
      while (!running().empty()) decode(running());
    } catch (...) {
      for (Lane& lane : lanes_) lane.entry.session.come_to_rest();
      throw;
    }
    std::vector<Stop> stops;
    for (const Lane& lane : lanes_) stops.push_back(*lane.stop);
    return stops;
  }

 private:
  struct Lane {
    const BatchEntry& entry;
    Session::Run run;
    std::optional<Stop> stop;
  };

  static void check(const std::vector<BatchEntry>& entries) {
    const auto refuse = [](Code code, size_t index, const std::string& what) {
      throw Error(code, "session " + std::to_string(index) + " " + what, "batch");
    };
    if (entries.empty() || entries.size() > kMostLanes)
      throw Error(Code::invalid_argument,
                  "it has " + std::to_string(entries.size()) + " sessions, expected 1 to " + std::to_string(kMostLanes),
                  "batch");
    for (size_t i = 0; i < entries.size(); ++i) {
      const Session& session = entries[i].session;
      if (session.ids_.empty()) refuse(Code::invalid_argument, i, "has no prompt");
      if (&session.model_ != &entries[0].session.model_) refuse(Code::invalid_argument, i, "is of another model");
      for (size_t j = 0; j < i; ++j)
        if (&session == &entries[j].session) refuse(Code::invalid_argument, i, "was given twice");
      if (session.model_.config.block.sees_source) refuse(Code::unsupported, i, "is of an encoder-decoder");
      if (session.matcher_) refuse(Code::unsupported, i, "has a grammar, which must see each token before the next");
    }
  }

  std::vector<Lane*> running() {
    std::vector<Lane*> list;
    for (Lane& lane : lanes_)
      if (!lane.stop) list.push_back(&lane);
    return list;
  }

  void receive(Lane& lane, uint32_t lanes) {
    lane.stop = lane.entry.session.receive(lane.run, lanes, lane.entry.on_token);
    if (lane.stop) lane.entry.session.finish(lane.run);
  }

  // The prompts, each by itself, and the first tokens.
  void start() {
    for (Lane& lane : lanes_)
      lane.stop = lane.entry.session.start(lane.run, lane.entry.max_tokens, lane.entry.ignore_stop_tokens, true);
    for (Lane* lane : running()) {
      if (lane->run.submitted == 0) continue;
      lane->entry.session.schedule_.wait_all();
      receive(*lane, 1);
    }
  }

  // Until a session ends.
  void decode(const std::vector<Lane*>& lanes) {
    const Model& model = lanes.front()->entry.session.model_;
    std::vector<Batch::Lane> parts;
    size_t left = SIZE_MAX;
    for (const Lane* lane : lanes) {
      const Session& session = lane->entry.session;
      parts.push_back({session.step_, session.cache_, {lane->run.tail, lane->run.head}});
      left = std::min(left, lane->run.wanted - lane->run.submitted);
    }
    const bool polite =
        std::ranges::any_of(lanes, [](const Lane* lane) { return lane->entry.session.policy() == Policy::polite; });
    Batch batch(model, parts, polite ? Policy::polite : Policy::throughput);
    // Products read the weights once for a group of tokens.
    const Plan& plan = model.device->plan();
    const uint32_t shared =
        std::min(static_cast<uint32_t>(lanes.size()), std::max(plan.block_tokens, plan.tile_tokens));
    bool ended = false;
    while (!ended || batch.in_flight() > 0) {
      for (; !ended && left > 0 && batch.in_flight() <= batch.run_ahead(); --left) {
        batch.submit();
        for (Lane* lane : lanes) lane->entry.session.note_submitted(lane->run);
      }
      batch.wait_oldest();
      for (Lane* lane : lanes) {
        if (!lane->stop) receive(*lane, shared);
        ended |= lane->stop.has_value();
      }
    }
  }

  std::vector<Lane> lanes_;
};

std::vector<Stop> generate_batch(const std::vector<BatchEntry>& entries) { return BatchRun(entries).run(); }

}  // namespace weft
