#include "survey.h"

#include <algorithm>
#include <deque>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "gpu/device.h"
#include "model/parts.h"
#include "model/weights_loader.h"
#include "run/batch.h"
#include "run/schedule.h"

namespace weft::compilers {
namespace {

constexpr uint32_t kContexts[] = {64, 2048};               // tokens: up to and above an attend_span
constexpr uint32_t kBatches[] = {1, 2, 4, 8, 16, 32, 64};  // sessions

// The file has one of each kind.
uint32_t published_layers(const std::filesystem::path& folder) {
  return nlohmann::json::parse(std::ifstream(folder / "config.json")).at("weft_layers").get<uint32_t>();
}

using Kind = Tail::Kind;

// Returns all that may follow the layers: each kind of choice with each head. Grammars and keep-lists need a list or a
// mask.
std::vector<Tail> all_tails(const PartialHeadBuffers& buffers) {
  std::vector<Tail> tails = {{Kind::none}, {Kind::logits}};
  for (const Kind kind : {Kind::greedy, Kind::sampled})
    for (const bool logprobs : {false, true}) {
      tails.push_back({kind, nullptr, {}, logprobs});
      for (const PartialHeadSteps steps : {PartialHeadSteps{true, false, false}, PartialHeadSteps{false, true, false},
                                           PartialHeadSteps{false, false, true}, PartialHeadSteps{true, true, false},
                                           PartialHeadSteps{true, false, true}, PartialHeadSteps{true, true, true}})
        if (!steps.estimates || !logprobs) tails.push_back({kind, &buffers, steps, logprobs});
    }
  return tails;
}

// The passes of a batch of `count` sessions with `tokens` tokens each, as run/batch.cpp makes them. neighbours: the
// sessions' caches lie side by side.
class BatchPasses {
 public:
  BatchPasses(const Model& model, const StepBuffers& session, const ContextState& cache, uint32_t count,
              uint32_t tokens, bool neighbours)
      : activations_(model, count * tokens, count * tokens),
        step_(model, count * tokens, 1),
        list_(model.device, "batch members", count * sizeof(abi::BatchMember), Memory::shared) {
    const auto over = [&](uint32_t first, uint32_t some) {
      Pass pass = {model, activations_, step_, cache, count * some};
      for (uint32_t i = 0; i < count; ++i) {
        rows_.push_back(activations_.rows(i * tokens + first, some));
        pass.members.push_back({model, rows_.back(), session, cache, some});
      }
      if (!neighbours || count == 1 || count * some > model.device->plan().chunk_tokens) return pass;
      Neighbours& all = pass.neighbours.emplace_back();
      for (uint32_t i = 0; i < count; ++i) all.members.push_back(i);
      all.list = list_;
      return pass;
    };
    passes_.push_back(over(0, tokens));
    for (uint32_t i = 0; i < tokens; ++i) passes_.push_back(over(i, 1));
  }
  const Pass& whole() const { return passes_.front(); }
  std::span<const Pass> by_token() const { return std::span(passes_).subspan(1); }

