#include "conversation.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace weft::cli {

namespace {

// The beginning of a sentence about a model without a template that can be used; empty if it has one.
std::string find_missing_template(const api::Model& model) {
  if (model.info().has_chat_template != 0) return {};
  const std::string problem = nlohmann::json::parse(model.describe()).value("chat_template_problem", "");
  if (problem.empty()) return "This model has no chat template";
  return "This model's chat template cannot be used (" + problem + ")";
}

}  // namespace

Conversation::Conversation(const api::Model& model, std::uint32_t context, std::string system)
    : model_(model),
      room_(std::max<std::size_t>(context - context / 4, 2) - 1),
      missing_template_(find_missing_template(model)),
      system_(std::move(system)) {
  reset();
}

void Conversation::reset() {
  messages_.clear();
  text_.clear();
  last_.reset();
  if (!system_.empty()) messages_.push_back({{"system", system_}});
}

std::string Conversation::note() const {
  if (!images().empty()) throw api::Failure(WEFT_UNSUPPORTED, "a conversation with pictures cannot be saved");
  nlohmann::json messages = nlohmann::json::array();
  for (const Turn& message : messages_) {
    messages.push_back({{"role", message.role}, {"content", message.content}});
    if (!message.reasoning.empty()) messages.back()["reasoning_content"] = message.reasoning;
  }
  return nlohmann::json{{"messages", messages}, {"text", text_}}.dump();
}

void Conversation::read_note(const std::string& note) {
  try {
    const auto document = nlohmann::json::parse(note);
    std::vector<Turn> messages;
    for (const auto& message : document.at("messages"))
      messages.push_back({{message.at("role").get<std::string>(), message.at("content").get<std::string>()},
                          {},
                          message.value("reasoning_content", "")});
    text_ = document.at("text").get<std::string>();
    messages_ = std::move(messages);
  } catch (const nlohmann::json::exception&) {
    throw api::Failure(WEFT_BAD_FILE, "the saved session has no conversation: it was not saved by a chat");
  }
}

std::vector<std::uint32_t> Conversation::ask(const std::string& line, bool* dropped,
                                             const std::vector<api::Image>& images) {
  *dropped = false;
  if (templated()) return ask_template(line, dropped, images);
  if (!images.empty())
    throw api::Failure(WEFT_UNSUPPORTED, missing_template_ + ", which would say where a picture belongs");
  return ask_text(line, dropped);
}

std::vector<api::Image> Conversation::images() const {
  std::vector<api::Image> all;
  for (const Turn& message : messages_) all.insert(all.end(), message.images.begin(), message.images.end());
  return all;
}

std::size_t Conversation::image_tokens() const {
  std::size_t count = 0;
  for (const api::Image& image : images()) count += image.tokens() - 1;
  return count;
}

// Templates of models that see pictures take pictures as parts of a content.
std::vector<std::uint32_t> Conversation::template_ids() const {
  const bool pictures = !images().empty();
  nlohmann::json messages = nlohmann::json::array();
  for (const Turn& message : messages_) {
    messages.push_back({{"role", message.role}, {"content", message.content}});
    if (!message.reasoning.empty()) messages.back()["reasoning_content"] = message.reasoning;
    if (!pictures) continue;
    nlohmann::json content = nlohmann::json::array();
    for (std::size_t i = 0; i < message.images.size(); ++i) content.push_back({{"type", "image"}});
    content.push_back({{"type", "text"}, {"text", message.content}});
    messages.back()["content"] = content;
  }
  nlohmann::json conversation = {{"messages", messages}};
  if (thinking_) conversation["think"] = *thinking_;
  return model_.apply_chat_template_json(conversation.dump());
}

void Conversation::answered(const std::string& answer, const std::string& reasoning, bool ended) {
  if (templated()) messages_.push_back({{"assistant", ""}});
  continued(answer, reasoning, ended);
}

void Conversation::continued(const std::string& more, const std::string& reasoning, bool ended) {
  if (templated()) {
    messages_.back().content += more;
    messages_.back().reasoning += reasoning;
  } else if (ended) {
    text_.clear();  // a story that has ended is not continued
  } else {
    text_ += more;
  }
}

