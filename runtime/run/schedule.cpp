#include "run/schedule.h"

#include <utility>

namespace weft {

Schedule::Schedule(const Pass& pass, Policy policy, Duty& duty)
    : pass_(pass),
      chunk_tokens_(pass.model.device->plan().chunk_tokens),
      shards_(pass.model.weights.shards.empty() ? nullptr : std::make_unique<ShardPasses>(pass.model, chunk_tokens_)),
      pool_(pass.model.device),
      queue_(pass.model, policy, {&duty}) {
  if (shards_) pass_.shards = shards_->views();
  // Every kernel of a greedy session is asked for before the first recording waits for one.
  Recorder dry_run(*pass.model.device);
  const Tail greedy[] = {{Tail::Kind::greedy}};
  ask_for_layers(dry_run);
  for (const uint32_t tokens : {1u, chunk_tokens_}) {
    if (shards_)
      record_shard_state(dry_run, pass_of(tokens)), record_own_rows(dry_run, pass_of(tokens), greedy[0]);
    else
      record_tail(dry_run, pass_of(tokens), greedy);
  }
  decode_ = record_body(pool_, pass_of(1));
  chunk_ = record_body(pool_, pass_of(chunk_tokens_));
}

Schedule::~Schedule() = default;  // the fences wait before the pool goes: they are declared after it

Pass Schedule::pass_of(uint32_t tokens) const {
  Pass pass = pass_;
  pass.tokens = tokens;
  return pass;
}

// Asks the device for every kernel of the passes up to the last layer.
void Schedule::ask_for_layers(Recorder& dry_run) const {
  for (const uint32_t tokens : {1u, chunk_tokens_}) record_network(dry_run, pass_of(tokens));
}

void Schedule::set_soft_rows(const View& rows, std::vector<View> deepstack) {
  const bool in_layers = !deepstack.empty() || !pass_.deepstack.empty();
  const auto record = [&](uint32_t tokens) {
    Pass changed = pass_of(tokens);
    changed.soft_rows = rows;
    changed.deepstack = deepstack;
    if (in_layers) return record_body(pool_, changed);
    Recorder embed(pool_, "embed");
    record_embed(embed, changed);
    std::vector<CommandBuffer> first;
    first.push_back(embed.finish());
    return first;
  };
  std::vector<CommandBuffer> decode = record(1), chunk = record(chunk_tokens_);
  std::ranges::move(decode, decode_.begin());
  std::ranges::move(chunk, chunk_.begin());
  timed_.clear();
  last_timed_ = nullptr;
  whole_.reset();
  if (picture_) picture_->pass.body.clear();
  pass_.soft_rows = rows;
  pass_.deepstack = std::move(deepstack);
}

void Schedule::set_adapter(const AdapterUse& adapter) {
  const AdapterUse before = std::exchange(pass_.adapter, adapter);
  try {
    Recorder dry_run(*pass_.model.device);
    ask_for_layers(dry_run);
    std::vector<CommandBuffer> decode = record_body(pool_, pass_of(1)),
                               chunk = record_body(pool_, pass_of(chunk_tokens_));
    decode_ = std::move(decode);
    chunk_ = std::move(chunk);
    whole_.reset();
    if (picture_) picture_->pass.body.clear();
  } catch (...) {
    pass_.adapter = before;
    throw;
  }
  timed_.clear();
  last_timed_ = nullptr;
  if (checks_) checks_->bodies.clear(), checks_->timed.clear();
}

Schedule::End Schedule::record_tail_of(const Key& key, Timestamps* timestamps) {
  const Pass whole = pass_of(key.first);
  const Tail& tail = key.second;
  const auto record = [&](const std::function<void(Recorder&)>& commands) {
    return record_end(pool_, whole, commands, timestamps);
  };
  if (!shards_ || tail.kind == Tail::Kind::none)
    return {{}, {}, record([&](Recorder& r) { record_tail(r, whole, {&tail, 1}); })};
  End end;  // one after the other: the marks of a pass are in its order
  end.state = record([&](Recorder& r) { record_shard_state(r, whole); });
  end.own_rows = record([&](Recorder& r) { record_own_rows(r, whole, tail); });
  end.tail = record([&](Recorder& r) { record_shard_tail(r, whole, tail); });
  return end;
}

std::unique_ptr<Timestamps> Schedule::timestamps_for(uint32_t tokens) const {
  // A layer has nine operations, fourteen with an encoder, seven more with experts; a sliced matrix has a dispatch for
  // each slice, and a product of a chunk may have one for each token.
  const Config& config = pass_.model.config;
  const uint32_t marks = 64 + 16 * (tokens - 1);
  return std::make_unique<Timestamps>(pass_.model.device, marks * (config.layers + 4));
}

const Schedule::Timed& Schedule::timed(const Key& key) {
  if (const auto found = timed_.find(key); found != timed_.end()) return found->second;
  Timed timed;
  timed.timestamps = timestamps_for(key.first);
  timed.body = record_body(pool_, pass_of(key.first), timed.timestamps.get());
  timed.end = record_tail_of(key, timed.timestamps.get());
  return timed_.emplace(key, std::move(timed)).first->second;
}

const CommandBuffer& Schedule::whole_pass(const Key& key) {
  if (!whole_) whole_ = std::make_unique<WholePasses>(pass_.model);
  return whole_->by_key[key].next(
      queue_.most_in_flight_passes(), [&](const CommandBuffer& one) { return queue_.in_flight(one); },
      [&] { return record_whole_pass(key); });
}

CommandBuffer Schedule::record_whole_pass(const Key& key) {
  const Pass pass = pass_of(key.first);
  Recorder dry_run(pool_.device());  // asks for the tail's kernels; those of the layers were asked for
  record_tail(dry_run, pass, {&key.second, 1});
  Recorder recorder(whole_->pool, "pass");
  record_network(recorder, pass);
  record_tail(recorder, pass, {&key.second, 1});
  return recorder.finish(true);
}

void Schedule::submit(uint32_t tokens, const Tail& tail, bool with_times) {
  checked_from_.reset();
  const Key key = {tokens, tail};
  if (!with_times && !shards_ && queue_.takes_whole_passes(tokens)) return queue_.submit(tokens, {}, whole_pass(key));
  const size_t pieces = tokens == 1 ? 2 : 1;
  const std::vector<CommandBuffer>* body = tokens == 1 ? &decode_ : &chunk_;
  const End* end = nullptr;
  if (with_times) {
    last_timed_ = &timed(key);
    body = &last_timed_->body;
    end = &last_timed_->end;
  } else {
    auto found = tails_.find(key);
    if (found == tails_.end()) found = tails_.emplace(key, record_tail_of(key, nullptr)).first;
    end = &found->second;
  }
  if (shards_) return submit_with_shards(key, *body, *end, pieces);
  queue_.submit(tokens, *body, end->tail, pieces);
}

// The host must know the pass's tokens, and the devices' results before it carries them on: it waits between the steps.
void Schedule::submit_with_shards(const Key& key, std::span<const CommandBuffer> body, const End& end, size_t pieces) {
  queue_.drain();
  const StepState& state = pass_.step.state;
  const uint32_t* const ids = pass_.step.history.as<uint32_t>() + state.pos();
  shards_->gather({ids, std::min<size_t>(key.first, state.end() - state.pos())});
  if (key.second.kind == Tail::Kind::none) return queue_.submit(key.first, body, end.tail, pieces);
  queue_.submit(key.first, body, end.state, pieces);
  queue_.submit(0, {}, end.own_rows);
  while (queue_.count() > 1) queue_.wait_oldest();  // the state is there
  shards_->begin_projection(key.second.partial ? &pass_.step : nullptr);
  shards_->end_projection();
  queue_.drain();
  queue_.submit(0, {}, end.tail);
}

Schedule::Checks::Checks(const Pass& session)
    : activations(session.model, kMostDrafted + 1, kMostDrafted + 1),
      masks(session.model.device, "draft masks",
            uint64_t{kMostDrafted + 1} * ((session.model.config.vocab + 31) / 32) * 4, Memory::shared) {
  for (uint32_t i = 0; i <= kMostDrafted; ++i) rows.push_back(activations.rows(i));
  // They refer to the rows, which do not move any more.
  for (uint32_t i = 0; i <= kMostDrafted; ++i)
    by_token.push_back({session.model, rows[i], session.step, session.context, 1});
}

Schedule::Checks& Schedule::checks() {
  if (!checks_) checks_ = std::make_unique<Checks>(pass_);
  return *checks_;
}

std::span<uint32_t> Schedule::draft_masks() {
  const Buffer& masks = checks().masks;
  return {masks.as<uint32_t>(), masks.bytes() / 4};
}

Pass Schedule::check_pass(const CheckedShape& shape) {
  Pass pass = {pass_.model, checks().activations, pass_.step, pass_.context, shape.tokens, pass_.source};
  pass.adapter = pass_.adapter;
  pass.tree = shape.tree;
  return pass;
}

CommandBuffer Schedule::record_check_of(const CheckKey& key, Timestamps* timestamps) {
  const Pass whole = check_pass(key.first);
  return record_end(
      pool_, whole,
      [&](Recorder& r) {
        record_check(r, whole, std::span(checks_->by_token).first(key.first.tokens), {&key.second, 1}, checks_->masks);
      },
      timestamps);
}

void Schedule::prepare_checks(Tail::Kind kind) {
  const Config& config = pass_.model.config;
  std::vector<CheckedShape> shapes;
  for (const uint32_t tokens : kDraftPasses) {
    shapes.push_back({tokens, false});
    if (config.checks_trees()) shapes.push_back({tokens, true});
  }
  Recorder dry_run(pool_.device());  // asks for every kernel before a recording waits for one
  for (const CheckedShape& shape : shapes) {
    const Pass pass = check_pass(shape);
    record_network(dry_run, pass);
    const Tail tail = {kind};
    record_check(dry_run, pass, std::span(checks_->by_token).first(shape.tokens), {&tail, 1}, checks_->masks);
  }
  for (const CheckedShape& shape : shapes) checked_body(shape);
}

const std::vector<CommandBuffer>& Schedule::checked_body(const CheckedShape& shape) {
  const auto found = checks().bodies.find(shape);
  if (found != checks_->bodies.end()) return found->second;
  return checks_->bodies.emplace(shape, record_body(pool_, check_pass(shape))).first->second;
}

const Schedule::Timed& Schedule::timed_check(const CheckKey& key) {
  if (const auto found = checks().timed.find(key); found != checks().timed.end()) return found->second;
  Timed timed;
  timed.timestamps = timestamps_for(key.first.tokens);
  timed.body = record_body(pool_, check_pass(key.first), timed.timestamps.get());
  timed.end.tail = record_check_of(key, timed.timestamps.get());
  return checks_->timed.emplace(key, std::move(timed)).first->second;
}

void Schedule::submit_check(uint32_t tokens, const Tail& tail, bool with_times) {
  const StepState& state = pass_.step.state;
  const CheckKey key = {{tokens, state.checks_tree()}, tail};
  checked_from_ = state.end() - state.drafted();
  if (with_times) {
    last_timed_ = &timed_check(key);
    return queue_.submit(tokens, last_timed_->body, last_timed_->end.tail);
  }
  const std::vector<CommandBuffer>& body = checked_body(key.first);
  auto end = checks_->ends.find(key);
  if (end == checks_->ends.end()) end = checks_->ends.emplace(key, record_check_of(key, nullptr)).first;
  queue_.submit(tokens, body, end->second);
}

Schedule::Picture::Picture(const Pass& session, uint32_t most) : tokens(most), activations(session.model, most) {}

void Schedule::submit_picture(uint32_t tokens) {
  const uint32_t most = static_cast<uint32_t>(align_up(tokens, chunk_tokens_));
  if (!picture_ || picture_->tokens < most) picture_ = std::make_unique<Picture>(pass_, most);
  Picture& p = *picture_;
  if (p.pass.body.empty()) {
    const Pass pass = {.model = pass_.model,
                       .a = p.activations,
                       .step = pass_.step,
                       .context = pass_.context,
                       .tokens = p.tokens,
                       .soft_rows = pass_.soft_rows,
                       .adapter = pass_.adapter,
                       .picture = true};
    Recorder dry_run(*pass.model.device);  // asks for every kernel before the recording waits for one
    record_network(dry_run, pass);
    const Tail none;
    p.pass = record_pass(pool_, pass, [&](Recorder& r) { record_tail(r, pass, {&none, 1}); });
  }
  queue_.submit(p.tokens, p.pass);
}

// A pass that checks a draft normalises a row for each of its tokens, any other the last one alone.
View Schedule::last_state() const {
  const uint64_t bytes = uint64_t{stride_of(pass_.model.config.width)} * 4;
  if (!checked_from_) return pass_.a.normed.part(0, bytes);
  const size_t appended = pass_.step.state.end() - *checked_from_;
  return checks_->activations.normed.part((appended - 1) * bytes, bytes);
}

void Schedule::submit_score(const PartialHeadBuffers* masked) {
  const Model& model = pass_.model;
  if (!nll_) {
    const uint64_t block = model.device->plan().block_tokens;
    block_logits_ = Buffer(model.device, "block logits", block * stride_of(model.config.vocab) * 4, Memory::device);
    nll_ = Buffer(model.device, "nll", pass_.step.history.bytes(), Memory::readback);
  }
  CommandBuffer& score = masked ? masked_score_ : score_;
  const Pass whole = pass_of(chunk_tokens_);
  if (!score.handle())
    score = record_end(pool_, whole, [&](Recorder& r) { record_score(r, whole, block_logits_, nll_, masked); });
  queue_.submit(chunk_tokens_, chunk_, score);
}

std::vector<Timestamps::Stage> Schedule::read_times() const {
  return last_timed_ ? last_timed_->timestamps->read() : std::vector<Timestamps::Stage>{};
}

double Schedule::read_gaps() const { return last_timed_ ? last_timed_->timestamps->gaps() : 0; }

}  // namespace weft
