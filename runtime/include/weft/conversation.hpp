// The C++ API: conversations. Everything throws Failure.
#ifndef WEFT_CONVERSATION_HPP
#define WEFT_CONVERSATION_HPP

#include <weft/conversation.h>
#include <weft/image.hpp>
#include <weft/weft.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weft::api {

// See weft_conversation. May be used by one thread at a time.
class Conversation {
 public:
  // The session must outlive it, and must not be moved. system: tells the model how to answer; empty: no such message.
  // See weft_conversation_create.
  explicit Conversation(Session& session, const std::string& system = {}) : session_(&session) {
    weft_conversation* conversation = nullptr;
    detail::check([&](weft_error* error) {
      return weft_conversation_create(session.get(), system.c_str(), &conversation, error);
    });
    handle_.reset(conversation);
  }

  // Appends a message and the answer to it, of at most max_tokens tokens (0: until another reason to stop), with one
  // callback for each token. Returns why the answer ended; see weft_conversation_ask.
  weft_stop ask(const std::string& message, std::uint32_t max_tokens = 0, const TokenCallback& callback = {},
                const std::vector<Image>& images = {}) {
    std::vector<const weft_image*> handles;
    for (const Image& image : images) handles.push_back(image.get());
    return generate(
        max_tokens, callback, [&](const weft_generate_options& options, weft_stop* stop, weft_error* error) {
          return weft_conversation_ask(get(), message.c_str(), handles.data(), handles.size(), &options, stop, error);
        });
  }

  // Answers the messages that there are; an answer at their end is replaced. See weft_conversation_answer.
  weft_stop answer(std::uint32_t max_tokens = 0, const TokenCallback& callback = {}) {
    return generate(max_tokens, callback,
                    [&](const weft_generate_options& options, weft_stop* stop, weft_error* error) {
                      return weft_conversation_answer(get(), &options, stop, error);
                    });
  }

  // Goes on with an answer that was cut or stopped; see weft_conversation_continue.
  weft_stop proceed(std::uint32_t max_tokens = 0, const TokenCallback& callback = {}) {
    return generate(max_tokens, callback,
                    [&](const weft_generate_options& options, weft_stop* stop, weft_error* error) {
                      return weft_conversation_continue(get(), &options, stop, error);
                    });
  }

  // Takes the last message of the user back, and what came after it. Returns its text, or nothing if no message of the
  // user is left.
  std::optional<std::string> undo() {
    char* question = nullptr;
    detail::check([&](weft_error* error) { return weft_conversation_undo(get(), &question, error); });
    return question ? std::optional(detail::take(question)) : std::nullopt;
  }

  // All that was said, as JSON; see weft_conversation_get.
  std::string json() const {
    return detail::text([&](char** json, weft_error* error) { return weft_conversation_get(get(), json, error); });
  }
  // Replaces all that was said; see weft_conversation_set.
  void set(const std::string& json) {
    detail::check([&](weft_error* error) { return weft_conversation_set(get(), json.c_str(), error); });
  }

  // How many messages the last answer did not see; see weft_conversation_forgotten.
  std::size_t forgotten() const noexcept { return weft_conversation_forgotten(get()); }

  // The C handle, which this object owns.
  weft_conversation* get() const noexcept { return handle_.get(); }

 private:
  template <typename Call>
  weft_stop generate(std::uint32_t max_tokens, const TokenCallback& callback, const Call& call) {
    detail::Callbacks state = session_->callbacks(callback);
    const weft_generate_options options = state.options(max_tokens, false);
    weft_stop stop = WEFT_STOP_LENGTH;
    detail::check([&](weft_error* error) { return call(options, &stop, error); }, state.thrown);
    return stop;
  }

  struct Free {
    void operator()(weft_conversation* conversation) const noexcept { weft_conversation_free(conversation); }
  };
  Session* session_;
  std::unique_ptr<weft_conversation, Free> handle_;
};

}  // namespace weft::api

#endif
