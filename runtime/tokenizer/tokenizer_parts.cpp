#include "tokenizer/tokenizer_parts.h"

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"

namespace weft {

namespace {

// Names that makers of chat models give to the end of a turn, of a message or of a text.
constexpr std::string_view kEndings[] = {"<|eot_id|>",
                                         "<|eom_id|>",
                                         "<|im_end|>",
                                         "<|end|>",
                                         "<end_of_turn>",
                                         "<|endoftext|>",
                                         "<|end_of_text|>",
                                         "<|eot|>",
                                         "<|end_of_turn|>",
                                         "<end_of_utterance>",
                                         "<turn|>",
                                         "<|tool_response>",
                                         "<EOT>",
                                         "<|return|>",
                                         "<|call|>",
                                         "<｜end▁of▁sentence｜>",
                                         "<|END_OF_TURN_TOKEN|>"};

constexpr int kMaxSpaces = 16;  // in one merge

}  // namespace

std::optional<unsigned char> byte_token(std::string_view spelling) {
  if (spelling.size() != 6 || !spelling.starts_with("<0x") || spelling.back() != '>') return std::nullopt;
  const int high = hex_value(spelling[3]), low = hex_value(spelling[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<unsigned char>(high * 16 + low);
}

std::string word_piece_bytes(const WordPieceOptions& options, const std::string& spelling, bool cleans) {
  if (spelling.starts_with(options.continuation)) return spelling.substr(options.continuation.size());
  static constexpr std::string_view kClose[] = {".", "?", "!", ",", "n't", "'m", "'s", "'ve", "'re"};
  const bool close = cleans && std::find(std::begin(kClose), std::end(kClose), spelling) != std::end(kClose);
  return close ? spelling : " " + spelling;
}

bool looks_like_control(std::string_view spelling) {
  return spelling.size() > 4 && spelling.starts_with("<|") && spelling.ends_with("|>");
}

void add_merge(TokenizerParts& parts, const TokenIds& ids, const std::string& left, const std::string& right,
               const std::string& place) {
  const auto l = ids.find(left), r = ids.find(right), both = ids.find(left + right);
  if (l == ids.end() || r == ids.end() || both == ids.end()) {
    const std::string& missing = l == ids.end() ? left : r == ids.end() ? right : left + right;
    throw Error(Code::bad_file,
                "the merge of " + in_quotes(left) + " and " + in_quotes(right) + " needs " + in_quotes(missing) +
                    ", which is no token",
                place);
  }
  if (parts.kind[both->second] == TokenKind::control) return;
  parts.merges.push_back({l->second, r->second, both->second});
}

void add_merge(TokenizerParts& parts, const TokenIds& ids, const std::string& merge, const std::string& place) {
  const size_t first = merge.find(' ', 1);
  if (first == std::string::npos) {
    throw Error(Code::bad_file, "the merge " + in_quotes(merge) + " is not two tokens and a space between them", place);
  }
  size_t space = first;
  for (int tries = 0; tries < kMaxSpaces && space != std::string::npos; ++tries, space = merge.find(' ', space + 1)) {
    const std::string left = merge.substr(0, space), right = merge.substr(space + 1);
    if (!ids.contains(left) || !ids.contains(right) || !ids.contains(left + right)) continue;
    add_merge(parts, ids, left, right, place);
    return;
  }
  add_merge(parts, ids, merge.substr(0, first), merge.substr(first + 1), place);
}

void mark_stripping(std::string_view architecture, std::string_view model, std::vector<AddedToken>& added) {
  // Phi-3 has Llama 2's vocabulary. Phi-4 has the same architecture and another vocabulary, which strips nothing.
  if (architecture == "phi3" && model == "llama") {
    for (AddedToken& token : added)
      token.rstrip = token.text != "<unk>" && token.text != "<s>" && token.text != "<|endoftext|>";
  } else if (architecture == "modern-bert") {
    for (AddedToken& token : added) token.lstrip = token.text == "[MASK]";
  }
}

// In OpenAI's Harmony format, which these two tell, <|end|> ends a message and the turn goes on: analysis, then the
// answer.
static bool is_harmony(const TokenizerParts& parts) {
  const auto has = [&](const char* spelling) {
    return std::ranges::find(parts.spelling, spelling) != parts.spelling.end();
  };
  return has("<|return|>") && has("<|call|>");
}

void finish_stop_ids(TokenizerParts& parts) {
  if (parts.eos) parts.stop_ids.push_back(*parts.eos);
  const bool harmony = is_harmony(parts);
  for (size_t id = 0; id < parts.spelling.size(); ++id) {
    if (parts.kind[id] != TokenKind::control && parts.kind[id] != TokenKind::user_defined) continue;
    if (harmony && parts.spelling[id] == "<|end|>") continue;
    if (std::ranges::find(kEndings, parts.spelling[id]) != std::end(kEndings))
      parts.stop_ids.push_back(static_cast<uint32_t>(id));
  }
  std::sort(parts.stop_ids.begin(), parts.stop_ids.end());
  parts.stop_ids.erase(std::unique(parts.stop_ids.begin(), parts.stop_ids.end()), parts.stop_ids.end());
  for (const uint32_t id : parts.stop_ids) parts.kind[id] = TokenKind::control;
  if (parts.bos) parts.kind[*parts.bos] = TokenKind::control;
}

}  // namespace weft
