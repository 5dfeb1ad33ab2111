#include "logprobs.h"

#include <algorithm>

#include "../weft/common.h"
#include "fields.h"

namespace weft::serve {
namespace {

// JSON has no infinity; OpenAI has this for tokens that are next to impossible.
double finite(float logprob) { return std::max(static_cast<double>(logprob), -9999.0); }

// Parts of characters are written as OpenAI does: bytes:\xf0\x9f
std::string printable(const std::string& bytes) {
  if (is_utf8(bytes)) return bytes;
  std::string text = "bytes:";
  for (const char c : bytes) text += cli::format("\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
  return text;
}

Json entry(const cli::TokenBytes& token, float logprob) {
  Json bytes = nullptr;
  if (!token.control) {
    bytes = Json::array();
    for (const char c : token.bytes) bytes.push_back(static_cast<unsigned char>(c));
  }
  return {{"token", printable(token.bytes)}, {"logprob", finite(logprob)}, {"bytes", bytes}};
}

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

}  // namespace

// The form of chats.
Json LogprobWriter::content(const std::vector<TokenLogprobs>& tokens) const {
  Json list = Json::array();
  for (const TokenLogprobs& token : tokens) {
    Json one = entry(cli::token_bytes(model_, token.id), token.chosen);
    one["top_logprobs"] = Json::array();
    for (std::size_t i = 0; i < std::min<std::size_t>(*wanted_, token.likeliest.size()); ++i)
      one["top_logprobs"].push_back(
          entry(cli::token_bytes(model_, token.likeliest[i].first), token.likeliest[i].second));
    list.push_back(one);
  }
  return {{"content", list}, {"refusal", nullptr}};
}

// The form of completions.
Json LogprobWriter::lists(const std::vector<TokenLogprobs>& tokens) {
  Json texts = Json::array(), chosen = Json::array(), likeliest = Json::array(), offsets = Json::array();
  for (const TokenLogprobs& token : tokens) {
    const cli::TokenBytes own = cli::token_bytes(model_, token.id);
    texts.push_back(printable(own.bytes));
    chosen.push_back(finite(token.chosen));
    Json top = Json::object();
    for (std::size_t i = 0; i < std::min<std::size_t>(*wanted_, token.likeliest.size()); ++i)
      top.emplace(printable(cli::token_bytes(model_, token.likeliest[i].first).bytes),
                  finite(token.likeliest[i].second));
    top.emplace(printable(own.bytes), finite(token.chosen));
    likeliest.push_back(top);
    const std::string text = own.control ? std::string() : own.bytes;
    const bool begins = text.empty() || !continues_character(text[0]) || characters_ == 0;
    offsets.push_back(characters_ - (begins ? 0 : 1));
    characters_ +=
        static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return !continues_character(c); }));
  }
  return {{"tokens", texts},
          {"token_logprobs", chosen},
          {"top_logprobs", *wanted_ > 0 ? likeliest : Json(nullptr)},
          {"text_offset", offsets}};
}

Json LogprobWriter::json(const std::vector<TokenLogprobs>& tokens) {
  if (!wanted_) return nullptr;
  return chat_ ? content(tokens) : lists(tokens);
}

}  // namespace weft::serve
