// The C API: conversations.
#include "weft/conversation.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/json_digits.h"
#include "base/utf8.h"
#include "capi/pictures.h"

using namespace weft;
using namespace weft::capi;

namespace {

struct Turn {
  JsonValue json;  // as a chat template takes it
  Pictures pictures = {};
};

// All that was said.
struct Said {
  JsonValue options = JsonValue::object();  // tools, variables and think
  std::vector<Turn> messages;               // with a template
  size_t first = 0;                         // message that the context begins with, after that of the system
  size_t cuts = 0;                          // without: how often the text's beginning was cut off
  std::string text;                         // without a template
  std::optional<std::string> before;        // without: the text before the last question
  std::string question;                     // without: the last one
};

std::string text_of(const JsonValue& message, const char* key) {
  const JsonValue* const text = message.find(key);
  return text && text->is_string() && !long_number(*text) ? text->text() : std::string();
}

bool has_role(const Turn& message, std::string_view role) { return text_of(message.json, "role") == role; }

[[noreturn]] void refuse(const char* sentence) { throw Error(Code::invalid_argument, sentence); }

void need_utf8(std::string_view text, const char* argument) {
  require(valid_utf8_prefix(text) == text.size(), argument, "it is not UTF-8");
}

// Collects an answer while the caller's callbacks get it.
class Listener {
 public:
  explicit Listener(const weft_generate_options& options) : options_(options), wrapped_(options) {
    wrapped_.callback = on_token;
    wrapped_.reasoning_callback = on_reasoning;
    if (options.prompt_callback) wrapped_.prompt_callback = on_prompt;
    wrapped_.user = this;
  }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  const weft_generate_options& options() const { return wrapped_; }

  std::string answer, reasoning;

 private:
  static int on_token(void* user, uint32_t id, const char* text, size_t length) {
    auto* self = static_cast<Listener*>(user);
    self->answer.append(text, length);
    return self->options_.callback ? self->options_.callback(self->options_.user, id, text, length) : 0;
  }
  static int on_reasoning(void* user, const char* text, size_t length) {
    auto* self = static_cast<Listener*>(user);
    self->reasoning.append(text, length);
    const weft_generate_options& options = self->options_;
    return options.reasoning_callback ? options.reasoning_callback(options.user, text, length) : 0;
  }
  static int on_prompt(void* user, uint32_t done, uint32_t all) {
    const weft_generate_options& options = static_cast<Listener*>(user)->options_;
    return options.prompt_callback(options.user, done, all);
  }

  const weft_generate_options& options_;
  weft_generate_options wrapped_;
};

}  // namespace

struct weft_conversation {
  weft_conversation(weft_session& of, std::string system) : session(of), model(*of.model) {
    if (templated() && !system.empty())
      said.messages.push_back({JsonValue{{"role", "system"}, {"content", std::move(system)}}});
  }

  bool templated() const { return model.chat_template.has_value(); }
  void need_template() const { chat_template_of(model); }
  weft_stop ask(std::string message, Pictures pictures, const weft_generate_options& options);
  weft_stop answer(const weft_generate_options& options);
  weft_stop proceed(const weft_generate_options& options);
  std::optional<std::string> undo();
  size_t forgotten() const { return said.cuts + said.first - std::min(said.first, begin()); }
  JsonValue json() const;
  void set(JsonValue conversation);

  weft_session& session;
  const weft_model& model;
  Said said;
  std::atomic<bool> busy = false;  // a call generates

 private:
  // Does work that changes what was said; if it fails, all is as before.
  template <class Work>
  weft_stop change(const Work& work);
  weft_stop answer_messages(const weft_generate_options& options);
  weft_stop answer_text(const weft_generate_options& options);
  // Generates after the session's context; what comes is appended to the last answer.
  weft_stop generate(const weft_generate_options& options);
  size_t begin() const { return !said.messages.empty() && has_role(said.messages[0], "system") ? 1 : 0; }
  Pictures pictures_from(size_t first) const;
  std::vector<uint32_t> ids_from(size_t first) const;
  // Ids of the messages that fit with `more` tokens after them; said.first becomes the oldest of them. answer: the most
  // tokens that are generated, 0: not known.
  std::vector<uint32_t> fitting_ids(size_t more, uint32_t answer);
  std::vector<uint32_t> fitting_text();
  void prompt(const std::vector<uint32_t>& ids);
  size_t room() const {
    const size_t context = session.session.context();
    return std::max<size_t>(context - context / 4, 2) - 1;
  }

  std::optional<weft_stop> stop_;         // of the last answer, if it can be continued
  std::vector<uint32_t> answer_;          // its ids
  bool reasons_ = false;                  // it ended within its reasoning
  std::vector<uint32_t> answered_after_;  // the session's context when it ended
  uint64_t answers_ = 0;                  // of the session then
};

