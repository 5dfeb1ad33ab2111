// The C API: speech.
#include "weft/audio.h"

#include <utility>

#include "capi/handles.h"
#include "session/speech.h"
#include "sound/log_mel.h"

using namespace weft;
using namespace weft::capi;

WEFT_STRUCT(weft_listen_options, user);

static_assert(WEFT_SAMPLES_PER_SECOND == kSampleRate);

struct weft_listener : DeviceUser {
  explicit weft_listener(const weft_model* of) : DeviceUser(of), reader(of->model, of->tokenizer) {}
  void leave_device() override { reader.session().leave_device(); }
  void enter_device() override { reader.session().enter_device(); }

  SpeechReader reader;
  weft_listen_options options = {};  // callback and user
  bool ended = false;                // by the callback
};

namespace {

SpeechOptions wanted_by(const weft_listen_options& options) {
  SpeechOptions wanted;
  wanted.language = options.language ? options.language : "";
  wanted.translate = options.translate != 0;
  wanted.prompt = options.prompt ? options.prompt : "";
  if (options.samples_per_second != 0) wanted.rate = options.samples_per_second;
  if (options.temperatures)
    wanted.temperatures.assign(options.temperatures, options.temperatures + options.temperature_count);
  wanted.words = options.words != 0;
  return wanted;
}

// Runs `work`, which hears and gets the function that tells the callback.
template <class Work>
weft_status hear(weft_listener* listener, weft_error* error, const Work& work) {
  return guard(error, [&] {
    require(listener, "listener", "it is NULL");
    const InUse use(listener, "listener");
    need_weights(*listener->model);
    work([listener](const SpeechSegment& segment) {
      std::vector<weft_heard_word> words;
      for (const SpeechWord& word : segment.words) words.push_back({word.begin, word.end, word.text.c_str()});
      const weft_heard heard = {segment.begin,        segment.end,       segment.text.c_str(),
                                segment.mean_logprob, segment.no_speech, words.empty() ? nullptr : words.data(),
                                words.size()};
      listener->ended = listener->options.callback(listener->options.user, &heard) != 0;
      return !listener->ended;
    });
    if (listener->ended || listener->reader.cancelled()) {
      const bool ended = std::exchange(listener->ended, false);
      throw Error(Code::cancelled, ended ? "the callback ended it" : "weft_listener_cancel ended it", "listen");
    }
  });
}

void begin(weft_listener* listener, const weft_listen_options* given) {
  const weft_listen_options options = read_struct(given);
  require(options.callback, "options", "there is no callback");
  listener->options = options;
  listener->ended = false;
  listener->reader.begin(wanted_by(options));
}

}  // namespace

weft_status weft_listener_create(const weft_model* model, weft_listener** listener, weft_error* error) {
  return guard(error, [&] {
    require(model && listener, "model or listener", "it is NULL");
    const auto lock = lock_users(*model);
    need_weights(*model);
    *listener = new weft_listener(model);
  });
}

void weft_listener_free(weft_listener* listener) { destroy(listener); }

weft_status weft_listener_begin(weft_listener* listener, const weft_listen_options* options, weft_error* error) {
  return hear(listener, error, [&](const SpeechReader::OnSegment&) { begin(listener, options); });
}

weft_status weft_listener_feed(weft_listener* listener, const float* samples, size_t count, weft_error* error) {
  return hear(listener, error, [&](const SpeechReader::OnSegment& tell) {
    require(samples || count == 0, "samples", "it is NULL");
    listener->reader.feed({samples, count}, tell);
  });
}

weft_status weft_listener_finish(weft_listener* listener, weft_error* error) {
  return hear(listener, error, [&](const SpeechReader::OnSegment& tell) { listener->reader.finish(tell); });
}

weft_status weft_listen(weft_listener* listener, const float* samples, size_t count, const weft_listen_options* options,
                        weft_error* error) {
  return hear(listener, error, [&](const SpeechReader::OnSegment& tell) {
    require(samples || count == 0, "samples", "it is NULL");
    begin(listener, options);
    listener->reader.hear({samples, count}, tell);
  });
}

weft_status weft_listener_use_duty(weft_listener* listener, weft_duty* duty, weft_error* error) {
  return guard(error, [&] {
    require(listener, "listener", "it is NULL");
    const InUse use(listener, "listener");
    listener->reader.keep_to(duty ? duty->limit : nullptr);
  });
}

const char* weft_listener_language(const weft_listener* listener) { return listener->reader.language().c_str(); }

void weft_listener_cancel(weft_listener* listener) {
  if (listener) listener->reader.cancel();
}

void weft_listener_clear_cancel(weft_listener* listener) {
  if (listener) listener->reader.clear_cancel();
}
