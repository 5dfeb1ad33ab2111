#include "tokenizer/word_piece.h"

#include "base/utf8.h"

namespace weft {

WordPiece::WordPiece(WordPieceOptions options, const std::vector<std::string>& texts) : options_(std::move(options)) {
  ids_.reserve(texts.size());
  for (size_t id = 0; id < texts.size(); ++id)
    if (!texts[id].empty()) ids_.emplace(texts[id], static_cast<uint32_t>(id));
}

void WordPiece::encode(std::string_view word, std::vector<uint32_t>& ids) const {
  std::vector<size_t> ends;  // of the word's characters
  for (size_t at = 0; at < word.size(); ends.push_back(at)) {
    at += first_utf8(word.substr(at)).size;
    if (ends.size() == options_.most_characters) return ids.push_back(options_.unknown);
  }
  const size_t kept = ids.size();
  std::string piece;
  for (size_t begin = 0, first = 0; begin < word.size();) {
    size_t last = ends.size();
    for (; last > first; --last) {
      piece = begin > 0 ? options_.continuation : std::string();
      piece += word.substr(begin, ends[last - 1] - begin);
      if (const auto found = ids_.find(piece); found != ids_.end()) {
        ids.push_back(found->second);
        break;
      }
    }
    if (last == first) {  // nothing goes on from here: the whole word is unknown
      ids.resize(kept);
      return ids.push_back(options_.unknown);
    }
    begin = ends[last - 1];
    first = last;
  }
}

}  // namespace weft