Pictures weft_conversation::pictures_from(size_t first) const {
  Pictures all;
  for (size_t i = 0; i < said.messages.size(); ++i)
    if (i < begin() || i >= first)
      all.insert(all.end(), said.messages[i].pictures.begin(), said.messages[i].pictures.end());
  return all;
}

// Templates of models that see pictures take pictures as parts of a content.
std::vector<uint32_t> weft_conversation::ids_from(size_t first) const {
  const bool pictures = !pictures_from(first).empty();
  JsonValue messages = JsonValue::array();
  for (size_t i = 0; i < said.messages.size(); ++i) {
    if (i >= begin() && i < first) continue;
    JsonValue message = said.messages[i].json;
    if (pictures && message.contains("content") && message["content"].is_string()) {
      JsonValue picture, content = JsonValue::array();
      picture["type"] = "image";
      for (size_t k = 0; k < said.messages[i].pictures.size(); ++k) content.push_back(picture);
      content.push_back({{"type", "text"}, {"text", message["content"]}});
      message["content"] = std::move(content);
    }
    messages.push_back(std::move(message));
  }
  JsonValue conversation = said.options;
  conversation["messages"] = std::move(messages);
  return chat_ids(model, conversation);
}

// Once messages must go, only half of the room is filled, so that not every turn has to read the rest again.
std::vector<uint32_t> weft_conversation::fitting_ids(size_t more, uint32_t answer) {
  // Messages may have been taken back or replaced.
  if (said.first < begin() || said.first + 1 >= said.messages.size() || !has_role(said.messages[said.first], "user"))
    said.first = begin();
  const size_t context = session.session.context(), after = size_t{answer} + 1;
  const size_t most = answer > 0 && after < context ? std::max(room(), context - after) : room();
  std::vector<size_t> starts = {said.first};  // of turns
  for (size_t i = said.first + 1; i < said.messages.size(); ++i)
    if (has_role(said.messages[i], "user")) starts.push_back(i);
  std::vector<uint32_t> ids;
  size_t tokens = 0;
  const auto fits = [&](size_t start, size_t limit) {
    ids = ids_from(start);
    tokens = ids.size() + more;
    for (const auto& picture : pictures_from(start)) tokens += picture->ids.size() - 1;
    return tokens <= limit;
  };
  if (fits(starts[0], most)) return ids;
  auto start = std::partition_point(starts.begin() + 1, starts.end(), [&](size_t i) { return !fits(i, room() / 2); });
  if (start == starts.end()) --start;
  const size_t alone = more > 0 ? room() : context - 1;  // what the last turn may take
  if (!fits(*start, *start == starts.back() ? alone : room()))
    throw Error(Code::context_full,
                (more > 0 ? "the last message and its answer take " : "this message takes ") + std::to_string(tokens) +
                    " tokens, and only " + std::to_string(alone) + " fit",
                "", "make it shorter, or give the session a larger context");
  said.first = *start;
  return ids;
}

std::vector<uint32_t> weft_conversation::fitting_text() {
  const Tokenizer& tokenizer = model.tokenizer;
  const auto ids_of_text = [&] {
    std::vector<uint32_t> ids = tokenizer.encode(said.text, Special::plain);
    if (tokenizer.add_bos() && tokenizer.bos()) ids.insert(ids.begin(), *tokenizer.bos());
    return ids;
  };
  std::vector<uint32_t> ids = ids_of_text();
  if (ids.size() <= room()) return ids;
  // The newest half stays, so that not every turn has to cut again.
  const std::vector<uint32_t> all = tokenizer.encode(said.text, Special::plain);
  const size_t keep = std::min(all.size(), std::max<size_t>(room() / 2, 1));
  said.text = tokenizer.decode(std::span(all).last(keep));
  ++said.cuts;
  ids = ids_of_text();
  if (ids.size() > room())
    throw Error(Code::context_full, "the text does not fit into the context", "", "give the session a larger context");
  return ids;
}

void weft_conversation::prompt(const std::vector<uint32_t>& ids) {
  const Pictures pictures = pictures_from(said.first);
  if (!pictures.empty()) return prompt_pictures(session, ids, pictures);
  with_recovery(session, [&] { session.session.prompt(ids); });
  session.begin_answer();
}

template <class Work>
weft_stop weft_conversation::change(const Work& work) {
  auto before = std::tuple(said, stop_, answer_);
  try {
    stop_ = work();
  } catch (...) {
    std::tie(said, stop_, answer_) = std::move(before);
    throw;
  }
  return *stop_;
}

