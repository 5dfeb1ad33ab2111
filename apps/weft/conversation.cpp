#include "conversation.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace weft::cli {

Conversation::Conversation(const api::Model& model, std::uint32_t context, std::string system)
    : model_(model),
      room_(std::max<std::size_t>(context - context / 4, 2) - 1),
      templated_(model.info().has_chat_template != 0),
      system_(std::move(system)) {
  reset();
}

void Conversation::reset() {
  messages_.clear();
  text_.clear();
  if (!system_.empty()) messages_.push_back({"system", system_});
}

std::string Conversation::note() const {
  nlohmann::json messages = nlohmann::json::array();
  for (const api::Message& message : messages_)
    messages.push_back({{"role", message.role}, {"content", message.content}});
  return nlohmann::json{{"messages", messages}, {"text", text_}}.dump();
}

void Conversation::read_note(const std::string& note) {
  try {
    const auto document = nlohmann::json::parse(note);
    std::vector<api::Message> messages;
    for (const auto& message : document.at("messages"))
      messages.push_back({message.at("role").get<std::string>(), message.at("content").get<std::string>()});
    text_ = document.at("text").get<std::string>();
    messages_ = std::move(messages);
  } catch (const nlohmann::json::exception&) {
    throw api::Failure(WEFT_BAD_FILE, "the saved session has no conversation: it was not saved by a chat");
  }
}

std::vector<std::uint32_t> Conversation::ask(const std::string& line, bool* dropped) {
  *dropped = false;
  return templated_ ? ask_template(line, dropped) : ask_text(line, dropped);
}

void Conversation::answered(const std::string& answer, bool ended) {
  if (templated_) {
    messages_.push_back({"assistant", answer});
  } else if (ended) {
    text_.clear();  // a story that has ended is not continued
  } else {
    text_ += answer;
  }
}

// Removes the first question and its answer; the system message, if there is one, stays in front.
void Conversation::drop_oldest_turn() {
  const auto first = messages_.begin() + (messages_.front().role == "system" ? 1 : 0);
  const auto next =
      std::find_if(first + 1, messages_.end(), [](const auto& message) { return message.role == "user"; });
  messages_.erase(first, next);
}

std::vector<std::uint32_t> Conversation::ask_template(const std::string& line, bool* dropped) {
  messages_.push_back({"user", line});
  const std::size_t least = system_.empty() ? 1 : 2;
  for (;;) {
    try {
      std::vector<std::uint32_t> ids = model_.apply_chat_template(messages_);
      if (ids.size() <= room_) return ids;
      if (messages_.size() <= least) {
        throw api::Failure(
            WEFT_CONTEXT_FULL,
            "this message takes " + std::to_string(ids.size()) + " tokens, and only " + std::to_string(room_) + " fit",
            {}, "make it shorter, or give more room with --ctx");
      }
    } catch (const api::Failure&) {
      messages_.pop_back();
      throw;
    }
    drop_oldest_turn();
    *dropped = true;
  }
}

std::vector<std::uint32_t> Conversation::ask_text(const std::string& line, bool* dropped) {
  const bool space =
      !text_.empty() && text_.back() != ' ' && text_.back() != '\n' && !line.empty() && line.front() != ' ';
  const std::string before = text_;
  text_ += (space ? " " : "") + line;
  std::vector<std::uint32_t> ids = model_.tokenize(text_, true);
  if (ids.size() <= room_) return ids;
  // Keep the newest half, so that not every turn has to cut again.
  ids = model_.tokenize(text_, false);
  const std::size_t keep = std::min(ids.size(), std::max<std::size_t>(room_ / 2, 1));
  text_ = model_.detokenize({ids.end() - static_cast<std::ptrdiff_t>(keep), ids.end()});
  *dropped = true;
  ids = model_.tokenize(text_, true);
  if (ids.size() > room_) {
    text_ = before;
    throw api::Failure(WEFT_CONTEXT_FULL, "the text does not fit into the context", {}, "give more room with --ctx");
  }
  return ids;
}

}  // namespace weft::cli
