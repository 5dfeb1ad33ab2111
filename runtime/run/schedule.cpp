#include "run/schedule.h"

#include <utility>

namespace weft {
namespace {

Pass with_tokens(const Pass& pass, uint32_t tokens) {
  Pass changed = pass;
  changed.tokens = tokens;
  return changed;
}

}  // namespace

Schedule::Schedule(const Pass& pass, Policy policy, Duty& duty)
    : pass_(pass),
      chunk_tokens_(pass.model.device->plan().chunk_tokens),
      shards_(pass.model.weights.shards.empty() ? nullptr : std::make_unique<ShardPasses>(pass.model, chunk_tokens_)),
      queue_(pass.model, policy, {&duty}) {
  if (shards_) pass_.shards = shards_->views();
  // Every kernel of a greedy session is asked for before the first recording waits for one.
  Recorder dry_run(*pass.model.device);
  const Tail greedy[] = {{Tail::Kind::greedy}};
  ask_for_layers(dry_run, pass_);
  for (const uint32_t tokens : {1u, chunk_tokens_}) {
    if (shards_)
      record_shard_state(dry_run, pass_of(tokens)), record_own_rows(dry_run, pass_of(tokens), greedy[0]);
    else
      record_tail(dry_run, pass_of(tokens), greedy);
  }
  recordings_ = record_layers(pass_);
}

Schedule::~Schedule() = default;  // the fences wait before the pools go: they are declared after them

Pass Schedule::pass_of(uint32_t tokens) const { return with_tokens(pass_, tokens); }

// Asks the device for every kernel of the passes up to the last layer.
void Schedule::ask_for_layers(Recorder& dry_run, const Pass& pass) const {
  for (const uint32_t tokens : {1u, chunk_tokens_}) record_network(dry_run, with_tokens(pass, tokens));
}

std::unique_ptr<Schedule::Recordings> Schedule::record_layers(const Pass& pass) const {
  auto made = std::make_unique<Recordings>(pass.model);
  made->decode = record_body(made->pool, with_tokens(pass, 1));
  made->chunk = record_body(made->pool, with_tokens(pass, chunk_tokens_));
  return made;
}

// Frees the recordings of whole passes; those of pictures and those with timestamps are whole, too.
void Schedule::forget_passes() {
  whole_.reset();
  timed_.reset();
  last_timed_ = nullptr;
  if (picture_) picture_->recorded.reset();
}

void Schedule::set_soft_rows(const View& rows, std::vector<View> deepstack) {
  const bool in_layers = !deepstack.empty() || !pass_.deepstack.empty();
  Pass changed = pass_;
  changed.soft_rows = rows;
  changed.deepstack = std::move(deepstack);
  if (in_layers) {
    recordings_ = record_layers(changed);
    embed_pool_.reset();
  } else {
    auto pool = std::make_unique<CommandPool>(pass_.model.device);
    const auto embed = [&](uint32_t tokens) {
      Recorder recorder(*pool, "embed");
      record_embed(recorder, with_tokens(changed, tokens));
      return recorder.finish();
    };
    const CommandBuffer decode = embed(1), chunk = embed(chunk_tokens_);
    recordings_->decode.front() = decode;
    recordings_->chunk.front() = chunk;
    embed_pool_ = std::move(pool);
  }
  forget_passes();
  pass_.soft_rows = rows;
  pass_.deepstack = std::move(changed.deepstack);
}

void Schedule::set_adapter(const AdapterUse& adapter) {
  Pass changed = pass_;
  changed.adapter = adapter;
  Recorder dry_run(*pass_.model.device);
  ask_for_layers(dry_run, changed);
  recordings_ = record_layers(changed);
  embed_pool_.reset();
  forget_passes();
  if (checks_) checks_->passes.reset();
  pass_.adapter = adapter;
}

Schedule::End Schedule::record_tail_of(CommandPool& pool, const Key& key, Timestamps* timestamps) const {
  const Pass whole = pass_of(key.first);
  const Tail& tail = key.second;
  const auto record = [&](const std::function<void(Recorder&)>& commands) {
    return record_end(pool, whole, commands, timestamps);
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
  if (!timed_) timed_ = std::make_unique<TimedPasses>(pass_.model);
  if (const auto found = timed_->by_key.find(key); found != timed_->by_key.end()) return found->second;
  Timed timed;
  timed.timestamps = timestamps_for(key.first);
  timed.body = record_body(timed_->pool, pass_of(key.first), timed.timestamps.get());
  timed.end = record_tail_of(timed_->pool, key, timed.timestamps.get());
  return timed_->by_key.emplace(key, std::move(timed)).first->second;
}

const CommandBuffer& Schedule::whole_pass(const Key& key) {
  if (!whole_) whole_ = std::make_unique<WholePasses>(pass_.model);
  return whole_->by_key[key].next(
      queue_.most_in_flight_passes(), [&](const CommandBuffer& one) { return queue_.in_flight(one); },
      [&] { return record_whole_pass(key); });
}

CommandBuffer Schedule::record_whole_pass(const Key& key) {
  const Pass pass = pass_of(key.first);
  Recorder dry_run(*pass.model.device);  // asks for the tail's kernels; those of the layers were asked for
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
  const std::vector<CommandBuffer>* body = tokens == 1 ? &recordings_->decode : &recordings_->chunk;
  const End* end = nullptr;
  if (with_times) {
    last_timed_ = &timed(key);
    body = &last_timed_->body;
    end = &last_timed_->end;
  } else {
    std::map<Key, End>& tails = recordings_->tails;
    auto found = tails.find(key);
    if (found == tails.end()) found = tails.emplace(key, record_tail_of(recordings_->pool, key, nullptr)).first;
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

Schedule::CheckPasses& Schedule::check_passes() {
  std::unique_ptr<CheckPasses>& passes = checks().passes;
  if (!passes) passes = std::make_unique<CheckPasses>(pass_.model);
  return *passes;
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
      check_passes().pool, whole,
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
  Recorder dry_run(*pass_.model.device);  // asks for every kernel before a recording waits for one
  for (const CheckedShape& shape : shapes) {
    const Pass pass = check_pass(shape);
    record_network(dry_run, pass);
    const Tail tail = {kind};
    record_check(dry_run, pass, std::span(checks_->by_token).first(shape.tokens), {&tail, 1}, checks_->masks);
  }
  for (const CheckedShape& shape : shapes) checked_body(shape);
}

const std::vector<CommandBuffer>& Schedule::checked_body(const CheckedShape& shape) {
  CheckPasses& passes = check_passes();
  if (const auto found = passes.bodies.find(shape); found != passes.bodies.end()) return found->second;
  return passes.bodies.emplace(shape, record_body(passes.pool, check_pass(shape))).first->second;
}

const Schedule::Timed& Schedule::timed_check(const CheckKey& key) {
  CheckPasses& passes = check_passes();
  if (const auto found = passes.timed.find(key); found != passes.timed.end()) return found->second;
  Timed timed;
  timed.timestamps = timestamps_for(key.first.tokens);
  timed.body = record_body(passes.pool, check_pass(key.first), timed.timestamps.get());
  timed.end.tail = record_check_of(key, timed.timestamps.get());
  return passes.timed.emplace(key, std::move(timed)).first->second;
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
  std::map<CheckKey, CommandBuffer>& ends = check_passes().ends;
  auto end = ends.find(key);
  if (end == ends.end()) end = ends.emplace(key, record_check_of(key, nullptr)).first;
  queue_.submit(tokens, body, end->second);
}

Schedule::Picture::Picture(const Pass& session, uint32_t most) : tokens(most), activations(session.model, most) {}

void Schedule::submit_picture(uint32_t tokens) {
  const uint32_t most = static_cast<uint32_t>(align_up(tokens, chunk_tokens_));
  if (!picture_ || picture_->tokens < most) picture_ = std::make_unique<Picture>(pass_, most);
  Picture& p = *picture_;
  if (!p.recorded) {
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
    auto recorded = std::make_unique<PicturePass>(pass.model);
    recorded->pass = record_pass(recorded->pool, pass, [&](Recorder& r) { record_tail(r, pass, {&none, 1}); });
    p.recorded = std::move(recorded);
  }
  queue_.submit(p.tokens, p.recorded->pass);
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
  CommandBuffer& score = masked ? recordings_->masked_score : recordings_->score;
  const Pass whole = pass_of(chunk_tokens_);
  if (!score.handle())
    score =
        record_end(recordings_->pool, whole, [&](Recorder& r) { record_score(r, whole, block_logits_, nll_, masked); });
  queue_.submit(chunk_tokens_, recordings_->chunk, score);
}

std::vector<Timestamps::Stage> Schedule::read_times() const {
  return last_timed_ ? last_timed_->timestamps->read() : std::vector<Timestamps::Stage>{};
}

double Schedule::read_gaps() const { return last_timed_ ? last_timed_->timestamps->gaps() : 0; }

}  // namespace weft
