// How the tokens of a session are drawn: what its user sets, and the form in which the device reads it.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "model/forward.h"

namespace weft {

// As weft_sampling in weft.h, which documents it.
struct Sampling {
  float temperature = 0.7f;
  uint32_t top_k = 40;
  float top_p = 0.95f;
  float min_p = 0.05f;
  float repeat_penalty = 1;
  uint64_t seed = 0;
  float presence_penalty = 0, frequency_penalty = 0;
  float typical_p = 1;
};

// Throws Error(invalid_argument) for an id outside the vocabulary, Error(context_full) for more than `most` ids.
void check_ids(std::span<const uint32_t> ids, uint32_t vocab, size_t most = SIZE_MAX);

// Throws Error(invalid_argument) with this sentence about the option, unless it holds.
void require(bool holds, const char* option, const std::string& what);

class SamplingSetup {
 public:
  // stop_ids: at most MAX_STOP_IDS, else throws Error(unsupported).
  SamplingSetup(const Config& config, std::vector<uint32_t> stop_ids);

  // The setters throw Error(invalid_argument) for a value out of range; then nothing has changed.
  void set(const Sampling& sampling);
  void set_biases(std::span<const uint32_t> ids, std::span<const float> biases);
  void set_logprobs(uint32_t count);

  const Sampling& sampling() const { return sampling_; }
  const std::vector<std::pair<uint32_t, float>>& biases() const { return biases_; }  // by ascending id, none of them 0
  uint32_t logprobs() const { return logprobs_; }
  std::span<const uint32_t> stop_ids() const { return stop_ids_; }
  Tail::Kind tail() const;  // greedy if the likeliest token is chosen from unchanged logits, else sampled

  // Writes the parameters and the token flags for tokens after the context `ids`, which was generated from `prompt_end`
  // on. Nothing may be in flight.
  void write(const StepBuffers& step, std::span<const uint32_t> ids, size_t prompt_end, bool ignore_stop_tokens) const;

 private:
  abi::SampleParams params() const;
  void set_cut(abi::SampleParams& params) const;

  uint32_t vocab_;
  float logit_cap_;
  std::vector<uint32_t> stop_ids_;
  Sampling sampling_;
  std::vector<std::pair<uint32_t, float>> biases_;
  float most_bias_ = 0;  // at least 0
  uint32_t logprobs_ = 0;
};

}  // namespace weft
