#include "tokenizer/tokenizer.h"

#include <algorithm>
#include <variant>

#include "base/error.h"
#include "base/utf8.h"
#include "base/wanted.h"
#include "tokenizer/tokenizer_parts.h"

namespace weft {

namespace {

constexpr size_t kMaxText = size_t{1} << 30;
const std::string kEmpty;

using Model = std::variant<Bpe, Unigram, WordPiece>;  // they read parts.match

Model make_model(TokenizerParts& parts) {
  if (parts.word_piece) return WordPiece(*parts.word_piece, parts.match);
  if (parts.unigram) return Unigram(*parts.unigram, parts.match, parts.log_probabilities, parts.byte_ids);
  if (!parts.scores.empty()) return Bpe(parts.bpe, parts.match, parts.byte_ids, std::move(parts.scores));
  return Bpe(parts.bpe, parts.match, parts.byte_ids, std::exchange(parts.merges, {}));
}

bool is_control_kind(TokenKind kind) {
  return kind == TokenKind::control || kind == TokenKind::unknown || kind == TokenKind::missing;
}

// FNV-1a: draft-eastlake-fnv. A length before each spelling keeps "ab", "c" apart from "a", "bc".
uint64_t hash_vocabulary(const TokenizerParts& parts) {
  uint64_t hash = 0xcbf29ce484222325u;
  const auto add = [&hash](uint64_t byte) { hash = (hash ^ byte) * 0x100000001b3u; };
  for (size_t id = 0; id < parts.spelling.size(); ++id) {
    const TokenKind kind = parts.kind[id];
    add(is_control_kind(kind) ? 1 : kind == TokenKind::byte ? 2 : 0);
    const std::string& spelling = parts.spelling[id];
    for (int shift = 0; shift < 64; shift += 8) add((uint64_t{spelling.size()} >> shift) & 0xff);
    for (const char c : spelling) add(static_cast<unsigned char>(c));
  }
  return hash;
}

// Added tokens that are found in the text as it is, or in the normalized text.
std::vector<AddedToken> pick_added(const TokenizerParts& parts, bool normalized) {
  std::vector<AddedToken> picked;
  for (const AddedToken& token : parts.added) {
    if (token.normalized != normalized) continue;
    picked.push_back(token);
    if (normalized) picked.back().text = parts.normalizer.apply(token.text).text;
  }
  // Control tokens come first: the normalizer may write two alike.
  std::stable_partition(picked.begin(), picked.end(), [](const AddedToken& token) { return token.control; });
  return picked;
}

}  // namespace

struct Tokenizer::Impl {
  TokenizerParts parts;
  Model model;
  AddedTokens added, added_normalized;
  bool has_control_normalized = false;
  uint64_t fingerprint;

