#include "model/weights.h"

#include <algorithm>

#include "base/error.h"
#include "model/model.h"
#include "model/weights_loader.h"

namespace weft {
namespace {

// later: the layers may follow, where that is possible.
Weights load(const std::shared_ptr<Device>& device, const std::shared_ptr<const ModelFile>& file, Config& config,
             const DeviceFormats& formats, const std::function<void(float)>& progress, bool later) {
  const auto report = std::make_shared<WeightsReport>(*file, progress);
  const auto decoder = std::make_shared<WeightsLoader>(device, file, config, formats, report, "");
  std::optional<WeightsLoader> encoder;
  if (config.encoder) encoder.emplace(device, file, *config.encoder, formats, report, "encoder ");
  later = decoder->check(encoder ? &*encoder : nullptr) && later;
  decoder->load_vocabulary();
  decoder->load_body(later);
  decoder->load_ends();
  Weights weights = decoder->take();
  config.vocab = decoder->config().vocab;
  config.tied = decoder->config().tied;
  if (encoder) {
    encoder->load_body(false);
    const auto half = std::make_shared<Model>(Model{device, *config.encoder, encoder->take()});
    half->config.vocab = config.vocab;
    half->weights.embedding = weights.embedding;
    weights.encoder = half;
  }
  weights.tensors = std::move(report->tensors);
  if (later)
    weights.layer_loader =
        std::make_unique<LayerLoader>(config.layers, [decoder](uint32_t layer) { decoder->load_layer(layer); });
  else if (progress)
    progress(1);
  return weights;
}

}  // namespace

void Weights::need_all_rows(const char* what) const {
  if (shards.empty()) return;
  throw Error(Code::unsupported,
              "the vocabulary table is spread over " + std::to_string(shards.size() + 1) + " devices", what,
              "load the model on one device for this");
}

uint64_t Weights::vocab_bytes() const { return embedding->bytes() + (separate_output ? separate_output->bytes() : 0); }

uint64_t Weights::layer_bytes() const {
  uint64_t bytes = attention_norms.bytes() + final_norm.bytes() + embedding_norm.bytes() + positions.bytes() +
                   score_biases.bytes() + logit_bias.bytes();
  if (masked_head) bytes += masked_head->buffer.bytes();
  if (head) bytes += head->bytes();
  if (layer_inputs) bytes += layer_inputs->bytes() + layer_inputs->table_bytes();
  if (sound) bytes += sound->buffer.bytes();
  if (assistant) bytes += assistant->buffer.bytes();
  if (encoder) bytes += encoder->weights.layer_bytes();
  for (const Layer& layer : layers) bytes += layer.buffer.bytes();
  return bytes;
}

uint64_t Weights::streamed_bytes() const {
  uint64_t bytes = layer_inputs ? layer_inputs->table_bytes() : 0;
  for (const Layer& layer : layers) bytes += stream ? layer.buffer.bytes() : 0;
  return bytes;
}

uint64_t Weights::device_bytes() const {
  return vocab_bytes() + layer_bytes() - streamed_bytes() + (stream ? 2 * stream->buffers[0].bytes() : 0);
}

void check_weights(const ModelFile& file, Config& config) {
  Parts parts(file, config);
  Config half = config.encoder ? *config.encoder : Config();
  Parts encoder(file, half);
  parts.check(config.encoder ? &encoder : nullptr);
}

std::string Weights::type() const {
  std::string text;
  for (const Format format : kAllFormats)
    if (std::ranges::any_of(tensors, [&](const TensorReport& tensor) { return tensor.device_type == name(format); }))
      text += (text.empty() ? "" : "+") + std::string(name(format));
  return text;
}

Weights load_weights(const std::shared_ptr<Device>& device, const ModelFile& file, Config& config,
                     const DeviceFormats& formats, const std::function<void(float)>& progress) {
  return load(device, {std::shared_ptr<void>(), &file}, config, formats, progress, false);
}

void reload_vocabulary(const std::shared_ptr<Device>& device, const ModelFile& file, Config& config,
                       const DeviceFormats& formats, Weights& weights, const std::function<void(float)>& progress) {
  weights.embedding.reset();
  weights.separate_output.reset();
  weights.shards.clear();
  weights.layer_inputs.reset();
  const auto report = std::make_shared<WeightsReport>(file, progress);
  WeightsLoader loader(device, {std::shared_ptr<void>(), &file}, config, formats, report, "");
  loader.check(nullptr);
  loader.load_vocabulary();
  Weights tables = loader.take();
  weights.embedding = std::move(tables.embedding);
  weights.separate_output = std::move(tables.separate_output);
  weights.shards = std::move(tables.shards);
  weights.layer_inputs = std::move(tables.layer_inputs);
  for (const TensorReport& tensor : report->tensors) {
    for (TensorReport& known : weights.tensors) {
      if (known.name != tensor.name) continue;
      known.rounding = tensor.rounding;
      known.device_bytes = tensor.device_bytes;  // it may have been a few rows, to measure states
    }
  }
  if (progress) progress(1);
}

Weights begin_weights(const std::shared_ptr<Device>& device, std::shared_ptr<const ModelFile> file, Config& config,
                      const DeviceFormats& formats, const std::function<void(float)>& progress) {
  return load(device, std::move(file), config, formats, progress, true);
}

}  // namespace weft
