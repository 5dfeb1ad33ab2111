#include "tokenizer_vocabularies.h"

#include <algorithm>
#include <climits>
#include <cstring>
#include <sstream>
#include <stdexcept>
#include <unordered_map>

#include "base/utf8.h"
#include "tokenizer/charsmap.h"

namespace weft::test {

namespace fs = std::filesystem;

std::string byte_level_spelling(std::string_view bytes) {
  static const auto alphabet = [] {
    std::vector<char32_t> codes(256);
    char32_t next = 256;
    for (unsigned b = 0; b < 256; ++b) {
      const bool printable = (b > 32 && b < 127) || (b > 160 && b != 173);
      codes[b] = printable ? b : next++;
    }
    return codes;
  }();
  std::string out;
  for (const char c : bytes) append_utf8(out, alphabet[static_cast<unsigned char>(c)]);
  return out;
}

namespace {

// The two tokens a token of this rank is merged from: what is left when only lower ranks merge. A few of Llama 3's
// tokens no merge makes; they are found as whole words only (ignore_merges).
std::optional<std::pair<std::string, std::string>> parents(const std::string& token, int rank,
                                                           const std::unordered_map<std::string, int>& ranks) {
  std::vector<std::string> parts;
  for (const char c : token) parts.emplace_back(1, c);
  while (parts.size() > 2) {
    size_t best = parts.size();
    int best_rank = rank;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto it = ranks.find(parts[i] + parts[i + 1]);
      if (it != ranks.end() && it->second < best_rank) {
        best = i;
        best_rank = it->second;
      }
    }
    if (best == parts.size()) return std::nullopt;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
  return std::pair(parts[0], parts[1]);
}

template <typename T>
T take(std::string_view& bytes) {
  T value;
  if (bytes.size() < sizeof value) throw std::runtime_error("the file ends early");
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes.remove_prefix(sizeof value);
  return value;
}

std::string take_text(std::string_view& bytes) {
  const auto size = take<uint32_t>(bytes);
  std::string text(bytes.substr(0, size));
  bytes.remove_prefix(size);
  return text;
}

Json take_value(std::string_view& bytes, uint32_t type) {
  switch (type) {
    case 4:
      return take<uint32_t>(bytes);
    case 5:
      return take<int32_t>(bytes);
    case 6:
      return take<float>(bytes);
    case 8:
      return take_text(bytes);
    case 9: {
      const auto element = take<uint32_t>(bytes);
      const auto count = take<uint32_t>(bytes);
      Json list = Json::array();
      for (uint32_t i = 0; i < count; ++i) list.push_back(take_value(bytes, element));
      return list;
    }
    default:
      throw std::runtime_error("a type this reader does not know");
  }
}

}  // namespace

Json gguf_of_vocab_and_merges(const fs::path& folder, const std::string& pre, const Json& added) {
  const Json vocab = read_json(folder / "vocab.json");
  std::vector<std::string> tokens(vocab.size());
  for (const auto& item : vocab.items()) tokens.at(item.value().get<size_t>()) = item.key();
  std::vector<int> types(tokens.size(), 1);
  for (const Json& token : added) {
    const auto it = std::find(tokens.begin(), tokens.end(), token.get<std::string>());
    if (it != tokens.end()) {
      types[static_cast<size_t>(it - tokens.begin())] = 3;
    } else {
      tokens.push_back(token);
      types.push_back(3);
    }
  }
  std::vector<std::string> merges;
  std::istringstream lines(read_text(folder / "merges.txt"));
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && !line.starts_with("#version")) merges.push_back(line);
  }
  return {{"tokenizer.ggml.model", "gpt2"},
          {"tokenizer.ggml.pre", pre},
          {"tokenizer.ggml.tokens", tokens},
          {"tokenizer.ggml.token_type", types},
          {"tokenizer.ggml.merges", merges}};
}