weft_stop weft_conversation::generate(const weft_generate_options& options) {
  const size_t begin = session.session.ids().size();
  Listener listener(options);
  const weft_stop stop = generate_answer(session, listener.options());
  if (templated()) {
    JsonValue& message = said.messages.back().json;
    message["content"].text() += listener.answer;
    if (!listener.reasoning.empty())
      message["reasoning_content"] = text_of(message, "reasoning_content") + listener.reasoning;
  } else if (stop == WEFT_STOP_TOKEN) {
    said.text.clear();  // a story that has ended is not continued
  } else {
    said.text += listener.answer;
  }
  reasons_ = session.reasoning && session.reasoning->begun() && session.reasoning->reasons();
  answers_ = session.answers;
  answered_after_.assign(session.session.ids().begin(), session.session.ids().end());
  answer_.insert(answer_.end(), answered_after_.begin() + static_cast<ptrdiff_t>(begin), answered_after_.end());
  return stop;
}

weft_stop weft_conversation::ask(std::string message, Pictures pictures, const weft_generate_options& options) {
  if (templated()) {
    return change([&] {
      said.messages.push_back({JsonValue{{"role", "user"}, {"content", std::move(message)}}, std::move(pictures)});
      return answer_messages(options);
    });
  }
  if (!pictures.empty()) need_template();  // which would say where they belong
  return change([&] {
    said.before = said.text;
    said.question = std::move(message);
    return answer_text(options);
  });
}

weft_stop weft_conversation::answer(const weft_generate_options& options) {
  if (!templated()) {
    if (!said.before) refuse("there is no question to answer anew");
    return change([&] { return answer_text(options); });
  }
  return change([&] {
    if (!said.messages.empty() && has_role(said.messages.back(), "assistant")) said.messages.pop_back();
    if (said.messages.empty()) refuse("there is no question to answer anew");
    return answer_messages(options);
  });
}

weft_stop weft_conversation::answer_messages(const weft_generate_options& options) {
  answer_.clear();
  prompt(fitting_ids(0, options.max_tokens));
  said.messages.push_back({JsonValue{{"role", "assistant"}, {"content", ""}}});
  return generate(options);
}

weft_stop weft_conversation::answer_text(const weft_generate_options& options) {
  const std::string &before = *said.before, &question = said.question;
  const auto is_space = [](char c) { return c == ' ' || c == '\n'; };
  const bool apart = !before.empty() && !question.empty() && !is_space(before.back()) && question.front() != ' ';
  said.text = before + (apart ? " " : "") + question;
  answer_.clear();
  prompt(fitting_text());
  return generate(options);
}

weft_stop weft_conversation::proceed(const weft_generate_options& options) {
  if (!stop_) refuse("there is no answer to continue");
  if (*stop_ != WEFT_STOP_LENGTH && *stop_ != WEFT_STOP_CALLER && *stop_ != WEFT_STOP_CONTEXT)
    refuse("the answer has ended: there is nothing to continue");
  const bool again = *stop_ == WEFT_STOP_CONTEXT || session.answers != answers_ ||
                     !std::ranges::equal(session.session.ids(), answered_after_);
  if (again && session.grammar)
    throw Error(Code::unsupported, "a grammar cannot go on with a text whose beginning is gone", "grammar");
  return change([&] {
    if (again && templated()) {
      Turn last = std::move(said.messages.back());
      said.messages.pop_back();
      std::vector<uint32_t> ids = fitting_ids(answer_.size(), 0);
      ids.insert(ids.end(), answer_.begin(), answer_.end());
      prompt(ids);
      said.messages.push_back(std::move(last));
    } else if (again) {
      prompt(fitting_text());
    }
    if (again && session.reasoning) session.reasoning->resume(reasons_);
    return generate(options);
  });
}

std::optional<std::string> weft_conversation::undo() {
  if (!templated()) {
    if (!said.before) return std::nullopt;
    stop_.reset();
    said.text = *std::exchange(said.before, std::nullopt);
    return said.question;
  }
  const auto last = std::find_if(said.messages.rbegin(), said.messages.rend(),
                                 [](const Turn& message) { return has_role(message, "user"); });
  if (last == said.messages.rend()) return std::nullopt;
  stop_.reset();
  std::string question = text_of(last->json, "content");
  said.first = begin();
  said.messages.erase(last.base() - 1, said.messages.end());
  return question;
}

JsonValue weft_conversation::json() const {
  JsonValue all = said.options;
  all["messages"] = JsonValue::array();
  for (const Turn& message : said.messages) {
    JsonValue json = message.json;
    if (!message.pictures.empty()) json["images"] = message.pictures.size();
    all["messages"].push_back(std::move(json));
  }
  all["text"] = said.text;
  if (templated() && forgotten() > 0) all["forgotten"] = forgotten();
  return all;
}

