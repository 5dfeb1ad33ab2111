// Speech in C++: a thin, header-only face over audio.h, as weft.hpp is over weft.h.
#ifndef WEFT_AUDIO_HPP
#define WEFT_AUDIO_HPP

#include <weft/audio.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>
#include <weft/weft.hpp>

namespace weft::api {

// As weft_listen_options, without the callback.
struct ListenOptions {
  std::string language;  // "": found
  bool translate = false;
  std::string prompt;
  std::uint32_t samples_per_second = WEFT_SAMPLES_PER_SECOND;
  std::vector<float> temperatures;  // none: those of weft_listen_options
  bool words = false;
};

// See weft_listener. May be used by one thread at a time.
class Listener {
 public:
  // Returns false to end the recording, which throws Failure(WEFT_CANCELLED) then. It must not throw itself.
  using OnHeard = std::function<bool(const weft_heard&)>;

  explicit Listener(const Model& model) {
    weft_listener* listener = nullptr;
    detail::check([&](weft_error* error) { return weft_listener_create(model.get(), &listener, error); });
    handle_.reset(listener);
  }

  // A recording in pieces; see weft_listener_begin, weft_listener_feed and weft_listener_finish.
  void begin(const ListenOptions& options, OnHeard on_heard) {
    *on_heard_ = std::move(on_heard);
    const weft_listen_options given = c_options(options);
    detail::check([&](weft_error* error) { return weft_listener_begin(get(), &given, error); });
  }
  void feed(const std::vector<float>& samples) {
    detail::check([&](weft_error* error) { return weft_listener_feed(get(), samples.data(), samples.size(), error); });
  }
  void finish() {
    detail::check([&](weft_error* error) { return weft_listener_finish(get(), error); });
  }

  // A whole recording; see weft_listen.
  void listen(const std::vector<float>& samples, const ListenOptions& options, OnHeard on_heard) {
    *on_heard_ = std::move(on_heard);
    const weft_listen_options given = c_options(options);
    detail::check([&](weft_error* error) { return weft_listen(get(), samples.data(), samples.size(), &given, error); });
  }

  // See weft_listener_use_duty.
  void use_duty(const Duty& duty) {
    detail::check([&](weft_error* error) { return weft_listener_use_duty(get(), duty.get(), error); });
  }
  void use_duty(std::nullptr_t) {  // no longer
    detail::check([&](weft_error* error) { return weft_listener_use_duty(get(), nullptr, error); });
  }

  // The language of the last recording; see weft_listener_language.
  std::string language() const { return weft_listener_language(get()); }

  // From any thread, and from signal handlers; see weft_listener_cancel.
  void cancel() noexcept { weft_listener_cancel(get()); }
  // Forgets a cancel() that came when nothing was heard; see weft_listener_clear_cancel.
  void clear_cancel() noexcept { weft_listener_clear_cancel(get()); }

  // The C handle, which this object owns.
  weft_listener* get() const noexcept { return handle_.get(); }

 private:
  struct Free {
    void operator()(weft_listener* listener) const noexcept { weft_listener_free(listener); }
  };
  weft_listen_options c_options(const ListenOptions& options) const {
    const auto tell = [](void* user, const weft_heard* heard) {
      return (*static_cast<const OnHeard*>(user))(*heard) ? 0 : 1;
    };
    weft_listen_options c = weft_listen_options_default();
    if (!options.language.empty()) c.language = options.language.c_str();
    c.translate = options.translate;
    if (!options.prompt.empty()) c.prompt = options.prompt.c_str();
    c.samples_per_second = options.samples_per_second;
    if (!options.temperatures.empty()) c.temperatures = options.temperatures.data();
    c.temperature_count = options.temperatures.size();
    c.words = options.words;
    c.callback = tell;
    c.user = on_heard_.get();
    return c;
  }
  std::unique_ptr<OnHeard> on_heard_ = std::make_unique<OnHeard>();  // stays where it is if this object is moved
  std::unique_ptr<weft_listener, Free> handle_;
};

}  // namespace weft::api

#endif
