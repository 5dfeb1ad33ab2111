// The C API: speech.
#include "weft/audio.h"

#include "capi.h"
#include "session/speech.h"
#include "sound/log_mel.h"

using namespace weft;
using namespace weft::capi;

static_assert(WEFT_SAMPLES_PER_SECOND == kSampleRate);

struct weft_listener : DeviceUser {
  explicit weft_listener(const weft_model* of) : DeviceUser(of), reader(of->model, of->tokenizer) {}
  void leave_device() override { reader.session().leave_device(); }
  void enter_device() override { reader.session().enter_device(); }

  SpeechReader reader;
  std::string language;
};

weft_status weft_listener_create(const weft_model* model, weft_listener** listener, weft_error* error) {
  return guard(error, [&] {
    require(model && listener, "model or listener", "it is NULL");
    const auto lock = lock_users(*model);
    need_weights(*model);
    *listener = new weft_listener(model);
  });
}

void weft_listener_free(weft_listener* listener) { destroy(listener); }

weft_status weft_listen(weft_listener* listener, const float* samples, size_t count, const weft_listen_options* options,
                        weft_error* error) {
  return guard(error, [&] {
    require(listener && (samples || count == 0), "listener or samples", "it is NULL");
    require(options && options->callback, "options", "there is no callback");
    const InUse use(listener, "listener");
    need_weights(*listener->model);
    bool ended = false;
    listener->language.clear();
    const SpeechOptions wanted = {options->language ? options->language : "", options->translate != 0};
    std::string language = listener->reader.read({samples, count}, wanted, [&](const SpeechSegment& segment) {
      const weft_heard heard = {segment.begin, segment.end, segment.text.c_str(), segment.mean_logprob,
                                segment.no_speech};
      ended = options->callback(options->user, &heard) != 0;
      return !ended;
    });
    listener->language = std::move(language);
    if (ended || listener->reader.cancelled())
      throw Error(Code::cancelled, ended ? "the callback ended it" : "weft_listener_cancel ended it", "listen");
  });
}

const char* weft_listener_language(const weft_listener* listener) { return listener->language.c_str(); }

void weft_listener_cancel(weft_listener* listener) {
  if (listener) listener->reader.cancel();
}