  explicit Impl(TokenizerParts p)
      : parts(std::move(p)),
        model(make_model(parts)),
        added(pick_added(parts, false)),
        added_normalized(pick_added(parts, true)),
        fingerprint(hash_vocabulary(parts)) {
    has_control_normalized =
        std::ranges::any_of(parts.added, [](const AddedToken& token) { return token.normalized && token.control; });
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
};

Tokenizer::Tokenizer(TokenizerParts parts) : impl_(std::make_shared<Impl>(std::move(parts))) {}

uint32_t Tokenizer::size() const { return static_cast<uint32_t>(impl_->parts.spelling.size()); }
bool Tokenizer::add_bos() const { return impl_->parts.add_bos; }
std::optional<uint32_t> Tokenizer::bos() const { return impl_->parts.bos; }
std::optional<uint32_t> Tokenizer::eos() const { return impl_->parts.eos; }
std::optional<uint32_t> Tokenizer::input_end() const { return impl_->parts.input_end; }
std::optional<uint32_t> Tokenizer::mask() const { return impl_->parts.mask; }
const std::vector<uint32_t>& Tokenizer::stop_ids() const { return impl_->parts.stop_ids; }
uint64_t Tokenizer::fingerprint() const { return impl_->fingerprint; }
const std::string& Tokenizer::chat_template() const { return impl_->parts.chat_template; }
const std::string& Tokenizer::tool_template() const { return impl_->parts.tool_template; }
const std::map<std::string, std::string>& Tokenizer::named_tokens() const { return impl_->parts.named; }

std::vector<std::string> Tokenizer::token_bytes() const {
  std::vector<std::string> all(size());
  for (uint32_t id = 0; id < size(); ++id)
    if (!is_control(id)) all[id] = bytes(id);
  return all;
}

bool Tokenizer::is_control(uint32_t id) const { return id >= size() || is_control_kind(impl_->parts.kind[id]); }

bool Tokenizer::is_byte_token(uint32_t id) const {
  if (id >= size()) return false;
  const TokenKind kind = impl_->parts.kind[id];
  return kind == TokenKind::byte ||
         (impl_->parts.byte_alphabet && kind == TokenKind::normal && impl_->parts.bytes[id].size() == 1);
}

std::string Tokenizer::bytes(uint32_t id) const { return is_control(id) ? std::string() : impl_->parts.bytes[id]; }

const std::string& Tokenizer::spelling(uint32_t id) const { return id < size() ? impl_->parts.spelling[id] : kEmpty; }

// Before as many bytes again are allocated.
static void check_size(size_t bytes) {
  if (bytes >= kMaxText)
    throw Error(Code::invalid_argument,
                "a text of " + std::to_string(bytes) + " bytes is longer than the limit of " + std::to_string(kMaxText),
                "Tokenizer::encode");
}

std::vector<uint32_t> Tokenizer::encode(std::string_view text, Special special) const {
  check_size(text.size());
  return encode_masked(text, std::string(text.size(), special == Special::plain ? 1 : 0));
}

std::vector<uint32_t> Tokenizer::encode(std::span<const Piece> pieces) const {
  std::string text, plain;
  for (const Piece& piece : pieces) {
    text += piece.text;
    plain.append(piece.text.size(), piece.special == Special::plain ? 1 : 0);
  }
  return encode_masked(text, plain);
}

std::vector<uint32_t> Tokenizer::encode_masked(std::string_view text, std::string_view plain) const {
  check_size(text.size());
  std::vector<uint32_t> ids;
  size_t at = 0, next = 0;
  while (const auto match = impl_->added.find(text, plain, next, at)) {
    if (match->begin > at)
      encode_fragment(text.substr(at, match->begin - at), plain.substr(at, match->begin - at), at == 0, ids);
    if (match->begin < match->end) ids.push_back(match->id);
    at = match->end;
    next = match->next;
  }
  encode_fragment(text.substr(at), plain.substr(at), at == 0, ids);
  return ids;
}

// Text between added tokens. first: the whole text begins with it.
void Tokenizer::encode_fragment(std::string_view text, std::string_view plain, bool first,
                                std::vector<uint32_t>& ids) const {
  if (text.empty()) return;
  const Impl& impl = *impl_;
  const bool mixed = impl.has_control_normalized && plain.find_first_not_of(plain[0]) != std::string_view::npos;
  Normalizer::Text normal = impl.parts.normalizer.apply(text, mixed ? plain : std::string_view());
  if (!first) normal.origin = 0;
  if (impl.added_normalized.empty()) return encode_normalized(std::move(normal.text), normal.origin, ids);
  if (!mixed) normal.plain.assign(normal.text.size(), plain[0]);
  size_t at = 0, next = 0;
  const auto encode_to = [&](size_t end) {
    if (end <= at) return;
    const size_t origin = normal.origin > at ? std::min(normal.origin, end) - at : 0;
    encode_normalized(normal.text.substr(at, end - at), origin, ids);
  };
  while (const auto match = impl.added_normalized.find(normal.text, normal.plain, next, at)) {
    encode_to(match->begin);
    if (match->begin < match->end) ids.push_back(match->id);
    at = match->end;
    next = match->next;
  }
  encode_to(normal.text.size());
}

void Tokenizer::encode_normalized(std::string text, size_t origin, std::vector<uint32_t>& ids) const {
  const PreTokenizer::Pieces pieces = impl_->parts.pre_tokenizer.split(std::move(text), origin);
  Bpe::Scratch scratch;
  WantedRounds rounds;
  size_t begin = 0;
  for (const size_t end : pieces.ends) {
    rounds.next();
    const std::string_view piece = std::string_view(pieces.text).substr(begin, end - begin);
    if (const Bpe* bpe = std::get_if<Bpe>(&impl_->model))
      bpe->encode(piece, scratch, ids);
    else if (const WordPiece* words = std::get_if<WordPiece>(&impl_->model))
      words->encode(piece, ids);
    else
      std::get<Unigram>(impl_->model).encode(piece, ids);
    begin = end;
  }
}

std::string Tokenizer::decode(std::span<const uint32_t> ids) const {
  std::string text;
  for (const uint32_t id : ids) {
    if (!is_control(id)) text += impl_->parts.bytes[id];
  }
  size_t drop = 0;
  while (drop < impl_->parts.leading_spaces && drop < text.size() && text[drop] == ' ') ++drop;
  return replace_invalid_utf8(std::string_view(text).substr(drop));
}

}  // namespace weft
