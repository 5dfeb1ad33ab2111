#include "session/sampling.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "base/error.h"
#include "base/number.h"
#include "session/soft.h"

namespace weft {
namespace {

constexpr float kMostBias = 100;

// If top-p asks for mass, rows up to this far below the best score are computed, in nats. With a smaller margin, more
// tokens are undecided. SmolLM2, 300 tokens at temperature 1, top-p 0.9 and 0.95: certified reads 78 and 82% of the
// table with 5, 84 and 92% with 6; sure 69 and 74%, 69 and 70%.
constexpr float kMassMargin = 5;

}  // namespace

void check_ids(std::span<const uint32_t> ids, uint32_t vocab, size_t most) {
  for (size_t i = 0; i < ids.size(); ++i)
    if (ids[i] >= vocab)
      throw Error(Code::invalid_argument,
                  "id " + std::to_string(ids[i]) + " at place " + std::to_string(i) + ", the vocabulary has " +
                      std::to_string(vocab) + " tokens",
                  "token ids");
  if (ids.size() > most)
    throw Error(Code::context_full,
                std::to_string(ids.size()) + " tokens were given, the session holds " + std::to_string(most), "context",
                "create the session with a larger context");
}

void require(bool holds, const char* option, const std::string& what) {
  if (!holds) throw Error(Code::invalid_argument, what, option);
}

SamplingSetup::SamplingSetup(const Config& config, std::vector<uint32_t> stop_ids)
    : vocab_(config.vocab), logit_cap_(config.logit_cap), stop_ids_(std::move(stop_ids)) {
  if (stop_ids_.size() > MAX_STOP_IDS)
    throw Error(Code::unsupported,
                "the model has " + std::to_string(stop_ids_.size()) + " stop tokens, at most " +
                    std::to_string(MAX_STOP_IDS) + " are supported",
                "tokenizer");
}

void SamplingSetup::set(const Sampling& s) {
  const auto value = [](float x) { return number_text(x); };
  require(s.temperature >= 0 && std::isfinite(s.temperature), "temperature",
          "it is " + value(s.temperature) + ", expected 0 or more");
  require(s.temperature == 0 || s.temperature >= 1e-4f, "temperature",
          "it is " + value(s.temperature) + ", expected 0 (greedy) or at least 0.0001");
  require(s.top_p > 0 && s.top_p <= 1, "top_p", "it is " + value(s.top_p) + ", expected above 0 and at most 1");
  require(s.min_p >= 0 && s.min_p <= 1, "min_p", "it is " + value(s.min_p) + ", expected 0 to 1");
  require(s.repeat_penalty > 0 && std::isfinite(s.repeat_penalty), "repeat_penalty",
          "it is " + value(s.repeat_penalty) + ", expected above 0");
  require(s.presence_penalty >= -2 && s.presence_penalty <= 2, "presence_penalty",
          "it is " + value(s.presence_penalty) + ", expected -2 to 2");
  require(s.frequency_penalty >= -2 && s.frequency_penalty <= 2, "frequency_penalty",
          "it is " + value(s.frequency_penalty) + ", expected -2 to 2");
  require(s.typical_p > 0 && s.typical_p <= 1, "typical_p",
          "it is " + value(s.typical_p) + ", expected above 0 and at most 1");
  sampling_ = s;
}

void SamplingSetup::set_biases(std::span<const uint32_t> ids, std::span<const float> biases) {
  std::map<uint32_t, float> all;  // the last bias of an id counts
  for (size_t i = 0; i < ids.size(); ++i) {
    require(ids[i] < vocab_, "logit_bias",
            "it names token " + std::to_string(ids[i]) + ", the vocabulary has " + std::to_string(vocab_) + " tokens");
    require(biases[i] >= -kMostBias && biases[i] <= kMostBias, "logit_bias",
            "that of token " + std::to_string(ids[i]) + " is " + number_text(biases[i]) + ", expected -100 to 100");
    all[ids[i]] = biases[i];
  }
  std::vector<std::pair<uint32_t, float>> chosen;
  float most = 0;
  for (const auto& [id, bias] : all) {
    if (bias != 0) chosen.emplace_back(id, bias);
    most = std::max(most, bias);
  }
  biases_ = std::move(chosen);
  most_bias_ = most;
}

void SamplingSetup::set_logprobs(uint32_t count) {
  require(count <= MAX_LOGPROBS, "logprobs",
          "it is " + std::to_string(count) + ", expected 0 to " + std::to_string(MAX_LOGPROBS));
  logprobs_ = count;
}

Tail::Kind SamplingSetup::tail() const {
  const Sampling& s = sampling_;
  const bool plain = s.repeat_penalty == 1 && s.presence_penalty == 0 && s.frequency_penalty == 0 && biases_.empty();
  return s.temperature == 0 && plain ? Tail::Kind::greedy : Tail::Kind::sampled;
}

// Mapped memory may be slow to read: each part is written in one go.
void SamplingSetup::write(const StepBuffers& step, std::span<const uint32_t> ids, size_t prompt_end,
                          bool ignore_stop_tokens) const {
  abi::SampleParams all = params();
  all.stop_count = ignore_stop_tokens ? 0 : static_cast<uint32_t>(stop_ids_.size());
  std::copy(stop_ids_.begin(), stop_ids_.end(), all.stop_ids);
  *step.params.as<abi::SampleParams>() = all;

  std::vector<uint32_t> bits(TOKEN_FLAG_COUNTS(vocab_));
  for (const uint32_t id : ids)
    if (!is_soft(id)) bits[id / 32] |= 1u << (id % 32);
  std::memcpy(step.token_flags.data(), bits.data(), bits.size() * 4);
  if (!biases_.empty()) {
    std::vector<float> biases(vocab_);
    for (const auto& [id, bias] : biases_) biases[id] = bias;
    std::memcpy(step.token_flags.as<float>() + TOKEN_FLAG_BIASES(vocab_), biases.data(), biases.size() * 4);
  }
  if (sampling_.presence_penalty == 0 && sampling_.frequency_penalty == 0) return;
  std::vector<uint32_t> counts(vocab_);
  for (size_t i = prompt_end; i < ids.size(); ++i) ++counts[ids[i]];
  std::memcpy(step.token_flags.as<uint32_t>() + TOKEN_FLAG_COUNTS(vocab_), counts.data(), counts.size() * 4);
}

abi::SampleParams SamplingSetup::params() const {
  const Sampling& s = sampling_;
  abi::SampleParams params = {};
  params.inverse_temperature = s.temperature > 0 ? 1 / s.temperature : 0;
  params.top_k = s.top_k;
  params.top_p = s.top_p;
  params.log_min_p = s.min_p > 0 ? std::log(s.min_p) : -1e30f;
  params.repeat_penalty = s.repeat_penalty;
  params.seed_low = static_cast<uint32_t>(s.seed);
  params.seed_high = static_cast<uint32_t>(s.seed >> 32);
  params.soft_cap = logit_cap_;
  params.presence_penalty = s.presence_penalty;
  params.frequency_penalty = s.frequency_penalty;
  params.typical_p = s.typical_p;
  params.biased = biases_.empty() ? 0 : 1;
  // A negative penalty rewards. How often a token comes has no limit.
  params.most_added = s.frequency_penalty < 0 ? 3.4e38f : most_bias_ + std::max(-s.presence_penalty, 0.0f);
  params.logprobs = logprobs_;
  set_cut(params);
  return params;
}

// Which rows the choice of a token depends on (abi.h). Typical-p without top-k needs the mass of every row. Top-p needs
// less of it (shaders/decide.comp): rows that can win by their noise, or that min-p lets through, and those near the
// best, whose mass is enough for most tokens.
void SamplingSetup::set_cut(abi::SampleParams& params) const {
  const Sampling& s = sampling_;
  if (s.temperature == 0) {
    params.cut_rank = 1;
  } else if (s.top_k > 0) {
    params.cut_rank = s.top_k;
  } else if (s.typical_p < 1) {
    params.cut_rank = 0;
  } else {
    const bool mass = s.top_p < 1;
    const bool noise = s.min_p == 0 || (mass && -params.log_min_p > kMassMargin);
    params.cut_rank = 1;
    params.cut_mass = mass ? 1 : 0;
    params.cut_noise = noise ? 1 : 0;
    if (!noise) params.cut_margin = -params.log_min_p + (mass ? 1.0f : 0.0f);
    if (noise && mass) params.cut_margin = kMassMargin;
  }
}

}  // namespace weft
