// The C API's encoders.
#include <algorithm>

#include "base/quote.h"
#include "capi/handles.h"
#include "run/encoder.h"
#include "weft/duty.h"

using namespace weft;
using namespace weft::capi;

struct weft_encoder : DeviceUser {
  explicit weft_encoder(const weft_model* of) : DeviceUser(of) { enter_device(); }
  void leave_device() override { encoder.reset(); }
  void enter_device() override {
    const Model& whole = model->model;
    const Model& half = whole.weights.encoder ? *whole.weights.encoder : whole;
    encoder.emplace(half, half.config.context, Policy::throughput, std::vector{duty.get()});
  }
  Encoder& on_device() {
    need_weights(*model);
    if (!encoder) throw Error(Code::device_lost, "the device was lost", "encoder", "weft_model_recover opens it again");
    return *encoder;
  }

  UncancelledDuty duty;
  std::optional<Encoder> encoder;
};

static void check_count(size_t count, size_t expected, const char* what) {
  if (count != expected)
    throw Error(Code::invalid_argument, "it is " + std::to_string(count) + ", " + what + std::to_string(expected),
                "count");
}

weft_status weft_encoder_create(const weft_model* model, weft_encoder** encoder, weft_error* error) {
  return guard(error, [&] {
    require(model && encoder, "model or encoder", "it is NULL");
    const auto lock = lock_users(*model);
    need_weights(*model);
    const Config& config = model->model.config;
    if (!config.embeds())
      throw Error(Code::unsupported, "the family '" + config.family + "' has no encoder", "model",
                  "its files do not say how texts become embeddings; use a model that was trained for them");
    model->model.weights.need_all_rows("embeddings");
    *encoder = new weft_encoder(model);
  });
}

void weft_encoder_free(weft_encoder* encoder) { destroy(encoder); }

weft_status weft_encoder_use_duty(weft_encoder* encoder, weft_duty* duty, weft_error* error) {
  return guard(error, [&] {
    require(encoder, "encoder", "it is NULL");
    const InUse use(encoder, "encoder");
    encoder->duty.use(duty);
  });
}

uint32_t weft_model_embedding_size(const weft_model* model) {
  if (!model || !model->model.config.embeds()) return 0;
  const Config& config = model->model.config;
  return config.sentences.size(config.width);
}

weft_status weft_model_prompt(const weft_model* model, const char* name, char** prompt, weft_error* error) {
  return guard(error, [&] {
    require(model && prompt, "model or prompt", "it is NULL");
    const SentenceConfig& sentences = model->model.config.sentences;
    if (!name) {
      *prompt = copy_string(sentences.default_prompt);
      return;
    }
    const auto found = sentences.prompts.find(name);
    if (found == sentences.prompts.end()) {
      std::string known;
      for (const auto& item : sentences.prompts) known += (known.empty() ? "" : ", ") + item.first;
      throw Error(Code::not_found, "the model has no prompt \"" + printable(name) + "\"", "prompt",
                  known.empty() ? "its files have none; write the instruction before the text" : "it has " + known);
    }
    *prompt = copy_string(found->second);
  });
}

weft_status weft_encoder_run(weft_encoder* encoder, const uint32_t* ids, size_t count, weft_error* error) {
  return guard(error, [&] {
    require(encoder && (ids || count == 0), "encoder or ids", "it is NULL");
    const InUse use(encoder, "encoder");
    encoder->on_device().run({ids, count});
  });
}

weft_status weft_encoder_embedding(weft_encoder* encoder, weft_pooling pooling, float* embedding, size_t count,
                                   weft_error* error) {
  return guard(error, [&] {
    require(encoder && embedding, "encoder or embedding", "it is NULL");
    const InUse use(encoder, "encoder");
    const Config& config = encoder->model->model.config;
    const uint32_t size = config.sentences.size(config.width);
    if (count == 0 || count > size) check_count(count, size, "an embedding has at most ");
    require(pooling >= WEFT_POOL_MODEL && pooling <= WEFT_POOL_LAST, "pooling", "there is no such weft_pooling");
    const Pooling chosen = pooling == WEFT_POOL_MEAN   ? Pooling::mean
                           : pooling == WEFT_POOL_CLS  ? Pooling::first
                           : pooling == WEFT_POOL_LAST ? Pooling::last
                                                       : config.sentences.pooling;
    std::ranges::copy(encoder->on_device().embedding(chosen, static_cast<uint32_t>(count)), embedding);
  });
}

weft_status weft_encoder_masked_logits(weft_encoder* encoder, size_t place, float* logits, size_t count,
                                       weft_error* error) {
  return guard(error, [&] {
    require(encoder && logits, "encoder or logits", "it is NULL");
    const InUse use(encoder, "encoder");
    check_count(count, encoder->model->model.config.vocab, "the vocabulary has ");
    std::ranges::copy(encoder->on_device().masked_logits(place), logits);
  });
}