 private:
  ActivationBuffers activations_;
  StepBuffers step_;
  Buffer list_;
  std::deque<Activations> rows_;
  std::vector<Pass> passes_;
};

// Every pass of a batch, and of a session that checks a draft. of_one: all that may follow the layers of a session
// alone.
template <class Record>
void add_batches(const Model& model, const StepBuffers& step, const ContextState& cache,
                 const std::vector<Tail>& of_one, const Record& record) {
  const uint64_t mask_bytes = uint64_t{kMostDrafted + 1} * ((model.config.vocab + 31) / 32) * 4;
  const Buffer masks(model.device, "draft masks", mask_bytes, Memory::shared);
  std::vector<uint32_t> passes = {1};
  passes.insert(passes.end(), std::begin(kDraftPasses), std::end(kDraftPasses));
  for (const uint32_t count : kBatches)
    for (const uint32_t tokens : passes)
      for (const bool neighbours : {false, true}) {
        if (count * tokens > kMostBatchSlots) continue;
        const BatchPasses batch(model, step, cache, count, tokens, neighbours);
        record([&](Recorder& r) {
          record_embed(r, batch.whole());
          for (uint32_t i = 0; i < model.config.layers; ++i) record_layer(r, batch.whole(), i);
        });
        const auto end = [&](const Tail& tail) {
          const std::vector<Tail> tails(count, tail);
          record([&](Recorder& r) {
            if (tokens == 1)
              record_tail(r, batch.whole(), tails);
            else
              record_check(r, batch.whole(), batch.by_token(), tails, masks);
          });
        };
        for (const Kind kind : {Kind::greedy, Kind::sampled}) end({kind});
        if (count > 1 || tokens == 1) continue;
        for (const Tail& tail : of_one)
          if (tail.chooses()) end(tail);
      }
}

// All passes of sessions of one context and type of cache. record() takes what records, and returns the commands.
template <class Record>
Survey::Counts add_sessions(const Model& model, uint32_t context, const ops::CacheFormat& cache_format,
                            const Record& record) {
  const std::shared_ptr<Device>& device = model.device;
  const uint32_t chunk = device->plan().chunk_tokens, layers = model.config.layers;
  const ActivationBuffers activations(model, chunk);
  const StepBuffers step(model, context, context);
  const PartialHeadBuffers partial(device, model.weights.output_table());
  const ContextState cache(model, context, chunk, cache_format);
  Survey::Counts counts;
  for (const uint32_t tokens : {1u, chunk}) {
    const Pass pass = {model, activations, step, cache, tokens};
    Survey::PassCommands& count = tokens == 1 ? counts.token : counts.prompt;
    const Tail greedy = {Kind::greedy};
    count.rest = record([&](Recorder& r) { record_embed(r, pass); });
    const Survey::Commands last = record([&](Recorder& r) { record_tail(r, pass, {&greedy, 1}); });
    count.rest.dispatches += last.dispatches;
    count.rest.barriers += last.barriers;
    for (uint32_t i = 0; i < layers; ++i)
      (i == 0 ? count.first_layer : count.layer) = record([&](Recorder& r) { record_layer(r, pass, i); });
    for (const Tail& tail : all_tails(partial)) record([&](Recorder& r) { record_tail(r, pass, {&tail, 1}); });
  }
  const Buffer soft_rows(device, "soft rows", uint64_t{stride_of(model.config.width)} * 4, Memory::device);
  for (const uint32_t tokens : {1u, chunk}) {
    Pass soft = {model, activations, step, cache, tokens};
    soft.soft_rows = soft_rows;
    record([&](Recorder& r) { record_embed(r, soft); });
  }
  const Pass prompt = {model, activations, step, cache, chunk};
  const Buffer block_logits(device, "block logits",
                            uint64_t{device->plan().block_tokens} * stride_of(model.config.vocab) * 4, Memory::device);
  for (const PartialHeadBuffers* masked : {static_cast<const PartialHeadBuffers*>(nullptr), &partial})
    record([&](Recorder& r) { record_score(r, prompt, block_logits, step.history, masked); });
  add_batches(model, step, cache, all_tails(partial), record);
  return counts;
}

// The passes of a model that hears: of its encoder, of the keys and values that the decoder attends to, and of the
// decoder, which chooses among text and times.
template <class Record>
void add_hearing(const Model& model, Format cache_format, const Record& record) {
  constexpr uint32_t kFirstTime = 1024;  // anywhere in the vocabulary
  const std::shared_ptr<Device>& device = model.device;
  const Model& encoder = *model.weights.encoder;
  const uint32_t chunk = device->plan().chunk_tokens, context = model.config.context;
  const uint32_t positions = encoder.config.context, rows = (positions + chunk - 1) / chunk * chunk;
  const ActivationBuffers states(encoder, rows);
  const StepBuffers heard_step(encoder, positions, positions);
  const ContextState heard(encoder, positions, rows), source(model, positions, rows, cache_format);
  const Buffer columns(device, "sound columns", columns_bytes(encoder.config, rows), Memory::shared);
  const Buffer frames(device, "sound state", sizeof(abi::StepState), Memory::shared);
  record([&](Recorder& r) {
    Pass pass = {encoder, states, heard_step, heard, rows};
    pass.sound = {columns, frames};
    record_embed(r, pass);
    for (uint32_t i = 0; i < encoder.config.layers; ++i) record_layer(r, pass, i);
    ops::norm(r, encoder.config.norm(), heard_step.state, states.x, encoder.weights.final_norm, states.normed, rows,
              false);
    for (uint32_t i = 0; i < model.config.layers; ++i)
      model.weights.layers[i].cross->read(r, model.config, heard_step.state, states.normed, heard_step.rope_tables[0],
                                          states.qkv, states.q, source, i, rows);
  });
  const ActivationBuffers activations(model, chunk);
  const StepBuffers step(model, context, context);
  const PartialHeadBuffers partial(device, model.weights.output_table());
  const ContextState cache(model, context, chunk, cache_format);
  for (const uint32_t tokens : {1u, chunk}) {
    const Pass pass = {model, activations, step, cache, tokens, &source};
    record([&](Recorder& r) {
      record_embed(r, pass);
      for (uint32_t i = 0; i < model.config.layers; ++i) record_layer(r, pass, i);
    });
    for (const Kind kind : {Kind::none, Kind::logits, Kind::greedy, Kind::sampled}) {
      Tail tail = {kind};
      if (tail.chooses()) {
        tail.partial = &partial;
        tail.steps.masked = tail.logprobs = true;
        tail.timestamps = kFirstTime;
      }
      record([&](Recorder& r) { record_tail(r, pass, {&tail, 1}); });
    }
  }
}

// Layers have their buffers, but no numbers: no pass runs, and packing them would take longer than recording.
Weights weights_without_layers(const std::shared_ptr<Device>& device, const ModelFile& file, Config& config,
                               const DeviceFormats& formats) {
  const auto report = std::make_shared<WeightsReport>(file, [](float) {});
  WeightsLoader loader(device, {std::shared_ptr<void>(), &file}, config, formats, report, "");
  loader.check(nullptr);
  loader.load_vocabulary();
  loader.load_body(true);
  loader.load_ends();
  config.vocab = loader.config().vocab;
  return loader.take();
}

}  // namespace

std::unique_ptr<Model> load(const std::shared_ptr<Device>& device, const std::filesystem::path& folder,
                            const DeviceFormats& formats) {
  const ModelFile file = open_model(folder);
  Config config = read_config(file);
  Weights weights = config.encoder ? load_weights(device, file, config, formats, [](float) {})
                                   : weights_without_layers(device, file, config, formats);
  return std::make_unique<Model>(Model{device, std::move(config), std::move(weights)});
}

void change_format(Model& model, const std::filesystem::path& folder, Format from, Format to) {
  const ModelFile file = open_model(folder);
  Parts parts(file, model.config);
  for (uint32_t index = 0; index < model.config.layers; ++index)
    for (const MatrixSource& source : parts.layer(model.weights.layers[index], static_cast<int>(index)).matrices)
      if (source.matrix.format == from && source.cols % SUPER_BLOCK == 0) source.matrix.format = to;
}

namespace {

// Gives the last part of each matrix of several parts (values; what gates open) a format of its own, or takes it away.
void change_last_parts(Model& model, const std::filesystem::path& folder, std::optional<Format> to) {
  const ModelFile file = open_model(folder);
  Parts parts(file, model.config);
  for (uint32_t index = 0; index < model.config.layers; ++index)
    for (const MatrixSource& source : parts.layer(model.weights.layers[index], static_cast<int>(index)).matrices) {
      if (source.parts.size() < 2 || source.experts > 0) continue;
      const auto first_rows = source.matrix.rows - static_cast<uint32_t>(source.parts.back().rows);
      if (first_rows % TILE_ROWS != 0) continue;
      source.matrix.first_rows = to ? first_rows : 0;
      source.matrix.second = to.value_or(Format::f16);
    }
}

}  // namespace

Survey::Counts Survey::add(const std::shared_ptr<Device>& device, const std::filesystem::path& folder, Format format) {
  const std::unique_ptr<Model> model = load(device, folder, format);
  const auto record = [&](const auto& commands) -> Commands {
    std::vector<Dispatch> list;
    Recorder recorder(*device, list);
    commands(recorder);
    for (const Dispatch& one : list) pipelines_.emplace(label(one.kernel), one.kernel);
    return {list.size(), recorder.barriers()};
  };
  Counts counts;  // of the last: the longer context and the default cache
  if (model->config.hears()) {
    for (const Format cache : {Format::q8, Format::f16}) add_hearing(*model, cache, record);
    counts.layers = published_layers(folder);
    return counts;
  }
  for (const ops::CacheFormat& cache : {ops::CacheFormat(Format::q4), ops::CacheFormat(Format::q8, Format::q4),
                                        ops::CacheFormat(Format::q8), ops::CacheFormat(Format::f16)})
    for (const uint32_t context : kContexts)
      counts = add_sessions(*model, std::min(context, model->config.context), cache, record);
  counts.layers = published_layers(folder);
  for (const Format native : kNativeFormats) {
    const bool is_widest = model->config.width % (8 * SUPER_BLOCK) == 0;  // one model says enough
    if (info(native).rounded != format || !is_widest) continue;
    change_format(*model, folder, format, native);
    add_sessions(*model, kContexts[0], Format::f16, record);  // others differ in attention only
    if (native == Format::q4k) {                              // two formats in a matrix: the two of Q4_K_M
      change_last_parts(*model, folder, Format::q6);
      add_sessions(*model, kContexts[0], Format::f16, record);
      change_last_parts(*model, folder, std::nullopt);
    }
    change_format(*model, folder, native, format);
  }
  return counts;
}

}  // namespace weft::compilers