std::vector<std::uint32_t> Conversation::ids_to_continue(const std::vector<std::uint32_t>& answer, bool* dropped) {
  if (!templated()) return fitting_text(dropped);
  const Turn last = messages_.back();
  messages_.pop_back();
  std::vector<std::uint32_t> ids;
  try {
    ids = fitting_ids(answer.size(), dropped);
  } catch (const api::Failure&) {
    messages_.push_back(last);
    throw;
  }
  messages_.push_back(last);
  ids.insert(ids.end(), answer.begin(), answer.end());
  return ids;
}

std::optional<Conversation::Question> Conversation::undo() {
  if (!templated()) {
    if (!last_) return std::nullopt;
    Question question{std::move(last_->line), {}};
    text_ = std::move(last_->before);
    last_.reset();
    return question;
  }
  const auto last =
      std::find_if(messages_.rbegin(), messages_.rend(), [](const auto& message) { return message.role == "user"; });
  if (last == messages_.rend()) return std::nullopt;
  Question question{last->content, last->images};
  messages_.erase(last.base() - 1, messages_.end());
  return question;
}

void Conversation::adopt(const Conversation& other) {
  if (!templated() || !other.templated()) return;
  messages_ = other.messages_;
  for (Turn& message : messages_) message.images.clear();
}

// Removes the first question and its answer; the system message, if there is one, stays in front.
void Conversation::drop_oldest_turn() {
  const auto first = messages_.begin() + (messages_.front().role == "system" ? 1 : 0);
  const auto next =
      std::find_if(first + 1, messages_.end(), [](const auto& message) { return message.role == "user"; });
  messages_.erase(first, next);
}

std::vector<std::uint32_t> Conversation::fitting_ids(std::size_t more, bool* dropped) {
  const std::size_t least = messages_.front().role == "system" ? 2 : 1;
  for (;;) {
    std::vector<std::uint32_t> ids = template_ids();
    const std::size_t tokens = ids.size() + image_tokens() + more;
    if (tokens <= room_) return ids;
    if (messages_.size() <= least) {
      throw api::Failure(WEFT_CONTEXT_FULL,
                         more > 0 ? "the last message and its answer take " + std::to_string(tokens) +
                                        " tokens, and only " + std::to_string(room_) + " fit"
                                  : "this message takes " + std::to_string(tokens) + " tokens, and only " +
                                        std::to_string(room_) + " fit",
                         {}, "make it shorter, or give more room with --ctx");
    }
    drop_oldest_turn();
    *dropped = true;
  }
}

std::vector<std::uint32_t> Conversation::ask_template(const std::string& line, bool* dropped,
                                                      const std::vector<api::Image>& images) {
  messages_.push_back({{"user", line}, images});
  try {
    return fitting_ids(0, dropped);
  } catch (const api::Failure&) {
    messages_.pop_back();
    throw;
  }
}

std::vector<std::uint32_t> Conversation::ask_text(const std::string& line, bool* dropped) {
  const bool space =
      !text_.empty() && text_.back() != ' ' && text_.back() != '\n' && !line.empty() && line.front() != ' ';
  const std::string before = text_;
  text_ += (space ? " " : "") + line;
  try {
    std::vector<std::uint32_t> ids = fitting_text(dropped);
    last_ = {before, line};
    return ids;
  } catch (const api::Failure&) {
    text_ = before;
    throw;
  }
}

std::vector<std::uint32_t> Conversation::fitting_text(bool* dropped) {
  std::vector<std::uint32_t> ids = model_.tokenize(text_, true);
  if (ids.size() <= room_) return ids;
  // Keep the newest half, so that not every turn has to cut again.
  ids = model_.tokenize(text_, false);
  const std::size_t keep = std::min(ids.size(), std::max<std::size_t>(room_ / 2, 1));
  text_ = model_.detokenize({ids.end() - static_cast<std::ptrdiff_t>(keep), ids.end()});
  *dropped = true;
  ids = model_.tokenize(text_, true);
  if (ids.size() > room_)
    throw api::Failure(WEFT_CONTEXT_FULL, "the text does not fit into the context", {}, "give more room with --ctx");
  return ids;
}

}  // namespace weft::cli
