// The C API's encoders.
#include <algorithm>

#include "capi.h"
#include "model/encoder.h"

using namespace weft;
using namespace weft::capi;

struct weft_encoder : DeviceUser {
  explicit weft_encoder(const weft_model* of) : DeviceUser(of) { enter_device(); }
  void leave_device() override { encoder.reset(); }
  void enter_device() override {
    const Model& whole = model->model;
    const Model& half = whole.weights.encoder ? *whole.weights.encoder : whole;
    encoder.emplace(half, half.config.context);
  }
  Encoder& on_device() {
    need_weights(*model);
    if (!encoder) throw Error(Code::device_lost, "the device was lost", "encoder", "weft_model_recover opens it again");
    return *encoder;
  }

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
    *encoder = new weft_encoder(model);
  });
}

void weft_encoder_free(weft_encoder* encoder) { destroy(encoder); }

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
    check_count(count, config.width, "an embedding has ");
    require(pooling >= WEFT_POOL_MODEL && pooling <= WEFT_POOL_CLS, "pooling", "there is no such weft_pooling");
    const Pooling chosen = pooling == WEFT_POOL_MEAN  ? Pooling::mean
                           : pooling == WEFT_POOL_CLS ? Pooling::first
                                                      : config.pooling;
    std::ranges::copy(encoder->on_device().embedding(chosen), embedding);
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
