#include "session/session.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <utility>

#include "base/error.h"
#include "session/generation.h"

namespace weft {
namespace {

const Model& checked(const Model& model) {
  if (model.config.layer_kind.sees_all)
    throw Error(Code::unsupported, "the family '" + model.config.family + "' reads texts and writes none", "model",
                "weft embed and weft fill use it");
  if (model.config.tied == false && !model.weights.separate_output)
    throw Error(Code::unsupported, "it has no output table: it makes embeddings and writes no texts", "model",
                "weft embed uses it");
  return model;
}

}  // namespace

Session::OnDevice::OnDevice(const Model& model, uint32_t context, const ops::CacheFormat& format,
                            const StatePlace& place, Policy policy, Duty& duty)
    : activations(model, model.device->plan().chunk_tokens),
      kept(model, context, format, place),
      step(model, context, context),
      source(model.weights.encoder ? std::make_unique<Source>(model, context, format, policy, duty) : nullptr),
      head(model, step),
      schedule({model, activations, step, kept.state(), 1, source ? &source->cache() : nullptr}, policy, duty) {}

Session::Session(const Model& model, uint32_t context, std::vector<uint32_t> stop_ids, const ops::CacheFormat& cache,
                 Policy policy, Duty* duty, StatePlace place)
    : model_(checked(model)),
      context_(context),
      policy_(policy),
      cache_format_(cache),
      place_(std::move(place)),
      duty_(duty ? duty : &own_duty_),
      on_device_(std::make_unique<OnDevice>(model, context, cache, place_, policy, *duty_)),
      sampling_(model.config, std::move(stop_ids)) {}

Session::~Session() = default;

Session::OnDevice& Session::on_device() const {
  if (!on_device_)
    throw Error(Code::device_lost, "the device was lost", "session", "weft_model_recover opens it again");
  return *on_device_;
}

void Session::leave_device() {
  if (!on_device_) return;
  left_head_ = on_device_->head.head();
  if (drafter_) drafter_->leave_device();
  measured_.reset();
  on_device_.reset();
}

void Session::enter_device() {
  auto made = std::make_unique<OnDevice>(model_, context_, cache_format_, place_, policy_, *duty_);
  made->head.set(left_head_);
  made->soft_written = soft_.empty();
  if (adapter_) record_adapter(*made, adapter_);
  if (matcher_) made->head.prepare_grammar();
  on_device_ = std::move(made);
}

void Session::set_adapter(const Adapter* adapter) {
  require(!adapter || &adapter->model() == &model_, "adapter", "it is for another model");
  if (adapter == adapter_) return;
  record_adapter(on_device(), adapter);
  adapter_ = adapter;
  on_device().kept.forget();
}

void Session::record_adapter(OnDevice& device, const Adapter* adapter) const {
  Buffer scratch;
  if (adapter)
    scratch = Buffer(model_.device, "adapter scratch",
                     uint64_t{most_pass_tokens(model_.config, model_.device->plan())} * adapter->rank() * sizeof(float),
                     Memory::device);
  std::swap(device.adapter_scratch, scratch);  // before the recording, which keeps the buffer's address
  try {
    device.schedule.set_adapter({adapter, adapter ? View(device.adapter_scratch) : View()});
  } catch (...) {
    std::swap(device.adapter_scratch, scratch);
    throw;
  }
}

size_t Session::computed_tokens() const { return on_device_ ? std::min(cached(), ids_.size()) : 0; }

uint64_t Session::kv_bytes() const {
  if (!on_device_) return 0;
  return on_device().kept.bytes() + (on_device().source ? on_device().source->cache().bytes() : 0);
}

uint64_t Session::scratch_bytes() const {
  if (!on_device_) return 0;
  const OnDevice& d = *on_device_;
  return d.schedule.picture_bytes() + d.soft_rows.bytes() + d.adapter_scratch.bytes() + d.activations.bytes() +
         d.step.bytes() + d.kept.state().scratch_bytes() + d.head.bytes() +
         (d.source ? d.source->scratch_bytes() + d.source->cache().scratch_bytes() : 0);
}

void Session::set_sampling(const Sampling& sampling) {
  SettingsChange change;
  change.sampling = sampling;
  this->change(std::move(change));
}

void Session::set_logprobs(uint32_t count) {
  sampling_.set_logprobs(count);
  logprobs_ = {};
}

void Session::set_matcher(std::unique_ptr<TokenRules> matcher) {
  if (matcher) on_device().head.prepare_grammar();
  matcher_ = std::move(matcher);
}

void Session::set_drafter(std::unique_ptr<Drafter> drafter) {
  SettingsChange change;
  change.drafter = std::move(drafter);
  this->change(std::move(change));
}

void Session::change(SettingsChange change) {
  SamplingSetup sampling = sampling_;
  if (change.sampling) sampling.set(*change.sampling);
  if (change.biases) sampling.set_biases(change.biases->ids, change.biases->values);
  if (change.logprobs) sampling.set_logprobs(*change.logprobs);
  std::optional<VocabHeadSetup::Prepared> head;
  if (change.head) head = on_device().head.prepare(std::move(*change.head));
  if (change.matcher && *change.matcher) on_device().head.prepare_grammar();
  const bool guesses = change.drafter && *change.drafter;
  if (guesses) {
    model_.weights.need_all_rows("guessing ahead");
    model_.need_plain_head("guessing ahead");
  }
  const bool other_kernels = !change.drafter && drafter_ && sampling.tail() != sampling_.tail();
  if (on_device_ && (guesses || other_kernels)) on_device_->schedule.prepare_checks(sampling.tail());
  // Nothing throws from here on.
  sampling_ = std::move(sampling);
  if (change.logprobs) logprobs_ = {};
  if (head) on_device().head.set(std::move(*head));
  if (change.matcher) matcher_ = std::move(*change.matcher);
  if (change.drafter) drafter_ = std::move(*change.drafter);
  if (guesses && drafter_->learns_costs()) measure_costs();
}

void Session::prompt(std::span<const uint32_t> ids, std::span<const uint32_t> begun) {
  require(!ids.empty(), "prompt", "it has no token");
  require(on_device().source || begun.empty(), "begun", "the model has no encoder that reads the prompt");
  if (!on_device().source) {
    check_ids(ids, model_.config.vocab, context_ - 1);  // one more token must have room
    return set_context(ids);
  }
  if (model_.config.hears())
    throw Error(Code::unsupported, "the family '" + model_.config.family + "' hears sound and reads no text", "prompt",
                "weft listen uses it");
  check_ids(ids, model_.config.vocab, context_);
  std::vector<uint32_t> context = {model_.config.start_token};
  context.insert(context.end(), begun.begin(), begun.end());
  check_ids(context, model_.config.vocab, context_ - 1);
  if (!std::ranges::equal(ids, input_)) on_device().kept.forget();  // it was computed for another input
  input_.assign(ids.begin(), ids.end());
  set_context(context);
}

void Session::prompt_sound(std::shared_ptr<const std::vector<float>> frames, std::span<const uint32_t> ids) {
  require(model_.config.hears(), "prompt_sound", "the model reads text");
  require(!ids.empty(), "prompt", "it has no token");
  check_ids(ids, model_.config.vocab, context_ - 1);
  if (sound_ != frames) on_device().kept.forget();  // it was computed for another input
  sound_ = std::move(frames);
  set_context(ids);
}

void Session::append(std::span<const uint32_t> ids) {
  require(!ids_.empty(), "append", "the session has no prompt");
  check_ids(ids, model_.config.vocab, context_ - 1 - std::min<size_t>(ids_.size(), context_ - 1));
  ids_.insert(ids_.end(), ids.begin(), ids.end());
}

void Session::drop_last() {
  require(ids_.size() > prompt_end_ && !matcher_, "drop_last", "there is no generated token, or there is a grammar");
  if (on_device_ && cached() == ids_.size()) on_device_->kept.truncate(ids_.size() - 1);
  ids_.pop_back();
}

void Session::set_context(std::span<const uint32_t> ids, std::span<const float> soft,
                          std::span<const PlacedPicture> pictures) {
  KeptContext& kept = on_device().kept;
  const size_t common = same_grids(pictures_, pictures, common_prefix(ids_, soft_, ids, soft, soft_width()));
  kept.truncate(std::min(
      {whole_pictures(model_.config, ids_, common), whole_pictures(model_.config, ids, common), ids.size() - 1}));
  stats_.reused_tokens += kept.tokens();
  std::vector<uint32_t> copy(ids.begin(), ids.end());  // what may fail comes first: ids and rows belong together
  set_soft(soft, pictures);
  ids_ = std::move(copy);
  prompt_end_ = ids_.size();
  if (matcher_) matcher_->reset();
}

size_t Session::copy_prefix(const Session& from) {
  require(!ids_.empty(), "copy_prefix", "the session has no prompt");
  require(&from.model_ == &model_ && from.context_ == context_ && from.cache_format_ == cache_format_, "copy_prefix",
          "the sessions differ in their model, context or type of cache");
  KeptContext& kept = on_device().kept;
  if (on_device().source || &from == this || from.adapter_ != adapter_) return kept.tokens();
  const size_t common = same_grids(pictures_, from.pictures_,
                                   common_prefix(ids_, soft_, from.ids_, from.soft_, soft_width())),
               before = kept.tokens();
  kept.copy_prefix(from.on_device().kept,
                   std::min({whole_pictures(model_.config, ids_, common),
                             whole_pictures(model_.config, from.ids_, common), ids_.size() - 1}));
  stats_.reused_tokens += kept.tokens() - before;
  return kept.tokens();
}

// Has the encoder read the input, if it has not.
void Session::read_source() {
  Source* const source = on_device().source.get();
  if (!source || (sound_ ? source->heard() == sound_.get() : source->ids() == input_)) return;
  if (sound_)
    source->hear(sound_);
  else
    source->read(input_);
  stats_.prompt_tokens += source_positions();
}

// Writes the session's state to the device, and gives the tail that draws the next tokens. Nothing may be in flight.
Tail Session::begin(bool ignore_stop_tokens) {
  // The last token is computed again even if it is cached: its hidden state is needed.
  on_device().kept.truncate(ids_.size() - 1);
  on_device().schedule.forget_check();
  read_source();
  write_soft();
  write_positions();
  const StepState& state = on_device().step.state;
  state.begin(cached(), ids_.size());
  state.set_source(source_positions());
  std::memcpy(on_device().step.history.data(), ids_.data(), ids_.size() * 4);
  sampling_.write(on_device().step, ids_, prompt_end_, ignore_stop_tokens);
  Tail tail = {sampling_.tail(), nullptr, {}, sampling_.logprobs() > 0};
  on_device().head.begin(tail, ids_);
  return tail;
}

// The tail for the next token: as it is, or restricted to what the grammar allows. Nothing may be in flight.
Tail Session::next_tail(const Tail& tail) {
  if (!matcher_) return tail;
  require(!matcher_->finished(), "grammar", "the text is complete: no token may follow");
  Tail restricted = on_device().head.allow(tail, matcher_->allowed(), ids_.size());
  restricted.timestamps = matcher_->timestamps();
  return restricted;
}

// True if more than one pass is left of the prompt.
bool Session::more_than_a_pass() const {
  const OnDevice& d = on_device();
  return ids_.size() - cached() > d.schedule.chunk_tokens() || pending_picture() ||
         d.kept.next_checkpoint(ids_, sampling_.stop_ids()) < ids_.size();
}

// Submits a pass of the first pending tokens, of which there are more. It ends where a checkpoint is due or a picture
// begins.
void Session::run_chunk() {
  OnDevice& d = on_device();
  const std::optional<TokenRange> picture = pending_picture();
  if (picture && picture->begin <= cached()) return run_picture(*picture);
  const size_t checkpoint = d.kept.next_checkpoint(ids_, sampling_.stop_ids());
  const size_t due = std::min(checkpoint, picture ? picture->begin : ids_.size());
  const size_t to = std::min(cached() + d.schedule.chunk_tokens(), due);
  d.kept.will_write(to);  // before it may fail: a part of the pass may have run then
  if (due == ids_.size()) {
    d.schedule.submit(d.schedule.chunk_tokens(), {Tail::Kind::none});
    return d.kept.set_tokens(to);
  }
  d.schedule.wait_all();
  d.step.state.end_at(to);
  d.schedule.submit(d.schedule.chunk_tokens(), {Tail::Kind::none});
  d.schedule.wait_all();
  d.step.state.end_at(ids_.size());
  d.kept.set_tokens(to);
  if (to == checkpoint) d.kept.add_checkpoint(to);
}

// Submits the pending tokens, the last pass with the given tail. False if go_on() said so before a pass: then what is
// done stays in the cache.
bool Session::run_prompt(const Tail& tail, const std::function<bool()>& go_on) {
  OnDevice& d = on_device();
  while (more_than_a_pass()) {
    if (!go_on()) return false;
    run_chunk();
  }
  d.kept.will_write(ids_.size());
  d.schedule.submit(ids_.size() - cached() == 1 ? 1 : d.schedule.chunk_tokens(), tail);
  d.kept.add_checkpoint(ids_.size());
  return true;
}

// Does work that computes the whole context.
template <class Work>
void Session::run(const Work& work) {
  try {
    work();
    on_device().schedule.wait_all();
  } catch (...) {
    drain();
    throw;
  }
  on_device().kept.set_tokens(ids_.size());
}

// After a failure, a callback's too: nothing may be in flight when the buffers are written again.
void Session::drain() noexcept {
  try {
    on_device().schedule.wait_all();
  } catch (...) {
    if (on_device_) on_device_->kept.forget();
  }
}

Stop Session::generate(uint32_t max_tokens, bool ignore_stop_tokens, const OnToken& on_token) {
  return Generation(*this, max_tokens, ignore_stop_tokens, on_token).run();
}

void Session::prepare_guesses(MedusaHeads& heads) {
  heads.commands(on_device().schedule.last_state(), on_device().step.state);
}

std::span<const abi::Guess> Session::guess(MedusaHeads& heads) {
  Schedule& schedule = on_device().schedule;
  schedule.submit_commands(heads.commands(schedule.last_state(), on_device().step.state));
  schedule.wait_all();
  stats_.readback_bytes += heads.guesses().size_bytes();
  return heads.guesses();
}

void Session::prepare_guesses(AssistantNetwork& drafter) {
  drafter.take(on_device().schedule.last_state());
  drafter.guess(kMostDrafted, on_device().kept.state());
}

std::span<const abi::Guess> Session::guess(AssistantNetwork& drafter, uint32_t count) {
  Schedule& schedule = on_device().schedule;
  drafter.begin(ids_.back(), ids_.size() - 1);
  schedule.submit_commands(drafter.take(schedule.last_state()));
  schedule.submit_commands(drafter.guess(count, on_device().kept.state()));
  schedule.wait_all();
  stats_.readback_bytes += drafter.guesses(count).size_bytes();
  return drafter.guesses(count);
}

// Bytes of the states that a token at this position reads.
double Session::cache_bytes_at(size_t position) const {
  double bytes = 0;
  for (const LayerState& layer : on_device().kept.state().layers)
    bytes += std::visit([&](const auto& state) { return state.bytes_read(position, source_positions()); }, layer);
  return bytes;
}

std::vector<float> Session::score(std::span<const uint32_t> ids) {
  if (on_device().source)
    throw Error(Code::unsupported, "the family '" + model_.config.family + "' writes answers to a text", "model",
                "how likely a text alone is it cannot tell");
  require(ids.size() >= 2, "score", "at least two tokens are needed, there are " + std::to_string(ids.size()));
  check_ids(ids, model_.config.vocab, context_);
  ids_.assign(ids.begin(), ids.end());
  set_soft({});
  prompt_end_ = ids_.size();
  on_device().kept.forget();
  if (matcher_) matcher_->reset();
  if (!model_.weights.shards.empty()) return score_each();
  begin(true);
  const PartialHeadBuffers* const masked = on_device().head.mask_kept();
  run([&] {
    on_device().kept.will_write(ids.size());
    for (size_t done = 0; done < ids.size(); done += on_device().schedule.chunk_tokens())
      on_device().schedule.submit_score(masked);
  });
  const float* nll = on_device().schedule.nll().as<float>();
  stats_.readback_bytes += (ids.size() - 1) * 4;
  return {nll, nll + ids.size() - 1};
}

// The same for a table on several devices, which project one state at a time: a pass for each token.
std::vector<float> Session::score_each() {
  std::vector<uint32_t> all = std::move(ids_);
  struct Restore {  // also where a pass fails
    std::vector<uint32_t>&ids, &all;
    ~Restore() { ids = std::move(all); }
  } const restore = {ids_, all};
  std::vector<float> nll;
  for (size_t i = 1; i < all.size(); ++i) {
    ids_.assign(all.begin(), all.begin() + static_cast<ptrdiff_t>(i));
    const std::vector<float> values = logits();
    const double peak = *std::ranges::max_element(values);
    double sum = 0;
    for (const float value : values) sum += std::exp(value - peak);
    nll.push_back(static_cast<float>(peak + std::log(sum) - double{values[all[i]]}));
  }
  return nll;
}

// Logits of the next token, as many as the vocabulary has; of a partial head, the first are those of its list.
std::vector<float> Session::compute_logits(Tail tail) {
  tail.kind = Tail::Kind::logits;
  run([&] { run_prompt(tail, [] { return true; }); });
  const View logits = on_device().activations.logits.part(0, uint64_t{model_.config.vocab} * 4);
  std::vector<float> values = duty_->run([&] { return download_as<float>(model_.device, logits); });
  for (float& value : values) value = model_.config.soft_capped(value);
  return values;
}

std::vector<float> Session::logits() {
  require(!ids_.empty(), "logits", "the session has no prompt");
  begin(true);
  return compute_logits({});
}

std::vector<TokenLogit> Session::head_logits() {
  require(!ids_.empty(), "head_logits", "the session has no prompt");
  const Tail tail = next_tail(begin(true));
  const std::vector<float> values = compute_logits(tail);
  std::vector<TokenLogit> result;
  if (!tail.partial || !model_.weights.shards.empty()) {
    // With several devices, rows that a partial head did not compute are -infinity.
    const float none = model_.config.soft_capped(-std::numeric_limits<float>::infinity());
    for (uint32_t id = 0; id < values.size(); ++id)
      if ((!tail.mask || tail.mask->as<float>()[id] == 0) && (!tail.partial || values[id] != none))
        result.push_back({id, values[id]});
    return result;
  }
  const uint32_t vocab = model_.config.vocab, count = on_device().step.state.head().exact_count;
  if (count == 0) return result;
  const std::vector<uint32_t> ids =
      download_as<uint32_t>(model_.device, View(tail.partial->lists).part(uint64_t{LIST_IDS(vocab)} * 4, count * 4));
  for (uint32_t i = 0; i < count; ++i) result.push_back({ids[i], values[i]});
  return result;
}

// Times what submit(tail) submits for the context's last `tokens` tokens.
template <class Submit>
std::vector<PassTimes> Session::time(uint32_t tokens, uint32_t count, const Submit& submit) {
  need_no_picture("timing");
  const size_t first = ids_.size() - tokens;
  Schedule& schedule = on_device().schedule;
  const uint32_t chunk = schedule.chunk_tokens();
  KeptContext& kept = on_device().kept;
  const Tail tail = next_tail(begin(true));
  const StepState& state = on_device().step.state;
  const auto go_to_first = [&] {
    kept.truncate(first);  // keeps fewer tokens if a state cannot go back there
    state.begin(cached(), first);
    for (; cached() < first; kept.set_tokens(std::min(cached() + chunk, first))) {
      kept.will_write(std::min(cached() + chunk, first));
      schedule.submit(chunk, {Tail::Kind::none});
    }
    schedule.wait_all();
  };
  std::vector<PassTimes> times;
  run([&] {
    go_to_first();
    kept.add_checkpoint(first);
    while (times.size() < count) {
      go_to_first();
      kept.will_write(ids_.size());
      state.begin(first, ids_.size());
      const auto start = std::chrono::steady_clock::now();
      submit(tail);
      schedule.wait_all();
      const std::chrono::duration<double> submitted = std::chrono::steady_clock::now() - start;
      times.push_back({schedule.read_times(), schedule.read_gaps(), submitted.count()});
    }
  });
  return times;
}

std::vector<PassTimes> Session::time_passes(uint32_t tokens, uint32_t count) {
  Schedule& schedule = on_device().schedule;
  return time(tokens, count,
              [&](const Tail& tail) { schedule.submit(tokens == 1 ? 1 : schedule.chunk_tokens(), tail, true); });
}

std::vector<PassTimes> Session::time_checks(uint32_t tokens, uint32_t count) {
  const StepBuffers& step = on_device().step;
  return time(tokens, count, [&](const Tail& tail) {
    // The pass before has put its own tokens in the draft's place.
    std::memcpy(step.history.data(), ids_.data(), ids_.size() * 4);
    step.state.begin_check(ids_.size() - (tokens - 1), tokens - 1, 0);
    on_device().schedule.submit_check(tokens, tail, true);
  });
}

void Session::set_blank_context(uint32_t count) {
  reset();
  ids_.assign(size_t{count} + 1, 0);
  prompt_end_ = ids_.size();
  run_once(model_.device, "zeros", [&](Recorder& r) {
    for (const LayerState& layer : on_device().kept.state().layers)
      for (const View& array : arrays_of(layer)) r.fill(array, 0);
  });
  on_device().kept.loaded({count, count, count});
}

void Session::reset() {
  ids_.clear();
  set_soft({});
  prompt_end_ = 0;
  input_.clear();
  sound_.reset();
  if (on_device_) on_device_->kept.forget();
  stats_ = {};
}

}  // namespace weft
