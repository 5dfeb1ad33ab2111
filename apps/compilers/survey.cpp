#include "survey.h"

#include <algorithm>
#include <deque>
#include <fstream>
#include <nlohmann/json.hpp>

#include "gpu/device.h"

namespace weft::compilers {
namespace {

constexpr uint32_t kContexts[] = {1024, 2048};             // tokens: up to and above an attend_span
constexpr uint32_t kBatches[] = {1, 2, 4, 8, 16, 32, 64};  // sessions

std::unique_ptr<Model> load(const std::shared_ptr<Device>& device, const std::filesystem::path& folder, Format format) {
  const ModelFile file = open_model(folder);
  Config config = read_config(file);
  Weights weights = load_weights(device, file, config, format, [](float) {});
  return std::make_unique<Model>(Model{device, std::move(config), std::move(weights)});
}

// The file has one of each kind.
uint32_t published_layers(const std::filesystem::path& folder) {
  return nlohmann::json::parse(std::ifstream(folder / "config.json")).at("weft_layers").get<uint32_t>();
}

using Kind = Tail::Kind;

// What may follow the layers: each kind of choice with each head. A list and a mask are a grammar's or a keep-list's.
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

// The pass of a batch, as model/batch.cpp makes it. neighbours: the sessions' caches lie side by side.
struct BatchPass {
  BatchPass(const Model& model, const StepBuffers& session, const KvCache& cache, uint32_t count, bool neighbours)
      : activations(model, count, count), step(model, count, 1), pass{model, activations, step, cache, count} {
    for (uint32_t i = 0; i < count; ++i) rows.push_back(activations.rows(i));
    for (const Activations& row : rows) pass.members.push_back({model, row, session, cache, 1});
    if (!neighbours || count == 1) return;
    list = Buffer(model.device, "batch members", count * sizeof(abi::BatchMember), Memory::shared);
    Neighbours& all = pass.neighbours.emplace_back();
    for (uint32_t i = 0; i < count; ++i) all.members.push_back(i);
    all.list = list;
  }
  ActivationBuffers activations;
  StepBuffers step;
  Buffer list;
  std::deque<Activations> rows;
  Pass pass;
};

// All passes of sessions of one context and type of cache. record() takes what records, and returns the commands.
template <class Record>
Survey::Counts add_sessions(const Model& model, uint32_t context, Format cache_format, const Record& record) {
  const std::shared_ptr<Device>& device = model.device;
  const uint32_t chunk = device->plan().chunk_tokens, layers = model.config.layers;
  const ActivationBuffers activations(model, chunk);
  const StepBuffers step(model, context, context);
  const PartialHeadBuffers partial(device, model.weights.output_table());
  const KvCache cache(model, context, chunk, cache_format);
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
  for (const uint32_t count : kBatches)
    for (const bool neighbours : {false, true}) {
      const BatchPass batch(model, step, cache, count, neighbours);
      record([&](Recorder& r) {
        record_embed(r, batch.pass);
        for (uint32_t i = 0; i < layers; ++i) record_layer(r, batch.pass, i);
        for (const Kind kind : {Kind::greedy, Kind::sampled})
          record_tail(r, batch.pass, std::vector<Tail>(count, Tail{kind}));
      });
    }
  return counts;
}

}  // namespace

Survey::Counts Survey::add(const std::shared_ptr<Device>& device, const std::filesystem::path& folder, Format format) {
  const std::unique_ptr<Model> model = load(device, folder, format);
  const auto record = [&](const auto& commands) -> Commands {
    std::vector<KernelSpec> list;
    Recorder recorder(*device, list);
    commands(recorder);
    for (const KernelSpec& spec : list) pipelines_.emplace(label(spec), spec);
    return {list.size(), recorder.barriers()};
  };
  Counts counts;  // of the last: the longer context and the default cache
  for (const Format cache : {Format::q8, Format::f16})
    for (const uint32_t context : kContexts)
      counts = add_sessions(*model, std::min(context, model->config.context), cache, record);
  counts.layers = published_layers(folder);
  return counts;
}

}  // namespace weft::compilers