void weft_conversation::set(JsonValue conversation) {
  Said other;
  for (const char* name : {"tools", "variables", "think"})
    if (const JsonValue* const value = conversation.find(name); value && !value->is_null())
      other.options[name] = *value;
  if (!conversation["messages"].empty()) need_template();
  for (JsonValue& message : conversation["messages"].items()) {
    message.erase("images");
    other.messages.push_back({std::move(message)});
  }
  other.text = text_of(conversation, "text");
  const auto is_same = [](const Turn& x, const Turn& y) { return x.json.dump() == y.json.dump(); };
  if (other.messages.size() > said.first &&
      std::equal(said.messages.begin(), said.messages.begin() + static_cast<ptrdiff_t>(said.first),
                 other.messages.begin(), is_same))
    other.first = said.first;  // so that the context begins where it did
  said = std::move(other);
  stop_.reset();
  const JsonValue* const forgotten = conversation.find("forgotten");
  if (forgotten && forgotten->is_number_unsigned() && forgotten->get<uint64_t>() < said.messages.size())
    said.first = begin() + forgotten->get<size_t>();
}

weft_status weft_conversation_create(weft_session* session, const char* system, weft_conversation** conversation,
                                     weft_error* error) {
  return guard(error, [&] {
    require(session && conversation, "session or conversation", "it is NULL");
    if (system) need_utf8(system, "system");
    const InUse use(session);
    if (session->model->model.config.encoder)
      throw Error(Code::unsupported, "an encoder-decoder cannot chat: it answers each text alone", "model");
    *conversation = new weft_conversation(*session, system ? system : "");
  });
}

void weft_conversation_free(weft_conversation* conversation) {
  if (conversation && !conversation->busy) delete conversation;  // in its own callback: better a leak than a crash
}

// Calls work(options) on a conversation that nobody else uses.
template <class Work>
static weft_status generate_with(weft_conversation* conversation, const weft_generate_options* options, weft_stop* stop,
                                 weft_error* error, const Work& work) {
  return guard(error, [&] {
    require(conversation && options, "conversation or options", "it is NULL");
    const InUse use(&conversation->session);
    conversation->busy = true;
    const auto done = [](weft_conversation* of) { of->busy = false; };
    const std::unique_ptr<weft_conversation, decltype(done)> guard(conversation, done);
    const weft_generate_options all = read_struct(options);
    if (all.request) with_recovery(conversation->session, [&] { set_request(conversation->session, all.request); });
    const weft_stop ended = work(all);
    if (stop) *stop = ended;
  });
}

weft_status weft_conversation_ask(weft_conversation* conversation, const char* message, const weft_image* const* images,
                                  size_t image_count, const weft_generate_options* options, weft_stop* stop,
                                  weft_error* error) {
  return generate_with(conversation, options, stop, error, [&](const weft_generate_options& all) {
    require(message && (images || image_count == 0), "message or images", "it is NULL");
    need_utf8(message, "message");
    return conversation->ask(message, pictures_of(images, image_count), all);
  });
}

weft_status weft_conversation_answer(weft_conversation* conversation, const weft_generate_options* options,
                                     weft_stop* stop, weft_error* error) {
  return generate_with(conversation, options, stop, error,
                       [&](const weft_generate_options& all) { return conversation->answer(all); });
}

weft_status weft_conversation_continue(weft_conversation* conversation, const weft_generate_options* options,
                                       weft_stop* stop, weft_error* error) {
  return generate_with(conversation, options, stop, error,
                       [&](const weft_generate_options& all) { return conversation->proceed(all); });
}

weft_status weft_conversation_undo(weft_conversation* conversation, char** question, weft_error* error) {
  return guard(error, [&] {
    require(conversation, "conversation", "it is NULL");
    const InUse use(&conversation->session);
    const std::optional<std::string> taken = conversation->undo();
    if (question) *question = taken ? copy_string(*taken) : nullptr;
  });
}

weft_status weft_conversation_get(const weft_conversation* conversation, char** json, weft_error* error) {
  return guard(error, [&] {
    require(conversation && json, "conversation or json", "it is NULL");
    *json = copy_string(dump_digits(conversation->json()));
  });
}

weft_status weft_conversation_set(weft_conversation* conversation, const char* json, weft_error* error) {
  return guard(error, [&] {
    require(conversation && json, "conversation or json", "it is NULL");
    const InUse use(&conversation->session);
    conversation->set(parse_conversation(json));
  });
}

size_t weft_conversation_forgotten(const weft_conversation* conversation) {
  return conversation ? conversation->forgotten() : 0;
}
