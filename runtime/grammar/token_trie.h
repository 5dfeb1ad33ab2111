// A vocabulary's tokens as a trie of their bytes, which a Matcher walks to find the tokens that a grammar allows.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

// Constant after construction: any number of threads may use one. A vocabulary of 262,144 tokens takes about 10 MB.
class TokenTrie {
 public:
  // bytes: of every token, by id (Tokenizer::token_bytes()); tokens without bytes are not in the trie. At most 2^32 - 1
  // of them, and of bytes.
  explicit TokenTrie(const std::vector<std::string>& bytes);

  // One more than the highest id.
  uint32_t vocabulary_size() const { return static_cast<uint32_t>(spans_.size()); }
  // Empty for ids that are not in it.
  std::string_view bytes(uint32_t id) const {
    return id < spans_.size() ? std::string_view(text_).substr(spans_[id].begin, spans_[id].size) : std::string_view();
  }

  // Nodes in preorder: a node's children follow it. The root, whose text is empty, is left out.
  struct Node {
    uint32_t end = 0;     // the first node after this one's descendants
    uint32_t tokens = 0;  // where tokens(node) begins
    uint32_t depth = 0;   // bytes of its text; 1 for children of the root
    uint8_t byte = 0;     // the last of its text
  };
  std::span<const Node> nodes() const { return std::span(nodes_).first(nodes_.size() - 1); }
  // The ids of the tokens that a node's text is; node: below nodes().size().
  std::span<const uint32_t> tokens(size_t node) const {
    return std::span(tokens_).subspan(nodes_[node].tokens, nodes_[node + 1].tokens - nodes_[node].tokens);
  }

 private:
  struct Bytes {
    uint32_t begin = 0, size = 0;
  };
  std::vector<Node> nodes_;  // one more than there are
  std::vector<uint32_t> tokens_;
  std::string text_;  // all tokens' bytes
  std::vector<Bytes> spans_;
};

}  // namespace weft
