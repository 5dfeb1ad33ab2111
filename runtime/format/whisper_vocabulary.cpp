#include "format/whisper_vocabulary.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/utf8.h"

namespace weft {
namespace {

// The order of the languages' tokens (LANGUAGES of openai/whisper's tokenizer.py).
constexpr std::array<const char*, WhisperVocabulary::kLanguages> kCodes = {
    "en", "zh", "de", "es", "ru", "ko", "fr", "ja", "pt",  "tr", "pl", "ca", "nl", "ar", "sv", "it", "id",
    "hi", "fi", "vi", "he", "uk", "el", "ms", "cs", "ro",  "da", "hu", "ta", "no", "th", "ur", "hr", "bg",
    "lt", "la", "mi", "ml", "cy", "sk", "te", "fa", "lv",  "bn", "sr", "az", "sl", "kn", "et", "mk", "br",
    "eu", "is", "hy", "ne", "mn", "bs", "kk", "sq", "sw",  "gl", "mr", "pa", "si", "km", "sn", "yo", "so",
    "af", "oc", "ka", "be", "tg", "sd", "gu", "am", "yi",  "lo", "uz", "fo", "ht", "ps", "tk", "nn", "mt",
    "sa", "lb", "my", "bo", "tl", "mg", "as", "tt", "haw", "ln", "ha", "ba", "jw", "su", "yue"};

// Suppressed if they are one token, with a space before them or without.
constexpr std::array kSigns = {"\"",  "#",  "(",  ")",   "*",   "+",   "/",   ":",  ";",   "<",  "=",  ">",
                               "@",   "[",  "\\", "]",   "^",   "_",   "`",   "{",  "|",   "}",  "~",  "「",
                               "」",  "『", "』", "<<",  ">>",  "<<<", ">>>", "--", "---", "-(", "-[", "('",
                               "(\"", "((", "))", "(((", ")))", "[[",  "]]",  "{{", "}}",  "♪♪", "♪♪♪"};
// Suppressed by their first token. They share it with no other sign that is written in speech.
constexpr std::array kNotes = {"♩", "♪", "♫", "♬", "♭", "♮", "♯"};

// A byte in the printable alphabet of byte-level BPE (bytes_to_unicode of GPT-2's encoder.py).
std::string spelling_of(unsigned char byte) {
  const auto prints = [](uint32_t b) { return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE; };
  uint32_t code = byte;
  if (!prints(byte)) {
    code = 256;
    for (uint32_t other = 0; other < byte; ++other) code += prints(other) ? 0 : 1;
  }
  std::string text;
  append_utf8(text, code);
  return text;
}

std::string spelling_of(std::string_view bytes) {
  static const std::array<std::string, 256> alphabet = [] {
    std::array<std::string, 256> made;
    for (uint32_t byte = 0; byte < 256; ++byte) made[byte] = spelling_of(static_cast<unsigned char>(byte));
    return made;
  }();
  std::string text;
  for (const char byte : bytes) text += alphabet[static_cast<unsigned char>(byte)];
  return text;
}

}  // namespace

WhisperVocabulary::WhisperVocabulary(std::vector<std::string> tokens, uint32_t languages)
    : tokens_(std::move(tokens)), languages_(languages) {
  for (uint32_t id = 0; id < tokens_.size(); ++id)
    if (!tokens_[id].empty()) ids_.emplace(tokens_[id], id);
}

JsonValue WhisperVocabulary::tokenizer() const {
  JsonValue::Object vocabulary;
  JsonValue::Array merges, added;
  for (uint32_t id = 0; id < tokens_.size(); ++id) {
    const std::string_view token = tokens_[id];
    vocabulary.push_back({spelling_of(token), id});
    for (size_t cut = 1; cut < token.size(); ++cut)
      if (ids_.contains(token.substr(0, cut)) && ids_.contains(token.substr(cut)))
        merges.push_back(spelling_of(token.substr(0, cut)) + " " + spelling_of(token.substr(cut)));
  }
  const auto add = [&](const std::string& name) {
    added.push_back({{"id", tokens_.size() + added.size()}, {"content", "<|" + name + "|>"}, {"special", true}});
  };
  add("endoftext");
  add("startoftranscript");
  for (uint32_t i = 0; i < languages_; ++i) add(kCodes[i]);
  for (const char* name : {"translate", "transcribe", "startoflm", "startofprev", "nospeech", "notimestamps"})
    add(name);
  JsonValue model = {{"type", "BPE"}};
  model["vocab"] = JsonValue::object();
  model["vocab"].members() = std::move(vocabulary);
  model["merges"] = std::move(merges);
  const JsonValue bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
  return {
      {"added_tokens", std::move(added)}, {"pre_tokenizer", bytes}, {"decoder", bytes}, {"model", std::move(model)}};
}

std::vector<uint32_t> WhisperVocabulary::encode(std::string_view text) const {
  std::vector<std::string_view> parts;
  for (size_t i = 0; i < text.size(); ++i) parts.push_back(text.substr(i, 1));
  for (;;) {  // joins the two neighbours that make the token with the lowest id
    std::optional<std::pair<uint32_t, size_t>> best;
    for (size_t i = 0; i + 1 < parts.size(); ++i)
      if (const auto found = ids_.find({parts[i].data(), parts[i].size() + parts[i + 1].size()}); found != ids_.end())
        best = std::min(best.value_or(std::pair(UINT32_MAX, size_t{0})), std::pair(found->second, i));
    if (!best) break;
    const auto at = parts.begin() + static_cast<ptrdiff_t>(best->second);
    *at = {at->data(), at->size() + at[1].size()};
    parts.erase(at + 1);
  }
  std::vector<uint32_t> ids;
  for (const std::string_view part : parts)
    if (const auto found = ids_.find(part); found != ids_.end()) ids.push_back(found->second);
  return ids;
}

std::vector<uint32_t> WhisperVocabulary::suppressed() const {
  std::vector<uint32_t> result;
  const auto suppress = [&](const std::string& text, bool whole) {
    const std::vector<uint32_t> ids = encode(text);
    if (ids.size() == 1 || (!whole && !ids.empty())) result.push_back(ids.front());
  };
  for (const char* text : {" -", " '"}) suppress(text, false);
  for (const std::string before : {"", " "}) {
    for (const char* sign : kSigns) suppress(before + sign, true);
    for (const char* note : kNotes) suppress(before + note, false);
  }
  std::ranges::sort(result);
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

}  // namespace weft
