// A trie of texts by their bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace weft {

class ByteTrie {
 public:
  static constexpr uint32_t kNone = UINT32_MAX, kRoot = 0;

  // A text that is already there keeps its value.
  void insert(std::string_view text, uint32_t value) {
    uint32_t node = kRoot;
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      uint32_t next = child(node, byte);
      if (next == kNone) {
        next = static_cast<uint32_t>(nodes_.size());
        nodes_.emplace_back();
        auto& children = nodes_[node].children;
        children.insert(std::lower_bound(children.begin(), children.end(), std::pair(byte, 0u)), {byte, next});
      }
      node = next;
    }
    if (nodes_[node].value == kNone) nodes_[node].value = value;
  }

  // The node after one more byte; kNone if no text continues with it.
  uint32_t child(uint32_t node, unsigned char byte) const {
    const auto& children = nodes_[node].children;
    const auto it = std::lower_bound(children.begin(), children.end(), std::pair(byte, 0u));
    return it != children.end() && it->first == byte ? it->second : kNone;
  }
  // The value of the text that ends at a node; kNone if none does.
  uint32_t value(uint32_t node) const { return nodes_[node].value; }

 private:
  struct Node {
    std::vector<std::pair<unsigned char, uint32_t>> children;  // by byte, ascending
    uint32_t value = kNone;
  };
  std::vector<Node> nodes_ = std::vector<Node>(1);
};

}  // namespace weft
