#include "grammar/token_trie.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace weft {

TokenTrie::TokenTrie(const std::vector<std::string>& bytes) : spans_(bytes.size()) {
  size_t total = 0;
  for (const std::string& text : bytes) total += text.size();
  if (total >= std::numeric_limits<uint32_t>::max() || bytes.size() >= std::numeric_limits<uint32_t>::max()) {
    throw Error(Code::unsupported,
                "the vocabulary's tokens have " + std::to_string(total) + " bytes, more than 2^32 - 2");
  }
  text_.reserve(total);
  for (size_t id = 0; id < bytes.size(); ++id) {
    spans_[id] = {static_cast<uint32_t>(text_.size()), static_cast<uint32_t>(bytes[id].size())};
    text_ += bytes[id];
    if (!bytes[id].empty()) tokens_.push_back(static_cast<uint32_t>(id));
  }
  // In the order of their bytes, tokens stand as their nodes do. Equal ones stay in the order of their ids.
  std::stable_sort(tokens_.begin(), tokens_.end(), [&](uint32_t a, uint32_t b) { return bytes[a] < bytes[b]; });

  std::vector<uint32_t> path;  // the nodes above the next token's
  std::string_view last;
  for (uint32_t i = 0; i < tokens_.size(); ++i) {
    const std::string_view text = this->bytes(tokens_[i]);
    const size_t common = std::mismatch(text.begin(), text.end(), last.begin(), last.end()).first - text.begin();
    for (; path.size() > common; path.pop_back()) nodes_[path.back()].end = static_cast<uint32_t>(nodes_.size());
    for (size_t depth = common; depth < text.size(); ++depth) {
      // Only the last of these nodes has tokens. This token is the first one below the others, so they get its number.
      path.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back({0, i, static_cast<uint32_t>(depth + 1), static_cast<uint8_t>(text[depth])});
    }
    last = text;
  }
  for (const uint32_t node : path) nodes_[node].end = static_cast<uint32_t>(nodes_.size());
  nodes_.push_back({0, static_cast<uint32_t>(tokens_.size()), 0, 0});
}

}  // namespace weft
