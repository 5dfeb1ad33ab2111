// Speech in C++: a thin, header-only face over audio.h, as weft.hpp is over weft.h.
#ifndef WEFT_AUDIO_HPP
#define WEFT_AUDIO_HPP

#include <weft/audio.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>
#include <weft/weft.hpp>

namespace weft::api {

// See weft_listener. May be used by one thread at a time.
class Listener {
 public:
  explicit Listener(const Model& model) {
    weft_listener* listener = nullptr;
    detail::check([&](weft_error* error) { return weft_listener_create(model.get(), &listener, error); });
    handle_.reset(listener);
  }

  // Hears a recording; see weft_listen. language: "": found. on_heard returns false to end the call, which throws
  // Failure(WEFT_CANCELLED) then, and must not throw itself.
  void listen(const std::vector<float>& samples, const std::string& language, bool translate,
              const std::function<bool(const weft_heard&)>& on_heard) {
    using OnHeard = std::function<bool(const weft_heard&)>;
    const auto tell = [](void* user, const weft_heard* heard) {
      return (*static_cast<const OnHeard*>(user))(*heard) ? 0 : 1;
    };
    const weft_listen_options options = {language.empty() ? nullptr : language.c_str(), translate, tell,
                                         const_cast<OnHeard*>(&on_heard)};
    detail::check(
        [&](weft_error* error) { return weft_listen(get(), samples.data(), samples.size(), &options, error); });
  }

  // The language of the last recording; see weft_listener_language.
  std::string language() const { return weft_listener_language(get()); }

  // The C handle, which this object owns.
  weft_listener* get() const noexcept { return handle_.get(); }

 private:
  struct Free {
    void operator()(weft_listener* listener) const noexcept { weft_listener_free(listener); }
  };
  std::unique_ptr<weft_listener, Free> handle_;
};

}  // namespace weft::api

#endif
