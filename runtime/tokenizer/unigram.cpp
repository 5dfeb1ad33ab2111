#include "tokenizer/unigram.h"

#include <algorithm>

#include "base/utf8.h"
#include "base/wanted.h"

namespace weft {

namespace {

constexpr uint32_t kNone = ByteTrie::kNone;
// Cost of an unknown character above that of the least probable token: SentencePiece's constant.
constexpr double kUnknownPenalty = 10;

// The best way to a place of the text: its last token, and where that begins.
struct Place {
  double score = 0;
  uint32_t token = kNone, begin = kNone;  // begin kNone: not reached yet
};

}  // namespace

Unigram::Unigram(const UnigramOptions& options, const std::vector<std::string>& texts,
                 const std::vector<double>& scores, const std::array<uint32_t, 256>& byte_ids)
    : options_(options), scores_(scores), byte_ids_(byte_ids) {
  if (!scores.empty()) unknown_score_ = *std::min_element(scores.begin(), scores.end()) - kUnknownPenalty;
  for (size_t id = 0; id < texts.size(); ++id)
    if (!texts[id].empty() && texts[id].size() <= kLongest) trie_.insert(texts[id], static_cast<uint32_t>(id));
}

void Unigram::encode(std::string_view piece, std::vector<uint32_t>& ids) const {
  std::vector<Place> places(piece.size() + 1);
  const auto reach = [&](size_t begin, size_t end, uint32_t token, double score) {
    Place& place = places[end];
    score += places[begin].score;
    if (place.begin == kNone || score > place.score) place = {score, token, static_cast<uint32_t>(begin)};
  };
  WantedRounds rounds;
  for (size_t at = 0; at < piece.size();) {
    rounds.next();
    const size_t size = first_utf8(piece.substr(at)).size;
    bool known = false;  // a token is this very character
    uint32_t node = ByteTrie::kRoot;
    for (size_t end = at; end < piece.size();) {
      node = trie_.child(node, static_cast<unsigned char>(piece[end++]));
      if (node == kNone) break;
      const uint32_t token = trie_.value(node);
      if (token == kNone) continue;
      reach(at, end, token, scores_[token]);
      known = known || end == at + size;
    }
    if (!known) reach(at, at + size, options_.unknown, unknown_score_);
    at += size;
  }
  std::vector<std::pair<size_t, uint32_t>> path;  // where tokens begin, from the last to the first
  for (size_t end = piece.size(); end > 0; end = places[end].begin)
    path.emplace_back(places[end].begin, places[end].token);
  for (size_t i = path.size(); i-- > 0;) {
    if (path[i].second != options_.unknown) {
      ids.push_back(path[i].second);
      continue;
    }
    const size_t begin = path[i].first;
    while (i > 0 && path[i - 1].second == options_.unknown) --i;
    emit_unknown(piece.substr(begin, (i > 0 ? path[i - 1].first : piece.size()) - begin), ids);
  }
}

void Unigram::emit_unknown(std::string_view text, std::vector<uint32_t>& ids) const {
  const auto byte_id = [&](char c) { return byte_ids_[static_cast<unsigned char>(c)]; };
  if (options_.byte_fallback && std::all_of(text.begin(), text.end(), [&](char c) { return byte_id(c) != kNone; }))
    std::transform(text.begin(), text.end(), std::back_inserter(ids), byte_id);
  else
    ids.push_back(options_.unknown);
}

}  // namespace weft
