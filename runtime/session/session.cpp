#include "session/session.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include "base/error.h"

namespace weft {
namespace {

constexpr float kMostBias = 100;

double thread_cpu_seconds() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

struct ClearAtEnd {
  std::atomic<bool>& flag;
  ~ClearAtEnd() { flag = false; }
};

// As shaders/lib/soft_cap.glsl; 0: none.
float soft_capped(float logit, float cap) { return cap > 0 ? cap * std::tanh(logit / cap) : logit; }

const Model& checked(const Model& model) {
  if (model.config.block.sees_all)
    throw Error(Code::unsupported, "the family '" + model.config.family + "' reads texts and writes none", "model",
                "weft embed and weft fill use it");
  return model;
}

void require(bool holds, const char* option, const std::string& what) {
  if (!holds) throw Error(Code::invalid_argument, what, option);
}

}  // namespace

Session::Session(const Model& model, uint32_t context, std::vector<uint32_t> stop_ids, Format cache, Policy policy)
    : model_(checked(model)),
      context_(context),
      policy_(policy),
      stop_ids_(std::move(stop_ids)),
      activations_(model, model.device->plan().chunk_tokens),
      cache_(model, context, model.device->plan().chunk_tokens, cache),
      step_(model, context, context),
      source_(model.weights.encoder ? std::make_unique<Source>(model, context, cache) : nullptr),
      schedule_(model, activations_, step_, cache_, source_ ? &source_->cache() : nullptr, policy) {
  if (stop_ids_.size() > MAX_STOP_IDS)
    throw Error(Code::unsupported,
                "the model has " + std::to_string(stop_ids_.size()) + " stop tokens, at most " +
                    std::to_string(MAX_STOP_IDS) + " are supported",
                "tokenizer");
}

Session::~Session() = default;

void Session::set_sampling(const Sampling& s) {
  const auto value = [](float x) { return std::to_string(x); };
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

void Session::set_bias(std::span<const uint32_t> ids, std::span<const float> biases) {
  const uint32_t vocab = model_.config.vocab;
  check_ids(ids, SIZE_MAX);
  std::vector<float> all(vocab);
  for (size_t i = 0; i < ids.size(); ++i) {
    require(biases[i] >= -kMostBias && biases[i] <= kMostBias, "logit_bias",
            "that of token " + std::to_string(ids[i]) + " is " + std::to_string(biases[i]) + ", expected -100 to 100");
    all[ids[i]] = biases[i];
  }
  biases_.clear();
  most_bias_ = 0;
  for (uint32_t id = 0; id < vocab; ++id) {
    if (all[id] != 0) biases_.emplace_back(id, all[id]);
    most_bias_ = std::max(most_bias_, all[id]);
  }
}

void Session::set_logprobs(uint32_t count) {
  require(count <= MAX_LOGPROBS, "logprobs",
          "it is " + std::to_string(count) + ", expected 0 to " + std::to_string(MAX_LOGPROBS));
  logprob_count_ = count;
  logprobs_ = {};
}

void Session::check_ids(std::span<const uint32_t> ids, size_t most) const {
  for (size_t i = 0; i < ids.size(); ++i)
    if (ids[i] >= model_.config.vocab)
      throw Error(Code::invalid_argument,
                  "id " + std::to_string(ids[i]) + " at place " + std::to_string(i) + ", the vocabulary has " +
                      std::to_string(model_.config.vocab) + " tokens",
                  "token ids");
  if (ids.size() > most)
    throw Error(Code::context_full,
                std::to_string(ids.size()) + " tokens were given, the session holds " + std::to_string(most), "context",
                "create the session with a larger context");
}

void Session::prompt(std::span<const uint32_t> ids, std::span<const uint32_t> begun) {
  require(!ids.empty(), "prompt", "it has no token");
  require(source_ || begun.empty(), "begun", "the model has no encoder that reads the prompt");
  if (!source_) return set_context(ids);
  check_ids(ids, context_);
  std::vector<uint32_t> context = {model_.config.start_token};
  context.insert(context.end(), begun.begin(), begun.end());
  check_ids(context, context_ - 1);
  if (!std::ranges::equal(ids, input_)) cached_ = 0;  // computed behind another input
  input_.assign(ids.begin(), ids.end());
  set_context(context);
}

void Session::set_context(std::span<const uint32_t> ids) {
  check_ids(ids, context_ - 1);  // one more token must have room
  const auto [mine, theirs] = std::mismatch(ids_.begin(), ids_.end(), ids.begin(), ids.end());
  keep_cached(std::min(static_cast<size_t>(mine - ids_.begin()), ids.size() - 1));
  stats_.reused_tokens += cached_;
  ids_.assign(ids.begin(), ids.end());
  prompt_end_ = ids_.size();
  if (matcher_) matcher_->reset();
}

// Goes on behind at most so many cached positions; behind none where a window that ends there is no longer whole.
void Session::keep_cached(size_t most) {
  cached_ = std::min(cached_, most);
  if (!cache_.holds(model_.config, cached_, written_)) cached_ = 0;
  if (cached_ == 0) written_ = 0;
}

// Writes the session's state to the device. Nothing may be in flight.
void Session::begin(bool ignore_stop_tokens) {
  // The last token is computed again even if it is cached: its hidden state is needed.
  keep_cached(ids_.size() - 1);
  if (source_ && source_->ids() != input_) read_input();
  abi::StepState& state = *step_.state.as<abi::StepState>();
  state.pos = static_cast<uint32_t>(cached_);
  state.end = static_cast<uint32_t>(ids_.size());
  state.finished = 0;
  state.context = context_;
  state.source = static_cast<uint32_t>(input_.size());
  std::memcpy(step_.history.data(), ids_.data(), ids_.size() * 4);
  write_marks();
  abi::SampleParams params = sample_params();
  params.stop_count = ignore_stop_tokens ? 0 : static_cast<uint32_t>(stop_ids_.size());
  std::copy(stop_ids_.begin(), stop_ids_.end(), params.stop_ids);
  *step_.params.as<abi::SampleParams>() = params;
}

// The biases, and what the penalties need to know of the context. Mapped memory may be slow to read: written in one go.
void Session::write_marks() {
  const uint32_t vocab = model_.config.vocab;
  std::vector<uint32_t> bits(MARK_COUNTS(vocab));
  for (const uint32_t id : ids_) bits[id / 32] |= 1u << (id % 32);
  std::memcpy(step_.marks.data(), bits.data(), bits.size() * 4);
  if (!biases_.empty()) {
    std::vector<float> all(vocab);
    for (const auto& [id, bias] : biases_) all[id] = bias;
    std::memcpy(step_.marks.as<float>() + MARK_BIASES(vocab), all.data(), all.size() * 4);
  }
  if (sampling_.presence_penalty == 0 && sampling_.frequency_penalty == 0) return;
  std::vector<uint32_t> counts(vocab);
  for (size_t i = prompt_end_; i < ids_.size(); ++i) ++counts[ids_[i]];
  std::memcpy(step_.marks.as<uint32_t>() + MARK_COUNTS(vocab), counts.data(), counts.size() * 4);
}

abi::SampleParams Session::sample_params() const {
  const Sampling& s = sampling_;
  abi::SampleParams params = {};
  params.inverse_temperature = s.temperature > 0 ? 1 / s.temperature : 0;
  params.top_k = s.top_k;
  params.top_p = s.top_p;
  params.log_min_p = s.min_p > 0 ? std::log(s.min_p) : -1e30f;
  params.repeat_penalty = s.repeat_penalty;
  params.seed_low = static_cast<uint32_t>(s.seed);
  params.seed_high = static_cast<uint32_t>(s.seed >> 32);
  params.soft_cap = model_.config.logit_cap;
  params.presence_penalty = s.presence_penalty;
  params.frequency_penalty = s.frequency_penalty;
  params.typical_p = s.typical_p;
  params.biased = biases_.empty() ? 0 : 1;
  // A negative penalty rewards. How often a token comes has no limit.
  params.most_added = s.frequency_penalty < 0 ? 3.4e38f : most_bias_ + std::max(-s.presence_penalty, 0.0f);
  params.logprobs = logprob_count_;
  set_cut(params);
  return params;
}

// Which rows the choice of a token depends on (abi.h). Under top-p or typical-p alone the tail's mass counts, so every
// row does.
void Session::set_cut(abi::SampleParams& params) const {
  const Sampling& s = sampling_;
  if (s.temperature == 0) {
    params.cut_rank = 1;
  } else if (s.top_k > 0) {
    params.cut_rank = s.top_k;
  } else if (s.top_p < 1 || s.typical_p < 1) {
    params.cut_rank = 0;
  } else if (s.min_p > 0) {
    params.cut_rank = 1;
    params.cut_margin = -params.log_min_p;
  } else {
    params.cut_rank = 1;
    params.cut_noise = 1;
  }
  params.fast_rows = head_.mode == Head::Mode::fast ? head_.fast_rows : 0;
}

void Session::read_input() {
  source_->read(input_);
  stats_.prompt_tokens += input_.size();
}

void Session::need_head_buffers() {
  if (head_buffers_) return;
  if (model_.weights.logit_bias)
    throw Error(Code::unsupported, "the model adds a bias to each logit", "head", "only the head full can");
  head_buffers_ = std::make_unique<HeadBuffers>(model_.device, model_.weights.head());
  step_.state.as<abi::StepState>()->head = {};
}

void Session::set_head(Head head) {
  if (head.keep) check_ids(*head.keep, SIZE_MAX);
  if (head.mode != Head::Mode::full || head.keep) need_head_buffers();
  head_ = std::move(head);
}

void Session::set_matcher(std::unique_ptr<Matcher> matcher) {
  if (matcher) need_head_buffers();
  matcher_ = std::move(matcher);
}

// Writes what the head needs for the coming tokens. Nothing may be in flight.
TailHead Session::begin_head() {
  const uint32_t vocab = model_.config.vocab;
  positions_ = vocab;
  kept_.clear();
  // Log-probabilities take every row that may be chosen.
  const bool estimates = head_.mode != Head::Mode::full && logprob_count_ == 0;
  partial_ = estimates || head_.keep || matcher_;
  if (!estimates && !head_.keep) return {nullptr, {}, logprob_count_ > 0};
  TailHead tail = {head_buffers_.get(), {}, logprob_count_ > 0};
  tail.shapes.estimates = estimates;
  if (head_.keep) {
    kept_ids_ = *head_.keep;
    if (head_.keep_prompt) {
      kept_ids_.insert(kept_ids_.end(), ids_.begin(), ids_.end());
      std::sort(kept_ids_.begin(), kept_ids_.end());
      kept_ids_.erase(std::unique(kept_ids_.begin(), kept_ids_.end()), kept_ids_.end());
    }
    write_kept();
    positions_ = kept_ids_.size();
    tail.shapes.listed = true;
    kept_.resize((size_t{vocab} + 31) / 32);
    for (const uint32_t id : kept_ids_) kept_[id / 32] |= 1u << (id % 32);
  }
  step_.state.as<abi::StepState>()->head.positions = static_cast<uint32_t>(positions_);
  return tail;
}

void Session::write_kept() { std::memcpy(head_buffers_->choice.data(), kept_ids_.data(), kept_ids_.size() * 4); }

void Session::write_mask(std::span<const uint32_t> bits) {
  uint32_t* const mask = head_buffers_->choice.as<uint32_t>() + model_.config.vocab;
  const size_t words = (size_t{model_.config.vocab} + 31) / 32, given = std::min(words, bits.size());
  std::copy_n(bits.begin(), given, mask);
  std::fill(mask + given, mask + words, 0u);  // rows that no token has
}

// The head for the next token: as it is, or restricted to what the grammar allows. Nothing may be in flight.
TailHead Session::next_head(const TailHead& head) {
  if (!matcher_) return head;
  const TokenSet& allowed = matcher_->allowed();
  const auto kept = [&](uint32_t id) { return kept_.empty() || (kept_[id / 32] >> (id % 32) & 1) != 0; };
  TailHead next = {head_buffers_.get(), head.shapes, head.logprobs};
  if (allowed.count > TokenSet::kMaxListed) {
    write_mask(allowed.bits);
    next.shapes.masked = true;
    if (next.shapes.listed) write_kept();  // a short list may have been there since
    positions_ = next.shapes.listed ? kept_ids_.size() : model_.config.vocab;
  } else {  // few: only their rows are read
    uint32_t* const listed = head_buffers_->choice.as<uint32_t>();
    uint32_t* const end = std::copy_if(allowed.ids.begin(), allowed.ids.end(), listed, kept);
    if (end == listed)
      throw Error(Code::invalid_argument,
                  "after token " + std::to_string(ids_.size()) + " the keep-list has none of the " +
                      std::to_string(allowed.count) + " tokens that the grammar allows",
                  "head", "keep more tokens");
    positions_ = static_cast<uint64_t>(end - listed);
    next.shapes = {.estimates = false, .listed = true, .masked = false};
  }
  step_.state.as<abi::StepState>()->head.positions = static_cast<uint32_t>(positions_);
  return next;
}

// Returns the bytes of the table that were read for a token; lanes: sessions a whole table was read for at once.
double Session::count_head(const abi::RingEntry& entry, uint32_t lanes) {
  const Matrix& table = model_.weights.head().matrix();
  HeadCounts counts = {HEAD_ALL, positions_, 0, 0, table.rows};
  if (partial_) counts = {ENTRY_MODE(entry.flags), positions_, entry.refined, ENTRY_REST(entry.flags), entry.exact};
  ++stats_.head_tokens;
  const double bytes = counts.bytes(table) / (partial_ ? 1 : lanes);
  stats_.head_bytes += bytes;
  stats_.head_rows += counts.exact;
  stats_.head_refined += counts.refined;
  stats_.head_uncertain += ENTRY_UNCERTAIN(entry.flags);
  return bytes;
}

Tail Session::sampling_tail() const {
  const Sampling& s = sampling_;
  const bool plain = s.repeat_penalty == 1 && s.presence_penalty == 0 && s.frequency_penalty == 0 && biases_.empty();
  return s.temperature == 0 && plain ? Tail::greedy : Tail::sampled;
}

// Submits the pending tokens, the last pass with the given tail. False if it was cancelled between passes: then what is
// done stays in the cache.
bool Session::run_prompt(Tail tail, const TailHead& head, bool cancellable) {
  size_t pending = ids_.size() - cached_;
  while (pending > schedule_.chunk_tokens()) {
    if (cancellable && cancelled_.load(std::memory_order_relaxed)) return false;
    schedule_.submit(schedule_.chunk_tokens(), Tail::none);
    pending -= schedule_.chunk_tokens();
    cached_ += schedule_.chunk_tokens();
    written_ = std::max(written_, cached_);
  }
  written_ = std::max(written_, ids_.size());
  schedule_.submit(pending == 1 ? 1 : schedule_.chunk_tokens(), tail, head);
  return true;
}

std::optional<Stop> Session::start(Run& run, uint32_t max_tokens, bool ignore_stop_tokens, bool in_batch) {
  require(!ids_.empty(), "generate", "the session has no prompt");
  // A token more must fit: what was appended last may have filled the context.
  if (ids_.size() >= context_) return Stop::context;
  if (cancelled_.exchange(false)) return Stop::caller;
  run.begin = run.first_token = Clock::now();
  begin(ignore_stop_tokens);
  run.tail = sampling_tail();
  run.head = begin_head();
  if (matcher_ && matcher_->finished()) return Stop::grammar;
  run.fresh = ids_.size() - cached_;
  const size_t room = context_ - ids_.size();
  run.wanted = max_tokens == 0 ? room : std::min<size_t>(max_tokens, room);
  run.at_end = max_tokens != 0 && run.wanted == max_tokens ? Stop::length : Stop::context;
  if (in_batch && run.fresh == 1) return std::nullopt;
  if (!run_prompt(run.tail, next_head(run.head), true)) {
    schedule_.wait_all();
    return Stop::caller;
  }
  run.submitted = 1;
  return std::nullopt;
}

std::optional<Stop> Session::receive(Run& run, uint32_t lanes, const std::function<bool(uint32_t id)>& on_token) {
  const abi::RingEntry entry = step_.ring.as<abi::RingEntry>()[ids_.size() % RING];
  stats_.readback_bytes += sizeof entry;
  if (ENTRY_FINISHED(entry.flags) == FINISH_NOT_FINITE)
    throw Error(Code::internal, "no logit is a finite number after token " + std::to_string(ids_.size()), "project",
                "the model's weights may be damaged, or too large for f16");
  cached_ = ids_.size();
  if (run.head.logprobs) read_logprobs();
  ids_.push_back(entry.id);
  if (run.timed == run.received) {
    collect_times();
    run.timed = Run::kNone;
  }
  const double head_bytes = count_head(entry, lanes);
  if (run.received == 0) {
    run.first_token = Clock::now();
    run.cpu_begin = thread_cpu_seconds();
  } else {
    ++stats_.decoded_tokens;
    stats_.decode_bytes += body_bytes_at(ids_.size(), lanes) + head_bytes;
  }
  ++run.received;
  if (matcher_) matcher_->accept(entry.id);
  const double before = thread_cpu_seconds();
  const bool go_on = on_token(entry.id);
  run.cpu_callbacks += thread_cpu_seconds() - before;
  if (ENTRY_FINISHED(entry.flags) == FINISH_STOP) return Stop::token;
  if (matcher_ && matcher_->finished()) return Stop::grammar;
  if (!go_on || cancelled_.load(std::memory_order_relaxed)) return Stop::caller;
  if (run.received == run.wanted) return run.at_end;
  return std::nullopt;
}

void Session::finish(const Run& run) {
  stats_.prompt_tokens += run.fresh;
  const auto seconds = [](Clock::duration span) { return std::chrono::duration<double>(span).count(); };
  stats_.first_token_seconds = seconds(run.first_token - run.begin);
  stats_.prompt_seconds += stats_.first_token_seconds;
  if (run.received < 2) return;
  stats_.decode_seconds += seconds(Clock::now() - run.first_token);
  stats_.decode_cpu_seconds += thread_cpu_seconds() - run.cpu_begin - run.cpu_callbacks;
}

void Session::note_submitted(Run& run) {
  ++run.submitted;
  written_ = std::max(written_, ids_.size() - run.received + run.submitted - 1);
}

Stop Session::generate(uint32_t max_tokens, bool ignore_stop_tokens, const std::function<bool(uint32_t id)>& on_token) {
  Run run;
  const ClearAtEnd clear_cancel{cancelled_};  // one that came too late is not the next generate's
  // What a grammar allows is known only when the token before is.
  const uint32_t run_ahead = matcher_ ? 0 : schedule_.flights().run_ahead(),
                 every = model_.device->plan().profile_every;
  try {
    if (const std::optional<Stop> stop = start(run, max_tokens, ignore_stop_tokens, false)) return *stop;
    for (;;) {
      while (run.submitted < run.wanted && run.submitted - run.received <= run_ahead) {
        // Not the first few: they may compile. One at a time: the timestamps are the schedule's own.
        const bool time = every && run.timed == Run::kNone && run.submitted % every == 2;
        if (time) run.timed = run.submitted;
        schedule_.submit(1, run.tail, next_head(run.head), time);
        note_submitted(run);
      }
      while (schedule_.in_flight() > run.submitted - run.received - 1) schedule_.wait_oldest();
      if (const std::optional<Stop> stop = receive(run, 1, on_token)) {
        finish(run);  // tokens that were submitted in vain are waited for behind the clock
        schedule_.wait_all();
        return *stop;
      }
    }
  } catch (...) {
    come_to_rest();
    throw;
  }
}

// Of the token that comes next in ids_.
void Session::read_logprobs() {
  const abi::TokenLogprobs& entry = step_.logprobs.as<abi::TokenLogprobs>()[ids_.size() % RING];
  stats_.readback_bytes += sizeof entry;
  logprobs_.chosen = entry.chosen;
  logprobs_.likeliest.clear();
  for (uint32_t i = 0; i < std::min<uint32_t>(entry.count, MAX_LOGPROBS); ++i)
    logprobs_.likeliest.emplace_back(entry.ids[i], entry.logprobs[i]);
}

// After a failure (the callback's too): nothing may be in flight when the buffers are written again.
void Session::come_to_rest() noexcept {
  try {
    schedule_.wait_all();
  } catch (const Error&) {
    cached_ = 0;
  }
}

void Session::collect_times() {
  ++stats_.sampled_tokens;
  stats_.gap_seconds += schedule_.read_gaps();
  for (const Timestamps::Stage& stage : schedule_.read_times()) {
    const auto found = std::find_if(stats_.stages.begin(), stats_.stages.end(),
                                    [&](const Timestamps::Stage& known) { return known.name == stage.name; });
    if (found == stats_.stages.end())
      stats_.stages.push_back(stage);
    else
      found->seconds += stage.seconds;
  }
}

// Keys and values that a token there sees.
double Session::cache_bytes_at(size_t position) const {
  double cache = 0;
  for (size_t i = 0; i < cache_.layers.size(); ++i) {
    const ops::CacheView& layer = cache_.layers[i];
    const uint32_t window = model_.config.positions[i].window;
    const uint64_t seen = window ? std::min<uint64_t>(position, window) : position;
    cache += static_cast<double>((layer.keys.bytes + layer.values.bytes) / layer.capacity * (seen + input_.size()));
  }
  return cache;
}

// Read for a token but for its logits, when the weights are read for so many sessions at once.
double Session::body_bytes_at(size_t position, uint32_t lanes) const {
  return static_cast<double>(model_.bytes_per_token() - model_.weights.head().buffer().bytes()) / lanes +
         cache_bytes_at(position);
}

std::vector<float> Session::score(std::span<const uint32_t> ids) {
  if (source_)
    throw Error(Code::unsupported, "the family '" + model_.config.family + "' writes answers to a text", "model",
                "how likely a text alone is it cannot tell");
  require(ids.size() >= 2, "score", "at least two tokens are needed, there are " + std::to_string(ids.size()));
  check_ids(ids, context_);
  ids_.assign(ids.begin(), ids.end());
  prompt_end_ = ids_.size();
  cached_ = 0;
  begin(true);
  begin_head();
  const HeadBuffers* const masked = kept_.empty() ? nullptr : head_buffers_.get();
  if (masked) write_mask(kept_);
  try {
    written_ = ids.size();
    for (size_t done = 0; done < ids.size(); done += schedule_.chunk_tokens()) schedule_.submit_score(masked);
    schedule_.wait_all();
  } catch (...) {
    come_to_rest();
    throw;
  }
  cached_ = ids_.size();
  const float* nll = schedule_.nll().as<float>();
  stats_.readback_bytes += (ids.size() - 1) * 4;
  return {nll, nll + ids.size() - 1};
}

std::vector<float> Session::logits() {
  require(!ids_.empty(), "logits", "the session has no prompt");
  begin(true);
  try {
    run_prompt(Tail::logits, {}, false);
    schedule_.wait_all();
  } catch (...) {
    come_to_rest();
    throw;
  }
  cached_ = ids_.size();
  std::vector<float> values =
      download_as<float>(model_.device, activations_.logits.part(0, uint64_t{model_.config.vocab} * 4));
  for (float& value : values) value = soft_capped(value, model_.config.logit_cap);
  return values;
}

std::vector<TokenLogit> Session::head_logits() {
  require(!ids_.empty(), "head_logits", "the session has no prompt");
  begin(true);
  const TailHead head = next_head(begin_head());
  try {
    run_prompt(Tail::logits, head, false);
    schedule_.wait_all();
  } catch (...) {
    come_to_rest();
    throw;
  }
  cached_ = ids_.size();
  std::vector<float> values =
      download_as<float>(model_.device, activations_.logits.part(0, uint64_t{model_.config.vocab} * 4));
  for (float& value : values) value = soft_capped(value, model_.config.logit_cap);
  std::vector<TokenLogit> result;
  if (!head.partial) {
    for (uint32_t id = 0; id < values.size(); ++id) result.push_back({id, values[id]});
    return result;
  }
  const uint32_t vocab = model_.config.vocab, count = step_.state.as<abi::StepState>()->head.exact_count;
  if (count == 0) return result;
  const std::vector<uint32_t> ids =
      download_as<uint32_t>(model_.device, View(head.partial->lists).part(uint64_t{LIST_IDS(vocab)} * 4, count * 4));
  for (uint32_t i = 0; i < count; ++i) result.push_back({ids[i], values[i]});
  return result;
}

void Session::reset() {
  ids_.clear();
  prompt_end_ = 0;
  input_.clear();
  cached_ = 0;
  stats_ = {};
}

}  // namespace weft
