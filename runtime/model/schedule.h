// The recorded command buffers of a session, and their submission. A layer's commands are recorded once and replayed
// for every token: what changes from token to token is read from the state on the device.
#pragma once

#include <map>
#include <memory>

#include "model/flights.h"
#include "model/forward.h"

namespace weft {

class Schedule {
 public:
  // source: of an encoder-decoder, as Pass has it.
  Schedule(const Model& model, const Activations& activations, const StepBuffers& step, const KvCache& cache,
           const KvCache* source, Policy policy);
  ~Schedule();

  uint32_t chunk_tokens() const { return chunk_tokens_; }

  // Submits one pass of up to `tokens` tokens (1 or chunk_tokens()) behind those in flight, as the policy says. timed:
  // with timestamps, which read_times() gives once it has finished; one timed pass may be in flight at a time.
  void submit(uint32_t tokens, Tail tail, const TailHead& head = {}, bool timed = false);
  // As submit with a chunk, but leaves negative log-likelihoods in nll().
  void submit_score(const HeadBuffers* masked);
  const Buffer& nll() const { return nll_; }  // (context) floats, mapped; written by submit_score

  const Flights& flights() const { return flights_; }
  uint32_t in_flight() const { return flights_.count(); }  // passes
  void wait_oldest() { flights_.wait_oldest(); }
  void wait_all() { flights_.wait_all(); }

  // Device time by operation of the last timed pass. It must have finished.
  std::vector<Timestamps::Stage> read_times() const;
  double read_gaps() const;  // and where it did none, between its command buffers

 private:
  struct Body {  // a pass without its tail
    CommandBuffer embed;
    std::vector<CommandBuffer> layers;
  };
  struct Timed {  // a whole pass of one token with timestamps
    std::unique_ptr<Timestamps> timestamps;
    Body body;
    CommandBuffer tail;
  };
  Pass pass(uint32_t tokens) const { return {model_, activations_, step_, cache_, tokens, source_}; }
  Body record_body(uint32_t tokens, Timestamps* timestamps);
  struct TailKey {
    uint32_t tokens;  // of the pass
    Tail tail;
    bool partial;
    HeadShapes shapes;
    bool logprobs;
    auto operator<=>(const TailKey&) const = default;
  };
  const Timed& timed(Tail tail, const TailHead& head);
  CommandBuffer record(const std::string& name, Timestamps* timestamps, bool host_reads,
                       const std::function<void(Recorder&)>& commands);
  CommandBuffer record_end(Timestamps* timestamps, const std::function<void(Recorder&)>& commands);
  void launch(const Body& body, const CommandBuffer& tail, uint32_t tokens);

  const Model& model_;
  const Activations& activations_;
  const StepBuffers& step_;
  const KvCache& cache_;
  const KvCache* source_;
  uint32_t chunk_tokens_;
  CommandPool pool_;
  Body decode_, chunk_;
  std::map<TailKey, CommandBuffer> tails_;
  std::map<TailKey, Timed> timed_;  // of one token
  const Timed* last_timed_ = nullptr;
  CommandBuffer score_, masked_score_;
  Buffer block_logits_, nll_;  // made by the first submit_score
  Flights flights_;
};

}  // namespace weft