Json gguf_of_tiktoken(const fs::path& file, const std::string& pre) {
  std::vector<std::string> texts;
  std::unordered_map<std::string, int> ranks;
  std::istringstream lines(read_text(file));
  for (std::string token, rank; lines >> token >> rank;) {
    texts.push_back(from_base64(token).value());
    ranks[texts.back()] = std::stoi(rank);
  }
  Json tokens = Json::array(), merges = Json::array();
  for (const std::string& text : texts) tokens.push_back(byte_level_spelling(text));
  for (const std::string& text : texts) {
    if (text.size() < 2) continue;
    const auto pair = parents(text, ranks.at(text), ranks);
    if (pair) merges.push_back(byte_level_spelling(pair->first) + " " + byte_level_spelling(pair->second));
  }
  std::vector<int> types(texts.size(), 1);
  std::vector<std::string> specials = {"<|begin_of_text|>",
                                       "<|end_of_text|>",
                                       "<|reserved_special_token_0|>",
                                       "<|reserved_special_token_1|>",
                                       "<|reserved_special_token_2|>",
                                       "<|reserved_special_token_3|>",
                                       "<|start_header_id|>",
                                       "<|end_header_id|>",
                                       "<|reserved_special_token_4|>",
                                       "<|eot_id|>"};
  const size_t first = texts.size();
  for (const std::string& special : specials) {
    tokens.push_back(special);
    types.push_back(3);
  }
  return {{"tokenizer.ggml.model", "gpt2"},          {"tokenizer.ggml.pre", pre},
          {"tokenizer.ggml.tokens", tokens},         {"tokenizer.ggml.token_type", types},
          {"tokenizer.ggml.merges", merges},         {"tokenizer.ggml.bos_token_id", first},
          {"tokenizer.ggml.eos_token_id", first + 1}};
}

Json gguf_of_llama2c(const fs::path& file) {
  const std::string content = read_text(file);
  std::string_view bytes = content;
  take<int32_t>(bytes);  // the longest token
  Json tokens = Json::array(), scores = Json::array(), types = Json::array();
  while (!bytes.empty()) {
    scores.push_back(take<float>(bytes));
    std::string text = take_text(bytes);
    const size_t id = tokens.size();
    // The file writes control tokens with newlines around them and spaces for SentencePiece's U+2581.
    if (id == 1) text = "<s>";
    if (id == 2) text = "</s>";
    for (size_t at = 0; (at = text.find(' ', at)) != std::string::npos;) text.replace(at, 1, "\xE2\x96\x81");
    tokens.push_back(text);
    types.push_back(id == 0 ? 2 : id < 3 ? 3 : id < 259 ? 6 : 1);
  }
  return {{"tokenizer.ggml.model", "llama"},    {"tokenizer.ggml.tokens", tokens},  {"tokenizer.ggml.scores", scores},
          {"tokenizer.ggml.token_type", types}, {"tokenizer.ggml.bos_token_id", 1}, {"tokenizer.ggml.eos_token_id", 2}};
}

Json gguf_v1_metadata(const fs::path& file) {
  const std::string content = read_text(file);
  std::string_view bytes = content;
  if (take<uint32_t>(bytes) != 0x46554747 || take<uint32_t>(bytes) != 1) throw std::runtime_error("no GGUF version 1");
  take<uint32_t>(bytes);  // tensors
  const auto count = take<uint32_t>(bytes);
  Json metadata = Json::object();
  for (uint32_t i = 0; i < count; ++i) {
    const std::string key = take_text(bytes);
    const auto type = take<uint32_t>(bytes);
    metadata[key] = take_value(bytes, type);
  }
  return metadata;
}

Tokenizer qwen25(const fs::path& folder) {
  const Json config = read_json(folder / "tokenizer_config.json");
  std::map<int, std::string> added;
  for (const auto& item : config["added_tokens_decoder"].items())
    added[std::stoi(item.key())] = item.value()["content"];
  Json list = Json::array();
  for (const auto& [id, text] : added) list.push_back(text);
  Json metadata = gguf_of_vocab_and_merges(folder, "qwen2", list);
  metadata["tokenizer.ggml.eos_token_id"] = 151645;
  metadata["tokenizer.chat_template"] = config["chat_template"];
  return Tokenizer::from_gguf(metadata, "qwen2.5");
}

}  // namespace weft::test
